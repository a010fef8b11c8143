"""The canonical form of a gather: every rank and every axis as (batch, outer, axis, inner).

    data    (batch, outer, axis,    inner)
    indices (batch, indices)
    out     (batch, outer, indices, inner)

Adjacent dimensions of one role merge when every array they occur in lets them: then one kernel serves every rank.
Strided arrays stay views. Where their strides forbid a merge the role keeps more than one dimension (`outer_0`,
`outer_1`, ...), so nothing is ever copied to fit. A role without a dimension gets one of size 1.

The same functions serve the pass `collapse-dims`, the interpreter and the run time, so that all three agree on what a
kernel is handed. Strides are in any one unit (bytes or elements); None stands for a C-contiguous array. Plain Python.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .array_spec import contiguous_strides
from .semantics import DYNAMIC

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Strided:
    """A shape and its strides in one unit, None for C-contiguous; a single stride may be None when it is not known."""

    shape: tuple[int, ...]
    strides: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Operand:
    """One array of a canonical gather, as a view of what the caller passed.

    Attributes:
        dims: the name of each dimension, such as ("batch", "outer", "axis", "inner").
        groups: the dimensions of the caller's array that each dimension merges. Dimensions of size 1 are left out, so
            an empty group is a dimension of size 1.
        shape: the sizes.
        strides: the strides, in the unit of the input; None for C-contiguous.
    """

    dims: tuple[str, ...]
    groups: Groups
    shape: tuple[int, ...]
    strides: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class CanonicalGather:
    """A gather whose dimensions are merged; `axis` and `batch_dims` are those of the merged arrays."""

    data: Operand
    indices: Operand
    out: Operand
    axis: int
    batch_dims: int


def canonical_gather(data: Strided, indices: Strided, out: Strided, axis: int, batch_dims: int) -> CanonicalGather:
    """Merge the dimensions of a gather.

    Args:
        data, indices, out: the arrays; sizes may be `DYNAMIC` in a contiguous array.
        axis, batch_dims: normalised.
    """
    data_rank, indices_rank = len(data.shape), len(indices.shape)
    tail = axis + indices_rank - batch_dims
    batch = _merge([(data, 0), (indices, 0), (out, 0)], batch_dims)
    outer = _merge([(data, batch_dims), (out, batch_dims)], axis - batch_dims)
    picks = _merge([(indices, batch_dims), (out, axis)], indices_rank - batch_dims)
    inner = _merge([(data, axis + 1), (out, tail)], data_rank - axis - 1)

    return CanonicalGather(
        data=_operand(
            data,
            {"batch": (batch, 0), "outer": (outer, batch_dims), "axis": (((0,),), axis), "inner": (inner, axis + 1)},
        ),
        indices=_operand(indices, {"batch": (batch, 0), "indices": (picks, batch_dims)}),
        out=_operand(
            out, {"batch": (batch, 0), "outer": (outer, batch_dims), "indices": (picks, axis), "inner": (inner, tail)}
        ),
        axis=len(batch) + len(outer),
        batch_dims=len(batch),
    )


def view_dims(groups: Groups, shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape and strides of the view that merges `groups` of an array's dimensions."""
    sizes = tuple(math.prod(shape[dim] for dim in group) for group in groups)
    steps = tuple(strides[group[-1]] if group else 0 for group in groups)
    return sizes, steps


def layout_class(
    shape: Sequence[int], strides: Sequence[int | None] | None, unit: int
) -> tuple[int | None, ...] | None:
    """Return what a kernel knows of an array's strides when its sizes are run-time arguments.

    None means C-contiguous: strides follow from sizes. Otherwise one entry a dimension: 1 where the stride is one
    element or does not matter (size 1), None where it is a run-time argument.

    Args:
        unit: the width of an element in the unit of `strides`.
    """
    if strides is None:
        return None
    plain = contiguous_strides(shape, unit)
    if all(size == 1 or got == want for size, got, want in zip(shape, strides, plain, strict=True)):
        return None
    return tuple(1 if size == 1 or stride == unit else None for size, stride in zip(shape, strides, strict=True))


def _merge(arrays: Sequence[tuple[Strided, int]], count: int) -> Groups:
    """Group `count` adjacent dimensions, which start at the given place in each array, by what may merge in all."""
    first, start = arrays[0]
    groups: list[list[int]] = []
    for dim in range(count):
        size = first.shape[start + dim]
        if size == 1:
            continue
        if groups and all(_adjacent(array, at + groups[-1][-1], at + dim) for array, at in arrays):
            groups[-1].append(dim)
        else:
            groups.append([dim])
    return tuple(map(tuple, groups)) or ((),)


def _adjacent(array: Strided, outer: int, inner: int) -> bool:
    """Return whether stepping off the end of `inner` lands on the next element of `outer`."""
    if array.strides is None or 0 in array.shape:
        return True
    outer_stride, inner_stride = array.strides[outer], array.strides[inner]
    if outer_stride is None or inner_stride is None or array.shape[inner] == DYNAMIC:
        return False
    return outer_stride == inner_stride * array.shape[inner]


def _operand(array: Strided, roles: dict[str, tuple[Groups, int]]) -> Operand:
    dims: list[str] = []
    groups: list[tuple[int, ...]] = []
    for role, (role_groups, start) in roles.items():
        dims += [role] if len(role_groups) == 1 else [f"{role}_{number}" for number in range(len(role_groups))]
        groups += [tuple(start + dim for dim in group) for group in role_groups]
    shape = tuple(_merged_size([array.shape[dim] for dim in group]) for group in groups)
    strides = None
    if array.strides is not None and 0 not in array.shape:
        strides = tuple(array.strides[group[-1]] if group else 1 for group in groups)
    return Operand(tuple(dims), tuple(groups), shape, strides)


def _merged_size(sizes: Sequence[int]) -> int:
    return DYNAMIC if DYNAMIC in sizes else math.prod(sizes)
