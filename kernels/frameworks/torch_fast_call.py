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
    """Three functions that return the result of a remembered call, or None.

    None is the result, too, for tensors that have no plain values in the memory of the CPU.

    Attributes:
        run: `run(find, table, index, out, a, b, c)`: `find` is that of the call cache, and the last three are the keys
            of the call. Returns None where torch records calls rather than running them. `run(..., others, apply, own)`
            is for calls with a gradient: that is what `apply` gives of `forward`, with `(table.shape, *others)` kept,
            or what torch's own function gives for a small one.
        forward: `forward(ctx, table, (find, index, a, b, c, kept))`, that of a `torch.autograd.Function`, which keeps
            what the gradient needs in `ctx.to_save` and `ctx.kept`. It does not look whether calls are recorded.
        bags: `bags(find, table, a, b, c, rows, index, offsets, has_last, size, padding, repeats_first, most, weights)`:
            `rows` is that of `bag_rows`, which takes the arguments behind it. It does not look for that, either.
    """

    run: Callable[..., Any]
    forward: Callable[..., Any]
    bags: Callable[..., Any]


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


class OwnGradient(NamedTuple):
    """Torch's function for a small call with a gradient, `function(table, ...)` with the index at `place`.

    Attributes:
        function: it adds float32 and float64 in the order of the indices.
        place: of the index.
        most: the most indices.
        add: the method by which its gradient adds, `add(dim, index, slices)`, if it may add narrow floats in float32.
        takes_slices: whether an index is that of a slice, not of an element.
        has_complex: whether complex numbers are added as pairs; a slice times 1 + 0j makes NaN of infinity.
        by_int64: the same function, which makes indices of 32 bits int64 first; for slices of narrow floats.
    """

    function: Callable[..., Any]
    place: int
    most: int
    add: Callable[..., Any] | None = None
    takes_slices: bool = True
    has_complex: bool = False
    by_int64: Callable[..., Any] | None = None


def own_function(own: OwnGradient) -> Any:
    """Return it as machine code takes it, with the element types that it is for.

    Where it rounds each addition of narrow floats, those are for slices of which none is there twice.
    """
    from ...lowering.native.tensor_gradient import Own, kinds

    wide = kinds((2, 4), (2, 8), *([(5, 8), (5, 16)] if own.has_complex else []))
    narrow = kinds((2, 2), (4, 2))
    added = wide | narrow if own.add is not None and _adds_in_float32(own.add) else wide
    first = own.function, own.place, own.most, added
    if own.takes_slices:  # of other ranks and by int32 it rounds each addition
        return Own(*first, wide, narrow, own.by_int64, added & narrow)
    return Own(*first, added, 0, None, 0)


def _adds_in_float32(add: Callable[..., Any]) -> bool:
    """Return whether this torch adds narrow floats in float32 and rounds once: 1 and two halves of its last bit."""
    for dtype in (torch.bfloat16, torch.float16):
        last_bit = torch.finfo(dtype).eps
        for shape, dim in (((3, 1), 0), ((3, 40), 0), ((40, 3), 1)):
            slices = torch.full(shape, last_bit / 2, dtype=dtype, device="cpu")
            slices.select(dim, 0).fill_(1)
            table = torch.zeros([1 if size == 3 else size for size in shape], dtype=dtype, device="cpu")
            index = torch.zeros(3 if add is Tensor.index_add_ else shape, dtype=torch.int64, device="cpu")
            if not (add(table, dim, index, slices) == 1 + last_bit).all():
                return False
    return True


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
        return Finders(*[Finder(*[lambda *arguments: None] * 3)] * 3)
