"""What an operation of a stage loads and stores, as the caller sees it: array, position, byte and cache line."""

import math
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import BlockArgument, SSAValue

from ...ir.array_spec import contiguous_strides
from ...ir.canonical import Groups
from ...ir.dialects.attributes import VIEW, ViewAttr
from ...ir.dialects.gather_ops import AnyShaped
from ...ir.dialects.types import numpy_dtype
from ...ir.interpreters.recorder import Touch
from ...lowering.nest.queries import argument_number, merged_dims, viewed
from .steps import Access, Shape

# What the arrays of a gather and of a gradient are called.
ROLES = ("data", "grad", "indices", "out")


class Arrays:
    """The caller's arrays behind the arguments of a stage's function.

    Attributes:
        names: what they are called: of a gather data, indices and out; of a gradient grad, indices and out.
        arrays: they themselves, in the order of the arguments; without indices where the module holds them.
        line_bytes: the size of a cache line.
    """

    def __init__(self, function: func.FuncOp, arrays: dict[str, np.ndarray], line_bytes: int):
        self.names, self.arrays = list(arrays), list(arrays.values())
        self.function, self.line_bytes = function, line_bytes

    def number_of(self, memory: SSAValue) -> int | None:
        """Return which of the arrays a memref is a view of; None for a buffer or a constant."""
        number = argument_number(viewed(memory), self.function)
        return number if number is not None and number < len(self.arrays) else None

    def access(self, memory: SSAValue, touch: Touch, name: str) -> Access:
        """Return a load or store through a memref, `name` where it is no view of an array."""
        number, root = self.number_of(memory), viewed(memory)
        assert isinstance(root.type, MemRefType)
        place = self._place(memory, touch.place)
        if number is None:
            dtype = numpy_dtype(root.type.element_type)
            strides = contiguous_strides(root.type.get_shape(), dtype.itemsize)
            byte = sum(part * step for part, step in zip(place, strides, strict=True))
            name = f"constant {name}" if name in ROLES else name  # the stage's own, and not the caller's
            return Access(name, place, byte, byte // self.line_bytes, touch.is_store, decoded(touch.value, dtype))
        array = self.arrays[number]
        position, unit = self._position(number, place)
        value = touch.value if unit is not None else decoded(touch.value, array.dtype)
        byte = touch.address - first_byte(array)
        return Access(self.names[number], position, byte, byte // self.line_bytes, touch.is_store, value, unit)

    def prefetched(self, memory: SSAValue, touch: Touch, name: str) -> str:
        """Return in words what a prefetch through a memref loads, `name` where it is no view of an array."""
        number, place = self.number_of(memory), self._place(memory, touch.place)
        if number is None:
            return f"prefetches {name}{list(place)}"
        array = self.arrays[number]
        byte = touch.address - first_byte(array)
        where = f"byte {byte}, cache line {byte // self.line_bytes}"
        if all(0 <= part < size for part, size in zip(place, self.view_shape(number), strict=True)):
            return f"prefetches {self.names[number]}{list(self.caller_position(number, place))}: {where}, inside"
        return f"prefetches {where} of {self.names[number]}, outside of the array: no error, and no use"

    def _place(self, memory: SSAValue, given: Shape) -> Shape:
        """Return the subscripts of the memref behind a view, given those of the view."""
        number, root, view = self.number_of(memory), viewed(memory), memory.owner
        if not isinstance(view, memref.CollapseShapeOp):
            return given
        assert isinstance(root.type, MemRefType)
        sizes, place = root.type.get_shape() if number is None else self.view_shape(number), list[int]()
        for group, subscript in zip(merged_dims(view), given, strict=True):
            found: list[int] = []
            for dim in reversed(group[1:]):
                subscript, part = divmod(subscript, max(sizes[dim], 1))
                found.append(part)
            place += [subscript, *reversed(found)]
        return tuple(place)

    def _position(self, number: int, place: Shape) -> tuple[Shape, int | None]:
        """Return the position in an array that subscripts of its view mean, and the part of the element."""
        array = self.arrays[number]
        parts = self._parts(number)
        position, unit = [0] * array.ndim, None
        for group, subscript in zip(self._groups(number), place, strict=True):
            for dim in reversed(group):
                if dim == array.ndim:  # the parts of an element lie along a dimension of their own
                    subscript, unit = divmod(subscript, parts)
                else:
                    subscript, position[dim] = divmod(subscript, array.shape[dim])
        return tuple(position), unit

    def caller_position(self, number: int, place: Shape) -> Shape:
        """Return the position in an array that subscripts of its view mean."""
        return self._position(number, place)[0]

    def view_place(self, number: int, position: Shape) -> Shape:
        """Return the subscripts of an element's first part in the view of an array."""
        array, place = self.arrays[number], []
        sizes = (*array.shape, self._parts(number))
        for group in self._groups(number):
            subscript = 0
            for dim in group:
                subscript = subscript * sizes[dim] + (0 if dim == array.ndim else position[dim])
            place.append(subscript)
        return tuple(place)

    def view_shape(self, number: int) -> Shape:
        """Return the shape of the view of an array."""
        sizes = (*self.arrays[number].shape, self._parts(number))
        return tuple(math.prod(sizes[dim] for dim in group) for group in self._groups(number))

    def whole(self, number: int, position: Shape, value: Any, *, is_store: bool = False) -> Access:
        """Return the access of a whole element of an array."""
        byte = byte_of(self.arrays[number], position)
        return Access(self.names[number], position, byte, byte // self.line_bytes, is_store, value)

    def _groups(self, number: int) -> Groups:
        """Return the dimensions of an array that each dimension of its view merges."""
        attributes = self.function.arg_attrs.data if self.function.arg_attrs is not None else ()
        view = attributes[number].data.get(VIEW) if number < len(attributes) else None
        rank = self._kind(number).get_num_dims()
        return view.groups if isinstance(view, ViewAttr) else tuple((dim,) for dim in range(rank))

    def _parts(self, number: int) -> int:
        """Return how many parts an element of an array is moved in."""
        return max(self.arrays[number].itemsize // (numpy_dtype(self._kind(number).element_type).itemsize or 1), 1)

    def _kind(self, number: int) -> AnyShaped:
        """Return the type of an array's view; on tensors the result is what the function returns."""
        kinds = [*self.function.function_type.inputs.data, *self.function.function_type.outputs.data]
        kind = kinds[number]
        assert isinstance(kind, AnyShaped)
        return kind


def decoded(value: Any, dtype: np.dtype) -> Any:
    """Return an element that a stage moves as an integer or as bytes, as a value of a dtype of the same size."""
    if isinstance(value, np.void):
        stored = value.tobytes()
    elif isinstance(value, int) and not dtype.hasobject and dtype.itemsize:
        stored = (value & ((1 << 8 * dtype.itemsize) - 1)).to_bytes(dtype.itemsize, "little")
    else:
        return value
    return np.frombuffer(stored, dtype)[0] if len(stored) == dtype.itemsize else value


def first_byte(array: np.ndarray) -> int:
    """Return the address of the first byte of an array, which strides below 0 put before its first element."""
    steps = zip(array.shape, array.strides, strict=True)
    return array.ctypes.data + sum(min(step, 0) * (size - 1) for size, step in steps if size)


def byte_of(array: np.ndarray, position: Shape) -> int:
    """Return the offset of an element from the first byte of its array."""
    start = array.ctypes.data + sum(part * step for part, step in zip(position, array.strides, strict=True))
    return start - first_byte(array)


def elements_of(stored: SSAValue) -> set[SSAValue]:
    """Return the values that are an element on its way to a store, from the loads on: not masks, not positions."""
    found: set[SSAValue] = set()
    pending = [stored]
    while pending:
        value = pending.pop()
        owner = value.owner
        if value in found or isinstance(value, BlockArgument):
            continue
        found.add(value)
        if isinstance(owner, arith.SelectOp):
            pending += [owner.lhs, owner.rhs]
        elif isinstance(owner, arith.AndIOp):
            pending.append(owner.lhs)
        elif getattr(owner, "name", "") == "vector.from_elements":
            pending += owner.operands  # type: ignore[union-attr]
    return found
