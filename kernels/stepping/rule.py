"""The rule of an operator for one element, in the words and in the order of `ir.reference`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...ir import reference
from ...ir.errors import BoundsError
from ...ir.operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from ...ir.semantics import Bounds, resolve_index
from .steps import Shape


@dataclass(frozen=True, slots=True)
class Rule:
    """Where one element of a gather's result comes from.

    Attributes:
        place: of the element.
        tuple_place: of the index, or of the tuple of indices, in indices.
        places: of each component in indices.
        indices, sizes: the components, and the sizes of the axes that they point into.
        axes: those axes of data.
        positions: what the components mean; None where one means none.
        source: the position in data; None for a zero, and for an index that is not valid.
    """

    place: Shape
    tuple_place: Shape
    places: tuple[Shape, ...]
    indices: tuple[int, ...]
    sizes: tuple[int, ...]
    axes: range
    positions: tuple[int | None, ...]
    source: Shape | None


def rule_of(operator: OperatorSpec, data_shape: Shape, indices: np.ndarray, bounds: Bounds, place: Shape) -> Rule:
    """Return the rule for the element at `place` of a gather's result.

    Args:
        operator: normalised.
        data_shape: dimensions that are not indexed at its end are carried whole.
    """
    axes = operator.axes(indices.shape)
    assert isinstance(operator, Gather | GatherNd | GatherElements)
    is_elements, is_nd = isinstance(operator, GatherElements), isinstance(operator, GatherNd)
    shared = operator.axis if isinstance(operator, GatherElements) else operator.batch_dims
    outers = 0 if is_elements else axes.start - shared
    before, outer, rest = place[:shared], place[shared : shared + outers], place[shared + outers :]
    length = indices.ndim - shared - is_nd  # of the index's own dimensions
    own, after = rest[:length], rest[length:]
    tuple_place = (*before, *own)
    places = tuple((*tuple_place, part) for part in range(len(axes))) if is_nd else (tuple_place,)
    values = tuple(int(indices[where]) for where in places)
    sizes = tuple(data_shape[axis] for axis in axes)
    positions: list[int | None] = []
    for value, size in zip(values, sizes, strict=True):
        try:
            positions.append(reference.resolve(value, size, bounds))
        except BoundsError:
            positions.append(None)
    known = [position for position in positions if position is not None]
    tail = (*own[1:], *after) if is_elements else after
    source = (*before, *outer, *known, *tail) if len(known) == len(positions) else None
    if source is not None and not all(0 <= part < size for part, size in zip(source, data_shape, strict=True)):
        source = None
    return Rule(place, tuple_place, places, values, sizes, axes, tuple(positions), source)


def contributions(
    operator: OperatorSpec, data_shape: Shape, indices: np.ndarray, bounds: Bounds, place: Shape
) -> Iterator[Rule]:
    """Yield the rule of each element of grad that is added to one element of a gradient, in their order.

    Raises:
        BoundsError: an index is not valid.
    """
    numbers = np.arange(1, math.prod(data_shape) + 1).reshape(data_shape)
    read = reference.run(operator, numbers, indices, bounds)
    for found in np.argwhere(read == numbers[place]):
        yield rule_of(operator, data_shape, indices, bounds, tuple(int(part) for part in found))


def bag_rules(data_shape: Shape, indices: np.ndarray, bounds: Bounds, place: Shape) -> Iterator[Rule]:
    """Yield the rule of each slice that one element of a reduction is made of, in the order of its bag."""
    bags = indices.ndim - 1
    for number in range(indices.shape[-1]):
        yield rule_of(Gather(), data_shape, indices, bounds, (*place[:bags], number, *place[bags:]))


def explained(index: int, size: int, bounds: Bounds) -> str:
    """Return in plain words what an index means on an axis, as `ir.semantics.resolve_index` has it."""
    if size == 0:
        return f"{index} on an axis of size 0: {'a zero' if bounds is Bounds.ZERO else 'no index is valid'}"
    if 0 <= index < size:
        return f"{index} is in [0, {size})"
    if bounds is Bounds.UNCHECKED:
        return f"{index} is outside [0, {size}), which unchecked leaves undefined"
    position, is_valid = resolve_index(index, size, bounds)
    if not is_valid:
        return f"{index} is outside [{-size}, {size - 1}]: {'a zero' if bounds is Bounds.ZERO else 'an error'}"
    if bounds is Bounds.CLIP:
        return f"min(max({index}, 0), {size - 1}) = {position} (clip)"
    return f"{index} {'mod' if bounds is Bounds.WRAP else '+'} {size} = {position} (wrap)"


def said(rule: Rule, bounds: Bounds) -> str:
    """Return each component of an index with its place and what it means, such as `indices[2] = -1, -1 + 5 = 4`."""
    parts = zip(rule.places, rule.indices, rule.sizes, strict=True)
    return "; ".join(
        f"indices{list(place)} = {index}, {explained(index, size, bounds)}" for place, index, size in parts
    )
