"""The pass `fuse-bounds-check`: check and copy, or add, in one go, within the scheduled nest, level 3."""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, ModuleOp, UnitAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.attributes import FRESH_OUT, MIN_AXIS_SIZES
from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, MaskedLoadOp, YieldOp
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ....ir.semantics import DYNAMIC
from ...nest.backward_slice import clone_slice, slice_of
from ...nest.builder import LoopBounds, index_constant, insert_loop, named, size_of, sum_up, tile_bounds, unguard
from ...nest.located import builder_at_end, made_from
from ...nest.prefetching import NextIndices
from ...nest.queries import (
    chain,
    check_ranges,
    enclosing_loops,
    find_loop,
    functions,
    guarded_copy,
    loops,
    static_size,
    view_of,
    viewed,
)
from ...schedule.schedule import WHOLE_ROW
from ...schedule.thresholds import MOST_PREFETCHED_LINES

# Of the indices that the next iteration checks first: the processor fetches those behind them itself. Batches of 500
# rows of 64 B: 1.00 of the speed of a separate check, 0.97 with 1 line or none (Zen 4).
LINES_AHEAD = 4

# Dimensions, each with the induction variable of the old check, if it has one.
Dims = list[tuple[LoopName, SSAValue | None]]


@dataclass(frozen=True)
class FuseBoundsCheck(ModulePass):
    """Check the indices of an iteration of a loop right before it copies.

    `fold-bounds` leaves a nest that checks all indices and, behind it, one that copies: every index is read from memory
    twice, and two nests start threads. Here the indices of a tile, or of a batch, are checked while they are on their
    way to the caches, and then read from there. An iteration with an index out of range copies nothing, so nothing
    outside of data is read. While one copies, indices of the next are prefetched. The rows of a tile are checked by one
    loop where they lie in one run.

    The price is that out is written before the last index is checked. The function carries `gather.fresh_out`: where it
    returns another number than 0, out holds anything, and the caller discards it. So the pass is for results that
    nobody has yet.

    Gradients and reductions add where gathers copy, and the nests that clear and scale out run whatever the indices
    are. Owners have a loop over tiles of indices each, which all of them check.

    before                              after fuse-bounds-check{loop=indices_o}
        for check_indices in 0..n           for indices_o in 0..n step 256
          bad += outside(indices[i])          for check_indices in t..t+256
        if bad == 0                             bad_here += outside(indices[i])
          for indices_o in 0..n step 256      if bad_here == 0
            for indices_i in t..t+256           for indices_i in t..t+256
              out[i] = data[indices[i]]           out[i] = data[indices[i]]
                                              bad += bad_here

    Preconditions: `fold-bounds` has run; the loop is around all that is copied or added, and around what lists indices,
    and no loop in it is parallel. Loops of the nest that checks may be tiled and parallel: they are made anew. Owners
    that check need a position to own, which the function carries as `gather.min_axis_sizes`.

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

    What it does not do: indices that are sorted by position (`group-indices`), which reads all of them before it adds.
    A function stays whose indices need no check, or are checked so already.

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
    """Return the innermost parallel loop of a nest that copies or adds; None where none is parallel."""
    found = [loop for loop in loops(function) if loop.parallel is not None and not loop.label.nest]
    return found[-1] if found else None


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
        if any(not loop.is_ancestor(op) for op in _accesses(function)):
            raise ScheduleError(
                f"fuse-bounds-check: {loop.label} is not around all that is copied or added; name a loop around it"
            )
        if listed := self._loop_over_list():
            raise ScheduleError(
                f"fuse-bounds-check: {listed.label} runs over what was listed before, and no index that is outside is; "
                "name the loop over tiles of indices"
            )
        if sorting := self._sorting_loop():
            raise ScheduleError(
                f"fuse-bounds-check: {sorting.label} sorts all indices by position before {loop.label}; leave "
                "group-indices out, or this pass"
            )
        parallel = [op.label for op in loops(loop) if op is not loop and op.parallel is not None]
        if parallel:
            raise ScheduleError(
                f"fuse-bounds-check: {parallel[0]} is parallel in {loop.label}; name the innermost parallel loop"
            )

    def _loop_over_list(self) -> LoopOp | None:
        """Return the loop that checks, or one around it, whose bounds are counted while the nest runs, if one is so."""
        for loop in self.around:
            bounds = slice_of([loop.lower, loop.upper], self.around[-1])
            if any(isinstance(op, memref.LoadOp) for op in bounds):
                return loop
        return None

    def _sorting_loop(self) -> LoopOp | None:
        """Return the loop beside the one that checks that stores at places made from indices, if one does."""
        indices = self.function.body.block.args[1]
        beside = [op for op in self.branch.true_region.block.ops if isinstance(op, LoopOp)]
        for outer in [op for op in beside if not op.is_ancestor(self.loop)]:
            places = [place for op in outer.walk() if isinstance(op, memref.StoreOp) for place in op.indices]
            loads = [op for op in slice_of(places, outer) if isinstance(op, memref.LoadOp)]
            if any(viewed(load.memref) is indices for load in loads):
                return outer
        return None

    def fuse(self) -> None:
        unguard(self.branch)
        assert self.check.total is not None
        self.check.total.replace_all_uses_with(sum_up(self.around, self._check_here()))
        Rewriter.erase_op(self.check)
        self.function.attributes[FRESH_OUT] = UnitAttr()
        if any(around.label.dimension == "owners" for around in self.around):
            _ask_for_positions(self.function)

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
        ahead = NextIndices(self.loop, self.function.body.block.args[1])
        if self.lines == WHOLE_ROW and not ahead.prefetch_all(body):
            raise ScheduleError(
                f"fuse-bounds-check: lines=0 expects a loop in {self.loop.label} that reads other indices in each "
                "iteration of it, in vectors; use 1 or more lines"
            )
        count = self._nest()
        builder = builder_at_end(self.loop, self.check)
        if self.made and self.lines != WHOLE_ROW:
            ahead.prefetch_first(builder, self.made, self.moved, self.lines)
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
        rows = None if run is None else self._rows_of_tile(builder, run)
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
            name: tile_bounds(builder, around_it[name]) if name in around_it else self._whole(builder, name, run)
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

    def _rows_of_tile(self, builder: Builder, run: memref.LoadOp) -> LoopBounds | None:
        """Insert the bounds, in the run of all indices, of those of a tile of rows; None where no tile has whole rows.

        One loop over them has no short rows, each of which LLVM would check by itself or load from all rows at once.
        """
        indices = viewed(run.memref)
        view = view_of(indices, self.function)
        assert view is not None
        tile, *others = [
            next((loop for loop in self.around if loop.label.dimension == name), None) for name in view.dims
        ]
        sizes = SSAValue.get(indices, type=MemRefType).type.get_shape()
        if tile is None or static_size(tile.step) == 1 or any(others) or not others or DYNAMIC in sizes[2:]:
            return None
        first, last, one = tile_bounds(builder, tile)
        for dim, name in enumerate(view.dims[1:], 1):
            size = size_of(builder, indices, dim, name)
            first = named(builder, arith.MuliOp(first, size), "first")
            last = named(builder, arith.MuliOp(last, size), "last")
        return first, last, one

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


def _accesses(function: func.FuncOp) -> list[Operation]:
    """Return the loads of data, and what stores or adds to out, but for the nests that clear and scale it."""
    arguments = {function.body.block.args[0], function.body.block.args[2]}
    accesses = (memref.LoadOp, memref.StoreOp, vector.LoadOp, vector.StoreOp, MaskedLoadOp, AccumulateOp)
    return [
        op
        for op in function.walk()
        if isinstance(op, accesses)
        and arguments & {viewed(value) for value in op.operands}
        and not any(loop.label.nest in ("clear", "scale") for loop in enclosing_loops(op))
    ]


def _ask_for_positions(function: func.FuncOp) -> None:
    """Let the function carry that no axis is empty: where it is, no owner would check an index."""
    view = view_of(function.body.block.args[2], function)
    assert view is not None
    axes = sum(name.role == "axis" for name in view.dims)
    known = function.attributes.get(MIN_AXIS_SIZES)
    least = list(known.get_values()) if isinstance(known, DenseArrayBase) else [0] * axes
    function.attributes[MIN_AXIS_SIZES] = DenseArrayBase.from_list(i64, [max(int(size), 1) for size in least])


def _load_of_run(ops: list[Operation]) -> memref.LoadOp | None:
    """Return the load of an index from a view of all indices as one dimension, if that is how they are read."""
    return next((op for op in ops if isinstance(op, memref.LoadOp) and op.memref is not viewed(op.memref)), None)
