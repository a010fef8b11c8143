"""The pass `interleave-owners`: within the scheduled nest, level 3."""

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ....ir.dialects.gather_dialect import LoopOp
from ....ir.errors import ScheduleError
from ...nest.builder import index_constant, named
from ...nest.located import builder_before
from ...nest.owners import owned_sum, owned_test
from ...nest.queries import functions, loops, static_size
from ...schedule import steps

MOST_POSITIONS = 2**40


@steps.pass_of_step
class InterleaveOwners(ModulePass, steps.InterleaveOwners):
    """Give owners blocks of positions in turn, and not one part each.

    This is a block-cyclic partition. Indices that lie in one region of the table, as those of a batch of words or of a
    graph in order do, are then added by all owners: with one part each, the owner of that region would add them alone.

    before                              after interleave-owners{block=4096}, of two owners
        for owners(first) in                for owners(first) in 0..min(8192, n_axis) step 4096
            0..n_axis step part               for indices in 0..n
          for indices in 0..n                   p = resolve(indices[i])
            p = resolve(indices[i])             out[p] += grad[i] where
            out[p] += grad[i] where                 (p - first) mod 8192 <u 4096
                p - first <u part

    Preconditions: `owner-computes` has run, with a power of two of owners, and nothing after it.

    Input:
        %offset = arith.subi %position, %first : index
        %owned = arith.cmpi ult, %offset, %part : index
    Output:
        %offset = arith.subi %position, %first : index
        %within = arith.andi %offset, %c8191 : index
        %owned = arith.cmpi ult, %within, %c4096 : index

    Raises:
        ScheduleError: a precondition does not hold, or an option is out of range.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not (0 < self.block <= MOST_POSITIONS and self.block & (self.block - 1) == 0):
            raise ScheduleError(f"interleave-owners: expected a power of two of positions a block, got {self.block}")
        for function in functions(op):
            _interleave(function, self.block)


def _interleave(function: func.FuncOp, block: int) -> None:
    owners, accumulate, _ = owned_sum(function, "interleave-owners")
    if any(loop.parallel is not None for loop in loops(function)):
        raise ScheduleError("interleave-owners: a loop is parallel already; run it right after owner-computes")
    count = _count(owners)
    if count is None or any(isinstance(op, LoopOp) and op is not _nest(owners) for op in owners.body.block.ops):
        raise ScheduleError("interleave-owners: owners have other positions already; run it right after owner-computes")
    if count & (count - 1):
        raise ScheduleError(f"interleave-owners: expected a power of two of owners, got {count}")
    test = owned_test(accumulate, owners)
    before = builder_before(owners)
    size, period = index_constant(before, block), index_constant(before, count * block)
    end = named(before, arith.MinSIOp(period, owners.upper), "n_first")
    inside = builder_before(test)
    last = index_constant(inside, count * block - 1)
    within = named(inside, arith.AndIOp(test.lhs, last), "within")
    test.operands[0], test.operands[1] = within, size
    owners.operands[1], owners.operands[2] = end, size


def _count(owners: LoopOp) -> int | None:
    """Return how many owners there are, from the step that `owner-computes` computes; None after this pass."""
    share = owners.step.owner.lhs.owner if isinstance(owners.step.owner, arith.MaxSIOp) else None
    return static_size(share.rhs) if isinstance(share, arith.DivUIOp) else None


def _nest(owners: LoopOp) -> LoopOp | None:
    """Return the first loop in that over owners."""
    return next((op for op in owners.body.block.ops if isinstance(op, LoopOp)), None)
