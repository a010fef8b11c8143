"""The pass `stage-positions`: within the scheduled nest, level 3."""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref, vector
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, IntegerType, MemRefType, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.attributes import FRESH_OUT, I64, MOST_AXIS_SIZE
from ....ir.dialects.gather_dialect import LoopOp, YieldOp
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import FromElementsOp, PrefetchOp, sum_of_lanes
from ....ir.errors import ScheduleError
from ...nest.backward_slice import clone_slice, slice_of
from ...nest.bounds_arithmetic import is_clamp
from ...nest.builder import index_constant, named, size_of
from ...nest.located import builder_at, builder_at_end, builder_before
from ...nest.queries import chain, functions, guarded_copy, static_size, view_of, viewed
from ...nest.split_loop import induction_of_copy, split_off_steps
from ...schedule.machine_model import LINE_BYTES
from ...schedule.tiling import fewest_bits

WIDTHS = (8, 16, 32)
# Indices that are checked at a time, as fast as 32, and how far ahead others are prefetched: a check of 6,400,000 takes
# 2.59 ms, 2.81 without prefetches; where LLVM makes vectors of a loop of one 3.10; one that stages nothing 2.07 (Zen 4
# without AVX-512).
LANES, BYTES_AHEAD = 16, 4096


@dataclass(frozen=True)
class StagePositions(ModulePass):
    """Stage the positions of checked indices, and let the copy read these.

    `fold-bounds` leaves a nest that checks all indices and, behind it, one that copies: every index is read from memory
    twice, and a result that somebody has may not be written before the last index is checked. Here the first nest
    resolves each index, too, and writes its position as an integer of 1, 2 or 4 bytes. The second one reads these. So
    do the nests of a gradient or a reduction, which resolve an index for each prefetch, and for each owner.

    before                              after stage-positions{bits=8}
        for check_indices in 0..n           for check_indices in 0..n
          bad += outside(indices[i])          bad += outside(indices[i])
        if bad == 0                           positions[i] = resolve(indices[i])
          for indices in 0..n               if bad == 0
            p = resolve(indices[i])           for indices in 0..n
            out[i] = data[p]                    out[i] = data[positions[i]]

    Every index is read once, so the positions need no clamp. The memory is taken before anything is written, so a call
    that gets none leaves out as it was.

    Preconditions: `fold-bounds` has run, and its check is one loop over all indices, or over tiles of them; the indexed
    axis has no more than 2**bits positions, which the function carries as `gather.most_axis_size`.

    Options:
        bits: of a position, 8, 16 or 32: fewer than an index has. Where it is omitted, as many as a static axis needs,
            and nothing is done where the axis is dynamic or needs as many as an index has.

    Input:
        %n_outside = gather.loop check_indices(%i) = %c0 to %n step %c1 sum {
          %index = memref.load %index_run[%i] : memref<?xi64>
          ... }
        scf.if %all_inside { ... %index_1 = memref.load %indices[%o, %i, %c0] : memref<?x64x1xi64> ... }
    Output:
        %positions = memref.alloc(%n) : memref<?xi8>
        %n_outside = gather.loop check_indices(%i) = %c0 to %n step %c1 sum {
          %index = memref.load %index_run[%i] : memref<?xi64>
          ... memref.store %narrow, %positions[%i] : memref<?xi8> }
        scf.if %all_inside { ... %narrow_1 = memref.load %positions[%place] : memref<?xi8> ... }
        memref.dealloc %positions : memref<?xi8>

    What it does not do: tuples of indices, indices with gaps between them. A function stays whose indices need no
    check, are checked while they are copied, or have staged positions already.

    Raises:
        ScheduleError: a precondition does not hold, or `bits` is none of these.
    """

    name = "stage-positions"

    bits: int | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.bits not in (*WIDTHS, None):
            raise ScheduleError(f"stage-positions: expected bits=8, 16 or 32, got bits={self.bits}")
        for function in functions(op):
            bits = _fewest_bits(function) if self.bits is None else self.bits
            is_done = FRESH_OUT in function.attributes or MOST_AXIS_SIZE in function.attributes
            if bits is not None and function.function_type.outputs.data and not is_done:
                _stage(function, IntegerType(bits))


