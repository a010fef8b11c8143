"""Positions that a check stages for all indices: the index that each was made from, for all sizes."""

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl
import z3
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, i64
from xdsl.ir import Operation, SSAValue

from . import bit_vectors as bits
from .arithmetic import Arithmetic, width_of
from .integer_sets import constant_of, everything, number, only, parameter, within
from .meaning import Access, Guard, StagedPosition
from .polynomials import Polynomial, divided, polynomial_of
from .staged import same_shape, with_variables_of
from .values import Atom, Bounded, PositionMemory, Refuted, Row, Term, Undecided, Value

# Where a place goes depends on how many of the indices before have its position.
SORTED = "indices are sorted by position, and where each goes the nest counts while it runs"
NAME = "the staged positions"

Subscripts = tuple[isl.PwAff, ...]


class CheckedPositions(Arithmetic):
    """Handlers of staged positions that the walk over a module inherits."""

    values: dict[SSAValue, Value]
    under: tuple[Term, ...]
    guard: Guard | None

    def run_memref_alloc(self, op: memref.AllocOp) -> None:
        """Take memory for positions. The order of sorted indices, which such memory may have, too, stops the proof."""
        assert isinstance(op.memref.type, MemRefType)
        if op.memref.type.element_type == i64:
            raise Undecided(SORTED)
        sizes = [self.values[size] for size in op.dynamic_sizes]
        if len(sizes) != 1 or op.memref.type.get_num_dims() != 1 or not isinstance(sizes[0], isl.PwAff):
            raise Undecided("memory has a size that is not affine")
        self.values[op.memref] = PositionMemory(len(self.values), sizes[0], width_of(op.memref.type.element_type))

    def run_memref_dealloc(self, op: memref.DeallocOp) -> None:
        """Free such memory."""
        memory = self.values[op.memref]
        assert isinstance(memory, PositionMemory)
        self.values[op.memref] = replace(memory, is_freed=True)

    def store_position(self, op: Operation, memory: PositionMemory, subscripts: Sequence[Value], value: Term) -> None:
        """Remember that a position is staged."""
        (place,) = subscripts
        if not isinstance(place, isl.PwAff) or self.under or self.guard is not None:
            raise Undecided("where, or whether, a position is staged depends on an index, or is not affine")
        if memory.is_freed:
            raise Refuted("a position is staged in memory that is freed")
        self._reach(op, (place,), (memory.length,))
        value = Term(bits.widened(value.expression, memory.bits, unsigned=False), value.atoms)
        self.meaning.staged.append(StagedPosition(memory.number, self.loops, self.domain, (place,), value))

    def load_position(self, op: Operation, memory: PositionMemory, subscripts: Sequence[Value]) -> Term:
        """Return a staged position, as it was computed from the index at the same place of all indices in C order.

        Row-major places are unique: a place that is the sum over the dimensions of a subscript times the sizes behind
        it, where each subscript is inside its dimension, is that of these subscripts.
        """
        if memory.is_freed:
            raise Refuted("a staged position is read from memory that is freed")
        stores = [store for store in self.meaning.staged if store.memory == memory.number]
        if not stores:
            raise Refuted("a staged position is read before any is staged")
        if any(loop in self.loops for store in stores for loop in store.loops):
            raise Undecided("positions are staged and read in one loop")
        stores = same_shape(stores)
        staged = everything().complement()
        for store in stores:
            staged = staged.union(
                only(store.domain.intersect(parameter("place").eq_set(store.subscripts[0])), self._seen)
            )
            self._check_place(store)
        missing = within(parameter("place"), number(0), memory.length).subtract(staged).intersect(self.meaning.context)
        if not missing.is_empty():
            self.meaning.problems.append("a position is read that the check does not stage")
        ((variable, atom),) = stores[0].value.atoms.items()
        (place,) = subscripts
        if isinstance(place, Bounded):
            return self._any_position(op, memory, place, stores[0].value)
        polynomial = self.polynomial(place)
        if polynomial is None:
            raise Undecided("a staged position is read at a place that is not known")
        if atom.row is None:
            if not isinstance(place, isl.PwAff):
                raise Undecided("a staged position is read at a place that is not affine")
            self._reach(op, (place,), (memory.length,))
            read = _moved(atom, place)
        else:
            found, among = self._subscripts_at(polynomial, atom.row.sizes)
            self._reach(op, found, atom.row.sizes, among)
            read = Atom(atom.array.removeprefix("row of "), found, among, atom.bits)
        name = self.name_of(read)
        pair = bits.variable(variable, atom.bits), bits.variable(name, atom.bits)
        return Term(z3.substitute(stores[0].value.expression, pair), {name: read})

    def _any_position(self, op: Operation, memory: PositionMemory, place: Bounded, value: Term) -> Term:
        """Return the position at a place of which bounds are known, such as one that a prefetch reads: any of them."""
        here, among = self.bounded_place(place)
        self._reach(op, (here,), (memory.length,), among)
        ((variable, atom),) = value.atoms.items()
        if atom.row is None:
            read = replace(_moved(atom, here), among=among)
        else:
            found = tuple(parameter(self.fresh("within")) for _ in atom.row.sizes)
            for digit, size in zip(found, atom.row.sizes, strict=True):
                among = among.intersect(within(digit, number(0), size))
            read = Atom(atom.array.removeprefix("row of "), found, among, atom.bits)
        name = self.name_of(read)
        pair = bits.variable(variable, atom.bits), bits.variable(name, atom.bits)
        return Term(z3.substitute(value.expression, pair), {name: read})

    def bounded_place(self, place: Bounded) -> tuple[isl.PwAff, isl.Set]:
        """Return a parameter for a place of which bounds are known, and these."""
        here = parameter(self.fresh("within"))
        return here, here.le_set(place.most).intersect(here.ge_set(place.most.min(number(0))))

    def in_runs(self, lanes: Sequence[Value]) -> list[tuple[isl.Set, Term]]:
        """Return the lanes of a vector, in the parameter `lane`: those together that read indices side by side.

        Raises:
            Undecided: a lane does not come from one index.
        """
        terms = [lane for lane in lanes if isinstance(lane, Term) and len(lane.atoms) == 1]
        if len(terms) != len(lanes):
            raise Undecided("a lane of a vector does not come from one index")
        found: list[tuple[isl.Set, Term]] = []
        begin = 0
        while begin < len(terms):
            first, end = terms[begin], begin + 1
            step = _moves(first, terms[end]) if end < len(terms) else []
            while step and set(step) <= {0, 1} and end < len(terms):
                if _moves(first, terms[end]) != [(end - begin) * (each or 0) for each in step]:
                    break
                end += 1
            ((name, atom),) = first.atoms.items()
            if end - begin > 1:
                ahead = parameter("lane").sub(number(begin))
                places = zip(atom.subscripts, step, strict=True)
                read = replace(atom, subscripts=tuple(place.add(ahead) if each else place for place, each in places))
                pair = bits.variable(name, atom.bits), bits.variable(self.name_of(read), atom.bits)
                first = Term(z3.substitute(first.expression, pair), {self.name_of(read): read})
            found.append((within(parameter("lane"), number(begin), number(end)), first))
            begin = end
        return found

    @property
    def _seen(self) -> list[str]:
        return ["place", *self.meaning.sizes]

    def _reach(self, op: Operation, subscripts: Subscripts, sizes: Subscripts, among: isl.Set | None = None) -> None:
        domain = self.domain if among is None else self.domain.intersect(among)
        self.meaning.accesses.append(Access(op, NAME, domain, subscripts, sizes, self.under, self.guard))

    def _check_place(self, store: StagedPosition) -> None:
        """Check that a position is staged at the place of the one index that it is made from."""
        if len(store.value.atoms) != 1:
            raise Undecided("a staged position is not made from one index")
        (atom,) = store.value.atoms.values()
        own = atom.subscripts[_moving(atom)]
        moved = store.domain.intersect(atom.among).intersect(own.ne_set(store.subscripts[0]))
        if not moved.intersect(self.meaning.context).is_empty():
            raise Undecided("a position is staged at another place than that of its index")

    def subscripts_in_rows(self, place: Value, row: Row) -> tuple[Subscripts, isl.Set]:
        """Return the subscripts of a place in the run of all elements, and what their own parameters satisfy.

        Raises:
            Undecided: it is not certain that they are inside.
        """
        polynomial = self.polynomial(place)
        if polynomial is None:
            raise Undecided("an index is read at a place that is not known")
        found, among = self._subscripts_at(polynomial, row.sizes)
        here = self.domain.intersect(among).intersect(self.meaning.context)
        for subscript, size in zip(found, row.sizes, strict=True):
            if not here.subtract(within(subscript, number(0), size)).is_empty():
                raise Undecided("an index is read at a place that no row is known to have")
        return found, among

    def _subscripts_at(self, place: Polynomial, sizes: Subscripts) -> tuple[Subscripts, isl.Set]:
        """Return the subscripts of a place in C order, and what their own parameters satisfy.

        Raises:
            Undecided: one is not found, or is not affine.
        """
        found: list[isl.PwAff] = []
        for dim, size in enumerate(sizes):
            behind = polynomial_of(number(1))
            for other in sizes[dim + 1 :]:
                behind = behind.times(polynomial_of(other))
            if set(behind.terms) == {()}:  # a number, as those of all dimensions behind it
                affine = place.affine()
                if affine is None:
                    raise Undecided("a place among all indices is not affine in the last dimensions")
                last, among = self._digits(affine, sizes[dim:])
                return (*found, *last), among
            if constant_of(size) == 1:
                found.append(number(0))
                continue
            ((product, factor),) = behind.terms.items()
            times = divided(place, product, factor)
            affine = times.affine()
            if affine is None:
                raise Undecided("a place among all indices is not affine in a dimension")
            found.append(affine)
            place = place.plus(times.times(behind), -1)
        raise Undecided("indices have no dimension")

    def _digits(self, place: isl.PwAff, sizes: Subscripts) -> tuple[Subscripts, isl.Set]:
        """Return the subscripts of a place in dimensions of which all but the first have known sizes."""
        if all(constant_of(size) == 1 for size in sizes[1:]):
            return (place, *[number(0)] * (len(sizes) - 1)), everything()
        found = tuple(parameter(self.fresh("staged")) for _ in sizes)
        total, among = number(0), everything()
        for digit, size in zip(found, sizes, strict=True):
            total = total.mul(size).add(digit) if constant_of(size) is not None else digit
            among = among if digit is found[0] else among.intersect(within(digit, number(0), size))
        return found, among.intersect(place.eq_set(total))


def _moves(first: Term, other: Term) -> list[int | None]:
    """Return how far an index is from that of another, along each subscript; empty where other things are computed."""
    try:
        (there,) = with_variables_of(first, other).atoms.values()
    except Undecided:
        return []
    (here,) = first.atoms.values()
    return [constant_of(place.sub(at)) for place, at in zip(there.subscripts, here.subscripts, strict=True)]


def _moving(atom: Atom) -> int:
    """Return which subscript of an index is its place among all: the only one that is not 0."""
    places = [at for at, subscript in enumerate(atom.subscripts) if constant_of(subscript) != 0]
    if len(places) > 1 or (not places and len(atom.subscripts) > 1):
        raise Undecided("a staged position is made from an index whose place among all is not known")
    return places[0] if places else 0


def _moved(atom: Atom, place: isl.PwAff) -> Atom:
    """Return the index at another place among all."""
    at = _moving(atom)
    return replace(atom, subscripts=(*atom.subscripts[:at], place, *atom.subscripts[at + 1 :]))
