"""Results that nobody has yet are checked while they are copied; the caller's out is untouched by an error."""

import re
from dataclasses import replace

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.problem import Problem
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.registry import Pipeline
from gathernest.lowering.schedule.gather_heuristic import choose_gather
from gathernest.lowering.schedule.gradient_heuristic import gradient_ways
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.lowering.schedule.steps import VectorizeLists
from gathernest.lowering.schedule.tiling import CountedCheck, FusedCheck, StagedCheck, choose_check

COUNT = 30_000
DATA = np.random.default_rng(0).random(1000, dtype=np.float32)
INDICES = np.random.default_rng(1).integers(-1000, 1000, COUNT)
FUSION = "check-indices{how=fused loop=indices_o}"


def plan_of(*arguments, is_fresh: bool = True, **options) -> Plan:
    problem = problem_of(*arguments, **options)
    return make_plan(problem if is_fresh else problem.into(problem.result))


@pytest.mark.parametrize(
    ("arguments", "loop"),
    [
        (("gather", "1000xf32", "30000xi64"), "indices_o"),
        (("gather_nd", "30x30xf32", "30000x2xi64"), "indices_o"),
        (("gather_elements", "1000x600xf32", "1000x600xi64"), "indices_i"),  # 600 at a time
        (("gather_elements", "1000x60xf32", "1000x60xi64"), "indices_o"),
        (("gather", "1000x16xf32", "20000xi64"), "indices_o"),
        (("gather", "5x4xf32", "3xi64"), None),  # serial: there is nothing to gain
        (("gather", "30x9x8xf32", "9000xi64", 1), None),  # indices that the outer loop repeats
        (("gather", "1000xf32", "30000xi8"), None),  # nothing to check
        (("gather_grad", "1000xf32", "30000xi64"), None),
    ],
)
def test_indices_are_checked_in_a_parallel_loop_or_inside_it_where_that_pays(arguments, loop):
    check = plan_of(*arguments).check
    assert (check.loop if isinstance(check, FusedCheck) else None) == loop
    assert not isinstance(plan_of(*arguments, is_fresh=False).check, FusedCheck)
    assert ("check-indices{how=fused" in plan_of(*arguments).pipeline) == (loop is not None)


@pytest.mark.parametrize(("count", "loop"), [(900, "batch_i"), (128, "batch_i"), (127, "batch_o")])
def test_batches_are_checked_one_by_one_where_they_have_enough_indices(count, loop):
    plan = plan_of("gather", "512x4000xf32", f"512x{count}xi64", 1, batch_dims=1)
    assert plan.check == FusedCheck(loop, loop == "batch_i")


@pytest.mark.parametrize(
    ("arguments", "prefetches_all"),
    [
        (("gather", "512x4000xf32", "512x900xi64", 1, 1), True),
        (("gather", "512x4000xf32", "512x128xi32", 1, 1), True),
        (("gather", "512x4000xf32", "512x127xi64", 1, 1), False),  # too few of a batch: a tile of batches is checked
        (("gather", "512x4000xf32", "512x3000xi64", 1, 1), False),  # twice as many bytes as L1 has
        (("gather", "1000x16xf32", "20000xi64"), False),  # rows
    ],
)
def test_indices_that_are_checked_next_are_prefetched_where_the_cache_has_room(arguments, prefetches_all):
    axis, batch_dims = (*arguments, 0, 0)[3:5]
    nest, machine = plan_of(*arguments[:3], axis, batch_dims=batch_dims).layout.nest, BUILT_IN["zen4"]
    check = choose_check(nest, choose_gather(nest, machine).schedule, machine, is_fresh=True)
    assert isinstance(check, FusedCheck) and check.prefetches_all == prefetches_all


