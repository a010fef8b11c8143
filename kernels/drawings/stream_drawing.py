"""Draw an explanation: bytes by stream, the measured time beside the roofline bound, and what each pass is worth."""

from ...lowering.drawings.svg import drawing, finished
from ..machine.explain import Explanation
from ..machine.roofline import IN_ORDER
from .bars import Bar, draw_bars

_BYTES = {"indices": "#d4a017", "data": "#2f81f7", "output": "#2da44e", "grad": "#2f81f7"}
_BOUND, _MEASURED, _WORTH, _COST = "#808a94", "#e8803c", "#2da44e", "#e5534b"
_GAP = 14.0


def stream_drawing(explanation: Explanation, *, title: str = "Bytes by stream, and the roofline bound") -> str:
    """Return bars of the bytes of each stream, and of the measured time beside the times that bound it.

    A dashed line through the times is the roofline bound: the longer of the time of a copy of as many bytes and the
    time of reading as many lines at random places. Rows have the class of what they are: `gn-bytes`, `gn-bound`,
    `gn-predicted`, `gn-measured`.

    Args:
        explanation: what `kernel.explain()` returned.
        title: the name of the drawing for screen readers.

    Returns:
        SVG as text, which stands in an HTML page as it is.
    """
    root = drawing("streams", title, str(explanation))
    traffic = explanation.bound.traffic
    total = traffic.total_bytes
    streams = [
        Bar(name, count, f"{_bytes(count)}, {_percent(count, total)}", _BYTES.get(name, _BOUND), "bytes")
        for name, count in traffic.streams
    ]
    width, y = draw_bars(root, f"The fewest bytes: {_bytes(total)}", streams, 0.0)
    bound = explanation.bound
    heading = f"The time: fraction {explanation.fraction:.2f} of the roofline bound (dashed), by {bound.bound_by}"
    times = _times(explanation)
    mark = bound.time_us, f"roofline bound: {_time(bound.time_us)}"
    wide, y = draw_bars(root, heading, times, y + _GAP, marked=mark)
    return finished(root, max(width, wide) + 2, y + 2)


def worth_drawing(explanation: Explanation, *, title: str = "What each pass is worth") -> str:
    """Return bars of how many times as fast the schedule is with each of its passes as without.

    A dashed line is 1, no difference: the bar of a pass that pays is longer. A schedule that is not legal without a
    pass has no bar for it, but the reason. Rows have the class `gn-worth`.

    Args:
        explanation: what `kernel.explain()` returned.
        title: the name of the drawing for screen readers.

    Returns:
        SVG as text, which stands in an HTML page as it is.
    """
    bars = []
    for ablation in explanation.ablations:
        faster = ablation.times_as_fast
        if faster is None or ablation.measured_us is None:
            bars.append(Bar(ablation.left_out, None, f"not legal: {ablation.rejected or 'not timed'}", _BOUND, "worth"))
            continue
        text = f"{faster:.2f}×, {_time(ablation.measured_us)} without it"
        bars.append(Bar(ablation.left_out, faster, text, _WORTH if faster >= 1 else _COST, "worth"))
    heading = "How many times as fast with the pass as without" if bars else "The schedule has no passes to leave out"
    root = drawing("worth", title, "\n".join([heading, *(f"{bar.name}: {bar.text}" for bar in bars)]))
    mark = (1.0, "1: no difference") if any(bar.value is not None for bar in bars) else None
    width, y = draw_bars(root, heading, bars, 0.0, marked=mark)
    return finished(root, width + 2, y + 2)


def _times(explanation: Explanation) -> list[Bar]:
    """Return the bars of times."""
    bound = explanation.bound
    in_order = bound.ordered_us if IN_ORDER in bound.ways else None
    rows = [
        ("copy of as many bytes", bound.copy_us, _BOUND, "bound"),
        ("lines at random places", bound.lines_us, _BOUND, "bound"),
        ("lines in the order of the indices", in_order, _BOUND, "bound"),
        ("predicted by the cost model", explanation.predicted_us, _BOUND, "predicted"),
        (f"measured, median of {explanation.rounds}", explanation.measured_us, _MEASURED, "measured"),
        ("measured, fastest round", explanation.fastest_us, _MEASURED, "measured"),
    ]
    return [Bar(name, time_us, _time(time_us), hue, kind) for name, time_us, hue, kind in rows if time_us is not None]


def _bytes(count: float) -> str:
    """Return a number of bytes with a unit that makes it short."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.3g} {unit}" if count < 1000 * size else f"{count / size:,.0f} {unit}"
    return f"{count:,.0f} bytes"


def _time(time_us: float) -> str:
    return f"{time_us / 1e3:,.2f} ms" if time_us >= 1000 else f"{time_us:,.2f} µs"


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "0%"
