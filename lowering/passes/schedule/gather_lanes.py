"""The pass `gather-lanes`: within the scheduled nest, level 3."""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ....ir.dialects.attributes import GATHERED
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import FromElementsOp
from ....ir.errors import ScheduleError
from ...nest.builder import rewrite_ops
from ...nest.lane_packs import gathered
from ...nest.queries import functions
from ...schedule import steps
from ...schedule.machine_model import GATHERED_BYTES


@steps.pass_of_step
class GatherLanes(ModulePass, steps.GatherLanes):
    """Load the lanes of a vector by one gather instruction.

    `vectorize-inner` leaves elements with an index each as one load a lane, each of which resolves its index by itself.
    Here they are marked for the code generator, which then loads the indices of all lanes as a vector, resolves them in
    vectors, and gathers the elements. The operations of the lanes stay as they are, so the meaning is the same with the
    mark and without it.

    It pays where the processor gathers as fast as it loads lanes, where indices are resolved, and where the lines of
    data are prefetched.

    Preconditions: `vectorize-inner` has made vectors of elements with an index each; of 4 or 8 bytes.

    Input:
        %elements = vector.from_elements %element, %element_1, ... : vector<8xi32>
    Output:
        %elements = vector.from_elements %element, %element_1, ... {gathered} : vector<8xi32>

    What it does not do: vectors stay whose indices do not lie side by side, as those of tuples, or are resolved by more
    than additions and comparisons, as in the modes `zero` and `wrap`.

    Raises:
        ScheduleError: there are no such vectors, or their elements have other widths.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if not any(isinstance(inner, FromElementsOp) for inner in function.walk()):
                raise ScheduleError(
                    "gather-lanes: expected vectors of elements with an index each; run vectorize-inner first"
                )
        rewrite_ops(op, _MarkGathered())


class _MarkGathered(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: FromElementsOp, rewriter: PatternRewriter) -> None:
        width = element_size_bytes(op.elements[0].type)
        if width not in GATHERED_BYTES:
            raise ScheduleError(f"gather-lanes: expected elements of 4 or 8 bytes, got {width}")
        if gathered(op) is not None:
            op.attributes[GATHERED] = UnitAttr()
            rewriter.notify_op_modified(op)
