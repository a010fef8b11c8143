"""What reductions do with elements: convert and weigh them, add them to a sum or take the larger, divide the sum."""

from dataclasses import replace

import islpy as isl
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import Operation

from .integer_sets import constant_of
from .meaning import Loop, Path
from .values import (
    Added,
    Carried,
    Condition,
    Counted,
    Divisor,
    Element,
    Larger,
    Refuted,
    Step,
    Summed,
    Term,
    Undecided,
    Value,
    Weight,
)

CONVERSIONS = ("arith.extf", "arith.sitofp", "arith.uitofp")
FACTORS = ("arith.mulf", "arith.addf")
ADDITIONS = ("arith.addi", "arith.addf")
LARGER = ("arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui")


def converted(name: str, type_: object) -> Step:
    """Return the step that a conversion is, by its name and the type of its elements."""
    return Step(f"{name} to {type_}")


def word_of_larger(type_: object) -> str:
    """Return the comparison by which elements of a type are larger than those before them."""
    return "arith.maxsi" if isinstance(type_, IntegerType) else "ogt"


class Combining:
    """Handlers of the arithmetic of elements that the walk over a module inherits."""

    domain: isl.Set
    loops: tuple[Loop, ...]
    path: Path
    under: tuple[Term, ...]

    def combined(self, op: Operation, operands: list[Value]) -> Value | None:
        """Return what a reduction makes of elements, or of what it divides by; None of anything else."""
        first, name = operands[0], op.name
        if name in CONVERSIONS and len(operands) == 1:
            return self._converted(op, first)
        if name == "arith.bitcast" and isinstance(first, Term):
            return Weight(first)
        if name == "arith.maxsi" and isinstance(first, Counted):
            least = constant_of(operands[1]) if isinstance(operands[1], isl.PwAff) else None
            return None if least is None or first.least else replace(first, least=least)
        if name in FACTORS and isinstance(first, Element) and isinstance(operands[1], Weight):
            return replace(first, steps=(*_source(op, first).steps, Step(name, operands[1].term)))
        if name == "arith.divf" and isinstance(operands[1], Divisor):
            return _divided(op, first, operands[1])
        if name in LARGER or name == "arith.cmpf":
            return _compared(op, operands)
        if name == "arith.select" and any(isinstance(value, Larger) for value in operands):
            return self._chosen(operands)
        if any(isinstance(value, Carried | Summed) for value in operands) and any(
            isinstance(value, Element) for value in operands
        ):
            return self._added(op, operands)
        return None

    def _converted(self, op: Operation, value: Value) -> Value | None:
        type_ = op.results[0].type
        type_ = type_.element_type if isinstance(type_, VectorType) else type_
        if isinstance(value, Element):
            return replace(value, steps=(*_source(op, value).steps, converted(op.name, type_)))
        is_wide = op.operands[0].type == IntegerType(64)
        if op.name == "arith.sitofp" and is_wide and isinstance(value, isl.PwAff | Counted):
            return Divisor(value)
        return None

    def _added(self, op: Operation, operands: list[Value]) -> Summed:
        """Return a register that an element was added to."""
        element = next(value for value in operands if isinstance(value, Element))
        so_far = next((value for value in operands if isinstance(value, Carried | Summed)), None)
        if op.name not in ADDITIONS or len(operands) != 2 or so_far is None:
            raise Undecided(f"{op.name} of a sum in a register")
        return self._with_added(so_far, element)

    def _with_added(self, so_far: Carried | Summed, element: Element) -> Summed:
        added = Added(element, self.loops, self.domain, self.path, self.under)
        if isinstance(so_far, Carried):
            return Summed(so_far, (added,))
        if so_far.divisor is not None:
            raise Refuted("an element is added to a sum that was divided")
        return replace(so_far, added=(*so_far.added, added))

    def _chosen(self, operands: list[Value]) -> Value:
        """Return the larger of an element and another; or an element that is taken in some iterations whatever it is.

        A select that takes the other one gives the element where the comparison does not hold.
        """
        condition, left, right = operands
        if isinstance(condition, Larger):
            pair = condition.element, condition.other
            if (left, right) == pair:
                return replace(condition, is_chosen=True)
            if (right, left) == pair:
                return replace(condition, word=f"not {condition.word}", is_chosen=True)
        if isinstance(condition, Condition):
            for one, other, holds in ((left, right, condition.holds), (right, left, condition.holds.complement())):
                if isinstance(other, Larger) and other.is_chosen and one == other.element:
                    return self._taken(replace(other.element, larger=other.word, first=holds), other.other)
        raise Undecided("a select of a maximum between other things than an element and the largest before it")

    def _taken(self, element: Element, other: Element | Carried | Summed) -> Element | Summed:
        """Return an element of out, or a register, that an element may have taken the place of."""
        if isinstance(other, Element):
            return replace(element, total=other)
        return self._with_added(other, element)


def _source(op: Operation, element: Element) -> Element:
    """Return an element of data that is not added yet."""
    if element.array != "data" or element.total is not None or element.changed:
        raise Undecided(f"{op.name} of what is no element of data")
    return element


def is_total(value: Value) -> bool:
    """Return whether a value is an element of out as it was loaded."""
    return isinstance(value, Element) and value == Element("out", value.subscripts, when=value.when)


def _compared(op: Operation, operands: list[Value]) -> Larger | None:
    """Return a comparison of an element with the largest before it; `maxsi` has them in the other order."""
    element, other = operands if isinstance(op, arith.CmpfOp) else reversed(operands)
    is_largest = isinstance(other, Carried | Summed) or is_total(other)
    if not isinstance(element, Element) or element.array != "data" or not is_largest:
        return None
    word = op.name
    if isinstance(op, arith.CmpfOp):
        word = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    assert isinstance(other, Element | Carried | Summed)
    return Larger(word, _source(op, element), other, not isinstance(op, arith.CmpfOp))


def _divided(op: Operation, value: Value, divisor: Divisor) -> Value:
    """Return a sum that is divided, in out or in a register."""
    if isinstance(value, Element) and is_total(value):
        return replace(value, changed="divided", divisor=divisor)
    if isinstance(value, Summed) and value.begin is None:
        if value.divisor is not None:
            raise Refuted("a sum is divided twice")
        return replace(value, divisor=divisor)
    raise Undecided(f"{op.name} of what is no sum")
