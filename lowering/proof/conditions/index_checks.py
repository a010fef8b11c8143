"""Every index is checked where it must be, and the check says of it what the operator does."""

from dataclasses import replace

import islpy as isl
import z3

from ..constants import places_in, with_values
from ..copies import checked_elements, elements_of, in_order, with_names
from ..relations import bit_vectors as bits
from ..relations.meaning import Guard, Meaning
from ..relations.values import Expression, Term, Undecided
from ..specification import Wanted
from .failure import Failure, assumptions, failure_at, find_case

# An index that is outside of the small axes of examples, in every type.
FAR_OUTSIDE = 100


def guard_complete(meaning: Meaning, wanted: Wanted) -> list[Failure]:
    """Check that every index is checked where it must be: before anything is written, unless out is fresh."""
    if not wanted.is_checked or meaning.raises:
        return []
    assert wanted.valid is not None
    atoms = in_order([wanted.valid])
    valid = with_names(wanted.valid.expression, atoms)
    indices = [bits.variable(f"index{place}", atom.bits) for place, atom in enumerate(atoms.values())]
    known = assumptions(meaning, wanted.least)
    if meaning.guard is None and wanted.constants is not None:
        return _constants_valid(meaning, wanted)
    if meaning.guard is None:
        failure = find_case("an index outside is not found", [*known, z3.Not(valid)], meaning, indices)
        return [] if failure is None else [failure]
    guard, returned = meaning.guard, meaning.returned
    if not meaning.has_fresh_out and (guard.loops or any(write.guard is None for write in meaning.writes)):
        return [Failure("an element is written before all indices are checked", dict.fromkeys(meaning.sizes, 1))]
    if returned is None:
        return [Failure("the number of indices outside is not returned", dict.fromkeys(meaning.sizes, 1))]
    for domain, term in (*returned.terms, *(guard.count.terms if returned != guard.count else ())):
        if len(in_order([term])) != len(atoms):
            raise Undecided("the check looks at some components of a tuple only")
        check = _one_check if wanted.constants is None else _constants_check
        if (failure := check(term, valid, known, meaning, domain, wanted)) is not None:
            return [failure]
    checked = checked_elements(((domain, [*in_order([term]).values()]) for domain, term in returned.terms), meaning)
    needed = elements_of(wanted.write.domain, list(atoms.values()), meaning)
    missed = needed.subtract(checked).intersect(meaning.context)
    if not missed.is_empty():
        return [replace(failure_at("an index is not checked", missed, meaning), indices=(FAR_OUTSIDE,))]
    return []


def checked_along(guard: Guard, components: int, which: int, meaning: Meaning) -> isl.Set:
    """Return the iterations of the loops around a branch, each with the indices of an axis that it has checked."""
    here = tuple(loop.parameter for loop in guard.loops)
    counted = [(domain, [*in_order([term]).values()]) for domain, term in guard.count.terms]
    reads = ((domain, [atoms[which]]) for domain, atoms in counted if len(atoms) == components)
    return checked_elements(reads, meaning, here)


def _constants_check(
    term: Term, valid: Expression, known: list[Expression], meaning: Meaning, domain: isl.Set, wanted: Wanted
) -> Failure | None:
    """Check that a count says of constant indices what the operator does."""
    assert meaning.constants is not None and wanted.constants is not None
    own, count = in_order([term]), term.expression
    says = with_names(count if z3.is_bool(count) else count != bits.constant(0, count.size()), own)
    names, widths = [f"index{place}" for place in range(len(own))], [atom.bits for atom in own.values()]
    for places in places_in(
        elements_of(domain, list(own.values()), meaning), [f"a{place}_0" for place in range(len(own))]
    ):
        found = with_values(says, names, widths, [meaning.constants[place] for place in places])
        right = with_values(valid, names, [bits.WIDE] * len(own), [wanted.constants[place] for place in places])
        reason = "a constant index outside is not found, or one inside is counted"
        failure = find_case(reason, [*known, z3.simplify(found == right)], meaning, [])
        if failure is not None:
            return failure
    return None


def _constants_valid(meaning: Meaning, wanted: Wanted) -> list[Failure]:
    """Check that constant indices which nothing checks any more are all valid."""
    assert wanted.valid is not None and wanted.constants is not None
    atoms = in_order([wanted.valid])
    elements = elements_of(wanted.write.domain, list(atoms.values()), meaning)
    for places in places_in(elements, [f"a{number_}_0" for number_ in range(len(atoms))]):
        values = [wanted.constants[place] for place in places]
        told = with_values(wanted.valid.expression, [*atoms], [bits.WIDE] * len(atoms), values)
        if not z3.is_true(told):
            reason = f"constant index {', '.join(map(str, values))} is not checked"
            failure = find_case(reason, [*assumptions(meaning, wanted.least), z3.Not(told)], meaning, [])
            if failure is not None:
                return [failure]
    return []


def _one_check(
    term: Term, valid: Expression, known: list[Expression], meaning: Meaning, domain: isl.Set, wanted: Wanted
) -> Failure | None:
    """Check that a count says of a tuple of indices what the operator does."""
    own, count = in_order([term]), term.expression
    indices = [bits.variable(f"index{place}", atom.bits) for place, atom in enumerate(own.values())]
    says = with_names(count if z3.is_bool(count) else count != bits.constant(0, count.size()), own)
    return find_case(
        "an index outside is not found, or one inside is counted", [*known, says == valid], meaning, indices
    )
