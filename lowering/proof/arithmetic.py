"""The arithmetic of a nest: affine where it can be, else bit-vectors or polynomials; and that of elements.

Elements are converted and weighed, added to a sum or compared with the largest before, and sums are divided.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import islpy as isl
import z3
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, IntegerAttr, IntegerType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from . import bit_vectors as bits
from .sets import EVERYTHING, NOTHING, ZERO, Polynomial, constant_of, names_of, number, parameter, within
from .values import (
    Atom,
    Bounded,
    Carried,
    Condition,
    Counted,
    Divisor,
    Element,
    Lanes,
    Larger,
    Mask,
    Meaning,
    Number,
    Opaque,
    Place,
    Refuted,
    Summed,
    Term,
    Undecided,
    Value,
    Weight,
    Zero,
)

CONVERSIONS = ("arith.extf", "arith.sitofp", "arith.uitofp")
CASTS = ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
FACTORS = ("arith.mulf", "arith.addf")
ADDITIONS = ("arith.addi", "arith.addf")
PRODUCTS = ("arith.muli", "arith.mulf")
LARGER = ("arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui")
AFFINE: dict[str, Callable[..., isl.PwAff]] = {
    "arith.addi": lambda left, right: left + right,
    "arith.subi": lambda left, right: left - right,
    "arith.minsi": lambda left, right: left.min(right),
    "arith.maxsi": lambda left, right: left.max(right),
    **dict.fromkeys(("arith.index_cast", "arith.extsi", "arith.extui"), lambda value: value),
}


def element_type(type_: Attribute) -> Attribute:
    """Return a type, or that of the elements of a vector."""
    return type_.element_type if isinstance(type_, VectorType) else type_


def width_of(type_: Attribute) -> int:
    """Return the bits of an integer, or of the elements of a vector."""
    type_ = element_type(type_)
    return type_.width.data if isinstance(type_, IntegerType) else bits.WIDE


def conversion(name: str, type_: Attribute) -> tuple[str, None]:
    """Return the step that a conversion to a type applies to an element."""
    return f"{name} to {type_}", None


def comparison_of(type_: Attribute) -> str:
    """Return the comparison by which a maximum takes elements of a type."""
    return "arith.maxsi" if isinstance(element_type(type_), IntegerType) else "ogt"


def is_zero(value: Value | None) -> bool:
    """Return whether a value is always zero."""
    return isinstance(value, Zero) or constant_of(value) == 0


class Arithmetic:
    """The state of the walk over a function, and its handlers of `arith`."""

    def __init__(self, function: func.FuncOp):
        self.function, self.meaning = function, Meaning()
        self.values: dict[SSAValue, Value] = {}
        self.here = Place()
        self.names: dict[str, str] = {}
        self.numbered = 0

    def fresh(self, hint: str) -> str:
        """Return a name that nothing has yet."""
        self.numbered += 1
        return f"{hint}_{self.numbered}"

    def assume(self, holds: isl.Set) -> None:
        """Add a condition on sizes."""
        self.meaning.context, self.here = self.meaning.context & holds, self.here.where(holds)

    def index(self, atom: Atom, hint: str | None = None) -> Term:
        """Return an index that is read: one variable for each element."""
        name = self.names.setdefault(hint or atom.key, f"{atom.array or 'value'}#{len(self.names)}")
        return Term(bits.variable(name, atom.bits), {name: atom})

    def term(self, value: Value, width: int = bits.WIDE) -> Term:
        """Return a value as a bit-vector; a size is the variable of its name."""
        if isinstance(value, Term):
            return value
        if not isinstance(value, isl.PwAff):
            raise Undecided(f"an index is computed from {type(value).__name__.lower()}")
        if (known := constant_of(value)) is not None:
            return Term(bits.constant(known, width))
        linear = Polynomial.of(value)
        if not all(name in self.meaning.sizes for product in linear.terms for name in product):
            return self.index(Atom("", (value,), EVERYTHING, bits.WIDE))
        sizes = [bits.variable(name) * factor for product, factor in linear.terms.items() for name in product]
        return Term(z3.simplify(sum(sizes, bits.constant(linear.terms.get((), 0)))))

    def polynomial(self, value: Value) -> Polynomial | None:
        """Return a value as a polynomial, or None where it is not known."""
        return Polynomial.of(value) if isinstance(value, isl.PwAff) else getattr(value, "polynomial", None)

    def never_negative(self, value: isl.PwAff) -> bool:
        """Return whether a value is 0 or more wherever it is computed."""
        return (self.here.domain & value.lt_set(ZERO)).is_empty()

    def run_arith(self, op: Operation, operands: list[Value]) -> Value:
        """Return the result of an operation of `arith`."""
        if isinstance(op, arith.ConstantOp):
            return _constant(op)
        if (found := self._of_reduction(op, operands)) is not None:
            return found
        if any(isinstance(value, Carried) for value in operands):
            if op.name != "arith.addi":
                raise Undecided(f"{op.name} of a count so far")
            return next((value for value in operands if not isinstance(value, Carried)), Opaque())
        if op.name == "arith.addi" and any(isinstance(value, Counted) for value in operands):
            return self._counts_together(operands)
        if any(isinstance(value, Element | Zero | Lanes | Mask) for value in operands):
            return _of_elements(op, operands)
        if isinstance(op, arith.SelectOp):
            return self._select(*operands)
        if isinstance(op, arith.CmpiOp):
            return self._compare(op, *operands)
        if any(isinstance(value, Opaque) for value in operands):
            return self._of_opaque(op, operands)
        if any(isinstance(value, Term) for value in operands):
            return self._of_terms(op, operands)
        truths = [value.holds for value in operands if isinstance(value, Condition)]
        if len(truths) == len(operands) == 2 and op.name in ("arith.andi", "arith.ori"):
            return Condition(truths[0] & truths[1] if op.name == "arith.andi" else truths[0] | truths[1])
        return self._affine(op, operands)

    # Integers

    def _counts_together(self, operands: list[Value]) -> Counted:
        """Return the sum of counts, or of a count and an index that is checked by itself."""
        terms: list[tuple[isl.Set, Term]] = []
        for value in operands:
            if not isinstance(value, Term | Counted) or (isinstance(value, Counted) and value.least):
                raise Undecided("a value that is no count is added to a count")
            terms += [(self.here.domain, value)] if isinstance(value, Term) else value.terms
        return Counted(tuple(terms))

    def _compare(self, op: arith.CmpiOp, left: Value, right: Value) -> Value:
        word = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        if isinstance(left, Counted):
            if word == "eq" and is_zero(right) and not left.least:
                return left
            raise Undecided("a count is compared with something else than zero")
        if isinstance(left, isl.PwAff) and isinstance(right, isl.PwAff):
            if word.startswith("u") and not (self.never_negative(left) and self.never_negative(right)):
                raise Undecided("an unsigned comparison of what may be negative")
            return Condition(getattr(left, f"{word if word in ('eq', 'ne') else word[1:]}_set")(right))
        owner = op.lhs.owner
        is_count = word == "eq" and isinstance(owner, arith.ExtUIOp) and width_of(owner.input.type) == 1
        if isinstance(left, Term) and self.meaning.has_fresh_out and is_zero(right) and is_count:
            return Counted(((self.here.domain, left),))  # the index of a check of one index
        width = width_of(op.lhs.type)
        first, second = self.term(left, width), self.term(right, width)
        return Term(bits.COMPARISONS[word](first.expression, second.expression), first.atoms | second.atoms)

    def _select(self, condition: Value, left: Value, right: Value) -> Value:
        if isinstance(condition, Condition) and isinstance(left, isl.PwAff) and isinstance(right, isl.PwAff):
            chosen = left.intersect_params(condition.holds)
            return chosen.union_add(right.intersect_params(condition.holds.complement())).coalesce()
        if not isinstance(condition, Term):
            raise Undecided("a select by the loops of a value that is not affine, or by a value that is not known")
        first, second = self.term(left), self.term(right)
        chosen = z3.If(condition.expression, *_aligned(first.expression, second.expression))
        return Term(chosen, condition.atoms | first.atoms | second.atoms)

    def _of_opaque(self, op: Operation, operands: list[Value]) -> Value:
        left, right = self.polynomial(operands[0]), self.polynomial(operands[-1])
        divisor, affine = constant_of(operands[-1]), operands[-1] if isinstance(operands[-1], isl.PwAff) else None
        if op.name == "arith.remui" and divisor:
            name = self.fresh("rest")
            allowed = within(parameter(name), ZERO, number(divisor))
            self.meaning.wobbling[name], self.here = (self.here.loops, allowed), self.here.where(allowed)
            if left is not None:
                self.meaning.remainders[name] = left, divisor
            return parameter(name)
        if left is None or right is None:
            return Opaque()
        if op.name == "arith.minsi" and affine is not None:  # of the first one only its sign is used
            values = [left.values.get(name) or parameter(name) for product in left.terms for name in product]
            is_positive = min(left.terms.values(), default=0) >= 0 and all(map(self.never_negative, values))
            return Bounded(affine) if is_positive else Opaque()
        results = {"arith.addi": left + right, "arith.subi": left - right, "arith.muli": left * right}
        return Opaque(results.get(op.name))

    def _of_terms(self, op: Operation, operands: list[Value]) -> Value:
        width = width_of(op.results[0].type)
        if op.name in CASTS:
            value = self.term(operands[0])
            if not z3.is_bool(value.expression):
                unsigned = op.name in ("arith.extui", "arith.index_castui")
                return Term(bits.widened(value.expression, width, unsigned=unsigned), value.atoms)
            if op.name == "arith.extsi" and not isinstance(op.results[0].type, IndexType):
                return Mask(value)
            return Term(z3.If(value.expression, bits.constant(1, width), bits.constant(0, width)), value.atoms)
        if op.name not in bits.BINARY:
            raise Undecided(f"{op.name} of indices")
        first, second = (self.term(value, width) for value in operands)
        left, right, atoms = first.expression, second.expression, first.atoms | second.atoms
        if not z3.is_bool(left) or not z3.is_bool(right):
            return Term(bits.BINARY[op.name](*_aligned(left, right)), atoms)
        if op.name not in ("arith.andi", "arith.ori"):
            raise Undecided(f"{op.name} of truths")
        return Term(z3.And(left, right) if op.name == "arith.andi" else z3.Or(left, right), atoms)

    def _affine(self, op: Operation, operands: list[Value]) -> Value:
        values = [value for value in operands if isinstance(value, isl.PwAff)]
        if len(values) != len(operands):
            raise Undecided(f"{op.name} of {', '.join(type(value).__name__.lower() for value in operands)}")
        is_axis = set(names_of(values[0])) <= set(self.meaning.axes)
        if op.name == "arith.index_cast" and not is_axis and width_of(op.results[0].type) < bits.WIDE:
            raise Undecided("a number that is no size of an axis is narrowed")
        if op.name in AFFINE:
            return AFFINE[op.name](*values).coalesce()
        known, divisor = constant_of(values[0]), constant_of(values[-1])
        if op.name == "arith.muli" and (known is not None or divisor is not None):
            return values[0] * values[1]
        if op.name in ("arith.divui", "arith.remui"):
            if divisor and self.never_negative(values[0]):
                return (
                    values[0].scale_down_val(isl.Val(divisor)).floor()
                    if op.name == "arith.divui"
                    else values[0] % divisor
                )
            if all(set(names_of(value)) <= set(self.meaning.sizes) for value in values):
                return self._of_sizes(op, *values)
        return self._of_opaque(op, operands)

    def _of_sizes(self, op: Operation, dividend: isl.PwAff, divisor: isl.PwAff) -> Value:
        """Return a quotient of sizes, or its remainder, as a parameter of its own of which the range is known."""
        if not (self.meaning.context & (dividend.lt_set(ZERO) | divisor.lt_set(number(1)))).is_empty():
            return Opaque()
        name = self.fresh("n_quotient" if op.name == "arith.divui" else "n_remainder")
        most, small = (dividend, ZERO) if op.name == "arith.divui" else (dividend.min(divisor - 1), dividend)
        found = parameter(name)
        self.meaning.sizes.append(name)
        self.assume(found.ge_set(ZERO) & found.le_set(most) & (dividend.ge_set(divisor) | found.eq_set(small)))
        return found

    # Elements

    def _of_reduction(self, op: Operation, operands: list[Value]) -> Value | None:
        """Return what a reduction makes of elements, or of the number that it divides by; None of anything else."""
        first, second, name = operands[0], operands[-1], op.name
        if name in CONVERSIONS and isinstance(first, Element):
            return _with_steps(op, first, conversion(name, element_type(op.results[0].type)))
        if name == "arith.sitofp" and op.operands[0].type == IntegerType(64) and isinstance(first, isl.PwAff | Counted):
            return Divisor(first)
        if name == "arith.bitcast" and isinstance(first, Term):
            return Weight(first)
        if name == "arith.maxsi" and isinstance(first, Counted) and not first.least:
            return None if (least := constant_of(second)) is None else replace(first, least=least)
        if name in FACTORS and isinstance(first, Element) and isinstance(second, Weight):
            return _with_steps(op, first, (name, self._weight(second.term)))
        if name == "arith.divf" and isinstance(second, Divisor):
            return _divided(op, first, second)
        if name in LARGER or isinstance(op, arith.CmpfOp):
            return _compared(op, operands)
        if name == "arith.select" and any(isinstance(value, Larger) for value in operands):
            return self._chosen(*operands)
        elements = [value for value in operands if isinstance(value, Element)]
        sums = [value for value in operands if isinstance(value, Carried | Summed)]
        if elements and sums:
            if name not in ADDITIONS or len(operands) != 2:
                raise Undecided(f"{name} of a sum in a register")
            return self._added(sums[0], elements[0])
        return None

    def _weight(self, term: Term) -> Term:
        """Return a weight in a variable of its own, so that two steps which use one element read two."""
        if len(term.atoms) != 1:
            raise Undecided("a weight is computed from several indices")
        ((name, atom),) = term.atoms.items()
        own = self.index(atom, self.fresh("weight"))
        return Term(z3.substitute(term.expression, (bits.variable(name, atom.bits), own.expression)), own.atoms)

    def _added(self, so_far: Carried | Summed, element: Element) -> Summed:
        """Return a register that an element was added to."""
        added = (element, self.here)
        if isinstance(so_far, Carried):
            return Summed(so_far, (added,))
        if so_far.divisor is not None:
            raise Refuted("an element is added to a sum that was divided")
        return replace(so_far, added=(*so_far.added, added))

    def _chosen(self, condition: Value, left: Value, right: Value) -> Value:
        """Return the larger of an element and another; or an element that some iterations take without a comparison.

        A select that takes the other one gives the element where the comparison does not hold.
        """
        if isinstance(condition, Larger):
            pair = condition.element, condition.other
            if pair in ((left, right), (right, left)):
                word = condition.word if (left, right) == pair else f"not {condition.word}"
                return replace(condition, word=word, is_chosen=True)
        if isinstance(condition, Condition):
            for one, other, holds in ((left, right, condition.holds), (right, left, condition.holds.complement())):
                if isinstance(other, Larger) and other.is_chosen and one == other.element:
                    element = replace(other.element, larger=other.word, first=holds)
                    if isinstance(other.other, Element):
                        return replace(element, total=other.other)
                    return self._added(other.other, element)
        raise Undecided("a select of a maximum between other values than an element and the largest before it")


def _constant(op: arith.ConstantOp) -> Value:
    type_ = op.result.type
    if isinstance(op.value, IntegerAttr) and isinstance(type_, IntegerType | IndexType):
        value = op.value.value.data
        if isinstance(type_, IntegerType) and type_.width.data == 1:
            return Condition(EVERYTHING if value else NOTHING)
        return number(value)
    is_dense = isinstance(op.value, DenseIntOrFPElementsAttr)
    given: Any = op.value
    values = given.get_values() if is_dense else [given.value.data]
    if all(value == 0 and math.copysign(1, value) > 0 for value in values):
        return Zero()
    return Opaque() if is_dense else Number()


def _aligned(left: bits.Expression, right: bits.Expression) -> tuple[bits.Expression, bits.Expression]:
    """Return two bit-vectors with the bits of the wider one."""
    width = max(left.size(), right.size())
    return bits.widened(left, width), bits.widened(right, width)


def _of_elements(op: Operation, operands: list[Value]) -> Value:
    """Return a masked element, an element of grad that is added to one of out, or an element of out that is scaled."""
    *_, left, right = operands if len(operands) > 1 else (None, *operands)
    if left is right and op.name in ("arith.select", "arith.andi"):
        return left
    if (
        isinstance(op, arith.SelectOp)
        and isinstance(operands[0], Term)
        and isinstance(left, Element)
        and is_zero(right)
    ):
        return left.masked(operands[0])
    for one, other in ((left, right), (right, left)):
        if op.name == "arith.andi" and isinstance(one, Element) and isinstance(other, Mask):
            return one.masked(other.condition)
        if not isinstance(one, Element) or not isinstance(other, Element) or not is_total(one):
            continue
        if op.name in ADDITIONS and other.array == "data" and other.total is None:
            return replace(other, total=one)
        if op.name in PRODUCTS and other.array == "scale":
            return replace(one, changed="scaled")
    raise Undecided(f"{op.name} of elements")


def _with_steps(op: Operation, element: Element, *steps: tuple[str, Term | None]) -> Element:
    """Return an element of data, which is not added yet, with more steps."""
    if element.array != "data" or element.total is not None or element.changed:
        raise Undecided(f"{op.name} of what is no element of data")
    return replace(element, steps=(*element.steps, *steps))


def is_total(value: Value) -> bool:
    """Return whether a value is an element of out as it was loaded."""
    return isinstance(value, Element) and value == Element("out", value.subscripts, when=value.when)


def _compared(op: Operation, operands: list[Value]) -> Larger | None:
    """Return a comparison of an element with the largest before it; `maxsi` has them in the other order."""
    element, other = operands if isinstance(op, arith.CmpfOp) else reversed(operands)
    if not isinstance(element, Element) or element.array != "data":
        return None
    if not isinstance(other, Carried | Summed) and not is_total(other):
        return None
    word = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data] if isinstance(op, arith.CmpfOp) else op.name
    assert isinstance(other, Element | Carried | Summed)
    return Larger(word, _with_steps(op, element), other, not isinstance(op, arith.CmpfOp))


def _divided(op: Operation, value: Value, divisor: Divisor) -> Value:
    """Return a sum that is divided, in out or in a register."""
    if isinstance(value, Element) and is_total(value):
        return replace(value, changed="divided", divisor=divisor)
    if isinstance(value, Summed) and value.begin is None:
        if value.divisor is not None:
            raise Refuted("a sum is divided twice")
        return replace(value, divisor=divisor)
    raise Undecided(f"{op.name} of what is no sum")
