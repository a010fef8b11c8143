"""The canonical form of a gather: every rank and every axis as (batch, outer, axis, inner).

    data    (batch, outer, axis,    inner)
    indices (batch, indices)
    out     (batch, outer, indices, inner)

gather_nd and gather_elements have such a form, too: a dimension of out is a loop, and the loop's induction variable is
the subscript of the dimensions of that name in the other arrays.

Adjacent dimensions of one role merge if the strides of all arrays with them allow it, so one kernel serves every rank.
Strided arrays stay views. Where their strides forbid a merge the role keeps more than one dimension (`outer_0`,
`outer_1`, ...), so nothing is ever copied to fit. A role without a dimension gets one of size 1.

The same functions serve the pass `collapse-dims`, the interpreter and the run time, so that all three agree on a
kernel's arguments. All strides are in bytes, or all in elements; None stands for a C-contiguous array. Plain Python.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .array_spec import contiguous_strides
from .loop_name import LoopName
from .semantics import DYNAMIC

Groups = tuple[tuple[int, ...], ...]


class Strided(NamedTuple):
    """A shape and its strides in one unit, None for C-contiguous; a single stride may be None when it is not known."""

    shape: tuple[int, ...]
    strides: tuple[int | None, ...] | None


class Operand(NamedTuple):
    """One array of a canonical gather, as a view of the caller's array.

    Attributes:
        dims: the name of each dimension, such as ("batch", "outer", "axis", "inner").
        groups: the dimensions of the caller's array that each dimension merges. Dimensions of size 1 are left out, so
            an empty group is a dimension of size 1.
        shape: the sizes.
        strides: the strides, in the unit of the input; None for C-contiguous.
    """

    dims: tuple[LoopName, ...]
    groups: Groups
    shape: tuple[int, ...]
    strides: tuple[int | None, ...] | None

    @property
    def known_strides(self) -> tuple[int | None, ...] | None:
        """The strides that a kernel knows when sizes are run-time arguments, as `layout_class` gives them."""
        return layout_class(self.shape, self.strides, 1)

    def count_of(self, role: str) -> int:
        """Return the number of dimensions of a role."""
        return sum(dim.role == role for dim in self.dims)

    def place_of(self, role: str) -> int:
        """Return the number of the first dimension of a role."""
        return next(place for place, dim in enumerate(self.dims) if dim.role == role)


class CanonicalGather(NamedTuple):
    """The three arrays of a gather with their dimensions merged."""

    data: Operand
    indices: Operand
    out: Operand

    def loops(self) -> dict[LoopName, int]:
        """Return the loops of the nest and their trips, outermost first: the dimensions of out, and bags."""
        trips = dict(zip(self.out.dims, self.out.shape, strict=True))
        bags = {dim: size for dim, size in zip(self.indices.dims, self.indices.shape, strict=True) if dim.role == "bag"}
        if not bags:
            return trips
        return {dim: size for dim, size in trips.items() if dim in self.indices.dims} | bags | trips


@dataclass(frozen=True, slots=True)
class Role:
    """Adjacent dimensions of the arrays that one group of loops, or an axis, runs over.

    Attributes:
        name: `batch`, `outer`, `axis`, `indices`, `bag`, `inner` or `tuple`.
        count: the number of dimensions.
        data, indices, out: the first of the dimensions in each array; None where the array has none of them.
        data_is_larger: whether data may be larger than the loops; then only the beginning of it is read.
    """

    name: str
    count: int
    data: int | None = None
    indices: int | None = None
    out: int | None = None
    data_is_larger: bool = False

    def label(self, array: str) -> str:
        """Return the name of the role in an array; data has a name of its own where its size differs."""
        return f"data_{self.name}" if array == "data" and self.data_is_larger else self.name


def canonical_gather(
    data: Strided, indices: Strided, out: Strided, roles: Sequence[Role], *, covers_data: bool = False
) -> CanonicalGather:
    """Merge the dimensions of a gather.

    Args:
        data, indices, out: the arrays; sizes may be `DYNAMIC` in a contiguous array.
        roles: the roles of their dimensions, in the order of the dimensions.
        covers_data: whether the view of data has all of its elements, which a gradient clears, and not only the
            elements that a gather may read.
    """
    merged: dict[str, Groups] = {}
    for role in roles:
        if role.name in ("axis", "tuple"):  # stay as they are
            merged[role.name] = tuple([(dim,) for dim in range(role.count)])
        else:
            arrays = ((out, role.out), (indices, role.indices), (data, role.data))
            there = [(array, first) for array, first in arrays if first is not None]
            merged[role.name] = _merge(there, role, covers_data=covers_data)
    return CanonicalGather(
        _operand("data", data, roles, merged),
        _operand("indices", indices, roles, merged),
        _operand("out", out, roles, merged),
    )


def dim_names(roles: Sequence[Role], array: str) -> tuple[LoopName, ...]:
    """Return the name of each dimension of an array, "data", "indices" or "out": `outer`, or `outer_0` of several."""
    there = (role for role in roles if getattr(role, array) is not None)
    return tuple(name for role in there for name in numbered(role.label(array), role.count))


def numbered(label: str, count: int) -> list[LoopName]:
    """Return the names of `count` dimensions of one role."""
    return [LoopName(label)] if count == 1 else [LoopName(f"{label}_{number}") for number in range(count)]


def view_dims(groups: Groups, shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape and strides of the view that merges `groups` of an array's dimensions."""
    sizes = tuple(math.prod(shape[dim] for dim in group) for group in groups)
    return sizes, tuple(strides[group[-1]] if group else 0 for group in groups)


