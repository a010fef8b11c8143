"""Prefetches of the indices that a fused check reads in its next iteration."""

import math
from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue

from ...ir.dialects.gather_dialect import LoopOp
from ...ir.dialects.types import element_size_bytes
from ...ir.dialects.upstream import PrefetchOp
from ..schedule.machine_model import LINE_BYTES
from .backward_slice import is_inside
from .builder import index_constant, named
from .located import builder_before
from .queries import static_size, viewed


class NextIndices:
    """The indices that the next iteration of a loop reads, and prefetches of them."""

    def __init__(self, loop: LoopOp, indices: SSAValue):
        self._loop, self._indices = loop, indices

    def prefetch_all(self, body: Block) -> bool:
        """Prefetch all, each step of a loop over vectors those in its place; return whether there is such a loop."""
        swept: list[LoopOp] = []
        for load in [op for op in body.walk() if isinstance(op, memref.LoadOp)]:
            reading = load.parent_op()
            if not self._reads_vectors(reading, load) or reading in swept:
                continue
            assert isinstance(reading, LoopOp)
            swept.append(reading)
            builder = builder_before(load)
            places = [self._next(builder, place) for place in load.indices]
            sizes = SSAValue.get(load.memref, type=MemRefType).type.get_shape()
            behind = sizes[list(load.indices).index(reading.induction) + 1 :]
            read = (static_size(reading.step) or 1) * math.prod(max(size, 1) for size in behind)
            _prefetch_lines(builder, load.memref, places, read)
        return bool(swept)

    def prefetch_first(self, builder: Builder, checks: Sequence[LoopOp], moved: LoopOp | None, lines: int) -> None:
        """Prefetch the first lines of those behind this iteration.

        Args:
            builder: behind the loops that check.
            checks: these loops, outermost first.
            moved: where the next iteration begins, one of them ends; None where there is none such.
            lines: how many.
        """
        load = next(op for op in checks[-1].body.block.ops if isinstance(op, memref.LoadOp))
        memory = SSAValue.get(load.memref, type=MemRefType)
        starts = {loop.induction: loop.upper if loop is moved else loop.lower for loop in checks}
        places = [starts.get(place, place) for place in load.indices]
        if moved is None:
            places = [self._next(builder, place) for place in places]
        if any(is_inside(place, checks[0]) for place in places):  # the component of a tuple
            places[-1] = index_constant(builder, 0)
        _prefetch_lines(builder, memory, places, lines * LINE_BYTES // element_size_bytes(memory.type.element_type))

    def _reads_vectors(self, reading: Operation | None, load: memref.LoadOp) -> bool:
        """Return whether a loop reads indices, several in a step, that the next iteration has others for."""
        if not isinstance(reading, LoopOp) or viewed(load.memref) is not self._indices:
            return False
        is_vector = reading.induction in load.indices and static_size(reading.step) != 1
        return is_vector and any(map(self._is_moved, load.indices))

    def _is_moved(self, place: SSAValue) -> bool:
        """Return whether a place is counted by the loop, or by a loop over one of its tiles."""
        around = place.owner.parent_op() if isinstance(place.owner, Block) else None
        return isinstance(around, LoopOp) and around.label.dimension == self._loop.label.dimension

    def _next(self, builder: Builder, place: SSAValue) -> SSAValue:
        """Return the place one iteration later."""
        return named(builder, arith.AddiOp(place, self._loop.step), "next") if self._is_moved(place) else place


def _prefetch_lines(builder: Builder, memory: SSAValue, places: Sequence[SSAValue], count: int) -> None:
    """Prefetch so many elements from a place on, a line at a time."""
    line = LINE_BYTES // element_size_bytes(SSAValue.get(memory, type=MemRefType).type.element_type)
    builder.insert(PrefetchOp(memory, places, 3))
    for offset in range(line, count, line):
        behind = named(builder, arith.AddiOp(places[-1], index_constant(builder, offset)), "behind")
        builder.insert(PrefetchOp(memory, [*places[:-1], behind], 3))
