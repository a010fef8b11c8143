"""The report: sections as one self-contained HTML page, under a bound of bytes. Imports jinja2 and pygments."""

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from ..ir.errors import GathernestError
from ..kernels.kernel import Kernel
from ..lowering.registry import Pipeline
from ..lowering.schedule.schedule import Schedule
from .levels import Highlight, compare_levels, highlighted, hot_loop_facts, level_views, origins, plain
from .sections import (
    ROUNDS,
    Bars,
    InTurn,
    Section,
    Subject,
    beside,
    byte_bars,
    bytes_text,
    machine_facts,
    name_of,
    section_at,
    section_of,
    timed_in_turn,
)

TEMPLATES = files(__name__.rpartition(".")[0]) / "templates"  # also where the package is in a zip file
MOST_BYTES = 1_000_000  # of a page
# The title of a page with gathers side by side.
BESIDE = "gathernest report: side by side"


# From a large page to a small one: how text is coloured, how many rows of a level are shown side by side, and whether
# the gathers behind the first have drawings.
DETAIL: tuple[tuple[Highlight, int | None, bool], ...] = (
    (highlighted, None, True), (plain, None, True), (plain, None, False), (plain, 400, False), (plain, 20, False),
)  # fmt: skip


def page(
    sections: Sequence[Section],
    others: Sequence[tuple[str, str]] = (),
    *,
    title: str = "gathernest report",
    compare: bool = False,
    in_turn: InTurn | None = None,
) -> str:
    """Return the page of some gathers.

    Args:
        sections: the gathers; as many as leave the page under `MOST_BYTES` are shown in full, the others in short.
        others: (name, text) of gathers that are only listed.
        title: of the page.
        compare: whether the first is shown side by side with each of the others, too.
        in_turn: the times of all in turn, where they are known.

    Returns:
        HTML of at most `MOST_BYTES` bytes where the first section allows it: when it is larger, details go in the order
        of `DETAIL`, then gathers.
    """
    names = "report.js", "report.css", "report.html"
    script, style, template_text = ((TEMPLATES / name).read_text(encoding="utf-8") for name in names)
    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(template_text)
    shown, left, text = list(sections), list(others), ""
    while True:
        for highlight, most_rows, has_drawings in DETAIL if compare else DETAIL[:3]:
            drawn = shown if has_drawings else [shown[0], *(replace(each, figures=()) for each in shown[1:])]
            text = template.render(
                title=title,
                style=style,
                script=script,
                script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
                machine=machine_facts(),
                gathers=[_gather(number, section, highlight) for number, section in enumerate(drawn)],
                others=left,
                comparison=_comparison(shown, highlight, in_turn, most_rows) if compare else None,
            )
            if len(text.encode()) <= MOST_BYTES:
                return text
        if len(shown) == 1 + compare:
            return text
        last = shown.pop()
        left.insert(0, (last.name, last.gather))


def _comparison(
    sections: Sequence[Section], highlight: Highlight, in_turn: InTurn | None, most_rows: int | None
) -> dict[str, Any]:
    """Return the rows of facts and the levels of the first gather beside each of the others, for the template."""
    kinds = [hot_loop_facts(section.trace) for section in sections]
    rows = {
        "schedule": ["\n".join(section.schedule) or "none" for section in sections],
        "time": ["not timed"] * len(sections) if in_turn is None else [f"{us:,.1f} µs" for us in in_turn.times_us],
        "of the roofline bound, by itself": [
            f"{section.explanation.fraction:.2f}" if section.explanation else "" for section in sections
        ],
        "its hottest loop": [", ".join(f"{count} {kind}" for kind, count in each) for each in kinds],
        "assembly": [f"{len(section.trace.levels[-1].lines)} lines" for section in sections],
    }
    pairs = []
    for number, section in enumerate(sections[1:], 1):
        levels = compare_levels(sections[0].trace, section.trace, highlight, most_rows)
        is_same = not any(level.rows for level in levels if level.title in ("source", "assembly"))
        pairs.append({"number": number, "names": (sections[0].name, section.name), "levels": levels, "same": is_same})
    facts = [(name, texts) for name, texts in rows.items() if any(texts)]
    return {"names": [section.name for section in sections], "facts": facts, "pairs": pairs, "in_turn": in_turn}


def _gather(number: int, section: Section, highlight: Highlight) -> dict[str, Any]:
    """Return the values of one gather, for the template."""
    passes = [level for level in section.trace.levels if level.kind == "stage" and level.origin is not None]
    times = [
        (level.name.partition("{")[0], level.milliseconds, f"{level.milliseconds:.2f} ms", "port") for level in passes
    ]
    return {
        "prefix": "" if number == 0 else f"G{number}",
        "number": number,
        "section": section,
        "trace": section.trace,
        "levels": level_views(section.trace, highlight),
        "origins": json.dumps(origins(section.trace), separators=(",", ":")),
        "pass_times": Bars("Time of each pass", times),
        "streams": byte_bars(section.streams),
        "bytes": bytes_text(sum(count for _, count in section.streams)),
    }


def report(
    subjects: Sequence[Subject],
    others: Sequence[tuple[str, str]] = (),
    *,
    timing: bool,
    rounds: int = ROUNDS,
    compare: bool = False,
    title: str = "gathernest report",
    progress: Callable[..., object] = lambda count=0, said="": None,
) -> tuple[str, list[Section]]:
    """Compile and time gathers; return their page and their sections.

    Args:
        subjects: the gathers; only those behind the first may be of another revision.
        timing: whether they are timed.
        rounds: the number of times that each schedule is timed.
        others, compare, title: as for `page`.
        progress: is called with the name of each gather before its section is made, and with 1 behind it.

    Raises:
        GathernestError: one of the gathers cannot be compiled.
    """
    kernels, sections, in_turn = list[Kernel](), list[Section](), None
    for subject in subjects:
        progress(said=subject.name or subject.problem.name)
        if subject.revision is not None:
            sections.append(section_at(subject.revision, sections[0], kernels[0].given_schedule, name=subject.name))
        else:
            kernels.append(kernel := subject.kernel(is_timed=timing))
            made = section_of(kernel, name=subject.name, timing=timing, rounds=rounds, remarks=subject.remarks)
            sections.append(made)
        progress(1)
    if compare and all(section.explanation is not None for section in sections):
        with suppress(GathernestError, MemoryError):  # the arrays of all may be too many
            in_turn = timed_in_turn(kernels, [section.name for section in sections], rounds)
    return page(sections, others, title=BESIDE if compare else title, compare=compare, in_turn=in_turn), sections


def _report_kernel(
    kernel: Kernel,
    given: Schedule | Pipeline | None,
    *,
    timing: bool = True,
    rounds: int = ROUNDS,
    against: Kernel | Schedule | str | None = None,
    **others: str | None,
) -> str:
    """Return the page of a kernel, and of the gather beside it; `Kernel.report` has the arguments and the errors."""
    compare = any(other is not None for other in (against, *others.values()))
    subjects = [Subject(f"A, {name_of(given)}" if compare else "", kernel.problem, given)]
    if compare:
        subjects.append(beside(kernel.problem, given, schedule=against, **others))
    return report(subjects, timing=timing, rounds=rounds, compare=compare)[0]
