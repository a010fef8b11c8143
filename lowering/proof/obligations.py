"""What must hold of every stage, each decided for all sizes: a list of failures, empty where the stage is proved."""

from dataclasses import dataclass, field, replace

import islpy as isl
import z3

from ...ir.errors import InternalError
from .constants import places_in, with_values
from .copies import Copy, checked_elements, copy_of, elements_of, in_order, possible, visible, with_names
from .relations import bit_vectors as bits
from .relations.alignment import misaligned
from .relations.integer_sets import (
    constant_of,
    equal_tuple,
    names_of,
    number,
    only,
    outside,
    parameter,
    renamed,
    smallest_sample,
    without,
)
from .relations.meaning import Access, Guard, Loop, Meaning, Write
from .relations.values import Atom, Expression, Term, Undecided
from .specification import Wanted

# An index that is outside of the small axes of examples, in every type.
FAR_OUTSIDE = 100


@dataclass(frozen=True)
class Failure:
    """Something that does not hold, with the smallest case in which it does not.

    Attributes:
        reason: what is wrong.
        sizes: of the arrays' dimensions, by the parameter of each.
        indices: values that the indices take there; empty where any will do.
        element: of out, where one is at fault.
    """

    reason: str
    sizes: dict[str, int] = field(default_factory=dict)
    indices: tuple[int, ...] = ()
    element: tuple[int, ...] = ()


def failure_at(reason: str, bad: isl.Set, meaning: Meaning) -> Failure:
    """Return a failure with the smallest sizes of a set that should be empty."""
    bad = possible(bad.intersect(meaning.context), meaning)
    for name in meaning.sizes:
        filled = bad.intersect(parameter(name).ge_set(number(1)))
        bad = bad if filled.is_empty() else filled
    point = smallest_sample(bad, meaning.sizes)
    if point is None:
        raise InternalError("a set is empty and is not")
    element = [(name, value) for name, value in point.items() if name[0] == "e" and name[1:].isdigit()]
    places = tuple(value for _, value in sorted(element, key=lambda pair: int(pair[0][1:])))
    return Failure(reason, {name: point.get(name, 1) for name in meaning.sizes}, (), places)


def assumptions(meaning: Meaning, least: int) -> list[Expression]:
    """Return what holds of the sizes of axes as bit-vectors."""
    found: list[Expression] = []
    for name, (floor, most) in meaning.axes.items():
        if name in meaning.sizes:
            size = bits.variable(name)
            found += [size >= max(floor, least), size <= most]
    return found


def find_case(reason: str, truths: list[Expression], meaning: Meaning, indices: list[Expression]) -> Failure | None:
    """Return a failure with values that make all truths hold, or None where there are none; raises Undecided."""
    sizes = [bits.variable(name) for name in meaning.axes if name in meaning.sizes]
    values = bits.find(truths, [*indices, *sizes])
    if values is None:
        return None
    if isinstance(values, bool):
        raise Undecided(f"whether {reason}: z3 cannot tell within {bits.MOST_STEPS:_} steps")
    given = tuple(values.get(str(index), 0) for index in indices)
    axis = {name: values.get(name, 1) for name in meaning.axes if name in meaning.sizes}
    return Failure(reason, dict.fromkeys(meaning.sizes, 1) | axis, given)


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


def streams_aligned(meaning: Meaning) -> list[Failure]:
    """Check that non-temporal stores of vectors are aligned."""
    found = misaligned(meaning)
    if found is None:
        return []
    alignment, bad = found
    return [failure_at(f"a non-temporal store is at an address that is no multiple of {alignment} bytes", bad, meaning)]


def accesses_inside(meaning: Meaning, wanted: Wanted | None) -> list[Failure]:
    """Check that every access is inside its array."""
    for access in meaning.accesses:
        for dim, (place, size) in enumerate(zip(access.subscripts, access.sizes, strict=True)):
            words = f"{access.op.name} reaches outside of {access.array} in dimension {dim}"
            if isinstance(place, isl.PwAff):
                bad = access.domain.intersect(outside(place, size)).intersect(meaning.context)
                if not bad.is_empty():
                    return [failure_at(words, bad, meaning)]
                continue
            failure = _position_inside(words, access, dim, meaning, wanted)
            if failure is not None:
                return [failure]
    return []


def _position_inside(reason: str, access: Access, dim: int, meaning: Meaning, wanted: Wanted | None) -> Failure | None:
    place, size = access.subscripts[dim], access.sizes[dim]
    assert isinstance(place, Term)
    atoms = in_order([place, *access.under])
    if meaning.constants is not None:
        return _constants_inside(reason, access, dim, meaning, wanted)
    known = assumptions(meaning, 0 if wanted is None else wanted.least)
    known += [with_names(term.expression, atoms) for term in access.under]
    indices = [bits.variable(f"index{number_}", atom.bits) for number_, atom in enumerate(atoms.values())]
    if wanted is not None:
        known += _known_valid(access, dim, atoms, meaning, wanted)
    length = bits.constant(constant_of(size) or 0, 64)
    if constant_of(size) is None:
        (name,) = names_of(size)
        length = bits.variable(name)
    position = with_names(place.expression, atoms)
    return find_case(reason, [*known, z3.Not(z3.ULT(position, length))], meaning, indices)


