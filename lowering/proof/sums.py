"""What must hold of sums, those of a gradient and those of bags: out is cleared, each element that the operator adds
is added once and in order, and each sum is scaled.

An addition is told from others by what it adds: that of a gradient by the element of grad, that of a bag by the place
of its index and the element of out.
"""

import functools
from dataclasses import dataclass, replace

import islpy as isl
import z3

from .conditions.accesses_inside import accesses_inside, streams_aligned
from .conditions.failure import Failure, assumptions, failure_at, find_case
from .conditions.index_checks import guard_complete
from .conditions.means import same_divisors
from .conditions.owners import of_all_owners, without_owners
from .conditions.parallel_disjoint import parallel_disjoint
from .conditions.same_copies import same_constants, same_positions
from .copies import Copy, copy_of, in_order, with_names
from .relations import bit_vectors as bits
from .relations.integer_sets import equal_tuple, everything, names_of, number, only, parameter, renamed
from .relations.meaning import Meaning, Write
from .relations.values import Element, Term, Undecided, Zero, conjunction
from .specification import Wanted


def failures_of_sum(meaning: Meaning, wanted: Wanted, *, is_scaled: bool) -> list[Failure]:
    """Return what does not hold of a stage of sums; raises Undecided where something cannot be decided."""
    adds = [without_owners(write, meaning) for write in meaning.writes if write.adds]
    stores = [of_all_owners(write, meaning) for write in meaning.writes if not write.adds]
    clears = [write for write in stores if isinstance(write.value, Zero)]
    scales = [write for write in stores if isinstance(write.value, Element)]
    plain = replace(meaning, writes=[*adds, *clears, *scales])
    failures = parallel_disjoint(plain) or accesses_inside(meaning, wanted) or streams_aligned(meaning)
    if failures:
        return failures
    inside = replace(meaning, writes=adds)
    return (
        guard_complete(meaning, wanted)
        or _whole("an element of out is not cleared", clears, wanted, meaning)
        or _same_sums(inside, wanted)
        or _begun_once(clears, adds, meaning)
        or _once(f"an element of {_what(wanted)} is added twice", adds, meaning)
        or _ordered(adds, meaning)
        or _phases(clears, adds, scales, wanted, meaning, is_scaled=is_scaled)
    )


# The additions


def _of_bag(write: Write) -> bool:
    """Return whether an addition is that of a bag, whose index says what is added and not where."""
    value = write.value
    return isinstance(value, Element) and any(isinstance(place, Term) for place in value.subscripts)


def _what(wanted: Wanted) -> str:
    """Return what messages call the elements that are added."""
    return "data" if _of_bag(wanted.write) else "grad"


def _as_copy(write: Write) -> Write:
    """Return an addition as a copy: of a bag, from data to out; of a gradient, from the element of out to grad's."""
    value = write.value
    if not isinstance(value, Element) or value.array != "data":
        raise Undecided("what is added is no element of the slices")
    mask: Term | None = None
    for term in (*write.under, *([] if value.mask is None else [value.mask])):
        mask = term if mask is None else Term(z3.And(mask.expression, term.expression), mask.atoms | term.atoms)
    if _of_bag(write):
        if _changes_by_zero(value):
            mask = functools.reduce(conjunction, write.under) if write.under else None
        return replace(write, value=replace(value, mask=mask), under=())
    return replace(write, subscripts=value.subscripts, value=Element("data", write.subscripts, mask), under=())


def _same_sums(meaning: Meaning, wanted: Wanted) -> list[Failure]:
    """Check that each element is added to the element of out that the operator adds it to."""
    target, what = copy_of(_as_copy(wanted.write), meaning), _what(wanted)
    given = [copy_of(_as_copy(write), meaning) for write in meaning.writes]
    for copy, write in zip(given, meaning.writes, strict=True):
        failure = _same_arithmetic(copy, target, meaning, wanted) or _no_zeros(write, meaning, wanted)
        if failure is not None:
            return [failure]
    sizes = meaning.context
    for name in meaning.axes:
        sizes = sizes.intersect(parameter(name).ge_set(number(1))) if name in meaning.sizes else sizes
    union = isl.Set("{ : }").complement()
    for copy in given:
        union = union.union(copy.relation)
    lost = target.relation.subtract(union).intersect(sizes)
    if not lost.is_empty():
        return [failure_at(f"an element of {what} is not added where it belongs", lost, meaning)]
    strange = union.subtract(target.relation).intersect(sizes)
    return [] if strange.is_empty() else [failure_at(f"an element of {what} is added elsewhere", strange, meaning)]


