"""Integer arithmetic of a nest: affine where it can be, else bit-vectors, else opaque."""

import math
from collections.abc import Callable
from dataclasses import replace

import islpy as isl
import z3
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, IntegerAttr, IntegerType, VectorType
from xdsl.ir import Attribute, Operation

from . import bit_vectors as bits
from .combining import Combining, is_total
from .integer_sets import constant_of, either, names_of, number, parameter, within
from .meaning import Loop, Meaning, Path
from .polynomials import Polynomial, polynomial_of
from .values import (
    Atom,
    Bounded,
    Carried,
    Condition,
    Counted,
    Element,
    Expression,
    Lanes,
    Mask,
    Number,
    Opaque,
    Term,
    Undecided,
    Value,
    Zero,
)


def width_of(type_: Attribute) -> int:
    """Return the bits of an integer, or of the elements of a vector."""
    if isinstance(type_, VectorType):
        type_ = type_.element_type
    return type_.width.data if isinstance(type_, IntegerType) else bits.WIDE


class Arithmetic(Combining):
    """Handlers of `arith` that the walk over a module inherits."""

    meaning: Meaning
    domain: isl.Set
    loops: tuple[Loop, ...]
    path: Path
    under: tuple[Term, ...]
    numbered: int = 0

    def fresh(self, hint: str) -> str:
        """Return a name that nothing has yet."""
        self.numbered += 1
        return f"{hint}_{self.numbered}"

    def wobble(self, hint: str, least: int | None, end: int | None) -> isl.PwAff:
        """Return a parameter for a value that is only known to lie in [least, end)."""
        name, allowed = self.fresh(hint), isl.Set("{ : }")
        value = parameter(name)
        if least is not None:
            allowed = allowed.intersect(value.ge_set(number(least)))
        if end is not None:
            allowed = allowed.intersect(value.lt_set(number(end)))
        self.meaning.wobbling[name] = (self.loops, allowed)
        self.domain = self.domain.intersect(allowed)
        return value

    def term(self, value: Value, width: int = bits.WIDE) -> Term:
        """Return a value as a bit-vector; a size is the variable of its name."""
        if isinstance(value, Term):
            return value
        if not isinstance(value, isl.PwAff):
            raise Undecided(f"an index is computed from {type(value).__name__.lower()}")
        if (known := constant_of(value)) is not None:
            return Term(bits.constant(known, width))
        if (linear := self._linear(value)) is not None:
            return Term(linear)
        atom = Atom("", (value,), isl.Set("{ : }"), bits.WIDE)
        name = self.name_of(atom)
        return Term(bits.variable(name), {name: atom})

    def _linear(self, value: isl.PwAff) -> Expression | None:
        """Return a sum of sizes as a bit-vector; None for another value."""
        pieces = value.coalesce().get_pieces()
        if len(pieces) != 1 or pieces[0][1].dim(isl.dim_type.div):
            return None
        only, total = pieces[0][1], bits.constant(pieces[0][1].get_constant_val().to_python(), bits.WIDE)
        for place in range(only.dim(isl.dim_type.param)):
            factor, name = (
                only.get_coefficient_val(isl.dim_type.param, place),
                only.get_dim_name(isl.dim_type.param, place),
            )
            if factor.is_zero():
                continue
            if not factor.is_int() or name not in self.meaning.sizes:
                return None
            total = total + bits.variable(name) * factor.to_python()
        return z3.simplify(total)

    names: dict[str, str]

    def name_of(self, atom: Atom) -> str:
        """Return the variable of an atom: one for each element that is read."""
        return self.names.setdefault(atom.key, f"{atom.array or 'value'}#{len(self.names)}")

    def run_arith(self, op: Operation, operands: list[Value]) -> Value:
        """Return the result of an operation of `arith`."""
        if isinstance(op, arith.ConstantOp):
            return self._constant(op)
        if (found := self.combined(op, operands)) is not None:
            return found
        if any(isinstance(value, Carried) for value in operands):
            if op.name != "arith.addi":
                raise Undecided(f"{op.name} of a count so far")
            return next((value for value in operands if not isinstance(value, Carried)), Opaque())
        if op.name == "arith.addi" and any(isinstance(value, Counted) for value in operands):
            return self._counts_together(operands)
        if any(isinstance(value, Element | Zero | Lanes | Mask) for value in operands):
            return self._of_elements(op, operands)
        if isinstance(op, arith.SelectOp):
            return self._select(operands)
        if isinstance(op, arith.CmpiOp):
            return self._compare(op, operands)
        if any(isinstance(value, Opaque) for value in operands):
            return self._of_opaque(op, operands)
        if any(isinstance(value, Term) for value in operands):
            return self._of_terms(op, operands)
        if all(isinstance(value, Condition) for value in operands):
            left, right = [value.holds for value in operands if isinstance(value, Condition)] * (3 - len(operands))
            if op.name == "arith.andi":
                return Condition(left.intersect(right))
            if op.name == "arith.ori":
                return Condition(left.union(right))
            raise Undecided(f"{op.name} of truths about loops")
        return self._affine(op, operands)

    def _counts_together(self, operands: list[Value]) -> Counted:
        """Return the sum of counts, or of a count and an index that is checked by itself."""
        terms: list[tuple[isl.Set, Term]] = []
        for value in operands:
            if isinstance(value, Term):
                terms.append((self.domain, value))
            elif isinstance(value, Counted) and not value.least:
                terms += value.terms
            else:
                raise Undecided("to a count is added what is none")
        return Counted(tuple(terms))

    def _constant(self, op: arith.ConstantOp) -> Value:
        type_ = op.result.type
        if isinstance(op.value, IntegerAttr) and isinstance(type_, IntegerType | IndexType):
            value = op.value.value.data
            if isinstance(type_, IntegerType) and type_.width.data == 1:
                return Condition(isl.Set("{ : }") if value else isl.Set("{ : }").complement())
            return number(value)
        if isinstance(op.value, DenseIntOrFPElementsAttr):
            return Zero() if all(_is_positive_zero(value) for value in op.value.get_values()) else Opaque()
        return Zero() if _is_positive_zero(getattr(op.value, "value").data) else Number()  # noqa: B009

    def _compare(self, op: arith.CmpiOp, operands: list[Value]) -> Value:
        left, right = operands
        word = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        if isinstance(left, Counted):
            if word == "eq" and isinstance(right, isl.PwAff) and constant_of(right) == 0 and not left.least:
                return left
            raise Undecided("a count is compared with something else than zero")
        if isinstance(left, isl.PwAff) and isinstance(right, isl.PwAff):
            return Condition(self._compared(word, left, right))
        if isinstance(left, Term) and self.meaning.has_fresh_out and is_zero(right) and _is_count_of_one(op):
            return Counted(((self.domain, left),))
        width = width_of(op.lhs.type)
        first, second = self.term(left, width), self.term(right, width)
        return Term(bits.COMPARISONS[word](first.expression, second.expression), first.atoms | second.atoms)

    def _compared(self, word: str, left: isl.PwAff, right: isl.PwAff) -> isl.Set:
        if word.startswith("u") and not (self.never_negative(left) and self.never_negative(right)):
            raise Undecided("an unsigned comparison of what may be negative")
        method = {"eq": "eq_set", "ne": "ne_set"}.get(word, f"{word[1:]}_set")
        return getattr(left, method)(right)

    def never_negative(self, value: isl.PwAff) -> bool:
        """Return whether a value is 0 or more wherever it is computed."""
        return self.domain.intersect(value.lt_set(number(0))).is_empty()

    def _select(self, operands: list[Value]) -> Value:
        condition, left, right = operands
        if isinstance(condition, Condition):
            if isinstance(left, isl.PwAff) and isinstance(right, isl.PwAff):
                return either(condition.holds, left, right)
            raise Undecided("a select by the loops of what is not affine")
        if not isinstance(condition, Term):
            raise Undecided("a select by a value that is not known")
        first, second = self.term(left), self.term(right)
        chosen = z3.If(condition.expression, *_aligned(first.expression, second.expression))
        return Term(chosen, condition.atoms | first.atoms | second.atoms)

    def _of_elements(self, op: Operation, operands: list[Value]) -> Value:
        if len(operands) > 1 and operands[-1] is operands[-2] and op.name in ("arith.select", "arith.andi"):
            return operands[-1]
        if isinstance(op, arith.SelectOp):
            condition, left, right = operands
            if isinstance(condition, Term) and isinstance(left, Element) and is_zero(right):
                return left.masked(condition)
            raise Undecided("a select of elements that is no mask")
        if op.name == "arith.andi" and len(operands) == 2:
            masks = [value for value in operands if isinstance(value, Mask)]
            elements = [value for value in operands if isinstance(value, Element)]
            if len(masks) == len(elements) == 1:
                return elements[0].masked(masks[0].condition)
        if len(operands) == 2 and all(isinstance(value, Element) for value in operands):
            return _summed(op, *(value for value in operands if isinstance(value, Element)))
        raise Undecided(f"{op.name} of elements")

    def _of_opaque(self, op: Operation, operands: list[Value]) -> Value:
        divisor = constant_of(operands[-1]) if isinstance(operands[-1], isl.PwAff) else None
        known = [self.polynomial(value) for value in operands]
        if op.name == "arith.remui" and divisor:
            rest = self.wobble("rest", 0, divisor)
            if known[0] is not None:
                self.meaning.remainders[names_of(rest)[0]] = known[0], divisor
            return rest
        left, right = known[0], known[-1]
        if op.name == "arith.minsi" and left is not None and isinstance(operands[1], isl.PwAff):
            return self._smaller(left, operands[1])
        if left is None or right is None or op.name not in ("arith.addi", "arith.subi", "arith.muli"):
            return Opaque()
        if op.name == "arith.muli":
            return Opaque(left.times(right))
        return Opaque(left.plus(right, 1 if op.name == "arith.addi" else -1))

    def _smaller(self, left: Polynomial, right: isl.PwAff) -> Value:
        """Return the smaller of a polynomial and an affine value: of the first one only its sign is used."""
        names = {name for product in left.terms for name in product}
        values = [left.values.get(name, None) or parameter(name) for name in names]
        if min(left.terms.values(), default=0) < 0 or not all(map(self.never_negative, values)):
            return Opaque()
        return Bounded(right)

    def polynomial(self, value: Value) -> Polynomial | None:
        """Return a value as a polynomial, or None where it is not known."""
        return polynomial_of(value) if isinstance(value, isl.PwAff) else getattr(value, "polynomial", None)

    def _of_terms(self, op: Operation, operands: list[Value]) -> Value:
        result = op.results[0].type
        if op.name in ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui"):
            (value,) = operands
            assert isinstance(value, Term)
            return self._cast(op, value, result)
        if op.name not in bits.BINARY:
            raise Undecided(f"{op.name} of indices")
        width = width_of(result)
        terms = [self.term(value, width) for value in operands]
        atoms = terms[0].atoms | terms[1].atoms
        left, right = (term.expression for term in terms)
        if z3.is_bool(left) and z3.is_bool(right):
            logic = {"arith.andi": z3.And, "arith.ori": z3.Or}.get(op.name)
            if logic is None:
                raise Undecided(f"{op.name} of truths")
            return Term(logic(left, right), atoms)
        return Term(bits.BINARY[op.name](*_aligned(left, right)), atoms)

    def _cast(self, op: Operation, value: Term, result: Attribute) -> Value:
        if not z3.is_bool(value.expression):
            unsigned = op.name in ("arith.extui", "arith.index_castui")
            return Term(bits.widened(value.expression, width_of(result), unsigned=unsigned), value.atoms)
        if op.name == "arith.extsi" and not isinstance(result, IndexType):
            return Mask(value)
        one = z3.If(value.expression, bits.constant(1, width_of(result)), bits.constant(0, width_of(result)))
        return Term(one, value.atoms)

    def _affine(self, op: Operation, operands: list[Value]) -> Value:
        values = [value for value in operands if isinstance(value, isl.PwAff)]
        if len(values) != len(operands):
            raise Undecided(f"{op.name} of {', '.join(type(value).__name__.lower() for value in operands)}")
        known = [constant_of(value) for value in values]
        is_axis = set(names_of(values[0])) <= set(self.meaning.axes)
        if op.name == "arith.index_cast" and not is_axis and width_of(op.results[0].type) < bits.WIDE:
            raise Undecided("a number that is no size of an axis is narrowed")
        if op.name in AFFINE:
            return AFFINE[op.name](*values).coalesce()
        if op.name == "arith.muli" and (known[0] is not None or known[1] is not None):
            return values[0].mul(values[1])
        if op.name in ("arith.divui", "arith.remui") and known[1] and self.never_negative(values[0]):
            whole = values[0].scale_down_val(isl.Val(known[1])).floor()
            return whole if op.name == "arith.divui" else values[0].mod_val(isl.Val(known[1]))
        if op.name in ("arith.divui", "arith.remui") and self._is_of_sizes(*values):
            return self._quotient(op, *values)
        return self._of_opaque(op, operands)

    def _is_of_sizes(self, *values: isl.PwAff) -> bool:
        return all(set(names_of(value)) <= set(self.meaning.sizes) for value in values)

    def _quotient(self, op: Operation, number_: isl.PwAff, divisor: isl.PwAff) -> Value:
        """Return a quotient of sizes, or its remainder, as a parameter of its own of which the range is known."""
        context = self.meaning.context
        zero, one = number(0), number(1)
        if not context.intersect(number_.lt_set(zero).union(divisor.lt_set(one))).is_empty():
            return Opaque()
        name = self.fresh("n_quotient" if op.name == "arith.divui" else "n_remainder")
        found = parameter(name)
        small = number_.lt_set(divisor)
        if op.name == "arith.divui":
            least, most, of_small = zero, number_, zero
        else:
            least, most, of_small = zero, number_.min(divisor.sub(one)), number_
        known = found.ge_set(least).intersect(found.le_set(most))
        known = known.intersect(small.complement().union(found.eq_set(of_small)))
        self.meaning.sizes.append(name)
        self.meaning.context, self.domain = context.intersect(known), self.domain.intersect(known)
        return found


