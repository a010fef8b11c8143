"""Loads and stores: the element that each reads or writes, for all sizes, and the values that memory keeps.

A buffer of one thread keeps the positions of a tile (`hoist-indices`); a load of it gives what the stores before it, in
the same iteration, have left there. Other memory keeps the position of every index in C order (`check-indices`).
Row-major places are unique: a place that is the sum over the dimensions of a subscript times the sizes behind it, where
each subscript is inside its dimension, is the place of these subscripts.
"""

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl
import z3
from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import IntegerAttr, MemRefType, VectorType, i64
from xdsl.ir import Operation, SSAValue

from ...ir.dialects.gather_dialect import AccumulateOp, MaskedLoadOp
from ...ir.dialects.types import element_size_bytes
from ...ir.dialects.upstream import CompressStoreOp, FromElementsOp, PrefetchOp, is_nontemporal
from . import bit_vectors as bits
from .arithmetic import Arithmetic, comparison_of, is_zero, width_of
from .sets import EVERYTHING, ZERO, Polynomial, constant_of, equal, number, only, parameter, union, within, without
from .values import (
    Access,
    Argument,
    Atom,
    Bounded,
    Condition,
    Counted,
    Divisor,
    Element,
    Lanes,
    Mask,
    Memory,
    Number,
    Opaque,
    Refuted,
    Row,
    Subscripts,
    Summed,
    Term,
    Undecided,
    Value,
    Weight,
    Write,
    Zero,
    affine_of,
)

# The content of a list depends on how many of the indices before belong to an owner: no affine relation says that.
LISTED = "a buffer holds a list, and how long it is the nest counts while it runs"
# The place of an index depends on how many of the indices before have its position.
SORTED = "indices are sorted by position, and where each goes the nest counts while it runs"
POSITIONS = "the staged positions"
LANE = parameter("lane")

Places = tuple[isl.PwAff, ...]


