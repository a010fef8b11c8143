"""The pass `stream-stores`: within the scheduled nest, level 3."""

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, MemRefType, ModuleOp, NoneAttr, VectorType, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, YieldOp
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import PrefetchOp, is_nontemporal
from ....ir.errors import ScheduleError
from ...nest.builder import (
    NestBuilder,
    builder_at_end,
    builder_before,
    replace_op,
    rows_of,
    split_off_remainder,
    whole_end,
)
from ...nest.queries import clone_slice, functions, slice_of, static_size, static_trips
from ...schedule import steps
from ...schedule.machine_model import MIN_SINGLE_BYTES, STREAM_BYTES

# The shortest rows of known size whose vectors are stored whole. In C on a Zen 4 rows of 256 B from memory are 1.1 to
# 1.3 times as fast so as in parts of 16 bytes, 1 KB 1.2, and 64 B and 128 B no faster. Rows of 1 KB of unknown size are
# 1.05 to 1.3 times as fast, and those of 4 KB and 64 KB, whose loop prefetches the next row, 0.95 to 1.0.
MIN_WHOLE_BYTES = 256


@steps.pass_of_step
class StreamStores(ModulePass, steps.StreamStores):
    """Write vectors with non-temporal stores, which read no line of out.

    Pays where out is larger than the last-level cache's share; below that, the next reader of out misses the caches.
    A streamed vector is aligned to its size, to 16 bytes at most, and a longer one is stored 16 bytes at a time, since
    NumPy's arrays begin at multiples of 16; but those of long rows are stored whole. All stores to a line of out must
    be non-temporal, or the line is read after all and written twice:

    * A loop with a remainder loop of single elements gets a peeled prologue up to the first aligned element. Single
      elements are streamed where they have 4 bytes or more; the processor cannot stream smaller ones.
    * A row of known size whose remainder is one overlapping vector gets such a vector as its prologue. Both are stored
      unaligned, in parts, and before the vectors between them: a full line goes to memory at once.
    * A loop over a known number of whole vectors streams all of them when out is aligned, and none when it is not.
    * Where these are rows of 256 bytes or more, vectors longer than 16 bytes are aligned to their size, and both ends
      of the row, before and behind them, are stored 16 bytes at a time. So are they in rows of unknown size, between
      the single elements, but not in a loop that also prefetches the next row.

    before                              after stream-stores
        for inner in 0..w step 8            for inner_head in 0..h
          out[i, j:j+8] = ...                 stream out[i, j] = ...
        for inner_rest in w..n              for inner in h..w step 8
          out[i, j] = ...                     stream out[i, j:j+8] = ...
                                            for inner_rest in w..n
                                              stream out[i, j] = ...

    In a gradient the initial zeros are streamed, 16 bytes at a time.

    Preconditions: `vectorize-inner` has run, but for gradients; of them, the loop that clears steps from element to
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


def _mark(store: vector.StoreOp, alignment_bytes: int) -> None:
    store.properties["nontemporal"] = BoolAttr.from_bool(True)
    store.attributes["alignment"] = IntegerAttr(alignment_bytes, i64)


def _streaming(loop: LoopOp, alignment_bytes: int) -> LoopOp:
    """Return a copy of a loop that streams its vectors."""
    copy = loop.clone()
    copy.body.block.args[0].name_hint = loop.induction.name_hint
    for op in copy.walk():
        if isinstance(op, vector.StoreOp):
            _mark(op, alignment_bytes)
    return copy


def _only_copies(loop: LoopOp, store: vector.StoreOp) -> bool:
    """Return whether a loop has no vector but the one that it loads and stores."""
    load = store.vector.owner
    vectors = [
        op for op in loop.walk() if any(isinstance(value.type, VectorType) for value in (*op.operands, *op.results))
    ]
    return isinstance(load, vector.LoadOp) and vectors == [load, store]


def _in_parts(builder: NestBuilder, loop: LoopOp, lanes: int, alignment_bytes: int) -> LoopOp:
    """Return a copy of a loop that only copies, which streams vectors of so many lanes."""
    copy = _streaming(loop, alignment_bytes)
    copy.operands[2] = builder.index(lanes)
    for load in [op for op in copy.walk() if isinstance(op, vector.LoadOp)]:
        type_ = VectorType(load.result.type.element_type, [lanes])
        replace_op(load, narrow := vector.LoadOp(load.base, load.indices, type_))
        narrow.result.name_hint = load.result.name_hint
    return copy


def _either(builder: NestBuilder, condition: SSAValue, streaming: list[LoopOp], cached: list[LoopOp]) -> None:
    """Run the streaming loops where a condition holds, and the original ones where it does not."""
    conditional = scf.IfOp(condition, [], Region(Block()), Region(Block()))
    builder.insert(conditional)
    for loop in cached:
        loop.detach()
        loop.label = loop.label.cached
    conditional.true_region.block.add_ops([*streaming, scf.YieldOp()])
    conditional.false_region.block.add_ops([*cached, scf.YieldOp()])


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
        remainder = self._remainder()
        if remainder is None:
            self._stream_whole()
        elif any(isinstance(op, vector.StoreOp) for op in remainder.walk()):
            self._check_overlap(remainder)
            self._stream_row(remainder)
        elif static_size(remainder.step) == 1:
            self._peel(remainder)
        else:
            raise ScheduleError(
                f"stream-stores: {remainder.label} takes several elements at a time, and the prologue cannot; "
                "unroll another loop"
            )

    def _remainder(self) -> LoopOp | None:
        """Return the remainder loop behind this one."""
        behind = self.loop.next_op
        while behind is not None:
            if isinstance(behind, LoopOp) and behind.label == self.loop.label.remainder:
                return behind
            behind = behind.next_op
        return None

    def _check_overlap(self, remainder: LoopOp) -> None:
        """Check that a remainder loop of vectors is the one overlapping vector at the end of a row."""
        first, last = static_size(remainder.lower), static_size(remainder.upper)
        if first is None or last is None or not last - first == static_size(remainder.step) == self.lanes:
            raise ScheduleError(
                f"stream-stores: {remainder.label} has vectors of its own; run vectorize-inner once before it"
            )

    def _stream_whole(self) -> None:
        """Stream a loop of whole vectors where out is aligned, and leave it as it was where it is not."""
        row_bytes = (static_trips(self.loop) or 0) * self.width_bytes
        if row_bytes >= MIN_WHOLE_BYTES and self._has_parts():
            return self._stream_between_parts()
        builder = builder_before(self.loop)
        over = self._over(builder, self._address(builder))
        aligned = builder.compare("eq", over, 0, "is_aligned")
        _either(builder, aligned, [_streaming(self.loop, self.alignment_bytes)], [self.loop])

    def _has_parts(self) -> bool:
        """Return whether vectors are longer than their parts, and can be stored in parts as well."""
        is_long = self.size_bytes > self.alignment_bytes > self.width_bytes
        return is_long and _only_copies(self.loop, self.store)

    def _stream_between_parts(self) -> None:
        """Stream the vectors from the first multiple of their size on whole, and both ends of the row in parts."""
        builder = builder_before(self.loop)
        beyond = self._over(builder, self._address(builder), self.size_bytes)
        over = self._over(builder, beyond)
        aligned = builder.compare("eq", over, 0, "is_aligned")
        size = builder.index(self.size_bytes)
        short = builder.compute(arith.SubiOp, size, beyond, "short")
        first = self._behind(builder, builder.compute(arith.RemUIOp, short, size, "short"))
        end = whole_end(builder, first, self.loop.upper, self.lanes)
        lanes = self.alignment_bytes // self.width_bytes
        head, rest = (_in_parts(builder, self.loop, lanes, self.alignment_bytes) for _ in range(2))
        head.label, head.operands[1] = self.loop.label.prologue, first
        rest.label, rest.operands[0] = self.loop.label.remainder, end
        whole = _streaming(self.loop, self.size_bytes)
        whole.operands[0], whole.operands[1] = first, end
        _either(builder, aligned, [head, whole, rest], [self.loop])

    def _stream_row(self, remainder: LoopOp) -> None:
        """Stream a row that ends with an overlapping vector, and begin it with another one.

        Both ends are stored first: a full line goes to memory at once, and a second write to it is slow.
        """
        builder = builder_before(remainder)
        over = self._over(builder, self._address(builder))
        first = _streaming(self.loop, 1)
        first.label = self.loop.label.prologue
        end = builder.compute(arith.AddiOp, first.lower, self.lanes, "end")
        first.operands[1] = end
        whole = _streaming(self.loop, self.alignment_bytes)
        whole.operands[0] = self._behind(builder, self._short(builder, over))
        whole.operands[1] = whole_end(builder, whole.lower, remainder.upper, self.lanes)
        _either(builder, self._fits(builder, over), [first, _streaming(remainder, 1), whole], [self.loop, remainder])

    def _peel(self, remainder: LoopOp) -> None:
        """Stream a loop of vectors, and the elements of its peeled prologue and its remainder one by one."""
        builder = builder_before(self.loop)
        lower, upper, lanes = self.loop.lower, remainder.upper, self.alignment_bytes // self.width_bytes
        has_parts = self._has_parts() and not any(isinstance(op, PrefetchOp) for op in self.loop.walk())
        beyond = over = self._over(builder, self._address(builder), self.size_bytes if has_parts else 0)
        if has_parts:
            over = self._over(builder, beyond)
        size = builder.index(self.alignment_bytes)
        short = builder.compute(arith.RemUIOp, self._short(builder, over), size, "short")
        stop = builder.compute(arith.MinSIOp, self._behind(builder, short), upper, "first")
        fits = self._fits(builder, over) if self.width_bytes > 1 else None
        if fits is not None:
            stop = builder.insert(arith.SelectOp(fits, stop, upper)).result
        stop.name_hint = "aligned"
        end = whole_end(builder, stop, upper, lanes if has_parts else self.lanes)
        first = remainder.clone()
        first.label = self.loop.label.prologue
        first.body.block.args[0].name_hint = self.loop.induction.name_hint
        first.operands[0], first.operands[1] = lower, stop
        builder.insert(first)
        self.loop.operands[0], self.loop.operands[1] = stop, end
        remainder.operands[0] = end
        for op in (*first.walk(), *remainder.walk()):  # single elements, where they are large enough for the processor
            if isinstance(op, memref.StoreOp) and element_size_bytes(op.value.type) >= MIN_SINGLE_BYTES:
                op.properties["nontemporal"] = BoolAttr.from_bool(True)
        if has_parts:
            self._store_whole(builder, self._whole_start(builder, lower, beyond, fits))
        _mark(self.store, self.size_bytes if has_parts else self.alignment_bytes)

    def _whole_start(self, builder: NestBuilder, lower: SSAValue, beyond: SSAValue, fits: SSAValue | None) -> SSAValue:
        """Insert the induction value of the first vector at a multiple of its size, at most the loop's end."""
        end, size = self.loop.upper, builder.index(self.size_bytes)
        short = builder.compute(arith.SubiOp, size, beyond, "short")
        head = builder.compute(arith.RemUIOp, short, size, "short")
        head = builder.compute(arith.DivUIOp, head, self.width_bytes, "head")
        first = builder.compute(arith.MinSIOp, builder.compute(arith.AddiOp, lower, head, "first"), end, "first")
        return first if fits is None else builder.select(fits, first, end, "first")

    def _store_whole(self, builder: NestBuilder, first: SSAValue) -> None:
        """Let the loop store its vectors whole from one of them on, and loops beside it the others in parts."""
        lanes, loop = self.alignment_bytes // self.width_bytes, self.loop
        head, rest = (_in_parts(builder, loop, lanes, self.alignment_bytes) for _ in range(2))
        end = whole_end(builder, first, loop.upper, self.lanes)
        head.label, head.operands[1] = loop.label.prologue.parts, first
        rest.label, rest.operands[0] = loop.label.remainder.parts, end
        loop.operands[0], loop.operands[1] = first, end
        builder.insert(head)
        Rewriter.insert_op(rest, InsertPoint.after(loop))

    def _short(self, builder: NestBuilder, over: SSAValue) -> SSAValue:
        """Insert the bytes, at least one, from the first element to the next multiple of the alignment."""
        return builder.compute(arith.SubiOp, builder.index(self.alignment_bytes), over, "short")

    def _behind(self, builder: NestBuilder, short: SSAValue) -> SSAValue:
        """Insert the induction value of the element so many bytes behind the first."""
        head = builder.compute(arith.DivUIOp, short, self.width_bytes, "head")
        return builder.compute(arith.AddiOp, self.loop.lower, head, "first")

    def _fits(self, builder: NestBuilder, over: SSAValue) -> SSAValue:
        """Insert whether any element of out is aligned."""
        beside = builder.compute(arith.RemUIOp, over, self.width_bytes, "beside")
        return builder.compare("eq", beside, 0, "fits")

    def _address(self, builder: NestBuilder) -> SSAValue:
        """Insert the address of the element that the loop's first iteration writes."""
        subscripts = list(self.store.indices)
        mapping: dict[SSAValue, SSAValue] = {self.loop.induction: self.loop.lower}
        mapping = clone_slice(slice_of(subscripts, self.loop), builder, mapping)
        memory = SSAValue.get(self.store.base, type=MemRefType)
        shape = memory.type.get_shape()
        place: SSAValue = builder.index(0)
        for dim, subscript in enumerate(subscripts):
            row = place
            if shape[dim] != 1 and dim:
                row = builder.compute(arith.MuliOp, place, builder.size(memory, dim, f"out_{dim}"), "row")
            place = builder.compute(arith.AddiOp, row, mapping.get(subscript, subscript), "place")
        base = builder.named(memref.ExtractAlignedPointerAsIndexOp.get(memory), "base")
        offset = builder.compute(arith.MuliOp, place, self.width_bytes, "offset")
        return builder.compute(arith.AddiOp, base, offset, "address")

    def _over(self, builder: NestBuilder, address: SSAValue, size: int = 0) -> SSAValue:
        """Insert the bytes from the last multiple of a size to an address."""
        return builder.compute(arith.RemUIOp, address, size or self.alignment_bytes, "over")
