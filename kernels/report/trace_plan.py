"""Lower a plan anew, with the provenance of every line."""

from ...lowering.provenance.record import trace_lowering
from ...lowering.provenance.trace import Trace
from ..runtime.compile import module_of, passes_of, source_header
from ..runtime.plan import Plan


def trace(plan: Plan) -> Trace:
    """Return every level of a plan, operator to assembly.

    Raises:
        GathernestError: as `stages_of`, and CompileError where the backend rejects the source.
    """
    passes, context, edits = passes_of(plan)
    return trace_lowering(module_of(plan.problem), passes, context, header=source_header(plan), edits=edits)
