"""Scripts that keep the bytes at each step; those that are rejected are in the golden calls/scripts.txt."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir import reference
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.context import parse_module
from gathernest.kernels.runtime.compile import module_of
from gathernest.lowering.pipeline import run_pipeline
from gathernest.lowering.upstream.machine_code import LLVM_MAJOR, run_tool

from ..selection import example_ratio

# From 2 on, kernels are compiled after each step, and not after the last only: `make fuzz`.
COMPILES_EACH_STEP = example_ratio() > 1

RNG = np.random.default_rng(11)
ROWS = RNG.random((3, 6, 9), dtype=np.float32)
TABLE = RNG.random((40, 6)).astype(np.float64)


@dataclass(frozen=True)
class Gather:
    """One gather or gradient with its arrays.

    Attributes:
        data: of a gradient, an array of the shape of its result.
        source: what it reads in the place of data; of a gradient, grad.
    """

    operator: str
    data: np.ndarray
    indices: np.ndarray
    options: dict[str, Any] = field(default_factory=dict)
    source: np.ndarray | None = None

    def script(self) -> gn.ScheduleScript:
        return gn.schedule(self.operator, self.data, self.indices, **self.options)

    @property
    def read(self) -> np.ndarray:
        return self.data if self.source is None else self.source

    @cached_property
    def expected(self) -> np.ndarray:
        problem = self.script().problem
        if problem.gradient is None:
            return reference.run(problem.operator, self.data, self.indices, problem.bounds)
        shape, scale = self.data.shape, problem.gradient.scale
        return reference.gradient(problem.operator, self.read, self.indices, shape, problem.bounds, scale)

    def interpreted(self, ir: str, *seeds: int) -> set[bytes]:
        """Return the results for each seed, as bytes."""
        module, found = parse_module(ir), set()
        for seed in seeds:
            out = np.full_like(self.expected, 99)
            interpret(module, self.read, self.indices, out, seed=seed)
            found.add(out.tobytes())
        return found


GATHERS = {
    "rows": Gather("gather", ROWS, RNG.integers(-6, 6, 9), {"axis": 1}),
    "table": Gather("gather", TABLE, RNG.integers(0, 40, 21), {"bounds": "unchecked"}),
    "columns": Gather("gather", ROWS, RNG.integers(-22, 22, 13), {"axis": 2, "bounds": "wrap"}),
    "batches": Gather("gather", ROWS, RNG.integers(-12, 12, (3, 5)), {"axis": 1, "batch_dims": 1, "bounds": "zero"}),
    "strided": Gather("gather", ROWS[:, ::2, ::-1], RNG.integers(-3, 3, 7).astype(np.int8), {"axis": 1}),
    "tuples": Gather("gather_nd", ROWS, RNG.integers(-4, 8, (11, 2)), {"bounds": "zero"}),
    "elements": Gather("gather_elements", ROWS, RNG.integers(-20, 20, (3, 5, 9)), {"axis": 1, "bounds": "clip"}),
    "sums": Gather(
        "gather_grad",
        np.zeros((9, 10), np.float32),
        RNG.integers(-9, 9, 15),
        {"scale": 0.5},
        ROWS.reshape(-1)[:150].reshape(15, 10),
    ),
}

# By what they show: the gather, and the steps.
LEGAL: dict[str, tuple[str, str]] = {
    "a tile": ("rows", 's.tile("indices", 4)'),
    "a loop tiled twice": (
        "rows",
        'o, i = s.tile("indices", 4)\ns.tile(i, 3)\ns.tile(o, 2)\ns.interchange(o.outer, "outer")\n'
        's.interchange("inner", i.inner)\ns.parallel(o.outer)',
    ),
    "tiles of two loops": (
        "rows",
        's.tile("outer", 2)\ns.tile("indices", 4)\ns.interchange("indices_o", "outer_i")\n'
        's.parallel("outer_o", "indices_o")',
    ),
    "an order inside out": ("rows", 's.interchange("inner", "indices", "outer")\ns.parallel("inner", "indices")'),
    "parallel before tiles": ("rows", 'i = s.loop("indices")\ns.interchange(i, "outer")\ns.parallel(i)\ns.tile(i, 5)'),
    "every step": (
        "rows",
        'i = s.loop("indices")\nouter, inner = s.tile(i, 4)\ns.interchange(outer, "outer", inner)\ns.parallel(outer)\n'
        's.stage_indices("outer")\ns.vectorize("inner", 4)\ns.prefetch(inner, ahead=2)\ns.stream()',
    ),
    "vectors, then the remainder unrolled": (
        "table",
        'j = s.loop("inner")\ns.vectorize(j, 4)\ns.unroll(j.remainder, 2)\ns.tile("indices", 7)\n'
        's.parallel("indices_o")',
    ),
    "rows of a known size": ("table", 's.specialize()\ns.vectorize("inner", 4)\ns.stream()\ns.parallel("indices")'),
    "prefetch before tiles": ("table", 's.prefetch("indices", ahead=3, lines=2)\ns.tile("indices", 6)'),
    "a lane gather": ("columns", 's.tile("indices", 8)\ns.vectorize("indices_i", 4)\ns.unroll("indices_i_rest", 3)'),
    "staged in tiles of tiles": (
        "columns",
        'o, i = s.tile("indices", 6)\no2, i2 = s.tile(i, 3)\ns.stage_indices(i2)\ns.unroll(i2, 2)',
    ),
    "batches": (
        "batches",
        's.tile("batch", 2)\ns.parallel("batch_o")\ns.vectorize("inner", lanes=8)\ns.unroll("inner_rest", 2)',
    ),
    "loops that check": (
        "strided",
        's.tile("check_indices", 3)\ns.parallel("check_indices_o", "outer")\ns.interchange("inner", "indices")',
    ),
    "tuples": (
        "tuples",
        's.tile("indices", 5)\ns.parallel("indices_o")\ns.stage_indices("indices_i")\ns.vectorize("inner", 2)',
    ),
    "a gradient": ("sums", 's.owner_computes(3)\ns.parallel("owners")\ns.vectorize("inner", 4)\ns.stream()'),
    "listed rows": (
        "sums",
        's.owner_computes(2)\ns.fuse_into_owners()\ns.tile("indices", 8)\n'
        's.parallel("owners")\n'
        's.list_indices("indices_i")\ns.vectorize("inner", 4)\ns.prefetch("indices_i", ahead=2, what="slices")',
    ),
}


def written(gather: Gather, steps: str) -> gn.ScheduleScript:
    """Return a script after its steps."""
    script = gather.script()
    exec(steps, {"s": script})
    return script


@pytest.fixture(params=LEGAL)
def legal(request) -> tuple[Gather, str]:
    name, steps = LEGAL[request.param]
    return GATHERS[name], steps


@pytest.mark.draw(2)
def test_each_step_keeps_the_bytes_interpreted_and_compiled(legal):
    gather, steps = legal
    wanted, script, known = gather.expected.tobytes(), gather.script(), {}
    for step in ["", *steps.splitlines()]:
        before = script.ir
        exec(step, {"s": script}, known)
        assert (script.ir != before) == ("= s.loop" not in step and step != "")
        if script.ir != before or step == "":
            assert gather.interpreted(script.ir, *((0, 1) if "parallel" in script.passes else (0,))) == {wanted}
        if COMPILES_EACH_STEP:
            assert script.compile()(gather.read, gather.indices).tobytes() == wanted
    kernel = script.compile()
    assert kernel(gather.read, gather.indices).tobytes() == wanted
    assert gather.interpreted(kernel.stages["cse"], 0) == {wanted}


@pytest.mark.draw(8)
def test_its_trace_replays_to_the_same_ir(legal):
    script, known = written(*legal), {}
    exec(script.trace, known)
    assert known["s"].ir == script.ir
    assert known["s"].trace == script.trace


@pytest.mark.draw(4)
def test_undo_gives_each_nest_back(legal):
    gather, _ = legal
    script, again = written(*legal), gather.script()
    irs = [again.ir]
    for call in script.calls:
        eval(f"s.{call}", {"s": again})
        irs.append(again.ir)
    for ir in reversed(irs):
        assert script.ir == ir
        if script.calls:
            script.undo()
    with pytest.raises(gn.ScheduleError, match="there is no step to undo"):
        script.undo()


@pytest.mark.draw(4)
def test_its_pipeline_gives_the_loops_of_its_kernel(legal):
    script = written(*legal)
    module = module_of(script.problem)
    run_pipeline(module, str(script))
    assert script.compile().stages["cse"].strip() == str(module).strip()


@pytest.mark.draw(4)
def test_its_transform_script_reads_back(legal):
    gather, _ = legal
    script = written(*legal)
    text = script.to_transform()
    again = gather.script().from_transform(text)
    assert (again.ir, again.passes, again.to_transform()) == (script.ir, script.passes, text)


@pytest.mark.draw(4)
@pytest.mark.parametrize("options", [(), ("--mlir-print-op-generic",)], ids=["pretty", "generic"])
def test_its_transform_script_reads_back_as_upstream_prints_it(legal, program, options):
    gather, _ = legal
    script = written(*legal)
    text = script.to_transform()
    read = run_tool([program("mlir-opt", major=LLVM_MAJOR), *options], text).decode()
    again = gather.script().from_transform(read)
    assert (again.ir, again.passes, again.to_transform()) == (script.ir, script.passes, text)


@pytest.mark.draw(1)
@pytest.mark.parametrize("operator", ["gather_reduce", "gather_mean", "gather_max"])
def test_bags_have_scripts_too(operator):
    bags = RNG.integers(0, 40, (9, 4))
    script = gn.schedule(operator, TABLE, bags)
    assert {"indices", "bag", "inner"} <= set(script.labels)
    wanted = gn.compile(operator, TABLE, bags, schedule="")(TABLE, bags)
    for made in (script, gn.schedule(operator, TABLE, bags).vectorize("inner", 2)):
        kernel = made.compile()
        assert str(made) == kernel.pipeline
        np.testing.assert_array_equal(kernel(TABLE, bags), wanted)
