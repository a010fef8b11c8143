"""Loads and stores: the element that each reads or writes, for all sizes, and the values that memory keeps.

A buffer of one thread keeps the positions of a tile (`hoist-indices`); a load of it gives the value that the stores
before it, in the same iteration, have left. Other memory keeps the position of every index in C order
(`check-indices`).
Row-major places are unique: if a place is the sum over the dimensions of a subscript times the sizes behind it, and
each subscript is inside its dimension, then it is the place of these subscripts and no others.
"""

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl
import z3
from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import IntegerAttr, MemRefType, VectorType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ...ir.dialects.gather_dialect import AccumulateOp, MaskedLoadOp
from ...ir.dialects.types import element_size_bytes
from ...ir.dialects.upstream import CompressStoreOp, FromElementsOp, PrefetchOp, is_nontemporal
from . import bit_vectors as bits
from . import sets
from .arithmetic import Arithmetic, comparison_of, is_zero, width_of
from .sets import EVERYTHING, ZERO, Polynomial, constant_of, interval, number, parameter, project_out, unite
from .values import (
    Access,
    Argument,
    Atom,
    Counted,
    Element,
    Memory,
    Number,
    Opaque,
    Places,
    Refuted,
    Row,
    Subscripts,
    Summed,
    Term,
    Undecided,
    Uniform,
    Value,
    Write,
    expect,
)

# The content of a list depends on the number of earlier indices of an owner, which no affine relation gives.
LISTED = "a buffer holds a list, whose length the nest counts while it runs"
# The place of an index depends on the number of earlier indices that have its position.
SORTED = "indices are sorted by position, and the nest counts their places while it runs"
POSITIONS, BUFFER = "the staged positions", "the buffer"
NOT_AFFINE = "a place among all indices is not affine"
LANE = parameter("lane")