@pytest.mark.parametrize(
    ("arguments", "bits"),
    [
        (("gather_elements", "100000x64xf32", "100000x64xi64", 1), 8),
        (("gather_elements", "100000x256xf32", "100000x256xui64", 1), 8),
        (("gather_elements", "100000x257xf32", "100000x257xi64", 1), 16),
        (("gather_elements", "64x100000xf32", "64x100000xi64", 0), 8),  # columns
        (("gather_elements", "100000x64xf32", "100000x64xi32", 1), None),
        (("gather", "200xf32", "1000000xi64"), 8),
        (("gather", "65536xf32", "1000000xi64"), 16),
        (("gather", "65536xf32", "131073xi64"), 16),
        (("gather", "65536xf32", "131072xi64"), None),  # L2 holds the indices
        (("gather", "65537xf32", "1000000xi64"), None),
        (("gather", "200x64xf32", "1000000xi64"), None),  # rows
        (("gather", "1000x200xf32", "300000xi64", 1), None),  # staged for all rows
        (("gather", "500x4000xf32", "500x900xi64", 1, 1), 16),
        (("gather", "200xf32", "1000000xi64 strided<[2]>"), None),
        (("gather_nd", "4000xf32", "1000000x1xi64"), 16),
        (("gather_nd", "40x40xf32", "1000000x2xi64"), None),
    ],
)
def test_the_check_stages_positions_for_an_out_that_somebody_has_where_no_core_has_room_for_indices(arguments, bits):
    axis, batch_dims = (*arguments, 0, 0)[3:5]
    nest = plan_of(*arguments[:3], axis, batch_dims=batch_dims, is_fresh=False).layout.nest
    machine = BUILT_IN["zen4"]
    check = choose_check(nest, choose_gather(nest, machine).schedule, machine, is_fresh=False)
    assert check == (None if bits is None else StagedCheck(bits))


@pytest.mark.parametrize(
    ("arguments", "options", "new", "given"),
    [
        (("gather_reduce", "30000x16xf32", "4000x16xi64"), {}, "stage 16", "stage 16"),
        (("gather_reduce", "30000x16xf32", "4000x16xi32"), {}, "stage 16", "stage 16"),
        (("gather_max", "256x16xf32", "4000x16xui64"), {}, "stage 8", "stage 8"),
        (("gather_max", "256x16xf32", "4000x16xi16"), {}, "stage 8", "stage 8"),
        (("gather_max", "257x16xf32", "4000x16xi16"), {}, "indices_o", None),
        (("gather_reduce", "30000x16xf32", "511x16xi64"), {}, "indices_o", None),  # fewer indices
        (("gather_reduce", "65537x16xf32", "4000x16xi64"), {}, "indices_o", None),
        (("gather_mean", "300000x64xf32", "1000x200xi64"), {}, "indices", None),  # each bag by itself
        (("gather_mean", "300000x4xf32", "1000x300xi64"), {}, "indices_o", None),  # not so where a tile has several
        (("gather_reduce", "30000x16xf32", "4000x16xi64 strided<[32, 2]>"), {}, "indices_o", None),
        (("gather_reduce", "300000x64xf32", "10x2xi64"), {}, None, None),  # one thread
        (("gather_grad", "1000000xf32", "4000000xi64"), {}, "count", "count, stage"),  # lists
        (("gather_grad", "1000000xf32", "2999999xi64"), {}, "count", "count, stage"),
        (("gather_grad", "300000xf32", "2000000xi64"), {}, "count", None),  # which the last cache holds
        (("gather_grad", "4200000xf32", "40000000xi64"), {}, "count", None),  # too many bytes to copy
        (("gather_grad", "1000000xf32", "4000000xi16"), {}, None, None),  # nothing to check
        (("gather_grad", "1000000x8xf32", "400000xi64"), {}, "stage 32", "stage 32"),
        (("gather_grad", "60000x8xf32", "400000xi64"), {}, "stage 16", "stage 16"),
        (("gather_grad", "100xf32", "500000xi64"), {}, "stage 8", "stage 8"),
        (("gather_grad", "60000x8xf32", "400000xi32"), {}, None, None),
        (("gather_grad", "60000x8xf32", "100000xi64"), {}, None, None),  # L2 holds the indices
        (("gather_grad", "100x64xf32", "200000xi64"), {}, None, None),  # long rows
        (("gather_grad", "100000x64xf32", "200000xi64"), {}, None, None),  # sorted indices
        (("gather_grad", "512x4000xf32", "512x4000xi64"), {"axis": 1, "batch_dims": 1}, "batch", None),
        (("gather_elements_grad", "4000x300xf32", "4000x300xi64"), {"axis": 1}, "outer", None),
        (("gather_elements_grad", "4000x300xf32", "3000x300xi64"), {"axis": 0}, None, None),  # columns
    ],
)
def test_what_adds_is_checked_while_it_does_or_reads_staged_positions(arguments, options, new, given, monkeypatch):
    monkeypatch.setenv("GATHERNEST_NUM_THREADS", "2")
    for is_fresh, wanted in ((True, new), (False, given)):
        check = plan_of(*arguments, is_fresh=is_fresh, **options).check
        found = f"stage {check.bits}" if isinstance(check, StagedCheck) else getattr(check, "loop", None)
        if isinstance(check, CountedCheck):
            found = "count, stage" if check.keeps_out else "count"
        assert found == wanted, f"{check}, new result: {is_fresh}"


