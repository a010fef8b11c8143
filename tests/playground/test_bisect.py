"""`gathernest.bisect`: wrong passes, planted by hand, are named with an example of a few dozen elements."""

import re
from dataclasses import dataclass

import pytest
from xdsl.parser import Parser
from xdsl.passes import ModulePass

import gathernest as gn
from gathernest.ir.modules.context import make_context
from gathernest.kernels.runtime.compile import module_of
from gathernest.lowering.pipeline import parse_passes, run_pipeline
from gathernest.playground.bisect import WrongPass

TILED = "tile-loops{loops=indices sizes=4}"
STAGED = f"{TILED},interchange-loops{{order=indices_o,outer,indices_i,inner}},hoist-indices{{before=outer}}"
AHEAD = "prefetch{what=rows loop=indices ahead=4 locality=3}"
PARALLEL = "tile-loops{loops=indices sizes=2},parallelize-loops{loops=indices_o}"
ROWS = ("gather", "9x6xf32", "11xi64")
INNER = ("gather", "3x9x6xf32", "11xi64", 1)


@dataclass(frozen=True)
class Edited(ModulePass):
    """A pass of ours, behind which the module's text is edited: `pattern` becomes `into` once, where it is found."""

    name = "edited"

    right: ModulePass
    pattern: str
    into: str

    def apply(self, ctx, op):
        self.right.apply(ctx, op)
        text = re.sub(self.pattern, self.into, str(op), count=1)
        edited = Parser(make_context(), text).parse_module()
        for old in list(op.ops):
            old.detach()
        for new in list(edited.ops):
            new.detach()
            op.body.block.add_op(new)

    def __str__(self):
        return f"wrong-{self.right.name}"


# What is wrong: the gather, its bounds mode and schedule; the pass; the text behind it, and what it becomes.
WRONG = {
    "a tile is one short": (
        *(ROWS, "zero", TILED, "tile-loops", r"(%limit = )(arith.addi %\w+, %\w+ : index)"),
        r"%far = \2\n%less = arith.constant 1 : index\n\1arith.subi %far, %less : index",
    ),
    "a tile has no end": (ROWS, "zero", TILED, "tile-loops", r"arith.minsi (%limit)", r"arith.maxsi \1"),
    "the remainder begins one late": (
        *(ROWS, "zero", "vectorize-inner{lanes=4}", "vectorize-inner", r"(gather.loop inner_rest\(%\w+\) =) %whole"),
        r"%one9 = arith.constant 1 : index\n%late = arith.addi %whole, %one9 : index\n\1 %late",
    ),
    "the wrap of negative indices is dropped": (
        *(ROWS, "zero", "", "fold-bounds"),
        *(r"arith.addi %index, %shift", "arith.addi %index, %c63"),
    ),
    "the upper clamp is dropped": (
        ROWS,
        "clip",
        "",
        "fold-bounds",
        r"arith.minsi %index, %last",
        "arith.maxsi %index, %last",
    ),
    "the lower clamp is dropped": (
        ROWS,
        "clip",
        "",
        "fold-bounds",
        r"arith.maxsi (%\w+), %zero",
        r"arith.minsi \1, %zero",
    ),
    "a row outside is not zeroed": (
        *(ROWS, "zero", "", "fold-bounds"),
        *(r"arith.select %inside, %loaded, %nothing", "arith.select %inside, %loaded, %loaded"),
    ),
    "a vector is not masked": (
        *(ROWS, "zero", "vectorize-inner{lanes=4}", "vectorize-inner"),
        *(r"arith.andi %loaded, %masks", "arith.andi %loaded, %loaded"),
    ),
    "an index as large as the axis passes the check": (
        *(ROWS, "error", "", "fold-bounds"),
        *(r"arith.cmpi uge", "arith.cmpi ugt"),
    ),
    "the check counts nothing": (
        *(ROWS, "error", "", "fold-bounds", r"(%outside = arith.cmpi uge, %\w+, )%\w+"),
        r"%most = arith.constant -1 : i64\n\1%most",
    ),
    "a prefetch reads an index past the end": (
        ROWS,
        "zero",
        AHEAD,
        "prefetch",
        r"arith.minsi %later",
        "arith.maxsi %later",
    ),
    "a staged index is read from another place": (
        *(INNER, "zero", STAGED, "hoist-indices"),
        *(r"%kept = memref.load %positions\[%place_1\]", "%kept = memref.load %positions[%c0_2]"),
    ),
    "a staged index is read before it is written": (
        *(INNER, "zero", STAGED, "hoist-indices"),
        *(r"memref.store %narrow, %positions\[%place\]", "memref.store %narrow, %positions[%c0_2]"),
    ),
    "the mark of an index outside is lost": (
        *(INNER, "zero", STAGED, "hoist-indices"),
        *(r"%outside = arith.constant -1", "%outside = arith.constant 1"),
    ),
    "a narrow index loses its sign": (
        *(("gather", "9x6xf32", "11xi8"), "zero", "", "fold-bounds"),
        *(r"arith.extsi %index", "arith.extui %index"),
    ),
    "loops over slices and rows are swapped without their ends": (
        *(INNER, "zero", STAGED, "interchange-loops"),
        *(r"(gather.loop outer\(%\w+\) = %\w+ to) %n_outer", r"\1 %n_inner"),
    ),
    "an iteration is left out by unrolling": (
        *(ROWS, "zero", "unroll{loop=inner factor=2}", "unroll"),
        *(r"(%j_1 = arith.addi %j, )%\w+", r"\1%c0_2"),
    ),
    "the remainder of unrolling is dropped": (
        *(ROWS, "zero", "unroll{loop=inner factor=3}", "unroll"),
        *(r"(gather.loop inner_rest\(%\w+\) =) %whole", r"\1 %n_inner"),
    ),
    "parallel iterations store to one place": (
        *(ROWS, "zero", PARALLEL, "parallelize-loops"),
        *(r"(memref.store %\w+, %out\[%\w+, %\w+, )%i_i, ", r"\1%c0_2, "),
    ),
    "gradients of rows are added by parallel iterations": (
        *(("gather_grad", "9x6xf32", "11xi64"), "zero", "", "fold-bounds"),
        *(r"gather.loop ordered indices", "gather.loop parallel indices"),
    ),
    "merged dimensions have the wrong view": (
        *(("gather", "5x5x6xf32", "4xi64", 1), "zero", "", "collapse-dims"),
        *(r"outer\[0\], axis\[1\], inner\[2\]", "outer[1], axis[0], inner[2]"),
    ),
    "sizes are read from another dimension": (
        *(ROWS, "zero", "", "erase-sizes"),
        *(r"(%n_indices = memref.dim %out, )%\w+", r"\1%c1"),
    ),
    "an index is hoisted out of its loop": (
        *(ROWS, "zero", "", "hoist-invariants"),
        *(r"memref.load %indices\[%c0(\w*), %i\]", r"memref.load %indices[%c0\1, %c0\1]"),
    ),
    "a lowered loop takes two steps at once": (
        *(ROWS, "zero", "", "lower-nest-to-loops", r"(scf.for %i = %\w+ to %\w+ step) %\w+"),
        r"%two = arith.constant 2 : index\n\1 %two",
    ),
}