class Loads(Arithmetic):
    """Handlers of loads and stores that the walk over a function inherits."""

    buffered: list[Write]

    # Loads

    def run_memref_load(self, op: memref.LoadOp) -> None:
        """Load an element, an index or a staged position."""
        self.values[op.res] = self._loaded(op, op.memref, op.indices, width_of(op.res.type))

    def run_gather_masked_load(self, op: MaskedLoadOp) -> None:
        """Load an element where the mask holds."""
        mask, before = self._mask(op.mask), self.here
        self.here = replace(before, under=(*before.under, mask))
        loaded = self._loaded(op, op.memref, op.subscripts, 0)
        self.here = before
        assert isinstance(loaded, Element)
        self.values[op.element] = loaded.masked(mask)

    def run_vector_load(self, op: vector.LoadOp) -> None:
        """Load a vector: its elements lie along the last dimension."""
        before, type_ = self.here, op.result.type
        assert isinstance(type_, VectorType)
        self.here = before.where(within(LANE, ZERO, number(type_.get_shape()[0])))
        self.values[op.result] = self._loaded(op, op.base, op.indices, width_of(type_), lane=True)
        self.here = before

    def _mask(self, value: SSAValue) -> Term:
        mask = self.values[value]
        if not isinstance(mask, Term):
            raise Undecided("a mask does not come from indices")
        return mask

    def _subscripts(self, given: Sequence[SSAValue], *, lane: bool = False) -> Subscripts:
        found = [value for each in given if isinstance(value := self.values[each], isl.PwAff | Term)]
        if len(found) != len(given):
            raise Undecided("a subscript is neither affine nor an index")
        if lane:
            (last,) = affine_of((found.pop(),), "a vector begins at an index")
            found.append(last + LANE)
        return tuple(found)

    def _loaded(
        self, op: Operation, memory: SSAValue, given: Sequence[SSAValue], width: int, *, lane: bool = False
    ) -> Value:
        array, places = self.values[memory], [self.values[each] for each in given]
        if isinstance(array, Memory) and array.depth is None and not lane:
            return self._position(op, array, places[0])
        if any(isinstance(place, Bounded) for place in places) and not lane:
            return self._index_within(op, array, places, width)
        if isinstance(array, Argument) and array.row and isinstance(places[0], Opaque):
            return self._index_in_rows(op, array, places[0], given[1:], width)
        subscripts = self._subscripts(given, lane=lane)
        if isinstance(array, Memory):
            return self._buffered(op, array, subscripts)
        if not isinstance(array, Argument):
            raise Undecided("a load of memory that is not known")
        self._access(op, array.name, subscripts, array.sizes)
        if not array.is_integer:
            when = (self.here.loops, len(self.meaning.writes)) if array.name == "out" else None
            return Element(array.name, _in_full(array, subscripts), when=when)
        found = affine_of(subscripts, "an index is found by another index")
        return self._index(array, (_flat(found, array.sizes),) if array.is_constant else found, EVERYTHING, width)

    def _index(self, array: Argument, places: Places, among: isl.Set, width: int) -> Term:
        return self.index(Atom(f"row of {array.name}" if array.row else array.name, places, among, width, array.row))

    def _index_within(self, op: Operation, array: Value, given: Sequence[Value], width: int) -> Term:
        """Load any of the indices at places of which bounds are known: such as one that a prefetch resolves."""
        if not isinstance(array, Argument) or not array.is_integer or array.is_constant:
            raise Undecided("a place is only known to lie within bounds")
        places, among = list[isl.PwAff](), EVERYTHING
        for value in given:
            if isinstance(value, Bounded):
                value, known = self._any_within(value)
                among &= known
            places += affine_of((value,), "an index is found by another index")
        self._access(op, array.name, tuple(places), array.sizes, among)
        return self._index(array, tuple(places), among, width)

    def _any_within(self, place: Bounded) -> tuple[isl.PwAff, isl.Set]:
        """Return a parameter for a place of which bounds are known, and the bounds."""
        here = parameter(self.fresh("within"))
        return here, here.le_set(place.most) & here.ge_set(place.most.min(ZERO))

    def _index_in_rows(
        self, op: Operation, array: Argument, place: Opaque, rest: Sequence[SSAValue], width: int
    ) -> Term:
        """Load an index at a place in the run of all of them that is a row times its size, and a place in it."""
        assert array.row is not None
        found, among = self._subscripts_at(place.polynomial, array.row.sizes)
        inside = self.here.where(among, self.meaning.context).domain
        for subscript, size in zip(found, array.row.sizes, strict=True):
            if not inside.is_subset(within(subscript, ZERO, size)):
                raise Undecided("an index is read at a place that no row is known to have")
        places = (*found, *affine_of(self._subscripts(rest), "an index is found by another index"))
        whole = replace(array, sizes=(*array.row.sizes, *array.sizes[1:]), row=None)
        self._access(op, whole.name, places, whole.sizes)
        return self._index(whole, places, among, width)

    def _access(
        self, op: Operation, array: str, subscripts: Subscripts, sizes: Places, among: isl.Set = EVERYTHING
    ) -> None:
        self.meaning.accesses.append(Access(op, array, self.here.where(among), subscripts, sizes))

    # Stores

    def run_memref_store(self, op: memref.StoreOp) -> None:
        """Store an element, or stage a position."""
        self._written(op, self.values[op.memref], self._subscripts(op.indices), self.values[op.value])

    def run_vector_compressstore(self, op: CompressStoreOp) -> None:
        """Raise Undecided: what is stored side by side is a list."""
        raise Undecided(LISTED)

    def run_vector_store(self, op: vector.StoreOp) -> None:
        """Store a vector."""
        array, value, alignment = self.values[op.base], self.values[op.vector], op.attributes.get("alignment")
        if is_nontemporal(op) and isinstance(alignment, IntegerAttr) and alignment.value.data > 1:
            subscripts, address = self._subscripts(op.indices), Polynomial.of(0)
            if not isinstance(array, Argument) or not all(isinstance(place, isl.PwAff) for place in subscripts):
                raise Undecided("the address of a non-temporal store is not known")
            for place, size in zip(subscripts, array.sizes, strict=True):
                assert isinstance(place, isl.PwAff)
                address = address * Polynomial.of(size) + Polynomial.of(place)
            size_bytes = element_size_bytes(SSAValue.get(op.vector, type=VectorType).type.element_type)
            address = Polynomial.of(f"the address of {array.name}") + address * Polynomial.of(size_bytes)
            self.meaning.streams.append((self.here.domain, address, alignment.value.data))
        self._in_lanes(op, array, self._subscripts(op.indices, lane=True), value, op.vector)

    def run_gather_accumulate(self, op: AccumulateOp) -> None:
        """Add an element, or a vector."""
        array, value, before = self.values[op.memref], self.values[op.element], self.here
        if op.first is not None:
            first = self.values[op.first]
            if not isinstance(first, Condition) or not isinstance(value, Element):
                raise Undecided("a maximum is taken of what is no element, or begins where nothing says")
            value = replace(value, larger=comparison_of(op.element.type), first=first.holds)
        if op.mask is not None:
            self.here = replace(before, under=(*before.under, self._mask(op.mask)))
        if isinstance(op.element.type, VectorType):
            self._in_lanes(op, array, self._subscripts(op.subscripts, lane=True), value, op.element, adds=True)
        else:
            self._written(op, array, self._subscripts(op.subscripts), value, adds=True)
        self.here = before

    def _in_lanes(
        self,
        op: Operation,
        array: Value,
        subscripts: Subscripts,
        value: Value,
        vector_: SSAValue,
        *,
        adds: bool = False,
    ) -> None:
        """Store a vector: as one store for all lanes, or where they differ for each of them."""
        before, type_ = self.here, vector_.type
        assert isinstance(type_, VectorType)
        each: Sequence[tuple[isl.Set, Value]] = [(within(LANE, ZERO, number(type_.get_shape()[0])), value)]
        if isinstance(value, Lanes) and isinstance(array, Memory) and array.depth is None:
            each = self._in_runs(value.elements)
        elif isinstance(value, Lanes):
            each = [(LANE.eq_set(number(lane)), element) for lane, element in enumerate(value.elements)]
        for held, element in each:
            self.here = before.where(held)
            self._written(op, array, subscripts, element, adds=adds)
        self.here = before

    def _written(
        self, op: Operation, array: Value, subscripts: Subscripts, value: Value, *, adds: bool = False
    ) -> None:
        if isinstance(array, Memory):
            return self._stored(op, array, subscripts, value)
        if not isinstance(array, Argument):
            raise Undecided("a store to memory that is not known")
        if isinstance(value, Summed):
            return self._written_sum(op, array, subscripts, value)
        value = Zero() if is_zero(value) else value
        if isinstance(value, Number | isl.PwAff):
            raise Refuted(f"{op.name} writes a number to {array.name}")
        if not isinstance(value, Element | Zero):
            raise Undecided(f"{op.name} writes what is no element")
        self._access(op, array.name, subscripts, array.sizes)
        subscripts = _in_full(array, subscripts)
        if isinstance(value, Element) and (total := value.total or value).array == "out":
            if list(map(str, total.subscripts)) != list(map(str, subscripts)):
                raise Undecided("a sum is stored elsewhere than it was loaded from")
            if total.when != (self.here.loops, len(self.meaning.writes)):
                raise Undecided("between the load of a sum and its store is a loop or another store")
            value, adds = replace(value, total=None), adds or value.total is not None
        self.meaning.writes.append(Write(self.here, subscripts, value, adds))

    def _written_sum(self, op: Operation, array: Argument, subscripts: Subscripts, value: Summed) -> None:
        """Store a register: as zero before the loop that sums it, and as what that loop adds."""
        place, around = value.place, without(self.here.domain, ["lane"])
        others = [write for write in self.meaning.writes[value.written :] if not _is_stored_mean(write)]
        is_behind = value.begin is None and around.is_equal(place.domain) and self.here.loops == place.loops
        if (
            not is_behind
            or self.here.under
            or any(write.place.path[: len(place.path)] != place.path for write in others)
        ):
            raise Undecided("a sum in a register is not stored right behind the loop that sums it")
        self._access(op, array.name, subscripts, array.sizes)
        subscripts = _in_full(array, subscripts)
        self.meaning.writes.append(Write(replace(self.here, path=place.path), subscripts, Zero()))
        for element, where in value.added:
            where = replace(where.where(self.here.domain), guard=self.here.guard)
            self.meaning.writes.append(Write(where, subscripts, element, adds=True))
        if value.divisor is not None:
            mean = Element("out", subscripts, changed="divided", divisor=value.divisor)
            self.meaning.writes.append(Write(self.here, subscripts, mean))

    # Memory of the function

    def run_memref_alloca(self, op: memref.AllocaOp) -> None:
        """Make a buffer."""
        type_, depth = SSAValue.get(op.memref, type=MemRefType).type, sum(loop.parallel for loop in self.here.loops)
        sizes = tuple(map(number, type_.get_shape()))
        self.values[op.memref] = Memory(len(self.values), sizes, width_of(type_.element_type), depth)

    def run_memref_alloc(self, op: memref.AllocOp) -> None:
        """Take memory for positions. The order of sorted indices, which such memory may have, too, stops the proof."""
        type_, sizes = SSAValue.get(op.memref, type=MemRefType).type, [self.values[size] for size in op.dynamic_sizes]
        if type_.element_type == i64:
            raise Undecided(SORTED)
        if len(sizes) != 1 or type_.get_num_dims() != 1 or not isinstance(sizes[0], isl.PwAff):
            raise Undecided("memory has a size that is not affine")
        self.values[op.memref] = Memory(len(self.values), (sizes[0],), width_of(type_.element_type), None)

    def run_memref_dealloc(self, op: memref.DeallocOp) -> None:
        """Free such memory."""
        memory = self.values[op.memref]
        assert isinstance(memory, Memory)
        self.values[op.memref] = replace(memory, is_freed=True)

    def _stored(self, op: Operation, memory: Memory, subscripts: Subscripts, value: Value) -> None:
        """Remember a store of a position."""
        is_buffer = memory.depth is not None
        if isinstance(value, Opaque):
            raise Undecided(LISTED)
        unknown = "where, or whether, a position is staged depends on an index, or is not affine"
        places = affine_of(subscripts, LISTED if is_buffer else unknown)
        if not is_buffer and (self.here.under or self.here.guard is not None):
            raise Undecided(unknown)
        if memory.is_freed:
            raise Refuted("a position is staged in memory that is freed")
        self._access(op, "the buffer" if is_buffer else POSITIONS, places, memory.sizes)
        shared = [loop.label for loop in self.here.loops if loop.parallel][memory.depth :] if is_buffer else []
        if shared:
            self.meaning.problems.append(f"iterations of the parallel loop {shared[0]} store to one buffer")
        term = self.term(value, memory.bits)
        term = Term(bits.widened(term.expression, memory.bits), term.atoms)
        stores = self.buffered if is_buffer else self.meaning.staged
        stores.append(Write(self.here, places, term, number=memory.number))

    def _buffered(self, op: Operation, memory: Memory, subscripts: Subscripts) -> Term:
        """Return what a load of a buffer reads: what the stores before it, in this iteration, have left there."""
        places = affine_of(subscripts, LISTED)
        self._access(op, "the buffer", places, memory.sizes)
        stores, first = _same_terms([store for store in self.buffered if store.number == memory.number])
        slots = [[self.fresh("staged") for _ in atom.subscripts] for atom in first.atoms.values()]
        written = union(self._matching(store, places, slots) for store in stores)
        if not self.here.domain.is_subset(without(written, [slot for group in slots for slot in group])):
            self.meaning.problems.append("a staged position is read before it is written")
        found: dict[str, Term] = {}
        for (name, atom), group in zip(first.atoms.items(), slots, strict=True):
            others = [slot for other in slots if other is not group for slot in other]
            read = replace(atom, subscripts=tuple(map(parameter, group)), among=without(written, others))
            found[name] = self.index(read, f"{atom.key} at {places}")
        return _substituted(first, found)

    def _matching(self, store: Write, places: Places, slots: list[list[str]]) -> isl.Set:
        """Return the iterations of now for which a store wrote these places, with the element that it had read."""
        common = {loop.parameter for loop in self.here.loops}
        there = store.place.domain & self.meaning.context
        for place, here in zip(affine_of(store.subscripts, LISTED), places, strict=True):
            there &= place.eq_set(here)
        assert isinstance(store.value, Term)
        for atom, group in zip(store.value.atoms.values(), slots, strict=True):
            there &= equal(group, atom.subscripts) & atom.among
        return without(there, {loop.parameter for loop in store.place.loops} - common)

    def _position(self, op: Operation, memory: Memory, place: Value) -> Term:
        """Return a staged position: computed from the index at the same place of all indices in C order."""
        if memory.is_freed:
            raise Refuted("a staged position is read from memory that is freed")
        stores = [store for store in self.meaning.staged if store.number == memory.number]
        if any(loop in self.here.loops for store in stores for loop in store.place.loops):
            raise Undecided("positions are staged and read in one loop")
        stores, first = _same_terms(stores)
        self._check_staged(memory, stores)
        ((name, atom),) = first.atoms.items()
        among, sizes = EVERYTHING, memory.sizes if atom.row is None else atom.row.sizes
        if isinstance(place, Bounded):  # any of the positions, such as one that a prefetch reads
            here, among = self._any_within(place)
            self._access(op, POSITIONS, (here,), memory.sizes, among)
            found = (here,) if atom.row is None else tuple(parameter(self.fresh("within")) for _ in sizes)
            for digit, size in zip(found, sizes, strict=True) if atom.row is not None else ():
                among &= within(digit, ZERO, size)
        elif atom.row is None:
            found = affine_of((place,), "a staged position is read at a place that is not affine")
            self._access(op, POSITIONS, found, sizes)
        else:
            found, among = self._subscripts_at(self.polynomial(place), sizes)
            self._access(op, POSITIONS, found, sizes, among)
        if atom.row is None:
            read = replace(_moved(atom, found[0]), among=among)
        else:
            read = Atom(atom.array.removeprefix("row of "), found, among, atom.bits)
        return _substituted(first, {name: self.index(read)})

    def _check_staged(self, memory: Memory, stores: Sequence[Write]) -> None:
        """Check that all positions are staged, each at the place of the one index that it is made from."""
        staged, place, context = list[isl.Set](), parameter("place"), self.meaning.context
        for store in stores:
            assert isinstance(store.value, Term)
            (at,) = affine_of(store.subscripts, POSITIONS)
            staged.append(only(store.place.domain & place.eq_set(at), ["place", *self.meaning.sizes]))
            if len(store.value.atoms) != 1:
                raise Undecided("a staged position is not made from one index")
            (atom,) = store.value.atoms.values()
            moved = store.place.domain & atom.among & atom.subscripts[_moving(atom)].ne_set(at)
            if not (moved & context).is_empty():
                raise Undecided("a position is staged at another place than that of its index")
        if not (within(place, ZERO, memory.sizes[0]) & context).is_subset(union(staged)):
            self.meaning.problems.append("a position is read that the check does not stage")

    def _subscripts_at(self, place: Polynomial | None, sizes: Places) -> tuple[Places, isl.Set]:
        """Return the subscripts of a place in C order, and the conditions on their own parameters.

        Raises:
            Undecided: one is not found, or is not affine.
        """
        if place is None:
            raise Undecided("an index, or a position, is read at a place that is not known")
        found: list[isl.PwAff] = []
        for dim, size in enumerate(sizes):
            behind = Polynomial.of(1)
            for other in sizes[dim + 1 :]:
                behind *= Polynomial.of(other)
            if behind.known is not None:  # so have all dimensions behind this one sizes that are numbers
                (last,) = affine_of((place.affine(),), "a place among all indices is not affine")
                return self._digits(tuple(found), last, sizes[dim:])
            if constant_of(size) == 1:
                found.append(ZERO)
                continue
            ((product, factor),) = behind.terms.items()
            times = place.divided(product, factor)
            found += affine_of((times.affine(),), "a place among all indices is not affine")
            place -= times * behind
        raise Undecided("indices have no dimension")

    def _digits(self, before: Places, place: isl.PwAff, sizes: Places) -> tuple[Places, isl.Set]:
        """Return subscripts of a place in dimensions of which all but the first have known sizes, behind others."""
        if all(constant_of(size) == 1 for size in sizes[1:]):
            return (*before, place, *[ZERO] * (len(sizes) - 1)), EVERYTHING
        digits, among = tuple(parameter(self.fresh("staged")) for _ in sizes), EVERYTHING
        for digit, size in zip(digits[1:], sizes[1:], strict=True):
            among &= within(digit, ZERO, size)
        return (*before, *digits), among & place.eq_set(_flat(digits, sizes))

    def _in_runs(self, lanes: Sequence[Value]) -> list[tuple[isl.Set, Term]]:
        """Return the lanes of a vector, in the parameter `lane`: those together that read indices side by side."""
        terms = [lane for lane in lanes if isinstance(lane, Term) and len(lane.atoms) == 1]
        if len(terms) != len(lanes):
            raise Undecided("a lane of a vector does not come from one index")
        found, begin = list[tuple[isl.Set, Term]](), 0
        while begin < len(terms):
            first, end = terms[begin], begin + 1
            step = _moves(first, terms[end]) if end < len(terms) else []
            step = step if set(step) <= {0, 1} else []
            while step and end < len(terms) and _moves(first, terms[end]) == [(end - begin) * each for each in step]:
                end += 1
            if end - begin > 1:
                ((name, atom),) = first.atoms.items()
                ahead = LANE - begin
                moved = tuple(at + ahead if each else at for at, each in zip(atom.subscripts, step, strict=True))
                first = _substituted(first, {name: self.index(replace(atom, subscripts=moved))})
            found.append((within(LANE, number(begin), number(end)), first))
            begin = end
        return found

    # Vectors, views and addresses

    def run_memref_prefetch(self, op: PrefetchOp) -> None:
        """Do nothing: a prefetch cannot fail, and the loads of its subscripts are checked by themselves."""

    def run_memref_extract_aligned_pointer_as_index(self, op: Operation) -> None:
        """Return an address."""
        array = self.values[op.operands[0]]
        assert isinstance(array, Argument)
        self.values[op.results[0]] = Opaque(Polynomial.of(f"the address of {array.name}"))

    def run_memref_collapse_shape(self, op: memref.CollapseShapeOp) -> None:
        """Drop dimensions of size 1 at the end, or see indices of the first dimensions as one."""
        array = self.values[op.src]
        assert isinstance(array, Argument)
        first, *rest = [len(group.data) for group in op.reassociation.data]
        rank = 1 + len(rest)
        is_first = all(size == 1 for size in rest) and (first > 1 or not rest)
        if is_first and array.name == "indices" and not (array.is_constant or array.dropped):
            row = Row(array.sizes[:first], self._product(array.sizes[:first]))
            self.values[op.result] = replace(array, sizes=(row.length, *array.sizes[first:]), row=row)
            return
        if any(constant_of(size) != 1 for size in array.sizes[rank:]):
            raise Undecided("a dimension that is dropped may be larger than 1")
        dropped = len(array.sizes) - rank + array.dropped
        self.values[op.result] = Argument(array.name, array.sizes[:rank], array.is_integer, dropped)

    def _product(self, sizes: Places) -> isl.PwAff:
        """Return how many elements an array has: a parameter of its own where that is no multiple of one size."""
        open_sizes = [size for size in sizes if constant_of(size) is None]
        if len(open_sizes) < 2:
            found = number(1)
            for size in sizes:
                found = found * size
            return found
        for name, factors in self.meaning.products.items():
            if list(map(str, factors)) == list(map(str, sizes)):
                return parameter(name)
        name = self.fresh("n_row")
        self.meaning.sizes.append(name)
        self.meaning.products[name] = sizes
        product = parameter(name)
        some, none = product.ge_set(ZERO), product.eq_set(ZERO)
        for size in sizes:  # as many as each size, unless one is 0
            some &= product.ge_set(size) | none
            none &= size.gt_set(ZERO)
        self.assume(some - none)
        return product

    def run_vector_from_elements(self, op: FromElementsOp) -> None:
        """Make a vector of elements."""
        self.values[op.results[0]] = Lanes(tuple(self.values[element] for element in op.operands))

    def run_vector_reduction(self, op: vector.ReductionOp) -> None:
        """Count the indices outside of some that are checked together."""
        value = self.values[op.operands[0]]
        if not isinstance(value, Lanes) or op.kind.data is not vector.CombiningKindFlag.ADD:
            raise Undecided("a reduction of a vector that does not count indices")
        terms = self._in_runs(value.elements)
        self.values[op.results[0]] = Counted(tuple((self.here.domain & held, term) for held, term in terms))

    def run_vector_broadcast(self, op: vector.BroadcastOp) -> None:
        """Repeat a mask, zero, a weight or a divisor in every lane."""
        value = self.values[op.source]
        if not isinstance(value, Mask | Weight | Divisor | Number) and not is_zero(value):
            raise Undecided("a vector of one number that is neither a mask nor zero")
        self.values[op.vector] = Zero() if is_zero(value) else value


