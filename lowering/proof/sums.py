"""The conditions on the sums of gradients and bags: out is cleared, each element that the operator adds
is added once and in order, and each sum is scaled or divided.

An addition is known by the element that it adds: in a gradient by the element of grad, in a bag by the place
of its index and the element of out.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace

import islpy as isl
import z3

from . import bit_vectors as bits
from . import sets
from .bit_vectors import Expression
from .conditions import Conditions, Copy, Failure, Indices, add_elements
from .sets import EVERYTHING, NOTHING, ZERO, bind_parameters, number, parameter, project_onto, unite
from .specification import Definition
from .values import Counted, Element, Loop, Meaning, Number, Refuted, Term, Undecided, Write, conjunction, expect

DIVISOR = "a sum is divided by another number than its number of slices"


class SumConditions(Conditions):
    """The conditions on a stage of sums, which are scaled or not."""

    def __init__(self, meaning: Meaning, definition: Definition, *, is_scaled: bool):
        super().__init__(meaning, definition)
        self.adds = [_merge_adding_owners(write, meaning) for write in meaning.writes if write.adds]
        stores = [_merge_storing_owners(write, meaning) for write in meaning.writes if not write.adds]
        self.clears = [write for write in stores if isinstance(write.value, Number)]
        self.scales = [write for write in stores if isinstance(write.value, Element)]
        self.done = "divided" if definition.divisor is not None else "scaled" if is_scaled else ""
        self.is_of_bags = _is_of_bag(definition.write)
        self.what = "data" if self.is_of_bags else "grad"

    def find_violation(self) -> list[Failure]:
        """Return a violated condition; none where all hold. Raises Undecided where one cannot be decided."""
        failures = (
            self.check_memory([*self.adds, *self.clears, *self.scales])
            or self.check_guard()
            or self._check_whole("an element of out is not cleared", self.clears)
            or self._compare_sums()
        )
        if failures:
            return failures
        adding = {loop.parameter for write in self.adds for loop in write.place.loops}
        # A loop that both clears and adds must clear each element once.
        begun = [write for write in self.clears if adding & {loop.parameter for loop in write.place.loops}]
        added = [_Instances(write, self.meaning) for write in self.adds]
        return (
            self._check_once("a sum begins twice", [_make_instances(write, self.meaning) for write in begun])
            or self._check_once(f"an element of {self.what} is added twice", added)
            or self._check_order(added)
            or self._check_phases()
        )

    # The additions

    def _make_copy(self, write: Write, *, is_meant: bool = False) -> Copy:
        """Return an addition as a copy: for a bag, from data to out; for a gradient, from out to grad."""
        value = write.value
        if not isinstance(value, Element) or value.array != "data":
            raise Undecided("an added value is no element of the slices")
        mask = functools.reduce(conjunction, write.place.under, None)
        if value.mask is not None and not (_is_of_bag(write) and _is_changed_by_zero(value)):
            mask = conjunction(mask, value.mask)
        place, reverse = replace(write.place, under=()), Element("data", write.subscripts, mask)
        if _is_of_bag(write):
            return self.make_copy(replace(write, place=place, value=replace(value, mask=mask)), is_meant=is_meant)
        return self.make_copy(
            replace(write, place=place, subscripts=value.subscripts, value=reverse), is_meant=is_meant
        )

    def _compare_sums(self) -> list[Failure]:
        """Check that each element is added to the element of out that the operator adds it to."""
        target = self._make_copy(self.definition.write, is_meant=True)
        given, (*steps, larger) = [self._make_copy(write) for write in self.adds], target.form
        on_axes = Conditions(self.meaning, replace(self.definition, least=max(self.definition.least, 1)))
        for copy, write in zip(given, self.adds, strict=True):
            if copy.form != target.form:
                return self.fail(f"elements are not combined as {', '.join([*steps, larger or 'added'])}")
            reason = "an index adds where it should not, or not where it should"
            if failures := on_axes.compare_arithmetic(copy, target, reason):
                return failures
            value, under, valid = write.value, write.place.under, self.definition.valid
            if isinstance(value, Element) and value.mask is not None and _is_changed_by_zero(value):
                indices = Indices(
                    [place for place in (*value.subscripts, value.mask, *under) if isinstance(place, Term)]
                )
                truths = [*map(indices, under), z3.Not(indices(value.mask))]
                truths += [] if valid is None else [Indices([valid])(valid)]
                reason = "zero is weighed, or compared, for an index that is left out"
                if failures := self.find_case(reason, truths, indices):
                    return failures
        axes = self.meaning.axes.keys() & set(self.meaning.sizes)
        sizes = sets.intersect(*(parameter(name).ge_set(number(1)) for name in axes))
        added, elsewhere = unite(copy.relation for copy in given), f"an element of {self.what} is added elsewhere"
        lost = f"an element of {self.what} is not added where it belongs"
        return self.find_failure(lost, (target.relation - added) & sizes) or self.find_failure(
            elsewhere, (added - target.relation) & sizes
        )

    def _check_once(self, reason: str, found: "list[_Instances]") -> list[Failure]:
        """Check that no element is added, or written, twice; a failure has the reason."""
        for at, one in enumerate(found):
            for other in found[at:]:
                pairs = one.iterations & other.twin()
                if failures := self.find_failure(
                    reason, pairs & _order_lexicographically(one.loops) if one is other else pairs
                ):
                    return failures
        return []

    def _check_order(self, found: "list[_Instances]") -> list[Failure]:
        """Check that additions to one element run in the order of the elements of grad, or of the indices."""
        for one in found:
            for other in found:
                pairs = one.iterations & other.twin(*other.elements) & _order_lexicographically(one.elements)
                wrong = pairs & _list_inversions(one.write, other.write)
                if failures := self.find_failure("additions to one element may run in another order", wrong):
                    return failures
        return []

    # The phases

    def _check_whole(self, reason: str, writes: list[Write]) -> list[Failure]:
        """Check that writes reach every element of out."""
        names, box, reached = [f"e{dim}" for dim in range(len(self.definition.sizes))], self.meaning.context, NOTHING
        for name, size in zip(names, self.definition.sizes, strict=True):
            box &= sets.interval(parameter(name), ZERO, size)
        for write in writes:
            places = expect(isl.PwAff, "an element of out is cleared or scaled at an index", *write.subscripts)
            space = write.place.domain & bind_parameters(dict(zip(names, places, strict=True)))
            reached |= project_onto(space, [*names, *self.meaning.sizes])
        return self.find_failure(reason, box - reached)

    def _check_phases(self) -> list[Failure]:
        """Check that out is cleared before anything is added, and scaled or divided once after that."""
        done, scales = self.done, self.scales
        if failures := self._check_turns("an element of out is cleared behind an addition", self.clears, self.adds):
            return failures
        if not done:
            reason = "a sum is stored anew" if self.is_of_bags else "the sums are scaled by 1"
            return self.fail(reason, 1) if scales else []
        if failures := self._check_turns(f"a sum is {done} before an addition", self.adds, scales):
            return failures
        for write in scales:
            value = write.value
            assert isinstance(value, Element)
            if value.changed != done or list(map(str, value.subscripts)) != list(map(str, write.subscripts)):
                raise Undecided(f"a value that is written behind the sums is not a {done} sum")
            if failures := self._check_divisor(write, value):
                return failures
        stored = [_make_instances(write, self.meaning) for write in scales]
        return self._check_whole(f"a sum is not {done}", scales) or self._check_once(f"a sum is {done} twice", stored)

    def _check_turns(self, reason: str, firsts: list[Write], seconds: list[Write]) -> list[Failure]:
        """Check that writes run before others of the same element, or, in a gradient, of any element."""
        if any(not first.place.path < second.place.path for first in firsts for second in seconds):
            return self.fail(reason, 1)
        later = (
            [(second, _make_instances(second, self.meaning).twin()) for second in seconds] if self.is_of_bags else []
        )
        for first in firsts:
            for second, there in later:
                pairs = _make_instances(first, self.meaning).iterations & there
                if failures := self.find_failure(reason, pairs & _list_inversions(first, second)):
                    return failures
        return []

    def _check_divisor(self, write: Write, value: Element) -> list[Failure]:
        """Check that a write divides by the number of slices in a sum: the size of its bag, or its valid indices."""
        under, divisor = self.definition.write.place.under, self.definition.divisor
        if divisor is None or value.divisor is None:
            return []
        if isinstance(count := value.divisor.number, Counted):
            if not under:
                raise Undecided("a sum is divided by a count, and no index is left out")
            return self._check_count(write, count, under[0])
        for valid in under:
            indices = Indices([valid])
            if failures := self.find_case(DIVISOR, [z3.Not(indices(valid))], indices):
                return failures
        return self.find_failure(DIVISOR, count.ne_set(divisor.max(number(1))) & write.place.domain)

    def _check_count(self, write: Write, count: Counted, mask: Term) -> list[Failure]:
        """Check that a count has each valid index once, of the bag whose sum is divided."""
        if count.least != 1:
            return self.fail("the sum of an empty bag is divided by another number than 1", 1)
        own, counted, meaning = Indices([mask]), list[_Instances](), self.meaning
        valid = z3.If(own(mask), bits.constant(1), bits.constant(0))
        for domain, term in count.terms:
            indices = Indices([term])
            is_count = not z3.is_bool(term.expression) and term.expression.size() == bits.WIDE
            if not is_count or [atom.bits for atom in indices.atoms] != [atom.bits for atom in own.atoms]:
                raise Undecided("a counted index comes from something else than the operator's indices")
            reason = "an index outside is counted, or one inside is not"
            if failures := self.find_case(reason, [indices(term) != valid], indices):
                return failures
            one = replace(write, place=write.place.restrict(domain), value=Element("data", (term,)))
            loops = [name for name in sets.list_parameters(domain) if name not in meaning.wobbling]
            counted.append(_Instances(one, meaning, loops))
        needed = _Instances(replace(self.definition.write, value=Element("data", (mask,))), meaning)
        parameters = [*needed.elements, *needed.places, *meaning.sizes]
        given = unite(project_onto(each.iterations, parameters) for each in counted)
        all_ = project_onto(needed.iterations, parameters)
        all_ &= project_onto(_make_instances(write, meaning).iterations, [*needed.places, *meaning.sizes])
        return (
            self.find_failure(DIVISOR, all_ - given)
            or self.find_failure(DIVISOR, given - all_)
            or self._check_once("an index is counted twice", counted)
        )


def _is_of_bag(write: Write) -> bool:
    """Return whether an addition belongs to a bag, whose index selects the added element and not its place."""
    return isinstance(write.value, Element) and any(isinstance(place, Term) for place in write.value.subscripts)


def _is_changed_by_zero(value: Element) -> bool:
    """Return whether zero in place of an element changes a sum, as in maxima and in sums with weights or biases."""
    return bool(value.larger or any(weight is not None for _, weight in value.steps))


class _Instances:
    """The iterations of one write, as a set of `loops` (with `more` parameters), `elements`, `places` and the sizes.

    The elements are the subscripts of an added element of grad, or of an index in indices; the places are subscripts of
    out.
    """

    def __init__(self, write: Write, meaning: Meaning, more: Sequence[str] = ()):
        value, space, self.write = write.value, write.place.domain, write
        assert isinstance(value, Element)
        if _is_of_bag(write):
            atoms = Indices(place for place in value.subscripts if isinstance(place, Term)).atoms
            if [(atom.array, atom.row) for atom in atoms] != [("indices", None)]:
                raise Undecided("an added element comes from something else than one index in its place")
            space, self.elements = add_elements(space, atoms)
        else:
            sources = {f"e{dim}": place for dim, place in enumerate(value.subscripts) if isinstance(place, isl.PwAff)}
            space, self.elements = space & bind_parameters(sources), list(sources)
        targets = [place for place in write.subscripts if isinstance(place, isl.PwAff)]
        places = {f"d{dim}": place for dim, place in enumerate(targets)}
        parameters = [*(loop.parameter for loop in write.place.loops), "lane", *more, *meaning.sizes]
        self.places, apart = list(places), {*self.elements, *places, *meaning.sizes}
        self.iterations = project_onto(space & bind_parameters(places), [*self.elements, *places, *parameters])
        self.loops = [name for name in sets.list_parameters(self.iterations) if name not in apart]

    def twin(self, *apart: str) -> isl.Set:
        """Return the iterations under other names: of the loops, and of some parameters."""
        return sets.rename_parameters(self.iterations, {name: f"{name}_twin" for name in (*self.loops, *apart)})


def _make_instances(write: Write, meaning: Meaning) -> _Instances:
    """Return the iterations of a write that is known by the element of out alone."""
    return _Instances(replace(write, value=Element("data", write.subscripts)), meaning)


def _order_lexicographically(names: Sequence[str]) -> isl.Set:
    """Return where a tuple of parameters comes before its twin, in lexicographic order."""
    here, there = ", ".join(names), ", ".join(f"{name}_twin" for name in names)
    return isl.Set(f"[{here}, {there}] -> {{ : {here} << {there} }}") if names else NOTHING


def _list_inversions(one: Write, other: Write) -> isl.Set:
    """Return the pairs of iterations where the first may not run before the second."""
    wrong, same = NOTHING, EVERYTHING
    for loop, twin in zip(one.place.loops, other.place.loops, strict=False):
        if loop.parameter == twin.parameter:
            here, there = parameter(loop.parameter), parameter(f"{loop.parameter}_twin")
            wrong |= same & (here.gt_set(there) if loop.ordered else here.ne_set(there))
            same &= here.eq_set(there)
    return wrong if one.place.path < other.place.path else wrong | same


# Owners


def _merge_adding_owners(write: Write, meaning: Meaning) -> Write:
    """Return an addition without the loop over owners: the mask gives each position in [0, n) one owner.

    The owners' loop is `first` from 0 to n in steps of `part`, which is at least 1, and the mask of the addition has
    `position - first < part`, unsigned.
    """
    terms = write.place.under
    for loop in write.place.loops:
        parts = [_split_conjunction(term.expression) for term in terms]
        selecting = _list_selections(loop, write, meaning)
        rest = [[part for part in each if not any(part.eq(other) for other in selecting)] for each in parts]
        if list(map(len, rest)) != list(map(len, parts)):
            under: list[Term] = []
            for term, left, all_ in zip(terms, rest, parts, strict=True):
                atoms = {name: atom for name, atom in term.atoms.items() if atom.array}
                under += [term] if len(left) == len(all_) else [Term(z3.And(*left), atoms)] if left else []
            loops = tuple(each for each in write.place.loops if each is not loop)
            return _merge_adding_owners(
                replace(write, place=replace(write.place, loops=loops, under=tuple(under))), meaning
            )
        if loop.step is None and not any(atom.array == "" for term in terms for atom in term.atoms.values()):
            raise Refuted(f"each iteration of {loop.label} adds the same")
        if loop.step is None:
            raise Undecided(f"the step of loop {loop.label} is no number, and the mask does not select its part")
    return write


def _split_conjunction(truth: Expression) -> list[Expression]:
    """Return the conditions whose conjunction a condition is."""
    return [part for each in truth.children() for part in _split_conjunction(each)] if z3.is_and(truth) else [truth]


def _list_selections(loop: Loop, write: Write, meaning: Meaning) -> list[Expression]:
    """Return the conditions that select the positions of an owner, an iteration of a loop."""
    affine = [
        (str(atom.subscripts[0]), name)
        for term in write.place.under
        for name, atom in term.atoms.items()
        if not atom.array
    ]
    values, axes = dict(affine), [parameter(name) for name in meaning.axes]
    first, part = values.get(str(parameter(loop.parameter))), values.get(str(loop.stride))
    if first is None or loop.step is not None or sets.constant_of(loop.lower) != 0:
        return []
    offsets = [place.expression - bits.variable(first) for place in write.subscripts if isinstance(place, Term)]
    is_whole = any(str(loop.upper) == str(axis) for axis in axes) and _is_positive(loop.stride, meaning)
    return [z3.ULT(offset, bits.variable(part)) for offset in offsets] if is_whole and part is not None else []


def _merge_storing_owners(write: Write, meaning: Meaning) -> Write:
    """Return the positions that owners clear or scale as a write of one loop over all: each position has one owner.

    The owners' loop is `first` from 0 to n in steps of `part`, which is at least 1, and a loop in it goes from `first`
    to the smaller of `first + part` and n in steps of 1.
    """
    owners = next((loop for loop in write.place.loops if loop.step is None), None)
    if owners is None:
        return write
    first, domain = parameter(owners.parameter), write.place.domain
    own = next((loop for loop in write.place.loops if _is_same(loop.lower, first, domain)), None)
    end = (first + owners.stride).min(owners.upper)
    is_part = own is not None and own.step == 1 and _is_same(own.upper, end, domain)
    if own is None or not is_part or not _is_positive(owners.stride, meaning) or sets.constant_of(owners.lower) != 0:
        raise Undecided(f"the iterations of loop {owners.label} do not store to their parts alone")
    whole = replace(own, lower=owners.lower, upper=owners.upper)
    loops = tuple(whole if loop is own else loop for loop in write.place.loops if loop is not owners)
    place = replace(write.place, loops=loops, domain=sets.project_out(domain, [owners.parameter]))
    return _merge_storing_owners(replace(write, place=place), meaning)


def _is_positive(value: isl.PwAff, meaning: Meaning) -> bool:
    return (meaning.context & value.lt_set(number(1))).is_empty()


def _is_same(one: isl.PwAff, other: isl.PwAff, domain: isl.Set) -> bool:
    """Return whether two numbers are the same in all iterations of a domain."""
    return domain.is_subset(one.eq_set(other))
