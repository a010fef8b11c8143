"""Draw how busy each port of the core is in an iteration of a loop."""

from ...lowering.drawings.svg import drawing, finished
from .bars import Bar, draw_bars
from .machine_analysis import ASSUMPTION, MachineAnalysis

MOST_PORTS = 12
_HUE = "#2f81f7"


def port_drawing(analysis: MachineAnalysis, *, title: str = "Busy ports in an iteration of the loop") -> str:
    """Return bars of the cycles that an iteration keeps each port busy; a dashed line is how many cycles it takes.

    A bar near the line is of a port that bounds the loop. The 12 busiest ports are drawn.

    Args:
        analysis: what `machine_analysis` returned.
        title: the name of the drawing for screen readers.

    Returns:
        SVG as text, which stands in an HTML page as it is.
    """
    root = drawing("ports", title, str(analysis))
    each = analysis.cycles_per_element
    element = "" if each is None else f", {each:.2f} an element"
    heading = f"{analysis.cycles:.1f} cycles an iteration{element}, on {analysis.cpu} if {ASSUMPTION}"
    bars = [Bar(name, cycles, f"{cycles:.1f} cycles", _HUE, "port") for name, cycles in analysis.ports[:MOST_PORTS]]
    mark = analysis.cycles, f"an iteration: {analysis.cycles:.1f} cycles"
    width, y = draw_bars(root, heading, bars, 0.0, marked=mark)
    return finished(root, width + 2, y + 2)
