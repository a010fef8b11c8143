"""A thing that does not hold of a stage, with the smallest case in which it does not."""

from dataclasses import dataclass, field

import islpy as isl

from ....ir.errors import InternalError
from ..copies import possible
from ..relations import bit_vectors as bits
from ..relations.integer_sets import number, parameter, smallest_sample
from ..relations.meaning import Meaning
from ..relations.values import Expression, Undecided


@dataclass(frozen=True)
class Failure:
    """Something that does not hold, with the smallest case in which it does not.

    Attributes:
        reason: what is wrong.
        sizes: of the arrays' dimensions, by the parameter of each.
        indices: values that the indices take there; empty where any will do.
        element: of out, where one is at fault.
    """

    reason: str
    sizes: dict[str, int] = field(default_factory=dict)
    indices: tuple[int, ...] = ()
    element: tuple[int, ...] = ()


def failure_at(reason: str, bad: isl.Set, meaning: Meaning) -> Failure:
    """Return a failure with the smallest sizes of a set that should be empty."""
    bad = possible(bad.intersect(meaning.context), meaning)
    for name in meaning.sizes:
        filled = bad.intersect(parameter(name).ge_set(number(1)))
        bad = bad if filled.is_empty() else filled
    point = smallest_sample(bad, meaning.sizes)
    if point is None:
        raise InternalError("a set is empty and is not")
    element = [(name, value) for name, value in point.items() if name[0] == "e" and name[1:].isdigit()]
    places = tuple(value for _, value in sorted(element, key=lambda pair: int(pair[0][1:])))
    return Failure(reason, {name: point.get(name, 1) for name in meaning.sizes}, (), places)


def assumptions(meaning: Meaning, least: int) -> list[Expression]:
    """Return what holds of the sizes of axes as bit-vectors."""
    found: list[Expression] = []
    for name, (floor, most) in meaning.axes.items():
        if name in meaning.sizes:
            size = bits.variable(name)
            found += [size >= max(floor, least), size <= most]
    return found


def find_case(reason: str, truths: list[Expression], meaning: Meaning, indices: list[Expression]) -> Failure | None:
    """Return a failure with values that make all truths hold, or None where there are none; raises Undecided."""
    sizes = [bits.variable(name) for name in meaning.axes if name in meaning.sizes]
    values = bits.find(truths, [*indices, *sizes])
    if values is None:
        return None
    if isinstance(values, bool):
        raise Undecided(f"whether {reason}: z3 cannot tell within {bits.MOST_STEPS:_} steps")
    given = tuple(values.get(str(index), 0) for index in indices)
    axis = {name: values.get(name, 1) for name in meaning.axes if name in meaning.sizes}
    return Failure(reason, dict.fromkeys(meaning.sizes, 1) | axis, given)
