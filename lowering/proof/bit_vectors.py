"""The arithmetic of indices as bit-vectors of z3, and the positions that each bounds mode gives."""

import operator
from collections.abc import Callable
from typing import Any

import z3

from ...ir.semantics import Bounds, IndexArithmetic, resolve_index

# A bit-vector or a truth of z3, whose own types do not say which operators they have.
Expression = Any

WIDE = 64  # bits of an index and of a size
# z3 may take this number of its steps (`rlimit`) for one question, and for each search for values. Unlike seconds, they
# do not depend on the load. The hardest question of the tests takes 4.8 million, the hardest search 0.11 million.
MAX_STEPS = 20_000_000
MAX_STEPS_OF_SEARCH = 5_000_000

# Remainders are uninterpreted functions with the facts that the proofs need, because z3 takes minutes for bit-blasted
# divisions of 64 bits. The facts hold for the real remainders, so a proof holds for them, too.
_WORDS = (z3.BitVecSort(WIDE),) * 3
_SIGNED = z3.Function("remainder_signed", *_WORDS)
_UNSIGNED = z3.Function("remainder_unsigned", *_WORDS)


def constant(value: int, bits: int = WIDE) -> Expression:
    """Return a number as a bit-vector."""
    return z3.BitVecVal(value, bits)


def variable(name: str, bits: int = WIDE) -> Expression:
    """Return the variable of that name."""
    return z3.BitVec(name, bits)


def resize(value: Expression, bits: int, *, unsigned: bool = False) -> Expression:
    """Extend, or cut, a bit-vector."""
    more = bits - value.size()
    if more <= 0:
        return z3.Extract(bits - 1, 0, value) if more else value
    return z3.ZeroExt(more, value) if unsigned else z3.SignExt(more, value)


# The arithmetic of integers, of bit-vectors of one width.
_OPERATORS = {"addi": "add", "subi": "sub", "muli": "mul", "andi": "and_", "ori": "or_", "shrsi": "rshift"}
BINARY: dict[str, Callable[[Expression, Expression], Expression]] = {
    **{f"arith.{name}": getattr(operator, word) for name, word in _OPERATORS.items()},
    "arith.minsi": lambda left, right: z3.If(left < right, left, right),
    "arith.maxsi": lambda left, right: z3.If(left > right, left, right),
    "arith.minui": lambda left, right: z3.If(z3.ULT(left, right), left, right),
    "arith.remsi": lambda left, right: _SIGNED(left, right) if left.size() == WIDE else z3.SRem(left, right),
    "arith.remui": lambda left, right: _UNSIGNED(left, right) if left.size() == WIDE else z3.URem(left, right),
}
_UNSIGNED_COMPARISONS = (z3.ULT, z3.ULE, z3.UGT, z3.UGE)
COMPARISONS: dict[str, Callable[[Expression, Expression], Expression]] = {
    **{word: getattr(operator, word.removeprefix("s")) for word in ("eq", "ne", "slt", "sle", "sgt", "sge")},
    **dict(zip(("ult", "ule", "ugt", "uge"), _UNSIGNED_COMPARISONS, strict=True)),
}


def resolve(index: Expression, size: Expression, mode: Bounds, *, unsigned: bool) -> tuple[Expression, Expression]:
    """Return the position that an index means on an axis, and whether it is valid, by `ir.semantics.resolve_index`."""
    wide = resize(index, WIDE, unsigned=unsigned)
    position, valid = resolve_index(wide, size, mode, _UNSIGNED_INDICES if unsigned else _SIGNED_INDICES)
    if valid is True:
        return position, z3.BoolVal(True)
    return position if mode is Bounds.UNCHECKED else z3.If(valid, position, 0), valid


def _floored(index: Expression, size: Expression) -> Expression:
    """Return the floored remainder of a signed index; without a division where the index is near the axis."""
    rest: Expression = _SIGNED(index, size)
    near = z3.If(index < 0, index + size, index)
    return z3.If(z3.And(index > -size, index < size), near, z3.If(rest < 0, rest + size, rest))


_SIGNED_INDICES = IndexArithmetic(select=z3.If, remainder=_floored)
_UNSIGNED_INDICES = IndexArithmetic(
    less=z3.ULT, select=z3.If, remainder=lambda index, size: z3.If(z3.ULT(index, size), index, _UNSIGNED(index, size))
)


def collect_facts(expressions: list[Expression]) -> list[Expression]:
    """Return the facts about the remainders in some expressions, for positive divisors."""
    facts, pending, seen = list[Expression](), list(expressions), set[int]()
    while pending:
        expression = pending.pop()
        if expression.get_id() in seen:
            continue
        seen.add(expression.get_id())
        pending += expression.children()
        if not z3.is_app(expression) or expression.decl() not in (_SIGNED, _UNSIGNED):
            continue
        rest, (left, right) = expression, expression.children()
        if rest.decl() == _UNSIGNED:
            facts += [z3.Implies(right != 0, z3.ULT(rest, right)), z3.Implies(z3.ULT(left, right), rest == left)]
            continue
        facts += [z3.Implies(right > 0, z3.And(rest < right, rest > -right))]
        facts += [z3.Implies(z3.And(right > 0, left < right, left > -right), rest == left)]
        facts += [z3.Implies(left >= 0, rest >= 0), z3.Implies(left <= 0, rest <= 0)]
    return facts


def restore_remainders(expression: Expression) -> Expression:
    """Return an expression with real remainders in it."""
    left, right = z3.Var(0, z3.BitVecSort(WIDE)), z3.Var(1, z3.BitVecSort(WIDE))
    return z3.substitute_funs(expression, (_SIGNED, z3.SRem(left, right)), (_UNSIGNED, z3.URem(left, right)))


# Conditions that no values satisfy, as text, since stages ask the same question again and again.
_IMPOSSIBLE: set[str] = set()


def find_values(truths: list[Expression], small: list[Expression]) -> dict[str, int] | bool | None:
    """Return values that make all truths hold, None where there are none, and False where z3 cannot tell.

    Args:
        small: the variables to keep small, as far as possible.
    """
    solver = z3.Solver()
    solver.set("rlimit", MAX_STEPS)
    solver.add(*truths, *collect_facts(truths))
    key = solver.sexpr()
    if key in _IMPOSSIBLE:
        return None
    if solver.check() == z3.unsat:
        _IMPOSSIBLE.add(key)
        return None
    for limit in (3, 16, 300, 1 << 20, (1 << 31) + 2, 1 << 33, None):
        solver = z3.Solver()
        solver.set("rlimit", MAX_STEPS_OF_SEARCH)
        solver.add(*map(restore_remainders, truths))
        for each in small:
            most = 2 ** (each.size() - 1)
            near = most if limit is None else limit
            solver.add(each <= min(near, most - 1), each >= max(-near, -most))
        answer = solver.check()
        if answer == z3.sat:
            model: Any = solver.model()
            return {str(name): model[name].as_signed_long() for name in model.decls() if z3.is_bv_value(model[name])}
        if limit is None and answer == z3.unsat:
            return None
    return False