def bisected(case: str) -> tuple[WrongPass | None, str]:
    gather, bounds, schedule, wrong, pattern, into = WRONG[case]
    script = gn.schedule(*gather, bounds=bounds).apply(schedule)
    steps = parse_passes(str(script))
    place = next(number for number, step in enumerate(steps) if step.name == wrong)
    module = module_of(script.problem)
    run_pipeline(module, ",".join(str(step).replace('"', "") for step in steps[: place + 1]))
    assert re.search(pattern, str(module)), module
    steps[place] = Edited(steps[place], pattern, into)
    return gn.bisect(*gather, bounds=bounds, pipeline=steps), wrong


@pytest.mark.draw(1)
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_pass_is_named_with_a_small_example(case):
    found, wrong = bisected(case)
    assert found is not None
    assert found.name == f"wrong-{wrong}"
    assert found.data.size + found.indices.size <= 60
    assert str(found).startswith(f"wrong-{wrong} is wrong: ")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("gather", "options"),
    [
        (("gather", "1000x64xf32", "300xi64"), {}),
        (("gather", "3x40x8xf64", "3x7xi8", 1), {"batch_dims": 1, "bounds": "clip"}),
        (("gather_nd", "10x20x6xf32", "30x2xi32"), {"bounds": "wrap"}),
        (("gather_elements", "10x20xi16", "7x20xui8", 0), {"bounds": "zero"}),
        (("gather_grad", "100x6xf32", "30xi32"), {"bounds": "zero"}),
        (("gather_elements_grad", "10x20xf64", "7x20xi64", 0), {}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_our_own_passes_are_right(gather, options):
    assert gn.bisect(*gather, **options) is None


def test_passes_of_a_gather_by_unsigned_indices_of_64_bits_are_right():
    assert gn.bisect("gather", "10x6xf32", "3xui64", bounds="wrap") is None


def test_passes_of_a_gather_by_one_index_are_right():
    assert gn.bisect("gather", "3x4xf32", "i8", bounds="zero") is None


def test_the_file_of_an_example_runs_again(tmp_path):
    found, _ = bisected("the wrap of negative indices is dropped")
    assert found is not None
    lines = found.reproducer().splitlines()
    assert lines[0].startswith("// gathernest exec: --operator gather --data '[[")
    assert lines[0].endswith(" --bounds zero -p wrong-fold-bounds")
    got = gn.run_stage(found.reproducer(), found.data, found.indices, bounds="zero", pipeline="fold-bounds")
    assert got.tobytes() == gn.gather(found.data, found.indices, bounds="zero").tobytes()


def test_a_pass_that_fails_is_named():
    kernel = gn.compile(*ROWS, schedule=TILED)
    steps = parse_passes(kernel.pipeline)

    class Fails(ModulePass):
        name = "fails"

        def apply(self, ctx, op):
            raise ValueError("no such loop")

    steps.insert(6, Fails())
    found = gn.bisect(*ROWS, pipeline=steps)
    assert found is not None
    assert str(found).startswith("fails is wrong: it fails or leaves an invalid module: no such loop")


def test_a_schedule_that_is_not_legal_is_an_error():
    with pytest.raises(gn.ScheduleError, match="the nest has no loop 'nonesuch'; its loops are"):
        gn.bisect(*ROWS, schedule="tile-loops{loops=nonesuch sizes=4}")
