"""What a gradient, a bag or a node may be scaled by: one rule for every place where a number scales elements.

A scale is finite and fits the dtype of the sums; one too small for it is 0. Weights are values, so infinities stay.
"""

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn

INDICES = np.array([0, 0, 1])
# What is rejected for each dtype, and what is not.
SCALES = {
    "float16": ((1e39, 10**400, np.inf, np.nan, "2", b"2", 1j, np.complex64(1), None), (65520.0, 1e-50, -0.5, 2)),
    "bfloat16": ((1e39, -1e39, ml_dtypes.complex32(1)), (65520.0, 3e38, ml_dtypes.bfloat16(2), ml_dtypes.int4(2))),
    "float8_e5m2": ((1e39,), (3e38,)),
    "float32": ((1e39, -3.5e38, np.float64(2.0**128)), (3.4028235e38, np.float32(3e38), 1e-50)),
    ">f4": ((1e39,), (3e38,)),
    "complex64": ((1e39,), (3e38,)),
    "float64": ((10**400, np.inf), (1e308, 5e-324)),
    "complex128": ((np.nan,), (1e308,)),
    "int4": ((0.5, 2.0**53), (3.0,)),
    "int8": ((0.5, 2**70), (300,)),
    "int32": ((0.5, 2**70, 2**53, 1e300), (2**53 - 1,)),
    ">i8": ((0.5, 2**53), (-1,)),
    "uint64": ((1.5, -(2**53)), (-1,)),
    "m8[s]": ((1e39, 2**70), (0.5, 3)),
}
CASES = [
    pytest.param(name, scale, at == 0, id=f"{name}-{scale}")
    for name, kinds in SCALES.items()
    for at, scales in enumerate(kinds)
    for scale in scales
]


def gradient_of(name: str) -> np.ndarray:
    return np.array([1, 0, 0]).astype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize(("name", "scale", "is_rejected"), CASES)
def test_scale_is_finite_in_the_dtype_of_the_sums(name, scale, is_rejected):
    grad = gradient_of(name)
    if is_rejected:
        out = np.full(2, 7).astype(grad.dtype)
        before = out.tobytes()
        with pytest.raises(gn.InvalidGatherError, match="scale must be"):
            gn.gather_grad(grad, INDICES, (2,), scale=scale, out=out)
        assert out.tobytes() == before
        return
    found = gn.gather_grad(grad, INDICES, (2,), scale=scale)
    assert found[1] == grad[1], "0 times a scale is no NaN"


def test_scale_is_rejected_for_chunks():
    array = pytest.importorskip("dask.array")
    with pytest.raises(gn.InvalidGatherError, match="scale must be at most"):
        gn.gather_grad(array.ones(3, dtype="f4"), INDICES, (2,), scale=1e39)


BAGS = np.zeros((2, 3), np.int64)
ROWS = np.zeros((4, 5), np.float32)


@pytest.mark.parametrize("weight", [np.inf, np.nan, 1e-50])
def test_infinite_and_tiny_weights_are_those_of_numpy(weight):
    weights = np.full((2, 3), weight)
    found = gn.gather_reduce(ROWS + 1, BAGS, weights=weights)
    np.testing.assert_array_equal(found, np.full((2, 5), 3 * np.float32(weight)))
