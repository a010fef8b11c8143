"""The passes `interchange-loops` and `parallelize-loops`: the order of iterations and their threads, level 3."""

from itertools import pairwise

from xdsl.context import Context
from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, YieldOp
from ....ir.dialects.upstream import PrefetchOp
from ....ir.errors import ScheduleError
from ...nest.builder import NestBuilder, kind_of, replace_op
from ...nest.owners import ends_within, is_owned, loop_of
from ...nest.queries import (
    chain,
    enclosing_loops,
    find_loop,
    functions,
    is_inside,
    memory_of,
    sole_inner_loop,
    viewed,
    why_not_shared,
    written,
)
from ...schedule import steps


@steps.pass_of_step
class InterchangeLoops(ModulePass, steps.InterchangeLoops):
    """Put the loops of a perfect nest in another order.

    Every order gives the same bytes, since each element of out is written once; the order decides which bytes are used
    near each other in time. A loop may not move out of the loop that its bounds come from. Ordered loops, which sum,
    keep their relative order.

    before                              after interchange-loops{order=indices_o,outer,indices_i}
        for outer in 0..m                   for indices_o in 0..n step 64
          for indices_o in 0..n step 64       for outer in 0..m
            for indices_i in ...                for indices_i in ...

    Preconditions: the loops named are all the loops of one perfect nest; between them stand only computations, and
    loads from memory that the nest does not write.

    Input:
        gather.loop outer(%o) = ... { gather.loop indices(%i) = ... { ... } }
    Output:
        gather.loop indices(%i) = ... { gather.loop outer(%o) = ... { ... } }

    Raises:
        ScheduleError: a loop is missing or unknown, the nest is not perfect, a bound would lose its loop, or a sum its
            order.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            named = [find_loop(function, name) for name in self.order]
            around = [loop for loop in named if {*self.order} <= {inner.label for inner in chain(loop)}]
            if not around:
                raise ScheduleError(f"interchange-loops: {', '.join(self.order)} do not stand in one perfect nest")
            _interchange(around[0], self.order)


def _interchange(root: LoopOp, order: tuple[str, ...]) -> None:
    nest = chain(root)
    names = [loop.label for loop in nest]
    if sorted(names) != sorted(order):
        raise ScheduleError(
            f"interchange-loops: expected every loop of the nest once ({', '.join(names)}), got {', '.join(order)}"
        )
    by_name: dict[str, LoopOp] = dict(zip(names, nest, strict=True))
    for outer, inner in pairwise(by_name[name] for name in order):
        if inner.parallel is not None and outer.parallel is None:
            raise ScheduleError(
                f"interchange-loops: {inner.label} is parallel and would stand in {outer.label}, which is not"
            )
    before = [loop.label for loop in nest if loop.ordered is not None]
    after = [name for name in order if name in before]
    if before != after:
        raise ScheduleError(
            f"interchange-loops: {', '.join(before)} add up in this order, and would run as {', '.join(after)}; "
            "leave them in their order"
        )
    between = [_computations(loop) for loop in nest[:-1]]
    pending = [op for group in between for op in group]
    inside: dict[Operation, set[str]] = {
        op: {*names[: number + 1]}
        for number, group in enumerate(between)
        for op in group
        if isinstance(op, memref.LoadOp)
    }
    innermost = nest[-1]
    core = [op for op in innermost.body.block.ops if not isinstance(op, YieldOp)]
    counted = innermost.terminator.value

    for op in [*pending, *core]:
        op.detach()
    block, available = None, set[SSAValue]()
    made: list[LoopOp] = []
    for name in order:
        old = by_name[name]
        _place_ready(pending, root if block is None else block, nest, available, inside, made)
        _check_bounds(old, pending, by_name, made)
        builder = NestBuilder(InsertPoint.before(root) if block is None else InsertPoint.at_end(block), old)
        bounds = old.lower, old.upper, old.step
        loop = builder.loop(name, bounds, old.induction.name_hint, None, **kind_of(old))
        old.induction.replace_all_uses_with(loop.induction)
        available.add(loop.induction)
        made.append(loop)
        block = loop.body.block
    assert block is not None
    _place_ready(pending, block, nest, available, inside, made)
    assert not pending
    block.add_ops(core)
    value = counted
    for loop in reversed(made):
        loop.body.block.add_op(YieldOp(value))
        value = loop.total
        if value is not None:
            value.name_hint = root.total.name_hint if root.total is not None else None
    replace_op(root, (), [] if value is None else [value])


def _computations(loop: LoopOp) -> list[Operation]:
    """Return the operations between a loop and the loop inside it."""
    inner = sole_inner_loop(loop)
    assert inner is not None
    if loop.terminator.value is not inner.total:
        raise ScheduleError(f"interchange-loops: {loop.label} does not yield the sum of {inner.label}")
    found = [op for op in loop.body.block.ops if not isinstance(op, LoopOp | YieldOp)]
    for op in found:
        if inner.total is not None and inner.total in op.operands:
            raise ScheduleError(f"interchange-loops: {loop.label} uses the sum of {inner.label}")
        # A weight, or the begin of a group, is loaded from memory that nothing here changes.
        is_constant = isinstance(op, memref.LoadOp) and viewed(op.memref) not in written(loop)
        if op.regions or not (is_side_effect_free(op) or is_constant):
            raise ScheduleError(f"interchange-loops: {op.name} between {loop.label} and the next loop may not move")
    return found


def _place_ready(
    pending: list[Operation],
    place: Block | LoopOp,
    nest: list[LoopOp],
    available: set[SSAValue],
    inside: dict[Operation, set[str]],
    made: list[LoopOp],
) -> None:
    """Put the computations whose operands exist by now at the end of a block, or before the nest.

    `inside` has the loops around each load. A load waits until they are made: where one never runs, nor does the load.
    """
    around = {loop.label for loop in made}
    for op in list(pending):
        is_ready = all(_is_outside(operand, pending, nest) or operand in available for operand in op.operands)
        if is_ready and inside.get(op, set()) <= around:
            Rewriter.insert_op(op, InsertPoint.at_end(place) if isinstance(place, Block) else InsertPoint.before(place))
            available.update(op.results)
            pending.remove(op)


def _is_outside(value: SSAValue, pending: list[Operation], nest: list[LoopOp]) -> bool:
    """Return whether a value is neither an induction variable of the nest, as it was, nor a pending computation."""
    owner = value.owner
    return owner.parent_op() not in nest if isinstance(owner, Block) else owner not in pending


def _check_bounds(loop: LoopOp, pending: list[Operation], by_name: dict[str, LoopOp], made: list[LoopOp]) -> None:
    placed = {inner.label for inner in made}
    for bound in (loop.lower, loop.upper, loop.step):
        owner = bound.owner
        is_missing = owner in pending
        for other in by_name.values():
            if bound is other.induction and other.label not in placed:
                is_missing = True
        if is_missing:
            source = loop.label.untiled.outer_tile if loop.label.is_inner_tile else "another loop"
            raise ScheduleError(
                f"interchange-loops: the bounds of {loop.label} come from {source}, which must stand around it"
            )


_Read = memref.LoadOp | vector.LoadOp
_Write = memref.StoreOp | vector.StoreOp | AccumulateOp
# These operations have a memref for an operand, and neither read nor write elements.
_NO_ACCESS = (memref.DimOp, memref.ExtractAlignedPointerAsIndexOp, PrefetchOp)


@steps.pass_of_step
class ParallelizeLoops(ModulePass, steps.ParallelizeLoops):
    """Share the iterations of the outermost loops among threads.

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
    """Check that no iteration writes an element that another writes or reads.

    For each memref that is written there must be one dimension whose subscript, wherever it is read or written, is this
    loop's induction variable, or the variable of a tile of it. Positions that an iteration owns and adds to are its
    own, too, and so is a buffer that it allocates.
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
        raise _unproved(loop, "no dimension is subscripted in every store by its induction variable, or by its tile's")
    for op in read:
        if not own.get(_memory(op), set()) & _own_dims(op, loop):
            raise _unproved(loop, f"{op.name} may read an element that another iteration writes")


def _unproved(loop: LoopOp, reason: str) -> ScheduleError:
    return ScheduleError(
        f"parallelize-loops: cannot prove that iterations of {loop.label} are independent: {reason}; where an earlier "
        "pass is the reason, such as hoist-indices or vectorize-inner, run parallelize-loops before it"
    )


def _memory(op: _Read | _Write) -> SSAValue:
    return viewed(memory_of(op))


def _own_dims(op: _Read | _Write, loop: LoopOp) -> set[int]:
    """Return the dimensions, other than a vector's, in which no other iteration of the loop accesses the same place."""
    subscripts = op.subscripts if isinstance(op, AccumulateOp) else op.indices
    single = subscripts[:-1] if isinstance(op, vector.LoadOp | vector.StoreOp) else subscripts
    return {dim for dim, place in enumerate(single) if _is_induction(place, loop)}


def _is_induction(value: SSAValue, loop: LoopOp) -> bool:
    """Return whether a value is the induction variable of a loop, or of a tile that one iteration of the loop runs."""
    if value is loop.induction:
        return True
    tile = loop_of(value)
    around = loop_of(tile.lower) if tile is not None else None
    if tile is None or around is None:
        return False
    return ends_within(tile, around.step) and _is_induction(tile.lower, loop)
