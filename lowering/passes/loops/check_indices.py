"""The pass `check-indices`: it chooses when each index is checked, within the scheduled nest, level 3."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    UnitAttr,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.attributes import FRESH_OUT, I64, MIN_AXIS_SIZES, MOST_AXIS_SIZE
from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, MaskedLoadOp, YieldOp
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import CompressStoreOp, FromElementsOp, PrefetchOp, sum_of_lanes
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ....ir.semantics import DYNAMIC
from ...nest.bounds_arithmetic import is_clamp
from ...nest.builder import (
    LoopBounds,
    NestBuilder,
    builder_at_end,
    builder_before,
    clone_iterations,
    erase_unused,
    made_from,
    replace_op,
    split_off_steps,
    sum_counts,
    sum_up,
    tile_bounds,
    unguard,
)
from ...nest.owners import LISTING, OWNERS, operands_of
from ...nest.queries import (
    chain,
    clone_slice,
    enclosing_loops,
    find_loop,
    functions,
    guarded_copy,
    is_inside,
    line_elements,
    loops,
    memory_of,
    slice_of,
    static_size,
    view_of,
    viewed,
)
from ...schedule.checks import fewest_bits
from ...schedule.machine_model import LINE_BYTES
from ...schedule.steps import MAX_LINES, WHOLE_ROW
from ..owners.sort_indices import COUNTING

# A fused check prefetches this number of lines of the next iteration's indices; the processor fetches the rest itself.
LINES_AHEAD = 4
WIDTHS = (8, 16, 32)  # bits of a staged position
# A staged check takes 16 indices at a time, and prefetches 4 KB ahead. Relative to its time, 32 lanes take 1.0, no
# prefetches 1.08, and a loop over one index, which LLVM vectorises, 1.2 (Zen 4).
LANES, BYTES_AHEAD = 16, 4096

# Dimensions, each with the induction variable of the old check, if it has one.
Dims = list[tuple[LoopName, SSAValue | None]]


@dataclass(frozen=True)
class CheckIndices(ModulePass):
    """Choose when each index is checked: before all copies, or with them.

    `fold-bounds` leaves a nest that checks all indices and, behind it, a nest that copies: every index is read from
    memory twice, and two nests start threads. (In gradients and reductions the second nest adds; the pass is for them,
    too.)

    | how     | an index is checked                  | out is written           | for                            |
    |---------|--------------------------------------|--------------------------|--------------------------------|
    | before  | in the nest of `fold-bounds`         | once all are valid       | any nest; it stays as it is    |
    | fused   | with its tile, right before the copy | before the last is known | a result that nobody has yet   |
    | staged  | with the others, and resolved        | once all are valid       | an axis of few positions       |
    | counted | by the lengths of the owners' lists  | before the last is known | listed elements of a gradient  |

    Where out is written before the last index is checked, the function carries `gather.fresh_out`: if it returns a
    number other than 0, out holds anything, and the caller discards it. `stage-result` turns it into a function for an
    out that somebody has.

    **Fused.** The indices of a tile, or of a batch, are checked while they are on their way to the caches, and then
    read from there. An iteration with an index out of range copies nothing, so nothing outside of data is read. While
    an iteration copies, the indices of the next one are prefetched. One loop checks the rows of a tile where they lie
    in one run. The nests that clear and scale out run whatever the indices are. Each owner has a loop over tiles of
    indices, and checks all of them.

    before                              after check-indices{how=fused loop=indices_o}
        for check_indices in 0..n           for indices_o in 0..n step 256
          bad += outside(indices[i])          for check_indices in t..t+256
        if bad == 0                             bad_here += outside(indices[i])
          for indices_o in 0..n step 256      if bad_here == 0
            for indices_i in t..t+256           for indices_i in t..t+256
              out[i] = data[indices[i]]           out[i] = data[indices[i]]
                                              bad += bad_here

    **Staged.** The nest that checks resolves each index, too, and writes its position as an integer of 1, 2 or 4 bytes.
    The second nest, its prefetches and its owners read these positions. Every index is read once, so the positions need
    no clamp. The memory is taken before anything is written, so a call that gets none leaves out as it was.

    before                              after check-indices{how=staged bits=8}
        for check_indices in 0..n           for check_indices in 0..n
          bad += outside(indices[i])          bad += outside(indices[i])
        if bad == 0                           positions[i] = resolve(indices[i])
          for indices in 0..n               if bad == 0
            p = resolve(indices[i])           for indices in 0..n
            out[i] = data[p]                    out[i] = data[positions[i]]

    **Counted.** Each position has one owner, so each valid index is on the list of one owner. An owner lists an index
    only if it is within the axis, instead of clamping it, and the lengths of all lists are summed: the sum is the
    number of indices exactly where each of them is valid. (Where another thread writes to the indices meanwhile the sum
    may be larger, which counts as invalid, too.) No nest checks indices any more; they are read from memory once less.

    before                                after check-indices{how=counted}
        for check_indices in 0..n             for owners(first) in ...
          bad += outside(indices[i])            for indices_o in 0..n step 2048
        if bad == 0                               for compact_indices_i in t..t+2048
          for owners(first) in ...                  positions[count] = p = resolve(indices[i])
            for indices_o in 0..n step 2048         count += p - first <u part and p <u n_axis
              for compact_indices_i in ...        listed += count
                positions[count] = p              for indices_i in 0..count
                count += p - first <u part          out[positions[k]] += elements[k]
              for indices_i in 0..count       bad = |n - listed|
                out[positions[k]] += ...

    Preconditions: `fold-bounds` has run. Fused: the loop is around all copies, additions and lists of indices, and no
    loop in it is parallel; loops of the nest that checks may be tiled and parallel, since they are made
    anew; owners that check need a position to own, which the function carries as `gather.min_axis_sizes`. Staged: the
    check is one loop over all indices, or over tiles of them; the indexed axis has no more than 2**bits positions,
    which the function carries as `gather.most_axis_size`. Counted: `compact-indices` lists positions and elements, one
    by one or in vectors.

    Options:
        how: before, fused, staged or counted.
        loop: the loop of a fused check; the innermost parallel one when omitted, and nothing is done where none is
            parallel. Where a loop at or around it repeats the indices, they are checked and counted each time: the
            number is still 0 exactly where every index is valid.
        lines: for a fused check, the number of lines of 64 bytes, 1 to 64, of the indices of the next iteration that
            are prefetched before the copy; 0 for all of them, step by step in the loops that read the indices of this
            iteration in vectors.
        bits: the bits of a staged position, 8, 16 or 32, fewer than an index has. When omitted, a static axis decides;
            nothing is done where the axis is dynamic or needs the bits of an index.

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

    What it does not do: fuse the check of indices that are sorted by position (`group-indices`), which reads all of
    them before it adds; stage tuples of indices, or indices with gaps between them; count lists of the places of rows,
    or of tuples. A function stays unchanged if its indices need no check or are checked in such a way already, or if it
    lists nothing under `counted`.

    Raises:
        ScheduleError: a precondition does not hold, an option is out of range or of another check, or a loop repeats
            the indices that are counted.
    """

    name = "check-indices"

    how: Literal["before", "fused", "staged", "counted"]
    loop: str | None = None
    lines: int = LINES_AHEAD
    bits: int | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not WHOLE_ROW <= self.lines <= MAX_LINES:
            raise ScheduleError(f"check-indices: expected lines of {WHOLE_ROW} to {MAX_LINES}, got {self.lines}")
        if self.bits not in (*WIDTHS, None):
            raise ScheduleError(f"check-indices: expected bits=8, 16 or 32, got bits={self.bits}")
        if self.how != "fused" and (self.loop, self.lines) != (None, LINES_AHEAD):
            raise ScheduleError(f"check-indices: loop and lines are options of a fused check, got how={self.how}")
        if self.how != "staged" and self.bits is not None:
            raise ScheduleError(f"check-indices: bits is an option of a staged check, got how={self.how}")
        for function in functions(op):
            if self.loop is not None:
                find_loop(function, self.loop)
            if function.function_type.outputs.data and FRESH_OUT not in function.attributes:
                self._check(function)

    def _check(self, function: func.FuncOp) -> None:
        """Change the check of a function that has one as `how` says."""
        if self.how == "fused":
            parallel = [loop for loop in loops(function) if loop.parallel is not None and not loop.label.nest]
            found = parallel[-1:] if self.loop is None else [find_loop(function, self.loop)]
            for loop in found:
                _Fusion(function, loop, self.lines, *guarded_copy(function, self.name)).fuse()
        elif self.how == "staged" and MOST_AXIS_SIZE not in function.attributes:
            bits = _fewest_bits(function) if self.bits is None else self.bits
            if bits is not None:
                _stage(function, IntegerType(bits))
        elif self.how == "counted":
            listing = [loop for loop in loops(function) if loop.label.startswith(LISTING)]
            if listing:
                _count(function, listing, *guarded_copy(function, self.name))


# Fused


class _Fusion:
    """One function: the nest that checks, the branch with the copy, and the loop that will have both.

    `made` are the loops of the new check. `moved` is the one of them along the dimension of `loop`, or the first inside
    that: the next iteration of `loop` begins where it ends. It is None where there is no such loop.
    """

    def __init__(self, function: func.FuncOp, loop: LoopOp, lines: int, check: LoopOp, branch: scf.IfOp):
        self.function, self.loop, self.lines, self.check, self.branch = function, loop, lines, check, branch
        self.around = [loop, *enclosing_loops(loop)]
        self.made: list[LoopOp] = []
        self.moved: LoopOp | None = None
        if any(not loop.is_ancestor(op) for op in _accesses(function)):
            raise ScheduleError(
                f"check-indices: {loop.label} is not around all copies and additions; name a loop around it"
            )
        outermost = self.around[-1]
        bounds = {around: slice_of([around.lower, around.upper], outermost) for around in self.around}
        listed = next((one for one in bounds if any(isinstance(op, memref.LoadOp) for op in bounds[one])), None)
        if listed is not None:
            raise ScheduleError(
                f"check-indices: {listed.label} runs over a list, which has no index that is outside; "
                "name the loop over tiles of indices"
            )
        sorting = next((one for one in loops(branch) if one.label.startswith(f"{COUNTING}_indices")), None)
        if sorting is not None:
            raise ScheduleError(
                f"check-indices: {sorting.label} sorts all indices by position before {loop.label}; leave "
                "group-indices out, or this pass"
            )
        parallel = [op.label for op in loops(loop) if op is not loop and op.parallel is not None]
        if parallel:
            raise ScheduleError(
                f"check-indices: {parallel[0]} is parallel in {loop.label}; name the innermost parallel loop"
            )

    def fuse(self) -> None:
        unguard(self.branch)
        assert self.check.total is not None
        self.check.total.replace_all_uses_with(sum_up(self.around, self._check_here()))
        Rewriter.erase_op(self.check)
        self.function.attributes[FRESH_OUT] = UnitAttr()
        if any(around.label.dimension == "owners" for around in self.around):
            _require_positions(self.function)

    def _check_here(self) -> SSAValue:
        """Put the check at the start of the loop's body, and the rest of the body under it; return the count."""
        rest = [op for op in self.loop.body.block.ops if not isinstance(op, YieldOp)]
        Rewriter.erase_op(self.loop.terminator)
        buffers = [op for op in rest if isinstance(op, memref.AllocaOp)]  # memory is taken once, not in a branch
        body = Block()
        for op in rest:
            op.detach()
            (self.loop.body.block if op in buffers else body).add_op(op)
        body.add_op(scf.YieldOp())
        if self.lines == WHOLE_ROW and not self._prefetch_all(body):
            raise ScheduleError(
                f"check-indices: lines=0 expects a loop in {self.loop.label} that reads other indices in each "
                "iteration of it, in vectors; use 1 or more lines"
            )
        count = self._nest()
        builder = builder_at_end(self.loop, self.check)
        if self.made and self.lines != WHOLE_ROW:
            self._prefetch_first(builder)
        none = builder.constant(0, 64, "none")
        inside = builder.compare("eq", count, none, "all_inside")
        builder.insert(scf.IfOp(inside, [], Region(body)))
        builder.insert(YieldOp())
        return count

    def _nest(self) -> SSAValue:
        """Build the loops that check the indices of one iteration, and return the number of those outside."""
        innermost = chain(self.check)[-1]
        (counted,) = innermost.terminator.operands
        ops = slice_of([counted], self.check)
        builder, made, mapping = builder_at_end(self.loop, innermost), self.made, dict[SSAValue, SSAValue]()
        # The check may read indices from a view of all of them as one dimension.
        run = next((op for op in ops if isinstance(op, memref.LoadOp) and op.memref is not viewed(op.memref)), None)
        rows = None if run is None else self._rows_of_tile(builder, run)
        if run is not None and rows is not None:
            name = LoopName("indices").beside("check")
            made.append(builder.loop(name, rows, name.induction, innermost, sums=True))
            self.moved = made[0]
            builder = builder_at_end(made[0], innermost)
            index = made_from(run, memref.LoadOp.get(run.memref, [made[0].induction]))
        else:
            builder, places = self._loops_over(builder, self._dims(ops, run), run, mapping)
            index = None if run is None else made_from(run, memref.LoadOp.get(viewed(run.memref), places))
        if run is not None and index is not None:
            mapping[run.res] = builder.named(index, run.res.name_hint)
        mapping |= clone_slice(ops, builder, mapping)
        return sum_counts(made, mapping.get(counted, counted))

    def _loops_over(
        self, builder: NestBuilder, dims: Dims, run: memref.LoadOp | None, mapping: dict[SSAValue, SSAValue]
    ) -> tuple[NestBuilder, list[SSAValue]]:
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
                loop = builder.loop(name.beside("check"), bounds[name], name.induction, innermost, sums=True)
                self.made.append(loop)
                self.moved = loop if is_reached and self.moved is None else self.moved
                places.append(loop.induction)
                builder = builder_at_end(loop, innermost)
            mapping |= {} if old is None else {old: places[-1]}
        return builder, places

    def _rows_of_tile(self, builder: NestBuilder, run: memref.LoadOp) -> LoopBounds | None:
        """Insert the bounds of a tile of rows in the run of all indices; None where no tile has whole rows.

        One loop over the run avoids short rows, which LLVM would check one by one, or load from all rows at once.
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
            size = builder.size(indices, dim, name)
            first = builder.compute(arith.MuliOp, first, size, "first")
            last = builder.compute(arith.MuliOp, last, size, "last")
        return first, last, one

    def _dims(self, ops: list[Operation], run: memref.LoadOp | None) -> Dims:
        """Return the dimensions of the loops that check, each with its present induction variable, if it has one.

        One loop over all indices becomes a loop over each dimension of the array.
        """
        if run is None:
            used = {operand for op in ops for operand in op.operands}
            return [(loop.label.dimension, loop.induction) for loop in chain(self.check) if loop.induction in used]
        view = view_of(viewed(run.memref), self.function)
        assert view is not None
        return [(name, None) for name in view.dims]

    def _whole(self, builder: NestBuilder, name: str, run: memref.LoadOp | None) -> LoopBounds:
        """Return the bounds of a dimension that one iteration runs through as a whole."""
        one = builder.index(1)
        if run is None:
            first = next(loop for loop in chain(self.check) if loop.label.dimension == name)
            return first.lower, first.upper, one
        view = view_of(indices := viewed(run.memref), self.function)
        assert view is not None
        return builder.index(0), builder.size(indices, view.dims.index(name), name), one

    def _prefetch_all(self, body: Block) -> bool:
        """Prefetch all indices in steps of the loops that read them in vectors; return whether there are such loops."""
        swept: list[LoopOp] = []
        for load in [op for op in body.walk() if isinstance(op, memref.LoadOp)]:
            reading, indices = load.parent_op(), self.function.body.block.args[1]
            if not isinstance(reading, LoopOp) or viewed(load.memref) is not indices or reading in swept:
                continue
            # The loop reads several indices in a step, and the next iteration has others.
            is_vector = reading.induction in load.indices and static_size(reading.step) != 1
            if not is_vector or not any(map(self._is_moved, load.indices)):
                continue
            swept.append(reading)
            builder = builder_before(load)
            places = [self._next(builder, place) for place in load.indices]
            sizes = SSAValue.get(load.memref, type=MemRefType).type.get_shape()
            behind = sizes[list(load.indices).index(reading.induction) + 1 :]
            read = (static_size(reading.step) or 1) * math.prod(max(size, 1) for size in behind)
            _prefetch_lines(builder, load.memref, places, read)
        return bool(swept)

    def _prefetch_first(self, builder: NestBuilder) -> None:
        """Prefetch the first lines of the indices of the next iteration, behind the loops that check."""
        load = next(op for op in self.made[-1].body.block.ops if isinstance(op, memref.LoadOp))
        starts = {loop.induction: loop.upper if loop is self.moved else loop.lower for loop in self.made}
        places = [starts.get(place, place) for place in load.indices]
        if self.moved is None:
            places = [self._next(builder, place) for place in places]
        if any(is_inside(place, self.made[0]) for place in places):  # the component of a tuple
            places[-1] = builder.index(0)
        _prefetch_lines(builder, load.memref, places, self.lines * line_elements(load.memref))

    def _is_moved(self, place: SSAValue) -> bool:
        """Return whether a place is counted by the loop, or by a loop over one of its tiles."""
        around = place.owner.parent_op() if isinstance(place.owner, Block) else None
        return isinstance(around, LoopOp) and around.label.dimension == self.loop.label.dimension

    def _next(self, builder: NestBuilder, place: SSAValue) -> SSAValue:
        """Return the place one iteration later."""
        return builder.compute(arith.AddiOp, place, self.loop.step, "next") if self._is_moved(place) else place


def _accesses(function: func.FuncOp) -> list[Operation]:
    """Return the loads of data, and the stores and additions to out outside of the nests that clear and scale it."""
    arguments = {function.body.block.args[0], function.body.block.args[2]}
    accesses = (memref.LoadOp, memref.StoreOp, vector.LoadOp, vector.StoreOp, MaskedLoadOp, AccumulateOp)
    return [
        op
        for op in function.walk()
        if isinstance(op, accesses)
        and arguments & {viewed(value) for value in op.operands}
        and not any(loop.label.nest in ("clear", "scale") for loop in enclosing_loops(op))
    ]


def _require_positions(function: func.FuncOp) -> None:
    """Mark the function as one for axes that are not empty: on an empty axis, no owner would check an index."""
    view = view_of(function.body.block.args[2], function)
    assert view is not None
    axes = sum(name.role == "axis" for name in view.dims)
    known = function.attributes.get(MIN_AXIS_SIZES)
    least = list(known.get_values()) if isinstance(known, DenseArrayBase) else [0] * axes
    function.attributes[MIN_AXIS_SIZES] = DenseArrayBase.from_list(i64, [max(int(size), 1) for size in least])


def _prefetch_lines(builder: NestBuilder, memory: SSAValue, places: Sequence[SSAValue], count: int) -> None:
    """Prefetch a number of elements from a place on, a line at a time."""
    line = line_elements(memory)
    builder.insert(PrefetchOp(memory, places, 3))
    for offset in range(line, count, line):
        behind = builder.compute(arith.AddiOp, places[-1], offset, "behind")
        builder.insert(PrefetchOp(memory, [*places[:-1], behind], 3))


# Staged


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
    """Return the bits that positions of a static axis need; None where it is dynamic or an index has no more bits."""
    if len(function.body.block.args) < 2 or not (sizes := _axis_sizes(function)) or min(sizes) < 0:
        return None
    indices = SSAValue.get(function.body.block.args[1], type=MemRefType).type
    return fewest_bits(max(sizes), element_size_bytes(indices.element_type), WIDTHS)


def _stage(function: func.FuncOp, width: IntegerType) -> None:
    check, branch = guarded_copy(function, CheckIndices.name)
    innermost = chain(check)[-1]
    checked = [op for op in innermost.body.block.ops if isinstance(op, memref.LoadOp)]
    indices = function.body.block.args[1]
    copied = [op for op in branch.walk() if isinstance(op, memref.LoadOp) and viewed(op.memref) is indices]
    places = checked[0].indices if len(checked) == 1 else ()
    is_run = [place for place in places if static_size(place) != 0] == [innermost.induction]
    if not is_run or not copied:
        raise ScheduleError("check-indices: expected one loop that checks all indices, which have no gaps")
    bits, index, most = width.width.data, checked[0].res.type, max(_axis_sizes(function), default=0)
    if isinstance(index, IntegerType) and index.width.data <= bits:
        raise ScheduleError(f"check-indices: positions of {bits} bits are no narrower than indices of {index}")
    if most > 1 << bits:
        raise ScheduleError(f"check-indices: {bits} bits hold {1 << bits} positions, and the axis has {most}")
    memory = builder_before(check).named(memref.AllocOp.get(width, None, [DYNAMIC_INDEX], [check.upper]), "positions")
    uses = [_Use(load) for load in copied]
    _stage_position(innermost, checked[0], uses[0], memory)
    _vectorize(innermost)
    for use in uses:
        use.read(memory)
    NestBuilder(InsertPoint.after(branch), branch).insert(memref.DeallocOp.get(memory))
    function.attributes[MOST_AXIS_SIZE] = IntegerAttr(1 << bits, I64)


class _Use:
    """An index that the copy reads: its load, the operations that resolve and clamp it, and the position they give.

    `extension` extends it to 64 bits, and `size` is added to a negative one; each is None where that is not done.
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
        narrow = builder.load(memory, [place], "narrow")
        self.position.replace_all_uses_with(builder.named(arith.ExtUIOp(narrow, I64), "wrapped"))
        erase_unused(self.ops)


