"""Reductions against sums made one by one in plain Python: at every stage, compiled, and on any number of threads."""

import itertools
import random
import zlib

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gathernest as gn
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.interpreters.interpreter import Machine, interpret
from gathernest.ir.modules.context import parse_module
from gathernest.ir.operator_spec import GatherMax, GatherMean, GatherReduce
from gathernest.ir.problem import Problem
from gathernest.ir.reference import resolve, run
from gathernest.ir.semantics import Bounds
from gathernest.kernels.gather import run_operator
from gathernest.kernels.reduction.bags import WEIGHTED, WEIGHTED_MEAN, with_weights
from gathernest.kernels.runtime.compile import build_program, run_stages
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.schedule.schedule import Schedule

from ..selection import examples
from .cases import EXACT

TILED_ROWS = "tile-loops{loops=inner sizes=8},interchange-loops{order=inner_o,bag,inner_i},vectorize-inner{lanes=4}"
DTYPES = tuple(map(np.dtype, ("f4", "f8", "c8", "i1", "i8", "u2")))
IN_REGISTERS = "specialize-inner{bytes=52},vectorize-inner{lanes=4},prefetch{what=rows loop=bag ahead=2 locality=3}"


def numbers(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return numbers whose sums in another order are other sums, some of them signed zeros, infinities and none."""
    rng = np.random.default_rng(5)
    if dtype.kind in "iu":
        return rng.integers(-(2**62), 2**62, shape).astype(dtype)
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
    values = np.where(rng.random(shape) < 0.05, -0.0, values)
    return (values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def sums_one_by_one(data: np.ndarray, indices: np.ndarray, bounds: Bounds) -> np.ndarray:
    """Return what a reduction must be, each element by a sum of its own."""
    sums = np.zeros((*indices.shape[:-1], *data.shape[1:]), data.dtype)
    with np.errstate(all="ignore"):
        for place in np.ndindex(*sums.shape):
            bag, inner = place[: indices.ndim - 1], place[indices.ndim - 1 :]
            for index in indices[bag]:
                position = resolve(int(index), len(data), bounds)
                if position is not None:
                    sums[place] = data.dtype.type(sums[place] + data[(position, *inner)])
    return sums


def largest_one_by_one(data: np.ndarray, indices: np.ndarray, bounds: Bounds) -> np.ndarray:
    """Return what a maximum must be: the first element, and a later one that is larger."""
    largest = np.zeros((*indices.shape[:-1], *data.shape[1:]), data.dtype)
    for place in np.ndindex(*largest.shape):
        bag, inner = place[: indices.ndim - 1], place[indices.ndim - 1 :]
        for number, index in enumerate(indices[bag]):
            position = resolve(int(index), len(data), bounds)
            if position is not None and (number == 0 or data[(position, *inner)] > largest[place]):
                largest[place] = data[(position, *inner)]
    return largest


def averages_one_by_one(data: np.ndarray, indices: np.ndarray, bounds: Bounds) -> np.ndarray:
    """Return what a mean must be: each sum divided by the number of indices that are valid, in data's dtype."""
    means = sums_one_by_one(data, indices, bounds)
    for bag in np.ndindex(*indices.shape[:-1]):
        count = sum(resolve(int(index), len(data), bounds) is not None for index in indices[bag])
        means[bag] /= data.dtype.type(max(count, 1))
    return means


def check_stages(oracle, operator, data, indices, bounds, wanted, schedule=None) -> None:
    """Check the bytes of every stage; each is read back from its text for one in four of the cases of a test."""
    plan = make_plan(Problem.checked(operator, ArraySpec.of(data), ArraySpec.of(indices), bounds), schedule)
    number = zlib.crc32(f"{plan.key} {data.dtype}".encode())
    for seed, (stage, module) in enumerate(oracle.stages_with_modules(plan, number)):
        out = np.full_like(wanted, 7)
        interpret(module, data, indices, out, seed=seed)
        assert out.tobytes() == wanted.tobytes(), f"{stage.name}:\n{stage.text}"


def with_nans(data: np.ndarray) -> np.ndarray:
    return np.where(np.random.default_rng(6).random(data.shape) < 0.1, data.dtype.type(np.nan), data)


def bags(shape: tuple[int, ...], size: int, bounds: Bounds, seed: int = 0) -> np.ndarray:
    low, high = {"error": (-size, size), "unchecked": (0, size)}.get(bounds, (-2 * size, 2 * size))
    return np.random.default_rng(seed).integers(low, high, shape)


@pytest.mark.draw(4)
@pytest.mark.parametrize("bounds", Bounds)
@pytest.mark.parametrize("schedule", [Schedule(), Schedule.parse(IN_REGISTERS)], ids=["plain", "registers"])
def test_every_stage_gives_the_sums(oracle, bounds, schedule):
    data, indices = numbers((6, 13), np.dtype("f4")), bags((2, 3, 4), 6, bounds)
    wanted = sums_one_by_one(data, indices, bounds)
    assert run(GatherReduce(), data, indices, bounds).tobytes() == wanted.tobytes()
    check_stages(oracle, GatherReduce(), data, indices, bounds, wanted, schedule)


# Of the modes, "zero" alone changes how many rows a mean is divided by.
@pytest.mark.draw(2)
@pytest.mark.parametrize(
    ("dtype", "bounds", "schedule"),
    [
        *(("f4", mode, steps) for mode, steps in zip(Bounds, itertools.cycle([IN_REGISTERS, "", TILED_ROWS]))),
        *(("f8", Bounds.ZERO, steps) for steps in ("", IN_REGISTERS, TILED_ROWS)),
    ],
)
def test_every_stage_and_the_kernel_give_the_means(oracle, bounds, dtype, schedule):
    data, indices = numbers((6, 13), np.dtype(dtype)), bags((2, 3, 4), 6, bounds)
    if bounds is Bounds.ZERO:
        indices[0, 0] = 99  # a bag whose sum is divided by 1
    wanted = averages_one_by_one(data, indices, bounds)
    assert run(GatherMean(), data, indices, bounds).tobytes() == wanted.tobytes()
    steps = schedule.replace("bytes=52", f"bytes={13 * data.itemsize}")
    check_stages(oracle, GatherMean(), data, indices, bounds, wanted, Schedule.parse(steps))
    got = run_operator(GatherMean(), data, indices, bounds, None, schedule=Schedule.parse(steps))
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.draw(1)
@pytest.mark.parametrize(
    ("operator", "one_by_one", "bounds"),
    [
        (GatherReduce(), sums_one_by_one, Bounds.ERROR),
        (GatherReduce(), sums_one_by_one, Bounds.ZERO),
        (GatherMean(), averages_one_by_one, Bounds.ZERO),
        (GatherMax(), largest_one_by_one, Bounds.ZERO),
    ],
    ids=["sums checked", "sums", "means", "maxima"],
)
def test_long_rows_are_summed_in_pieces_that_registers_hold(oracle, operator, one_by_one, bounds):
    data, indices = numbers((6, 300), np.dtype("f4")), bags((2, 3), 6, bounds)
    with gn.knobs.scope(machine="zen3"):
        plan = make_plan(Problem.checked(operator, ArraySpec.of(data), ArraySpec.of(indices), bounds))
    assert "tile-loops{loops=inner sizes=60},interchange-loops{order=inner_o,bag,inner_i}" in str(plan.schedule)
    assert "reload_v" not in build_program(plan).source
    wanted = one_by_one(data, indices, bounds)
    check_stages(oracle, operator, data, indices, bounds, wanted, plan.schedule)
    got = run_operator(operator, data, indices, bounds, None, schedule=plan.schedule)
    assert got.tobytes() == wanted.tobytes()


STREAMED = "specialize-inner{bytes=96},vectorize-inner{lanes=8},stream-stores"


@pytest.mark.draw(1)
@pytest.mark.parametrize(
    ("operator", "one_by_one"),
    [(GatherReduce(), sums_one_by_one), (GatherMean(), averages_one_by_one), (GatherMax(), largest_one_by_one)],
    ids=["sums", "means", "maxima"],
)
def test_streamed_sums_have_the_same_bytes_wherever_out_begins(oracle, operator, one_by_one):
    data, indices = numbers((6, 24), np.dtype("f4")), bags((5, 3), 6, Bounds.ERROR)
    schedule, wanted = Schedule.parse(STREAMED), one_by_one(data, indices, Bounds.ERROR)
    plan = make_plan(Problem.checked(operator, ArraySpec.of(data), ArraySpec.of(indices), Bounds.ERROR), schedule)
    assert "stream_v8xi32" in build_program(plan).source
    check_stages(oracle, operator, data, indices, Bounds.ERROR, wanted, schedule)
    room = np.zeros(wanted.nbytes + 128, np.uint8)
    for start in range(0, 64, 4):
        first = start - room.__array_interface__["data"][0] % 64 + 64
        out = room[first : first + wanted.nbytes].view(np.float32).reshape(wanted.shape)
        room[:] = 7
        run_operator(operator, data, indices, Bounds.ERROR, out, schedule=schedule)
        assert out.tobytes() == wanted.tobytes()
        assert (room[:first] == 7).all() and (room[first + wanted.nbytes :] == 7).all()


@pytest.mark.draw(1)
@pytest.mark.parametrize(("dtype", "wide"), [("f4", "f4"), ("f8", "f8"), ("u1", "f4")])
def test_streamed_weighted_sums_have_the_same_bytes(oracle, dtype, wide):
    data = (numbers((6, 24), np.dtype("f8")) * 20 % 200).astype(dtype)
    places = in_places(np.random.default_rng(3).integers(0, 7, (5, 4)), wide)
    steps = f"specialize-inner{{bytes={24 * data.itemsize}}},vectorize-inner{{lanes={32 // np.dtype(wide).itemsize}}}"
    schedule, wanted = Schedule.parse(f"{steps},stream-stores"), weighted_one_by_one(data, places, wide)
    plan = make_plan(Problem.checked(WEIGHTED, ArraySpec.of(data), ArraySpec.of(places), Bounds.ZERO), schedule)
    assert "stream_v" in build_program(plan).source
    check_stages(oracle, WEIGHTED, data, places, Bounds.ZERO, wanted, schedule)
    got = run_operator(WEIGHTED, data, places, Bounds.ZERO, None, schedule=schedule)
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("inner", [301, 257, 1028, 1096])
def test_long_rows_without_whole_vectors_or_long_pieces_are_summed_in_memory(inner):
    specs = ArraySpec.parse(f"6x{inner}xf32"), ArraySpec.parse("5x4xi64")
    plan = make_plan(Problem.checked(GatherReduce(), *specs, Bounds.ERROR))
    assert "interchange" not in str(plan.schedule) and "specialize" not in str(plan.schedule)


@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_means_count_indices_whose_type_is_within_the_axis(dtype):
    data, indices = numbers((300, 8), np.dtype("f4")), np.arange(-4, 8).reshape(3, 4).astype(dtype)
    got = run_operator(GatherMean(), data, indices, Bounds.ZERO, None)
    assert got.tobytes() == averages_one_by_one(data, indices, Bounds.ZERO).tobytes()


@pytest.mark.draw(2)
@pytest.mark.parametrize("bounds", [Bounds.ERROR, Bounds.ZERO])
@pytest.mark.parametrize("schedule", [Schedule(), Schedule.parse(IN_REGISTERS)], ids=["plain", "registers"])
def test_every_stage_gives_the_maxima(oracle, bounds, schedule):
    data, indices = with_nans(numbers((6, 13), np.dtype("f4"))), bags((6, 4), 6, bounds)
    wanted = largest_one_by_one(data, indices, bounds)
    assert run(GatherMax(), data, indices, bounds).tobytes() == wanted.tobytes()
    check_stages(oracle, GatherMax(), data, indices, bounds, wanted, schedule)


def in_places(indices: np.ndarray, dtype: str) -> np.ndarray:
    """Return indices with weights beside them, the first of them 1, and with biases beside those of float32."""
    rng = np.random.default_rng(4)
    weights = rng.standard_normal(indices.shape).astype(dtype)
    weights[..., 0] = 1
    biases = rng.standard_normal(indices.shape).astype(dtype)
    return with_weights(indices, weights if dtype == "f8" else np.stack([weights, biases]), 6)


def weighted_one_by_one(data: np.ndarray, places: np.ndarray, dtype: str) -> np.ndarray:
    """Return what a weighted sum must be, each element by a sum of its own."""
    sums, number = np.zeros((len(places), data.shape[1]), dtype), np.dtype(dtype).type
    for bag, column in np.ndindex(*sums.shape):
        for index, *bits in places[bag]:
            if index < len(data):
                weight, bias = np.array([*bits, 0][:2], places.dtype).view(dtype)
                weighted = number(data[index, column]) * weight
                sums[bag, column] = sums[bag, column] + (weighted + bias if len(bits) == 2 else weighted)
    return sums


WEIGHED = [("f4", "f4"), ("f8", "f8"), ("f2", "f4"), (ml_dtypes.bfloat16, "f4"), ("i1", "f4"), ("u1", "f4")]


@pytest.mark.draw(1)
@pytest.mark.parametrize(
    ("dtype", "wide", "operator"),
    [(*types, operator) for types, operator in zip(WEIGHED, itertools.cycle([WEIGHTED, WEIGHTED_MEAN]))],
    ids=str,
)
def test_every_stage_and_the_kernel_give_the_weighted_sums_and_means(oracle, dtype, wide, operator):
    data = (numbers((6, 37), np.dtype("f8")) * 20 % 200).astype(dtype)
    places = in_places(np.random.default_rng(3).integers(0, 7, (5, 4)), wide)
    wanted = weighted_one_by_one(data, places, wide)
    if operator is WEIGHTED_MEAN:
        wanted /= (places[..., 0] < len(data)).sum(axis=1, keepdims=True).astype(wide)
    assert run(operator, data, places, Bounds.ZERO).tobytes() == wanted.tobytes()
    assert run_operator(operator, data, places, Bounds.ZERO, None).tobytes() == wanted.tobytes()
    check_stages(oracle, operator, data, places, Bounds.ZERO, wanted)


@pytest.mark.draw(1)
@pytest.mark.parametrize(("dtype", "wide"), WEIGHED, ids=str)
def test_long_weighted_rows_are_summed_in_pieces_that_registers_hold(oracle, dtype, wide):
    data = (numbers((6, 300), np.dtype("f8")) * 20 % 200).astype(dtype)
    places = in_places(np.random.default_rng(3).integers(0, 7, (2, 3)), wide)
    with gn.knobs.scope(machine="zen3"):
        plan = make_plan(Problem.checked(WEIGHTED, ArraySpec.of(data), ArraySpec.of(places), Bounds.ZERO))
    assert ",interchange-loops{order=inner_o,bag,inner_i}" in str(plan.schedule)
    assert "reload_v" not in build_program(plan).source
    wanted = weighted_one_by_one(data, places, wide)
    if dtype == "u1":
        check_stages(oracle, WEIGHTED, data, places, Bounds.ZERO, wanted, plan.schedule)
    got = run_operator(WEIGHTED, data, places, Bounds.ZERO, None, schedule=plan.schedule)
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.draw(1)
@pytest.mark.parametrize(("dtype", "columns"), [("f2", 257), ("f4", 300), ("f8", 512), ("f4", 4096)])
def test_rows_of_every_length_are_multiplied_by_weights_and_scales(dtype, columns):
    rng = np.random.default_rng(1)
    indices, weights = rng.integers(0, 50, (9, 5)), rng.integers(1, 4, (9, 5)).astype(np.float32)
    data = rng.integers(0, 9, (50, columns), np.uint8)
    wanted = (data[indices] * weights[..., np.newaxis]).sum(axis=1)
    got = gn.gather_reduce(data.astype(dtype), indices, weights=weights.astype(dtype))
    np.testing.assert_array_equal(got, wanted.astype(dtype))
    got = gn.gather_reduce(data, indices, weights=weights, scale=np.ones(50, np.float32))
    np.testing.assert_array_equal(got, wanted.astype(np.float32))


def test_bags_of_one_prefetch_rows_of_other_bags():
    data, indices = ArraySpec((200_000, 256), np.dtype("f4")), ArraySpec((65536, 1), np.dtype("i8"))
    for threads in (1, 2):
        with gn.knobs.scope(num_threads=threads):
            plan = make_plan(Problem.checked(GatherReduce(), data, indices, Bounds.ERROR))
            assert "prefetch_" in build_program(plan).source


@pytest.mark.parametrize("distance", [1, 2, 7])
def test_prefetch_of_unrolled_bags_reads_no_place_behind_a_bag(distance):
    steps = f"unroll{{loop=bag factor=4}},prefetch{{what=rows loop=bag ahead={distance} locality=3}}"
    data, indices = numbers((6, 1), np.dtype("f4")), bags((3, 10), 6, Bounds.UNCHECKED)
    problem = Problem.checked(GatherReduce(), ArraySpec.of(data), ArraySpec.of(indices), Bounds.UNCHECKED)
    *_, last = run_stages(make_plan(problem, Schedule.parse(steps)))
    out = np.full((3, 1), 7, np.float32)
    interpret(parse_module(last.text), data, indices, out)  # which checks each load
    assert out.tobytes() == sums_one_by_one(data, indices, Bounds.UNCHECKED).tobytes()


@pytest.mark.parametrize(("dtype", "width"), [("f4", 37), ("f8", 5), ("i1", 37)])
def test_compiled_maxima_are_those_of_the_loop(dtype, width):
    data, indices = numbers((7, width), np.dtype(dtype)), bags((5, 9), 7, Bounds.ZERO)
    data = with_nans(data) if dtype != "i1" else data
    got = run_operator(GatherMax(), data, indices, Bounds.ZERO, None)
    assert got.tobytes() == largest_one_by_one(data, indices, Bounds.ZERO).tobytes()


@settings(EXACT, max_examples=examples(2))
@given(data=st.data())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_compiled_reduction_gives_the_sums_of_every_dtype(dtype, data):
    bounds = data.draw(st.sampled_from(list(Bounds)))
    width, count, length = (data.draw(st.sampled_from(values)) for values in ((1, 16, 37), (1, 5), (1, 4, 9)))
    table, indices = numbers((7, width), dtype), bags((count, length), 7, bounds)
    got = run_operator(GatherReduce(), table, indices, bounds, None)
    assert got.tobytes() == sums_one_by_one(table, indices, bounds).tobytes()


@pytest.mark.draw(2)
@pytest.mark.parametrize("layout", [np.s_[::-1], np.s_[::2], np.s_[:, ::-1], np.s_[:, ::2]], ids=str)
def test_strided_data_and_indices_are_read_in_place(layout):
    data, indices = numbers((12, 20), np.dtype("f4"))[layout], bags((8, 6), 6, Bounds.ERROR)[layout]
    out = np.zeros((2 * len(indices), data.shape[1]), np.float32)[::2]
    assert gn.gather_reduce(data, indices, out=out) is out
    assert np.ascontiguousarray(out).tobytes() == sums_one_by_one(data, indices, Bounds.ERROR).tobytes()


def test_bytes_are_the_same_for_any_number_of_threads_and_any_schedule():
    data, indices = numbers((3000, 64), np.dtype("f4")), bags((3000, 20), 3000, Bounds.ERROR)
    wanted = np.zeros((3000, 64), np.float32)
    for number in range(20):
        wanted += data[indices[:, number]]
    for threads in (1, 2, 3):
        with gn.knobs.scope(num_threads=threads):
            assert gn.gather_reduce(data, indices).tobytes() == wanted.tobytes()
    tiled = Schedule.parse("tile-loops{loops=indices sizes=7},parallelize-loops{loops=indices_o}")
    got = run_operator(GatherReduce(), data, indices, Bounds.ERROR, None, schedule=tiled)
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("operator", [GatherReduce(), GatherMean()], ids=["sums", "means"])
@pytest.mark.parametrize("bounds", [Bounds.ERROR, Bounds.ZERO])
def test_sums_of_rows_that_fit_are_in_registers(operator, bounds):
    data, indices = ArraySpec((200_000, 256), np.dtype("f4")), ArraySpec((4096, 16), np.dtype("i8"))
    source = build_program(make_plan(Problem.checked(operator, data, indices, bounds))).source
    code = source[source.index("@njit") :]
    assert "reload" not in code
    assert "clear" not in code
    assert "scale" not in code
    assert code.count("store_v") == code.count("addf_v") > 1
    assert code.count("divf_v") == (code.count("addf_v") if operator.divides else 0)


class _Reader(Machine):
    """An interpreter that notes each row of data that it reads, with the row that it prefetched before."""

    def __init__(self, module, rows: int):
        super().__init__(module, random.Random(1), None)
        self.rows, self.prefetched, self.seen = rows, [], []

    def run_memref_prefetch(self, op, memory, *subscripts):
        self.prefetched.append(subscripts[0])
        return ()

    def load(self, memory, subscripts):
        if len(memory) == self.rows and self.prefetched:
            self.seen.append((subscripts[0], self.prefetched.pop()))
        return super().load(memory, subscripts)


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 7, 9])
def test_rows_of_later_bags_are_prefetched_however_far_ahead(distance):
    data, indices = np.ones((15, 2), np.float32), np.arange(15).reshape(5, 3)
    prefetch = f"prefetch{{what=rows loop=bag ahead={distance} locality=3}}"
    schedule = Schedule.parse(f"tile-loops{{loops=indices sizes=2}},{prefetch}")
    problem = Problem.checked(GatherReduce(), ArraySpec.of(data), ArraySpec.of(indices), Bounds.UNCHECKED)
    reader = _Reader(parse_module(run_stages(make_plan(problem, schedule))[-1].text), len(data))
    reader.run(data, indices, np.zeros((5, 2), np.float32))
    assert len(reader.seen) == 15
    assert [ahead - row for row, ahead in reader.seen if row + distance < 15] == [distance] * (15 - distance)
