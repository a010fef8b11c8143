"""The drawings of a report: SVG beside the levels, with a title and a caption each."""

from dataclasses import dataclass

from ...ir.operator_spec import GatherWeighted
from ...lowering.drawings.nest_drawing import nest_drawing
from ...lowering.provenance.trace import Trace
from ..drawings.access_drawing import access_drawing
from ..drawings.machine_analysis import MachineAnalysisError, machine_analysis
from ..drawings.port_drawing import port_drawing
from ..drawings.stream_drawing import stream_drawing, worth_drawing
from ..host.cpu import cpu_model
from ..machine.explain import BUSY, Explanation
from ..runtime.plan import Plan
from .level_view import first_open


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing.

    Attributes:
        title, caption: as text.
        svg: what a function that draws returned.
        level: whose lines the `data-line` of its elements are; None for none.
    """

    title: str
    caption: str
    svg: str
    level: int | None = None


def figures(plan: Plan, trace: Trace, explanation: Explanation | None) -> tuple[Figure, ...]:
    """Return the drawings of a gather.

    They are its nest as the schedule left it, the memory accesses of a small one, what llvm-mca says of the hot loop
    where it is installed, and, where it was timed, its times and what each pass is worth.
    """
    drawn = [
        Figure(
            "The scheduled nest",
            f"After {level.name.partition('{')[0]}. Click a box: it lights up in every level.",
            nest_drawing(level.text, title="The scheduled nest"),
            number,
        )
        for number, level in enumerate(trace.levels)
        if level.kind == "stage" and number in first_open(trace.levels)
    ]
    if not isinstance(plan.problem.operator, GatherWeighted):  # whose small accesses have weights, and no drawing
        drawn.append(_accesses(plan))
    drawn += machine_figures(plan, trace)
    if explanation is not None:
        bound = explanation.bound
        threads = f"{bound.threads} thread{'s' * (bound.threads != 1)}"
        measured = f"Medians of {explanation.rounds} rounds on {cpu_model()}, {threads}, random indices."
        if explanation.measured_us > BUSY * explanation.fastest_us:
            measured += " The median is far above the fastest round: the machine is busy, and times say little."
        drawn.append(Figure("Bytes and time", measured, stream_drawing(explanation)))
        drawn.append(Figure("What each pass is worth", "Timed in turn without it.", worth_drawing(explanation)))
    return tuple(drawn)


def machine_figures(plan: Plan, trace: Trace) -> list[Figure]:
    """Return what llvm-mca says of the hottest loop: a drawing, a reason why there is none, or nothing without it."""
    assembly = trace.levels[-1]
    loops, title = assembly.hot_loops, "The hot loop on this core"
    if not loops:
        return []
    try:
        analysis = machine_analysis(assembly.lines, loops[0], element_bytes=plan.layout.width_bytes)
    except MachineAnalysisError as error:
        return [Figure(title, f"There is no analysis: {error}.", "")]
    if analysis is None:
        return []
    waits = ", ".join(f"{reason} {part:.0%}" for reason, part in analysis.waits if part) or "nothing"
    said = ". ".join([f"Waits for {waits} of the cycles", *analysis.notes])
    return [Figure(f"{title}, by {analysis.tool}", f"{said}.", port_drawing(analysis))]


def _accesses(plan: Plan) -> Figure:
    """Return the memory accesses of a small gather like that of a plan."""
    who = "each slice that a small reduction" if plan.problem.reduces else "each element of a small gather"
    verb = "sums is read from" if plan.problem.reduces else "reads"
    said = f"Which line of data {who} with the same loops {verb}, by which thread."
    return Figure("The memory accesses", said, access_drawing(plan))