def test_owners_check_where_each_is_faster_than_memory_that_all_share():
    plan = plan_of("gather_grad", "1000000xf32", "8000000xi64")
    for bytes_per_ns, checks in ((30.0, True), (400.0, False)):
        machine = replace(BUILT_IN["zen4"], threads=64, memory_bytes_per_ns=bytes_per_ns)
        ways = [way.schedule for way in gradient_ways(plan.layout.nest, machine)]
        listing = next(way for way in ways if way.get(VectorizeLists))
        schedule = listing.without(VectorizeLists)  # lists that are not counted
        check = choose_check(plan.layout.nest, schedule, machine, is_fresh=True, is_gradient=True)
        assert isinstance(check, FusedCheck) == checks, f"{check} at {bytes_per_ns} GB/s"


def test_indices_that_are_sorted_are_not_staged():
    nest, machine = plan_of("gather_grad", "1000000x16xf32", "400000xi64").layout.nest, BUILT_IN["zen4"]
    sorts = Schedule.parse("specialize-inner{bytes=64},group-indices{loop=indices}")
    assert choose_check(nest, Schedule(), machine, is_fresh=False, is_gradient=True) == StagedCheck(32)
    assert choose_check(nest, sorts, machine, is_fresh=False, is_gradient=True) is None


@pytest.mark.draw(1)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("check", ["check-indices{how=fused loop=indices_o}", "check-indices{how=staged bits=16}"])
@pytest.mark.parametrize("operator", ["gather_reduce", "gather_mean", "gather_max", "gather_grad"])
def test_sums_keep_their_bytes_and_find_every_index_outside(operator, check, threads):
    rng, rows = np.random.default_rng(3), 1000
    is_gradient = operator == "gather_grad"
    indices = rng.integers(-rows, rows, 5000 if is_gradient else (3000, 5))
    data = rng.random((rows, 8), dtype=np.float32)
    source = rng.random((indices.size, 8), dtype=np.float32) if is_gradient else data
    loops = "clear_axis" if is_gradient else "clear_indices"
    tiles = f"tile-loops{{loops=indices,{loops} sizes=64,64}},parallelize-loops{{loops={loops}_o}}"
    if not is_gradient:
        tiles = "tile-loops{loops=indices sizes=64},parallelize-loops{loops=indices_o}"
    plain = gn.compile(operator, data, indices, schedule=tiles)
    base = re.sub(r"check-indices\{how=(fused|staged)[^}]*\},", "", plain.pipeline)
    kernel = gn.compile(operator, data, indices, pipeline=base.replace("hoist-inv", f"{check},hoist-inv", 1))
    assert check in kernel.pipeline
    with gn.knobs.scope(num_threads=threads):
        wanted = gn.compile(operator, data, indices, pipeline=base)(source, indices)
        out = np.full(wanted.shape, 9, np.float32)
        assert kernel(source, indices).tobytes() == kernel(source, indices, out=out).tobytes() == wanted.tobytes()
        for place in (0, indices.size // 2, indices.size - 1):
            for bad in (rows, -rows - 1, 65536 + rows, 2**40, -(2**63)):
                wrong = indices.copy()
                wrong.flat[place] = bad
                with pytest.raises(gn.BoundsError, match=f"index {bad} at position"):
                    kernel(source, wrong)
                with pytest.raises(gn.BoundsError, match=f"index {bad} at position"):
                    kernel(source, wrong, out=out)
        assert out.tobytes() == wanted.tobytes()


def test_a_kernel_that_stages_positions_has_a_key_and_a_reason_of_its_own():
    new, given = (
        plan_of("gather_elements", "100000x64xf32", "100000x64xi64", 1, is_fresh=fresh) for fresh in (True, False)
    )
    assert given.key.endswith(", positions of 8 bits staged by the check") and "positions" not in new.key
    assert given.problem_class == new.problem_class and given.check == StagedCheck(8)
    assert "check-indices{how=staged bits=8},hoist-invariants" in given.pipeline
    assert "how=staged" not in new.pipeline
    assert given.reasons[-1] == "out is given: the check stages positions of 8 bits, and the copy reads these"


@pytest.mark.draw(3)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_a_call_that_stages_positions_gathers_and_leaves_out_as_it_was_where_an_index_is_outside(dtype, threads):
    data = np.arange(3001 * 61).reshape(3001, 61).astype(dtype)
    indices = np.random.default_rng(2).integers(-61, 61, (3001, 61))
    chosen = gn.compile("gather_elements", data, indices, 1).with_out.pipeline
    plain = re.sub(r"check-indices\{[^}]*\},", "", chosen)
    text = plain.replace("hoist-inv", "check-indices{how=staged bits=8},hoist-inv")
    with gn.knobs.scope(num_threads=threads):
        kernel, out = gn.compile("gather_elements", data, indices, 1, pipeline=text), np.zeros(indices.shape, dtype)
        assert kernel.with_out.pipeline.count("how=staged bits=8") == 1
        assert kernel(data, indices, out=out) is out
        assert out.tobytes() == np.take_along_axis(data, indices, 1).tobytes()
        for place in ((0, 0), (1234, 5), (3000, 60)):
            for bad in (61, -62, 256, -257, 2**40, -(2**63)):
                wrong = indices.copy()
                wrong[place] = bad
                with pytest.raises(gn.BoundsError, match=str(bad)):
                    kernel(data, wrong, out=out)
        assert out.tobytes() == np.take_along_axis(data, indices, 1).tobytes()


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("check-indices{how=staged bits=8}", 1 << 8),
        ("cse,check-indices{how=staged  bits=16 },cse", 1 << 16),
        ("check-indices{how=staged bits=16},check-indices{how=staged bits=8}", 1 << 8),
        ("check-indices{how=staged bits=+8}", 1 << 8),
        ("my-check-indices{how=staged bits=8}", None),
        ("check-indices{how=staged}", None),
        ("cse", None),
    ],
)
def test_the_most_positions_of_a_pipeline_are_those_of_its_pass(text, most):
    assert Pipeline(text).most_axis_size == most


