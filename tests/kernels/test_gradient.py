"""The gradients as their callers see them: arguments, errors, kernels as values, and the node that trains."""

import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime import call_cache, launch
from gathernest.kernels.runtime.prepare import Prepared

GRAD = np.ones((4, 3), np.float32)


@pytest.mark.draw(1)
@pytest.mark.parametrize("machine", ["zen4", "avx2"])
@pytest.mark.parametrize("threads", [2, 4])
def test_many_scalars_are_added_whatever_the_layout_of_grad_and_indices(machine, threads):
    rng, rows, count = np.random.default_rng(0), 50_000, 400_000
    grads, picks = rng.integers(0, 9, (count, 2)).astype(np.float32), rng.integers(0, rows, (count, 2))
    grad, indices = np.ascontiguousarray(grads[:, 0]), np.ascontiguousarray(picks[:, 0])
    layouts = [
        (grad, indices),
        (grads[:, 0], indices),
        (grad, picks[:, 0]),
        (grad[::-1], indices[::-1]),
        (np.broadcast_to(np.float32(1), count), indices),
    ]
    with gn.knobs.scope(machine=machine, num_threads=threads):
        for each, places in layouts:
            wanted = np.bincount(places, each, rows).astype(np.float32)
            np.testing.assert_array_equal(gn.gather_grad(each, places, (rows,)), wanted)
        np.testing.assert_array_equal(gn.gather_nd_grad(each, places[:, np.newaxis], (rows,)), wanted)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("shape", "dtype"), [((1000, 64), "f4"), ((40, 256), "f8"), ((10000, 256), "f4"), ((9,), "f4")]
)
def test_no_indices_give_zeros_of_tables_of_every_size(shape, dtype, threads):
    grad, none = np.zeros((0, *shape[1:]), dtype), np.zeros(0, np.int64)
    with gn.knobs.scope(num_threads=threads):
        assert gn.gather_grad(grad, none, shape).tobytes() == bytes(np.zeros(shape, dtype))
        assert not gn.gather_nd_grad(grad, none[:, None], shape).any()
        assert not gn.compile("gather_grad", np.empty(shape, dtype), none)(grad, none).any()
        if len(shape) == 2:
            assert not gn.gather_reduce_grad(grad, none.reshape(0, 3), shape).any()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "i4"])
@pytest.mark.parametrize("scale", [-1, 2])
def test_zeros_have_the_sign_of_the_scale_with_and_without_indices(dtype, scale):
    without = gn.gather_grad(np.zeros((0, 2), dtype), np.zeros(0, int), (2, 2), scale=scale)
    assert without.tobytes() == gn.gather_grad(np.zeros((1, 2), dtype), [1], (2, 2), scale=scale).tobytes()


def test_sums_that_overflow_warn_of_nothing():
    large = np.full((4, 3), 6e4, np.float16)
    with np.errstate(all="raise"):
        assert np.isinf(gn.gather_grad(large, [0] * 4, (2, 3))[0]).all()
        assert np.isinf(gn.gather_grad(large.astype(">f2"), [0] * 4, (2, 3))[0]).all()
        assert np.isinf(gn.gather_elements_grad(large, np.zeros((4, 3), int), (2, 3), 0)[0]).all()
        assert np.isinf(gn.gather_reduce_weights_grad(large[:1], large, [[0, 1]])).all()
        assert np.isnan(gn.gather_grad(np.full((1, 3), np.inf, np.longdouble), [0], (2, 3), scale=0)[0]).all()


