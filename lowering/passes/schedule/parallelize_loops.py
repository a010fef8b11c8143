"""The pass `parallelize-loops`: within the scheduled nest, level 3."""

from xdsl.context import Context
from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp
from ....ir.dialects.upstream import PrefetchOp
from ....ir.errors import ScheduleError
from ...nest.owners import ends_within, is_owned, loop_of
from ...nest.queries import enclosing_loops, find_loop, functions, is_inside, memory_of, viewed, why_not_shared, written
from ...schedule import steps

_Read = memref.LoadOp | vector.LoadOp
_Write = memref.StoreOp | vector.StoreOp | AccumulateOp
# What has a memref for an operand and neither reads nor writes elements.
_NO_ACCESS = (memref.DimOp, memref.ExtractAlignedPointerAsIndexOp, PrefetchOp)


@steps.pass_of_step
class ParallelizeLoops(ModulePass, steps.ParallelizeLoops):
    """Let threads share the iterations of the outermost loops.

    Perfectly nested parallel loops are collapsed: their iterations are numbered as one loop. So both a long list of
    rows and thousands of tiny batches fill the cores.

    before                              after parallelize-loops{loops=batch,indices_o}
        for batch in 0..n                   parallel for batch in 0..n
          for indices_o in 0..m step 64       parallel for indices_o in 0..m step 64
            for indices_i in ...                for indices_i in ...

    Preconditions: the loops exist; each is outermost or directly in a parallel loop; no two of their iterations write
    the same element, none is ordered, and the bounds of none come from another.

    Input:
        gather.loop indices_o(%i_o) = %c0 to %n step %c64 { ... }
    Output:
        gather.loop parallel indices_o(%i_o) = %c0 to %n step %c64 { ... }

    Raises:
        ScheduleError: a precondition does not hold.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for loop_name in self.loops:
                _parallelize(find_loop(function, loop_name))


def _parallelize(loop: LoopOp) -> None:
    outside = next(enclosing_loops(loop), None)
    if outside is not None and outside.parallel is None:
        raise ScheduleError(
            f"parallelize-loops: {loop.label} stands in {outside.label}, which is not parallel; "
            "make that parallel first, or interchange the two"
        )
    if outside is not None and (reason := why_not_shared(outside, loop)) is not None:
        raise ScheduleError(f"parallelize-loops: {reason}")
    _check_writes(loop)
    loop.parallel = UnitAttr()


def _check_writes(loop: LoopOp) -> None:
    """Check that no iteration writes what another writes or reads.

    For each memref that is written there must be one dimension whose subscript, wherever it is read or written, is this
    loop's induction variable, or that of a tile of it. Positions that an iteration owns and adds to are its own, too,
    and so is a buffer that it allocates.
    """
    if loop.ordered is not None:
        raise ScheduleError(
            f"parallelize-loops: {loop.label} adds up in its order, so its iterations cannot run at once; "
            "run the loops around it in parallel, or owner-computes first"
        )
    shared = {memory for memory in written(loop) if not is_inside(memory, loop)}
    own: dict[SSAValue, set[int]] = {}
    read: list[_Read] = []
    for op in loop.walk():
        if isinstance(op, _NO_ACCESS) or shared.isdisjoint(map(viewed, op.operands)):
            continue
        if isinstance(op, _Read):
            read.append(op)
        elif isinstance(op, _Write):
            if not (isinstance(op, AccumulateOp) and is_owned(op, loop)):
                own[_memory(op)] = _own_dims(op, loop) & own.get(_memory(op), _own_dims(op, loop))
        else:
            raise _unproved(loop, f"{op.name} uses memory that is written, and only loads and stores are checked")
    if any(not dims for dims in own.values()):
        raise _unproved(
            loop, "no dimension is subscripted in every store by its induction variable, or that of its tile"
        )
    for op in read:
        if not own.get(_memory(op), set()) & _own_dims(op, loop):
            raise _unproved(loop, f"{op.name} may read what another iteration writes")


def _unproved(loop: LoopOp, reason: str) -> ScheduleError:
    return ScheduleError(
        f"parallelize-loops: cannot prove that iterations of {loop.label} are independent: {reason}; where an earlier "
        "pass is the reason, such as hoist-indices or vectorize-inner, run parallelize-loops before it"
    )


def _memory(op: _Read | _Write) -> SSAValue:
    return viewed(memory_of(op))


def _own_dims(op: _Read | _Write, loop: LoopOp) -> set[int]:
    """Return the dimensions in which no other iteration of the loop accesses the same place; not that of a vector."""
    subscripts = op.subscripts if isinstance(op, AccumulateOp) else op.indices
    single = subscripts[:-1] if isinstance(op, vector.LoadOp | vector.StoreOp) else subscripts
    return {dim for dim, place in enumerate(single) if _is_induction(place, loop)}


def _is_induction(value: SSAValue, loop: LoopOp) -> bool:
    """Return whether a value is a loop's induction variable, or that of a tile that one iteration of the loop runs."""
    if value is loop.induction:
        return True
    tile = loop_of(value)
    around = loop_of(tile.lower) if tile is not None else None
    if tile is None or around is None:
        return False
    return ends_within(tile, around.step) and _is_induction(tile.lower, loop)