AFFINE: dict[str, Callable[..., isl.PwAff]] = {
    "arith.addi": lambda left, right: left.add(right),
    "arith.subi": lambda left, right: left.sub(right),
    "arith.minsi": lambda left, right: left.min(right),
    "arith.maxsi": lambda left, right: left.max(right),
    "arith.index_cast": lambda value: value,
    "arith.extsi": lambda value: value,
    "arith.extui": lambda value: value,
}


def _aligned(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    width = max(left.size(), right.size())
    return bits.widened(left, width, unsigned=False), bits.widened(right, width, unsigned=False)


def is_zero(value: Value) -> bool:
    """Return whether a value is always zero."""
    return isinstance(value, Zero) or (isinstance(value, isl.PwAff) and constant_of(value) == 0)


def _is_count_of_one(op: arith.CmpiOp) -> bool:
    """Return whether it is asked if one index is inside, by a count of 0 or 1."""
    is_equal = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data] == "eq"
    return is_equal and isinstance(op.lhs.owner, arith.ExtUIOp) and width_of(op.lhs.owner.input.type) == 1


def _is_positive_zero(value: object) -> bool:
    return isinstance(value, int | float) and value == 0 and math.copysign(1, value) > 0


def _summed(op: Operation, left: Element, right: Element) -> Element:
    """Return an element of grad that was added to one of out, or an element of out that was scaled."""
    if op.name in ("arith.addi", "arith.addf"):
        out, grad = (left, right) if left.array == "out" else (right, left)
        if is_total(out) and grad.array == "data" and grad.total is None:
            return replace(grad, total=out)
    if op.name in ("arith.muli", "arith.mulf"):
        out, scale = (left, right) if left.array == "out" else (right, left)
        if is_total(out) and scale.array == "scale":
            return replace(out, changed="scaled")
    raise Undecided(f"{op.name} of elements")


def in_lanes(lanes: int) -> isl.Set:
    """Return the lanes of a vector, as values of the parameter `lane`."""
    return within(parameter("lane"), number(0), number(lanes))