def _constants_inside(reason: str, access: Access, dim: int, meaning: Meaning, wanted: Wanted | None) -> Failure | None:
    """Check the same where the indices are constants: for the values of those that the access reads."""
    place, size = access.subscripts[dim], access.sizes[dim]
    assert isinstance(place, Term) and meaning.constants is not None
    atoms = in_order([place, *access.under])
    length = (
        bits.variable(names_of(size)[0]) if constant_of(size) is None else bits.constant(constant_of(size) or 0, 64)
    )
    outside_ = z3.Not(z3.ULT(with_names(place.expression, atoms), length))
    wrong = z3.And(outside_, *(with_names(term.expression, atoms) for term in access.under))
    promised = None if wanted is None or access.array != wanted.table else wanted.valid_along.get(dim)
    names, widths = [f"index{number_}" for number_ in range(len(atoms))], [atom.bits for atom in atoms.values()]
    held = elements_of(access.domain, list(atoms.values()), meaning)
    for places in places_in(held, [f"a{number_}_0" for number_ in range(len(atoms))]):
        told = with_values(wrong, names, widths, [meaning.constants[each] for each in places])
        if z3.is_false(told):
            continue
        if promised is not None and wanted is not None and wanted.constants is not None and len(places) == 1:
            value = [wanted.constants[places[0]]]
            told = z3.simplify(z3.And(told, with_values(promised.expression, [*promised.atoms], [bits.WIDE], value)))
        failure = find_case(reason, [*assumptions(meaning, 0 if wanted is None else wanted.least), told], meaning, [])
        if failure is not None:
            return failure
    return None


def _known_valid(
    access: Access, dim: int, atoms: dict[str, Atom], meaning: Meaning, wanted: Wanted
) -> list[Expression]:
    """Return that the index of a dimension is valid, where it was checked, or the caller promises it."""
    is_late = wanted.is_checked and (meaning.raises or (meaning.guard is not None and access.guard is None))
    if access.array != wanted.table or dim not in wanted.valid_along or is_late:
        return []
    promised = wanted.valid_along[dim]
    ((name, target),) = promised.atoms.items()
    held, here = elements_of(wanted.write.domain, [target], meaning), ()
    if wanted.is_checked and access.guard is not None and access.guard.loops:
        here = tuple(loop.parameter for loop in access.guard.loops)
        held = _checked_along(access.guard, len(wanted.valid_along), list(wanted.valid_along).index(dim), meaning)
    return [
        z3.substitute(
            promised.expression, (bits.variable(name, atom.bits), bits.variable(f"index{number_}", atom.bits))
        )
        for number_, atom in enumerate(atoms.values())
        if atom.bits == target.bits and elements_of(access.domain, [atom], meaning, here).is_subset(held)
    ]


def parallel_disjoint(meaning: Meaning) -> list[Failure]:
    """Check that no two iterations of a parallel loop write the same element."""
    failures = [Failure(problem, dict.fromkeys(meaning.sizes, 2)) for problem in meaning.problems]
    loops = {loop.parameter: loop for write in meaning.writes for loop in write.loops if loop.parallel}
    for loop in loops.values():
        inside = [write for write in meaning.writes if loop in write.loops]
        bad = _shared(loop, inside, meaning)
        if not bad.is_empty():
            failures.append(
                failure_at(f"two iterations of the parallel loop {loop.label} write one element", bad, meaning)
            )
    return failures[:1]


def _shared(loop: Loop, writes: list[Write], meaning: Meaning) -> isl.Set:
    """Return the elements that two iterations of a loop write, in one iteration of the loops around it."""
    outer = [each.parameter for each in writes[0].loops[: writes[0].loops.index(loop)]]
    touched = isl.Set("{ : }").complement()
    for write in writes:
        places = [(f"e{dim}", place) for dim, place in enumerate(write.subscripts) if isinstance(place, isl.PwAff)]
        held = write.domain.intersect(equal_tuple([name for name, _ in places], [place for _, place in places]))
        touched = touched.union(only(held, [loop.parameter, *outer, *(name for name, _ in places), *meaning.sizes]))
    twin = renamed(touched, {loop.parameter: "twin"})
    return touched.intersect(twin).intersect(parameter("twin").lt_set(parameter(loop.parameter)))


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
    checked = isl.Set("{ : }").complement()
    for domain, term in (*returned.terms, *(guard.count.terms if returned != guard.count else ())):
        if len(in_order([term])) != len(atoms):
            raise Undecided("the check looks at some components of a tuple only")
        check = _one_check if wanted.constants is None else _constants_check
        if (failure := check(term, valid, known, meaning, domain, wanted)) is not None:
            return [failure]
    for domain, term in returned.terms:
        checked = checked.union(checked_elements(domain, list(in_order([term]).values()), meaning))
    needed = elements_of(wanted.write.domain, list(atoms.values()), meaning)
    missed = needed.subtract(checked).intersect(meaning.context)
    if not missed.is_empty():
        return [replace(failure_at("an index is not checked", missed, meaning), indices=(FAR_OUTSIDE,))]
    return []


def _checked_along(guard: Guard, components: int, which: int, meaning: Meaning) -> isl.Set:
    """Return the iterations of the loops around a branch, each with the indices of an axis that it has checked."""
    here = tuple(loop.parameter for loop in guard.loops)
    found = isl.Set("{ : }").complement()
    for domain, term in guard.count.terms:
        atoms = list(in_order([term]).values())
        if len(atoms) == components:
            found = found.union(checked_elements(domain, [atoms[which]], meaning, here))
    return found


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


def failures_of(meaning: Meaning, wanted: Wanted | None) -> list[Failure]:
    """Return what does not hold of a stage; raises Undecided where something cannot be decided."""
    failures = parallel_disjoint(meaning) or accesses_inside(meaning, wanted) or streams_aligned(meaning)
    if failures or wanted is None:
        return failures
    return guard_complete(meaning, wanted) or same_copies(meaning, wanted)