def _same_arithmetic(copy: Copy, target: Copy, meaning: Meaning, wanted: Wanted) -> Failure | None:
    if copy.form != target.form:
        return Failure(f"elements are not {_combined(target)}", dict.fromkeys(meaning.sizes, 2))
    if wanted.constants is not None and len(copy.positions) == len(target.positions):
        return same_constants(copy, target, meaning, wanted)
    if [dim for dim, _ in copy.positions] != [dim for dim, _ in target.positions] or copy.widths != target.widths:
        raise Undecided("positions are computed from other things than the operator's indices")
    known = assumptions(meaning, max(wanted.least, 1))
    if wanted.valid is not None:
        known.append(with_names(wanted.valid.expression, wanted.valid.atoms))
    reason = "an index adds where it should not, or not where it should"
    return same_positions(copy, target, meaning, known, reason)


def _no_zeros(write: Write, meaning: Meaning, wanted: Wanted) -> Failure | None:
    """Check that no zero stands for an element that is left out, where a zero is not nothing."""
    value = write.value
    assert isinstance(value, Element)
    if value.mask is None or not _changes_by_zero(value):
        return None
    atoms = in_order([*(place for place in value.subscripts if isinstance(place, Term)), value.mask, *write.under])
    known = assumptions(meaning, wanted.least)
    if wanted.valid is not None:
        known.append(with_names(wanted.valid.expression, wanted.valid.atoms))
    known += [with_names(term.expression, atoms) for term in write.under]
    names = [bits.variable(f"index{place}", atom.bits) for place, atom in enumerate(atoms.values())]
    truths = [*known, z3.Not(with_names(value.mask.expression, atoms))]
    return find_case("zero is weighed, or compared, for an index that is left out", truths, meaning, names)


def _changes_by_zero(value: Element) -> bool:
    """Return whether zero in place of an element changes a sum: products and biases, and what is larger."""
    return bool(value.larger or any(step.weight is not None for step in value.steps))


def _combined(copy: Copy) -> str:
    """Return what becomes of elements, for messages."""
    (*steps, larger) = copy.form
    return f"combined as {', '.join([*steps, larger or 'added'])}"


@dataclass(frozen=True)
class _Instances:
    """The iterations of one write: by its loops, what is added as `e0`, ... and the affine subscripts of out.

    What is added is the element of grad, or the place of the index in indices.
    """

    write: Write
    iterations: isl.Set
    elements: tuple[str, ...]
    places: tuple[str, ...]


def _instances(write: Write, meaning: Meaning) -> _Instances:
    value = write.value
    assert isinstance(value, Element)
    sources = [place for place in value.subscripts if isinstance(place, isl.PwAff)]
    among = everything()
    if _of_bag(write):
        atoms = in_order([place for place in value.subscripts if isinstance(place, Term)])
        if len(atoms) != 1:
            raise Undecided("what is added depends on several indices")
        (atom,) = atoms.values()
        if atom.row is not None or atom.array != "indices":
            raise Undecided("what is added is found by something else than an index in its place")
        sources, among = list(atom.subscripts), atom.among
    targets = [place for place in write.subscripts if isinstance(place, isl.PwAff)]
    elements = tuple(f"e{place}" for place in range(len(sources)))
    places = tuple(f"d{place}" for place in range(len(targets)))
    iterations = write.domain.intersect(equal_tuple(elements, sources)).intersect(equal_tuple(places, targets))
    iterations = iterations.intersect(among)
    names = [*elements, *places, *(loop.parameter for loop in write.loops), "lane", *meaning.sizes]
    return _Instances(write, only(iterations, names), elements, places)


def _twin(instances: _Instances, apart: tuple[str, ...] = ()) -> isl.Set:
    """Return the iterations under other names: of the loops, and of what is `apart`."""
    names = [*(loop.parameter for loop in instances.write.loops), "lane", *apart]
    return renamed(instances.iterations, {name: f"{name}_twin" for name in names})


def _once(reason: str, adds: list[Write], meaning: Meaning) -> list[Failure]:
    """Check that no element is added twice, else it is for that reason."""
    found = [_instances(write, meaning) for write in adds]
    for number_, one in enumerate(found):
        for other in found[number_:]:
            pairs = one.iterations.intersect(_twin(other))
            if one is other:
                names = [loop.parameter for loop in one.write.loops]
                names += ["lane"] if "lane" in names_of(one.iterations) else []
                apart = isl.Set("{ : }").complement()
                for name in names:
                    apart = apart.union(parameter(name).lt_set(parameter(f"{name}_twin")))
                pairs = pairs.intersect(apart)
            if not pairs.is_empty():
                return [failure_at(reason, pairs, meaning)]
    return []


def _ordered(adds: list[Write], meaning: Meaning) -> list[Failure]:
    """Check that additions to one element run in the order of what is added: of elements of grad, or of indices."""
    found = [_instances(write, meaning) for write in adds]
    for one in found:
        for other in found:
            later = _twin(other, other.elements)
            pairs = one.iterations.intersect(later).intersect(_before(one.elements, "_twin"))
            wrong = pairs.intersect(_perhaps_not_before(one.write, other.write))
            if not wrong.is_empty():
                return [failure_at("additions to one element may run in another order", wrong, meaning)]
    return []


