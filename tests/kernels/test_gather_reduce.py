"""`gather_reduce` and its gradient as a caller sees them: bags, padding, means, and what is rejected."""

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn

DATA = np.random.default_rng(0).standard_normal((50, 24)).astype(np.float32)
ROWS = np.random.default_rng(1).integers(-50, 50, (7, 3))
FLAT = np.random.default_rng(2).integers(0, 50, 40)
LENGTHS = np.array([0, 5, 1, 20, 0, 14])
OFFSETS = np.cumsum(LENGTHS) - LENGTHS


def sums(data, flat, offsets, lengths, padding=None):
    """Return (sums, counts) of bags, row by row."""
    totals, counts = np.zeros((len(offsets), *data.shape[1:]), data.dtype), np.zeros(len(offsets), int)
    for bag, (start, length) in enumerate(zip(offsets, lengths, strict=True)):
        for index in flat[start : start + length]:
            if index != padding:
                totals[bag] += data[index]
                counts[bag] += 1
    return totals, np.maximum(counts, 1)[:, np.newaxis]


@pytest.mark.parametrize("padding", [None, int(FLAT[3])])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_bags_of_different_lengths(reduce, padding):
    totals, counts = sums(DATA, FLAT, OFFSETS, LENGTHS, padding)
    wanted = totals if reduce == "sum" else totals / counts.astype(np.float32)
    given = {"reduce": reduce, "padding_index": padding}
    got = gn.gather_reduce(DATA, FLAT, OFFSETS, **given)
    assert got.tobytes() == wanted.tobytes()
    assert gn.gather_reduce(DATA, FLAT, lengths=LENGTHS, **given).tobytes() == wanted.tobytes()


def test_bags_of_very_different_lengths_are_summed_in_classes():
    lengths = np.array([1] * 30 + [0, 3, 1000, 2])
    offsets, flat = np.cumsum(lengths) - lengths, np.random.default_rng(3).integers(0, 50, lengths.sum())
    wanted, _ = sums(DATA, flat, offsets, lengths)
    assert gn.gather_reduce(DATA, flat, offsets).tobytes() == wanted.tobytes()
    grad = wanted[::-1].copy()
    gradient = np.zeros_like(DATA)
    np.add.at(gradient, flat, np.repeat(grad, lengths, axis=0))
    assert gn.gather_reduce_grad(grad, flat, DATA.shape, offsets).tobytes() == gradient.tobytes()


