"""The pass `fuse-bounds-check`: check and copy in one go, within the scheduled nest, level 3."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.attributes import FRESH_OUT
from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, MaskedLoadOp, YieldOp
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import PrefetchOp
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ....ir.semantics import DYNAMIC
from ...nest.backward_slice import clone_slice, is_inside, slice_of
from ...nest.builder import index_constant, insert_loop, kind_of, named, size_of
from ...nest.located import builder_at_end, builder_before, made_from, replace_op
from ...nest.prefetching import check_ranges
from ...nest.queries import (
    chain,
    enclosing_loops,
    find_loop,
    functions,
    guarded_copy,
    loops,
    static_size,
    view_of,
    viewed,
)
from ...schedule.machine_model import LINE_BYTES
from ...schedule.schedule import WHOLE_ROW
from ...schedule.thresholds import MOST_PREFETCHED_LINES

# Of the indices that the next iteration checks first: the processor fetches those behind them itself. Batches of 500
# rows of 64 B: 1.00 of the speed of a separate check, 0.97 with 1 line or none (Zen 4).
LINES_AHEAD = 4

# Lower bound, upper bound and step; and dimensions, each with the induction variable of the old check, if it has one.
LoopBounds = tuple[SSAValue, SSAValue, SSAValue]
Dims = list[tuple[LoopName, SSAValue | None]]


@dataclass(frozen=True)
class FuseBoundsCheck(ModulePass):
    """Check the indices of an iteration of a loop right before it copies.

    `fold-bounds` leaves a nest that checks all indices and, behind it, one that copies: every index is read from memory
    twice, and two nests start threads. Here the indices of a tile, or of a batch, are checked while they are on their
    way to the caches, and then read from there. An iteration with an index out of range copies nothing, so nothing
    outside of data is read. While one copies, indices of the next are prefetched. The rows of a tile are checked by one
    loop where they lie in one run and their size is known, which `specialize-inner` provides.

    The price is that out is written before the last index is checked. The function carries `gather.fresh_out`: where it
    returns another number than 0, out holds anything, and the caller discards it. So the pass is for results that
    nobody has yet.

    before                              after fuse-bounds-check{loop=indices_o}
        for check_indices in 0..n           for indices_o in 0..n step 256
          bad += outside(indices[i])          for check_indices in t..t+256
        if bad == 0                             bad_here += outside(indices[i])
          for indices_o in 0..n step 256      if bad_here == 0
            for indices_i in t..t+256           for indices_i in t..t+256
              out[i] = data[indices[i]]           out[i] = data[indices[i]]
                                              bad += bad_here

    Preconditions: `fold-bounds` has run, and the function copies; the loop is around that copy, and no loop in it is
    parallel. Loops of the nest that checks may be tiled and parallel: they are made anew.

    Options:
        loop: its name; the innermost parallel loop when omitted, and nothing where none is parallel. Where a loop at
            or around it repeats the indices, they are checked and counted each time: the number is 0 all the same
            exactly where every index is valid.
        lines: of 64 bytes, the first of the indices that the next iteration checks, prefetched before the copy, 1 to
            64; 0 for all of them, by the loops that read the indices of this one in vectors, a step at a time.

    Input:
        %n_outside = gather.loop check_indices(%i) = %c0 to %n step %c1 sum { ... gather.yield %outside : i64 }
        %all_inside = arith.cmpi eq, %n_outside, %none : i64
        scf.if %all_inside { gather.loop parallel indices_o(%i_o) = %c0 to %n step %c256 { ... } }
    Output:
        %n_outside = gather.loop parallel indices_o(%i_o) = %c0 to %n step %c256 sum {
          %outside = gather.loop check_indices(%i) = %i_o to %end step %c1 sum { ... gather.yield %outside : i64 }
          memref.prefetch %indices[%b, %end], read, locality<3>, data : memref<1x?xi64>
          %all_inside = arith.cmpi eq, %outside, %none : i64
          scf.if %all_inside { ... }
          gather.yield %outside : i64
        }

    What it does not do: gradients, which add to out in several nests. A function stays whose indices need no check, or
    are checked so already.

    Raises:
        ScheduleError: a precondition does not hold, or an option is out of range.
    """

    name = "fuse-bounds-check"

    loop: str | None = None
    lines: int = LINES_AHEAD

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_ranges(self.name, ("lines", self.lines, WHOLE_ROW, MOST_PREFETCHED_LINES))
        for function in functions(op):
            loop = _innermost_parallel(function) if self.loop is None else find_loop(function, self.loop)
            is_checked = function.function_type.outputs.data and FRESH_OUT not in function.attributes
            if loop is not None and is_checked:
                _Fusing(function, loop, self.lines, *guarded_copy(function, self.name)).fuse()


def _innermost_parallel(function: func.FuncOp) -> LoopOp | None:
    """Return the innermost parallel loop of a nest that copies; None of a gradient, or where none is parallel."""
    adds = any(isinstance(op, AccumulateOp) for op in function.walk())
    found = [loop for loop in loops(function) if loop.parallel is not None and not loop.label.nest]
    return found[-1] if found and not adds else None


class _Fusing:
    """One function: the nest that checks, the branch with the copy, and the loop that will have both.

    `made` are the loops of the new check. The next iteration of `loop` begins where `moved` ends, the one of them that
    runs along the dimension of `loop`, or the first inside that; None where there is none.
    """

    def __init__(self, function: func.FuncOp, loop: LoopOp, lines: int, check: LoopOp, branch: scf.IfOp):
        self.function, self.loop, self.lines, self.check, self.branch = function, loop, lines, check, branch
        self.around = [loop, *enclosing_loops(loop)]
        self.made: list[LoopOp] = []
        self.moved: LoopOp | None = None
        if any(isinstance(op, AccumulateOp) for op in function.walk()):
            raise ScheduleError("fuse-bounds-check: expected a gather, and this is a gradient")
        if any(not loop.is_ancestor(op) for op in _accesses(function)):
            raise ScheduleError(
                f"fuse-bounds-check: {loop.label} is not around all that is copied; name a loop around it"
            )
        parallel = [op.label for op in loops(loop) if op is not loop and op.parallel is not None]
        if parallel:
            raise ScheduleError(
                f"fuse-bounds-check: {parallel[0]} is parallel in {loop.label}; name the innermost parallel loop"
            )

    def fuse(self) -> None:
        for op in list(self.branch.true_region.block.ops):
            if not isinstance(op, scf.YieldOp):
                op.detach()
                Rewriter.insert_op(op, InsertPoint.before(self.branch))
        condition = self.branch.cond.owner
        Rewriter.erase_op(self.branch)
        assert isinstance(condition, Operation) and self.check.total is not None
        Rewriter.erase_op(condition)
        self.check.total.replace_all_uses_with(self._sum(self._check_here()))
        Rewriter.erase_op(self.check)
        self.function.attributes[FRESH_OUT] = UnitAttr()

    def _check_here(self) -> SSAValue:
        """Put the check at the start of the loop's body, and the rest of that under it; return the count."""
        rest = [op for op in self.loop.body.block.ops if not isinstance(op, YieldOp)]
        Rewriter.erase_op(self.loop.terminator)
        buffers = [op for op in rest if isinstance(op, memref.AllocaOp)]  # memory is taken once, not in a branch
        body = Block()
        for op in rest:
            op.detach()
            (self.loop.body.block if op in buffers else body).add_op(op)
        body.add_op(scf.YieldOp())
        if self.lines == WHOLE_ROW:
            self._prefetch_all(body)
        count = self._nest()
        builder = builder_at_end(self.loop, self.check)
        if self.made and self.lines != WHOLE_ROW:
            self._prefetch_first(builder)
        none = named(builder, arith.ConstantOp.from_int_and_width(0, 64), "none")
        inside = named(builder, arith.CmpiOp(count, none, "eq"), "all_inside")
        builder.insert(scf.IfOp(inside, [], Region(body)))
        builder.insert(YieldOp())
        return count

    def _nest(self) -> SSAValue:
        """Build the loops that check what one iteration reads, and return how many of its indices are outside."""
        innermost = chain(self.check)[-1]
        (counted,) = innermost.terminator.operands
        ops = slice_of([counted], self.check)
        builder, made, mapping = builder_at_end(self.loop, innermost), self.made, dict[SSAValue, SSAValue]()
        run = _load_of_run(ops)
        rows = None if run is None else self._known_rows(builder, run)
        if run is not None and rows is not None:
            name = LoopName("indices").beside("check")
            made.append(insert_loop(builder, name, rows, name.induction, innermost, sums=True))
            self.moved = made[0]
            builder = builder_at_end(made[0], innermost)
            index = made_from(run, memref.LoadOp.get(run.memref, [made[0].induction]))
        else:
            builder, places = self._loops_over(builder, self._dims(ops, run), run, mapping)
            index = None if run is None else made_from(run, memref.LoadOp.get(viewed(run.memref), places))
        if run is not None and index is not None:
            mapping[run.res] = named(builder, index, run.res.name_hint)
        mapping |= clone_slice(ops, builder, mapping)
        count = mapping.get(counted, counted)
        for loop in reversed(made):
            loop.body.block.add_op(made_from(loop, YieldOp(count)))
            assert loop.total is not None
            count = loop.total
            count.name_hint = "n_outside"
        return count

    def _loops_over(
        self, builder: Builder, dims: Dims, run: memref.LoadOp | None, mapping: dict[SSAValue, SSAValue]
    ) -> tuple[Builder, list[SSAValue]]:
        """Build the loops over dimensions that the loops around do not count; return all places in the innermost."""
        places: list[SSAValue] = []
        innermost = chain(self.check)[-1]
        around_it = {around.label.dimension: around for around in reversed(self.around)}
        counted = {name for name, here in around_it.items() if static_size(here.step) == 1}
        bounds = {
            name: _tile(builder, around_it[name]) if name in around_it else self._whole(builder, name, run)
            for name, _ in dims
            if name not in counted
        }
        is_reached = False
        for name, old in dims:
            is_reached = is_reached or name == self.loop.label.dimension
            if name in counted:
                places.append(around_it[name].induction)
            else:
                loop = insert_loop(builder, name.beside("check"), bounds[name], name.induction, innermost, sums=True)
                self.made.append(loop)
                self.moved = loop if is_reached and self.moved is None else self.moved
                places.append(loop.induction)
                builder = builder_at_end(loop, innermost)
            mapping |= {} if old is None else {old: places[-1]}
        return builder, places

    def _known_rows(self, builder: Builder, run: memref.LoadOp) -> LoopBounds | None:
        """Insert the bounds, in the run of all indices, of those of a tile of rows; None where their size is unknown.

        One loop over them has no short rows, each of which LLVM would check by itself or load from all rows at once.
        """
        indices = SSAValue.get(viewed(run.memref), type=MemRefType)
        view, (_, *row) = view_of(indices, self.function), indices.type.get_shape()
        assert view is not None
        tile, *others = [
            next((loop for loop in self.around if loop.label.dimension == name), None) for name in view.dims
        ]
        size = math.prod(row)
        if tile is None or static_size(tile.step) == 1 or any(others) or DYNAMIC in row or size == 1:
            return None
        start, end, one = _tile(builder, tile)
        factor = index_constant(builder, size)
        first = named(builder, arith.MuliOp(start, factor), "first")
        return first, named(builder, arith.MuliOp(end, factor), "last"), one

    def _prefetch_all(self, body: Block) -> None:
        """Prefetch the indices of the next iteration, each step of a loop over vectors those in its place."""
        swept: list[LoopOp] = []
        for load in [op for op in body.walk() if isinstance(op, memref.LoadOp)]:
            reading = load.parent_op()
            if not self._reads_vectors(reading, load) or reading in swept:
                continue
            assert isinstance(reading, LoopOp)
            swept.append(reading)
            builder = builder_before(load)
            places = [self._next_place(builder, place) for place in load.indices]
            read = static_size(reading.step) or 1
            for size in _shape(load)[list(load.indices).index(reading.induction) + 1 :]:
                read *= max(size, 1)
            self._prefetch_lines(builder, load.memref, places, read)
        if not swept:
            raise ScheduleError(
                f"fuse-bounds-check: lines=0 expects a loop in {self.loop.label} that reads other indices in each "
                "iteration of it, in vectors; use 1 or more lines"
            )

    def _reads_vectors(self, reading: Operation | None, load: memref.LoadOp) -> bool:
        """Return whether a loop reads indices, several in a step, that the next iteration of `loop` has others for."""
        if not isinstance(reading, LoopOp) or viewed(load.memref) is not self.function.body.block.args[1]:
            return False
        is_vector = reading.induction in load.indices and static_size(reading.step) != 1
        return is_vector and any(map(self._is_moved, load.indices))

    def _is_moved(self, place: SSAValue) -> bool:
        """Return whether a place is counted by `loop`, or by a loop over one of its tiles."""
        around = place.owner.parent_op() if isinstance(place.owner, Block) else None
        return isinstance(around, LoopOp) and around.label.dimension == self.loop.label.dimension

    def _next_place(self, builder: Builder, place: SSAValue) -> SSAValue:
        """Return the place one iteration of `loop` later."""
        return named(builder, arith.AddiOp(place, self.loop.step), "next") if self._is_moved(place) else place

    def _prefetch_lines(self, builder: Builder, memory: SSAValue, places: Sequence[SSAValue], count: int) -> None:
        """Prefetch so many elements from a place on, a line at a time."""
        line = LINE_BYTES // element_size_bytes(SSAValue.get(memory, type=MemRefType).type.element_type)
        builder.insert(PrefetchOp(memory, places, 3))
        for offset in range(line, count, line):
            behind = named(builder, arith.AddiOp(places[-1], index_constant(builder, offset)), "behind")
            builder.insert(PrefetchOp(memory, [*places[:-1], behind], 3))

    def _prefetch_first(self, builder: Builder) -> None:
        """Prefetch the first indices behind those of this iteration: the next check begins with them."""
        load = next(op for op in self.made[-1].body.block.ops if isinstance(op, memref.LoadOp))
        memory = SSAValue.get(load.memref, type=MemRefType)
        starts = {loop.induction: loop.upper if loop is self.moved else loop.lower for loop in self.made}
        places = [starts.get(place, place) for place in load.indices]
        if self.moved is None:
            places = [self._next_place(builder, place) for place in places]
        if any(is_inside(place, self.made[0]) for place in places):  # the component of a tuple
            places[-1] = index_constant(builder, 0)
        line = LINE_BYTES // element_size_bytes(memory.type.element_type)
        self._prefetch_lines(builder, memory, places, self.lines * line)

    def _dims(self, ops: list[Operation], run: memref.LoadOp | None) -> Dims:
        """Return the dimensions of the loops that check, each with the induction variable of now, if it has one.

        One loop over all indices becomes those over the dimensions of the array.
        """
        if run is None:
            used = {operand for op in ops for operand in op.operands}
            return [(loop.label.dimension, loop.induction) for loop in chain(self.check) if loop.induction in used]
        view = view_of(viewed(run.memref), self.function)
        assert view is not None
        return [(name, None) for name in view.dims]

    def _whole(self, builder: Builder, name: str, run: memref.LoadOp | None) -> LoopBounds:
        """Return the bounds of a dimension that one iteration runs through as a whole."""
        one = index_constant(builder, 1)
        if run is None:
            first = next(loop for loop in chain(self.check) if loop.label.dimension == name)
            return first.lower, first.upper, one
        view = view_of(indices := viewed(run.memref), self.function)
        assert view is not None
        return index_constant(builder, 0), size_of(builder, indices, view.dims.index(name), name), one

    def _sum(self, count: SSAValue) -> SSAValue:
        """Let the loop and those around it sum the count, and return the sum of all."""
        for loop in self.around:
            Rewriter.erase_op(loop.terminator)
            loop.body.block.add_op(made_from(loop, YieldOp(count)))
            body, bounds = loop.detach_region(loop.body), (loop.lower, loop.upper, loop.step)
            summing = LoopOp(loop.label, *bounds, body, **kind_of(loop) | {"sums": True})
            replace_op(loop, summing, [])
            assert summing.total is not None
            count = summing.total
            count.name_hint = "n_outside"
        return count


def _tile(builder: Builder, around: LoopOp) -> LoopBounds:
    """Return the bounds of what one iteration of a loop over tiles runs through."""
    limit = named(builder, arith.AddiOp(around.induction, around.step), "limit")
    end = named(builder, arith.MinSIOp(limit, around.upper), "end")
    return around.induction, end, index_constant(builder, 1)


def _accesses(function: func.FuncOp) -> list[Operation]:
    """Return the loads of data and the stores to out."""
    arguments = {function.body.block.args[0], function.body.block.args[-1]}
    accesses = (memref.LoadOp, memref.StoreOp, vector.LoadOp, vector.StoreOp, MaskedLoadOp)
    return [
        op
        for op in function.walk()
        if isinstance(op, accesses) and arguments & {viewed(value) for value in op.operands}
    ]


def _shape(load: memref.LoadOp) -> tuple[int, ...]:
    return SSAValue.get(load.memref, type=MemRefType).type.get_shape()


def _load_of_run(ops: list[Operation]) -> memref.LoadOp | None:
    """Return the load of an index from a view of all indices as one dimension, if that is how they are read."""
    return next((op for op in ops if isinstance(op, memref.LoadOp) and op.memref is not viewed(op.memref)), None)
