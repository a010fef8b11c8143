"""What must hold of sums, those of a gradient and those of bags: out is cleared, each element that the operator adds
is added once and in order, and each sum is scaled.

An addition is told from others by what it adds: that of a gradient by the element of grad, that of a bag by the place
of its index and the element of out.
"""

from dataclasses import dataclass, replace

import islpy as isl
import z3

from .conditions.accesses_inside import accesses_inside, streams_aligned
from .conditions.failure import Failure, assumptions, failure_at
from .conditions.index_checks import guard_complete
from .conditions.parallel_disjoint import parallel_disjoint
from .conditions.same_copies import same_constants, same_positions
from .copies import Copy, copy_of, in_order, with_names
from .relations.integer_sets import (
    constant_of,
    equal_tuple,
    everything,
    names_of,
    number,
    only,
    parameter,
    renamed,
    without,
)
from .relations.meaning import Loop, Meaning, Write
from .relations.values import Element, Expression, Refuted, Term, Undecided, Zero
from .specification import Wanted


def failures_of_sum(meaning: Meaning, wanted: Wanted, *, is_scaled: bool) -> list[Failure]:
    """Return what does not hold of a stage of sums; raises Undecided where something cannot be decided."""
    adds = [_without_owners(write, meaning) for write in meaning.writes if write.adds]
    stores = [_of_all_owners(write, meaning) for write in meaning.writes if not write.adds]
    clears = [write for write in stores if isinstance(write.value, Zero)]
    scales = [write for write in stores if isinstance(write.value, Element)]
    plain = replace_writes(meaning, [*adds, *clears, *scales])
    failures = parallel_disjoint(plain) or accesses_inside(meaning, wanted) or streams_aligned(meaning)
    if failures:
        return failures
    inside = replace_writes(meaning, adds)
    return (
        guard_complete(meaning, wanted)
        or _whole("an element of out is not cleared", clears, wanted, meaning)
        or _same_sums(inside, wanted)
        or _begun_once(clears, adds, meaning)
        or _once(f"an element of {_what(wanted)} is added twice", adds, meaning)
        or _ordered(adds, meaning)
        or _phases(clears, adds, scales, wanted, meaning, is_scaled=is_scaled)
    )


def replace_writes(meaning: Meaning, writes: list[Write]) -> Meaning:
    """Return a meaning with other writes."""
    return replace(meaning, writes=writes)


# Owners of parts of an axis


def _without_owners(write: Write, meaning: Meaning) -> Write:
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
        return _without_owners(replace(write, loops=others, under=under, path=path), meaning)
    return write


def _of_all_owners(write: Write, meaning: Meaning) -> Write:
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
        return _of_all_owners(
            replace(write, loops=loops, path=path, domain=without(write.domain, [owners.parameter])), meaning
        )
    return write


def _is_same(one: isl.PwAff, other: isl.PwAff, domain: isl.Set) -> bool:
    """Return whether two numbers are the same in all iterations of a domain."""
    return domain.subtract(one.eq_set(other)).is_empty()


def _without_owner(term: Term, loop: Loop, write: Write, meaning: Meaning) -> Term | None:
    """Return a mask without the part that selects an owner's positions; None where nothing is left of it."""
    parts = conjuncts(term.expression)
    selects = _selects if loop.step is None else _selects_blocks
    rest = [part for part in parts if not selects(part, term, loop, write, meaning)]
    if len(rest) == len(parts):
        return term
    left = {name: atom for name, atom in term.atoms.items() if atom.array}
    return Term(z3.And(*rest), left) if rest else None


def conjuncts(expression: Expression) -> list[Expression]:
    """Return the truths that a truth is the conjunction of."""
    if z3.is_and(expression):
        return [part for child in expression.children() for part in conjuncts(child)]
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
        return replace(write, value=replace(value, mask=mask), under=())
    return replace(write, subscripts=value.subscripts, value=Element("data", write.subscripts, mask), under=())


def _same_sums(meaning: Meaning, wanted: Wanted) -> list[Failure]:
    """Check that each element is added to the element of out that the operator adds it to."""
    target, what = copy_of(_as_copy(wanted.write), meaning), _what(wanted)
    given = [copy_of(_as_copy(write), meaning) for write in meaning.writes]
    for copy in given:
        failure = _same_arithmetic(copy, target, meaning, wanted)
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
    if wanted.constants is not None and len(copy.positions) == len(target.positions):
        return same_constants(copy, target, meaning, wanted)
    if [dim for dim, _ in copy.positions] != [dim for dim, _ in target.positions] or copy.widths != target.widths:
        raise Undecided("positions are computed from other things than the operator's indices")
    known = assumptions(meaning, max(wanted.least, 1))
    if wanted.valid is not None:
        known.append(with_names(wanted.valid.expression, wanted.valid.atoms))
    reason = "an index adds where it should not, or not where it should"
    return same_positions(copy, target, meaning, known, reason)


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
    """Check that out is cleared before anything is added, and scaled once, behind."""
    ones = dict.fromkeys(meaning.sizes, 1)
    if any(not _precedes(clear, add) for clear in clears for add in adds):
        return [Failure("an element of out is cleared behind an addition", ones)]
    if not is_scaled:
        return [Failure("the sums are scaled by 1", ones)] if scales else []
    if any(not _precedes(add, scale) for scale in scales for add in adds):
        return [Failure("a sum is scaled before an addition", ones)]
    for write in scales:
        value = write.value
        assert isinstance(value, Element)
        if value.changed != "scaled" or list(map(str, value.subscripts)) != list(map(str, write.subscripts)):
            raise Undecided("what is written behind the sums is not their scaled value")
    return _whole("a sum is not scaled", scales, wanted, meaning) or _each_once(
        "a sum is scaled twice", scales, meaning
    )


def _each_once(reason: str, writes: list[Write], meaning: Meaning) -> list[Failure]:
    """Check that no element of out is written twice, else it is for that reason."""
    return _once(reason, [replace(write, value=Element("data", write.subscripts)) for write in writes], meaning)
