"""Writes as relations from an element of out to the element of data and the indices that it comes from."""

from collections.abc import Iterable
from dataclasses import dataclass

import islpy as isl
import z3

from .relations import bit_vectors as bits
from .relations.integer_sets import equal_tuple, everything, number, only, parameter, within, without
from .relations.meaning import Meaning, Write
from .relations.values import Atom, Element, Expression, Row, Term, Undecided


@dataclass(frozen=True)
class Copy:
    """A write in a form that two of them can be compared in.

    Attributes:
        relation: the set of (element of out, affine subscripts of data, elements of indices), by the parameters
            `e0`, ..., `d0`, ... and `a0_0`, ....
        positions: the other subscripts of data by their dimension, as bit-vectors of `index0`, ...; and behind those
            of data what the element is multiplied by, or added to, on the way.
        form: what becomes of the element, and by which comparison it is the larger one.
        mask: where it is not zero, as a truth of the same.
        widths: bits of each index.
        arrays: where each index is read from.
        write: the write itself.
        whole: the relation with the loops that it was projected from, and `names` the parameters of the relation.
    """

    relation: isl.Set
    positions: tuple[tuple[int, Expression], ...]
    mask: Expression
    widths: tuple[int, ...]
    arrays: tuple[str, ...]
    write: Write
    whole: isl.Set
    names: tuple[str, ...]
    form: tuple[str, ...]

    @property
    def indices(self) -> list[Expression]:
        """The variables of the indices."""
        return [bits.variable(f"index{place}", width) for place, width in enumerate(self.widths)]


def in_order(terms: list[Term]) -> dict[str, Atom]:
    """Return the atoms of some terms, in the order in which they come first."""
    found: dict[str, Atom] = {}
    for term in terms:
        found |= {name: atom for name, atom in term.atoms.items() if name not in found}
    return found


def with_names(expression: Expression, atoms: dict[str, Atom]) -> Expression:
    """Return an expression in which the indices are called `index0`, `index1`, ..."""
    pairs = [
        (bits.variable(name, atom.bits), bits.variable(f"index{place}", atom.bits))
        for place, (name, atom) in enumerate(atoms.items())
    ]
    return z3.substitute(expression, *pairs)


def visible(meaning: Meaning) -> list[str]:
    """Return the parameters that no projection drops: the sizes, and what is not known of addresses."""
    return [*meaning.sizes, *meaning.wobbling]


def copy_of(write: Write, meaning: Meaning) -> Copy:
    """Return a write of an element in comparable form; raises Undecided where it writes something else."""
    value = write.value
    if not isinstance(value, Element) or value.array != "data":
        raise Undecided("what is written to out is no element of data")
    if any(isinstance(place, Term) for place in write.subscripts):
        raise Undecided("a subscript of out is an index")
    terms = [place for place in value.subscripts if isinstance(place, Term)]
    mask = [] if value.mask is None else [value.mask]
    weights = [step.weight for step in value.steps if step.weight is not None]
    atoms = in_order([*terms, *mask, *write.under])
    own = [*atoms.values(), *(atom for weight in weights for atom in weight.atoms.values())]
    if len(own) != len(atoms) + len(weights):
        raise Undecided("a weight is computed from several indices")
    held, names = write.domain, [f"e{place}" for place in range(len(write.subscripts))]
    held = held.intersect(equal_tuple(names, [place for place in write.subscripts if isinstance(place, isl.PwAff)]))
    for dim, place in enumerate(value.subscripts):
        if isinstance(place, isl.PwAff):
            names.append(f"d{dim}")
            held = held.intersect(equal_tuple(names[-1:], [place]))
    for number_, atom in enumerate(own):
        group = [f"a{number_}_{place}" for place in range(len(atom.subscripts))]
        held = held.intersect(equal_tuple(group, atom.subscripts)).intersect(atom.among)
        names += group
    positions = tuple(
        (dim, with_names(place.expression, atoms))
        for dim, place in enumerate(value.subscripts)
        if isinstance(place, Term)
    )
    for place, weight in enumerate(weights):
        (name,), index = weight.atoms, bits.variable(f"index{len(atoms) + place}", own[len(atoms) + place].bits)
        bits_of = z3.substitute(weight.expression, (bits.variable(name, index.size()), index))
        positions += ((len(value.subscripts) + place, bits_of),)
    if write.under:
        raise Undecided("whether an element is written depends on an index")
    if value.first is not None:
        one = parameter("first").eq_set(number(1))
        zero = parameter("first").eq_set(number(0))
        held = held.intersect(value.first.intersect(one).union(value.first.complement().intersect(zero)))
        names.append("first")
    truth = z3.And(*(with_names(term.expression, atoms) for term in mask)) if mask else z3.BoolVal(True)
    relation = only(held, [*names, *visible(meaning)])
    widths, arrays = tuple(atom.bits for atom in own), tuple(atom.array for atom in own)
    form = (*(step.name for step in value.steps), value.larger)
    return Copy(relation, positions, truth, widths, arrays, write, held, tuple(names), form)


def elements_of(domain: isl.Set, atoms: list[Atom], meaning: Meaning, here: tuple[str, ...] = ()) -> isl.Set:
    """Return the elements that indices are read from, together, in a domain; with the iterations of loops `here`."""
    if any(atom.row for atom in atoms):
        raise Undecided("an index is read from a view as one dimension, elsewhere than where it is checked")
    held, names = domain, []
    for number_, atom in enumerate(atoms):
        group = [f"a{number_}_{place}" for place in range(len(atom.subscripts))]
        held = held.intersect(equal_tuple(group, atom.subscripts)).intersect(atom.among)
        names += group
    return only(held, [*names, *here, *visible(meaning)])


def checked_elements(
    reads: Iterable[tuple[isl.Set, list[Atom]]], meaning: Meaning, here: tuple[str, ...] = ()
) -> isl.Set:
    """Return elements that indices are read from for certain, by all reads together, each as of `elements_of`.

    Of an array that is read as one dimension these are all elements where every place of it is read, else none.
    """
    found, place = everything().complement(), parameter("place")
    rows: dict[str, tuple[Row, isl.Set]] = {}
    for domain, (atom, *others) in reads:
        if atom.row is None or others:
            found = found.union(elements_of(domain, [atom, *others], meaning, here))
            continue
        held = domain.intersect(place.eq_set(atom.subscripts[0])).intersect(atom.among)
        read = only(held, ["place", *here, *visible(meaning)])
        _, before = rows.get(atom.array, (atom.row, everything().complement()))
        rows[atom.array] = atom.row, before.union(read)
    for row, read in rows.values():
        missed = within(place, number(0), row.length).subtract(read).intersect(meaning.context)
        whole = without(missed, ["place"]).complement().intersect(meaning.context)
        for dim, size in enumerate(row.sizes):
            whole = whole.intersect(within(parameter(f"a0_{dim}"), number(0), size))
        found = found.union(whole)
    return found


def possible(bad: isl.Set, meaning: Meaning) -> isl.Set:
    """Return where sizes that are products are that for certain: those with one factor that is not 1.

    Raises:
        Undecided: there are none, so whether the set is empty depends on products.
    """
    for name, factors in meaning.products.items():
        real = isl.Set("{ : }").complement()
        for size in factors:
            ones = parameter(name).eq_set(size)
            for other in factors:
                ones = ones if other is size else ones.intersect(other.eq_set(number(1)))
            real = real.union(ones)
        bad = bad.intersect(real)
    if meaning.products and bad.is_empty():
        raise Undecided("what holds depends on a product of sizes")
    return bad