def test_a_pipeline_whose_positions_are_too_narrow_for_the_axis_is_rejected():
    text = plan_of("gather_elements", "1000x60xf32", "1000x60xi64", 1, is_fresh=False).pipeline
    text = text.replace("hoist-invariants", "check-indices{how=staged bits=8},hoist-invariants")
    wide = problem_of("gather_elements", "1000x257xf32", "1000x60xi64", 1)
    with pytest.raises(gn.ScheduleError, match="the pipeline is for axes of at most 256 positions, got 257"):
        make_plan(wide, Pipeline(text))
    make_plan(problem_of("gather_elements", "1000x256xf32", "1000x60xi64", 1), Pipeline(text))


def test_a_pipeline_for_rows_of_another_size_is_rejected():
    data, indices = np.zeros((100, 8), np.float32), np.zeros(50, np.int64)
    text = make_plan(problem_of("gather", data, indices), Schedule.parse("specialize-inner{bytes=32}")).pipeline
    gn.compile("gather", data, indices, pipeline=text)
    for given in ("16", "+16"):
        with pytest.raises(gn.ScheduleError, match="for rows of 16 bytes, got rows of 32; leave specialize-inner out"):
            gn.compile("gather", data, indices, pipeline=text.replace("bytes=32", f"bytes={given}"))


