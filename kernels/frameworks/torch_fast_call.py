"""The fast call of torch's tensors: a call that was made before, found in the call cache without a view from Python."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]

from ..host.runtime import RUNTIME
from .torch_tensors import ML_DTYPES, dispatch_modes, has_function_mode, is_tracing, is_transforming, ml_dtype

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


class Finder(NamedTuple):
    """Two functions that return the result of a remembered call, or None.

    None is the result, too, for tensors that have no plain values in the memory of the CPU.

    Attributes:
        run: `run(find, table, index, out, a, b, c)`: `find` is that of the call cache, and the last three are the keys
            of the call. Returns None where torch records calls rather than running them. `run(..., others, apply, own)`
            is for calls with a gradient: that is what `apply` gives of `forward`, with `(table.shape, *others)` kept,
            or what torch's own function gives for a small one.
        forward: `forward(ctx, table, (find, index, a, b, c, kept))`, that of a `torch.autograd.Function`, which keeps
            what the gradient needs in `ctx.to_save` and `ctx.kept`. It does not look whether calls are recorded.
    """

    run: Callable[..., Any]
    forward: Callable[..., Any]


class Finders(NamedTuple):
    """The finders of calls, by how indices are read.

    Attributes:
        slices: one dimension of indices, as unsigned numbers.
        elements: indices of any shape, as unsigned numbers.
        signed: indices of any shape, as they are.
    """

    slices: Finder
    elements: Finder
    signed: Finder


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
    guards = (dispatch_modes, 0), (has_function_mode, False), (is_tracing, False), (is_transforming, False)
    try:
        library = TensorLibrary(
            Tensor.__dlpack_c_exchange_api__,
            (Tensor, torch.nn.Parameter),
            guards,
            torch.is_grad_enabled,
            known,
            (torch.uint8, torch.int8),
        )
        ways = (unsigned, 1), (unsigned, ANY_RANK), (signed, ANY_RANK)
        return Finders(*[Finder(*functions) for functions in make_tensor_call(library, ways)])
    except Exception:  # it only saves time, and not every version of torch has these functions
        return Finders(*[Finder(*[lambda *arguments: None] * 2)] * 3)
