"""Rounding to float16 in machine code gives the bytes of NumPy's cast."""

import numpy as np
import pytest

from gathernest.lowering.native.c_function import rounding
from gathernest.lowering.native.c_function_ir import ROUNDED_LANES


def rounded(wide: np.ndarray) -> np.ndarray:
    run = rounding()
    if run is None:
        pytest.skip("this CPU has no instruction that rounds to float16")
    narrow = np.full(len(wide) + 1, 7, np.float16)
    run(wide.ctypes.data, narrow.ctypes.data, len(wide))
    assert narrow[-1] == 7
    return narrow[:-1]


@pytest.mark.filterwarnings("ignore:overflow")
def test_every_half_and_what_lies_next_to_and_between_two_is_rounded_as_numpy_does():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    exact = halves[~np.isnan(halves)].astype(np.float32)
    bits = np.unique(exact.view(np.uint32))
    between = (bits[:-1] // 2 + bits[1:] // 2).astype(np.uint32)
    near = np.concatenate([bits, bits + 1, bits - 1, between, between + 1, between - 1])
    near = near.astype(np.uint32).view(np.float32)
    special = np.float32([np.nan, -np.nan, 1e-45, 65519.996, 65520, 3e38])
    wide = np.append(near[~np.isnan(near)], special)  # a sum is never a signalling NaN
    assert rounded(wide).tobytes() == wide.astype(np.float16).tobytes()


@pytest.mark.parametrize("count", [0, 1, ROUNDED_LANES - 1, ROUNDED_LANES, ROUNDED_LANES + 1, 3 * ROUNDED_LANES - 1])
def test_elements_that_fill_no_vector_are_rounded(count):
    wide = np.linspace(-3, 70_000, count, dtype=np.float32)
    with np.errstate(over="ignore"):
        assert rounded(wide).tobytes() == wide.astype(np.float16).tobytes()