def erased_size(size: int, dim: LoopName) -> int:
    """Return the part of a size that a kernel knows: 1 or the length of tuples; never an axis."""
    return size if dim.role == "tuple" or (size == 1 and dim.role != "axis") else DYNAMIC


def layout_class(
    shape: Sequence[int], strides: Sequence[int | None] | None, unit: int
) -> tuple[int | None, ...] | None:
    """Return the strides of an array that a kernel knows when sizes are run-time arguments.

    None means C-contiguous: strides follow from sizes. Otherwise one entry a dimension: 1 where the stride is one
    element (`unit`) or does not matter (size 1), None where it is a run-time argument.
    """
    if strides is None:
        return None
    plain = contiguous_strides(shape, unit)
    if all(size == 1 or got == want for size, got, want in zip(shape, strides, plain, strict=True)):
        return None
    return tuple(1 if size == 1 or stride == unit else None for size, stride in zip(shape, strides, strict=True))


def erased(operand: Operand) -> Operand:
    """Return an operand after `erase-sizes`: only the sizes and strides that are no run-time arguments are left."""
    sizes = tuple([erased_size(size, dim) for size, dim in zip(operand.shape, operand.dims, strict=True)])
    return Operand(operand.dims, operand.groups, sizes, operand.known_strides)


def is_one_run(operand: Operand) -> bool:
    """Return whether several dimensions have no gaps and no tuples, so that one loop can run over all elements."""
    has_several = sum(size != 1 for size in operand.shape) > 1
    return has_several and not operand.count_of("tuple") and operand.known_strides is None


def _merge(arrays: Sequence[tuple[Strided, int]], role: Role, *, covers_data: bool) -> Groups:
    """Group the dimensions of a role that merge in all arrays; each array comes with the first of its dimensions.

    The sizes of the first array are the trip counts of the loops.
    """
    first, start = arrays[0]
    groups: list[list[int]] = []
    for dim in range(role.count):
        size = first.shape[start + dim]
        if size == 1 and not (covers_data and any(array.shape[at + dim] != 1 for array, at in arrays)):
            continue
        is_known = not (role.data_is_larger and size == DYNAMIC)
        if groups and is_known and all(_adjacent(array, at + groups[-1][-1], at + dim, size) for array, at in arrays):
            groups[-1].append(dim)
        else:
            groups.append([dim])
    return tuple(map(tuple, groups)) or ((),)


def _adjacent(array: Strided, outer: int, inner: int, trips: int) -> bool:
    """Return whether `trips` steps along `inner` lead to the next element of `outer`."""
    if 0 in array.shape:
        return True
    if array.strides is None:
        # The loop skipped dimensions of size 1 between the two; in data they may be larger, and then leave a gap.
        return math.prod(array.shape[outer + 1 : inner + 1]) == trips
    outer_stride, inner_stride = array.strides[outer], array.strides[inner]
    if outer_stride is None or inner_stride is None or trips == DYNAMIC:
        return False
    return outer_stride == inner_stride * trips


def _product(sizes: Sequence[int]) -> int:
    return DYNAMIC if DYNAMIC in sizes else math.prod(sizes)


def _operand(name: str, array: Strided, roles: Sequence[Role], merged: dict[str, Groups]) -> Operand:
    dims: list[LoopName] = []
    groups: list[tuple[int, ...]] = []
    for role in roles:
        if (start := getattr(role, name)) is not None:
            dims += numbered(role.label(name), len(merged[role.name]))
            groups += [tuple([start + dim for dim in group]) for group in merged[role.name]]
    sizes, strides = array.shape, array.strides
    shape = tuple([sizes[group[0]] if len(group) == 1 else _product([sizes[dim] for dim in group]) for group in groups])
    if strides is None and len(sizes) != sum(map(len, groups)):
        grouped = {dim for group in groups for dim in group}
        if any(size != 1 and dim not in grouped for dim, size in enumerate(sizes)):
            strides = contiguous_strides(sizes, 1)
    if strides is None or 0 in sizes:
        return Operand(tuple(dims), tuple(groups), shape, None)
    return Operand(tuple(dims), tuple(groups), shape, tuple([strides[group[-1]] if group else 1 for group in groups]))
