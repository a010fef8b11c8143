"""The arithmetic of indices as bit-vectors of z3, and what each bounds mode means by a position."""

from collections.abc import Callable
from typing import Any

import z3

from ....ir.semantics import Bounds, IndexArithmetic, resolve_index
from .values import Expression, Term

WIDE = 64  # bits of an index and of a size
# How many steps of its own (`rlimit`) z3 may take for one question, and for each search for values. They are the same
# on a busy machine: the hardest question of the tests takes 4.8 million, 0.6 s, and the hardest search 0.11 million.
MOST_STEPS = 20_000_000
MOST_STEPS_OF_SEARCH = 5_000_000

# Remainders are functions without a meaning, with the facts about them that the proofs need: bit-blasted divisions of
# 64 bits take z3 minutes. The facts are true of the real ones, so what is proved of these holds of those.
_SIGNED = z3.Function("remainder_signed", z3.BitVecSort(64), z3.BitVecSort(64), z3.BitVecSort(64))
_UNSIGNED = z3.Function("remainder_unsigned", z3.BitVecSort(64), z3.BitVecSort(64), z3.BitVecSort(64))


def constant(value: int, bits: int) -> Expression:
    """Return a number of so many bits."""
    return z3.BitVecVal(value, bits)


def variable(name: str, bits: int = WIDE) -> Expression:
    """Return the variable of that name."""
    return z3.BitVec(name, bits)


def widened(value: Expression, bits: int, *, unsigned: bool) -> Expression:
    """Extend, or cut, a bit-vector."""
    more = bits - value.size()
    if more <= 0:
        return z3.Extract(bits - 1, 0, value) if more else value
    return z3.ZeroExt(more, value) if unsigned else z3.SignExt(more, value)


def _minimum(order: Callable[[Expression, Expression], Expression]) -> Callable[..., Expression]:
    return lambda left, right: z3.If(order(left, right), left, right)


BINARY: dict[str, Callable[..., Expression]] = {
    "arith.addi": lambda left, right: left + right,
    "arith.subi": lambda left, right: left - right,
    "arith.muli": lambda left, right: left * right,
    "arith.andi": lambda left, right: left & right,
    "arith.ori": lambda left, right: left | right,
    "arith.shrsi": lambda left, right: left >> right,
    "arith.minsi": _minimum(lambda left, right: left < right),
    "arith.maxsi": _minimum(lambda left, right: left > right),
    "arith.minui": _minimum(z3.ULT),
    "arith.remsi": lambda left, right: _SIGNED(left, right) if left.size() == WIDE else z3.SRem(left, right),
    "arith.remui": lambda left, right: _UNSIGNED(left, right) if left.size() == WIDE else z3.URem(left, right),
}

COMPARISONS: dict[str, Callable[[Expression, Expression], Expression]] = {
    "eq": lambda left, right: left == right,
    "ne": lambda left, right: left != right,
    "slt": lambda left, right: left < right,
    "sle": lambda left, right: left <= right,
    "sgt": lambda left, right: left > right,
    "sge": lambda left, right: left >= right,
    "ult": z3.ULT,
    "ule": z3.ULE,
    "ugt": z3.UGT,
    "uge": z3.UGE,
}


def resolved(index: Expression, size: Expression, mode: Bounds, *, unsigned: bool) -> tuple[Term, Term]:
    """Return the position that an index means on an axis, and whether it means one, by `ir.semantics.resolve_index`."""
    wide = widened(index, WIDE, unsigned=unsigned)
    position, valid = resolve_index(wide, size, mode, _UNSIGNED_INDICES if unsigned else _SIGNED_INDICES)
    if valid is True:
        return Term(position), Term(z3.BoolVal(True))
    return Term(position if mode is Bounds.UNCHECKED else z3.If(valid, position, 0)), Term(valid)


def _floored(index: Expression, size: Expression) -> Expression:
    """Return the floored remainder of a signed index; without a division where the index is near the axis."""
    rest: Expression = _SIGNED(index, size)
    near = z3.If(index < 0, index + size, index)
    return z3.If(z3.And(index > -size, index < size), near, z3.If(rest < 0, rest + size, rest))


_SIGNED_INDICES = IndexArithmetic(select=z3.If, remainder=_floored)
_UNSIGNED_INDICES = IndexArithmetic(
    less=z3.ULT, select=z3.If, remainder=lambda index, size: z3.If(z3.ULT(index, size), index, _UNSIGNED(index, size))
)


def facts_of(expressions: list[Expression]) -> list[Expression]:
    """Return what holds of the remainders in some expressions, for positive divisors."""
    found: dict[int, Expression] = {}
    pending, seen = list(expressions), set[int]()
    while pending:
        expression = pending.pop()
        if expression.get_id() in seen:
            continue
        seen.add(expression.get_id())
        pending += expression.children()
        if z3.is_app(expression) and expression.decl() in (_SIGNED, _UNSIGNED):
            found[expression.get_id()] = expression
    facts: list[Expression] = []
    for rest in found.values():
        left, right = rest.children()
        if rest.decl() == _UNSIGNED:
            facts.append(z3.Implies(right != 0, z3.ULT(rest, right)))
            facts.append(z3.Implies(z3.ULT(left, right), rest == left))
            continue
        facts.append(z3.Implies(right > 0, z3.And(rest < right, rest > -right)))
        facts.append(z3.Implies(z3.And(right > 0, left < right, left > -right), rest == left))
        facts.append(z3.Implies(left >= 0, rest >= 0))
        facts.append(z3.Implies(left <= 0, rest <= 0))
    return facts


def real(expression: Expression) -> Expression:
    """Return an expression with real remainders in it."""
    left, right = z3.Var(0, z3.BitVecSort(64)), z3.Var(1, z3.BitVecSort(64))
    return z3.substitute_funs(expression, (_SIGNED, z3.SRem(left, right)), (_UNSIGNED, z3.URem(left, right)))


# Truths that no values satisfy, as text: stages ask the same question again and again.
_IMPOSSIBLE: set[str] = set()


def find(wanted: list[Expression], small: list[Expression]) -> dict[str, int] | bool | None:
    """Return values that make all truths hold, None where there are none, and False where z3 cannot tell.

    Args:
        small: the variables to keep small, as far as possible.
    """
    solver = z3.Solver()
    solver.set("rlimit", MOST_STEPS)
    solver.add(*wanted, *facts_of(wanted))
    key = solver.sexpr()
    if key in _IMPOSSIBLE:
        return None
    if solver.check() == z3.unsat:
        _IMPOSSIBLE.add(key)
        return None
    exact = [real(truth) for truth in wanted]
    for limit in (3, 16, 300, 1 << 20, (1 << 31) + 2, 1 << 33, None):
        solver = z3.Solver()
        solver.set("rlimit", MOST_STEPS_OF_SEARCH)
        solver.add(*exact)
        if limit is not None:
            solver.add(*(each <= min(limit, 2 ** (each.size() - 1) - 1) for each in small))
            solver.add(*(each >= max(-limit, -(2 ** (each.size() - 1))) for each in small))
        answer = solver.check()
        if answer == z3.sat:
            model: Any = solver.model()
            return {str(name): model[name].as_signed_long() for name in model.decls() if z3.is_bv_value(model[name])}
        if limit is None and answer == z3.unsat:
            return None
    return False
