"""The panels of the playground as HTML: everything that a person wrote is escaped."""

import html
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ...ir.errors import GathernestError
from ...kernels.host.machine import known_machine, machine_model
from ...kernels.machine.explain import predicted_terms
from ...kernels.machine.roofline import model_bound
from ...kernels.machine.traffic import fewest_bytes
from ...kernels.runtime.plan import Plan, make_plan
from ...lowering.pipeline import Stage
from ...lowering.static_html import code, fold, paragraph, table
from .live_stages import BytesCheck, Mistake

WAIT = "The kernel is being compiled."
# Lines of a text that is shown whole; of a longer one, those before and behind the mistake.
LONG, AROUND = 30, 8
# Hot loops that are not folded.
MOST_LOOPS = 4


def panel(title: str, *parts: str, kind: str = "") -> str:
    """Return parts, which are HTML, below a title, which is text; kind is `good`, `bad`, `old` or nothing."""
    return f'<section class="play {kind}">{heading(title)}{"".join(parts)}</section>'


def heading(title: str) -> str:
    """Return a title, which is text."""
    return f'<div class="play-title" role="heading" aria-level="2">{html.escape(title)}</div>'


def mistake_panel(mistake: Mistake) -> str:
    """Return a mistake, and its text with the place underlined; of a long text the lines around it."""
    parts = [f'<p class="why">{html.escape(mistake.message)}</p>']
    lines = mistake.text.splitlines()
    if lines:
        shown = [html.escape(line) for line in lines]
        first, end = 0, len(lines)
        if mistake.line is not None and mistake.line <= len(lines):
            shown[mistake.line - 1] = _underlined(lines[mistake.line - 1], mistake)
            if len(lines) > LONG:
                first, end = max(mistake.line - 1 - AROUND, 0), mistake.line + AROUND
        parts.append("<pre>{}</pre>".format("\n".join(shown[first:end])))
    return panel(mistake.title, *parts, kind="bad")


def _underlined(line: str, mistake: Mistake) -> str:
    """Return a line with the part of the mistake underlined; all of it where no part is known."""
    start, end = len(line) - len(line.lstrip()), len(line)
    if mistake.column is not None:
        start = min(mistake.column - 1, len(line))
        end = max(start + 1, min(start + mistake.length, len(line)))
    parts = (html.escape(part) for part in (line[:start], line[start:end] or " ", line[end:]))
    return "{}<u>{}</u>{}".format(*parts)


def nest_panel(nest: str, title: str = "The nest") -> str:
    """Return the nest."""
    return panel(title, code(nest))


def bytes_panel(check: BytesCheck) -> str:
    """Return whether the interpreted bytes are right."""
    kind = "bad" if check.difference is not None else "good" if check.tried is not None else ""
    title = {"bad": "The bytes are wrong", "good": "The bytes are right", "": "The bytes are not checked"}[kind]
    return panel(title, paragraph(str(check)), kind=kind)


def waiting_panel() -> str:
    """Return why the kernel of an edited stage that a link brought is not run yet."""
    return panel(
        "The time", paragraph("A link brought the edited stage. Machine code can do anything: run it if you trust it.")
    )


def time_panel(found: Mapping[str, Any], *, is_current: bool) -> str:
    """Return the time of a call and whether its bytes are right, as far as they are known."""
    kind, parts = "" if is_current else "old", list[str]()
    if "time_us" in found:
        parts.append(paragraph(_time_line(found)))
        if found["difference"] is not None:
            kind = kind or "bad"
            parts.append(paragraph(f"The kernel's bytes are wrong: {found['difference']}"))
        elif found["is_compared"]:
            parts.append(paragraph("The kernel's bytes are those of the reference, at these sizes."))
        else:
            parts.append(paragraph("The arrays are large, and the kernel's bytes are not compared."))
    if "error" in found:
        kind = kind or "bad"
        parts.append(f'<p class="why">{html.escape(found["error"])}</p>')
    if not is_current:
        parts.append(paragraph(f"{WAIT} What stands here is of the last settings." if parts else WAIT))
    elif not parts:
        parts.append(paragraph("The kernel is being timed."))
    return panel("The time", *parts, kind=kind)


