"""The pass `fuse-into-owners`: within the scheduled nest, level 3."""

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.gather_dialect import LoopOp
from ....ir.errors import ScheduleError
from ...nest.builder import builder_before, tile_end
from ...nest.owners import owned_sum
from ...nest.queries import functions, loops, memory_of, static_size, stores_to, written
from ...schedule import steps


@steps.pass_of_step
class FuseIntoOwners(ModulePass, steps.FuseIntoOwners):
    """Let each owner clear its own positions before it adds, and scale them.

    The nests that clear and scale become parts of the loop over owners. So the part of the table that an owner has, if
    it fits in a cache, goes to memory once and not three times.

    before                              after fuse-into-owners
        for clear_axis in 0..n_axis         for owners(first) in 0..n_axis step part
          out[a] = 0                          for clear_axis in first..min(first + part, n_axis)
        for owners(first) in 0..n_axis          out[a] = 0
          for indices in 0..n                 for indices in 0..n
            out[p] += grad[i] where ...         out[p] += grad[i] where ...

    Preconditions: `owner-computes` has run, and no loop is parallel yet or tiled.

    Input:
        gather.loop clear_axis(%a) = %c0 to %n_axis step %c1 { memref.store %nothing, %out[%a, %j] ... }
        gather.loop owners(%first) = %c0 to %n_owned step %part { ... }
    Output:
        gather.loop owners(%first) = %c0 to %n_owned step %part {
          %limit = arith.addi %first, %part : index
          %end = arith.minsi %limit, %n_owned : index
          gather.loop clear_axis(%a) = %first to %end step %c1 { memref.store %nothing, %out[%a, %j] ... }
          ... }

    Raises:
        ScheduleError: a precondition does not hold.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _fuse(function)


def _fuse(function: func.FuncOp) -> None:
    owners, accumulate, dim = owned_sum(function, "fuse-into-owners")
    if any(loop.parallel is not None for loop in loops(function)):
        raise ScheduleError("fuse-into-owners: a loop is parallel already; run it before parallelize-loops")
    block = owners.parent_block()
    assert block is not None
    nests = [op for op in block.ops if isinstance(op, LoopOp) and accumulate.memref in written(op) and op is not owners]
    axes = [_axis_loop(nest, accumulate.memref, dim) for nest in nests]
    first = owners.body.block.first_op
    assert first is not None
    end = tile_end(builder_before(first, owners), owners.induction, owners.step, owners.upper)
    for nest, axis in zip(nests, axes, strict=True):
        is_before = nest.is_before_in_block(owners)
        nest.detach()
        Rewriter.insert_op(nest, InsertPoint.before(first if is_before else owners.terminator))
        axis.operands[0], axis.operands[1] = owners.induction, end


def _axis_loop(nest: LoopOp, memory: SSAValue, dim: int) -> LoopOp:
    """Return the loop of a nest that clears or scales over the positions of the axis that has owners."""
    stores = stores_to(nest, memory)
    are_whole = {memory_of(op) for op in stores} == {memory}
    places = {list(op.indices)[dim] for op in stores} if are_whole else set()
    place = places.pop() if len(places) == 1 else None
    for loop in loops(nest):
        if loop.induction is place and static_size(loop.lower) == 0 and static_size(loop.step) == 1:
            return loop
    raise ScheduleError(
        f"fuse-into-owners: expected a loop of {nest.label} over all positions of the axis, in steps of 1; "
        "run it before other passes change that nest, for an axis of more than one position"
    )