def _is_stored_mean(write: Write) -> bool:
    """Return whether a write stores a register that was divided."""
    return isinstance(write.value, Element) and write.value.divisor is not None and not write.value.when


def _flat(places: Places, sizes: Places) -> isl.PwAff:
    """Return the place in C order of subscripts in dimensions of which all but the first have known sizes."""
    flat = places[0] if places else ZERO
    for place, size in zip(places[1:], sizes[1:], strict=True):
        flat = flat * size + place
    return flat


def _in_full(array: Argument, subscripts: Subscripts) -> Subscripts:
    """Return the subscripts of the array itself, where they are those of a view without its last dimensions."""
    return (*subscripts, *[ZERO] * array.dropped)


def _substituted(term: Term, indices: dict[str, Term]) -> Term:
    """Return a term with other indices in place of all of its own."""
    pairs = [(bits.variable(name, atom.bits), indices[name].expression) for name, atom in term.atoms.items()]
    return Term(
        z3.substitute(term.expression, *pairs),
        {key: atom for each in indices.values() for key, atom in each.atoms.items()},
    )


def _same_terms(stores: list[Write]) -> tuple[list[Write], Term]:
    """Return stores in the variables of the first one, and its term, where all compute the same from their indices."""
    if not stores:
        raise Refuted("a staged position is read before any is staged")
    first = stores[0].value
    assert isinstance(first, Term)
    return [replace(store, value=_as_variables_of(first, store.value)) for store in stores], first


def _as_variables_of(first: Term, value: object) -> Term:
    """Return a term in the variables of another that computes the same; raises Undecided where it does not."""
    assert isinstance(value, Term)
    if len(value.atoms) == len(first.atoms):
        pairs = zip(value.atoms.items(), first.atoms.items(), strict=True)
        names = [(bits.variable(name, atom.bits), bits.variable(own, atom.bits)) for (name, atom), (own, _) in pairs]
        expression = z3.substitute(value.expression, *names)
        if expression.eq(first.expression) or bits.find([expression != first.expression], []) is None:
            return Term(first.expression, dict(zip(first.atoms, value.atoms.values(), strict=True)))
    raise Undecided("stores to one buffer compute different things")


def _moves(first: Term, other: Term) -> list[int]:
    """Return how far an index is from that of another, along each subscript; empty where it is not known."""
    try:
        (there,) = _as_variables_of(first, other).atoms.values()
    except Undecided:
        return []
    (here,) = first.atoms.values()
    moves = [constant_of(place - at) for place, at in zip(there.subscripts, here.subscripts, strict=True)]
    return [] if None in moves else moves  # type: ignore[return-value]


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
