"""The conditions on sums, those of a gradient and those of bags: out is cleared, each element that the operator adds
is added once and in order, and each sum is scaled or divided.

An addition is known by the element that it adds: that of a gradient by the element of grad, that of a bag by the place
of its index and the element of out.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import islpy as isl
import z3

from . import bit_vectors as bits
from .bit_vectors import Expression
from .conditions import (
    Copy,
    Failure,
    Indices,
    accesses_inside,
    copy_of,
    everywhere,
    failure_at,
    find_case,
    guard_complete,
    parallel_disjoint,
    same_arithmetic,
    streams_aligned,
    visible,
    with_elements,
)
from .sets import (
    EVERYTHING,
    NOTHING,
    ZERO,
    constant_of,
    equal,
    names_of,
    number,
    only,
    parameter,
    renamed,
    union,
    within,
    without,
)
from .specification import Wanted
from .values import (
    Counted,
    Divisor,
    Element,
    Loop,
    Meaning,
    Refuted,
    Term,
    Undecided,
    Write,
    Zero,
    affine_of,
    conjunction,
)

DIVISOR = "a sum is divided by another number than that of the slices in it"


def failures_of_sum(meaning: Meaning, wanted: Wanted, *, is_scaled: bool) -> list[Failure]:
    """Return the violated conditions of a stage of sums; raises Undecided where something cannot be decided."""
    adds = [_without_owners(write, meaning) for write in meaning.writes if write.adds]
    stores = [_of_all_owners(write, meaning) for write in meaning.writes if not write.adds]
    clears = [write for write in stores if isinstance(write.value, Zero)]
    scales = [write for write in stores if isinstance(write.value, Element)]
    what = "data" if _of_bag(wanted.write) else "grad"
    adding = {loop.parameter for write in adds for loop in write.place.loops}
    begun = [write for write in clears if adding & {loop.parameter for loop in write.place.loops}]
    return (
        parallel_disjoint(meaning, [*adds, *clears, *scales])
        or accesses_inside(meaning, wanted)
        or streams_aligned(meaning)
        or guard_complete(meaning, wanted)
        or _whole("an element of out is not cleared", clears, wanted, meaning)
        or _same_sums(adds, what, wanted, meaning)
        # What a loop clears that adds, too, it clears once.
        or _once("a sum begins twice", [_by_place(write, meaning) for write in begun], meaning)
        or _once(f"an element of {what} is added twice", [_Instances(write, meaning) for write in adds], meaning)
        or _ordered([_Instances(write, meaning) for write in adds], meaning)
        or _phases(clears, adds, scales, wanted, meaning, is_scaled=is_scaled)
    )


# The additions


def _of_bag(write: Write) -> bool:
    """Return whether an addition is that of a bag, whose index says what is added and not where."""
    return isinstance(write.value, Element) and any(isinstance(place, Term) for place in write.value.subscripts)


def _as_copy(write: Write, meaning: Meaning, wanted: Wanted | None = None) -> Copy:
    """Return an addition as a copy: of a bag, from data to out; of a gradient, from the element of out to grad's."""
    value, under = write.value, write.place.under
    if not isinstance(value, Element) or value.array != "data":
        raise Undecided("what is added is no element of the slices")
    mask = functools.reduce(conjunction, under, None)
    if value.mask is not None and not (_of_bag(write) and _changes_by_zero(value)):
        mask = conjunction(mask, value.mask)
    write = replace(write, place=replace(write.place, under=()))
    if _of_bag(write):
        return copy_of(replace(write, value=replace(value, mask=mask)), meaning, wanted)
    reverse = Element("data", write.subscripts, mask)
    return copy_of(replace(write, subscripts=value.subscripts, value=reverse), meaning, wanted)