def assembly_panel(found: Mapping[str, Any], *, is_current: bool) -> str:
    """Return the hot loops of the assembly, and the whole of it folded; results of other settings are grey."""
    if "assembly" not in found:
        return panel("The hot loops", paragraph(WAIT))
    lines = found["assembly"]
    loops = [_loop(loop["name"], [lines[number] for number in loop["lines"]]) for loop in found["hot_loops"]]
    more = loops[MOST_LOOPS:]
    folded = [fold(f"{len(more)} more loops", *more)] if more else []
    folded.append(fold(f"The whole assembly: {len(lines)} lines", code(_indented(lines))))
    title = "The hot loops: the innermost ones, in machine code"
    return panel(title, *loops[:MOST_LOOPS], *folded, kind="" if is_current else "old")


def _loop(name: str, lines: Sequence[str]) -> str:
    """Return a loop of the assembly below its name in the nest."""
    count = sum(not line.endswith(":") for line in lines)
    return paragraph(f"{name or 'a loop'}: {count} instructions") + code(_indented(lines))


def _indented(lines: Sequence[str]) -> str:
    """Return lines of assembly with instructions indented below their labels."""
    return "\n".join(line if line.endswith(":") else f"    {line}" for line in lines)


def _time_line(found: Mapping[str, Any]) -> str:
    threads = "1 thread" if found["threads"] == 1 else f"{found['threads']} threads"
    rounds = "1 round" if found["rounds"] == 1 else f"{found['rounds']} rounds"
    return f"{found['time_us']:,.1f} µs a call with random indices on {threads}, the median of {rounds}."


def explanation_panel(plan: Plan, time_us: float | None) -> str:
    """Return the fewest bytes of a gather, the predicted time, and how near the measured time is to the bounds."""
    try:
        traffic = fewest_bytes(plan.problem)
    except GathernestError as error:
        return panel("Explanation", paragraph(str(error)))
    rows = [(name, f"{count / 1e6:,.3f} MB") for name, count in (*traffic.streams, ("together", traffic.total_bytes))]
    rows.append(("lines of data", f"{traffic.lines:,.0f}, expected of uniformly random indices"))
    bound, model = model_bound(traffic, machine_model()), known_machine().model
    rows.append(("roofline", f"{bound.time_us:,.1f} µs by the machine model {model.name}, by {bound.bound_by}"))
    expected = predicted_terms(plan)
    if expected is not None:
        rows.append(("predicted", f"{expected} by the cost model"))
    if time_us is not None:
        rows.append(
            ("measured", f"{time_us:,.1f} µs, {traffic.total_bytes / time_us / 1e3:,.1f} GB/s of the bytes above")
        )
    return panel("Explanation: the fewest bytes, and the time", table(rows), _chosen(plan))


def _chosen(plan: Plan) -> str:
    """Return the schedule that the sizes choose, and why."""
    chosen = make_plan(plan.problem)
    reasons = "".join(map(paragraph, chosen.reasons))
    if plan.given is None and chosen.schedule == plan.schedule:
        return paragraph("This is the schedule that the sizes choose.") + reasons
    passes = str(chosen.schedule).replace("},", "}\n") or "none"
    return fold("The schedule that the sizes choose", code(passes), reasons)


def measured_panel(text: str) -> str:
    """Return the whole explanation, as text."""
    return panel("Explanation, measured", code(text))


def stages_panel(stages: Sequence[Stage], edited: int | None = None) -> str:
    """Return every stage, folded, with the lines marked that its pass made; of unchanged ones a line each."""
    parts, before = [], ""
    for number, stage in enumerate(stages):
        title = f"{number:02} {stage.name}"
        if stage.text == before:
            parts.append(f'<p class="same">{html.escape(title)}: nothing changed</p>')
            continue
        note = ", edited" if number == edited else ""
        parts.append(
            fold(
                f"{title}: {stage.op_count} operations, {stage.milliseconds:.1f} ms{note}", _marked(stage.text, before)
            )
        )
        before = stage.text
    return panel("The stages", *parts)


def _marked(text: str, before: str) -> str:
    """Return a text with the lines marked that the one before does not have; neighbours share a mark."""
    known = set(map(str.strip, before.splitlines()))
    parts: list[str] = []
    for is_known, lines in groupby(text.splitlines(), lambda line: not before or line.strip() in known):
        joined = html.escape("\n".join(lines))
        parts.append(joined if is_known else f"<mark>{joined}</mark>")
    return "<pre>{}</pre>".format("\n".join(parts))
