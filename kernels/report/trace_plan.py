"""Lower a plan anew, with the provenance of every line."""

from ...ir.modules.context import make_context
from ...lowering.pipeline import parse_passes, read_edits
from ...lowering.provenance.record import trace_lowering
from ...lowering.provenance.trace import Trace
from ..runtime.compile import module_of, source_header
from ..runtime.plan import Plan


def trace(plan: Plan) -> Trace:
    """Return every level of a plan, operator to assembly.

    Raises:
        GathernestError: as `stages_of`, and CompileError where the backend rejects the source.
    """
    passes, context = parse_passes(plan.pipeline), make_context()
    edits = read_edits(plan.edits, passes, context)
    return trace_lowering(module_of(plan.problem), passes, context, header=source_header(plan), edits=edits)
