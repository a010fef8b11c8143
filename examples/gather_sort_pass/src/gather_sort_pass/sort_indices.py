"""The pass `sort-indices`: follow the indices of a tile in the order of the pages that they point to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, ModuleOp, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from gathernest.ir.dialects.gather_dialect import AccumulateOp, LoopOp, YieldOp
from gathernest.ir.errors import ScheduleError
from gathernest.lowering.nest.queries import functions, loops
from gathernest.lowering.schedule.candidates import Space
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.lowering.schedule.steps import HoistIndices, OtherStep, Prefetch

INDEX = IndexType()


@dataclass(frozen=True)
class SortIndices(ModulePass):
    """Run the iterations of a tile in the order of the pages that its indices point to.

    A counting sort by page fills a permutation of the tile before its loop, and the loop follows the permutation:
    nearby rows are read one after the other, and written to where they belong. Iterations of a gather are independent,
    so any order of them gives the same bytes. The rows of the table are divided into `pages` equal parts.

    Preconditions: `hoist-indices` has staged the positions of a tile; no prefetch follows them.

    Input:
        gather.loop indices_i(%i) = %i_o to %end step %c1 {
          %place = arith.subi %i, %i_o ; %kept = memref.load %positions[%place] ... }
    Output:
        (count, add up and place the pages of %positions in %order)
        gather.loop indices_i(%k) = %i_o to %end step %c1 {
          %slot = arith.subi %k, %i_o ; %sorted = memref.load %order[%slot] ; %i = arith.addi %i_o, %sorted
          %place = arith.subi %i, %i_o ; %kept = memref.load %positions[%place] ... }

    Options:
        pages: parts of the table, 2 or more.
    """

    name = "sort-indices"
    pages: int = 64

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.pages < 2:
            raise ScheduleError(f"sort-indices: pages must be 2 or more, got {self.pages}")
        found = [tile for function in functions(op) for loop in loops(function) for tile in _staged(loop)]
        if not found:
            raise ScheduleError("sort-indices: no loop reads staged indices; run hoist-indices{before=indices_i} first")
        for loop, positions in found:
            _check(loop)
            _sort(loop, positions, self.pages)

    @staticmethod
    def candidates(space: Space, schedule: Schedule) -> Iterator[Schedule]:
        """Offer the tuner the schedules that stage indices, with the pass."""
        if schedule.get(HoistIndices) and not schedule.get(OtherStep) and not space.is_gradient:
            for pages in (64, 512):
                yield schedule.without(Prefetch).put(OtherStep("sort-indices", {"pages": (pages,)}))


def _staged(loop: LoopOp) -> Iterator[tuple[LoopOp, SSAValue]]:
    """Yield a loop with the buffer that it reads positions from, by its own induction variable."""
    for op in loop.body.block.ops:
        if not isinstance(op, memref.LoadOp) or not isinstance(op.memref.owner, memref.AllocaOp):
            continue
        (place, *others) = op.indices
        if others or not isinstance(place.owner, arith.SubiOp):
            continue
        if place.owner.lhs is loop.induction and place.owner.rhs is loop.lower:
            yield loop, op.memref
            return


def _check(loop: LoopOp) -> None:
    """Raise ScheduleError for a loop whose iterations are not independent, or prefetch for each other."""
    if loop.ordered is not None or any(isinstance(op, AccumulateOp) for op in loop.walk()):
        raise ScheduleError(f"sort-indices: {loop.label} adds in the order of its indices, which must stay")
    if getattr(loop.step.owner, "value", None) != IntegerAttr.from_index_int_value(1):
        raise ScheduleError(f"sort-indices: {loop.label} runs several iterations at once; leave unroll out")
    if any(op.name == "memref.prefetch" for op in loop.walk()):
        raise ScheduleError("sort-indices: the loop prefetches by the order of its indices; leave prefetch out")


def _sort(loop: LoopOp, positions: SSAValue, pages: int) -> None:
    """Sort the positions of a tile before its loop, and have the loop follow them."""
    tile, first = positions.type, loop.lower
    assert isinstance(tile, MemRefType)
    builder = Builder(InsertPoint.before(loop))
    size = _table_rows(loop, builder)
    zero, one, last = (_constant(builder, value) for value in (0, 1, pages - 1))
    count, end = (_constant(builder, value) for value in (pages, pages + 1))
    starts = builder.insert(memref.AllocaOp.get(i64, shape=[pages + 1])).memref
    order = builder.insert(memref.AllocaOp.get(i64, shape=tile.get_shape())).memref
    number = builder.insert(arith.SubiOp(loop.upper, first)).result
    # One more row a page than fit, so that there is no page without rows.
    rows = builder.insert(arith.AddiOp(builder.insert(arith.DivUIOp(size, count)).result, one)).result

    def page(inner: Builder, place: SSAValue) -> SSAValue:
        position = inner.insert(memref.LoadOp.get(positions, [place])).res
        if tile.element_type != i64:
            position = inner.insert(arith.ExtSIOp(position, i64)).result
        position = inner.insert(arith.IndexCastOp(position, INDEX)).result
        part = inner.insert(arith.DivUIOp(position, rows)).result
        return inner.insert(arith.MinUIOp(part, last)).result

    def clear(inner: Builder, place: SSAValue) -> None:
        _store(inner, zero, starts, place)

    def tally(inner: Builder, place: SSAValue) -> None:
        _add_one(inner, starts, inner.insert(arith.AddiOp(page(inner, place), one)).result, one)

    def add_up(inner: Builder, place: SSAValue) -> None:
        before = _load(inner, starts, place)
        after = inner.insert(arith.AddiOp(place, one)).result
        total = inner.insert(arith.AddiOp(before, _load(inner, starts, after))).result
        _store(inner, total, starts, after)

    def put(inner: Builder, place: SSAValue) -> None:
        slot = _add_one(inner, starts, page(inner, place), one)
        _store(inner, place, order, slot)

    for name, (upper, body) in {
        "clear": (end, clear),
        "tally": (number, tally),
        "add_up": (count, add_up),
        "put": (number, put),
    }.items():
        _loop(builder, f"{name}_{loop.label}", (zero, upper, one), body)
    _follow(loop, order, first)


def _follow(loop: LoopOp, order: SSAValue, first: SSAValue) -> None:
    """Have the body of a loop run for the iteration that the permutation names."""
    builder = Builder(InsertPoint.at_start(loop.body.block))
    slot = builder.insert(arith.SubiOp(loop.induction, first))
    iteration = builder.insert(arith.AddiOp(first, _load(builder, order, slot.result))).result
    loop.induction.replace_uses_with_if(iteration, lambda use: use.operation is not slot)


def _table_rows(loop: LoopOp, builder: Builder) -> SSAValue:
    """Return the size of the dimension of data that the positions are of."""
    derived: set[SSAValue] = {op.results[0] for op in loop.body.block.ops if isinstance(op, arith.IndexCastOp)}
    for op in loop.walk():
        if isinstance(op, memref.LoadOp | vector.LoadOp):
            for dim, subscript in enumerate(op.indices):
                if subscript in derived:
                    return builder.insert(memref.DimOp(op.operands[0], _constant(builder, dim))).result
    raise ScheduleError(f"sort-indices: expected {loop.label} to read data at the staged positions")


def _loop(builder: Builder, name: str, bounds: tuple[SSAValue, ...], fill: Callable[[Builder, SSAValue], None]) -> None:
    body = Block(arg_types=[INDEX])
    fill(Builder(InsertPoint.at_end(body)), body.args[0])
    body.add_op(YieldOp())
    builder.insert(LoopOp(name, *bounds, Region(body), ordered=True))


def _constant(builder: Builder, value: int) -> SSAValue:
    return builder.insert(arith.ConstantOp.from_int_and_width(value, INDEX)).result


def _load(builder: Builder, buffer: SSAValue, place: SSAValue) -> SSAValue:
    number = builder.insert(memref.LoadOp.get(buffer, [place])).res
    return builder.insert(arith.IndexCastOp(number, INDEX)).result


def _store(builder: Builder, value: SSAValue, buffer: SSAValue, place: SSAValue) -> None:
    number = builder.insert(arith.IndexCastOp(value, i64)).result
    builder.insert(memref.StoreOp.get(number, buffer, [place]))


def _add_one(builder: Builder, buffer: SSAValue, place: SSAValue, one: SSAValue) -> SSAValue:
    """Add one to a number of a buffer, and return what it was."""
    before = _load(builder, buffer, place)
    _store(builder, builder.insert(arith.AddiOp(before, one)).result, buffer, place)
    return before
