"""The conditions on a stage, each decided for all sizes: its writes copy what the operator says, inside of the arrays.

A write is a relation from an element of out to the element of data and the indices that it comes from: a set of the
parameters `e0`, ... (the subscripts of out), `d0`, ... (the affine ones of data) and `a0_0`, ... (of the first index).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import islpy as isl
import z3

from . import bit_vectors as bits
from .bit_vectors import Expression
from .sets import (
    NOTHING,
    PARAMETER,
    ZERO,
    constant_of,
    equal,
    names_of,
    number,
    only,
    parameter,
    renamed,
    smallest_sample,
    union,
    within,
    without,
)
from .specification import Wanted
from .values import Access, Atom, Element, Guard, Loop, Meaning, Row, Term, Undecided, Write, affine_of

# The most constant indices that are evaluated one by one.
MAX_CONSTANTS = 4096
# An index that is outside of the small axes of examples, in every type.
FAR_OUTSIDE = 100


@dataclass(frozen=True)
class Failure:
    """A condition that does not hold, with the smallest case in which it does not.

    Attributes:
        reason: what is wrong.
        sizes: of the arrays' dimensions, by the parameter of each.
        indices: values that the indices take there; empty where any will do.
    """

    reason: str
    sizes: dict[str, int] = field(default_factory=dict)
    indices: tuple[int, ...] = ()


class Indices:
    """The indices that some terms read, in the order in which they come first, as the variables `index0`, ...

    The operator's own indices are called `meant0`, ... where they are constants, as a pass may make positions of them.
    """

    def __init__(self, terms: Iterable[Term | None], wanted: Wanted | None = None):
        self.atoms: dict[str, Atom] = {}
        for term in terms:
            self.atoms |= (
                {} if term is None else {name: atom for name, atom in term.atoms.items() if name not in self.atoms}
            )
        hint = "index" if wanted is None or wanted.constants is None else "meant"
        self.variables = [bits.variable(f"{hint}{at}", atom.bits) for at, atom in enumerate(self.atoms.values())]

    def __call__(self, term: Term) -> Expression:
        """Return a term in these variables."""
        own = [bits.variable(name, atom.bits) for name, atom in self.atoms.items()]
        return z3.substitute(term.expression, *zip(own, self.variables, strict=True))


def failure_at(reason: str, bad: isl.Set, meaning: Meaning) -> list[Failure]:
    """Return a failure with the smallest sizes of a set that should be empty; none where it is."""
    bad &= meaning.context
    if bad.is_empty():
        return []
    bad = _possible(bad, meaning)
    for name in meaning.sizes:
        filled = bad & parameter(name).ge_set(number(1))
        bad = bad if filled.is_empty() else filled
    point = smallest_sample(bad, meaning.sizes)
    return [Failure(reason, {name: point.get(name, 1) for name in meaning.sizes})]


def _possible(bad: isl.Set, meaning: Meaning) -> isl.Set:
    """Return where sizes that are products are that for certain: those with one factor that is not 1.

    Raises:
        Undecided: there are none, so whether the set is empty depends on products.
    """
    for name, factors in meaning.products.items():
        real = NOTHING
        for size in factors:
            ones = parameter(name).eq_set(size)
            for other in factors:
                ones = ones if other is size else ones & other.eq_set(number(1))
            real |= ones
        bad &= real
    if bad.is_empty():
        raise Undecided("what holds depends on a product of sizes")
    return bad


def everywhere(reason: str, meaning: Meaning, size: int = 2) -> list[Failure]:
    """Return a failure that any sizes show."""
    return [Failure(reason, dict.fromkeys(meaning.sizes, size))]


Case = list[tuple[Expression, Expression]]


def find_case(
    reason: str,
    truths: list[Expression],
    meaning: Meaning,
    wanted: Wanted,
    indices: Sequence[Expression] = (),
    cases: Iterable[Case] | None = None,
) -> list[Failure]:
    """Return a failure with values that make all truths hold; none where there are none.

    Args:
        indices: the variables of the indices.
        cases: the values of constant indices, each tried by itself; None where the indices are an argument.

    Raises:
        Undecided: z3 cannot tell.
    """
    axes = [name for name in meaning.axes if name in meaning.sizes]
    for name in axes:
        floor, most = meaning.axes[name]
        truths = [*truths, bits.variable(name) >= max(floor, wanted.least), bits.variable(name) <= most]
    small = [bits.variable(name) for name in axes]
    values, said = bits.find(truths, [*indices, *small]) if cases is None else None, reason
    for case in cases or ():
        truth = z3.simplify(bits.real(z3.substitute(z3.And(*truths), *case)))
        values = None if z3.is_false(truth) else bits.find([truth], small)
        if values is not None:
            meant = ", ".join(str(value.as_signed_long()) for name, value in case if str(name).startswith("meant"))
            said, indices = reason.replace("an index", f"constant index {meant}", 1), ()
            break
    if values is None:
        return []
    if isinstance(values, bool):
        raise Undecided(f"whether {reason}: z3 cannot tell within {bits.MAX_STEPS:_} steps")
    sizes = dict.fromkeys(meaning.sizes, 1) | {name: values.get(name, 1) for name in axes}
    return [Failure(said, sizes, tuple(values.get(str(index), 0) for index in indices))]


def constant_cases(elements: isl.Set, indices: Indices, meaning: Meaning, wanted: Wanted) -> Iterator[Case] | None:
    """Return the values of the constant indices at some elements `a0_0`, ...; None where the indices are an argument.

    Raises:
        Undecided: they are too many, or their place is not known.
    """
    if wanted.constants is None:
        return None
    own, names = meaning.constants or wanted.constants, [f"a{at}_0" for at in range(len(indices.atoms))]
    held, points = only(elements, names), set[tuple[int, ...]]()
    order = names_of(held)
    if set(order) != set(names):
        raise Undecided("an index is read from no known place")
    space = held.move_dims(isl.dim_type.set, 0, PARAMETER, 0, len(order))
    if not space.is_empty():
        spans = [(space.dim_max_val(dim) - space.dim_min_val(dim)).to_python() for dim in range(len(order))]
        if max(spans, default=0) >= MAX_CONSTANTS:
            raise Undecided(f"there are more than {MAX_CONSTANTS} constant indices")

    def add(point: isl.Point) -> None:
        found = [point.get_coordinate_val(isl.dim_type.set, dim).to_python() for dim in range(len(order))]
        points.add(tuple(found[order.index(name)] for name in names))

    space.foreach_point(add)
    widths = [atom.bits for atom in indices.atoms.values()]
    lists = {tuple((own[place], wanted.constants[place]) for place in places) for places in sorted(points)}
    return (list(_pairs(widths, values)) for values in sorted(lists))


def _pairs(widths: Sequence[int], values: Sequence[tuple[int, int]]) -> Iterator[tuple[Expression, Expression]]:
    """Yield the variables of constant indices, as the code and as the operator reads them, each with its value."""
    for at, (width, (own, meant)) in enumerate(zip(widths, values, strict=True)):
        yield bits.variable(f"index{at}", width), bits.constant(own, width)
        yield bits.variable(f"meant{at}"), bits.constant(meant)


# Elements of indices


def visible(meaning: Meaning) -> list[str]:
    """Return the parameters that no projection drops: the sizes, and the values that an address decides."""
    return [*meaning.sizes, *meaning.wobbling]


def with_elements(domain: isl.Set, atoms: Iterable[Atom]) -> tuple[isl.Set, list[str]]:
    """Return a domain with the elements `a0_0`, ... that indices are read from, and the names of their subscripts."""
    names: list[str] = []
    for at, atom in enumerate(atoms):
        group = [f"a{at}_{dim}" for dim in range(len(atom.subscripts))]
        domain, names = domain & equal(group, atom.subscripts) & atom.among, names + group
    return domain, names


def elements_of(domain: isl.Set, atoms: Iterable[Atom], meaning: Meaning, loops: Sequence[Loop] = ()) -> isl.Set:
    """Return the elements that indices are read from, together, in a domain; with the iterations of loops."""
    atoms = list(atoms)
    if any(atom.row for atom in atoms):
        raise Undecided("an index is read from a view as one dimension, elsewhere than where it is checked")
    held, names = with_elements(domain, atoms)
    return only(held, [*names, *(loop.parameter for loop in loops), *visible(meaning)])


def checked_elements(
    reads: Iterable[tuple[isl.Set, list[Atom]]], meaning: Meaning, loops: Sequence[Loop] = ()
) -> isl.Set:
    """Return elements that indices are read from for certain, by all reads together, each as of `elements_of`.

    Of an array that is read as one dimension these are all elements where every place of it is read, else none.
    """
    found, place = NOTHING, parameter("place")
    rows: dict[str, tuple[Row, isl.Set]] = {}
    for domain, (atom, *others) in reads:
        if atom.row is None or others:
            found |= elements_of(domain, [atom, *others], meaning, loops)
            continue
        held = domain & place.eq_set(atom.subscripts[0]) & atom.among
        read = only(held, ["place", *(loop.parameter for loop in loops), *visible(meaning)])
        rows[atom.array] = atom.row, read | rows.get(atom.array, (atom.row, NOTHING))[1]
    for row, read in rows.values():
        missed = (within(place, ZERO, row.length) - read) & meaning.context
        whole = without(missed, ["place"]).complement() & meaning.context
        for dim, size in enumerate(row.sizes):
            whole &= within(parameter(f"a0_{dim}"), ZERO, size)
        found |= whole
    return found


# Copies


@dataclass(frozen=True)
class Copy:
    """A write in a form that two of them can be compared in.

    Attributes:
        write: the write itself.
        names: the parameters of the relation, and `whole` the relation with the loops around the write.
        relation: of `names` and the sizes alone.
        indices: of the positions and the mask; and behind them those that weights are read from.
        positions: the other subscripts of data by their dimension, and behind those of data the weights.
        mask: where the element is not zero.
        form: the names of the steps that are applied to the element, and the comparison by which it is the larger one.
    """

    write: Write
    names: tuple[str, ...]
    whole: isl.Set
    relation: isl.Set
    indices: Indices
    positions: dict[int, Expression]
    mask: Expression
    form: tuple[str, ...]

    @property
    def atoms(self) -> list[Atom]:
        """The indices as they are read."""
        return list(self.indices.atoms.values())


def copy_of(write: Write, meaning: Meaning, wanted: Wanted | None = None) -> Copy:
    """Return a write of an element in comparable form; raises Undecided where it writes something else.

    With `wanted` it is the operator's own.
    """
    value, under = write.value, write.place.under
    if not isinstance(value, Element) or value.array != "data":
        raise Undecided("what is written to out is no element of data")
    if under:
        raise Undecided("whether an element is written depends on an index")
    places = affine_of(write.subscripts, "a subscript of out is an index")
    terms = {dim: place for dim, place in enumerate(value.subscripts) if isinstance(place, Term)}
    weights = [weight for _, weight in value.steps if weight is not None]
    indices = Indices([*terms.values(), value.mask, *weights], wanted)
    terms |= {len(value.subscripts) + at: weight for at, weight in enumerate(weights)}
    names = [f"e{dim}" for dim in range(len(places))]
    held = write.place.domain & equal(names, places)
    for dim, place in enumerate(value.subscripts):
        if isinstance(place, isl.PwAff):
            names.append(f"d{dim}")
            held &= equal(names[-1:], [place])
    held, elements = with_elements(held, indices.atoms.values())
    names += elements
    if value.first is not None:
        first = parameter("first")
        held &= (value.first & first.eq_set(number(1))) | (value.first.complement() & first.eq_set(ZERO))
        names.append("first")
    mask = z3.BoolVal(True) if value.mask is None else indices(value.mask)
    relation = only(held, [*names, *visible(meaning)])
    positions = {dim: indices(term) for dim, term in terms.items()}
    form = (*(name for name, _ in value.steps), value.larger)
    return Copy(write, tuple(names), held, relation, indices, positions, mask, form)


def same_arithmetic(copy: Copy, target: Copy, meaning: Meaning, wanted: Wanted, reason: str) -> list[Failure]:
    """Check that two writes are done for the same indices, else it is for that reason, and at the same positions."""
    widths = [[(atom.array, atom.bits) for atom in each.atoms] for each in (copy, target)]
    if copy.positions.keys() != target.positions.keys():
        if wanted.write.adds:
            raise Undecided("positions are computed from other things than the operator's indices")
        return everywhere("an index is not used where the operator uses it", meaning)
    if widths[0] != widths[1] and (wanted.constants is None or len(widths[0]) != len(widths[1])):
        raise Undecided("positions are computed from other things than the operator's indices")
    valid = [] if wanted.valid is None else [Indices([wanted.valid], wanted)(wanted.valid)]
    moved = [copy.positions[dim] != position for dim, position in target.positions.items()]
    for why, wrong in (
        (reason, copy.mask != target.mask),
        ("an index leads to another position", z3.And(target.mask, z3.Or(z3.BoolVal(False), *moved))),
    ):
        cases = constant_cases(target.relation, copy.indices, meaning, wanted)
        if failures := find_case(why, [*valid, wrong], meaning, wanted, copy.indices.variables, cases):
            return failures
    return []


def failures_of(meaning: Meaning, wanted: Wanted) -> list[Failure]:
    """Return the violated conditions of a stage of copies; raises Undecided where something cannot be decided."""
    return (
        parallel_disjoint(meaning, meaning.writes)
        or accesses_inside(meaning, wanted)
        or streams_aligned(meaning)
        or guard_complete(meaning, wanted)
        or _same_copies(meaning, wanted)
    )


def _same_copies(meaning: Meaning, wanted: Wanted) -> list[Failure]:
    """Check that the writes copy, together, what is wanted: each element of out, from where it comes."""
    target, given = copy_of(wanted.write, meaning, wanted), [copy_of(write, meaning) for write in meaning.writes]
    zeros = "an index gives zeros where it should not, or none where it should"
    for copy in given:
        if copy.form != target.form:
            return everywhere("what is written to out was computed from an element", meaning)
        if failures := same_arithmetic(copy, target, meaning, wanted, zeros):
            return failures
    if not all(_for_any_address(name, given, meaning) for name in meaning.wobbling):
        raise Undecided("which iteration writes an element depends on an address")
    copied = without(union(copy.relation for copy in given), meaning.wobbling)
    elements = [*(f"e{dim}" for dim in range(len(wanted.write.subscripts))), *meaning.sizes]
    written, all_elements = only(copied, elements), only(target.relation, elements)
    elsewhere = "an element of out comes from another element of data or another index"
    return (
        failure_at("an element of out is not written", all_elements - written, meaning)
        or failure_at("an element outside of out is written", written - all_elements, meaning)
        or failure_at(elsewhere, copied - target.relation, meaning)
        or failure_at(elsewhere, target.relation - copied, meaning)
    )


def _for_any_address(name: str, copies: list[Copy], meaning: Meaning) -> bool:
    """Return whether what an iteration writes, by all its writes together, is the same whatever an address is.

    `name` is a number that an address decides, in the iterations of the loops around it.
    """
    loops, allowed = meaning.wobbling[name]
    around = {loop.parameter for loop in loops}
    written = union(
        only(copy.whole, [*copy.names, *around, *visible(meaning)])
        for copy in copies
        if around <= {loop.parameter for loop in copy.write.place.loops}
    )
    return (without(written, [name]) & allowed).is_subset(written)


# Memory


def pairs_of(space: isl.Set, own: Iterable[str]) -> isl.Set:
    """Return a set with its twin, which has other names for some parameters."""
    return space & renamed(space, {name: f"{name}_twin" for name in own})


def parallel_disjoint(meaning: Meaning, writes: Sequence[Write]) -> list[Failure]:
    """Check that no two iterations of a parallel loop write the same element."""
    if meaning.problems:
        return everywhere(meaning.problems[0], meaning)
    groups = [(writes, "write one element")]
    for memory in {store.number for store in meaning.staged}:
        groups.append(([store for store in meaning.staged if store.number == memory], "stage one position"))
    for group, what in groups:
        parallel = {loop.parameter: loop for write in group for loop in write.place.loops if loop.parallel}
        for name, loop in parallel.items():
            inside = [write for write in group if loop in write.place.loops]
            outer = inside[0].place.loops[: inside[0].place.loops.index(loop)]
            kept = [name, *(each.parameter for each in outer), *meaning.sizes]
            touched = union(_touched(write, kept) for write in inside)
            bad = pairs_of(touched, [name]) & parameter(f"{name}_twin").lt_set(parameter(name))
            if failures := failure_at(f"two iterations of the parallel loop {loop.label} {what}", bad, meaning):
                return failures
    return []


def _touched(write: Write, names: list[str]) -> isl.Set:
    """Return the elements `e0`, ... that a write reaches for certain, with other parameters."""
    places = {f"e{dim}": place for dim, place in enumerate(write.subscripts) if isinstance(place, isl.PwAff)}
    return only(write.place.domain & equal(list(places), list(places.values())), [*names, *places])


def accesses_inside(meaning: Meaning, wanted: Wanted) -> list[Failure]:
    """Check that every access is inside its array."""
    for access in meaning.accesses:
        for dim, (place, size) in enumerate(zip(access.subscripts, access.sizes, strict=True)):
            reason = f"{access.op.name} reaches outside of {access.array} in dimension {dim}"
            if isinstance(place, Term):
                failures = _position_inside(reason, access, dim, place, meaning, wanted)
            else:
                failures = failure_at(reason, access.place.domain - within(place, ZERO, size), meaning)
            if failures:
                return failures
    return []


def _position_inside(
    reason: str, access: Access, dim: int, place: Term, meaning: Meaning, wanted: Wanted
) -> list[Failure]:
    size, under, domain = access.sizes[dim], access.place.under, access.place.domain
    indices = Indices([place, *under])
    length = constant_of(size)
    extent = bits.constant(length) if length is not None else bits.variable(names_of(size)[0])
    truths = [*map(indices, under), *_known_valid(access, dim, indices, meaning, wanted)]
    truths.append(z3.Not(z3.ULT(indices(place), extent)))
    cases = None
    if wanted.constants is not None:
        cases = constant_cases(elements_of(domain, indices.atoms.values(), meaning), indices, meaning, wanted)
    return find_case(reason, truths, meaning, wanted, indices.variables, cases)


def _known_valid(access: Access, dim: int, indices: Indices, meaning: Meaning, wanted: Wanted) -> list[Expression]:
    """Return that the index of a dimension is valid, where it was checked, or the caller promises it."""
    guard = access.place.guard
    is_late = wanted.is_checked and (meaning.raises or (meaning.guard is not None and guard is None))
    if access.array != wanted.table or dim not in wanted.valid_along or is_late:
        return []
    promised = wanted.valid_along[dim]
    if wanted.constants is not None:
        return [Indices([promised], wanted)(promised)] if len(indices.atoms) == 1 else []
    ((name, target),) = promised.atoms.items()
    held, loops = elements_of(wanted.write.place.domain, [target], meaning), ()
    if wanted.is_checked and guard is not None and guard.loops:
        loops, which = guard.loops, list(wanted.valid_along).index(dim)
        held = _checked_along(guard, len(wanted.valid_along), which, meaning)
    return [
        z3.substitute(promised.expression, (bits.variable(name, atom.bits), variable))
        for variable, atom in zip(indices.variables, indices.atoms.values(), strict=True)
        if atom.bits == target.bits and elements_of(access.place.domain, [atom], meaning, loops).is_subset(held)
    ]


def _checked_along(guard: Guard, components: int, which: int, meaning: Meaning) -> isl.Set:
    """Return the iterations of the loops around a branch, each with the indices of an axis that it has checked."""
    counted = [(domain, list(Indices([term]).atoms.values())) for domain, term in guard.count.terms]
    reads = ((domain, [atoms[which]]) for domain, atoms in counted if len(atoms) == components)
    return checked_elements(reads, meaning, guard.loops)


def streams_aligned(meaning: Meaning) -> list[Failure]:
    """Check that non-temporal stores of vectors are aligned, by the remainder of an address that the code computes.

    The address of a store is that of another element, whose remainder the code knows, and a number of bytes behind it
    that is affine.

    Raises:
        Undecided: the code knows a remainder, and how far the store is from there is not affine.
    """
    for domain, address, alignment in meaning.streams:
        if domain.is_empty():
            continue
        reason, here = (
            f"a non-temporal store is at an address that is no multiple of {alignment} bytes",
            names_of(domain),
        )
        known = [
            (name, (address - other).affine())
            for name, (other, divisor) in meaning.remainders.items()
            if name in here and divisor % alignment == 0
        ]
        if not known:
            return failure_at(reason, domain, meaning)
        wrong = [
            domain & meaning.context & ((parameter(name) + distance) % alignment).ne_set(ZERO)
            for name, distance in known
            if distance is not None
        ]
        if any(bad.is_empty() for bad in wrong):
            continue
        if not wrong or (meaning.wobbling.keys() - meaning.remainders.keys()) & set(here):
            raise Undecided("the distance of a non-temporal store from a known address is not affine")
        return failure_at(reason, wrong[0], meaning)
    return []


# The check of indices


def guard_complete(meaning: Meaning, wanted: Wanted) -> list[Failure]:
    """Check that every index is checked where it must be: before anything is written, unless out is fresh."""
    if not wanted.is_checked or meaning.raises:
        return []
    assert wanted.valid is not None
    meant = Indices([wanted.valid], wanted)
    valid, atoms, guard = meant(wanted.valid), list(meant.atoms.values()), meaning.guard
    needed = elements_of(wanted.write.place.domain, atoms, meaning)
    if guard is None:
        cases = constant_cases(needed, meant, meaning, wanted)
        return find_case("an index outside is not found", [z3.Not(valid)], meaning, wanted, meant.variables, cases)
    if not meaning.has_fresh_out and (guard.loops or any(write.place.guard is None for write in meaning.writes)):
        return everywhere("an element is written before all indices are checked", meaning, 1)
    if meaning.returned is None:
        return everywhere("the number of indices outside is not returned", meaning, 1)
    returned = meaning.returned.terms
    for domain, term in (*returned, *(guard.count.terms if meaning.returned != guard.count else ())):
        own, count = Indices([term]), term.expression
        if len(own.atoms) != len(atoms):
            raise Undecided("the check looks at some components of a tuple only")
        is_outside = own(
            term if z3.is_bool(count) else replace(term, expression=count != bits.constant(0, count.size()))
        )
        cases = None
        if wanted.constants is not None:
            cases = constant_cases(elements_of(domain, own.atoms.values(), meaning), own, meaning, wanted)
        reason = "an index outside is not found, or one inside is counted"
        if failures := find_case(reason, [is_outside == valid], meaning, wanted, own.variables, cases):
            return failures
    checked = checked_elements(((domain, list(Indices([term]).atoms.values())) for domain, term in returned), meaning)
    failures = failure_at("an index is not checked", needed - checked, meaning)
    return [replace(failure, indices=(FAR_OUTSIDE,)) for failure in failures]