def _axis_sizes(function: func.FuncOp) -> list[int]:
    """Return the sizes of the indexed axes, those below 0 dynamic."""
    found: list[int] = []
    for argument in function.body.block.args:
        view, type_ = view_of(argument, function), argument.type
        if view is not None and isinstance(type_, MemRefType):
            sizes = zip(view.dims, type_.get_shape(), strict=True)
            found += [size for name, size in sizes if name.role == "axis"]
    return found


def _fewest_bits(function: func.FuncOp) -> int | None:
    """Return the bits that positions of a static axis need; None of a dynamic one, or where an index has as few."""
    if len(function.body.block.args) < 2 or not (sizes := _axis_sizes(function)) or min(sizes) < 0:
        return None
    indices = SSAValue.get(function.body.block.args[1], type=MemRefType).type
    return fewest_bits(max(sizes), element_size_bytes(indices.element_type), WIDTHS)


def _stage(function: func.FuncOp, width: IntegerType) -> None:
    check, branch = guarded_copy(function, StagePositions.name)
    innermost = chain(check)[-1]
    checked = [op for op in innermost.body.block.ops if isinstance(op, memref.LoadOp)]
    indices = function.body.block.args[1]
    copied = [op for op in branch.walk() if isinstance(op, memref.LoadOp) and viewed(op.memref) is indices]
    places = checked[0].indices if len(checked) == 1 else ()
    is_run = [place for place in places if static_size(place) != 0] == [innermost.induction]
    if not is_run or not copied:
        raise ScheduleError("stage-positions: expected one loop that checks all indices, which have no gaps")
    _check_width(function, checked[0], width)
    memory = named(builder_before(check), memref.AllocOp.get(width, None, [DYNAMIC_INDEX], [check.upper]), "positions")
    uses = [_Use(load) for load in copied]
    _keep(innermost, checked[0], uses[0], memory)
    _vectorize(innermost)
    for use in uses:
        use.read(memory)
    builder_at(InsertPoint.after(branch), branch).insert(memref.DeallocOp.get(memory))
    function.attributes[MOST_AXIS_SIZE] = IntegerAttr(1 << width.width.data, I64)


def _check_width(function: func.FuncOp, load: memref.LoadOp, width: IntegerType) -> None:
    """Check that a position of so many bits is narrower than an index, and that the axis has no more of them."""
    bits = width.width.data
    if isinstance(load.res.type, IntegerType) and load.res.type.width.data <= bits:
        raise ScheduleError(
            f"stage-positions: positions of {bits} bits are no narrower than indices of {load.res.type}"
        )
    if max(_axis_sizes(function), default=0) > 1 << bits:
        raise ScheduleError(
            f"stage-positions: {bits} bits hold {1 << bits} positions, and the axis has {max(_axis_sizes(function))}"
        )


class _Use:
    """An index that the copy reads: its load, the operations that resolve and clamp it, and the position they give.

    `extension` makes 64 bits of it, and `size` is what is added to one below zero; None where nothing is.
    """

    def __init__(self, load: memref.LoadOp):
        self.load, self.size = load, None
        self.ops: list[Operation] = [load]
        (user, *_) = (use.operation for use in load.res.uses)
        self.extension = user if isinstance(user, arith.ExtSIOp | arith.ExtUIOp) else None
        self.ops += [] if self.extension is None else [self.extension]
        self.position: SSAValue = load.res if self.extension is None else self.extension.result
        for shifted in [use.operation for use in self.position.uses]:
            if isinstance(shifted, arith.AddiOp):
                (wrapped,) = (use.operation for use in shifted.result.uses)
                assert isinstance(wrapped, arith.MinUIOp) and isinstance(shifted.rhs.owner, Operation)
                self.size, self.position = shifted.rhs, wrapped.result
                self.ops += [shifted.rhs.owner, shifted, wrapped]
        (clamp, *_) = (use.operation for use in self.position.uses)
        if is_clamp(clamp) and isinstance(last := clamp.operands[1].owner, Operation):
            self.position = clamp.results[0]
            self.ops += [last, clamp]

    def read(self, memory: SSAValue) -> None:
        """Read the position that the check has staged."""
        builder = builder_before(self.load)
        place = _place_in_run(builder, self.load)
        narrow = named(builder, memref.LoadOp.get(memory, [place]), "narrow")
        self.position.replace_all_uses_with(named(builder, arith.ExtUIOp(narrow, I64), "wrapped"))
        for op in reversed(self.ops):
            if not any(result.uses for result in op.results):
                Rewriter.erase_op(op)