def _before(names: tuple[str, ...], suffix: str) -> isl.Set:
    """Return where a tuple comes before its twin."""
    found, same = isl.Set("{ : }").complement(), isl.Set("{ : }")
    for name in names:
        here, there = parameter(name), parameter(f"{name}{suffix}")
        found = found.union(same.intersect(here.lt_set(there)))
        same = same.intersect(here.eq_set(there))
    return found


def _perhaps_not_before(one: Write, other: Write) -> isl.Set:
    """Return the pairs of iterations of which the first is not certain to run before the second."""
    wrong, same = isl.Set("{ : }").complement(), isl.Set("{ : }")
    shared = [loop for loop, twin in zip(one.loops, other.loops, strict=False) if loop.parameter == twin.parameter]
    for loop in shared:
        here, there = parameter(loop.parameter), parameter(f"{loop.parameter}_twin")
        wrong = wrong.union(same.intersect(here.gt_set(there) if loop.ordered else here.ne_set(there)))
        same = same.intersect(here.eq_set(there))
    return wrong if _precedes(one, other) else wrong.union(same)


def _precedes(one: Write, other: Write) -> bool:
    """Return whether a write stands before another in the text."""
    return [place for place, _ in one.path] < [place for place, _ in other.path]


def _begun_once(clears: list[Write], adds: list[Write], meaning: Meaning) -> list[Failure]:
    """Check that no sum begins anew: what a loop clears that adds, too, it clears once."""
    adding = {loop.parameter for write in adds for loop in write.loops}
    begun = [write for write in clears if adding & {loop.parameter for loop in write.loops}]
    return _each_once("a sum begins twice", begun, meaning)


# The phases


def _whole(reason: str, writes: list[Write], wanted: Wanted, meaning: Meaning) -> list[Failure]:
    """Check that writes reach every element of out."""
    names = [f"e{place}" for place in range(len(wanted.sizes))]
    box = meaning.context
    for name, size in zip(names, wanted.sizes, strict=True):
        box = box.intersect(parameter(name).ge_set(number(0))).intersect(parameter(name).lt_set(size))
    reached = isl.Set("{ : }").complement()
    for write in writes:
        places = [place for place in write.subscripts if isinstance(place, isl.PwAff)]
        if len(places) != len(names):
            raise Undecided("an element of out is cleared or scaled at an index")
        iterations = write.domain.intersect(equal_tuple(names, places))
        reached = reached.union(only(iterations, [*names, *meaning.sizes]))
    missed = box.subtract(reached)
    return [] if missed.is_empty() else [failure_at(reason, missed, meaning)]


def _phases(
    clears: list[Write], adds: list[Write], scales: list[Write], wanted: Wanted, meaning: Meaning, *, is_scaled: bool
) -> list[Failure]:
    """Check that out is cleared before anything is added, and scaled or divided once, behind."""
    done = "divided" if wanted.divisor is not None else "scaled" if is_scaled else ""
    if failures := _in_turn("an element of out is cleared behind an addition", clears, adds, wanted, meaning):
        return failures
    if not done:
        reason = "a sum is stored anew" if _of_bag(wanted.write) else "the sums are scaled by 1"
        return [Failure(reason, dict.fromkeys(meaning.sizes, 1))] if scales else []
    if failures := _in_turn(f"a sum is {done} before an addition", adds, scales, wanted, meaning):
        return failures
    for write in scales:
        value = write.value
        assert isinstance(value, Element)
        if value.changed != done or list(map(str, value.subscripts)) != list(map(str, write.subscripts)):
            raise Undecided(f"what is written behind the sums is not their {done} value")
        if wanted.divisor is not None and (failures := same_divisors(write, wanted, meaning)):
            return failures
    return _whole(f"a sum is not {done}", scales, wanted, meaning) or _each_once(
        f"a sum is {done} twice", scales, meaning
    )


def _in_turn(reason: str, firsts: list[Write], seconds: list[Write], wanted: Wanted, meaning: Meaning) -> list[Failure]:
    """Check that writes run before others that write the same element: of a gradient, any element."""
    if any(not _precedes(first, second) for first in firsts for second in seconds):
        return [Failure(reason, dict.fromkeys(meaning.sizes, 1))]
    if not _of_bag(wanted.write):
        return []
    later = [(second, _twin(_instances(_by_place(second), meaning))) for second in seconds]
    for first in firsts:
        here = _instances(_by_place(first), meaning).iterations
        for second, there in later:
            pairs = here.intersect(there)
            if pairs.is_empty():
                continue
            pairs = pairs.intersect(_perhaps_not_before(first, second))
            if not pairs.is_empty():
                return [failure_at(reason, pairs, meaning)]
    return []


def _each_once(reason: str, writes: list[Write], meaning: Meaning) -> list[Failure]:
    """Check that no element of out is written twice, else it is for that reason."""
    return _once(reason, list(map(_by_place, writes)), meaning)


def _by_place(write: Write) -> Write:
    """Return a write that is told from others by the element of out alone."""
    return replace(write, value=Element("data", write.subscripts))
