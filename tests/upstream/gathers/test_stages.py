"""Upstream parses, verifies and prints every stage of every gather as we meant it; its machine code gives the bytes.

Both in one file, since the fixture `lowerings`, 13 s of CPU, is made by each process that runs a file.
"""

import re
from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np
import pytest

from gathernest.ir.interpreters.argument_views import bind_arguments
from gathernest.ir.modules.context import find_function, parse_module, print_generic
from gathernest.lowering.upstream.machine_code import C_FORM, c_call

pytestmark = pytest.mark.thorough

ANY_DIALECT = "--allow-unregistered-dialect"


@pytest.fixture(scope="session")
def nest_errors(upstream, lowerings) -> dict[str, str]:
    """What upstream says against the stages with our dialect, in generic form; all of them in one process."""
    return upstream.check(_distinct(lowerings, "nests"), ANY_DIALECT)


@pytest.fixture(scope="session")
def loops_errors(upstream, lowerings) -> dict[str, str]:
    """What upstream says against the stages of upstream dialects as they are printed."""
    return upstream.check(_distinct(lowerings, "loops"), ANY_DIALECT)


@pytest.fixture(scope="session")
def strict_errors(upstream, lowerings) -> dict[str, str]:
    """The same without our attributes and without the flag."""
    return upstream.check(_distinct(lowerings, "strict"))


@pytest.fixture(scope="session", params=["nest", "loops"])
def printed(request, upstream, lowerings) -> dict[str, tuple]:
    """The last module of a level and what upstream prints of it, in generic form."""
    modules = {name: lowering.kept[request.param] for name, lowering in lowerings.items()}
    texts = {name: print_generic(module) for name, module in modules.items()}
    prints = upstream.print(texts, ANY_DIALECT, "--mlir-print-op-generic")
    return {name: (module, prints[name]) for name, module in modules.items()}


@pytest.fixture(scope="session")
def read_back() -> dict[str, str]:
    """The modules, in our syntax, that were read back from upstream's text of them."""
    return {}


def _as_xdsl_knows_it(text: str) -> str:
    """Return upstream's text without two properties that xDSL lacks; the second is an attribute of ours."""
    text = re.sub(r'("arith.trunci"\(%\w+\)) <\{overflowFlags = #arith.overflow<none>\}>', r"\1", text)
    stream = r'("vector.store"\([^)]*\)) <\{alignment = (\d+) : i64, nontemporal = true\}>'
    return re.sub(stream, r"\1 <{nontemporal = true}> {alignment = \2 : i64}", text)


def _distinct(lowerings, group: str) -> dict[str, str]:
    """Return the texts of a group of stages, each once; a text is its own name."""
    return {text: text for lowering in lowerings.values() for _, text in getattr(lowering, group)}


def _rejected(stages: list[tuple[str, str]], errors: dict[str, str]) -> dict[str, str]:
    return {name: errors[text] for name, text in stages if text in errors}


def test_stage_with_our_dialect_is_accepted_in_generic_form(case, lowerings, nest_errors) -> None:
    nests = lowerings[case.name].nests
    assert [nests[0][0], nests[-1][0]] == ["operator", "hoist-invariants"]
    assert _rejected(nests, nest_errors) == {}


def test_loops_stage_is_accepted_as_printed(case, lowerings, loops_errors) -> None:
    loops = lowerings[case.name].loops
    assert [loops[0][0], loops[-1][0]] == ["lower-nest-to-loops", "cse"]
    assert _rejected(loops, loops_errors) == {}


def test_loops_stage_is_accepted_without_unregistered_dialects(case, lowerings, strict_errors) -> None:
    assert _rejected(lowerings[case.name].strict, strict_errors) == {}


def test_module_printed_by_upstream_reads_back_as_the_same(case, printed, read_back) -> None:
    module, text = printed[case.name]
    ours = str(module)
    if read_back.get(text) != ours:  # gathers that differ in the values of their indices have one module
        assert parse_module(_as_xdsl_knows_it(text)).is_structurally_equivalent(module)
        read_back[text] = ours


@dataclass
class Compiled:
    """Machine code of the stages that upstream lowered; `errors` has what it says against the others."""

    engine: llvm.ExecutionEngine
    errors: dict[str, str]

    def run(self, case, lowering, stage: int) -> tuple[int, np.ndarray]:
        """Call a stage on views of the operator's arrays; return what it returns (0 for nothing) and out."""
        entry, out = f"{lowering.entry}_{stage}", case.empty_out()
        assert entry not in self.errors, self.errors[entry]
        arrays = [case.data, out] if case.constant else [case.data, case.indices, out]
        function = find_function(lowering.kept["loops"], "gather")
        views, scales = bind_arguments(function, arrays)
        address = self.engine.get_function_address(f"{C_FORM}{entry}")
        return c_call(address, function.function_type, views, [scale for scale, _ in scales])(), out


@pytest.fixture(scope="session")
def compiled(upstream, lowerings) -> Compiled:
    """Every stage of every gather lowered, translated and compiled in one go."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    entries = {
        f"{lowering.entry}_{stage}": text
        for lowering in lowerings.values()
        for stage, (_, text) in enumerate(lowering.strict)
    }
    modules, errors = upstream.to_llvm_ir(entries)
    machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for text in modules.values():
        engine.add_module(llvm.parse_assembly(text))
    engine.finalize_object()
    return Compiled(engine, errors)


def _bytes(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array.view(f"V{array.itemsize}")).tobytes()


def _results(case, lowerings, compiled: Compiled) -> dict[str, tuple[int, bytes]]:
    """Return (indices outside, bytes of out) of every stage."""
    lowering = lowerings[case.name]
    runs = {name: compiled.run(case, lowering, stage) for stage, (name, _) in enumerate(lowering.strict)}
    return {name: (outside, _bytes(out)) for name, (outside, out) in runs.items()}


def test_llvm_ir_of_every_stage_gives_the_bytes_of_the_reference(good_case, lowerings, compiled) -> None:
    expected = (0, _bytes(good_case.expected()))
    assert [name for name, result in _results(good_case, lowerings, compiled).items() if result != expected] == []


def test_llvm_ir_of_every_stage_counts_the_indices_outside(bad_case, lowerings, compiled) -> None:
    results = _results(bad_case, lowerings, compiled)
    assert {name: outside for name, (outside, _) in results.items()} == dict.fromkeys(results, bad_case.outside())


def test_llvm_ir_of_every_stage_leaves_out_untouched_on_an_index_outside(bad_case, lowerings, compiled) -> None:
    untouched = _bytes(bad_case.empty_out())
    assert {out for _, out in _results(bad_case, lowerings, compiled).values()} == {untouched}
