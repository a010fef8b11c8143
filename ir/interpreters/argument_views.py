"""Bind a caller's arrays to a function's arguments: as ndarrays, by the views that `collapse-dims` gives arguments."""

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Attribute

from ..array_spec import ArraySpec, contiguous_strides
from ..canonical import view_dims
from ..dialects.attributes import MIN_AXIS_SIZES, MOST_AXIS_SIZE, NARROW_AXES, ROW_SIZES, SCALE, VIEW, ViewAttr
from ..dialects.gather_ops import AnyShaped
from ..dialects.types import numpy_dtype, strides_of
from ..errors import BoundsError, InternalError, ScheduleError
from ..modules.context import find_function
from ..semantics import DYNAMIC, LARGEST_NARROW_AXIS, Shape

# Each byte of a result has this value before a stage runs, so that an element that is never written is noticed.
UNWRITTEN = 0xA5


def unwritten(shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Return a C-contiguous array for a stage to write, whose bytes are `UNWRITTEN`."""
    memory = bytearray([UNWRITTEN]) * (math.prod(shape) * dtype.itemsize)
    return np.frombuffer(memory, np.uint8).view(dtype).reshape(shape)


def index_argument(module: ModuleOp, indices: np.ndarray) -> np.ndarray | None:
    """Return the indices where the function of a module takes them; None where it holds them as a constant."""
    inputs = find_function(module, "gather").function_type.inputs.data
    has_out = isinstance(inputs[0], MemRefType)
    arrays = [kind for kind in inputs if isinstance(kind, MemRefType) or not has_out]
    return indices if len(arrays) == 2 + has_out else None


def bind_arguments(
    function: func.FuncOp, arrays: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[tuple[float, Attribute]]]:
    """Return the values of a function's arguments: views of data, indices (unless constant) and out; and scales.

    Raises:
        BoundsError: the axis has another size than the code was made for.
        InternalError: a view does not have the sizes or the strides of its type.
    """
    types = function.function_type.inputs.data
    attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
    names = ("data", "indices", "out") if len(arrays) == 3 else ("data", "out")
    views = [
        bind_argument(array, type_, attributes[number].data.get(VIEW) if attributes else None, name)
        for number, (name, array, type_) in enumerate(zip(names, arrays, types, strict=False))
    ]
    check_row_size(function, views)
    check_axis_sizes(function, views, views[1] if len(arrays) == 3 else None)
    scales = [
        (scale.value.data, type_)
        for entry, type_ in zip(attributes, types, strict=False)
        if isinstance(scale := entry.data.get(SCALE), FloatAttr)
    ]
    return views, scales


def bind_argument(array: np.ndarray, type_: Attribute, view: Attribute | None, name: str = "out") -> np.ndarray:
    """Return the view of `array` for an argument of type `type_`; errors call the argument `name`.

    Elements of an erased type become integers of its width, with one more dimension when an element has several; a
    `#gather.view` merges dimensions. Elements that are no integers become void elements. Nothing is copied; raises
    InternalError where the view does not have the sizes or the strides of the type.
    """
    assert isinstance(type_, AnyShaped)
    dtype = numpy_dtype(type_.element_type)
    shape, strides = array.shape, array.strides
    units = array.dtype.itemsize // dtype.itemsize if dtype.itemsize else 1
    if units > 1:
        shape, strides = (*shape, units), (*strides, dtype.itemsize)
    if isinstance(view, ViewAttr):
        if any(dim >= len(shape) for group in view.groups for dim in group):
            raise InternalError(f"{name} of {ArraySpec.of(array)}: {view} names a dimension that it does not have")
        shape, strides = view_dims(view.groups, shape, strides)
    if isinstance(type_, MemRefType):
        _check_layout(name, array, type_, shape, strides)
        dtype = dtype if dtype.kind in "iu" or dtype.hasobject else np.dtype(f"V{dtype.itemsize}")
    return _view(array, dtype, shape, strides)


def _check_layout(name: str, array: np.ndarray, type_: MemRefType, shape: Shape, strides: Shape) -> None:
    """Check the sizes and the byte strides of an argument's view of an array; raises InternalError."""
    wanted, itemsize = type_.get_shape(), numpy_dtype(type_.element_type).itemsize
    if len(wanted) != len(shape) or any(
        size not in (want, DYNAMIC) and want != DYNAMIC for size, want in zip(shape, wanted, strict=True)
    ):
        sizes = f"sizes {_sizes(shape)} where the code takes {_sizes(wanted)}"
        raise InternalError(f"{name} of {ArraySpec.of(array)}: {sizes}")
    steps = strides_of(type_)
    expected = (
        contiguous_strides(shape, itemsize)
        if steps is None
        else [None if step is None else step * itemsize for step in steps]
    )
    for size, got, want in zip(shape, strides, expected, strict=True):
        if 0 not in shape and size != 1 and want is not None and got != want:
            raise InternalError(
                f"{name} of {ArraySpec.of(array)}: byte strides {tuple(strides)} where the code takes {type_}"
            )


def _sizes(shape: Shape) -> str:
    return "x".join("?" if size == DYNAMIC else str(size) for size in shape) or "none"


def _view(array: np.ndarray, dtype: np.dtype, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    if array.dtype.hasobject or array.dtype.kind == "T":
        return array
    void = f"|V{dtype.itemsize}"
    layout = {"shape": tuple(shape), "strides": tuple(strides), "typestr": void, "descr": [("", void)]}
    interface = {**array.__array_interface__, **layout}
    return np.asarray(type("_Holder", (), {"__array_interface__": interface, "base": array})()).view(dtype)


def check_axis_sizes(function: func.FuncOp, views: Sequence[np.ndarray], indices: np.ndarray | None) -> None:
    """Reject an axis whose size the code is not made for, as the run time does before it calls a kernel."""
    least = function.attributes.get(MIN_AXIS_SIZES)
    is_narrow, most = NARROW_AXES in function.attributes, function.attributes.get(MOST_AXIS_SIZE)
    has_views = function.arg_attrs is not None and VIEW in function.arg_attrs.data[0].data
    if (
        (least is None and most is None and not is_narrow)
        or not has_views
        or (indices is not None and indices.size == 0)
    ):
        return
    sizes = [
        size
        for number, view in enumerate(views)
        for dim, size in zip(argument_view(function, number).dims, view.shape, strict=True)
        if dim.role == "axis"
    ]
    limits = [LARGEST_NARROW_AXIS] if is_narrow else []
    limits += [most.value.data] if isinstance(most, IntegerAttr) else []
    if limits and max(sizes, default=0) > min(limits):
        raise BoundsError(f"an axis has size {max(sizes)}, but this code holds for at most {min(limits)}")
    for got, wanted in zip(sizes, least.get_values() if isinstance(least, DenseArrayBase) else (), strict=False):
        if got < wanted:
            raise BoundsError(f"the axis has size {got}, but this code holds for {wanted} and more")


def check_row_size(function: func.FuncOp, views: Sequence[np.ndarray]) -> None:
    """Reject rows whose size the code is not made for, as the run time does before it calls a kernel."""
    known = function.attributes.get(ROW_SIZES)
    if isinstance(known, DenseArrayBase):
        sizes = zip(argument_view(function, len(views) - 1).dims, views[-1].shape, strict=True)
        size = next(size for dim, size in sizes if dim == "inner")
        least, most = (int(limit) for limit in known.get_values())
        if size < least or size > (most or size):
            raise ScheduleError(f"rows have {size} elements, but this code holds for {least} to {most or 'any number'}")


def argument_view(function: func.FuncOp, number: int) -> ViewAttr:
    """Return the `#gather.view` of an argument; its absence before `collapse-dims` is an InternalError."""
    attributes = function.arg_attrs.data[number].data if function.arg_attrs is not None else {}
    view = attributes.get(VIEW)
    if not isinstance(view, ViewAttr):
        raise InternalError(f"argument #{number} of @{function.sym_name.data} carries no #gather.view")
    return view