class Loads(Arithmetic):
    """Handlers of loads and stores that the walk over a function inherits."""

    buffered: list[Write]

    # Loads

    def run_memref_load(self, op: memref.LoadOp, array: Value, *places: Value) -> Value:
        """Load an element, an index or a staged position."""
        return self._load(op, array, places, width_of(op.res.type))

    def run_gather_masked_load(self, op: MaskedLoadOp, *_: Value) -> Value:
        """Load an element where the mask holds."""
        before, (mask,) = self.here, expect(Term, "a mask does not come from indices", self.values[op.mask])
        self.here = replace(before, under=(*before.under, mask))
        places = [self.values[each] for each in op.subscripts]
        (loaded,) = expect(Element, "a masked load of an index", self._load(op, self.values[op.memref], places, 0))
        self.here = before
        return loaded.add_mask(mask)

    def run_vector_load(self, op: vector.LoadOp, array: Value, *places: Value) -> Value:
        """Load a vector: its elements lie along the last dimension."""
        before, type_ = self.here, SSAValue.get(op.result, type=VectorType).type
        self.here = before.restrict(interval(LANE, ZERO, number(type_.get_shape()[0])))
        loaded = self._load(op, array, places, width_of(type_), lane=True)
        self.here = before
        return loaded

    def _to_subscripts(self, given: Sequence[Value], *, lane: bool = False) -> Subscripts:
        message = "a subscript is neither affine nor an index"
        found = expect(isl.PwAff | Term, message, *given)  # type: ignore[arg-type]
        if not lane:
            return found
        (last,) = expect(isl.PwAff, "a vector begins at an index", found[-1])
        return (*found[:-1], last + LANE)

    def _load(self, op: Operation, array: Value, places: Sequence[Value], width: int, *, lane: bool = False) -> Value:
        if any(isinstance(place, Opaque) and place.most is not None for place in places):
            return self._load_any_index(op, array, places)
        if isinstance(array, Memory) and array.depth is None and not lane:
            return self._load_position(op, array, places[0])
        if isinstance(array, Argument) and array.row and isinstance(places[0], Opaque):
            found, among = self._find_subscripts(places[0].polynomial, array.row.sizes)
            inside = self.here.restrict(among, self.meaning.context).domain
            if not all(
                inside.is_subset(interval(at, ZERO, size)) for at, size in zip(found, array.row.sizes, strict=True)
            ):
                raise Undecided("an index is read at a place that may be in no row")
            found += expect(isl.PwAff, "an index is found by another index", *places[1:])
            self._record_access(op, array.name, found, (*array.row.sizes, *array.sizes[1:]))
            return self.read_index(Atom(array.name, found, among, width))
        subscripts = self._to_subscripts(places, lane=lane)
        if isinstance(array, Memory):
            return self._load_buffer(op, array, subscripts)
        (argument,) = expect(Argument, "a load of memory that is not known", array)
        self._record_access(op, argument.name, subscripts, argument.sizes)
        if not argument.is_integer:
            loaded_at = (self.here.loops, len(self.meaning.writes)) if argument.name == "out" else None
            return Element(argument.name, _extend_subscripts(argument, subscripts), loaded_at=loaded_at)
        found = expect(isl.PwAff, "an index is found by another index", *subscripts)
        found = (_flatten(found, argument.sizes),) if argument.is_constant else found
        name = f"row of {argument.name}" if argument.row else argument.name
        return self.read_index(Atom(name, found, EVERYTHING, width, argument.row))

    def _load_any_index(self, op: Operation, array: Value, given: Sequence[Value]) -> Opaque:
        """Load an index, or a position, at a place with known bounds only, as for a prefetch."""
        (known,) = expect(Argument | Memory, "a load of memory that is not known", array)  # type: ignore[arg-type]
        places, among = list[Value](), EVERYTHING
        for value in given:
            if isinstance(value, Opaque) and value.most is not None:
                most, value = value.most, parameter(self.make_name("within"))
                among &= value.le_set(most) & value.ge_set(most.min(ZERO))
            places.append(value)
        found = expect(isl.PwAff, "an index is found by another index", *places)
        name = known.name if isinstance(known, Argument) else POSITIONS if known.depth is None else BUFFER
        self._record_access(op, name, found, known.sizes, among)
        return Opaque()

    def _record_access(
        self, op: Operation, array: str, subscripts: Subscripts, sizes: Places, among: isl.Set = EVERYTHING
    ) -> None:
        self.meaning.accesses.append(Access(op, array, self.here.restrict(among), subscripts, sizes))

    # Stores

    def run_memref_store(self, op: memref.StoreOp, value: Value, array: Value, *places: Value) -> None:
        """Store an element, or stage a position."""
        self._write(op, array, self._to_subscripts(places), value)

    def run_vector_compressstore(self, op: CompressStoreOp, *_: Value) -> None:
        """Raise Undecided: lanes that are stored side by side make a list."""
        raise Undecided(LISTED)

    def run_vector_store(self, op: vector.StoreOp, value: Value, array: Value, *places: Value) -> None:
        """Store a vector."""
        alignment, type_ = op.attributes.get("alignment"), SSAValue.get(op.vector, type=VectorType).type
        if is_nontemporal(op) and isinstance(alignment, IntegerAttr) and alignment.value.data > 1:
            unknown = "the address of a non-temporal store is not known"
            (argument,), address = expect(Argument, unknown, array), Polynomial.of(0)
            for place, size in zip(expect(isl.PwAff, unknown, *places), argument.sizes, strict=True):
                address = address * size + place
            address = Polynomial.of(f"the address of {argument.name}") + address * element_size_bytes(
                type_.element_type
            )
            self.meaning.streams.append((self.here.domain, address, alignment.value.data))
        self._store(op, array, places, value, type_)

    def run_gather_accumulate(self, op: AccumulateOp, value: Value, array: Value, *_: Value) -> None:
        """Add an element, or a vector."""
        before, places = self.here, [self.values[each] for each in op.subscripts]
        if op.first is not None:
            unknown = "a maximum is taken of a value that is no element, or begins at an unknown place"
            (element,), (first,) = expect(Element, unknown, value), expect(isl.Set, unknown, self.values[op.first])
            value = replace(element, larger=comparison_of(op.element.type), first=first)
        if op.mask is not None:
            (mask,) = expect(Term, "a mask does not come from indices", self.values[op.mask])
            self.here = replace(before, under=(*before.under, mask))
        self._store(op, array, places, value, op.element.type, adds=True)
        self.here = before

    def _store(
        self,
        op: Operation,
        array: Value,
        places: Sequence[Value],
        value: Value,
        type_: Attribute,
        *,
        adds: bool = False,
    ) -> None:
        """Store an element or a vector: as one store for all lanes, or as several where lanes differ."""
        before, is_vector = self.here, isinstance(type_, VectorType)
        each: Sequence[tuple[isl.Set, Value]] = [(EVERYTHING, value)]
        if isinstance(value, tuple) and isinstance(array, Memory) and array.depth is None:
            each = self._merge_lanes(value)
        elif isinstance(value, tuple):
            each = [(LANE.eq_set(number(lane)), element) for lane, element in enumerate(value)]
        elif isinstance(type_, VectorType):
            each = [(interval(LANE, ZERO, number(type_.get_shape()[0])), value)]
        for space, element in each:
            self.here = before.restrict(space)
            self._write(op, array, self._to_subscripts(places, lane=is_vector), element, adds=adds)
        self.here = before

    def _write(self, op: Operation, array: Value, subscripts: Subscripts, value: Value, *, adds: bool = False) -> None:
        if isinstance(array, Memory):
            return self._stage(op, array, subscripts, value)
        (argument,) = expect(Argument, "a store to memory that is not known", array)
        if isinstance(value, Summed):
            return self._write_sum(op, argument, subscripts, value)
        if isinstance(value, Number | isl.PwAff) and not is_zero(value):
            raise Refuted(f"{op.name} writes a number to {argument.name}")
        value = Number(True) if is_zero(value) else value
        if not isinstance(value, Element | Number):
            raise Undecided(f"{op.name} writes a value that is no element")
        self._record_access(op, argument.name, subscripts, argument.sizes)
        subscripts = _extend_subscripts(argument, subscripts)
        if isinstance(value, Element) and (total := value.total or value).array == "out":
            if list(map(str, total.subscripts)) != list(map(str, subscripts)):
                raise Undecided("a sum is stored elsewhere than it was loaded from")
            if total.loaded_at != (self.here.loops, len(self.meaning.writes)):
                raise Undecided("between the load of a sum and its store is a loop or another store")
            value, adds = replace(value, total=None), adds or value.total is not None
        self.meaning.writes.append(Write(self.here, subscripts, value, adds))

    def _write_sum(self, op: Operation, array: Argument, subscripts: Subscripts, value: Summed) -> None:
        """Store a register: as zero before the loop that sums it, and then as the additions of that loop."""
        place, around = value.place, project_out(self.here.domain, ["lane"])
        # The means of other registers, which are stored after the loop, too, may stand between.
        others = [
            write.place.path[: len(place.path)]
            for write in self.meaning.writes[value.written :]
            if not (
                isinstance(write.value, Element) and write.value.divisor is not None and write.value.loaded_at is None
            )
        ]
        is_behind = value.begin is None and around.is_equal(place.domain) and self.here.loops == place.loops
        if not is_behind or self.here.under or any(path != place.path for path in others):
            raise Undecided("a sum in a register is not stored right behind the loop that sums it")
        self._record_access(op, array.name, subscripts, array.sizes)
        subscripts = _extend_subscripts(array, subscripts)
        self.meaning.writes.append(Write(replace(self.here, path=place.path), subscripts, Number(True)))
        for element, where in value.added:
            where = replace(where.restrict(self.here.domain), is_guarded=self.here.is_guarded)
            self.meaning.writes.append(Write(where, subscripts, element, adds=True))
        if value.divisor is not None:
            mean = Element("out", subscripts, changed="divided", divisor=value.divisor)
            self.meaning.writes.append(Write(self.here, subscripts, mean))

    # Memory of the function

    def run_memref_alloca(self, op: memref.AllocaOp) -> Value:
        """Make a buffer."""
        type_, depth = SSAValue.get(op.memref, type=MemRefType).type, sum(loop.parallel for loop in self.here.loops)
        return Memory(len(self.values), tuple(map(number, type_.get_shape())), width_of(type_.element_type), depth)

    def run_memref_alloc(self, op: memref.AllocOp, *given: Value) -> Value:
        """Take memory for positions; raises Undecided where it is for sorted indices."""
        type_ = SSAValue.get(op.memref, type=MemRefType).type
        if type_.element_type == i64:
            raise Undecided(SORTED)
        sizes = expect(isl.PwAff, "memory has a size that is not affine", *given)
        if len(sizes) != 1 or type_.get_num_dims() != 1:
            raise Undecided("memory for positions has several dimensions")
        return Memory(len(self.values), sizes, width_of(type_.element_type), None, self.here.loops)

    def run_memref_dealloc(self, op: memref.DeallocOp, *_: Value) -> None:
        """Free memory of `run_memref_alloc`."""
        (memory,) = expect(Memory, "an array of the caller is freed", self.values[op.memref])
        if memory.taken_in != self.here.loops:
            raise Refuted("each iteration of a loop frees memory that is taken outside of it")
        self.values[op.memref] = replace(memory, is_freed=True)

    def _stage(self, op: Operation, memory: Memory, subscripts: Subscripts, value: Value) -> None:
        """Remember a store of a position."""
        is_buffer, unknown = memory.depth is not None, "the staging of a position, or its place, depends on an index"
        if isinstance(value, Opaque):
            raise Undecided(LISTED)
        places = expect(isl.PwAff, LISTED if is_buffer else unknown, *subscripts)
        if not is_buffer and (self.here.under or self.here.is_guarded):
            raise Undecided(unknown)
        self._record_access(op, BUFFER if is_buffer else POSITIONS, places, memory.sizes)
        shared = [loop.label for loop in self.here.loops if loop.parallel][memory.depth :] if is_buffer else []
        if shared:
            self.meaning.problems.append(f"iterations of the parallel loop {shared[0]} store to one buffer")
        term = self.to_term(value, memory.bits)
        term = Term(bits.resize(term.expression, memory.bits), term.atoms)
        stores = self.buffered if is_buffer else self.meaning.staged
        stores.append(Write(self.here, places, term, number=memory.number))

    def _load_buffer(self, op: Operation, memory: Memory, subscripts: Subscripts) -> Term:
        """Return the value that a load of a buffer reads: the last one that this iteration stored there."""
        places = expect(isl.PwAff, LISTED, *subscripts)
        self._record_access(op, BUFFER, places, memory.sizes)
        stores, first = _unify_terms([store for store in self.buffered if store.number == memory.number])
        slots = [[self.make_name("staged") for _ in atom.subscripts] for atom in first.atoms.values()]
        matches, common = list[isl.Set](), {loop.parameter for loop in self.here.loops}
        for store, atoms in stores:  # the present iterations for which it wrote these places, with the elements it read
            there = store.place.domain & self.meaning.context
            for place, here in zip(store.subscripts, places, strict=True):
                there &= here.eq_set(place)  # type: ignore[arg-type]
            for atom, group in zip(atoms, slots, strict=True):
                there &= sets.bind_parameters(dict(zip(group, atom.subscripts, strict=True))) & atom.among
            matches.append(project_out(there, {loop.parameter for loop in store.place.loops} - common))
        written, found = unite(matches), dict[str, Term]()
        if not self.here.domain.is_subset(project_out(written, [slot for group in slots for slot in group])):
            self.meaning.problems.append("a staged position is read before it is written")
        for (name, atom), group in zip(first.atoms.items(), slots, strict=True):
            others = [slot for other in slots if other is not group for slot in other]
            read = replace(atom, subscripts=tuple(map(parameter, group)), among=project_out(written, others))
            found[name] = self.read_index(read, f"{atom} at {places}")
        return _substitute(first, found)

    def _load_position(self, op: Operation, memory: Memory, place: Value) -> Term:
        """Return a staged position as computed from the index at its place among all indices in C order."""
        given = [store for store in self.meaning.staged if store.number == memory.number]
        if any(loop in self.here.loops for store in given for loop in store.place.loops):
            raise Undecided("positions are staged and read in one loop")
        stores, first = _unify_terms(given)
        self._check_positions(memory, stores)
        ((name, atom),) = first.atoms.items()
        if atom.row is None:
            found, among = expect(isl.PwAff, NOT_AFFINE, place), EVERYTHING
            self._record_access(op, POSITIONS, found, memory.sizes)
            at = _find_moving(atom)
            read = replace(atom, subscripts=(*atom.subscripts[:at], *found, *atom.subscripts[at + 1 :]))
        else:
            found, among = self._find_subscripts(self.to_polynomial(place), atom.row.sizes)
            self._record_access(op, POSITIONS, found, atom.row.sizes, among)
            read = Atom(atom.array.removeprefix("row of "), found, among, atom.bits)
        return _substitute(first, {name: self.read_index(read)})

    def _check_positions(self, memory: Memory, stores: Sequence[tuple[Write, list[Atom]]]) -> None:
        """Check that all positions are staged, each at the place of its one index."""
        staged, place, context = list[isl.Set](), parameter("place"), self.meaning.context
        for store, atoms in stores:
            (at,) = expect(isl.PwAff, NOT_AFFINE, *store.subscripts)
            staged.append(sets.project_onto(store.place.domain & place.eq_set(at), ["place", *self.meaning.sizes]))
            if len(atoms) != 1:
                raise Undecided("a staged position is not made from one index")
            moved = store.place.domain & atoms[0].among & atoms[0].subscripts[_find_moving(atoms[0])].ne_set(at)
            if not (moved & context).is_empty():
                raise Undecided("a position is staged at another place than its index has")
        if not (interval(place, ZERO, memory.sizes[0]) & context).is_subset(unite(staged)):
            self.meaning.problems.append("a position is read that the check does not stage")

    def _find_subscripts(self, place: Polynomial | None, sizes: Places) -> tuple[Places, isl.Set]:
        """Return the subscripts of a place in C order, and the conditions on their own parameters.

        Raises:
            Undecided: one is not found, or is not affine.
        """
        if place is None:
            raise Undecided("an index, or a position, is read at a place that is not known")
        found: Places = ()
        for dim, size in enumerate(sizes):
            behind = Polynomial.of(1)
            for other in sizes[dim + 1 :]:
                behind *= other
            if behind.constant is not None:  # so all dimensions behind this one have sizes that are numbers
                (rest,) = expect(isl.PwAff, NOT_AFFINE, place.to_affine())
                if all(constant_of(each) == 1 for each in sizes[dim + 1 :]):
                    return (*found, rest, *[ZERO] * len(sizes[dim + 1 :])), EVERYTHING
                digits, among = tuple(parameter(self.make_name("staged")) for _ in sizes[dim:]), EVERYTHING
                for digit, each in zip(digits[1:], sizes[dim + 1 :], strict=True):
                    among &= interval(digit, ZERO, each)
                return (*found, *digits), among & rest.eq_set(_flatten(digits, sizes[dim:]))
            if constant_of(size) == 1:
                found += (ZERO,)
                continue
            ((product, factor),) = behind.terms.items()
            times = place.divide(product, factor)
            found += expect(isl.PwAff, NOT_AFFINE, times.to_affine())
            place -= times * behind
        raise Undecided("indices have no dimension")

    def _merge_lanes(self, lanes: Sequence[Value]) -> list[tuple[isl.Set, Term]]:
        """Return the lanes of a vector, in the parameter `lane`; lanes that read indices side by side are merged."""
        terms = expect(Term, "a lane of a vector does not come from one index", *lanes)
        found, begin = list[tuple[isl.Set, Term]](), 0
        while begin < len(terms):
            first, end = terms[begin], begin + 1
            step = _compare_subscripts(first, terms[end]) if end < len(terms) else []
            step = step if set(step) <= {0, 1} else []
            while step and end < len(terms):
                if _compare_subscripts(first, terms[end]) != [(end - begin) * each for each in step]:
                    break
                end += 1
            if end - begin > 1:
                ((name, atom),) = first.atoms.items()
                pairs = zip(atom.subscripts, step, strict=True)
                moved = tuple(at + LANE - begin if each else at for at, each in pairs)
                first = _substitute(first, {name: self.read_index(replace(atom, subscripts=moved))})
            found.append((interval(LANE, number(begin), number(end)), first))
            begin = end
        return found

    # Vectors, views and addresses

    def run_memref_prefetch(self, op: PrefetchOp, *_: Value) -> None:
        """Do nothing: a prefetch cannot fail, and the loads of its subscripts are checked separately."""

    def run_memref_extract_aligned_pointer_as_index(self, op: Operation, memory: Value) -> Value:
        """Return an address."""
        (array,) = expect(Argument, "the address of memory of the function", memory)
        return Opaque(Polynomial.of(f"the address of {array.name}"))

    def run_memref_collapse_shape(self, op: memref.CollapseShapeOp, memory: Value) -> Value:
        """Drop dimensions of size 1 at the end, or merge the first dimensions of indices."""
        (array,) = expect(Argument, "a view of memory of the function", memory)
        first, *rest = [len(group.data) for group in op.reassociation.data]
        rank = 1 + len(rest)
        is_first = all(size == 1 for size in rest) and (first > 1 or not rest)
        if is_first and array.name == "indices" and not (array.is_constant or array.dropped):
            row = Row(array.sizes[:first], self._multiply_sizes(array.sizes[:first]))
            return replace(array, sizes=(row.length, *array.sizes[first:]), row=row)
        if any(constant_of(size) != 1 for size in array.sizes[rank:]):
            raise Undecided("a dimension that is dropped may be larger than 1")
        dropped = len(array.sizes) - rank + array.dropped
        return Argument(array.name, array.sizes[:rank], array.is_integer, dropped)

    def _multiply_sizes(self, sizes: Places) -> isl.PwAff:
        """Return the number of elements of an array: a new parameter where that is no multiple of one size."""
        if len([size for size in sizes if constant_of(size) is None]) < 2:
            found = number(1)
            for size in sizes:
                found = found * size
            return found
        for name, factors in self.meaning.products.items():
            if list(map(str, factors)) == list(map(str, sizes)):
                return parameter(name)
        name = self.make_name("n_row")
        product = parameter(name)
        some, none = product.ge_set(ZERO), product.eq_set(ZERO)
        for size in sizes:  # no less than each size, unless one is 0
            some &= product.ge_set(size) | none
            none &= size.gt_set(ZERO)
        self.meaning.sizes.append(name)
        self.meaning.products[name] = sizes
        self.assume(some - none)
        return product

    def run_vector_from_elements(self, op: FromElementsOp, *elements: Value) -> Value:
        """Make a vector of elements."""
        return elements

    def run_vector_reduction(self, op: vector.ReductionOp, value: Value) -> Value:
        """Count the indices outside among those that a vector checks."""
        (lanes,) = expect(tuple, "a reduction of a vector that does not count indices", value)
        if op.kind.data is not vector.CombiningKindFlag.ADD:
            raise Undecided("a reduction of a vector that does not count indices")
        return Counted(tuple((self.here.domain & space, term) for space, term in self._merge_lanes(lanes)))

    def run_vector_broadcast(self, op: vector.BroadcastOp, value: Value) -> Value:
        """Repeat a mask, zero, a weight or a divisor in every lane."""
        if not isinstance(value, Uniform) and not is_zero(value):
            raise Undecided("a vector of one number that is neither a mask nor zero")
        return Number(True) if is_zero(value) else value


