"""Traffic: lines against brute force, and expected ones against counted."""

import itertools

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, Gradient
from gathernest.ir.problem import Problem
from gathernest.ir.reference import run as run_reference
from gathernest.ir.semantics import Bounds
from gathernest.kernels.machine.traffic import fewest_bytes, read_lines
from gathernest.kernels.runtime.plan import make_plan

RNG = np.random.default_rng(11)


def problem_of(operator, data, indices, bounds=Bounds.ERROR, gradient=None):
    return Problem.checked(operator, ArraySpec.of(data), ArraySpec.of(indices), bounds, gradient=gradient)


def reads_by_brute_force(operator, data, indices, bounds, start):
    """Gather the offset of every element in order, and return the line of every byte, each unlike the one before."""
    offsets = np.zeros((), np.int64)
    for size, stride in zip(data.shape, data.strides, strict=True):
        offsets = np.add.outer(offsets, np.arange(size) * stride)
    read = run_reference(operator, offsets + 2**40, indices, bounds).reshape(-1)
    read = read[read > 0] - 2**40  # what `zero` gives for an index outside is no element
    return changes((np.add.outer(read, np.arange(data.itemsize)).reshape(-1) + start) // 64)


def changes(lines):
    return [line for line, _ in itertools.groupby(np.asarray(lines).tolist())]


LAYOUTS = {
    "contiguous": np.zeros((30, 20, 7), np.float32),
    "odd bytes": np.zeros((50, 13, 5), np.uint8),
    "records": np.zeros((40, 6, 3), "V10"),
    "reversed": np.zeros((30, 20, 7), np.float32)[::-1, :, ::-1],
    "transposed": np.zeros((7, 20, 30), np.float64).T,
    "every third": np.zeros((90, 20, 21), np.int16)[::3, :, ::3],
    "far apart": np.zeros((20, 12, 200), np.float32)[:, :, ::40],
    "a line between": np.zeros((20, 12, 200), np.float32)[:, :, ::30],
    "overlapping": np.lib.stride_tricks.sliding_window_view(np.zeros((12, 60), np.float32), 40, 1),
    "wide rows": np.zeros((40, 30, 50), np.float32),
}


@pytest.mark.parametrize("start", [0, 16, 40])
@pytest.mark.parametrize("name", LAYOUTS)
def test_reads_are_those_of_brute_force_for_every_operator_and_layout(name, start, gathers_of):
    data = LAYOUTS[name]
    for operator, indices, bounds in gathers_of(data, RNG):
        plan = make_plan(problem_of(operator, data, indices, bounds))
        found = read_lines(plan, indices, start)
        assert found is not None
        expected = reads_by_brute_force(operator, data, indices, bounds, start)
        assert changes(found) == expected, (operator, bounds)
        if start == 0:
            counted = fewest_bytes(problem_of(operator, data, indices, bounds), indices)
            assert counted.lines == len({*expected}) and counted.piece_lines >= 1


def test_what_is_broadcast_is_read_once_in_a_row():
    data = np.broadcast_to(np.zeros((9, 16, 1), np.float32), (9, 16, 40))
    reads = read_lines(make_plan(problem_of(Gather(), data, np.arange(3))), np.arange(3))
    assert reads is not None and changes(reads) == [0, 1, 2]


@pytest.mark.parametrize("bounds", [Bounds.ERROR, Bounds.CLIP, Bounds.WRAP])
def test_counted_lines_take_indices_of_every_dtype(bounds):
    data = np.zeros((100, 20), np.float32)
    for dtype in (np.int8, np.uint8, np.uint16, np.int64, np.uint64):
        indices = np.array([0, 99, 7, 7, 50], dtype)
        found = fewest_bytes(problem_of(Gather(), data, indices, bounds), indices)
        assert found.is_counted and found.lines == len({*reads_by_brute_force(Gather(), data, indices, bounds, 0)})
    huge = np.array([2**64 - 1, 2**63], np.uint64)
    found = fewest_bytes(problem_of(Gather(), data, huge, bounds), huge)
    assert found.lines == {Bounds.ERROR: 0, Bounds.CLIP: 2, Bounds.WRAP: 4}[bounds]


EXPECTED = [
    (Gather(), (5000, 16), np.float32, (3000,)),
    (Gather(), (5000, 12), np.float32, (2000,)),
    (Gather(), (5000, 3), np.float32, (800,)),
    (Gather(), (3000, 40), np.float32, (5000,)),
    (Gather(), (50000,), np.float32, (2000,)),
    (Gather(), (900, 7), np.uint8, (300,)),
    (Gather(1), (200, 300), np.float32, (20,)),
    (Gather(1), (100, 300, 9), np.float64, (50,)),
    (Gather(2), (30, 40, 5), np.int8, (4,)),
    (Gather(1, 1), (20, 500, 6), np.float32, (20, 90)),
    (Gather(1, 1), (600, 3), np.float32, (600, 2)),
    (GatherNd(), (60, 70, 8), np.float32, (900, 2)),
    (GatherNd(1), (20, 70, 30), np.float32, (20, 50, 1)),
    (GatherElements(0), (4000, 40), np.float32, (60, 40)),
    (GatherElements(1), (50, 3000), np.float32, (50, 200)),
    (GatherElements(1), (300, 5), np.float32, (300, 2)),
]


@pytest.mark.parametrize(("operator", "shape", "dtype", "indices_shape"), EXPECTED)
@pytest.mark.parametrize("layout", ["contiguous", "reversed", "every second", "transposed"])
def test_expected_lines_are_near_the_counted_ones_of_random_indices(operator, shape, dtype, indices_shape, layout):
    if layout == "every second":
        data = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
    elif layout == "transposed":
        data = np.zeros(shape[::-1], dtype).T
    else:
        data = np.zeros(shape, dtype)
    data = data[::-1] if layout == "reversed" else data
    sizes = np.array([shape[axis] for axis in operator.normalized(shape, indices_shape).axes(indices_shape)])
    rng = np.random.default_rng(len(shape))
    counted = []
    for _ in range(8):
        indices = rng.integers(0, sizes if len(sizes) > 1 else sizes[0], indices_shape)
        found = fewest_bytes(problem_of(operator, data, indices), indices)
        assert found.is_counted
        counted.append(found.lines)
    expected = fewest_bytes(problem_of(operator, data, indices))
    assert not expected.is_counted
    assert expected.lines == pytest.approx(np.mean(counted), rel=0.1)


@pytest.mark.parametrize("start", [0, 16, 36, 60])
@pytest.mark.parametrize("columns", [1, 7, 16, 40])
def test_expected_lines_heed_where_data_begins(start, columns):
    memory = np.zeros(4 * 3000 * columns + 128, np.uint8)
    first = (start - memory.__array_interface__["data"][0]) % 64
    data = np.ndarray((3000, columns), np.float32, memory, first)
    indices = np.random.default_rng(start).integers(0, 3000, 2000)
    problem = problem_of(Gather(), data, indices)
    counted = fewest_bytes(problem, indices, data)
    assert counted.lines == len({*reads_by_brute_force(Gather(), data, indices, Bounds.ERROR, start)})
    assert fewest_bytes(problem, None, data).lines == pytest.approx(counted.lines, rel=0.05)


def test_streams_are_indices_data_and_output():
    data, indices = np.zeros((1000, 16), np.float32), np.arange(10, dtype=np.int32)
    traffic = fewest_bytes(problem_of(Gather(), data, indices), indices)
    assert dict(traffic.streams) == {"indices": 40, "data": 640, "output": 640}
    assert traffic.total_bytes == 1320


def test_gradient_reads_grad_and_writes_the_whole_output():
    problem = problem_of(Gather(), np.zeros((1000, 16), np.float32), np.arange(10), gradient=Gradient())
    traffic = fewest_bytes(problem, np.arange(10))
    assert dict(traffic.streams) == {"indices": 80, "grad": 640, "output": 64000}
    assert traffic.lines == 10


def test_repeated_and_broadcast_arrays_are_read_once():
    data = np.broadcast_to(np.zeros((1, 50, 16), np.float32), (100, 50, 16))
    indices = np.broadcast_to(np.arange(5), (100, 5))
    traffic = fewest_bytes(problem_of(Gather(1, 1), data, indices), indices)
    assert dict(traffic.streams) == {"indices": 40, "data": 5 * 64, "output": 100 * 5 * 64}


def test_arrays_with_holes_count_by_whole_lines():
    data, indices = np.zeros((50, 3), np.float32), np.zeros((10, 32), np.int32)[:, 5]
    out = ArraySpec((10, 3), np.float32, (256, 128))
    problem = Problem.checked(Gather(), ArraySpec.of(data), ArraySpec.of(indices), Bounds.ERROR, out)
    assert dict(fewest_bytes(problem).streams) | {"data": 0} == {"indices": 10 * 64, "data": 0, "output": 30 * 64}


def test_an_empty_gather_reads_no_data():
    for data, indices in ((np.zeros((5, 4)), np.zeros(0, np.int64)), (np.zeros((5, 0)), np.arange(3))):
        problem = problem_of(Gather(), data, indices)
        for known in (None, indices):
            traffic = fewest_bytes(problem, known)
            assert (traffic.lines, dict(traffic.streams)["output"]) == (0, 0)


def test_fewest_bytes_reject_indices_of_another_shape():
    problem = problem_of(Gather(), np.zeros((1000, 16), np.float32), np.arange(10))
    with pytest.raises(gn.InvalidGatherError) as caught:
        fewest_bytes(problem, np.arange(11))
    assert str(caught.value) == (
        "indices must have the shape (10,) of the problem, got (11,); compile a kernel for these arrays first"
    )
