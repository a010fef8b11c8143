"""The pass `fold-bounds`: the cheapest legal form of the bounds handling, within the nest level."""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ...ir.dialect import I64, LoopOp, MaskedLoadOp, ResolveOp, YieldOp
from ...ir.errors import ScheduleError
from ...ir.interpreter import MIN_AXIS_SIZE
from ...ir.semantics import Bounds, reaches_past
from ..constant_indices import fold_constant_indices
from ..nest import enclosing_loops, functions, short_name, static_size, update_signature


@dataclass(frozen=True)
class FoldBounds(ModulePass):
    """Replace `gather.resolve` by the fewest instructions that its facts allow.

    * Unsigned indices do not wrap.
    * Signed ones wrap without a branch, `v + (s & (v >> 63))`, and one unsigned comparison with s does both bounds.
    * No upper check when the index type cannot reach it: every int8 is valid on an axis of 128 or more.
    * `error` is checked in a nest of its own before anything is written, so the copy has no check left and a failed
      gather leaves out untouched. The function returns how many indices were outside.
    * `zero` clamps the position and selects, without a branch; where the axis may be empty it stays a masked load.
    * Constant indices inside the axis are resolved here: nothing is left but the load of the position.

    Preconditions: at most one `gather.resolve` a function. What the code holds for is left on the function as
    `gather.min_axis_size`.

    Input:
        %position, %valid = gather.resolve %index within %n_axis bounds zero : i64
        %element = gather.masked_load %data[%b, %o, %position, %j], %valid : memref<1x2x5x12xi32> -> i32
    Output:
        %sign = arith.shrsi %index, %c63 : i64
        %shift = arith.andi %size, %sign : i64
        %wrapped = arith.addi %index, %shift : i64
        %inside = arith.cmpi ult, %wrapped, %size : i64
        %clamped = arith.select %inside, %wrapped, %zero : i64
        %position = arith.index_cast %clamped : i64 to index
        %loaded = memref.load %data[%b, %o, %position, %j] : memref<1x2x5x12xi32>
        %element = arith.select %inside, %loaded, %nothing : i32

    Raises:
        BoundsError: a constant index is outside, in mode `error`.
    """

    name = "fold-bounds"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            resolves = [inner for inner in function.walk() if isinstance(inner, ResolveOp)]
            if len(resolves) > 1:
                raise ScheduleError(f"fold-bounds: expected one gather.resolve in a function, got {len(resolves)}")
            if resolves and not fold_constant_indices(op, resolves[0]):
                _Folding(function, resolves[0]).fold()


