"""Call a function of upstream's as C does: arrays by descriptors of memrefs, and numbers as they are."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import Float32Type, Float64Type, FunctionType, IntegerType
from xdsl.ir import Attribute

# Upstream's name of the form of a function that C can call.
C_FORM = "_mlir_ciface_"


def c_call(
    address: int, type_: FunctionType, views: Sequence[np.ndarray], scales: Sequence[float]
) -> Callable[[], int]:
    """Return a call of machine code on these arguments; it returns the result of the function, or 0 for none.

    Args:
        address: of the function `C_FORM` with its name.
        type_: of the function as the module has it.
        views: what its memrefs are, as `bind_arguments` returns them.
        scales: the numbers behind them.
    """
    descriptors = [memref_descriptor(view) for view in views]
    kinds = [_kind(argument) for argument in type_.inputs.data[len(views) :]]
    numbers = [_number(scale, kind) for scale, kind in zip(scales, kinds, strict=True)]
    result = ctypes.c_int64 if type_.outputs.data else None
    function = ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * len(views), *kinds)(address)
    given = [*map(ctypes.addressof, descriptors), *numbers]

    def call(kept: Any = (descriptors, views)) -> int:
        return function(*given) or 0

    return call


def memref_descriptor(view: np.ndarray) -> ctypes.Array[ctypes.c_int64]:
    """Return the descriptor of a view: allocated and aligned pointer, offset, sizes, strides in elements."""
    assert all(stride % view.itemsize == 0 for stride in view.strides)
    numbers = [view.ctypes.data] * 2 + [0, *view.shape, *(stride // view.itemsize for stride in view.strides)]
    return (ctypes.c_int64 * len(numbers))(*numbers)


def _kind(type_: Attribute) -> Any:
    """Return what C passes a number of a type as."""
    if isinstance(type_, IntegerType):
        return getattr(ctypes, f"c_int{type_.width.data}")
    return {Float32Type: ctypes.c_float, Float64Type: ctypes.c_double}[type(type_)]


def _number(scale: float, kind: Any) -> Any:
    return scale if kind in (ctypes.c_float, ctypes.c_double) else kind(int(scale))