def _same_sums(adds: list[Write], what: str, wanted: Wanted, meaning: Meaning) -> list[Failure]:
    """Check that each element is added to the element of out that the operator adds it to."""
    target, given = _as_copy(wanted.write, meaning, wanted), [_as_copy(write, meaning) for write in adds]
    *steps, larger = target.form
    for copy, write in zip(given, adds, strict=True):
        if copy.form != target.form:
            return everywhere(f"elements are not combined as {', '.join([*steps, larger or 'added'])}", meaning)
        reason = "an index adds where it should not, or not where it should"
        least = replace(wanted, least=max(wanted.least, 1))
        if failures := same_arithmetic(copy, target, meaning, least, reason) or _no_zeros(write, meaning, wanted):
            return failures
    sizes = EVERYTHING
    for name in meaning.axes.keys() & set(meaning.sizes):
        sizes &= parameter(name).ge_set(number(1))
    added = union(copy.relation for copy in given)
    lost, strange = (target.relation - added) & sizes, (added - target.relation) & sizes
    return failure_at(f"an element of {what} is not added where it belongs", lost, meaning) or failure_at(
        f"an element of {what} is added elsewhere", strange, meaning
    )


def _no_zeros(write: Write, meaning: Meaning, wanted: Wanted) -> list[Failure]:
    """Check that no zero stands for an element that is left out, where a zero changes the sum."""
    value = write.value
    assert isinstance(value, Element)
    if value.mask is None or not _changes_by_zero(value):
        return []
    indices = Indices(
        [*(place for place in value.subscripts if isinstance(place, Term)), value.mask, *write.place.under]
    )
    truths = [*map(indices, write.place.under), z3.Not(indices(value.mask))]
    if wanted.valid is not None:
        truths.append(Indices([wanted.valid])(wanted.valid))
    reason = "zero is weighed, or compared, for an index that is left out"
    return find_case(reason, truths, meaning, wanted, indices.variables)


def _changes_by_zero(value: Element) -> bool:
    """Return whether zero in place of an element changes a sum: products and biases, and what is larger."""
    return bool(value.larger or any(weight is not None for _, weight in value.steps))


class _Instances:
    """The iterations of one write: by its loops, with the elements that are added and those of out.

    Attributes:
        iterations: a set of the loops, of `elements` and `places`, and of the sizes.
        elements: the parameters that tell what is added: an element of grad, or the place of an index in indices.
        places: those of the affine subscripts of out.
    """

    def __init__(self, write: Write, meaning: Meaning):
        value, held, self.write = write.value, write.place.domain, write
        assert isinstance(value, Element)
        if _of_bag(write):
            atoms = Indices(place for place in value.subscripts if isinstance(place, Term)).atoms.values()
            if [(atom.array, atom.row) for atom in atoms] != [("indices", None)]:
                raise Undecided("what is added is found by something else than one index in its place")
            held, self.elements = with_elements(held, atoms)
        else:
            sources = [place for place in value.subscripts if isinstance(place, isl.PwAff)]
            self.elements = [f"e{dim}" for dim in range(len(sources))]
            held &= equal(self.elements, sources)
        targets = [place for place in write.subscripts if isinstance(place, isl.PwAff)]
        self.places = [f"d{dim}" for dim in range(len(targets))]
        self.loops = [*(loop.parameter for loop in write.place.loops), "lane"]
        kept = [*self.elements, *self.places, *self.loops, *meaning.sizes]
        self.iterations = only(held & equal(self.places, targets), kept)

    def twin(self, *apart: str) -> isl.Set:
        """Return the iterations under other names: of the loops, and of some parameters."""
        return renamed(self.iterations, {name: f"{name}_twin" for name in (*self.loops, *apart)})


def _by_place(write: Write, meaning: Meaning) -> _Instances:
    """Return the iterations of a write that is known by the element of out alone."""
    return _Instances(replace(write, value=Element("data", write.subscripts)), meaning)


def _once(reason: str, found: list[_Instances], meaning: Meaning) -> list[Failure]:
    """Check that no element is added, or written, twice, else it is for that reason."""
    for at, one in enumerate(found):
        for other in found[at:]:
            pairs = one.iterations & other.twin()
            if one is other:
                own = [name for name in one.loops if name in names_of(one.iterations)]
                pairs &= _lexicographic(own)
            if failures := failure_at(reason, pairs, meaning):
                return failures
    return []


