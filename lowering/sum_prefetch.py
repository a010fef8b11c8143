"""Prefetches for the nest of a gradient that adds: the row that a later index points to is asked for beforehand."""

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from ..ir.dialect import AccumulateOp, LoopOp
from ..ir.types import element_size_bytes
from ..ir.upstream import PrefetchOp
from .nest import enclosing_loops, static_size
from .nest_builder import index_constant
from .nest_shape import LINE_BYTES
from .slices import clone_slice, counters_of, depends_on, slice_of
from .sum_ahead import iterations_ahead


def prefetch_sums(accumulate: AccumulateOp, row: LoopOp, trips: int, ahead_bytes: int) -> None:
    """Ask for the row of a later index, at the start of each iteration of the loop over the indices.

    Nothing is asked for where the loop adds pieces of rows, which are for tables in a cache, where rows are short, or
    where not each index has a row of its own. What is not added, because an index is outside or another thread adds
    it, is asked for at position 0, which is at hand: a branch would be guessed wrongly as often as not.

    Args:
        accumulate: what adds, in `row`.
        row: the loop that adds one row.
        trips: elements that it adds.
        ahead_bytes: bytes of rows to look ahead.
    """
    loop = next(enclosing_loops(row), None)
    if loop is None or loop.ordered is None or static_size(row.lower) != 0:
        return
    places = [row.lower if place is row.induction else place for place in accumulate.subscripts]
    pointed = [place for place in places if depends_on(place, loop)]
    assert isinstance(accumulate.memref.type, MemRefType)
    width_bytes = element_size_bytes(accumulate.memref.type.element_type)
    distance = iterations_ahead(trips * width_bytes, ahead_bytes)
    needed = [*places, *([] if accumulate.mask is None else [accumulate.mask])]
    if not pointed or not distance or row.induction in counters_of(needed, loop):
        return
    builder = Builder(InsertPoint.at_start(loop.body.block))
    copied = clone_slice(slice_of(needed, loop), builder, {loop.induction: _ahead(builder, loop, distance)})
    at = [copied.get(place, place) for place in places]
    if accumulate.mask is not None:
        wanted, nowhere = copied.get(accumulate.mask, accumulate.mask), index_constant(builder, 0)
        for dim in (dim for dim, place in enumerate(places) if place in pointed):
            at[dim] = builder.insert(arith.SelectOp(wanted, at[dim], nowhere)).result
            at[dim].name_hint = "asked"
    per_line = max(LINE_BYTES // width_bytes, 1)
    for element in sorted({*range(0, trips, per_line), trips - 1}):
        last = at[-1]
        if element:
            last = builder.insert(arith.AddiOp(last, index_constant(builder, element))).result
            last.name_hint = "line"
        builder.insert(PrefetchOp(accumulate.memref, [*at[:-1], last], 3))


def _ahead(builder: Builder, loop: LoopOp, distance: int) -> SSAValue:
    """Insert the counter `distance` iterations ahead, the last one near the end."""
    later = builder.insert(arith.AddiOp(loop.induction, index_constant(builder, distance))).result
    last = builder.insert(arith.SubiOp(loop.upper, index_constant(builder, 1))).result
    ahead = builder.insert(arith.MinSIOp(later, last)).result
    later.name_hint, last.name_hint, ahead.name_hint = "later", "last", "ahead"
    return ahead