def _flatten(places: Places, sizes: Places) -> isl.PwAff:
    """Return the place in C order of subscripts; all sizes but the first must be known."""
    flat = places[0] if places else ZERO
    for place, size in zip(places[1:], sizes[1:], strict=True):
        flat = flat * size + place
    return flat


def _extend_subscripts(array: Argument, subscripts: Subscripts) -> Subscripts:
    """Return the subscripts of the array itself for the subscripts of a view without its last dimensions."""
    return (*subscripts, *[ZERO] * array.dropped)


def _substitute(term: Term, indices: dict[str, Term]) -> Term:
    """Return a term with all of its indices replaced."""
    pairs = [(bits.variable(name, atom.bits), indices[name].expression) for name, atom in term.atoms.items()]
    atoms = {name: atom for each in indices.values() for name, atom in each.atoms.items()}
    return Term(z3.substitute(term.expression, *pairs), atoms)


def _unify_terms(stores: list[Write]) -> tuple[list[tuple[Write, list[Atom]]], Term]:
    """Return each store with the indices that it reads, and the term that all of them compute."""
    if not stores:
        raise Refuted("a staged position is read before any is staged")
    first, *_ = terms = expect(Term, LISTED, *(store.value for store in stores))
    return list(zip(stores, [_match_atoms(first, term) for term in terms], strict=True)), first