def _ordered(found: list[_Instances], meaning: Meaning) -> list[Failure]:
    """Check that additions to one element run in the order of what is added: of elements of grad, or of indices."""
    for one in found:
        for other in found:
            pairs = one.iterations & other.twin(*other.elements) & _lexicographic(one.elements)
            wrong = pairs & _perhaps_not_before(one.write, other.write)
            if failures := failure_at("additions to one element may run in another order", wrong, meaning):
                return failures
    return []


def _lexicographic(names: Sequence[str]) -> isl.Set:
    """Return where a tuple of parameters comes before its twin, in lexicographic order."""
    here, there = ", ".join(names), ", ".join(f"{name}_twin" for name in names)
    return isl.Set(f"[{here}, {there}] -> {{ : {here} << {there} }}") if names else NOTHING


def _perhaps_not_before(one: Write, other: Write) -> isl.Set:
    """Return the pairs of iterations of which the first is not certain to run before the second."""
    wrong, same = NOTHING, EVERYTHING
    for loop, twin in zip(one.place.loops, other.place.loops, strict=False):
        if loop.parameter != twin.parameter:
            continue
        here, there = parameter(loop.parameter), parameter(f"{loop.parameter}_twin")
        wrong |= same & (here.gt_set(there) if loop.ordered else here.ne_set(there))
        same &= here.eq_set(there)
    return wrong if _precedes(one, other) else wrong | same


def _precedes(one: Write, other: Write) -> bool:
    """Return whether a write stands before another in the text."""
    return [place for place, _ in one.place.path] < [place for place, _ in other.place.path]


# The phases


def _whole(reason: str, writes: list[Write], wanted: Wanted, meaning: Meaning) -> list[Failure]:
    """Check that writes reach every element of out."""
    names, box = [f"e{dim}" for dim in range(len(wanted.sizes))], meaning.context
    for name, size in zip(names, wanted.sizes, strict=True):
        box &= within(parameter(name), ZERO, size)
    reached = union(only(_reached(write), [*names, *meaning.sizes]) for write in writes)
    return failure_at(reason, box - reached, meaning)


def _reached(write: Write) -> isl.Set:
    """Return the iterations of a write with the elements of out `e0`, ... that they reach."""
    places = affine_of(write.subscripts, "an element of out is cleared, scaled or divided at an index")
    return write.place.domain & equal([f"e{dim}" for dim in range(len(places))], places)


def _phases(
    clears: list[Write], adds: list[Write], scales: list[Write], wanted: Wanted, meaning: Meaning, *, is_scaled: bool
) -> list[Failure]:
    """Check that out is cleared before anything is added, and scaled or divided once, behind."""
    done = "divided" if wanted.divisor is not None else "scaled" if is_scaled else ""
    if failures := _in_turn("an element of out is cleared behind an addition", clears, adds, wanted, meaning):
        return failures
    if not done:
        reason = "a sum is stored anew" if _of_bag(wanted.write) else "the sums are scaled by 1"
        return everywhere(reason, meaning, 1) if scales else []
    if failures := _in_turn(f"a sum is {done} before an addition", adds, scales, wanted, meaning):
        return failures
    for write in scales:
        value = write.value
        assert isinstance(value, Element)
        if value.changed != done or list(map(str, value.subscripts)) != list(map(str, write.subscripts)):
            raise Undecided(f"what is written behind the sums is not their {done} value")
        if wanted.divisor is not None and (failures := _same_divisors(write, wanted.divisor, wanted, meaning)):
            return failures
    return _whole(f"a sum is not {done}", scales, wanted, meaning) or _once(
        f"a sum is {done} twice", [_by_place(write, meaning) for write in scales], meaning
    )


def _in_turn(reason: str, firsts: list[Write], seconds: list[Write], wanted: Wanted, meaning: Meaning) -> list[Failure]:
    """Check that writes run before others that write the same element: of a gradient, any element."""
    if any(not _precedes(first, second) for first in firsts for second in seconds):
        return everywhere(reason, meaning, 1)
    if not _of_bag(wanted.write):
        return []
    later = [(second, _by_place(second, meaning).twin()) for second in seconds]
    for first in firsts:
        here = _by_place(first, meaning).iterations
        for second, there in later:
            if failures := failure_at(reason, here & there & _perhaps_not_before(first, second), meaning):
                return failures
    return []


