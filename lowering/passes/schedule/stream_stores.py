"""The pass `stream-stores`: within the scheduled nest, level 3."""

from collections.abc import Sequence
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, MemRefType, ModuleOp, NoneAttr, VectorType, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, YieldOp
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import PrefetchOp, is_nontemporal
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ...nest.builder import (
    NestBuilder,
    builder_at_end,
    builder_before,
    made_from,
    replace_op,
    rows_of,
    split_off_remainder,
    whole_end,
)
from ...nest.queries import clone_slice, functions, slice_of, static_size, static_trips
from ...schedule import steps
from ...schedule.machine_model import MIN_SINGLE_BYTES, STREAM_BYTES

# The shortest rows of known size whose vectors are stored whole. In C on a Zen 4, relative to parts of 16 bytes, this
# is 1.1 to 1.3 times as fast for rows of 256 B from memory, 1.2 for 1 KB, and 1.0 for 64 B and 128 B. For rows of an
# unknown size it is 1.05 to 1.3 for 1 KB, and 0.95 to 1.0 for 4 KB and 64 KB, whose loop prefetches the next row.
MIN_WHOLE_BYTES = 256

Streamed = TypeVar("Streamed", bound=Operation)


@steps.pass_of_step
class StreamStores(ModulePass, steps.StreamStores):
    """Write vectors with non-temporal stores, which read no line of out.

    This pays where out is larger than its share of the last-level cache; below that, the next reader of out misses the
    caches. A streamed vector is aligned to its size, to 16 bytes at most, and a longer one is stored 16 bytes at a
    time, since NumPy's arrays begin at multiples of 16; but vectors of long rows are stored whole. All stores to a line
    of out must be non-temporal, or the line is read after all and written twice:

    * A loop with a remainder loop of single elements gets a peeled prologue up to the first aligned element. Single
      elements are streamed where they have 4 bytes or more; the processor cannot stream smaller ones.
    * A row of known size whose remainder is one overlapping vector gets such a vector as its prologue. Both are stored
      unaligned, in parts, and before the vectors between them: a full line goes to memory at once.
    * A loop over a known number of whole vectors streams all of them when out is aligned, and none when it is not.
    * Where they make rows of 256 bytes or more, vectors longer than 16 bytes are aligned to their size, and both ends
      of the row, before and behind them, are stored 16 bytes at a time. Rows of unknown size have this form, too,
      between their single elements, except in a loop that also prefetches the next row.

    before                              after stream-stores
        for inner in 0..w step 8            for inner_head in 0..h
          out[i, j:j+8] = ...                 stream out[i, j] = ...
        for inner_rest in w..n              for inner in h..w step 8
          out[i, j] = ...                     stream out[i, j:j+8] = ...
                                            for inner_rest in w..n
                                              stream out[i, j] = ...

    In a gradient the initial zeros are streamed, 16 bytes at a time.

    Preconditions: `vectorize-inner` has run, except for gradients, whose loop that clears steps from element to
    element.

    Input:
        gather.loop inner(%j) = %c0 to %whole step %c8 { ... vector.store %element, %out[%b, %o, %i, %j] ... }
        gather.loop inner_rest(%j) = %whole to %n step %c1 { ... }
    Output:
        gather.loop inner_head(%j) = %c0 to %aligned step %c1 { ... }
        gather.loop inner(%j) = %aligned to %whole step %c8 {
          ... vector.store %element, %out[%b, %o, %i, %j] {nontemporal = true, alignment = 16 : i64} ... }
        gather.loop inner_rest(%j) = %whole to %n step %c1 { ... }

    What it does not do: a gradient into an out that is not contiguous stays as it is.

    Raises:
        ScheduleError: there are no vector stores, they stream already, or the remainder loop is unrolled.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            adds = any(isinstance(inner, AccumulateOp) for inner in function.walk())
            if adds and not _vectorize_clearing(function):
                continue
            stores = [inner for inner in function.walk() if isinstance(inner, vector.StoreOp) and not _ends_row(inner)]
            if not stores:
                raise ScheduleError("stream-stores: expected vector stores; run vectorize-inner first")
            if any(is_nontemporal(store) for store in stores):
                raise ScheduleError("stream-stores: the vector stores are non-temporal already")
            for store in stores:
                _Streaming(function, store).stream()


def _vectorize_clearing(function: func.FuncOp) -> bool:
    """Clear out with vectors before a gradient adds to it; return False where out is not contiguous."""
    arguments = function.body.block.args
    clearing = (op for op in function.walk() if isinstance(op, memref.StoreOp) and op.memref in arguments)
    store = next((op for op in clearing if isinstance(op.value.owner, arith.ConstantOp)), None)
    if store is None:
        return True
    loop, type_ = store.parent_op(), SSAValue.get(store.memref, type=MemRefType).type
    if not isinstance(type_.layout, NoneAttr):
        return False
    own = [dim for dim, place in enumerate(store.indices) if isinstance(loop, LoopOp) and place is loop.induction]
    if (
        not isinstance(loop, LoopOp)
        or loop.parallel is not None
        or static_size(loop.step) != 1
        or len(own) != 1
        or any(size != 1 for size in type_.get_shape()[own[0] + 1 :])
    ):
        raise ScheduleError("stream-stores: the innermost loop that clears out does not clear side by side")
    lanes = STREAM_BYTES // element_size_bytes(type_.element_type)
    rows = rows_of(function, store.memref, own[0])
    body, rest = split_off_remainder(loop, lanes)
    builder = builder_at_end(body)
    nothing = builder.named(vector.BroadcastOp(store.value, VectorType(type_.element_type, [lanes])), "nothing")
    places = [body.induction if dim == own[0] else place for dim, place in enumerate(store.indices)]
    builder.insert(vector.StoreOp(nothing, rows, places[: own[0] + 1]))
    builder.insert(YieldOp())
    if not rest:
        Rewriter.erase_op(loop)
    return True


def _ends_row(store: vector.StoreOp) -> bool:
    """Return whether a store writes the overlapping vector at the end of a row."""
    loop = store.parent_op()
    return isinstance(loop, LoopOp) and loop.label.is_remainder


def stream_row(stores: Sequence[vector.StoreOp]) -> None:
    """Stream the vectors of a row, stored one behind the other, where out begins at a multiple of 16 bytes.

    They stay as they are where the size of a vector, or of a row of out, is no multiple of 16 bytes.
    """
    first, last = stores[0], stores[-1]
    memory, kind = SSAValue.get(first.base, type=MemRefType), SSAValue.get(first.vector, type=VectorType).type
    width_bytes, sizes = element_size_bytes(kind.element_type), (kind.get_shape()[0], memory.type.get_shape()[-1])
    is_packed = isinstance(memory.type.layout, NoneAttr)
    if not is_packed or any(size <= 0 or size * width_bytes % STREAM_BYTES for size in sizes):
        return
    builder = builder_before(last)
    over = builder.compute(arith.RemUIOp, _address_of(builder, memory, first.indices[-1:]), STREAM_BYTES, "over")
    streamed = [_mark_streaming(made_from(store, store.clone()), STREAM_BYTES) for store in stores]
    _either(builder, builder.compare("eq", over, 0, "is_aligned"), streamed, stores)


def _address_of(builder: NestBuilder, memory: SSAValue, subscripts: Sequence[SSAValue]) -> SSAValue:
    """Insert the address of an element of contiguous memory from its last subscripts; the others must not count."""
    type_ = SSAValue.get(memory, type=MemRefType).type
    shape, place = type_.get_shape(), None
    for dim, subscript in enumerate(subscripts, len(shape) - len(subscripts)):
        if place is not None and shape[dim] != 1:
            place = builder.compute(arith.MuliOp, place, builder.size(memory, dim, f"out_{dim}"), "row")
        place = subscript if place is None else builder.compute(arith.AddiOp, place, subscript, "place")
    assert place is not None
    base = builder.named(memref.ExtractAlignedPointerAsIndexOp.get(memory), "base")
    offset = builder.compute(arith.MuliOp, place, element_size_bytes(type_.element_type), "offset")
    return builder.compute(arith.AddiOp, base, offset, "address")


def _mark_streaming(root: Streamed, alignment_bytes: int) -> Streamed:
    """Mark the stores of vectors at or below an operation as non-temporal; return it."""
    for op in root.walk():
        if isinstance(op, vector.StoreOp):
            op.properties["nontemporal"] = BoolAttr.from_bool(True)
            op.attributes["alignment"] = IntegerAttr(alignment_bytes, i64)
    return root


def _either(
    builder: NestBuilder, condition: SSAValue, streaming: Sequence[Operation], cached: Sequence[Operation]
) -> None:
    """Run the streaming operations where a condition holds, and the original ones where it does not."""
    conditional = builder.insert(scf.IfOp(condition, [], Region(Block()), Region(Block())))
    for op in cached:
        op.detach()
        if isinstance(op, LoopOp):
            op.label = op.label.cached
    for region, ops in ((conditional.true_region, streaming), (conditional.false_region, cached)):
        region.block.add_ops([*ops, made_from(conditional, scf.YieldOp())])


class _Streaming:
    """One vector store and its loop."""

    def __init__(self, function: func.FuncOp, store: vector.StoreOp):
        self.function, self.store = function, store
        loop, type_ = store.parent_op(), SSAValue.get(store.vector, type=VectorType).type
        self.lanes = type_.get_shape()[0]
        if (
            not isinstance(loop, LoopOp)
            or static_size(loop.step) != self.lanes
            or type_.get_num_dims() != 1
            or self.lanes & (self.lanes - 1)
            or not store.indices
            or store.indices[-1] is not loop.induction
            or not isinstance(store.base.type, MemRefType)
            or not isinstance(store.base.type.layout, NoneAttr)
        ):
            raise ScheduleError(
                f"stream-stores: expected a store of {type_} to a contiguous out in a loop that steps from vector to "
                "vector, as vectorize-inner makes it"
            )
        self.loop = loop
        self.width_bytes = element_size_bytes(type_.element_type)
        self.size_bytes = self.lanes * self.width_bytes
        self.alignment_bytes = min(self.size_bytes, STREAM_BYTES)

    def stream(self) -> None:
        behind = self.loop.next_op
        while behind is not None and not (isinstance(behind, LoopOp) and behind.label == self.loop.label.remainder):
            behind = behind.next_op
        if not isinstance(behind, LoopOp):
            self._stream_whole()
        elif any(isinstance(op, vector.StoreOp) for op in behind.walk()):
            self._stream_row(behind)
        elif static_size(behind.step) == 1:
            self._peel(behind)
        else:
            raise ScheduleError(
                f"stream-stores: {behind.label} takes several elements at a time, and the prologue cannot; "
                "unroll another loop"
            )

    # Whole vectors, in a branch beside the original loops

    def _stream_whole(self) -> None:
        """Stream a loop of whole vectors where out is aligned, and leave it as it was where it is not."""
        builder, loop = builder_before(self.loop), self.loop
        address = self._address(builder)
        row_bytes = (static_trips(loop) or 0) * self.width_bytes
        if row_bytes >= MIN_WHOLE_BYTES and self._has_parts():
            beyond = self._over(builder, address, self.size_bytes)
            aligned = builder.compare("eq", self._over(builder, beyond), 0, "is_aligned")
            first = self._behind(builder, self._short(builder, beyond, self.size_bytes))
            names = loop.label.prologue, loop.label.remainder
            streaming = self._between_parts(builder, (loop.lower, first, loop.upper), names)
        else:
            aligned = builder.compare("eq", self._over(builder, address), 0, "is_aligned")
            streaming = [self._copy(self.alignment_bytes)]
        _either(builder, aligned, streaming, [loop])

    def _stream_row(self, remainder: LoopOp) -> None:
        """Stream a row that ends with an overlapping vector, and begin it with another one.

        Both ends are stored first: a full line goes to memory at once, and a second write to it is slow.
        """
        start, stop = static_size(remainder.lower), static_size(remainder.upper)
        if start is None or stop is None or not stop - start == static_size(remainder.step) == self.lanes:
            raise ScheduleError(
                f"stream-stores: {remainder.label} has vectors of its own; run vectorize-inner once before it"
            )
        builder = builder_before(remainder)
        over = self._over(builder, self._address(builder))
        first, whole = self._copy(1), self._copy(self.alignment_bytes)
        first.label = self.loop.label.prologue
        first.operands[1] = builder.compute(arith.AddiOp, first.lower, self.lanes, "end")
        whole.operands[0] = self._behind(
            builder, builder.compute(arith.SubiOp, builder.index(self.alignment_bytes), over, "short")
        )
        whole.operands[1] = whole_end(builder, whole.lower, remainder.upper, self.lanes)
        streaming = [first, _mark_streaming(remainder.clone(), 1), whole]
        _either(builder, self._fits(builder, over), streaming, [self.loop, remainder])

    # Peeled ends, without a branch

    def _peel(self, remainder: LoopOp) -> None:
        """Stream a loop of vectors, and the elements of its peeled prologue and its remainder one by one."""
        builder, loop = builder_before(self.loop), self.loop
        lower, upper = loop.lower, remainder.upper
        has_parts = self._has_parts() and not any(isinstance(op, PrefetchOp) for op in loop.walk())
        beyond = over = self._over(builder, self._address(builder), self.size_bytes if has_parts else 0)
        if has_parts:
            over = self._over(builder, beyond)
        short = self._short(builder, over, self.alignment_bytes)
        stop = builder.compute(arith.MinSIOp, self._behind(builder, short), upper, "first")
        fits = self._fits(builder, over) if self.width_bytes > 1 else None
        stop = stop if fits is None else builder.select(fits, stop, upper, None)
        stop.name_hint = "aligned"
        end = whole_end(builder, stop, upper, self.part_lanes if has_parts else self.lanes)
        first = remainder.clone()
        first.label, first.induction.name_hint = loop.label.prologue, loop.induction.name_hint
        first.operands[1] = stop
        first.operands[0] = lower
        builder.insert(first)
        remainder.operands[0] = end
        for op in (*first.walk(), *remainder.walk()):  # single elements, where they are large enough for the processor
            if isinstance(op, memref.StoreOp) and element_size_bytes(op.value.type) >= MIN_SINGLE_BYTES:
                op.properties["nontemporal"] = BoolAttr.from_bool(True)
        if not has_parts:
            loop.operands[0], loop.operands[1] = stop, end
            _mark_streaming(loop, self.alignment_bytes)
            return
        whole = self._behind(builder, self._short(builder, beyond, self.size_bytes))
        whole = builder.compute(arith.MinSIOp, whole, end, "first")
        whole = whole if fits is None else builder.select(fits, whole, end, "first")
        names = loop.label.prologue.parts, loop.label.remainder.parts
        for each in self._between_parts(builder, (stop, whole, end), names):
            builder.insert(each)
        Rewriter.erase_op(loop)

    # Loops

    @property
    def part_lanes(self) -> int:
        """The lanes of a part of a vector: of the longest non-temporal store that is aligned in every array."""
        return self.alignment_bytes // self.width_bytes

    def _has_parts(self) -> bool:
        """Return whether vectors are longer than their parts, and the loop has no vector but the one that it copies."""
        vectors = [
            op
            for op in self.loop.walk()
            if any(isinstance(value.type, VectorType) for value in (*op.operands, *op.results))
        ]
        load = self.store.vector.owner
        return self.lanes > self.part_lanes > 1 and isinstance(load, vector.LoadOp) and vectors == [load, self.store]

    def _copy(self, alignment_bytes: int) -> LoopOp:
        """Return a copy of the loop that streams its vectors."""
        copy = _mark_streaming(self.loop.clone(), alignment_bytes)
        copy.induction.name_hint = self.loop.induction.name_hint
        return copy

    def _between_parts(
        self, builder: NestBuilder, bounds: tuple[SSAValue, SSAValue, SSAValue], names: tuple[LoopName, LoopName]
    ) -> list[LoopOp]:
        """Return a loop of parts up to the second bound, one of whole vectors, and one of parts up to the last bound.

        Args:
            bounds: the start of the first loop; the first multiple of the size of a vector; the end of all loops.
            names: of the loops of parts.
        """
        lower, first, upper = bounds
        end = whole_end(builder, first, upper, self.lanes)
        head, whole, rest = (
            self._copy(self.alignment_bytes),
            self._copy(self.size_bytes),
            self._copy(self.alignment_bytes),
        )
        for loop, name in zip((head, rest), names, strict=True):
            loop.label, loop.operands[2] = name, builder.index(self.part_lanes)
            for load in [op for op in loop.walk() if isinstance(op, vector.LoadOp)]:
                type_ = VectorType(load.result.type.element_type, [self.part_lanes])
                replace_op(load, narrow := vector.LoadOp(load.base, load.indices, type_))
                narrow.result.name_hint = load.result.name_hint
        for loop, (start, stop) in zip((head, whole, rest), ((lower, first), (first, end), (end, upper)), strict=True):
            loop.operands[0], loop.operands[1] = start, stop
        return [head, whole, rest]

    # Addresses

    def _address(self, builder: NestBuilder) -> SSAValue:
        """Insert the address of the element that the loop's first iteration writes."""
        mapping: dict[SSAValue, SSAValue] = {self.loop.induction: self.loop.lower}
        mapping = clone_slice(slice_of(self.store.indices, self.loop), builder, mapping)
        return _address_of(builder, self.store.base, [mapping.get(each, each) for each in self.store.indices])

    def _over(self, builder: NestBuilder, address: SSAValue, size: int = 0) -> SSAValue:
        """Insert the bytes from the last multiple of a size, the alignment where it is 0, to an address."""
        return builder.compute(arith.RemUIOp, address, size or self.alignment_bytes, "over")

    def _short(self, builder: NestBuilder, over: SSAValue, size_bytes: int) -> SSAValue:
        """Insert the bytes, perhaps none, from an address to the next multiple of a size."""
        size = builder.index(size_bytes)
        short = builder.compute(arith.SubiOp, size, over, "short")
        return builder.compute(arith.RemUIOp, short, size, "short")

    def _behind(self, builder: NestBuilder, short: SSAValue) -> SSAValue:
        """Insert the induction value of the element at an offset in bytes behind the first."""
        head = builder.compute(arith.DivUIOp, short, self.width_bytes, "head")
        return builder.compute(arith.AddiOp, self.loop.lower, head, "first")

    def _fits(self, builder: NestBuilder, over: SSAValue) -> SSAValue:
        """Insert whether any element of out is aligned."""
        beside = builder.compute(arith.RemUIOp, over, self.width_bytes, "beside")
        return builder.compare("eq", beside, 0, "fits")
