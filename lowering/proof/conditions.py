"""The conditions on a stage, each decided for all sizes: its writes make the operator's copies, inside of the arrays.

A write is a relation from an element of out to the element of data and the indices that it comes from: a set of the
parameters `e0`, ... (the subscripts of out), `d0`, ... (the affine ones of data) and `a0_0`, ... (of the first index).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import islpy as isl
import z3

from . import bit_vectors as bits
from . import sets
from .bit_vectors import Expression
from .sets import NOTHING, ZERO, bind_parameters, interval, number, parameter, project_onto, project_out, unite
from .specification import Definition
from .values import Access, Atom, Element, Loop, Meaning, Row, Term, Undecided, Write, expect

# The most constant indices that are evaluated one by one.
MAX_CONSTANTS = 4096
# An index that is outside of the small axes of examples, in every type.
FAR_OUTSIDE = 100


@dataclass(frozen=True)
class Failure:
    """A condition that does not hold, with the smallest case in which it does not."""

    reason: str
    sizes: dict[str, int] = field(default_factory=dict)  # of the arrays' dimensions, by the parameter of each
    indices: tuple[int, ...] = ()  # values that the indices take there; empty where any will do


class Indices:
    """The indices that some terms read, in the order in which they come first, as the variables `index0`, ...

    Constant indices of the operator are called `meant0`, ... instead, since a pass may make positions of them.
    """

    def __init__(self, terms: Iterable[Term], definition: Definition | None = None):
        self.by_name: dict[str, Atom] = {}
        for term in terms:
            self.by_name |= {name: atom for name, atom in term.atoms.items() if name not in self.by_name}
        self.atoms = list(self.by_name.values())
        hint = "index" if definition is None or definition.constants is None else "meant"
        self.variables = [bits.variable(f"{hint}{at}", atom.bits) for at, atom in enumerate(self.atoms)]

    def __call__(self, term: Term) -> Expression:
        """Return a term in these variables."""
        own = [bits.variable(name, atom.bits) for name, atom in self.by_name.items()]
        return z3.substitute(term.expression, *zip(own, self.variables, strict=True))


@dataclass(frozen=True)
class Copy:
    """A write in a form in which two writes can be compared."""

    write: Write
    names: tuple[str, ...]  # the parameters of the relation
    whole: isl.Set  # the relation with the loops around the write
    relation: isl.Set  # of `names` and the sizes alone
    indices: Indices  # of the positions, the mask and the weights
    positions: dict[int, Expression]  # the other subscripts of data by their dimension, and behind them the weights
    mask: Expression  # where the element is not zero
    form: tuple[str, ...]  # the steps that are applied to the element, and the comparison by which it is the larger one


class Conditions:
    """The conditions on a stage of copies, from the meaning of the stage and the definition of the operator."""

    def __init__(self, meaning: Meaning, definition: Definition):
        self.meaning, self.definition = meaning, definition

    def find_violation(self) -> list[Failure]:
        """Return a violated condition; none where all hold. Raises Undecided where one cannot be decided."""
        return self.check_memory(self.meaning.writes) or self.check_guard() or self._compare_copies()

    # Cases in which a condition does not hold

    def fail(self, reason: str, size: int = 2) -> list[Failure]:
        """Return a failure that any sizes show."""
        return [Failure(reason, dict.fromkeys(self.meaning.sizes, size))]

    def find_failure(self, reason: str, bad: isl.Set) -> list[Failure]:
        """Return a failure with the smallest sizes of a set that should be empty; none where it is empty.

        Raises:
            Undecided: it is empty if each product of sizes has at most one factor other than 1, and perhaps otherwise.
        """
        bad &= self.meaning.context
        if bad.is_empty():
            return []
        for name, factors in self.meaning.products.items():
            ones = [factor.eq_set(number(1)) for factor in factors]
            real = [sets.intersect(*ones[:at], *ones[at + 1 :]) for at in range(len(factors))]
            bad &= unite(parameter(name).eq_set(size) & each for size, each in zip(factors, real, strict=True))
        if bad.is_empty():
            raise Undecided("a condition depends on a product of sizes")
        for name in self.meaning.sizes:
            filled = bad & parameter(name).ge_set(number(1))
            bad = bad if filled.is_empty() else filled
        point = sets.find_smallest_sample(bad, self.meaning.sizes)
        return [Failure(reason, {name: point.get(name, 1) for name in self.meaning.sizes})]

    def find_case(
        self, reason: str, truths: list[Expression], indices: Indices, elements: isl.Set | None = None
    ) -> list[Failure]:
        """Return a failure with values of indices and axes that make all truths hold; none where there are none.

        Args:
            elements: for constant indices, the elements that they are read from; each is tried by itself.

        Raises:
            Undecided: z3 cannot tell, or the constants are too many.
        """
        axes = {name: span for name, span in self.meaning.axes.items() if name in self.meaning.sizes}
        for name, (floor, most) in axes.items():
            truths = [*truths, bits.variable(name) >= max(floor, self.definition.least), bits.variable(name) <= most]
        small, shown, values = [bits.variable(name) for name in axes], indices.variables, None
        if self.definition.constants is None:
            values = bits.find_values(truths, [*shown, *small])
        for case in [] if self.definition.constants is None else self._list_constants(indices, elements):
            truth = z3.simplify(bits.restore_remainders(z3.substitute(z3.And(*truths), *case)))
            if not z3.is_false(truth) and (values := bits.find_values([truth], small)) is not None:
                listed, shown = ", ".join(str(value.as_signed_long()) for _, value in case[len(case) // 2 :]), []
                reason = reason.replace("an index", f"constant index {listed}", 1)
                break
        if values is None:
            return []
        if isinstance(values, bool):
            raise Undecided(f"whether {reason}: z3 cannot tell within {bits.MAX_STEPS:_} steps")
        sizes = dict.fromkeys(self.meaning.sizes, 1) | {name: values.get(name, 1) for name in axes}
        return [Failure(reason, sizes, tuple(values.get(str(index), 0) for index in shown))]

    def _list_constants(self, indices: Indices, elements: isl.Set | None) -> list[list[tuple[Expression, Expression]]]:
        """Return the values of constant indices at some elements: the code's, and then the operator's."""
        meant, names = self.definition.constants or (), [f"a{at}_0" for at in range(len(indices.atoms))]
        own = self.meaning.constants or meant
        if elements is None or not set(names) <= set(sets.list_parameters(elements)):
            raise Undecided("an index is read from no known place")
        if (found := sets.list_points(elements, names, MAX_CONSTANTS)) is None:
            raise Undecided(f"there are more than {MAX_CONSTANTS} constant indices")
        lists = {(*(own[place] for place in places), *(meant[place] for place in places)) for places in found}
        labels = [f"{hint}{at}" for hint in ("index", "meant") for at in range(len(names))]
        widths = [*(atom.bits for atom in indices.atoms), *[bits.WIDE] * len(names)]
        sized = list(zip(labels, widths, strict=True))
        return [
            [(bits.variable(*each), bits.constant(value, each[1])) for each, value in zip(sized, values, strict=True)]
            for values in sorted(lists)
        ]

    # Elements of indices

    def list_elements(self, domain: isl.Set, atoms: Iterable[Atom], loops: Sequence[Loop] = ()) -> isl.Set:
        """Return the elements that indices are read from, together, in a domain, with the iterations of loops."""
        atoms = list(atoms)
        if any(atom.row for atom in atoms):
            raise Undecided("an index is read from a view as one dimension, elsewhere than where it is checked")
        space, names = add_elements(domain, atoms)
        return project_onto(space, [*names, *(loop.parameter for loop in loops), *self.meaning.visible])

    def list_checked_elements(self, reads: Iterable[tuple[isl.Set, list[Atom]]], loops: Sequence[Loop] = ()) -> isl.Set:
        """Return elements that indices are certainly read from, by all reads together, as `list_elements` gives them.

        An array that is read as one dimension has all of its elements if each is read, and none otherwise.
        """
        found, place, rows = NOTHING, parameter("place"), dict[str, tuple[Row, isl.Set]]()
        for domain, (atom, *others) in reads:
            if atom.row is None or others:
                found |= self.list_elements(domain, [atom, *others], loops)
                continue
            space = domain & place.eq_set(atom.subscripts[0]) & atom.among
            read = project_onto(space, ["place", *(loop.parameter for loop in loops), *self.meaning.visible])
            rows[atom.array] = atom.row, read | rows.get(atom.array, (atom.row, NOTHING))[1]
        for row, read in rows.values():
            missed = (interval(place, ZERO, row.length) - read) & self.meaning.context
            whole = project_out(missed, ["place"]).complement() & self.meaning.context
            for dim, size in enumerate(row.sizes):
                whole &= interval(parameter(f"a0_{dim}"), ZERO, size)
            found |= whole
        return found

    # Copies

    def make_copy(self, write: Write, *, is_meant: bool = False) -> Copy:
        """Return a write of an element in comparable form; raises Undecided where it writes something else."""
        value = write.value
        if not isinstance(value, Element) or value.array != "data":
            raise Undecided("a value that is written to out is no element of data")
        if write.place.under:
            raise Undecided("whether an element is written depends on an index")
        places = expect(isl.PwAff, "a subscript of out is an index", *write.subscripts)
        terms = {dim: place for dim, place in enumerate(value.subscripts) if isinstance(place, Term)}
        weights = [weight for _, weight in value.steps if weight is not None]
        masks = [] if value.mask is None else [value.mask]
        indices = Indices([*terms.values(), *masks, *weights], self.definition if is_meant else None)
        terms |= {len(value.subscripts) + at: weight for at, weight in enumerate(weights)}
        affine = {f"e{dim}": place for dim, place in enumerate(places)}
        affine |= {f"d{dim}": place for dim, place in enumerate(value.subscripts) if isinstance(place, isl.PwAff)}
        space, elements = add_elements(write.place.domain & bind_parameters(affine), indices.atoms)
        names = [*affine, *elements]
        if value.first is not None:
            first = parameter("first")
            space &= (value.first & first.eq_set(number(1))) | (value.first.complement() & first.eq_set(ZERO))
            names.append("first")
        mask = z3.BoolVal(True) if value.mask is None else indices(value.mask)
        positions = {dim: indices(term) for dim, term in terms.items()}
        form = (*(name for name, _ in value.steps), value.larger)
        relation = project_onto(space, [*names, *self.meaning.visible])
        return Copy(write, tuple(names), space, relation, indices, positions, mask, form)

    def compare_arithmetic(self, copy: Copy, target: Copy, reason: str) -> list[Failure]:
        """Check that two writes have the same indices, else fail with the reason, and then the same positions."""
        one, other = ([(atom.array, atom.bits) for atom in each.indices.atoms] for each in (copy, target))
        is_same = one == other if self.definition.constants is None else len(one) == len(other)
        if copy.positions.keys() != target.positions.keys() and not self.definition.write.adds:
            return self.fail("an index is not used where the operator uses it")
        if copy.positions.keys() != target.positions.keys() or not is_same:
            raise Undecided("positions are computed from other things than the operator's indices")
        valid = [Indices([each], self.definition)(each) for each in (self.definition.valid,) if each is not None]
        moved = z3.Or(z3.BoolVal(False), *(copy.positions[dim] != each for dim, each in target.positions.items()))
        elsewhere = z3.And(target.mask, moved)
        return self.find_case(
            reason, [*valid, copy.mask != target.mask], copy.indices, target.relation
        ) or self.find_case("an index leads to another position", [*valid, elsewhere], copy.indices, target.relation)

    def _compare_copies(self) -> list[Failure]:
        """Check that all writes together are the operator's copies: each element of out from the right place."""
        target = self.make_copy(self.definition.write, is_meant=True)
        given = [self.make_copy(write) for write in self.meaning.writes]
        zeros = "an index gives zeros where it should not, or none where it should"
        for copy in given:
            if copy.form != target.form:
                return self.fail("a value that is written to out was computed from an element")
            if failures := self.compare_arithmetic(copy, target, zeros):
                return failures
        for name, (loops, allowed) in self.meaning.wobbling.items():
            # All writes of an iteration of these loops together must write the same elements, whatever an address is.
            around = {loop.parameter for loop in loops}
            inside = [copy for copy in given if around <= {loop.parameter for loop in copy.write.place.loops}]
            written = unite(project_onto(copy.whole, [*copy.names, *around, *self.meaning.visible]) for copy in inside)
            if not (project_out(written, [name]) & allowed).is_subset(written):
                raise Undecided("which iteration writes an element depends on an address")
        copied = project_out(unite(copy.relation for copy in given), self.meaning.wobbling)
        elements = [*(f"e{dim}" for dim in range(len(self.definition.write.subscripts))), *self.meaning.sizes]
        written, all_elements = project_onto(copied, elements), project_onto(target.relation, elements)
        elsewhere = "an element of out comes from another element of data or another index"
        return (
            self.find_failure("an element of out is not written", all_elements - written)
            or self.find_failure("an element outside of out is written", written - all_elements)
            or self.find_failure(elsewhere, copied - target.relation)
            or self.find_failure(elsewhere, target.relation - copied)
        )

    # Memory

    def check_memory(self, writes: Sequence[Write]) -> list[Failure]:
        """Return a violated condition on memory: on races, on bounds, or on alignment."""
        return self._check_races(writes) or self._check_bounds() or self._check_alignment()

    def _check_races(self, writes: Sequence[Write]) -> list[Failure]:
        """Check that no two iterations of a parallel loop write the same element."""
        if self.meaning.problems:
            return self.fail(self.meaning.problems[0])
        groups = [(writes, "write one element")]
        for memory in {store.number for store in self.meaning.staged}:
            groups.append(([store for store in self.meaning.staged if store.number == memory], "stage one position"))
        for group, what in groups:
            parallel = {loop.parameter: loop for write in group for loop in write.place.loops if loop.parallel}
            for name, loop in parallel.items():
                inside = [write for write in group if loop in write.place.loops]
                outer = inside[0].place.loops[: inside[0].place.loops.index(loop)]
                touched = NOTHING
                for write in inside:
                    places = {f"e{dim}": at for dim, at in enumerate(write.subscripts) if isinstance(at, isl.PwAff)}
                    parameters = [name, *(each.parameter for each in outer), *self.meaning.sizes, *places]
                    touched |= project_onto(write.place.domain & bind_parameters(places), parameters)
                twin = sets.rename_parameters(touched, {name: "twin"}) & parameter("twin").lt_set(parameter(name))
                reason = f"two iterations of the parallel loop {loop.label} {what}"
                if failures := self.find_failure(reason, touched & twin):
                    return failures
        return []

    def _check_bounds(self) -> list[Failure]:
        """Check that every access is inside its array."""
        for access in self.meaning.accesses:
            domain, under = access.place.domain, access.place.under
            for dim, (place, size) in enumerate(zip(access.subscripts, access.sizes, strict=True)):
                reason = f"{access.op.name} reaches outside of {access.array} in dimension {dim}"
                if isinstance(place, isl.PwAff):
                    failures = self.find_failure(reason, domain - interval(place, ZERO, size))
                else:
                    indices, length = Indices([place, *under]), sets.constant_of(size)
                    extent = bits.variable(sets.list_parameters(size)[0]) if length is None else bits.constant(length)
                    truths = [*map(indices, under), *self._list_promises(access, dim, indices)]
                    truths.append(z3.Not(z3.ULT(indices(place), extent)))
                    elements = None if self.definition.constants is None else self.list_elements(domain, indices.atoms)
                    failures = self.find_case(reason, truths, indices, elements)
                if failures:
                    return failures
        return []

    def _list_promises(self, access: Access, dim: int, indices: Indices) -> list[Expression]:
        """Return the condition that the index of a dimension is valid, which was checked, or the caller promises."""
        definition, is_guarded = self.definition, access.place.is_guarded
        count, around = self.meaning.guard or (None, ())
        is_late = definition.is_checked and (self.meaning.raises or (count is not None and not is_guarded))
        if access.array != definition.table or dim not in definition.valid_along or is_late:
            return []
        promised, components = definition.valid_along[dim], len(definition.valid_along)
        if definition.constants is not None:
            return [Indices([promised], definition)(promised)] if len(indices.atoms) == 1 else []
        ((name, target),) = promised.atoms.items()
        space, loops = self.list_elements(definition.write.place.domain, [target]), ()
        if definition.is_checked and is_guarded and count is not None and around:  # in one iteration of loops
            loops, which = around, list(definition.valid_along).index(dim)
            counted = [(domain, Indices([term]).atoms) for domain, term in count.terms]
            reads = [(domain, [atoms[which]]) for domain, atoms in counted if len(atoms) == components]
            space = self.list_checked_elements(reads, loops)
        return [
            z3.substitute(promised.expression, (bits.variable(name, atom.bits), variable))
            for variable, atom in zip(indices.variables, indices.atoms, strict=True)
            if atom.bits == target.bits and self.list_elements(access.place.domain, [atom], loops).is_subset(space)
        ]

    def _check_alignment(self) -> list[Failure]:
        """Check that non-temporal stores of vectors are aligned, by the remainder of an address that the code computes.

        The address of a store is the address of another element, whose remainder the code knows, plus an affine number
        of bytes.

        Raises:
            Undecided: the code knows a remainder, and the distance of the store from there is not affine.
        """
        wobbling, remainders = self.meaning.wobbling, self.meaning.remainders
        for domain, address, alignment in self.meaning.streams:
            here, space = sets.list_parameters(domain), domain & self.meaning.context
            reason = f"a non-temporal store is at an address that is no multiple of {alignment} bytes"
            known = [
                (name, (address - other).to_affine())
                for name, (other, divisor) in remainders.items()
                if name in here and divisor % alignment == 0
            ]
            apart = [parameter(name) + distance for name, distance in known if distance is not None]
            wrong = [space & (distance % alignment).ne_set(ZERO) for distance in apart]
            if space.is_empty() or any(bad.is_empty() for bad in wrong):
                continue
            if known and (not wrong or (wobbling.keys() - remainders.keys()) & set(here)):
                raise Undecided("the distance of a non-temporal store from a known address is not affine")
            return self.find_failure(reason, wrong[0] if known else space)
        return []

    # The check of indices

    def check_guard(self) -> list[Failure]:
        """Check that every index is checked where it must be: before anything is written, unless out is fresh."""
        meaning, definition = self.meaning, self.definition
        if not definition.is_checked or meaning.raises or definition.valid is None:
            return []
        meant = Indices([definition.valid], definition)
        valid, needed = meant(definition.valid), self.list_elements(definition.write.place.domain, meant.atoms)
        if meaning.guard is None:
            return self.find_case("an index outside is not found", [z3.Not(valid)], meant, needed)
        count, loops = meaning.guard
        if not meaning.has_fresh_out and (loops or not all(write.place.is_guarded for write in meaning.writes)):
            return self.fail("an element is written before all indices are checked", 1)
        if meaning.returned is None:
            return self.fail("the number of indices outside is not returned", 1)
        returned = meaning.returned.terms
        for domain, term in (*returned, *(count.terms if meaning.returned != count else ())):
            own = Indices([term])
            if len(own.atoms) != len(meant.atoms):
                raise Undecided("the check looks at some components of a tuple only")
            is_outside = own(term) if z3.is_bool(own(term)) else own(term) != 0
            elements = None if definition.constants is None else self.list_elements(domain, own.atoms)
            reason = "an index outside is not found, or one inside is counted"
            if failures := self.find_case(reason, [is_outside == valid], own, elements):
                return failures
        checked = self.list_checked_elements([(domain, Indices([term]).atoms) for domain, term in returned])
        failures = self.find_failure("an index is not checked", needed - checked)
        return [replace(failure, indices=(FAR_OUTSIDE,)) for failure in failures]


def add_elements(domain: isl.Set, atoms: Iterable[Atom]) -> tuple[isl.Set, list[str]]:
    """Return a domain with the elements `a0_0`, ... that indices are read from, and the names of their subscripts."""
    names: list[str] = []
    for at, atom in enumerate(atoms):
        group = {f"a{at}_{dim}": place for dim, place in enumerate(atom.subscripts)}
        domain, names = domain & bind_parameters(group) & atom.among, [*names, *group]
    return domain, names
