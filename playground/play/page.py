"""One open page: its panels as HTML, in which all text of a person is escaped, and its state.

Between runs of the cells it keeps the edited stage and the last results.
"""

import html
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from ...ir.errors import GathernestError
from ...kernels.host.machine import known_machine, machine_model
from ...kernels.machine.explain import predicted_terms
from ...kernels.machine.roofline import model_bound
from ...kernels.machine.traffic import fewest_bytes
from ...kernels.runtime.plan import Plan, make_plan
from ...lowering.pipeline import Stage
from ...lowering.static_html import code, fold, paragraph, table
from .settings import Settings
from .work import WORKER, BytesCheck, Mistake

WAIT = "The kernel is being compiled."
WAITING = "A link brought the edited stage. Machine code can do anything: run it if you trust it."
# Lines of a text that is shown whole; of a longer text, the lines before and behind the mistake.
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


def bytes_panel(check: BytesCheck) -> str:
    """Return whether the interpreted bytes are right."""
    kind = "bad" if check.difference is not None else "good" if check.tried is not None else ""
    title = {"bad": "The bytes are wrong", "good": "The bytes are right", "": "The bytes are not checked"}[kind]
    return panel(title, paragraph(str(check)), kind=kind)


def time_panel(found: Mapping[str, Any], *, is_current: bool) -> str:
    """Return the time of a call and whether its bytes are right, as far as they are known."""
    kind, parts = "" if is_current else "old", list[str]()
    if "time_us" in found:
        threads, rounds = (f"{found[name]} {name if found[name] != 1 else name[:-1]}" for name in ("threads", "rounds"))
        said = f"{found['time_us']:,.1f} µs a call with random indices on {threads}, the median of {rounds}."
        parts.append(paragraph(said))
        if found["difference"] is not None:
            kind = kind or "bad"
            parts.append(paragraph(f"The kernel's bytes are wrong: {found['difference']}"))
        elif found["is_compared"]:
            parts.append(paragraph("The kernel's bytes equal the reference's, at these sizes."))
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
    lines, loops = found["assembly"], list[str]()
    for loop in found["hot_loops"]:
        text = [lines[number] for number in loop["lines"]]
        count = sum(not line.endswith(":") for line in text)
        loops.append(paragraph(f"{loop['name'] or 'a loop'}: {count} instructions") + code(_indented(text)))
    more = loops[MOST_LOOPS:]
    folded = [fold(f"{len(more)} more loops", *more)] if more else []
    folded.append(fold(f"The whole assembly: {len(lines)} lines", code(_indented(lines))))
    title = "The hot loops: the innermost ones, in machine code"
    return panel(title, *loops[:MOST_LOOPS], *folded, kind="" if is_current else "old")


def _indented(lines: Sequence[str]) -> str:
    """Return lines of assembly with instructions indented below their labels."""
    return "\n".join(line if line.endswith(":") else f"    {line}" for line in lines)


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
    chosen = make_plan(plan.problem)
    reasons = "".join(map(paragraph, chosen.reasons))
    if plan.given is None and chosen.schedule == plan.schedule:
        why = paragraph("This is the schedule that the sizes choose.") + reasons
    else:
        passes = str(chosen.schedule).replace("},", "}\n") or "none"
        why = fold("The schedule that the sizes choose", code(passes), reasons)
    return panel("Explanation: the fewest bytes, and the time", table(rows), why)


def stages_panel(stages: Sequence[Stage], edited: int | None = None) -> str:
    """Return every stage, folded, with the lines marked that its pass made; of unchanged ones a line each."""
    parts, before = [], ""
    for number, stage in enumerate(stages):
        title = f"{number:02} {stage.name}"
        if stage.text == before:
            parts.append(f'<p class="same">{html.escape(title)}: nothing changed</p>')
            continue
        known, text = set(map(str.strip, before.splitlines())), list[str]()
        marked = [(line, not before or line.strip() in known) for line in stage.text.splitlines()]
        for is_known, run in groupby(marked, itemgetter(1)):
            joined = html.escape("\n".join(line for line, _ in run))
            text.append(joined if is_known else f"<mark>{joined}</mark>")
        note = ", edited" if number == edited else ""
        title = f"{title}: {stage.op_count} operations, {stage.milliseconds:.1f} ms{note}"
        parts.append(fold(title, "<pre>{}</pre>".format("\n".join(text))))
        before = stage.text
    return panel("The stages", *parts)


# How long nothing may change before a kernel is compiled.
SETTLED_S = 0.15
NO_STAGE = "none"
# The kinds of panels that stay below a mistake, in order.
PANELS = ("nest", "bytes", "machine", "stages")