def out_at(offset: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return float32 sevens that begin so many bytes behind a line."""
    room = np.full(4 * math.prod(shape) + 128, 7, np.uint8)
    start = -room.ctypes.data % 64 + offset
    out = room[start : start + 4 * math.prod(shape)].view(np.float32).reshape(shape)
    out[...] = 7
    return out


@pytest.mark.parametrize("scale", [1, 1.0, True, np.int64(1), np.float32(1), np.array(1.0)])
@pytest.mark.parametrize("data_shape", [(3, 4), [3, 4], [np.int64(3), np.int32(4)], np.array([3, 4])])
def test_calls_are_found_whatever_numbers_say_the_shape_and_the_scale(scale, data_shape):
    grad, indices = np.arange(8.0).reshape(2, 4), np.array([2, 0])
    call_cache.CALLS.forget()
    for _ in range(3):
        gn.gather_grad(grad, indices, (3, 4))
    remembered = list(call_cache.CALLS._calls.values())
    assert remembered
    for _ in range(3):
        got = gn.gather_grad(grad, indices, data_shape, scale=scale)
        assert got.tolist() == [[4, 5, 6, 7], [0, 0, 0, 0], [0, 1, 2, 3]]
    assert list(call_cache.CALLS._calls.values()) == remembered


class TestRowsThatThreadsSplit:
    """What two threads write to the same rows of begins a line of the caches, so that each has lines of its own."""

    GRAD = np.arange(4000 * 64, dtype=np.float32).reshape(4000, 64) % 31
    INDICES = np.arange(4000) % 10
    WANTED = np.add.reduceat(GRAD[np.argsort(INDICES, kind="stable")], np.arange(10) * 400)

    @pytest.fixture(autouse=True)
    def two_threads(self, eager_threads):
        if launch.available_threads() < 2:
            pytest.skip("there is one thread")
        with gn.knobs.scope(num_threads=2):
            yield

    def test_a_new_result_begins_a_line(self):
        for _ in range(3):  # planned, remembered, found
            got = gn.gather_grad(self.GRAD, self.INDICES, (10, 64))
            assert got.ctypes.data % 64 == 0
            assert got.flags.c_contiguous and got.flags.writeable and got.dtype == np.float32
            assert got.tolist() == self.WANTED.tolist()

    @pytest.mark.parametrize("offset", [0, 4, 16, 60])
    def test_an_out_at_any_place_gets_the_sums(self, offset):
        for _ in range(3):
            out = out_at(offset, (10, 64))
            assert gn.gather_grad(self.GRAD, self.INDICES, (10, 64), out=out) is out
            assert out.tolist() == self.WANTED.tolist()

    def test_a_subclass_is_written_to_itself(self):
        for offset in (0, 16):
            out = np.ma.MaskedArray(out_at(offset, (10, 64)), mask=False)
            out[0] = np.ma.masked
            out.harden_mask()
            assert gn.gather_grad(self.GRAD, self.INDICES, (10, 64), out=out) is out
            assert out.data.tolist() == self.WANTED.tolist()

    def test_an_index_outside_leaves_such_an_out_untouched(self):
        for _ in range(3):
            out = out_at(16, (10, 64))
            with pytest.raises(gn.BoundsError, match="index 10 at position"):
                gn.gather_grad(self.GRAD, self.INDICES + 1, (10, 64), out=out)
            assert (out == 7).all()

    def test_a_kernel_runs_with_an_out_that_does_not_begin_a_line_only_where_a_copy_costs_more(self):
        prepared = Prepared(None, None, (), splits_rows=True)  # pyright: ignore[reportArgumentType]
        beside, aligned = out_at(16, (10, 64)), out_at(0, (10, 64))
        target = prepared.target(self.GRAD, beside)
        assert target is not beside and target.shape == beside.shape and target.ctypes.data % 64 == 0
        assert prepared.target(self.GRAD[:80], beside) is not beside
        assert prepared.target(self.GRAD[:79], beside) is beside
        assert prepared.target(self.GRAD, aligned) is aligned
        transposed = beside.T
        assert prepared.target(self.GRAD, transposed) is transposed
        assert not np.may_share_memory(target, beside)
        assert Prepared(None, None, ()).target(self.GRAD, beside) is beside  # pyright: ignore[reportArgumentType]

    def test_a_strided_out_is_written_where_it_lies(self):
        for _ in range(3):
            out = out_at(16, (10, 128))[:, ::2]
            assert gn.gather_grad(self.GRAD, self.INDICES, (10, 64), out=out) is out
            assert out.tolist() == self.WANTED.tolist()


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", ml_dtypes.bfloat16, ml_dtypes.int4, "longdouble"])
def test_a_gradient_of_rank_0_is_taken(dtype):
    assert gn.gather_grad(np.array(3).astype(dtype), 1, (4,)).astype(float).tolist() == [0.0, 3.0, 0.0, 0.0]
    assert gn.gather_nd_grad(np.array(3).astype(dtype), [1], (4,)).astype(float).tolist() == [0.0, 3.0, 0.0, 0.0]


def test_threads_at_once_get_the_same_bytes():
    rng = np.random.default_rng(0)
    grad, indices = rng.standard_normal((5000, 40), np.float32), rng.integers(0, 3000, 5000)
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda _: gn.gather_grad(grad, indices, (3000, 40)).tobytes(), range(12))
    assert len(set(results)) == 1


def test_interpreted_gradient_agrees():
    with gn.knobs.scope(interpret=True):
        interpreted = gn.gather_grad(GRAD, [0, -1, 0, 2], (5, 3), scale=0.1)
    assert interpreted.tobytes() == gn.gather_grad(GRAD, [0, -1, 0, 2], (5, 3), scale=0.1).tobytes()


# as kernels


# labview.GatherND

DATA = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
TUPLES = [[0, 1], [1, 0], [0, 1]]


def test_backward_pass_does_not_depend_on_what_becomes_of_the_indices():
    indices = np.array(TUPLES)
    _, backward = gn.ops["labview.GatherND"](DATA, indices)
    before = backward(np.ones((3, 2)))
    indices[:] = 0
    assert (backward(np.ones((3, 2))) == before).all()


def test_backward_pass_can_be_pickled():
    _, backward = gn.ops["labview.GatherND"](DATA, TUPLES, name="decoder")
    copy = pickle.loads(pickle.dumps(backward))
    assert (copy(np.ones((3, 2))) == backward(np.ones((3, 2)))).all()


def test_names_of_a_labview_node_are_in_the_ir(tmp_path):
    with gn.knobs.scope(dump_dir=tmp_path, always_compile=True):
        gn.ops["labview.GatherND"](DATA, TUPLES, name="decoder", specified_outputs_name=["picked"])
    (text,) = [path.read_text() for path in tmp_path.rglob("00-operator.mlir")]
    assert 'gather.node = "decoder"' in text
    assert 'gather.outputs = ["picked"]' in text
    assert 'version "labview.GatherND"' in text
