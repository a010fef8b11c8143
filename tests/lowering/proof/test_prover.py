"""Right passes are proved for all sizes: each operator, bounds mode, index type and step of a schedule."""

import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.operator_module import gather_module, operator_module
from gathernest.ir.operator_spec import Gather, Gradient
from gathernest.ir.semantics import Bounds
from gathernest.lowering.proof.prover import Status
from gathernest.lowering.registry import PIPELINES

from ...selection import example_ratio

NEST = "canonical,lower-to-nest,fold-bounds,erase-sizes"
SETTLED = {Status.PROVED, Status.UNCHANGED}
ROWS = "interchange-loops{order=batch,indices_o,outer,indices_i,inner}"
SCHEDULES = {
    "tiles": "tile-loops{loops=indices,inner sizes=16,5}",
    "parallel tiles": f"tile-loops{{loops=indices sizes=16}},{ROWS},parallelize-loops{{loops=batch,indices_o}}",
    "staged indices": f"tile-loops{{loops=indices sizes=16}},{ROWS},parallelize-loops{{loops=batch,indices_o}}"
    ",hoist-indices{before=outer}",
    "staged, vectors, streams": f"tile-loops{{loops=indices sizes=16}},{ROWS},hoist-indices{{before=outer}}"
    ",vectorize-inner{lanes=4},prefetch{what=rows loop=indices_i ahead=4 lines=2},stream-stores",
    "long rows": "specialize-inner{bytes=256},vectorize-inner{lanes=8},stream-stores",
    "long rows of any size": "vectorize-inner{lanes=8},stream-stores",
    "known rows": "specialize-inner{bytes=24},vectorize-inner{lanes=4},prefetch{what=rows loop=indices},stream-stores",
    "rows of two vectors": "bound-inner{least=20 most=28},vectorize-inner{lanes=4}",
    "rows in a loop": "bound-inner{least=32 most=0},vectorize-inner{lanes=8}"
    ",prefetch{what=rows loop=indices ahead=3 lines=0 separate=inner}",
    "unrolled": "unroll{loop=inner factor=4}",
    "swept rows": "vectorize-inner{lanes=4},prefetch{what=rows loop=indices ahead=3 lines=0},stream-stores",
    "tiles of tiles and of vectors": "tile-loops{loops=indices,indices_o sizes=4,3},vectorize-inner{lanes=4}"
    ",tile-loops{loops=inner sizes=2},stream-stores,parallelize-loops{loops=batch}",
}

# From 2 on, default pipelines are proved for all index types: `make fuzz`.
INDEX_TYPES = ["i64"] if example_ratio() <= 1 else ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]


def unsettled(verdicts: list) -> list[str]:
    """Return what is not proved, from the nest on."""
    names = [verdict.name.partition("{")[0] for verdict in verdicts]
    first = next(place for place, name in enumerate(names) if name.endswith("-to-nest"))
    return [str(verdict) for verdict in verdicts[first:] if verdict.status not in SETTLED]


@pytest.mark.draw(3)
@pytest.mark.parametrize("index", INDEX_TYPES)
@pytest.mark.parametrize("bounds", Bounds)
@pytest.mark.parametrize("name", ["gather", "gather_nd", "gather_elements"])
def test_default_pipeline_is_proved(name, bounds, index, operator, prove) -> None:
    verdicts = prove(operator(name, bounds, index), PIPELINES["default"])
    assert unsettled(verdicts) == []
    assert verdicts[-1].status is Status.PROVED


@pytest.mark.draw(2)
@pytest.mark.parametrize("index", INDEX_TYPES)
@pytest.mark.parametrize("bounds", Bounds)
@pytest.mark.parametrize("name", ["gather", "gather_nd"])
def test_default_pipeline_of_a_gradient_is_proved(name, bounds, index, operator, prove) -> None:
    verdicts = prove(operator(name, bounds, index, scale=2.0), PIPELINES["default"])
    assert unsettled(verdicts) == []
    assert verdicts[-1].status is Status.PROVED


def test_sums_of_owners_in_parallel_are_proved(operator, prove) -> None:
    owners = "owner-computes{owners=3},tile-loops{loops=indices sizes=16},parallelize-loops{loops=owners}"
    vectors = "vectorize-inner{lanes=4},stream-stores"
    pipeline = f"canonical,lower-to-nest,fold-bounds,erase-sizes,{owners},{vectors}"
    assert unsettled(prove(operator("gather", "zero", scale=1.0), f"{pipeline},lower-nest-to-loops")) == []


def test_owners_that_clear_and_scale_their_own_positions_are_proved(operator, prove) -> None:
    owners = "owner-computes{owners=3},fuse-into-owners,tile-loops{loops=indices sizes=16}"
    pipeline = f"canonical,lower-to-nest,fold-bounds,erase-sizes,{owners},parallelize-loops{{loops=owners}}"
    pipeline += ",vectorize-inner{lanes=4},prefetch{what=slices loop=indices_i ahead=2 locality=2},lower-nest-to-loops"
    assert unsettled(prove(operator("gather", "zero", scale=2.0), pipeline)) == []