@dataclass(slots=True)
class Session:
    """The page of one person.

    Attributes:
        stage: the stage that is chosen to be edited, by the name of its file in a dump; `NO_STAGE` for none.
        text: the text as the person edited it; None for the text that the passes make.
        resets: how often the text was reset.
        found: the last answer of the worker.
        kept: the last panels of each kind, as HTML, which stay below a mistake.
        linked: the text of a stage that came by the link, and that nobody has agreed to run; None for none.
    """

    stage: str = NO_STAGE
    text: str | None = None
    resets: int = 0
    found: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    linked: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> "Session":
        """Return the session that a link begins."""
        return cls(settings.stage or NO_STAGE, settings.text or None, linked=settings.text or None)

    def choose(self, stage: str | None) -> None:
        """Note which stage is to be edited; the text of another is given up."""
        if (stage or NO_STAGE) != self.stage:
            self.stage, self.text = stage or NO_STAGE, None

    def stage_in(self, names: list[str]) -> str:
        """Return the chosen stage by its name among others: steps that come or go change the number before it."""
        if self.stage not in (NO_STAGE, *names):
            ends = [name for name in names if name.partition("-")[2] == self.stage.partition("-")[2]]
            self.stage = ends[0] if len(ends) == 1 else NO_STAGE
            self.text = None if self.stage == NO_STAGE else self.text
        return self.stage

    def text_of(self, made: str, resets: int) -> str:
        """Return the text to edit: the person's, or the stage of the passes, also after a reset."""
        if resets != self.resets:
            self.resets, self.text = resets, None
        return made if self.text is None else self.text

    def edited(self, settings: Settings, stage: str, text: str, made: str | None) -> Settings:
        """Return settings with the stage that is chosen, and with its text where the person changed it."""
        if made is None:
            return settings
        self.text = None if text == made else text
        return replace(settings, stage=stage, text=self.text or "")

    def waits(self, settings: Settings, *, agreed: bool) -> bool:
        """Return whether the kernel of settings must wait until the person agrees: a link brought its stage."""
        if agreed or settings.text != self.linked:
            self.linked = None
        return self.linked is not None

    def keep(self, kind: str, panel: str) -> str:
        """Return a panel, and keep it for the next mistake."""
        self.kept[kind] = panel
        return panel

    def mistake(self, mistake: object) -> str:
        """Return a mistake as HTML, and below it the last results, greyed; nothing for another value."""
        if not isinstance(mistake, Mistake):
            return ""
        last = "".join(self.kept[kind] for kind in PANELS if kind in self.kept)
        kept = f'<div class="kept">{heading("The last results")}{last}</div>' if last else ""
        return mistake_panel(mistake) + kept

    def write_link(self, parameters: MutableMapping[str, Any], settings: Settings) -> None:
        """Write settings and the chosen stage into the parameters of the page's address."""
        if self.stage != NO_STAGE:
            settings = replace(settings, stage=self.stage, text=self.text or "")
        query = settings.to_query()
        for name in (each.name for each in fields(Settings)):
            if name not in query and name in parameters:
                del parameters[name]
        for name, value in query.items():
            if name not in parameters or parameters[name] != value:
                parameters[name] = value

    def follow(
        self, settings: Settings, plan: Plan, show: Callable[[str], object], is_stale: Callable[[], bool]
    ) -> None:
        """Compile and time the kernel of settings, and show each result until the settings are stale."""
        time.sleep(SETTLED_S)
        if is_stale():
            return
        found: dict[str, Any] = {}
        for part in WORKER.ask(settings, is_stale=is_stale):
            found |= part
            if not is_stale():
                self.found = found
                show(self.machine_panels(plan, is_current=True))

    def machine_panels(self, plan: Plan, *, is_current: bool) -> str:
        """Return time, explanation and assembly, as far as they are known."""
        time_us = self.found.get("time_us") if is_current else None
        parts = time_panel(self.found, is_current=is_current), explanation_panel(plan, time_us)
        return self.keep("machine", "".join((*parts, assembly_panel(self.found, is_current=is_current))))

    def explain(self, settings: Settings, show: Callable[[str], object], is_stale: Callable[[], bool]) -> None:
        """Measure the whole explanation, and show it."""
        for part in WORKER.ask(settings, explain=True, is_stale=is_stale):
            if is_stale():
                return
            if "error" in part:
                show(mistake_panel(Mistake("Explanation", part["error"])))
            else:
                show(panel("Explanation, measured", code(part["explanation"])))
