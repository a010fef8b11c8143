"""The arithmetic of a nest: affine where possible, else bit-vectors or polynomials; and the arithmetic of elements.

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
from .sets import EVERYTHING, NOTHING, ZERO, Polynomial, constant_of, interval, list_parameters, number, parameter
from .values import (
    Atom,
    Carried,
    Counted,
    Divisor,
    Element,
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
)

CONVERSIONS = ("arith.extf", "arith.sitofp", "arith.uitofp")
CASTS = ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
FACTORS = ("arith.mulf", "arith.addf")
ADDITIONS = ("arith.addi", "arith.addf")
LARGER = ("arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui")
AFFINE: dict[str, Callable[..., isl.PwAff]] = {
    "arith.addi": lambda left, right: left + right,
    "arith.subi": lambda left, right: left - right,
    "arith.minsi": lambda left, right: left.min(right),
    "arith.maxsi": lambda left, right: left.max(right),
    **dict.fromkeys(("arith.index_cast", "arith.extsi", "arith.extui"), lambda value: value),
}


def element_of(type_: Attribute) -> Attribute:
    """Return a type, or the element type of a vector."""
    return type_.element_type if isinstance(type_, VectorType) else type_


def width_of(type_: Attribute) -> int:
    """Return the bits of an integer, or of the elements of a vector."""
    element = element_of(type_)
    return element.width.data if isinstance(element, IntegerType) else bits.WIDE


def comparison_of(type_: Attribute) -> str:
    """Return the comparison by which a maximum selects elements of a type."""
    return "arith.maxsi" if isinstance(element_of(type_), IntegerType) else "ogt"


def is_zero(value: Value | None) -> bool:
    """Return whether a value is always zero."""
    return value.is_zero if isinstance(value, Number) else constant_of(value) == 0


def is_total(value: Value) -> bool:
    """Return whether a value is an element of out as it was loaded."""
    return isinstance(value, Element) and value == Element("out", value.subscripts, loaded_at=value.loaded_at)


class Arithmetic:
    """The state of the walk over a function, and its handlers of `arith`."""

    def __init__(self, function: func.FuncOp):
        self.function, self.meaning, self.here = function, Meaning(), Place()
        self.values: dict[SSAValue, Value] = {}
        self.names: dict[str, str] = {}
        self.numbered = 0

    def make_name(self, hint: str) -> str:
        """Return a new name."""
        self.numbered += 1
        return f"{hint}_{self.numbered}"

    def assume(self, holds: isl.Set) -> None:
        """Add a condition on sizes."""
        self.meaning.context, self.here = self.meaning.context & holds, self.here.restrict(holds)

    def read_index(self, atom: Atom, key: str = "") -> Term:
        """Return a loaded index as a term, with one variable for each element, or for each key."""
        name = self.names.setdefault(key or str(atom), f"{atom.array or 'value'}#{len(self.names)}")
        return Term(bits.variable(name, atom.bits), {name: atom})

    def to_term(self, value: Value, width: int = bits.WIDE) -> Term:
        """Return a value as a bit-vector; a size is the variable of its name."""
        if isinstance(value, Term):
            return value
        if not isinstance(value, isl.PwAff):
            raise Undecided(f"an index is computed from {type(value).__name__.lower()}")
        if (known := constant_of(value)) is not None:
            return Term(bits.constant(known, width))
        linear = Polynomial.of(value)
        if not all(name in self.meaning.sizes for product in linear.terms for name in product):
            return self.read_index(Atom("", (value,), EVERYTHING, bits.WIDE))
        sizes = [bits.variable(name) * factor for product, factor in linear.terms.items() for name in product]
        return Term(z3.simplify(sum(sizes, bits.constant(linear.terms.get((), 0)))))

    def to_polynomial(self, value: Value) -> Polynomial | None:
        """Return a value as a polynomial, or None where it is not known."""
        return Polynomial.of(value) if isinstance(value, isl.PwAff) else getattr(value, "polynomial", None)

    def is_never_negative(self, value: isl.PwAff) -> bool:
        """Return whether a value is 0 or more wherever it is computed."""
        return (self.here.domain & value.lt_set(ZERO)).is_empty()

    def run_arith(self, op: Operation, operands: list[Value]) -> Value:
        """Return the result of an operation of `arith`."""
        if isinstance(op, arith.ConstantOp):
            return _read_constant(op)
        if (found := self._reduce(op, *operands)) is not None:
            return found
        if any(isinstance(value, Carried) for value in operands):
            if op.name != "arith.addi":
                raise Undecided(f"{op.name} of a count so far")
            return next((value for value in operands if not isinstance(value, Carried)), Opaque())
        if op.name == "arith.addi" and any(isinstance(value, Counted) for value in operands):
            terms: list[tuple[isl.Set, Term]] = []
            for value in operands:  # counts, or an index that is checked by itself
                if not isinstance(value, Term | Counted) or (isinstance(value, Counted) and value.least):
                    raise Undecided("a value that is no count is added to a count")
                terms += [(self.here.domain, value)] if isinstance(value, Term) else value.terms
            return Counted(tuple(terms))
        if any(isinstance(value, Element | Number | Mask | tuple) for value in operands):
            return _compute_element(op, operands)
        unknown = [value for value in operands if isinstance(value, Opaque) and value.polynomial is value.most]
        if unknown and op.name != "arith.remui":
            return Opaque()
        if isinstance(op, arith.SelectOp):
            return self._select(*operands)
        if isinstance(op, arith.CmpiOp):
            return self._compare(op, *operands)
        if any(isinstance(value, Opaque) for value in operands):
            return self._compute_opaque(op, operands)
        if any(isinstance(value, Term) for value in operands):
            return self._compute_term(op, operands)
        truths = [value for value in operands if isinstance(value, isl.Set)]
        if len(truths) == len(operands) == 2 and op.name in ("arith.andi", "arith.ori"):
            return truths[0] & truths[1] if op.name == "arith.andi" else truths[0] | truths[1]
        return self._compute_affine(op, operands)

    # Integers

    def _compare(self, op: arith.CmpiOp, left: Value, right: Value) -> Value:
        word = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        if isinstance(left, Counted):
            if word == "eq" and is_zero(right) and not left.least:
                return left
            raise Undecided("a count is compared with something else than zero")
        if isinstance(left, isl.PwAff) and isinstance(right, isl.PwAff):
            if word.startswith("u") and not (self.is_never_negative(left) and self.is_never_negative(right)):
                raise Undecided("an unsigned comparison of numbers that may be negative")
            return getattr(left, f"{word if word in ('eq', 'ne') else word[1:]}_set")(right)
        owner = op.lhs.owner
        is_count = word == "eq" and isinstance(owner, arith.ExtUIOp) and width_of(owner.input.type) == 1
        if isinstance(left, Term) and self.meaning.has_fresh_out and is_zero(right) and is_count:
            return Counted(((self.here.domain, left),))  # a check of one index
        width = width_of(op.lhs.type)
        first, second = self.to_term(left, width), self.to_term(right, width)
        return Term(bits.COMPARISONS[word](first.expression, second.expression), first.atoms | second.atoms)

    def _select(self, condition: Value, left: Value, right: Value) -> Value:
        if isinstance(condition, isl.Set) and isinstance(left, isl.PwAff) and isinstance(right, isl.PwAff):
            other = right.intersect_params(condition.complement())
            return left.intersect_params(condition).union_add(other).coalesce()
        if not isinstance(condition, Term):
            raise Undecided("a select by the loops of a value that is not affine, or by a value that is not known")
        first, second = self.to_term(left), self.to_term(right)
        chosen = z3.If(condition.expression, *_align(first.expression, second.expression))
        return Term(chosen, condition.atoms | first.atoms | second.atoms)

    def _compute_opaque(self, op: Operation, operands: list[Value]) -> Value:
        left, right = self.to_polynomial(operands[0]), self.to_polynomial(operands[-1])
        divisor, affine = constant_of(operands[-1]), operands[-1] if isinstance(operands[-1], isl.PwAff) else None
        if op.name == "arith.remui" and divisor:
            name = self.make_name("rest")
            allowed = interval(parameter(name), ZERO, number(divisor))
            self.meaning.wobbling[name], self.here = (self.here.loops, allowed), self.here.restrict(allowed)
            if left is not None:
                self.meaning.remainders[name] = left, divisor
            return parameter(name)
        if left is None or right is None:
            return Opaque()
        if op.name == "arith.minsi" and affine is not None:  # of the first operand only the sign is used
            values = [left.values.get(name) or parameter(name) for product in left.terms for name in product]
            is_positive = min(left.terms.values(), default=0) >= 0 and all(map(self.is_never_negative, values))
            return Opaque(most=affine) if is_positive else Opaque()
        results = {"arith.addi": left + right, "arith.subi": left - right, "arith.muli": left * right}
        return Opaque(results.get(op.name))

    def _compute_term(self, op: Operation, operands: list[Value]) -> Value:
        width = width_of(op.results[0].type)
        if op.name in CASTS:
            value = self.to_term(operands[0])
            if not z3.is_bool(value.expression):
                unsigned = op.name in ("arith.extui", "arith.index_castui")
                return Term(bits.resize(value.expression, width, unsigned=unsigned), value.atoms)
            if op.name == "arith.extsi" and not isinstance(op.results[0].type, IndexType):
                return Mask(value)
            return Term(z3.If(value.expression, bits.constant(1, width), bits.constant(0, width)), value.atoms)
        if op.name not in bits.BINARY:
            raise Undecided(f"{op.name} of indices")
        first, second = (self.to_term(value, width) for value in operands)
        left, right, atoms = first.expression, second.expression, first.atoms | second.atoms
        if not z3.is_bool(left) or not z3.is_bool(right):
            return Term(bits.BINARY[op.name](*_align(left, right)), atoms)
        if op.name not in ("arith.andi", "arith.ori"):
            raise Undecided(f"{op.name} of truths")
        return Term(z3.And(left, right) if op.name == "arith.andi" else z3.Or(left, right), atoms)

    def _compute_affine(self, op: Operation, operands: list[Value]) -> Value:
        values = [value for value in operands if isinstance(value, isl.PwAff)]
        if len(values) != len(operands):
            raise Undecided(f"{op.name} of {', '.join(type(value).__name__.lower() for value in operands)}")
        is_axis = set(list_parameters(values[0])) <= set(self.meaning.axes)
        if op.name == "arith.index_cast" and not is_axis and width_of(op.results[0].type) < bits.WIDE:
            raise Undecided("a number that is no size of an axis is narrowed")
        if op.name in AFFINE:
            return AFFINE[op.name](*values).coalesce()
        known, divisor = constant_of(values[0]), constant_of(values[-1])
        if op.name == "arith.muli" and (known is not None or divisor is not None):
            return values[0] * values[1]
        if op.name in ("arith.divui", "arith.remui"):
            if divisor and self.is_never_negative(values[0]):
                quotient = values[0].scale_down_val(isl.Val(divisor)).floor()
                return quotient if op.name == "arith.divui" else values[0] % divisor
            if all(set(list_parameters(value)) <= set(self.meaning.sizes) for value in values):
                return self._divide_sizes(op, *values)
        return self._compute_opaque(op, operands)

    def _divide_sizes(self, op: Operation, dividend: isl.PwAff, divisor: isl.PwAff) -> Value:
        """Return a quotient of sizes, or its remainder, as a new parameter with a known range."""
        if not (self.meaning.context & (dividend.lt_set(ZERO) | divisor.lt_set(number(1)))).is_empty():
            return Opaque()
        name = self.make_name("n_quotient" if op.name == "arith.divui" else "n_remainder")
        most, small = (dividend, ZERO) if op.name == "arith.divui" else (dividend.min(divisor - 1), dividend)
        found = parameter(name)
        self.meaning.sizes.append(name)
        self.assume(found.ge_set(ZERO) & found.le_set(most) & (dividend.ge_set(divisor) | found.eq_set(small)))
        return found

    # Elements

    def _reduce(self, op: Operation, first: Value, *others: Value) -> Value | None:
        """Return the value of a reduction of elements, or of its divisor; None for any other operation."""
        name, second = op.name, others[-1] if others else None
        if name in CONVERSIONS and isinstance(first, Element):
            return _add_steps(op, first, (f"{name} to {element_of(op.results[0].type)}", None))
        if name == "arith.sitofp" and op.operands[0].type == IntegerType(64) and isinstance(first, isl.PwAff | Counted):
            return Divisor(first)
        if name == "arith.bitcast" and isinstance(first, Term):
            return Weight(first)
        if name == "arith.maxsi" and isinstance(first, Counted) and not first.least:
            return None if (least := constant_of(second)) is None else replace(first, least=least)
        if name in FACTORS and isinstance(first, Element) and isinstance(second, Weight):
            if len(second.term.atoms) != 1:
                raise Undecided("a weight is computed from several indices")
            ((old, atom),) = second.term.atoms.items()
            own = self.read_index(atom, self.make_name("weight"))  # two steps that use one element read two
            factor = z3.substitute(second.term.expression, (bits.variable(old, atom.bits), own.expression))
            return _add_steps(op, first, (name, Term(factor, own.atoms)))
        if name == "arith.divf" and isinstance(second, Divisor):
            if is_total(first) and isinstance(first, Element):
                return replace(first, changed="divided", divisor=second)
            if not isinstance(first, Summed) or first.begin is not None:
                raise Undecided(f"{name} of a value that is no sum")
            if first.divisor is not None:
                raise Refuted("a sum is divided twice")
            return replace(first, divisor=second)
        if name in LARGER or isinstance(op, arith.CmpfOp):
            return _compare_elements(op, first, *others)
        if name == "arith.select" and any(isinstance(value, Larger) for value in (first, *others)):
            return self._choose(first, *others)
        elements = [value for value in (first, *others) if isinstance(value, Element)]
        sums = [value for value in (first, *others) if isinstance(value, Carried | Summed)]
        if elements and sums:
            if name not in ADDITIONS:
                raise Undecided(f"{name} of a sum in a register")
            return self._add(sums[0], elements[0])
        return None

    def _add(self, so_far: Carried | Summed, element: Element) -> Summed:
        """Return a register that an element was added to."""
        if isinstance(so_far, Carried):
            return Summed(so_far, ((element, self.here),))
        if so_far.divisor is not None:
            raise Refuted("an element is added to a sum that was divided")
        return replace(so_far, added=(*so_far.added, (element, self.here)))

    def _choose(self, condition: Value, left: Value, right: Value) -> Value:
        """Return the larger of an element and another; or an element that some iterations take without a comparison.

        A select with its operands exchanged gives the element where the comparison does not hold.
        """
        if isinstance(condition, Larger):
            pair = condition.element, condition.other
            if pair in ((left, right), (right, left)):
                word = condition.word if (left, right) == pair else f"not {condition.word}"
                return replace(condition, word=word, is_chosen=True)
        if isinstance(condition, isl.Set):
            for one, other, holds in ((left, right, condition), (right, left, condition.complement())):
                if isinstance(other, Larger) and other.is_chosen and one == other.element:
                    element = replace(other.element, larger=other.word, first=holds)
                    if isinstance(other.other, Element):
                        return replace(element, total=other.other)
                    return self._add(other.other, element)
        raise Undecided("a select of a maximum between other values than an element and the largest before it")


def _read_constant(op: arith.ConstantOp) -> Value:
    type_, given, is_dense = op.result.type, op.value, isinstance(op.value, DenseIntOrFPElementsAttr)
    if isinstance(given, IntegerAttr) and isinstance(type_, IntegerType | IndexType):
        is_truth = isinstance(type_, IntegerType) and type_.width.data == 1
        return (EVERYTHING if given.value.data else NOTHING) if is_truth else number(given.value.data)
    other: Any = given
    numbers = other.get_values() if is_dense else [other.value.data]
    is_positive_zero = all(each == 0 and math.copysign(1, each) > 0 for each in numbers)
    return Number(is_positive_zero) if is_positive_zero or not is_dense else Opaque()


def _align(left: bits.Expression, right: bits.Expression) -> tuple[bits.Expression, bits.Expression]:
    """Return two bit-vectors with the bits of the wider one."""
    width = max(left.size(), right.size())
    return bits.resize(left, width), bits.resize(right, width)


def _compute_element(op: Operation, operands: list[Value]) -> Value:
    """Return a masked element, an element of grad that is added to one of out, or an element of out that is scaled."""
    first, *others = operands
    left, right = operands[-2:] if others else (None, first)
    if left is right and op.name in ("arith.select", "arith.andi"):
        return right
    if isinstance(op, arith.SelectOp) and isinstance(first, Term) and isinstance(left, Element) and is_zero(right):
        return left.add_mask(first)
    for one, other in ((left, right), (right, left)):
        if op.name == "arith.andi" and isinstance(one, Element) and isinstance(other, Mask):
            return one.add_mask(other.condition)
        if not isinstance(one, Element) or not isinstance(other, Element) or not is_total(one):
            continue
        if op.name in ADDITIONS and other.array == "data" and other.total is None:
            return replace(other, total=one)
        if op.name in ("arith.muli", "arith.mulf") and other.array == "scale":
            return replace(one, changed="scaled")
    raise Undecided(f"{op.name} of elements")


def _add_steps(op: Operation, element: Element, *steps: tuple[str, Term | None]) -> Element:
    """Return an element of data, which is not added yet, with more steps."""
    if element.array != "data" or element.total is not None or element.changed:
        raise Undecided(f"{op.name} of a value that is no element of data")
    return replace(element, steps=(*element.steps, *steps))


def _compare_elements(op: Operation, *operands: Value) -> Larger | None:
    """Return a comparison of an element with the largest before it; `maxsi` has them in the other order."""
    element, other = operands if isinstance(op, arith.CmpfOp) else reversed(operands)
    if not isinstance(element, Element) or element.array != "data":
        return None
    if not isinstance(other, Element | Carried | Summed) or (isinstance(other, Element) and not is_total(other)):
        return None
    word = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data] if isinstance(op, arith.CmpfOp) else op.name
    return Larger(word, _add_steps(op, element), other, not isinstance(op, arith.CmpfOp))
