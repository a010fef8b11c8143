"""Gradients of dask arrays: sums by chunk, then a tree that the chunks alone decide, wherever its tasks run."""

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.chunks.dask_gradient import FAN_IN

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(0)
GRAD = RNG.standard_normal((90, 3)).astype(np.float32)
INDICES = RNG.integers(-20, 20, 90)


@pytest.fixture(autouse=True)
def _here():
    """Run tasks in this thread, under the empty schedule, unless a test says otherwise."""
    with dask.config.set(scheduler="sync"), gn.knobs.scope(schedule=""):
        yield


def in_documented_order(block: int) -> np.ndarray:
    """Return the gradient of GRAD by INDICES, added by blocks of so many rows, then by groups of FAN_IN."""
    parts = []
    for start in range(0, len(GRAD), block):
        parts.append(np.zeros((20, 3), np.float32))
        for row, index in zip(GRAD[start : start + block], INDICES[start : start + block], strict=True):
            parts[-1][index] += row
    while len(parts) > 1:
        parts = [sum(parts[first + 1 : first + FAN_IN], parts[first]) for first in range(0, len(parts), FAN_IN)]
    return parts[0]


def test_bytes_are_those_of_the_documented_order_on_any_number_of_threads():
    wanted = in_documented_order(5)
    assert wanted.tobytes() != gn.gather_grad(GRAD, INDICES, (20, 3)).tobytes()  # the order is seen
    for size in ("128MiB", "100B"):
        with dask.config.set({"array.chunk-size": size}):
            lazy = gn.gather_grad(da.from_array(GRAD, chunks=(5, 3)), INDICES, (20, 3))
        assert (len(lazy.chunks[0]) > 1) == (size == "100B")
        for workers in (None, 1, 4):
            where = {"scheduler": "threads", "num_workers": workers} if workers else {}
            assert lazy.compute(**where).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16, ml_dtypes.int4, "O", "m8[s]"])
def test_every_dtype_is_added_as_in_memory(dtype):
    grad = np.full(90, 3).astype(dtype)
    wanted = gn.gather_grad(grad, np.zeros(90, int), (2,), scale=3)
    got = gn.gather_grad(da.from_array(grad, chunks=7), np.zeros(90, int), (2,), scale=3).compute()
    assert (got.dtype, got.tolist()) == (wanted.dtype, wanted.tolist())


def test_chunks_that_known_indices_do_not_point_into_have_no_parts():
    with dask.config.set({"array.chunk-size": "80B"}):
        lazy = gn.gather_grad(da.ones((6, 2), chunks=(2, 2)), [1, 0, 9, 99, 98, 98], (100, 2))
        unknown = gn.gather_grad(da.ones((6, 2), chunks=(2, 2)), da.from_array(np.arange(6), chunks=2), (100, 2))
    assert lazy.chunks[0] == (5,) * 20
    parts = [sum(str(key[0]).startswith("part-") for key in array.__dask_graph__()) for array in (lazy, unknown)]
    assert parts == [4, 3 * 20]
    assert lazy.compute()[:, 0].nonzero()[0].tolist() == [0, 1, 9, 98, 99]


def test_wrong_arguments_have_the_errors_of_arrays_in_memory():
    lazy = da.from_array(GRAD, chunks=40)
    outside = INDICES.copy()
    outside[77] = 20
    for indices in (outside, da.from_array(outside, chunks=30)):
        with pytest.raises(
            gn.BoundsError, match=r"index 20 at position \(77,\) of indices is out of range \[-20, 19\]"
        ):
            gn.gather_grad(lazy, indices, (20, 3)).compute()
    with pytest.raises(gn.BoundsError, match="axis 0 of data has size 0"):
        gn.gather_grad(lazy, INDICES, (0, 3), bounds="clip").compute()
    for gradient, chosen in (
        (gn.gather_nd_grad, outside[:, None]),
        (gn.gather_elements_grad, np.stack([outside] * 3, 1)),
    ):
        with pytest.raises(gn.BoundsError, match="index 20 at position"):
            gradient(lazy, chosen, (20, 3)).compute()
    for arguments, options, message in [
        ((lazy, INDICES, (20, 4)), {}, r"grad must have shape \(90, 4\)"),
        ((lazy.astype(bool), INDICES, (20, 3)), {}, "grad must have elements that can be added, got dtype bool"),
        ((lazy.astype(int), INDICES, (20, 3)), {"scale": 0.5}, "scale must be a whole number"),
        ((lazy[lazy[:, 0] > 0], INDICES, (20, 3)), {}, r"grad has chunks of unknown size, its shape is \(nan, 3\); fi"),
        ((lazy, INDICES, (20, 3)), {"out": np.zeros((20, 3), "f4")}, "out cannot be in memory with dask arrays"),
    ]:
        with pytest.raises(gn.InvalidGatherError, match=message):
            gn.gather_grad(*arguments, **options)
