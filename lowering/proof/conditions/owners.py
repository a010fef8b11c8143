"""Loops over owners, each of a part of an axis: together they do what one loop over all positions does."""

from dataclasses import replace

import islpy as isl
import z3

from ..relations.integer_sets import constant_of, number, parameter, without
from ..relations.meaning import Loop, Meaning, Write
from ..relations.values import Expression, Refuted, Term, Undecided


def without_owners(write: Write, meaning: Meaning) -> Write:
    """Return an addition without the loop over owners: each position in [0, n) has one owner, the one it is masked for.

    The owners' loop is `first` from 0 to n in steps of `part`, which is at least 1, and the mask of the addition has
    `position - first < part`, unsigned. Where owners have blocks in turn, it goes from 0 to the smaller of n and a
    power of two, in steps of a block that divides that, and the mask has `(position - first) mod` the power of two.
    """
    for loop in write.loops:
        terms = [_without_owner(term, loop, write, meaning) for term in write.under]
        is_same = all(after is before for after, before in zip(terms, write.under, strict=True))
        if is_same and loop.step is not None:
            continue
        if is_same:
            if not any(atom.array == "" for term in write.under for atom in term.atoms.values()):
                raise Refuted(f"each iteration of {loop.label} adds the same")
            raise Undecided(f"the step of loop {loop.label} is no number, and the mask is not that of its part")
        others = tuple(each for each in write.loops if each is not loop)
        under = tuple(term for term in terms if term is not None)
        path = tuple((place, None if of is loop else of) for place, of in write.path)
        return without_owners(replace(write, loops=others, under=under, path=path), meaning)
    return write


def of_all_owners(write: Write, meaning: Meaning) -> Write:
    """Return what each owner clears or scales as a write of one loop over all positions: each of them has one owner.

    The owners' loop is `first` from 0 to n in steps of `part`, which is at least 1, and a loop in it goes from `first`
    to the smaller of `first + part` and n in steps of 1.
    """
    for owners in write.loops:
        if owners.step is not None:
            continue
        first = parameter(owners.parameter)
        end = first.add(owners.stride).min(owners.upper)
        own = next((loop for loop in write.loops if _is_same(loop.lower, first, write.domain)), None)
        is_part = own is not None and own.step == 1 and _is_same(own.upper, end, write.domain)
        is_positive = meaning.context.intersect(owners.stride.lt_set(number(1))).is_empty()
        if own is None or not is_part or not is_positive or constant_of(owners.lower) != 0:
            raise Undecided(f"what loop {owners.label} stores to is not the part of each iteration")
        whole = replace(own, lower=owners.lower, upper=owners.upper)
        loops = tuple(whole if loop is own else loop for loop in write.loops if loop is not owners)
        path = tuple((place, None if of is owners else whole if of is own else of) for place, of in write.path)
        return of_all_owners(
            replace(write, loops=loops, path=path, domain=without(write.domain, [owners.parameter])), meaning
        )
    return write


def _is_same(one: isl.PwAff, other: isl.PwAff, domain: isl.Set) -> bool:
    """Return whether two numbers are the same in all iterations of a domain."""
    return domain.subtract(one.eq_set(other)).is_empty()


def _without_owner(term: Term, loop: Loop, write: Write, meaning: Meaning) -> Term | None:
    """Return a mask without the part that selects an owner's positions; None where nothing is left of it."""
    parts = _conjuncts(term.expression)
    selects = _selects if loop.step is None else _selects_blocks
    rest = [part for part in parts if not selects(part, term, loop, write, meaning)]
    if len(rest) == len(parts):
        return term
    left = {name: atom for name, atom in term.atoms.items() if atom.array}
    return Term(z3.And(*rest), left) if rest else None


def _conjuncts(expression: Expression) -> list[Expression]:
    """Return the truths that a truth is the conjunction of."""
    if z3.is_and(expression):
        return [part for child in expression.children() for part in _conjuncts(child)]
    return [expression]


def _selects(part: Expression, term: Term, loop: Loop, write: Write, meaning: Meaning) -> bool:
    if part.decl().kind() != z3.Z3_OP_ULT or part.arg(0).decl().kind() != z3.Z3_OP_BSUB:
        return False
    position, first, size = (
        part.arg(0).arg(0),
        term.atoms.get(str(part.arg(0).arg(1))),
        term.atoms.get(str(part.arg(1))),
    )
    if first is None or size is None or first.array or size.array:
        return False
    owned = [
        dim for dim, place in enumerate(write.subscripts) if isinstance(place, Term) and place.expression.eq(position)
    ]
    is_whole = constant_of(loop.lower) == 0 and str(loop.upper) in {str(parameter(name)) for name in meaning.axes}
    is_step = size.subscripts[0].eq_set(loop.stride).complement().intersect(meaning.context).is_empty()
    is_positive = meaning.context.intersect(loop.stride.lt_set(number(1))).is_empty()
    is_first = str(first.subscripts[0]) == str(parameter(loop.parameter))
    return bool(owned) and is_whole and is_step and is_positive and is_first


def _selects_blocks(part: Expression, term: Term, loop: Loop, write: Write, meaning: Meaning) -> bool:
    if part.decl().kind() != z3.Z3_OP_ULT or part.arg(0).decl().kind() != z3.Z3_OP_BAND:
        return False
    numbers = [side.as_long() for side in part.arg(0).children() if z3.is_bv_value(side)]
    offsets = [side for side in part.arg(0).children() if side.decl().kind() == z3.Z3_OP_BSUB]
    if len(numbers) != 1 or len(offsets) != 1 or not z3.is_bv_value(part.arg(1)):
        return False
    period, block, (position, begin) = numbers[0] + 1, part.arg(1).as_long(), offsets[0].children()
    first = term.atoms.get(str(begin))
    is_first = first is not None and not first.array and str(first.subscripts[0]) == str(parameter(loop.parameter))
    is_owned = any(isinstance(place, Term) and place.expression.eq(position) for place in write.subscripts)
    is_split = period & (period - 1) == 0 and loop.step == block and period % block == 0
    is_whole = constant_of(loop.lower) == 0 and any(
        _is_same(loop.upper, number(period).min(parameter(name)), meaning.context) for name in meaning.axes
    )
    return is_first and is_owned and is_split and is_whole