# The divisors of means


def _same_divisors(write: Write, divisor: isl.PwAff, wanted: Wanted, meaning: Meaning) -> list[Failure]:
    """Check that a write divides by the number of slices in a sum: the size of its bag, or its valid indices."""
    value, under = write.value, wanted.write.place.under
    assert isinstance(value, Element) and isinstance(value.divisor, Divisor)
    count = value.divisor.number
    if isinstance(count, Counted):
        if not under:
            raise Undecided("a sum is divided by a count, and no index is left out")
        return _same_count(write, count, under[0], wanted, meaning)
    for valid in under:
        indices = Indices([valid])
        if failures := find_case(DIVISOR, [z3.Not(indices(valid))], meaning, wanted, indices.variables):
            return failures
    return failure_at(DIVISOR, count.ne_set(divisor.max(number(1))) & write.place.domain, meaning)


def _same_count(write: Write, count: Counted, mask: Term, wanted: Wanted, meaning: Meaning) -> list[Failure]:
    """Check that the count is that of the valid indices of the bag whose sum is divided; 1 stands for none."""
    if count.least != 1:
        return everywhere("the sum of an empty bag is divided by another number than 1", meaning, 1)
    own = Indices([mask])
    valid = z3.If(own(mask), bits.constant(1), bits.constant(0))
    elements = [f"e{dim}" for dim in range(len(write.subscripts))]
    read: list[tuple[isl.Set, list[str]]] = []
    for domain, term in count.terms:
        indices = Indices([term])
        is_count = not z3.is_bool(term.expression) and term.expression.size() == bits.WIDE
        facts = [[(atom.array, atom.bits, atom.row) for atom in each.atoms.values()] for each in (indices, own)]
        if not is_count or facts[0] != facts[1]:
            raise Undecided("what is counted is found by something else than the operator's indices")
        reason = "an index outside is counted, or one inside is not"
        if failures := find_case(reason, [indices(term) != valid], meaning, wanted, indices.variables):
            return failures
        read.append(with_elements(domain, indices.atoms.values()))
    reached = _reached(write)
    kept = [*elements, *read[0][1], *meaning.sizes] if read else elements
    counted = union(only(reached & held, kept) for held, _ in read)
    needed = only(with_elements(_reached(wanted.write), own.atoms.values())[0], kept) & only(
        reached, [*elements, *meaning.sizes]
    )
    if failures := failure_at(DIVISOR, needed - counted, meaning) or failure_at(DIVISOR, counted - needed, meaning):
        return failures
    shared = {*(loop.parameter for loop in write.place.loops), *visible(meaning), *kept}
    for at, (one, _) in enumerate(read):
        for place, (other, _) in enumerate(read[at:]):
            loops = [name for name in names_of(other) if name not in shared]
            pairs = one & renamed(other, {name: f"{name}_twin" for name in loops}) & write.place.domain
            pairs = pairs if place else pairs & _lexicographic(loops)
            if failures := failure_at("an index is counted twice", pairs, meaning):
                return failures
    return []


# Owners


def _without_owners(write: Write, meaning: Meaning) -> Write:
    """Return an addition without the loop over owners: each position in [0, n) has one owner, the one it is masked for.

    The owners' loop is `first` from 0 to n in steps of `part`, which is at least 1, and the mask of the addition has
    `position - first < part`, unsigned. Where owners have blocks in turn, it goes from 0 to the smaller of n and a
    power of two, in steps of a block that divides that, and the mask has `(position - first) mod` the power of two.
    """
    for loop in write.place.loops:
        selects = _selection(loop, write, meaning)
        under = [_without(term, selects) for term in write.place.under]
        if all(after is before for after, before in zip(under, write.place.under, strict=True)):
            if loop.step is not None:
                continue
            if not any(atom.array == "" for term in write.place.under for atom in term.atoms.values()):
                raise Refuted(f"each iteration of {loop.label} adds the same")
            raise Undecided(f"the step of loop {loop.label} is no number, and the mask is not that of its part")
        place = replace(
            write.place,
            loops=tuple(each for each in write.place.loops if each is not loop),
            under=tuple(term for term in under if term is not None),
            path=tuple((at, None if of is loop else of) for at, of in write.place.path),
        )
        return _without_owners(replace(write, place=place), meaning)
    return write