def test_a_fused_kernel_has_a_key_of_its_own_and_no_other_class():
    fused, separate = (plan_of("gather", "1000xf32", "30000xi64", is_fresh=fresh) for fresh in (True, False))
    assert fused.key.endswith(", checked in indices_o")
    assert ("check_indices" in separate.key, "check_indices" in fused.key) == (True, False)
    assert fused.problem_class == separate.problem_class
    assert "indices_o checks the indices of an iteration right before it copies" in fused.reasons[-1]


def test_a_fused_call_gathers_and_finds_the_index_outside_and_leaves_out_as_it_was():
    bad, out = INDICES.copy(), np.full(COUNT, -1, np.float32)
    bad[[7, COUNT - 1]] = 1000, -1001
    kernel = gn.compile("gather", DATA, INDICES)
    for gather in (gn.gather, kernel):
        for _ in range(3):  # a new call, a prepared one, and one that the call cache has
            assert gather(DATA, INDICES).tobytes() == DATA[INDICES].tobytes()
            for options in ({}, {"out": out}):
                with pytest.raises(gn.BoundsError, match=r"index 1000 at position \(7,\).*\(2 of 30000 indices are"):
                    gather(DATA, bad, **options)
            assert (out == -1).all()
    assert FUSION in kernel.pipeline


def test_a_given_pipeline_that_fuses_does_not_for_an_out_of_the_caller():
    problem, given = problem_of("gather", DATA, INDICES), Pipeline(plan_of("gather", DATA, INDICES).pipeline)
    fresh, into = make_plan(problem, given), make_plan(problem.into(problem.result), given)
    assert FUSION in fresh.pipeline and FUSION in fresh.key
    assert into.pipeline == fresh.pipeline.replace(f"{FUSION},", "") and FUSION not in into.key


def test_a_pipeline_for_an_out_of_the_caller_has_no_fusion():
    for text in (f"canonical,{FUSION},cse", f"canonical, {FUSION} , cse", "canonical,check-indices{how=fused},cse"):
        assert "fuse" in Pipeline(text).expanded()
        without = Pipeline(text).expanded(is_fresh=False)
        assert "fuse" not in without and without.replace(" ", "").endswith("collapse-dims,cse")


def test_a_problem_into_an_array_of_the_caller_is_not_fresh():
    problem: Problem = problem_of("gather", DATA, INDICES)
    assert problem.is_fresh and not problem.into(problem.result).is_fresh


@pytest.mark.parametrize("schedule", [None, "vectorize-inner{lanes=4}"])
def test_with_out_is_the_kernel_that_calls_with_out_run(schedule, forget):
    forget()
    kernel = gn.compile("gather", DATA, INDICES, schedule=schedule)
    given = kernel.with_out
    assert "fuse" not in given.pipeline and given.given_schedule == kernel.given_schedule
    known = len(RUNTIME.loaded)
    assert kernel(DATA, INDICES, out=np.empty(COUNT, np.float32)).tobytes() == DATA[INDICES].tobytes()
    assert len(RUNTIME.loaded) == known
    assert given(DATA, INDICES).tobytes() == DATA[INDICES].tobytes()
    forget()


def test_a_kernel_for_calls_with_out_is_compiled_ahead_where_that_is_asked_for(forget):
    out = np.empty(COUNT, np.float32)
    for with_out, ahead in ((False, 1), (True, 2)):
        forget()
        kernel = gn.compile("gather", DATA, INDICES, with_out=with_out)
        assert len(RUNTIME.loaded) == ahead and FUSION in kernel.pipeline
        assert kernel(DATA, INDICES, out=out) is out and out.tobytes() == DATA[INDICES].tobytes()
        assert len(RUNTIME.loaded) == 2
    forget()
    gn.compile("gather", DATA, INDICES, bounds="zero", with_out=True)
    assert len(RUNTIME.loaded) == 1
