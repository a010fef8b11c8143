"""Every access is inside its array, and non-temporal stores of vectors are aligned."""

import islpy as isl
import z3

from ..constants import places_in, with_values
from ..copies import elements_of, in_order, with_names
from ..relations import bit_vectors as bits
from ..relations.alignment import misaligned
from ..relations.integer_sets import constant_of, names_of, outside
from ..relations.meaning import Access, Meaning
from ..relations.values import Atom, Expression, Term
from ..specification import Wanted
from .failure import Failure, assumptions, failure_at, find_case
from .index_checks import checked_along


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
        held = checked_along(access.guard, len(wanted.valid_along), list(wanted.valid_along).index(dim), meaning)
    return [
        z3.substitute(
            promised.expression, (bits.variable(name, atom.bits), bits.variable(f"index{number_}", atom.bits))
        )
        for number_, atom in enumerate(atoms.values())
        if atom.bits == target.bits and elements_of(access.domain, [atom], meaning, here).is_subset(held)
    ]