def _keep(innermost: LoopOp, load: memref.LoadOp, use: _Use, memory: SSAValue) -> None:
    """Let the loop that checks write the position of each index, resolved as in the copy."""
    builder = builder_at(InsertPoint.before(innermost.terminator), use.load)
    position: SSAValue = load.res
    if use.extension is not None:
        position = named(builder, type(use.extension)(position, I64), "wide")
    if use.size is not None:
        assert isinstance(use.size.owner, arith.IndexCastOp)
        size = named(builder, arith.IndexCastOp(use.size.owner.input, I64), "size")
        last = named(builder, arith.ConstantOp.from_int_and_width(63, 64), "c63")
        sign = named(builder, arith.ShRSIOp(position, last), "sign")
        shift = named(builder, arith.AndIOp(size, sign), "shift")
        position = named(builder, arith.AddiOp(position, shift), "wrapped")
    assert isinstance(memory.type, MemRefType)
    narrow = named(builder, arith.TruncIOp(position, memory.type.element_type), "narrow")
    builder.insert(memref.StoreOp.get(narrow, memory, [innermost.induction]))


def _vectorize(loop: LoopOp) -> None:
    """Check and keep some indices at a time, as vectors, and prefetch those that a later step reads."""
    (count,) = loop.terminator.operands
    (kept,) = [op for op in loop.body.block.ops if isinstance(op, memref.StoreOp)]
    (load,) = [op for op in loop.body.block.ops if isinstance(op, memref.LoadOp)]
    body = split_off_steps(loop, LANES)
    builder = builder_at_end(body, loop)
    index_bytes = element_size_bytes(load.res.type)
    for offset in range(0, LANES * index_bytes, LINE_BYTES):
        ahead = index_constant(builder, (BYTES_AHEAD + offset) // index_bytes)
        place = named(builder, arith.AddiOp(body.induction, ahead), "ahead")
        builder.insert(PrefetchOp(load.memref, [place if at is loop.induction else at for at in load.indices], 3))
    ops = slice_of([kept.value, count], loop)
    copies = [
        clone_slice(ops, builder, {loop.induction: induction_of_copy(builder, body, lane)}) for lane in range(LANES)
    ]
    narrow, outside = (
        named(builder, FromElementsOp([copy[value] for copy in copies]), name)
        for value, name in ((kept.value, "narrow_lanes"), (count, "outside_lanes"))
    )
    builder.insert(vector.StoreOp(narrow, kept.memref, [body.induction]))
    builder.insert(YieldOp(named(builder, sum_of_lanes(outside), "n_outside")))
    assert loop.total is not None and body.total is not None
    body.total.name_hint = "n_outside"
    both = arith.AddiOp(body.total, loop.total)
    loop.total.replace_uses_with_if(
        named(builder_at(InsertPoint.after(loop), loop), both, "n_outside"), lambda use: use.operation is not both
    )


def _place_in_run(builder: Builder, load: memref.LoadOp) -> SSAValue:
    """Insert the place of an index among all, from its subscripts.

    A constant in a subscript is added last: so the code generator sees which lanes lie side by side.
    """
    assert isinstance(load.memref.type, MemRefType)
    sizes = load.memref.type.get_shape()
    (_, place), *others = [(dim, subscript) for dim, subscript in enumerate(load.indices) if sizes[dim] != 1] or [
        (0, load.indices[0])
    ]
    for dim, subscript in others:
        place = named(builder, arith.MuliOp(place, size_of(builder, load.memref, dim, "row")), "row")
        terms, added = [subscript], subscript.owner
        if isinstance(added, arith.AddiOp) and static_size(added.rhs) is not None:
            terms = [added.lhs, added.rhs]
        for term in terms:
            place = named(builder, arith.AddiOp(place, term), "place")
    return place