def _selection(loop: Loop, write: Write, meaning: Meaning) -> Callable[[Expression], bool]:
    """Return whether a truth selects the positions of the owner that an iteration of a loop is."""
    values = {
        str(atom.subscripts[0]): name
        for term in write.place.under
        for name, atom in term.atoms.items()
        if not atom.array
    }
    first, positions = (
        values.get(str(parameter(loop.parameter))),
        [place for place in write.subscripts if isinstance(place, Term)],
    )
    axes = [parameter(name) for name in meaning.axes]
    if first is None or constant_of(loop.lower) != 0:
        return lambda truth: False
    offsets = [position.expression - bits.variable(first) for position in positions]
    parts: list[Expression] = []
    if loop.step is None and str(loop.stride) in values and any(str(loop.upper) == str(axis) for axis in axes):
        is_positive = (meaning.context & loop.stride.lt_set(number(1))).is_empty()
        parts = [z3.ULT(offset, bits.variable(values[str(loop.stride)])) for offset in offsets if is_positive]
    for period in (1 << at for at in range(bits.WIDE - 1)) if loop.step is not None else ():
        is_whole = any(_is_same(loop.upper, axis.min(number(period)), meaning.context) for axis in axes)
        if is_whole and period % (loop.step or 1) == 0:
            parts += [z3.ULT(offset & (period - 1), bits.constant(loop.step or 1)) for offset in offsets]
    return lambda truth: any(truth.eq(part) for part in parts)


def _without(term: Term, selects: Callable[[Expression], bool]) -> Term | None:
    """Return a mask without the part that selects an owner's positions; None where nothing is left of it."""
    parts = [term.expression]
    while any(z3.is_and(part) for part in parts):
        parts = [each for part in parts for each in (part.children() if z3.is_and(part) else [part])]
    rest = [part for part in parts if not selects(part)]
    if len(rest) == len(parts):
        return term
    left = {name: atom for name, atom in term.atoms.items() if atom.array}
    return Term(z3.And(*rest), left) if rest else None


def _of_all_owners(write: Write, meaning: Meaning) -> Write:
    """Return what each owner clears or scales as a write of one loop over all positions: each of them has one owner.

    The owners' loop is `first` from 0 to n in steps of `part`, which is at least 1, and a loop in it goes from `first`
    to the smaller of `first + part` and n in steps of 1.
    """
    for owners in write.place.loops:
        if owners.step is not None:
            continue
        first, domain = parameter(owners.parameter), write.place.domain
        end = (first + owners.stride).min(owners.upper)
        own = next((loop for loop in write.place.loops if _is_same(loop.lower, first, domain)), None)
        is_positive = (meaning.context & owners.stride.lt_set(number(1))).is_empty()
        is_part = own is not None and own.step == 1 and _is_same(own.upper, end, domain)
        if own is None or not is_part or not is_positive or constant_of(owners.lower) != 0:
            raise Undecided(f"what loop {owners.label} stores to is not the part of each iteration")
        whole = replace(own, lower=owners.lower, upper=owners.upper)
        place = replace(
            write.place,
            loops=tuple(whole if loop is own else loop for loop in write.place.loops if loop is not owners),
            path=tuple((at, None if of is owners else whole if of is own else of) for at, of in write.place.path),
            domain=without(domain, [owners.parameter]),
        )
        return _of_all_owners(replace(write, place=place), meaning)
    return write


def _is_same(one: isl.PwAff, other: isl.PwAff, domain: isl.Set) -> bool:
    """Return whether two numbers are the same in all iterations of a domain."""
    return domain.is_subset(one.eq_set(other))
