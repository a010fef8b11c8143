"""Each sum of a mean is divided by the number of slices in it: the size of its bag, or how many indices are valid."""

import islpy as isl
import z3

from ..copies import in_order, with_names
from ..relations import bit_vectors as bits
from ..relations.integer_sets import equal_tuple, names_of, number, only, parameter, renamed
from ..relations.meaning import Meaning, Write
from ..relations.values import Counted, Divisor, Element, Term, Undecided
from ..specification import Wanted
from .failure import Failure, assumptions, failure_at, find_case

ANOTHER = "a sum is divided by another number than that of the slices in it"


def same_divisors(write: Write, wanted: Wanted, meaning: Meaning) -> list[Failure]:
    """Check what a write divides elements of out by."""
    value = write.value
    assert isinstance(value, Element) and isinstance(value.divisor, Divisor) and wanted.divisor is not None
    count = value.divisor.number
    if isinstance(count, Counted):
        return _same_count(write, count, wanted, meaning)
    for valid in wanted.write.under:
        atoms = in_order([valid])
        invalid = z3.Not(with_names(valid.expression, atoms))
        names = [bits.variable(f"index{place}", atom.bits) for place, atom in enumerate(atoms.values())]
        failure = find_case(ANOTHER, [*assumptions(meaning, wanted.least), invalid], meaning, names)
        if failure is not None:
            return [failure]
    other = count.ne_set(wanted.divisor.max(number(1))).intersect(write.domain).intersect(meaning.context)
    return [] if other.is_empty() else [failure_at(ANOTHER, other, meaning)]


def _same_count(write: Write, count: Counted, wanted: Wanted, meaning: Meaning) -> list[Failure]:
    """Check that the count is that of the valid indices of the bag whose sum is divided; 1 stands for none."""
    if not wanted.write.under:
        raise Undecided("a sum is divided by a count, and no index is left out")
    if count.least != 1:
        return [Failure("the sum of an empty bag is divided by another number than 1", dict.fromkeys(meaning.sizes, 1))]
    (mask,) = wanted.write.under
    own = in_order([mask])
    one, none = bits.constant(1, bits.WIDE), bits.constant(0, bits.WIDE)
    valid = z3.If(with_names(mask.expression, own), one, none)
    counted = isl.Set("{ : }").complement()
    for domain, term in count.terms:
        atoms = in_order([term])
        says = with_names(term.expression, atoms)
        known = [(atom.array, atom.bits, atom.row) for atom in atoms.values()]
        is_count = not z3.is_bool(says) and says.size() == bits.WIDE
        if not is_count or known != [(atom.array, atom.bits, atom.row) for atom in own.values()]:
            raise Undecided("what is counted is found by something else than the operator's indices")
        names = [bits.variable(f"index{place}", atom.bits) for place, atom in enumerate(atoms.values())]
        truths = [*assumptions(meaning, wanted.least), says != valid]
        failure = find_case("an index outside is counted, or one inside is not", truths, meaning, names)
        if failure is not None:
            return [failure]
        counted = counted.union(_of_sums(write, domain, term, meaning))
    reached = only(_reached(write), [*(f"e{dim}" for dim in range(len(write.subscripts))), *meaning.sizes])
    needed = _of_sums(wanted.write, wanted.write.domain, Term(valid, own), meaning).intersect(reached)
    for bad in (needed.subtract(counted), counted.subtract(needed)):
        if not bad.intersect(meaning.context).is_empty():
            return [failure_at(ANOTHER, bad, meaning)]
    return _each_once(write, count, meaning)


def _of_sums(write: Write, domain: isl.Set, term: Term, meaning: Meaning) -> isl.Set:
    """Return the elements of out `e0`, ... that a write reaches, with the elements of indices `a0`, ... of a term."""
    found = _reached(write).intersect(_read(domain, term))
    kept = [name for name in names_of(found) if name[0] in "ae" and name[1:].isdigit()]
    return only(found, [*kept, *meaning.sizes])


def _reached(write: Write) -> isl.Set:
    """Return the iterations of a write with the elements of out `e0`, ... that they reach."""
    places = [place for place in write.subscripts if isinstance(place, isl.PwAff)]
    if len(places) != len(write.subscripts):
        raise Undecided("an element of out is divided at an index")
    return write.domain.intersect(equal_tuple([f"e{dim}" for dim in range(len(places))], places))


def _read(domain: isl.Set, term: Term) -> isl.Set:
    """Return a domain with the elements of indices `a0`, ... that a term reads."""
    (atom,) = term.atoms.values()
    names = [f"a{dim}" for dim in range(len(atom.subscripts))]
    return domain.intersect(equal_tuple(names, atom.subscripts)).intersect(atom.among)


def _each_once(write: Write, count: Counted, meaning: Meaning) -> list[Failure]:
    """Check that a count has each index once."""
    outer = {loop.parameter for loop in write.loops} | {*meaning.sizes, *meaning.wobbling}
    for number_, (domain, term) in enumerate(count.terms):
        for place, (other, twin) in enumerate(count.terms[number_:]):
            one, more = _read(domain, term), _read(other, twin)
            own = [name for name in names_of(other) if name not in outer]
            pairs = one.intersect(renamed(more, {name: f"{name}_twin" for name in own}))
            if not place:
                apart = isl.Set("{ : }").complement()
                for name in own:
                    apart = apart.union(parameter(name).ne_set(parameter(f"{name}_twin")))
                pairs = pairs.intersect(apart)
            if not pairs.intersect(write.domain).intersect(meaning.context).is_empty():
                return [failure_at("an index is counted twice", pairs.intersect(write.domain), meaning)]
    return []
