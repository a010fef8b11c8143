"""The pass `prefetch-next-tile`: within the scheduled nest, level 3."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ....ir.dialects.gather_dialect import LoopOp
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import PrefetchOp
from ....ir.errors import ScheduleError
from ...nest.builder import index_constant, named
from ...nest.located import builder_at_start
from ...nest.owners import LISTING
from ...nest.prefetching import check_ranges
from ...nest.queries import argument_number, find_loop, functions, loops, static_size
from ...schedule.machine_model import LINE_BYTES

MOST_AHEAD = 64
LOCALITY = 2  # from the second cache on: a tile need not fit in the first one


@dataclass(frozen=True)
class PrefetchNextTile(ModulePass):
    """Prefetch what the next tile lists, while this one is added.

    To list a tile is to read memory in order, and to add it is to reach into a table in a cache: one waits for memory,
    the other for the cache, and neither uses both. Here each addition also prefetches some indices of the next tile,
    and the elements of grad beside them, so that listing finds them in the second cache. Behind the last tile they need
    not exist.

    before                              after prefetch-next-tile{loop=indices_i ahead=2}
        for indices_o in 0..n step 2048     for indices_o in 0..n step 2048
          ...                                 ...
          for indices_i in 0..count           for indices_i in 0..count step 8
            out[positions[k]] += ...            prefetch indices[end + 2 * k], 16 of them
                                                prefetch grad[end + 2 * k], 16 of them
                                                out[positions[k]] += ...

    Preconditions: `compact-indices` has run. The loop is best unrolled so that an iteration prefetches whole lines.

    Options:
        loop: name of the loop that adds what is listed.
        ahead: indices of the next tile for each addition, 1 to 64: as many as there are owners, since each adds as
            many-th a part of a tile.

    Input:
        gather.loop ordered indices_i(%k) = %c0 to %whole step %c8 { ... gather.accumulate ... }
    Output:
        gather.loop ordered indices_i(%k) = %c0 to %whole step %c8 {
          %next = arith.addi %end, %ahead : index
          memref.prefetch %indices[%next], read, locality<2>, data : memref<?xi64>
          ... }

    What it does not do: prefetch the table, which is in a cache where owners list their indices.

    Raises:
        ScheduleError: an option is out of range, or nothing is listed for the loop.
    """

    name = "prefetch-next-tile"

    loop: str
    ahead: int

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_ranges(self.name, ("ahead", self.ahead, 1, MOST_AHEAD))
        for function in functions(op):
            _prefetch(function, find_loop(function, self.loop), self.ahead)


def _prefetch(function: func.FuncOp, loop: LoopOp, ahead: int) -> None:
    end, loads = _listed(function, loop)
    builder = builder_at_start(loop)
    step = static_size(loop.step) or 1
    factor = index_constant(builder, ahead)
    offset = named(builder, arith.MuliOp(loop.induction, factor), "ahead")
    first = named(builder, arith.AddiOp(end, offset), "next")
    for load, dim in loads:
        memory = SSAValue.get(load.memref, type=MemRefType)
        line = max(LINE_BYTES // element_size_bytes(memory.type.element_type), 1)
        for place in range(0, ahead * step, line):
            there = first
            if place:
                there = named(builder, arith.AddiOp(first, index_constant(builder, place)), "next")
            subscripts = [there if number == dim else value for number, value in enumerate(load.indices)]
            builder.insert(PrefetchOp(memory, subscripts, LOCALITY))


def _listed(function: func.FuncOp, loop: LoopOp) -> tuple[SSAValue, list[tuple[memref.LoadOp, int]]]:
    """Return where the tile ends that a loop adds, and a load of its indices and of its elements, each with the
    dimension in which it goes through them.
    """
    name = loop.label.beside(LISTING)
    listings = [listing for listing in loops(function) if listing.label in (name, name.remainder)]
    if not listings:
        raise ScheduleError(f"prefetch-next-tile: nothing is listed for {loop.label}; run compact-indices first")
    last = listings[-1]
    found: dict[SSAValue, tuple[memref.LoadOp, int]] = {}
    for op in last.walk():
        if isinstance(op, memref.LoadOp) and argument_number(op.memref, function) is not None:
            along = [dim for dim, place in enumerate(op.indices) if place is last.induction]
            found |= {op.memref: (op, along[0])} if along else {}
    return last.upper, list(found.values())
