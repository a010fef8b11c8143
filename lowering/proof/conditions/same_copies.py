"""The writes of a stage copy what the operator says: each element of out, from where it comes."""

import islpy as isl
import z3

from ..constants import places_in, with_values
from ..copies import Copy, copy_of, in_order, visible, with_names
from ..relations import bit_vectors as bits
from ..relations.integer_sets import only, without
from ..relations.meaning import Meaning
from ..relations.values import Undecided
from ..specification import Wanted
from .failure import Failure, assumptions, failure_at, find_case


def same_copies(meaning: Meaning, wanted: Wanted) -> list[Failure]:
    """Check that the writes copy, together, what is wanted: each element of out, from where it comes."""
    target = copy_of(wanted.write, meaning)
    given = [copy_of(write, meaning) for write in meaning.writes]
    for copy in given:
        failure = _same_arithmetic(copy, target, meaning, wanted)
        if failure is not None:
            return [failure]
    if not all(_for_any_address(name, given, meaning) for name in meaning.wobbling):
        raise Undecided("which iteration writes an element depends on an address")
    union = isl.Set("{ : }").complement()
    for copy in given:
        union = union.union(copy.relation)
    union = without(union, meaning.wobbling)
    elements = [f"e{place}" for place in range(len(wanted.write.subscripts))]
    lost = only(target.relation, [*elements, *meaning.sizes]).subtract(only(union, [*elements, *meaning.sizes]))
    if not lost.is_empty():
        return [failure_at("an element of out is not written", lost, meaning)]
    strange = only(union, [*elements, *meaning.sizes]).subtract(only(target.relation, [*elements, *meaning.sizes]))
    if not strange.is_empty():
        return [failure_at("an element outside of out is written", strange, meaning)]
    for other in (union.subtract(target.relation), target.relation.subtract(union)):
        if not other.is_empty():
            return [failure_at("an element of out comes from another element of data or another index", other, meaning)]
    return []


def _same_arithmetic(copy: Copy, target: Copy, meaning: Meaning, wanted: Wanted) -> Failure | None:
    """Check that a write finds its positions, and its zeros, as the operator does."""
    if copy.form != target.form:
        return Failure("what is written to out was computed from an element", dict.fromkeys(meaning.sizes, 2))
    if [dim for dim, _ in copy.positions] != [dim for dim, _ in target.positions]:
        return Failure("an index is not used where the operator uses it", dict.fromkeys(meaning.sizes, 2))
    if wanted.constants is not None:
        return same_constants(copy, target, meaning, wanted)
    if set(copy.arrays) - {"indices"} or (copy.widths != target.widths):
        raise Undecided("positions are computed from other things than the operator's indices")
    known = assumptions(meaning, wanted.least)
    if wanted.valid is not None:
        known.append(with_names(wanted.valid.expression, in_order([wanted.valid])))
    reason = "an index gives zeros where it should not, or none where it should"
    return same_positions(copy, target, meaning, known, reason)


def same_constants(copy: Copy, target: Copy, meaning: Meaning, wanted: Wanted) -> Failure | None:
    """Check that a write does with each of the constants, or the positions made of them, what the operator does."""
    if meaning.constants is None or wanted.constants is None or len(copy.widths) != len(target.widths):
        raise Undecided("positions are computed from other things than the operator's constant indices")
    names = [f"index{number_}" for number_ in range(len(copy.widths))]
    sized = list(zip(names, copy.widths, strict=True))
    own = [(bits.variable(each, width), bits.variable(f"own_{each}", width)) for each, width in sized]
    mask = z3.substitute(copy.mask, *own)
    pairs = zip(copy.positions, target.positions, strict=True)
    moved = [(z3.substitute(left, *own), right) for (_, left), (_, right) in pairs]
    wrong = z3.Or(mask != target.mask, z3.And(target.mask, z3.Or(*(left != right for left, right in moved))))
    elements = [f"a{number_}_0" for number_ in range(len(names))]
    seen: set[tuple[int, ...]] = set()
    for places in places_in(target.relation, elements):
        given = (*(meaning.constants[place] for place in places), *(wanted.constants[place] for place in places))
        if given in seen:
            continue
        seen.add(given)
        every = [*(f"own_{each}" for each in names), *names]
        told = with_values(wrong, every, [*copy.widths, *target.widths], given)
        reason = f"constant index {', '.join(str(wanted.constants[place]) for place in places)} leads elsewhere"
        if z3.is_true(told):
            return Failure(reason, dict.fromkeys(meaning.sizes, 2))
        if not z3.is_false(told):
            failure = find_case(reason, [*assumptions(meaning, wanted.least), told], meaning, [])
            if failure is not None:
                return failure
    return None


def same_positions(copy: Copy, target: Copy, meaning: Meaning, known: list[z3.BoolRef], reason: str) -> Failure | None:
    """Check that two writes are done for the same indices, else it is for that reason, and at the same positions."""
    failure = find_case(reason, [*known, copy.mask != target.mask], meaning, copy.indices)
    for (_, left), (_, right) in zip(copy.positions, target.positions, strict=True):
        if failure is None:
            reason = "an index leads to another position"
            failure = find_case(reason, [*known, target.mask, left != right], meaning, copy.indices)
    return failure


def _for_any_address(name: str, copies: list[Copy], meaning: Meaning) -> bool:
    """Return whether what an iteration writes, by all its writes together, is the same whatever an address is.

    `name` is a number that an address decides, in the iterations of the loops around it.
    """
    loops, allowed = meaning.wobbling[name]
    around = {loop.parameter for loop in loops}
    union = isl.Set("{ : }").complement()
    for copy in copies:
        if around <= {loop.parameter for loop in copy.write.loops}:
            union = union.union(only(copy.whole, [*copy.names, *around, *visible(meaning)]))
    return without(union, [name]).intersect(allowed).is_subset(union)
