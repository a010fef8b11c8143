"""The fast call of torch's tensors: a call that was made before, found in the call cache without a view from Python."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]

from ..host.runtime import RUNTIME
from .torch_tensors import ML_DTYPES, dispatch_modes, ml_dtype, trace, transform

_OF_NUMPY = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_OF_ML_DTYPES = {
    "bfloat16": 4,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
}
_NUMBERS = "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 b1"


class Finders(NamedTuple):
    """Functions of `(find, table, index, out, first, second, third)`: the result of a remembered call, or None.

    `find` is that of the call cache, and the last three are the keys of the call. None is the result, too, where torch
    records calls rather than running them, and for tensors that have no plain values in the memory of the CPU.

    Attributes:
        slices: by one dimension of indices, which are read as unsigned numbers.
        elements: by indices of any shape, which are read as unsigned numbers.
        signed: by indices of any shape, which are read as they are.
    """

    slices: Callable[..., Any]
    elements: Callable[..., Any]
    signed: Callable[..., Any]


@functools.cache
def finders() -> Finders:
    """Return the finders, which are compiled once."""
    return RUNTIME.make(_made_finders)


def _made_finders() -> Finders:
    from ...lowering.native.tensor_call import ANY_RANK, TensorLibrary, make_tensor_call

    dtypes = [np.dtype(name) for name in _NUMBERS.split()]
    known = {(_OF_NUMPY[dtype.kind], dtype.itemsize): dtype for dtype in dtypes}
    unsigned = {(code, size): known[1, size] for code in (0, 1) for size in (1, 2, 4, 8)}
    signed = {place: dtype for place, dtype in known.items() if place[0] in (0, 1)}
    narrow = {_OF_ML_DTYPES[name]: ml_dtype(name) for name in ML_DTYPES.values()}
    known |= {(code, dtype.itemsize): dtype for code, dtype in narrow.items()}
    guards = (dispatch_modes, 0), (trace, None), (transform, None)
    try:
        library = TensorLibrary(Tensor.__dlpack_c_exchange_api__, (Tensor, torch.nn.Parameter), guards, known)
        return Finders(*make_tensor_call(library, ((unsigned, 1), (unsigned, ANY_RANK), (signed, ANY_RANK))))
    except Exception:  # it only saves time, and not every version of torch has these functions
        return Finders(*[lambda *arguments: None] * 3)