def _stage_position(innermost: LoopOp, load: memref.LoadOp, use: _Use, memory: SSAValue) -> None:
    """Make the loop that checks write the position of each index, resolved as in the copy."""
    builder = NestBuilder(InsertPoint.before(innermost.terminator), use.load)
    position: SSAValue = load.res
    if use.extension is not None:
        position = builder.named(type(use.extension)(position, I64), "wide")
    if use.size is not None:
        assert isinstance(use.size.owner, arith.IndexCastOp)
        size = builder.cast(use.size.owner.input, I64, "size")
        last = builder.constant(63, 64, "c63")
        sign = builder.compute(arith.ShRSIOp, position, last, "sign")
        shift = builder.compute(arith.AndIOp, size, sign, "shift")
        position = builder.compute(arith.AddiOp, position, shift, "wrapped")
    assert isinstance(memory.type, MemRefType)
    narrow = builder.named(arith.TruncIOp(position, memory.type.element_type), "narrow")
    builder.insert(memref.StoreOp.get(narrow, memory, [innermost.induction]))


def _vectorize(loop: LoopOp) -> None:
    """Check and stage indices in vectors, and prefetch the indices of a later step."""
    (count,) = loop.terminator.operands
    (kept,) = [op for op in loop.body.block.ops if isinstance(op, memref.StoreOp)]
    (load,) = [op for op in loop.body.block.ops if isinstance(op, memref.LoadOp)]
    body = split_off_steps(loop, LANES)
    builder = builder_at_end(body, loop)
    index_bytes = element_size_bytes(load.res.type)
    for offset in range(0, LANES * index_bytes, LINE_BYTES):
        ahead = builder.index((BYTES_AHEAD + offset) // index_bytes)
        place = builder.compute(arith.AddiOp, body.induction, ahead, "ahead")
        builder.insert(PrefetchOp(load.memref, [place if at is loop.induction else at for at in load.indices], 3))
    ops = slice_of([kept.value, count], loop)
    copies = clone_iterations(builder, ops, loop, body, LANES)
    narrow, outside = (
        builder.named(FromElementsOp([copy[value] for copy in copies]), name)
        for value, name in ((kept.value, "narrow_lanes"), (count, "outside_lanes"))
    )
    builder.insert(vector.StoreOp(narrow, kept.memref, [body.induction]))
    builder.insert(YieldOp(builder.named(sum_of_lanes(outside), "n_outside")))
    assert loop.total is not None and body.total is not None
    body.total.name_hint = "n_outside"
    both = arith.AddiOp(body.total, loop.total)
    loop.total.replace_uses_with_if(
        NestBuilder(InsertPoint.after(loop), loop).named(both, "n_outside"), lambda use: use.operation is not both
    )


def _place_in_run(builder: NestBuilder, load: memref.LoadOp) -> SSAValue:
    """Insert the place of an index among all, from its subscripts.

    A constant in a subscript is added last, so that the code generator sees which lanes lie side by side.
    """
    assert isinstance(load.memref.type, MemRefType)
    sizes = load.memref.type.get_shape()
    (_, place), *others = [(dim, subscript) for dim, subscript in enumerate(load.indices) if sizes[dim] != 1] or [
        (0, load.indices[0])
    ]
    for dim, subscript in others:
        place = builder.compute(arith.MuliOp, place, builder.size(load.memref, dim, "row"), "row")
        terms, added = [subscript], subscript.owner
        if isinstance(added, arith.AddiOp) and static_size(added.rhs) is not None:
            terms = [added.lhs, added.rhs]
        for term in terms:
            place = builder.compute(arith.AddiOp, place, term, "place")
    return place


# Counted


def _count(function: func.FuncOp, listing: list[LoopOp], check: LoopOp, branch: scf.IfOp) -> None:
    tile = _tile_of(listing, function)
    builder, positions = builder_before(check), memory_of(_stores(listing[0])[0])
    adding = next(op for op in function.walk() if isinstance(op, AccumulateOp))
    loads = [operands_of(place, arith.IndexCastOp)[0].owner for place in adding.subscripts]
    (dim,) = [dim for dim, load in enumerate(loads) if isinstance(load, memref.LoadOp) and load.memref is positions]
    size = builder.cast(builder.size(adding.memref, dim, "axis"), i64, "size")
    for loop in listing:
        listed = _listed(loop)
        for clamp in slice_of([position for position, _ in listed], loop):
            if is_clamp(clamp):
                replace_op(clamp, (), [clamp.operands[0]])
        for position, owned in _listed(loop):  # an index is listed only where it is within the axis, too
            uses = list(owned.uses)
            inside = builder_before(next(use.operation for use in uses if isinstance(use.operation, arith.ExtUIOp)))
            within = inside.compare("ult", position, size, "within")
            both = inside.compute(arith.AndIOp, owned, within, "owned_within")
            for use in uses:
                use.operation.operands[use.index] = both
    indices = function.body.block.args[1]
    view = view_of(indices, function)
    assert view is not None
    count, *others = [builder.size(indices, dim, name) for dim, name in enumerate(view.dims)]
    for other in others:
        count = builder.compute(arith.MuliOp, count, other, "n_all")
    wanted = builder.cast(count, i64, "n_all")
    unguard(branch)
    counter = memory_of(_stores(listing[-1])[-1])  # is loaded behind the loops that list
    (length,) = [op for op in tile.body.block.ops if isinstance(op, memref.LoadOp) and op.memref is counter]
    total = sum_up([tile, *enclosing_loops(tile)], length.res)
    terminator, counted = function.body.block.last_op, check.total
    assert terminator is not None and counted is not None
    end = builder_before(terminator, check)
    missing = end.compute(arith.SubiOp, wanted, total, "n_missing")
    extra = end.compute(arith.SubiOp, total, wanted, "n_extra")
    counted.replace_all_uses_with(end.compute(arith.MaxSIOp, missing, extra, "n_outside"))
    Rewriter.erase_op(check)
    function.attributes[FRESH_OUT] = UnitAttr()


def _tile_of(listing: list[LoopOp], function: func.FuncOp) -> LoopOp:
    """Return the loop over the tiles that are listed; raises ScheduleError where lists cannot count the indices."""
    if len(_stores(listing[0])) != len(("positions", "elements", "count")):
        raise ScheduleError(
            "check-indices: expected owners that list a position and an element for each index; lists of a gradient of "
            "rows, or of tuples of indices, have no one position"
        )
    view = view_of(function.body.block.args[1], function)
    dims = () if view is None else view.dims
    tile, *around = enclosing_loops(listing[0])
    for loop in (tile, *around):
        if loop.label.dimension not in (OWNERS, *dims):
            raise ScheduleError(f"check-indices: {loop.label} repeats the indices, so their lists do not count them")
    return tile


def _stores(loop: LoopOp) -> list[memref.StoreOp | CompressStoreOp]:
    return [op for op in loop.body.block.ops if isinstance(op, memref.StoreOp | CompressStoreOp)]


def _listed(loop: LoopOp) -> list[tuple[SSAValue, SSAValue]]:
    """Return the positions that an iteration of a listing loop stores, each with the condition that it is owned."""
    positions, _, counting = _stores(loop)
    if isinstance(positions, CompressStoreOp):
        lanes, truths = positions.value.owner, positions.mask.owner
        assert isinstance(lanes, FromElementsOp) and isinstance(truths, FromElementsOp)
        return list(zip(lanes.elements, truths.elements, strict=True))
    assert isinstance(counting, memref.StoreOp)
    added = counting.value.owner
    assert isinstance(added, arith.AddiOp) and isinstance(added.rhs.owner, arith.ExtUIOp)
    return [(positions.value, added.rhs.owner.input)]
