"""The passes `owner-computes` and `fuse-into-owners`: they give each owner a part of the table, level 3."""

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, YieldOp
from ....ir.errors import ScheduleError, did_you_mean
from ...nest.builder import builder_before, tile_end
from ...nest.owners import owned_sum
from ...nest.queries import enclosing_loops, functions, loops, memory_of, static_size, stores_to, view_of, written
from ...schedule import steps


@steps.pass_of_step
class OwnerComputes(ModulePass, steps.OwnerComputes):
    """Partition an axis among owners, each of which adds to its own positions.

    This is the owner-computes rule. Each owner runs the whole nest, goes through all the indices in their order, and
    adds only to its own positions. So the loop over the owners can be parallel without atomics, and each sum keeps its
    order. The cost is one comparison per index and owner.

    before                              after owner-computes{owners=2 axis=axis}
        for indices in 0..n                 for owners(first) in 0..n_axis step (n_axis + 1) / 2
          p = resolve(indices[i])             for indices in 0..n
          out[p] += grad[i]                     p = resolve(indices[i])
                                                out[p] += grad[i] where p - first <u step

    Preconditions: one `gather.accumulate`, in a nest of its own that is not parallel yet.

    Input:
        gather.loop ordered indices(%i) = ... { ... gather.accumulate %element, %out[%b, %o, %position, %j] ... }
    Output:
        gather.loop owners(%first) = %c0 to %n_axis step %part {
          gather.loop ordered indices(%i) = ... {
            %offset = arith.subi %position, %first : index
            %owned = arith.cmpi ult, %offset, %part : index
            gather.accumulate %element, %out[%b, %o, %position, %j] if %owned : f32, memref<...> } }

    Raises:
        ScheduleError: there is no addition, no such axis, or the nest that adds is parallel, clears or scales, too.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            found = [inner for inner in function.walk() if isinstance(inner, AccumulateOp)]
            if len(found) != 1:
                raise ScheduleError(
                    f"owner-computes: expected one gather.accumulate, got {len(found)}; it is for gradients, after "
                    "lower-to-nest"
                )
            _own(function, found[0], self.owners, self.axis)


def _own(function: func.FuncOp, accumulate: AccumulateOp, owners: int, axis: str) -> None:
    view = view_of(accumulate.memref, function)
    if view is None:
        raise ScheduleError("owner-computes: the table carries no #gather.view; run collapse-dims first")
    axes = [name for name in view.dims if name.role == "axis"]
    if axis not in axes:
        raise ScheduleError(
            f"owner-computes: there is no axis {axis!r}; there is {', '.join(axes)}{did_you_mean(axis, axes)}"
        )
    dim = view.dims.index(axis)
    around = list(enclosing_loops(accumulate))
    if not around or any(loop.parallel is not None for loop in around):
        raise ScheduleError("owner-computes: the nest that adds is parallel already; run it before parallelize-loops")
    root = around[-1]
    if stores_to(root, accumulate.memref):
        raise ScheduleError(
            "owner-computes: the nest that adds clears or scales the table, too, which each owner would do again; "
            "run it before fuse-into-owners"
        )
    before = builder_before(root)
    size = before.size(accumulate.memref, dim, "owned")
    padded = before.compute(arith.AddiOp, size, owners - 1, "padded")
    share = before.compute(arith.DivUIOp, padded, owners, "share")
    part = before.compute(arith.MaxSIOp, share, 1, "part")  # the positions of an owner
    loop = before.loop("owners", (before.index(0), size, part), "first")
    root.detach()
    loop.body.block.add_ops([root, YieldOp()])
    builder = builder_before(accumulate)
    offset = builder.compute(arith.SubiOp, accumulate.subscripts[dim], loop.induction, "offset")
    owned = builder.compare("ult", offset, part, "owned")
    if accumulate.mask is not None:
        owned = builder.compute(arith.AndIOp, accumulate.mask, owned, "mine")
    builder.insert(AccumulateOp(accumulate.element, accumulate.memref, accumulate.subscripts, owned))
    Rewriter.erase_op(accumulate)


@steps.pass_of_step
class FuseIntoOwners(ModulePass, steps.FuseIntoOwners):
    """Make each owner clear its own positions before it adds, and scale them.

    The nests that clear and scale become parts of the loop over owners. So an owner's part of the table, if it fits in
    a cache, goes to memory once and not three times.

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
