"""Sections as one self-contained HTML page, under a bound of bytes. Imports jinja2 and pygments."""

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .charts import Bar, bars
from .comparison import compare_levels, hot_loop_facts
from .highlight import highlighted, plain
from .level_view import Highlight, level_views, origins
from .section import Section, machine_facts

TEMPLATES = Path(__file__).parent / "templates"
MOST_BYTES = 1_000_000


def page(
    sections: Sequence[Section],
    others: Sequence[tuple[str, str]] = (),
    *,
    title: str = "gathernest report",
    compare: bool = False,
) -> str:
    """Return the page of some gathers.

    Args:
        sections: the gathers in full; those that leave the page under `MOST_BYTES` are shown so, the others in short.
        others: (name, text) of gathers that are only listed.
        title: of the page.
        compare: whether the first two are shown side by side, too.

    Returns:
        HTML of at most `MOST_BYTES` bytes where the first section allows it: colours of text go first when it is large.
    """
    shown, left = list(sections), list(others)
    while True:
        for highlight in (highlighted, _plain_code, lambda lines, kind: plain(lines)):
            text = _render(title, shown, left, highlight, compare=compare)
            if len(text.encode()) <= MOST_BYTES:
                return text
        if len(shown) == 1 + compare:
            return text
        last = shown.pop()
        left.insert(0, (last.name, last.gather))


def _plain_code(lines: Sequence[str], kind: str) -> list[str]:
    return plain(lines) if kind in ("llvm", "assembly") else highlighted(lines, kind)


def _render(
    title: str, sections: Sequence[Section], others: Sequence[tuple[str, str]], highlight: Highlight, *, compare: bool
) -> str:
    script, style = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.js", "report.css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("report.html").render(
        title=title,
        script=script,
        style=style,
        script_digest=digest,
        machine=machine_facts(),
        gathers=[_gather(number, section, highlight) for number, section in enumerate(sections)],
        others=others,
        comparison=_comparison(sections[0], sections[1], highlight) if compare else None,
    )


def _comparison(left: Section, right: Section, highlight: Highlight) -> dict[str, Any]:
    """Return what the template needs of two gathers side by side: rows of facts, and the levels."""
    rows: list[tuple[str, str, str]] = []
    for name, said in (
        ("schedule", lambda section: "\n".join(_passes(section)) or "none"),
        ("time", lambda section: f"{section.explanation.measured_us:,.1f} µs" if section.explanation else "not timed"),
        ("of the roofline bound", lambda section: f"{section.explanation.fraction:.2f}" if section.explanation else ""),
        ("its hottest loop", lambda section: ", ".join(f"{n} {kind}" for kind, n in hot_loop_facts(section.trace))),
        ("assembly", lambda section: f"{len(section.trace.levels[-1].lines)} lines"),
    ):
        texts = said(left), said(right)
        if any(texts):
            rows.append((name, *texts))
    levels = compare_levels(left.trace, right.trace, highlight)
    is_same = not any(level.rows for level in levels if level.title in ("source", "assembly"))
    is_timed = left.explanation is not None and right.explanation is not None
    return {
        "names": (left.name, right.name), "facts": rows, "levels": levels, "is_same": is_same, "is_timed": is_timed,
    }  # fmt: skip


def _gather(number: int, section: Section, highlight: Highlight) -> dict[str, Any]:
    """Return what the template needs of one gather."""
    trace = section.trace
    levels = level_views(trace, highlight)
    mapped, of = trace.mapped
    return {
        "prefix": "" if number == 0 else f"G{number}",
        "number": number,
        "section": section,
        "levels": levels,
        "origins": json.dumps(origins(trace), separators=(",", ":")),
        "mapped": mapped,
        "of": of,
        "share": f"{100 * mapped / of:.0f} %" if of else "none",
        "same_code": trace.same_code,
        "pass_times": _pass_times(section),
        "streams": bars([Bar(name, count, _bytes(count)) for name, count in section.streams]),
        "bytes": _bytes(sum(count for _, count in section.streams)),
        "schedule": _passes(section),
    }


def _passes(section: Section) -> list[str]:
    """Return the text of each pass of the schedule, or of the pipeline that was given."""
    plan = section.plan
    text = str(plan.schedule) if plan.given is None else plan.given.text
    return text.replace("},", "}\n").splitlines()


def _pass_times(section: Section) -> str:
    stages = [level for level in section.trace.levels if level.kind == "stage" and level.origin is not None]
    return bars(
        [Bar(level.name.partition("{")[0], level.milliseconds, f"{level.milliseconds:.2f} ms") for level in stages]
    )


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} B"