class _Folding:
    """The facts about one `gather.resolve`, and the code that they leave."""

    def __init__(self, function: func.FuncOp, resolve: ResolveOp):
        self.function, self.resolve = function, resolve
        assert isinstance(resolve.index.type, IntegerType)
        bits = resolve.index.type.width.data
        self.unsigned = resolve.unsigned is not None
        self.axis_size = static_size(resolve.size)
        largest = (1 << bits) - 1 if self.unsigned else (1 << (bits - 1)) - 1
        self.reaches_past = reaches_past(largest, self.axis_size)
        self.least_axis = 0 if self.reaches_past else largest + 1

    def fold(self) -> None:
        emit = Emitter(Builder(InsertPoint.before(self.resolve)))
        mode, inside = self.resolve.bounds.data, None
        index, size = emit.widened(self.resolve.index, self.unsigned), emit.size(self.resolve.size)
        if mode is Bounds.ERROR or mode is Bounds.ZERO:
            position = self._wrapped(emit, index, size)
            if mode is Bounds.ERROR:
                self._check_before_copy()
            elif self.reaches_past:
                inside = emit.compare("ult", position, size, "inside")
                if self.axis_size:
                    self.least_axis = max(self.least_axis, 1)
                    position = emit.select(inside, position, emit.constant(0, "zero"), "clamped")
        else:
            position = self._total(emit, mode, index, size)
            self.least_axis = max(self.least_axis, 1)
        self._replace(emit, position, inside)
        if self.least_axis:
            self.function.attributes[MIN_AXIS_SIZE] = IntegerAttr(self.least_axis, I64)

    def _wrapped(self, emit: "Emitter", index: SSAValue, size: SSAValue) -> SSAValue:
        """Negative indices count from the end, once."""
        if self.unsigned:
            return index
        sign = emit.binary(arith.ShRSIOp, index, emit.constant(63, "c63"), "sign")
        return emit.binary(arith.AddiOp, index, emit.binary(arith.AndIOp, size, sign, "shift"), "wrapped")

    def _total(self, emit: "Emitter", mode: Bounds, index: SSAValue, size: SSAValue) -> SSAValue:
        """The modes in which every index is valid."""
        if mode is Bounds.UNCHECKED or (self.unsigned and not self.reaches_past):
            return index
        if mode is Bounds.CLIP:
            if self.reaches_past:
                last = emit.binary(arith.SubiOp, size, emit.constant(1, "one"), "last")
                index = emit.binary(arith.MinUIOp if self.unsigned else arith.MinSIOp, index, last, "lowered")
            return index if self.unsigned else emit.binary(arith.MaxSIOp, index, emit.constant(0, "zero"), "raised")
        if self.unsigned:
            return emit.binary(arith.RemUIOp, index, size, "wrapped")
        remainder = emit.binary(arith.RemSIOp, index, size, "remainder") if self.reaches_past else index
        return self._wrapped(emit, remainder, size)

    def _replace(self, emit: "Emitter", position: SSAValue, inside: SSAValue | None) -> None:
        """Put the position in place of the resolve, and a plain load in place of the masked one where that is legal."""
        cast = emit.builder.insert(arith.IndexCastOp(position, IndexType())).result
        cast.name_hint = "position"
        for use in list(self.resolve.valid.uses):
            if not isinstance(load := use.operation, MaskedLoadOp):
                raise ScheduleError(f"fold-bounds: expected only gather.masked_load to use `valid`, got {load.name}")
            if inside is not None and not self.axis_size:
                load.operands[use.index] = inside
                continue
            before = Emitter(Builder(InsertPoint.before(load)))
            plain = before.builder.insert(memref.LoadOp.get(load.memref, load.subscripts)).res
            plain.name_hint = "loaded" if inside is not None else "element"
            value = plain if inside is None else before.or_zero(inside, plain)
            Rewriter.replace_op(load, (), [value])
        self.resolve.position.replace_all_uses_with(cast)
        Rewriter.erase_op(self.resolve)

    def _check_before_copy(self) -> None:
        """Count the indices outside in a nest of their own, and copy only when there are none."""
        if not self.reaches_past:
            return
        copy = list(enclosing_loops(self.resolve))[-1]
        load = self.resolve.index.owner
        if not isinstance(load, memref.LoadOp):
            raise ScheduleError("fold-bounds: expected the index to be loaded in the nest")
        emit = Emitter(Builder(InsertPoint.before(copy)))
        outside = self._count_outside(emit.builder, load)
        none_outside = emit.compare("eq", outside, emit.constant(0, "none"), "all_inside")
        body = Block()
        conditional = scf.IfOp(none_outside, [], Region(body))
        Rewriter.insert_op(conditional, InsertPoint.before(copy))
        copy.detach()
        body.add_ops([copy, scf.YieldOp()])
        terminator = self.function.body.block.last_op
        assert terminator is not None
        Rewriter.replace_op(terminator, func.ReturnOp(outside))
        update_signature(self.function)

    def _count_outside(self, builder: Builder, load: memref.LoadOp) -> SSAValue:
        """Build the nest that counts: one loop for each loop that the index depends on."""
        around = [loop for loop in enclosing_loops(load) if loop.induction in load.indices][::-1]
        counters: dict[SSAValue, SSAValue] = {}
        made: list[LoopOp] = []
        for loop in around:
            block = Block(arg_types=[IndexType()])
            name = f"check_{loop.label}"
            block.args[0].name_hint = short_name(name)
            counters[loop.induction] = block.args[0]
            made.append(builder.insert(LoopOp(name, loop.lower, loop.upper, loop.step, block, sums=True)))
            builder = Builder(InsertPoint.at_end(block))
        emit = Emitter(builder)
        raw = builder.insert(memref.LoadOp.get(load.memref, [counters[value] for value in load.indices])).res
        raw.name_hint = "index"
        index, size = emit.widened(raw, self.unsigned), emit.size(self.resolve.size)
        bad = emit.compare("uge", self._wrapped(emit, index, size), size, "outside")
        count = builder.insert(arith.ExtUIOp(bad, I64)).result
        for loop in reversed(made):
            loop.body.block.add_op(YieldOp(count))
            assert loop.total is not None
            count = loop.total
            count.name_hint = "n_outside"
        return count


@dataclass
class Emitter:
    """Inserts arithmetic on i64 and names what it makes."""

    builder: Builder

    def binary(
        self, op: type[arith.SignlessIntegerBinaryOperation], left: SSAValue, right: SSAValue, name: str
    ) -> SSAValue:
        """Insert `op left, right`."""
        result = self.builder.insert(op(left, right)).result
        result.name_hint = name
        return result

    def constant(self, value: int, name: str) -> SSAValue:
        """Insert an i64 constant."""
        result = self.builder.insert(arith.ConstantOp.from_int_and_width(value, 64)).result
        result.name_hint = name
        return result

    def compare(self, predicate: str, left: SSAValue, right: SSAValue, name: str) -> SSAValue:
        """Insert a comparison."""
        result = self.builder.insert(arith.CmpiOp(left, right, predicate)).result
        result.name_hint = name
        return result

    def select(self, condition: SSAValue, left: SSAValue, right: SSAValue, name: str) -> SSAValue:
        """Insert a select."""
        result = self.builder.insert(arith.SelectOp(condition, left, right)).result
        result.name_hint = name
        return result

    def or_zero(self, condition: SSAValue, value: SSAValue) -> SSAValue:
        """Insert a select between an element and zero."""
        assert isinstance(value.type, IntegerType)
        zero = self.builder.insert(arith.ConstantOp.from_int_and_width(0, value.type)).result
        zero.name_hint = "nothing"
        return self.select(condition, value, zero, "element")

    def widened(self, index: SSAValue, unsigned: bool) -> SSAValue:
        """Extend an index to i64; an unsigned one of 64 bits keeps its bits."""
        if index.type == I64:
            return index
        result = self.builder.insert((arith.ExtUIOp if unsigned else arith.ExtSIOp)(index, I64)).result
        result.name_hint = "wide"
        return result

    def size(self, size: SSAValue) -> SSAValue:
        """Cast a size to i64."""
        result = self.builder.insert(arith.IndexCastOp(size, I64)).result
        result.name_hint = "size"
        return result