@pytest.mark.thorough
def test_listed_places_are_undecided_with_a_reason_and_right_in_samples(operator, prove) -> None:
    pipeline = "canonical,lower-to-nest,fold-bounds,erase-sizes,owner-computes{owners=3}"
    pipeline += ",tile-loops{loops=indices sizes=2},compact-indices{loop=indices_i}"
    last = prove(operator("gather", "zero", scale=1.0), pipeline)[-1]
    assert last.status is Status.UNDECIDED and last.samples > 0
    assert last.reason == "a buffer holds a list, whose length the nest counts while it runs"


@pytest.mark.parametrize("more", ["", ",parallelize-sort{parts=3}"])
def test_sorted_indices_are_undecided_with_a_reason_and_right_in_samples(prove, more) -> None:
    arrays = ArraySpec.parse("9x6xf32"), ArraySpec.parse("17xi64")
    module = operator_module(Gather(), *arrays, bounds="zero", gradient=Gradient(2.0))
    pipeline = "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,group-indices{loop=indices}"
    last = prove(module, pipeline + more)[-1]
    assert last.status is Status.UNDECIDED and last.samples > 0
    assert last.reason == "indices are sorted by position, and the nest counts their places while it runs"


@pytest.mark.draw(7)
@pytest.mark.parametrize("index", ["i8", "ui8", "i32", "ui64"])
@pytest.mark.parametrize("bounds", Bounds)
def test_bounds_of_every_index_type_are_proved(bounds, index, operator, prove) -> None:
    assert unsettled(prove(operator("gather", bounds, index), NEST)) == []


@pytest.mark.draw(2)
@pytest.mark.parametrize("bounds", Bounds)
def test_int8_indices_within_a_long_axis_need_no_upper_check(bounds, prove) -> None:
    assert unsettled(prove(gather_module("300x4xf32", "5xi8", bounds=bounds), NEST)) == []


@pytest.mark.draw(2)
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_is_proved(name, operator, prove) -> None:
    pipeline = f"{NEST},drop-unit-loops,{SCHEDULES[name]},hoist-invariants,lower-nest-to-loops"
    assert unsettled(prove(operator("gather", "zero"), pipeline)) == []


def test_a_schedule_behind_the_check_of_the_indices_is_proved(operator, prove) -> None:
    tiles = "tile-loops{loops=indices,check_indices sizes=16,32},parallelize-loops{loops=check_indices_o,batch}"
    assert unsettled(prove(operator("gather", "error"), f"{NEST},{tiles},vectorize-inner{{lanes=4}}")) == []


@pytest.mark.draw(1)
@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("gather", f"{SCHEDULES['staged, vectors, streams']},check-indices{{how=fused loop=indices_o}}"),
        ("gather", f"{SCHEDULES['parallel tiles']},check-indices{{how=fused}}"),
        ("gather_nd", "tile-loops{loops=indices sizes=16},check-indices{how=fused loop=indices_o}"),
        ("gather_elements", "vectorize-inner{lanes=4},check-indices{how=fused loop=outer}"),
    ],
)
def test_a_check_that_is_fused_with_the_copy_is_proved(name, schedule, operator, prove) -> None:
    verdicts = prove(operator(name, "error"), f"{NEST},drop-unit-loops,{schedule},hoist-invariants,lower-nest-to-loops")
    assert unsettled(verdicts) == []
    (fusion,) = (verdict for verdict in verdicts if verdict.name.startswith("check-indices"))
    assert fusion.status is Status.PROVED


def test_a_vector_of_elements_with_an_index_each_is_proved(prove) -> None:
    pipeline = f"{NEST},drop-unit-loops,vectorize-inner{{lanes=4}},stream-stores,lower-nest-to-loops"
    assert unsettled(prove(gather_module("10x9xf32", "7xi32", axis=1, bounds="zero"), pipeline)) == []


def test_a_known_number_of_elements_with_an_index_each_is_proved(prove) -> None:
    known = "specialize-inner{bytes=24},vectorize-inner{lanes=4},hoist-invariants,lower-nest-to-loops"
    module = gather_module("5x9xf32", "5x6xi32", axis=1, batch_dims=1, bounds="zero")
    assert unsettled(prove(module, f"{NEST},drop-unit-loops,{known}")) == []


@pytest.mark.thorough
def test_static_sizes_are_proved(operator, prove) -> None:
    assert unsettled(prove(operator("gather", "clip"), PIPELINES["static"])) == []


def test_an_undecided_pass_says_why_and_how_many_gathers_were_tried(prove) -> None:
    module = gather_module("4x5x6xf32", "3xi64", axis=0)
    verdict = prove(module, "canonical,erase-sizes")[-1]
    assert str(verdict) == (
        "erase-sizes: undecided: the operator is no loop nest yet; 12 gathers of other sizes give the right bytes"
    )