def _match_atoms(first: Term, term: Term) -> list[Atom]:
    """Return the indices of a term, which must compute the same function of them as `first` does of its own."""
    if len(term.atoms) == len(first.atoms):
        pairs = zip(term.atoms.items(), first.atoms.items(), strict=True)
        names = [(bits.variable(name, atom.bits), bits.variable(own, atom.bits)) for (name, atom), (own, _) in pairs]
        expression = z3.substitute(term.expression, *names)
        if expression.eq(first.expression) or bits.find_values([expression != first.expression], []) is None:
            return list(term.atoms.values())
    raise Undecided("stores to one buffer compute different things")


def _compare_subscripts(first: Term, other: Term) -> list[int]:
    """Return the distance of two indices along each subscript; empty where it is not known."""
    if len(first.atoms) != 1:
        raise Undecided("a lane of a vector does not come from one index")
    try:
        (there,) = _match_atoms(first, other)
    except Undecided:
        return []
    (here,) = first.atoms.values()
    moves = [constant_of(place - at) for place, at in zip(there.subscripts, here.subscripts, strict=True)]
    return [move for move in moves if move is not None] if None not in moves else []


def _find_moving(atom: Atom) -> int:
    """Return the dimension whose subscript is an index's place among all: the only subscript that is not 0."""
    places = [at for at, subscript in enumerate(atom.subscripts) if constant_of(subscript) != 0]
    if len(places) > 1 or (not places and len(atom.subscripts) > 1):
        raise Undecided("a staged position is made from an index whose place among all is not known")
    return places[0] if places else 0
