"""Loads and stores of arrays: which element each reads or writes, for all sizes."""

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl
from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import IntegerAttr, MemRefType, VectorType
from xdsl.ir import Operation, SSAValue

from ....ir.dialects.gather_dialect import AccumulateOp, MaskedLoadOp
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import CompressStoreOp, FromElementsOp, PrefetchOp, is_nontemporal
from . import bit_vectors as bits
from .arithmetic import Arithmetic, in_lanes, is_zero, width_of
from .checked_positions import CheckedPositions
from .combining import word_of_larger
from .integer_sets import constant_of, everything, number, parameter, without
from .meaning import Access, Loop, Stream, Write
from .polynomials import named, polynomial_of
from .staged import LISTED, Staged
from .values import (
    Argument,
    Atom,
    Bounded,
    Buffer,
    Condition,
    Counted,
    Divisor,
    Element,
    Lanes,
    Mask,
    Number,
    Opaque,
    PositionMemory,
    Refuted,
    Row,
    Summed,
    Term,
    Undecided,
    Value,
    Weight,
    Zero,
)


class Accesses(Staged, CheckedPositions, Arithmetic):
    """Handlers of loads and stores that the walk over a module inherits."""

    loops: tuple[Loop, ...]

    def run_memref_load(self, op: memref.LoadOp) -> None:
        """Load an element, an index or a staged position."""
        self.values[op.res] = self._loaded(op, op.memref, op.indices, width_of(op.res.type))

    def run_gather_masked_load(self, op: MaskedLoadOp) -> None:
        """Load an element where the mask holds."""
        mask, before = self.values[op.mask], self.under
        if not isinstance(mask, Term):
            raise Undecided("a mask does not come from indices")
        self.under = (*self.under, mask)
        loaded = self._loaded(op, op.memref, op.subscripts, 0)
        self.under = before
        assert isinstance(loaded, Element)
        self.values[op.element] = loaded.masked(mask)

    def run_vector_load(self, op: vector.LoadOp) -> None:
        """Load a vector: its elements lie along the last dimension."""
        before, type_ = self.domain, op.result.type
        assert isinstance(type_, VectorType)
        self.domain = self.domain.intersect(in_lanes(type_.get_shape()[0]))
        self.values[op.result] = self._loaded(op, op.base, op.indices, width_of(type_), lane=True)
        self.domain = before

    def _subscripts(self, given: Sequence[SSAValue], lane: bool) -> tuple[isl.PwAff | Term, ...]:
        found: list[isl.PwAff | Term] = []
        for value in (self.values[subscript] for subscript in given):
            if not isinstance(value, isl.PwAff | Term):
                raise Undecided("a subscript is neither affine nor an index")
            found.append(value)
        if lane:
            last = found[-1]
            if not isinstance(last, isl.PwAff):
                raise Undecided("a vector begins at an index")
            found[-1] = last.add(parameter("lane"))
        return tuple(found)

    def _loaded(
        self, op: Operation, memory: SSAValue, given: Sequence[SSAValue], width: int, lane: bool = False
    ) -> Value:
        array = self.values[memory]
        if isinstance(array, PositionMemory) and not lane:
            return self.load_position(op, array, [self.values[subscript] for subscript in given])
        if any(isinstance(self.values[subscript], Bounded) for subscript in given) and not lane:
            return self._index_within(op, array, [self.values[subscript] for subscript in given], width)
        if isinstance(array, Argument) and array.row and isinstance(self.values[given[0]], Opaque):
            return self._index_in_rows(op, array, given, width)
        subscripts = self._subscripts(given, lane)
        if isinstance(array, Buffer):
            return self.load_staged(op, array, subscripts)
        if not isinstance(array, Argument):
            raise Undecided("a load of memory that is not known")
        self._access(op, array, subscripts)
        if not array.is_integer:
            when = (self.loops, len(self.meaning.writes)) if array.name == "out" else ()
            return Element(array.name, _in_full(array, subscripts), when=when)
        places = tuple(place for place in subscripts if isinstance(place, isl.PwAff))
        if len(places) != len(subscripts):
            raise Undecided("an index is found by another index")
        if array.is_constant:
            places = (_flat(array, places),)
        return self._index(array, places, everything(), width)

    def _index(self, array: Argument, places: tuple[isl.PwAff, ...], among: isl.Set, width: int) -> Term:
        atom = Atom(f"row of {array.name}" if array.row else array.name, places, among, width, array.row)
        name = self.name_of(atom)
        return Term(bits.variable(name, width), {name: atom})

    def _index_within(self, op: Operation, array: Value, given: Sequence[Value], width: int) -> Term:
        """Load any of the indices at places of which bounds are known: such as one that a prefetch resolves."""
        if not isinstance(array, Argument) or not array.is_integer or array.is_constant:
            raise Undecided("a place is only known to lie within bounds")
        places, among = list[isl.PwAff](), everything()
        for value in given:
            if isinstance(value, Bounded):
                value, known = self.bounded_place(value)
                among = among.intersect(known)
            if not isinstance(value, isl.PwAff):
                raise Undecided("an index is found by another index")
            places.append(value)
        before, self.domain = self.domain, self.domain.intersect(among)
        self._access(op, array, tuple(places))
        self.domain = before
        return self._index(array, tuple(places), among, width)

    def _index_in_rows(self, op: Operation, array: Argument, given: Sequence[SSAValue], width: int) -> Term:
        """Load an index at a place in the run of all of them that is a row times its size, and a place in it."""
        assert array.row is not None
        found, among = self.subscripts_in_rows(self.values[given[0]], array.row)
        places = (*found, *(place for place in self._subscripts(given[1:], False) if isinstance(place, isl.PwAff)))
        whole = replace(array, sizes=(*array.row.sizes, *array.sizes[1:]), row=None)
        self._access(op, whole, places)
        return self._index(whole, places, among, width)

    def _access(self, op: Operation, array: Argument, subscripts: tuple[isl.PwAff | Term, ...]) -> None:
        place = self.domain, subscripts, array.sizes, self.under, self.guard
        self.meaning.accesses.append(Access(op, array.name, *place))

    def run_memref_store(self, op: memref.StoreOp) -> None:
        """Store an element, or stage a position."""
        self._written(op, self.values[op.memref], self._subscripts(op.indices, False), self.values[op.value])

    def run_vector_compressstore(self, op: CompressStoreOp) -> None:
        """Raise Undecided: what is stored side by side is a list."""
        raise Undecided(LISTED)

    def run_vector_store(self, op: vector.StoreOp) -> None:
        """Store a vector."""
        array, value, type_ = self.values[op.base], self.values[op.vector], op.vector.type
        assert isinstance(type_, VectorType)
        alignment = op.attributes.get("alignment")
        if is_nontemporal(op) and isinstance(alignment, IntegerAttr) and alignment.value.data > 1:
            self._streamed(array, self._subscripts(op.indices, False), type_, alignment.value.data)
        self._in_lanes(op, array, self._subscripts(op.indices, True), value, type_.get_shape()[0])

    def _streamed(self, array: Value, subscripts: tuple, type_: VectorType, alignment: int) -> None:
        """Remember a non-temporal store, with its address."""
        places = [self.polynomial(place) for place in subscripts]
        if not isinstance(array, Argument) or any(place is None for place in places):
            raise Undecided("the address of a non-temporal store is not known")
        place = polynomial_of(number(0))
        for subscript, size in zip(places, array.sizes, strict=True):
            assert subscript is not None
            place = place.times(polynomial_of(size)).plus(subscript)
        address = named(f"the address of {array.name}").plus(place, element_size_bytes(type_.element_type))
        self.meaning.streams.append(Stream(self.domain, address, alignment))

    def _in_lanes(self, op: Operation, array: Value, subscripts: tuple, value: Value, lanes: int, **how: bool) -> None:
        before = self.domain
        if isinstance(value, Lanes):
            each = [(parameter("lane").eq_set(number(lane)), element) for lane, element in enumerate(value.elements)]
            for held, element in self.in_runs(value.elements) if isinstance(array, PositionMemory) else each:
                self.domain = before.intersect(held)
                self._written(op, array, subscripts, element, **how)
        else:
            self.domain = before.intersect(in_lanes(lanes))
            self._written(op, array, subscripts, value, **how)
        self.domain = before

    def run_gather_accumulate(self, op: AccumulateOp) -> None:
        """Add an element, or a vector."""
        array, value, before = self.values[op.memref], self.values[op.element], self.under
        if op.first is not None:
            value = self._largest(op, value)
        if op.mask is not None:
            mask = self.values[op.mask]
            if not isinstance(mask, Term):
                raise Undecided("a mask does not come from indices")
            self.under = (*self.under, mask)
        if isinstance(op.element.type, VectorType):
            lanes = op.element.type.get_shape()[0]
            self._in_lanes(op, array, self._subscripts(op.subscripts, True), value, lanes, adds=True)
        else:
            self._written(op, array, self._subscripts(op.subscripts, False), value, adds=True)
        self.under = before

    def _largest(self, op: AccumulateOp, value: Value) -> Element:
        """Return the element that a maximum takes."""
        first, type_ = self.values[op.first] if op.first is not None else None, op.element.type
        if not isinstance(first, Condition) or not isinstance(value, Element):
            raise Undecided("a maximum is taken of what is no element, or begins where nothing says")
        type_ = type_.element_type if isinstance(type_, VectorType) else type_
        return replace(value, larger=word_of_larger(type_), first=first.holds)

    def _written(
        self, op: Operation, array: Value, subscripts: tuple[isl.PwAff | Term, ...], value: Value, adds: bool = False
    ) -> None:
        if isinstance(array, Buffer | PositionMemory):
            if isinstance(value, Opaque):
                raise Undecided(LISTED)
            store = self.store_staged if isinstance(array, Buffer) else self.store_position
            return store(op, array, subscripts, self.term(value, array.bits))  # type: ignore[arg-type]
        if not isinstance(array, Argument):
            raise Undecided("a store to memory that is not known")
        if isinstance(value, Summed):
            return self._written_sum(op, array, subscripts, value)
        value = Zero() if is_zero(value) else value
        if isinstance(value, Number | isl.PwAff):
            raise Refuted(f"{op.name} writes a number to {array.name}")
        if not isinstance(value, Element | Zero):
            raise Undecided(f"{op.name} writes what is no element")
        self._access(op, array, subscripts)
        subscripts = _in_full(array, subscripts)
        if isinstance(value, Element) and (total := value.total or value).array == "out":
            if list(map(str, total.subscripts)) != list(map(str, subscripts)):
                raise Undecided("a sum is stored elsewhere than it was loaded from")
            if total.when != (self.loops, len(self.meaning.writes)):
                raise Undecided("between the load of a sum and its store is a loop or another store")
            value, adds = replace(value, total=None), adds or value.total is not None
        where = self.loops, self.domain, self.path, subscripts
        self.meaning.writes.append(Write(op, array.name, *where, value, self.under, adds, self.guard))

    def _written_sum(
        self, op: Operation, array: Argument, subscripts: tuple[isl.PwAff | Term, ...], value: Summed
    ) -> None:
        """Store a register: as zero before the loop that sums it, and as what that adds."""
        around = without(self.domain, ["lane"])
        others = [write for write in self.meaning.writes[value.written :] if not _is_stored_mean(write)]
        is_behind = value.domain is not None and around.is_equal(value.domain) and self.loops == value.loops
        if not is_behind or self.under or any(write.path[: len(value.path)] != value.path for write in others):
            raise Undecided("a sum in a register is not stored right behind the loop that sums it")
        self._access(op, array, subscripts)
        subscripts = _in_full(array, subscripts)
        where = op, array.name
        self.meaning.writes.append(
            Write(*where, self.loops, self.domain, value.path, subscripts, Zero(), (), False, self.guard)
        )
        for added in value.added:
            domain, of = added.domain.intersect(self.domain), added.value
            self.meaning.writes.append(
                Write(*where, added.loops, domain, added.path, subscripts, of, added.under, True, self.guard)
            )
        if value.divisor is not None:
            mean = Element("out", subscripts, changed="divided", divisor=value.divisor)
            here = self.loops, self.domain, self.path
            self.meaning.writes.append(Write(*where, *here, subscripts, mean, (), False, self.guard))

    def run_memref_prefetch(self, op: PrefetchOp) -> None:
        """Do nothing: a prefetch cannot fail, and the loads of its subscripts are checked by themselves."""

    def run_memref_extract_aligned_pointer_as_index(self, op: Operation) -> None:
        """Return an address."""
        array = self.values[op.operands[0]]
        assert isinstance(array, Argument)
        self.values[op.results[0]] = Opaque(named(f"the address of {array.name}"))

    def run_memref_collapse_shape(self, op: memref.CollapseShapeOp) -> None:
        """Drop dimensions of size 1 at the end, or see indices of the first dimensions as one."""
        array = self.values[op.src]
        assert isinstance(array, Argument) and isinstance(op.result.type, MemRefType)
        rank, (first, *rest) = op.result.type.get_num_dims(), op.reassociation.data
        is_first = all(len(group.data) == 1 for group in rest) and (len(first.data) > 1 or not rest)
        if is_first and array.name == "indices" and not (array.is_constant or array.dropped):
            merged = array.sizes[: len(first.data)]
            row = Row(merged, self._product(merged))
            self.values[op.result] = replace(array, sizes=(row.length, *array.sizes[len(merged) :]), row=row)
            return
        if any(constant_of(size) != 1 for size in array.sizes[rank:]):
            raise Undecided("a dimension that is dropped may be larger than 1")
        dropped = len(array.sizes) - rank + array.dropped
        self.values[op.result] = Argument(array.name, array.sizes[:rank], array.is_integer, dropped)

    def _product(self, sizes: tuple[isl.PwAff, ...]) -> isl.PwAff:
        """Return how many elements an array has: a parameter of its own where that is no multiple of one size."""
        found = number(1)
        for size in sizes:
            if constant_of(found) is None and constant_of(size) is None:
                break
            found = found.mul(size)
        else:
            return found
        for name, factors in self.meaning.products.items():
            if list(map(str, factors)) == list(map(str, sizes)):
                return parameter(name)
        name = self.fresh("n_row")
        self.meaning.sizes.append(name)
        self.meaning.products[name] = sizes
        some, none = parameter(name).ge_set(number(0)), parameter(name).eq_set(number(0))
        for size in sizes:  # as many as each size, unless one is 0
            some = some.intersect(parameter(name).ge_set(size).union(none))
            none = none.intersect(size.gt_set(number(0)))
        known = some.subtract(none)
        self.meaning.context, self.domain = self.meaning.context.intersect(known), self.domain.intersect(known)
        return parameter(name)

    def run_vector_from_elements(self, op: FromElementsOp) -> None:
        """Make a vector of elements."""
        self.values[op.results[0]] = Lanes(tuple(self.values[element] for element in op.operands))

    def run_vector_reduction(self, op: vector.ReductionOp) -> None:
        """Count the indices outside of some that are checked together."""
        value = self.values[op.operands[0]]
        if not isinstance(value, Lanes) or op.kind.data is not vector.CombiningKindFlag.ADD:
            raise Undecided("a reduction of a vector that does not count indices")
        terms = self.in_runs(value.elements)
        self.values[op.results[0]] = Counted(tuple((self.domain.intersect(held), term) for held, term in terms))

    def run_vector_broadcast(self, op: vector.BroadcastOp) -> None:
        """Repeat a mask, zero, a weight or a divisor in every lane."""
        value = self.values[op.source]
        if not isinstance(value, Mask | Weight | Divisor | Number) and not is_zero(value):
            raise Undecided("a vector of one number that is neither a mask nor zero")
        self.values[op.vector] = Zero() if is_zero(value) else value


def _is_stored_mean(write: Write) -> bool:
    """Return whether a write stores a register that was divided."""
    return isinstance(write.value, Element) and write.value.divisor is not None and not write.value.when


def _flat(array: Argument, places: tuple[isl.PwAff, ...]) -> isl.PwAff:
    """Return the place of an element of a constant in C order."""
    flat = number(0)
    for place, size in zip(places, array.sizes, strict=True):
        flat = flat.mul(size).add(place)
    return flat


def _in_full(array: Argument, subscripts: tuple[isl.PwAff | Term, ...]) -> tuple[isl.PwAff | Term, ...]:
    """Return the subscripts of the array itself, where they are those of a view without its last dimensions."""
    return (*subscripts, *[number(0)] * array.dropped)