@pytest.mark.draw(2)
@pytest.mark.parametrize("bounds", ["error", "zero"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_means_of_complex_numbers_have_the_bytes_of_numpy(dtype, bounds):
    odd = [7 + 11j, complex(-0.0, 3), complex(-0.0, -0.0), complex(np.inf, 1), complex(1, -np.inf), complex(np.nan, 2)]
    data = np.array(odd, dtype).reshape(6, 1).repeat(2, axis=1)
    indices = np.array([[0, 0, 0], [1, 1, 2], [2, 2, 2], [0, 3, 1], [4, 1, 1], [0, 5, 1]])
    wanted = np.zeros((6, 2), dtype)
    for place in range(3):
        wanted += data[indices[:, place]]
    got = gn.gather_reduce(data, indices, reduce="mean", bounds=bounds)
    assert got.tobytes() == np.divide(wanted, 3).tobytes()
    assert got.tobytes() == gn.gather_reduce(data, indices.ravel(), [0, 3, 6, 9, 12, 15], reduce="mean").tobytes()


def test_means_of_complex64_are_divided_as_complex64():
    rng = np.random.default_rng(8)
    data = (rng.standard_normal((50, 7)) + 1j * rng.standard_normal((50, 7))).astype(np.complex64)
    wanted = np.zeros((7, 7), np.complex64)
    for place in range(3):
        wanted += data[ROWS[:, place]]
    wanted = np.divide(wanted, np.complex64(3))
    assert wanted.dtype == np.complex64
    assert gn.gather_reduce(data, ROWS, reduce="mean").tobytes() == wanted.tobytes()
    assert gn.gather_reduce(data, ROWS.ravel(), lengths=[3] * 7, reduce="mean").tobytes() == wanted.tobytes()
    gradient = np.zeros_like(data)
    np.add.at(gradient, ROWS.ravel(), np.repeat(np.divide(wanted, np.complex64(3)), 3, axis=0))
    assert gn.gather_reduce_grad(wanted, ROWS, data.shape, reduce="mean").tobytes() == gradient.tobytes()


@pytest.mark.draw(2)
@pytest.mark.parametrize("bounds", ["zero", "clip", "wrap"])
def test_padding_and_mean_with_indices_outside(bounds):
    indices = np.array([[3, 70, -80, 4], [99, 99, -99, 99]])
    positions = {"zero": [[3, 4], []], "clip": [[3, 49, 0, 4], [49, 49, 0, 49]]}.get(bounds, (indices % 50).tolist())
    wanted = np.zeros((2, 24), np.float32)
    for bag, places in enumerate(positions):
        places = [place for place in places if place != 4]
        for place in places:
            wanted[bag] += DATA[place]
        wanted[bag] /= np.float32(max(len(places), 1))
    got = gn.gather_reduce(DATA, indices, reduce="mean", padding_index=4, bounds=bounds)
    assert got.tobytes() == wanted.tobytes()


def largest(data, flat, offsets, lengths, padding=None):
    """Return (maxima, the row that each comes from) of bags, row by row; len(data) in an empty bag."""
    found = np.zeros((len(offsets), *data.shape[1:]), data.dtype)
    rows = np.full(found.shape, len(data))
    for bag, (start, length) in enumerate(zip(offsets, lengths, strict=True)):
        for index in flat[start : start + length]:
            is_larger = (data[index] > found[bag]) | (rows[bag] == len(data))
            if index != padding:
                found[bag], rows[bag] = np.where(is_larger, (data[index], np.full(24, index)), (found[bag], rows[bag]))
    return found, rows


@pytest.mark.parametrize("lengths", [LENGTHS, [1] * 10 + [0, 2, 28]], ids=["similar", "classes"])
def test_maxima_and_their_gradient_keep_the_first_of_equal_elements(lengths):
    offsets, padding = np.cumsum(lengths) - lengths, int(FLAT[0])
    data = np.rint(DATA)
    data[FLAT[1::3]] = np.nan
    wanted, rows = largest(data, FLAT, offsets, lengths, padding)
    given = {"reduce": "max", "padding_index": padding}
    assert np.isnan(wanted).any()
    assert gn.gather_reduce(data, FLAT, offsets, **given).tobytes() == wanted.tobytes()
    grad = np.random.default_rng(5).standard_normal(wanted.shape).astype(np.float32)
    gradient = np.zeros((51, 24), np.float32)
    np.add.at(gradient, (rows, np.arange(24)), grad)
    got = gn.gather_reduce_grad(grad, FLAT, data.shape, offsets, data=data, **given)
    assert got.tobytes() == gradient[:50].tobytes()


@pytest.mark.filterwarnings("error")
def test_gradient_of_narrow_maxima_with_nan_gives_no_warning():
    data, grad = DATA.astype(ml_dtypes.bfloat16), np.ones((7, 24), ml_dtypes.bfloat16)
    data[ROWS[0]] = np.nan
    gradient = gn.gather_reduce_grad(grad, ROWS, data.shape, reduce="max", data=data)
    assert gradient.astype(np.float32).sum() == grad.size


@pytest.mark.filterwarnings("error")
def test_sums_that_become_infinite_give_no_warning():
    data = np.full((4, 3), 60000, ">f2")
    assert np.isposinf(gn.gather_reduce(data, [[0, 1]]).astype(np.float32)).all()
    assert np.isposinf(gn.gather_reduce(data, [0, 1], offsets=[0], out=np.zeros((1, 3), ">f2")).astype("f4")).all()


@pytest.mark.draw(1)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_narrow_floats_are_added_in_float32_and_rounded_once(dtype, reduce):
    data = DATA.astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    for given in ({"indices": ROWS}, {"indices": FLAT, "offsets": OFFSETS, "padding_index": int(FLAT[0])}):
        got = gn.gather_reduce(data, reduce=reduce, **given)
        wide = gn.gather_reduce(data.astype(np.float32), reduce=reduce, **given)
        assert got.dtype == data.dtype
        assert got.tobytes() == wide.astype(data.dtype).tobytes()
        strided = np.repeat(data, 2, axis=1)[::-1, ::2]
        assert gn.gather_reduce(strided[::-1], reduce=reduce, **given).tobytes() == got.tobytes()


WEIGHTS = np.random.default_rng(8).standard_normal(40).astype(np.float32)


def weighted(data, weights, biases=None):
    """Return the sums of the bags of FLAT and OFFSETS: each row times its weight plus its bias; no padding."""
    totals = np.zeros((len(OFFSETS), 24), np.float32)
    for bag, (start, length) in enumerate(zip(OFFSETS, LENGTHS, strict=True)):
        for place in range(start, start + length):
            if FLAT[place] != FLAT[3]:
                row = data[FLAT[place]].astype(np.float32) * weights[place]
                totals[bag] += row if biases is None else row + biases[place]
    return totals


def test_rows_are_multiplied_by_their_weights():
    given = {"offsets": OFFSETS, "weights": WEIGHTS, "padding_index": int(FLAT[3])}
    assert gn.gather_reduce(DATA, FLAT, **given).tobytes() == weighted(DATA, WEIGHTS).tobytes()
    grad = np.random.default_rng(9).standard_normal((6, 24)).astype(np.float32)
    bag, left = np.repeat(np.arange(6), LENGTHS), FLAT[3] != FLAT
    gradient = np.zeros_like(DATA)
    np.add.at(gradient, FLAT[left], (grad[bag] * WEIGHTS[:, np.newaxis])[left])
    assert gn.gather_reduce_grad(grad, FLAT, DATA.shape, **given).tobytes() == gradient.tobytes()
    del given["weights"]
    got = gn.gather_reduce_weights_grad(grad, DATA, FLAT, **given)
    np.testing.assert_allclose(got, np.where(left, (DATA[FLAT] * grad[bag]).sum(axis=1), 0), rtol=1e-5, atol=1e-6)


@pytest.mark.draw(1)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantised_rows_have_a_scale_and_a_bias(dtype):
    data = np.random.default_rng(10).integers(0, 256, DATA.shape, np.uint8).view(dtype)
    scale, bias = DATA[:, 0], DATA[:, 1]
    given = {"offsets": OFFSETS, "scale": scale, "padding_index": int(FLAT[3])}
    exact = weighted(data, scale[FLAT])
    assert gn.gather_reduce(data, FLAT, **given).tobytes() == exact.tobytes()
    exact = weighted(data, scale[FLAT] * WEIGHTS, bias[FLAT] * WEIGHTS)
    assert gn.gather_reduce(data, FLAT, bias=bias, weights=WEIGHTS, **given).tobytes() == exact.tobytes()
    means = gn.gather_reduce(data, FLAT, bias=bias, reduce="mean", **given)
    _, counts = sums(DATA, FLAT, OFFSETS, LENGTHS, FLAT[3])
    assert means.tobytes() == (weighted(data, scale[FLAT], bias[FLAT]) / counts.astype(np.float32)).tobytes()


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_gradient_adds_each_row_where_its_bag_was_read(reduce):
    grad = np.random.default_rng(4).standard_normal((7, 24)).astype(np.float32)
    shared = grad / np.float32(3 if reduce == "mean" else 1)
    wanted = np.zeros_like(DATA)
    for bag, indices in enumerate(ROWS):
        for index in indices:
            wanted[index] += shared[bag]
    assert gn.gather_reduce_grad(grad, ROWS, DATA.shape, reduce=reduce).tobytes() == wanted.tobytes()
    out = np.ones_like(DATA)
    assert gn.gather_reduce_grad(grad, ROWS, DATA.shape, reduce=reduce, out=out) is out
    assert out.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [({}, 8), ({"reduce": "mean"}, 4), ({"weights": DATA[0, :2]}, 0), ({"reduce": "max", "data": DATA[:2, 0]}, 4)],
    ids=["sum", "mean", "weights", "max"],
)
def test_gradient_of_one_bag_of_numbers_is_taken_of_rank_0(given, wanted):
    wanted = wanted or 4 * DATA[0, 0] + 4 * DATA[0, 1]
    gradient = gn.gather_reduce_grad(np.float32(4), [1, 1], (2,), **given)
    assert gradient.tolist() == [0, wanted]


def test_kernels_of_reductions_give_what_the_function_gives():
    for name, reduce in (("gather_reduce", "sum"), ("gather_mean", "mean"), ("gather_max", "max")):
        wanted = gn.gather_reduce(DATA, ROWS, reduce=reduce)
        assert gn.compile(name, DATA, ROWS)(DATA, ROWS).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("stage", ["operator", "lower-to-nest", None, "promote-sums"])
@pytest.mark.parametrize("operator", ["gather_reduce", "gather_max"])
def test_steps_of_an_element_read_each_row_of_its_bag_in_order(operator, stage):
    data, bags = DATA[:9, :8], np.array([[1, 7, -2, 0], [4, 9, 0, 4]])
    steps = gn.step(operator, data, bags, bounds="zero", element=(1, 2), stage=stage)
    assert steps.is_right, str(steps)
    assert tuple(dict.fromkeys(steps.sources)) == ((4, 2), (0, 2))
    if operator == "gather_reduce":  # a maximum does not depend on what is no larger
        assert "read from data[4, 2], data[0, 2], data[4, 2]: 3 in this order" in steps.remarks


def test_steps_of_a_maximum_show_what_was_larger():
    data = np.float32([[1], [3], [2]])
    for stage in ("operator", "lower-to-nest"):
        steps = gn.step("gather_max", data, [[0, 1, 2]], stage=stage)
        values = [step.cells[4] for step in steps if step.op == "gather.accumulate"]
        assert values[-2:] == ["3.0", "3.0"]


def test_steps_of_a_mean_divide_the_sum_by_the_number_of_rows():
    for stage in ("operator", "promote-sums"):
        steps = gn.step("gather_mean", np.float32([[1], [3], [2]]), [[1, 9, 2]], stage=stage, bounds="zero")
        (divided,) = (step for step in steps if step.op == "arith.divf")
        assert 2.5 in divided.results.values() and 5.0 in divided.operands.values()


@pytest.mark.thorough
def test_explanation_of_a_reduction_has_the_rows_that_it_reads_and_the_sums_that_it_writes():
    data, bags = DATA.repeat(4, axis=1).copy(), np.arange(60).reshape(20, 3) % 50
    kernel = gn.compile("gather_reduce", data, bags)
    explained = kernel.explain(data, bags, rounds=1)
    streams = dict(explained.bound.traffic.streams)
    assert (streams["indices"], streams["output"]) == (8 * 60, 20 * 4 * 96)
    assert data.nbytes <= streams["data"] <= data.nbytes + 128  # every row, each once, in whole lines
    assert "The scheduled nest" in kernel.report(timing=False)
