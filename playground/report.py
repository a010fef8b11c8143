"""The report: sections as one self-contained HTML page, under a bound of bytes. Imports jinja2 and pygments."""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..kernels.kernel import Kernel
from ..lowering.registry import Pipeline
from ..lowering.schedule.schedule import Schedule
from .levels import Highlight, compare_levels, highlighted, hot_loop_facts, level_views, origins, plain
from .sections import ROUNDS, InTurn, Section, machine_facts, other_of, pair_of, section_of


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its name, how long it is, and what is written beside it."""

    name: str
    value: float
    label: str


def bars(rows: Sequence[Bar]) -> str:
    """Return bars whose lengths are shares of the longest, as a table that reads without style, too."""
    longest = max((row.value for row in rows), default=0) or 1
    lines = (
        f'<tr><th scope="row">{html.escape(row.name)}</th><td class="bar"><span style="width:{_share(row, longest)}%">'
        f'</span></td><td class="number">{html.escape(row.label)}</td></tr>'
        for row in rows
    )
    return f'<table class="bars">{"".join(lines)}</table>'


def _share(row: Bar, longest: float) -> str:
    return f"{100 * row.value / longest:.1f}"


TEMPLATES = Path(__file__).parent / "templates"
# Of a page; and of a drawing that a page of several gathers goes without.
MOST_BYTES, LARGE_DRAWING = 1_000_000, 20_000
# The title of a page with two; and how many rows of a level it shows side by side where it is larger with all.
TWO, FEWER_ROWS = "gathernest report: two side by side", (2000, 400, 100)


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
        sections: the gathers in full; those that leave the page under `MOST_BYTES` are shown so, the others in short.
        others: (name, text) of gathers that are only listed.
        title: of the page.
        compare: whether the first two are shown side by side, too.
        in_turn: the times of these two in turn, where they are known.

    Returns:
        HTML of at most `MOST_BYTES` bytes where the first section allows it: when it is larger, colours of text go
        first, then large drawings, then rows of two side by side, then gathers.
    """
    shown, left, text = list(sections), list(others), ""
    while True:
        fewer = [(_plain, True, most) for most in FEWER_ROWS] if compare else []
        for highlight, is_small, most_rows in (*((*detail, None) for detail in _DETAIL), *fewer):
            drawn = [shown[0], *map(_without_large_drawings, shown[1:])] if is_small else shown
            compared = _comparison(shown[0], shown[1], highlight, in_turn, most_rows) if compare else None
            text = _render(title, drawn, left, highlight, compared)
            if len(text.encode()) <= MOST_BYTES:
                return text
        if len(shown) == 1 + compare:
            return text
        last = shown.pop()
        left.insert(0, (last.name, last.gather))


def _without_large_drawings(section: Section) -> Section:
    """Return a section whose large drawings are a sentence."""
    said = "Too large to be drawn beside other gathers; --node shows this one alone."
    figures = (
        each if len(each.svg) <= LARGE_DRAWING else replace(each, caption=said, svg="") for each in section.figures
    )
    return replace(section, figures=tuple(figures))


def _plain_code(lines: Sequence[str], kind: str) -> list[str]:
    return plain(lines) if kind in ("llvm", "assembly") else highlighted(lines, kind)


def _plain(lines: Sequence[str], kind: str) -> list[str]:
    return plain(lines)


# How text is coloured, and whether large drawings of the gathers behind the first go, from a small page to a large one.
_DETAIL: tuple[tuple[Highlight, bool], ...] = (
    (highlighted, False), (_plain_code, False), (_plain_code, True), (_plain, True),
)  # fmt: skip


def _render(
    title: str,
    sections: Sequence[Section],
    others: Sequence[tuple[str, str]],
    highlight: Highlight,
    comparison: dict[str, Any] | None,
) -> str:
    return render(
        TEMPLATES / "report.html",
        (TEMPLATES / "report.css",),
        title=title,
        machine=machine_facts(),
        gathers=[_gather(number, section, highlight) for number, section in enumerate(sections)],
        others=others,
        comparison=comparison,
    )


def render(template: Path, styles: Sequence[Path], **values: Any) -> str:
    """Return a page from its template and the script beside it, which is the only one that the page allows.

    Args:
        template: extends `base.html`, which takes `title`, `style`, `script` and `script_digest`; takes the values.
        styles: style sheets, the later over the earlier.
        values: escaped where the template does not call them safe.
    """
    script = template.with_suffix(".js").read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader((template.parent, TEMPLATES)), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template(template.name).render(
        script=script,
        style="\n".join(path.read_text(encoding="utf-8") for path in styles),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **values,
    )


def _comparison(
    left: Section, right: Section, highlight: Highlight, in_turn: InTurn | None, most_rows: int | None
) -> dict[str, Any]:
    """Return what the template needs of two gathers side by side: rows of facts, and the levels."""
    rows: list[tuple[str, str, str]] = []
    left_time, right_time = ("not timed",) * 2 if in_turn is None else (f"{time:,.1f} µs" for time in in_turn.times_us)
    for name, said in (
        ("schedule", lambda section: "\n".join(section.schedule) or "none"),
        (
            "of the roofline bound, by itself",
            lambda section: f"{section.explanation.fraction:.2f}" if section.explanation else "",
        ),
        ("its hottest loop", lambda section: ", ".join(f"{n} {kind}" for kind, n in hot_loop_facts(section.trace))),
        ("assembly", lambda section: f"{len(section.trace.levels[-1].lines)} lines"),
    ):
        texts = said(left), said(right)
        if any(texts):
            rows.append((name, *texts))
    rows.insert(1, ("time", left_time, right_time))
    levels = compare_levels(left.trace, right.trace, highlight, most_rows)
    is_same = not any(level.rows for level in levels if level.title in ("source", "assembly"))
    names = left.name, right.name
    return {"names": names, "facts": rows, "levels": levels, "is_same": is_same, "in_turn": in_turn}


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
        "has_provenance": trace.has_provenance,
        "same_code": trace.same_code,
        "pass_times": _pass_times(section),
        "streams": bars([Bar(name, count, _bytes(count)) for name, count in section.streams]),
        "bytes": _bytes(sum(count for _, count in section.streams)),
    }


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


def _report_kernel(
    kernel: Kernel,
    given: Schedule | Pipeline | None,
    *,
    timing: bool = True,
    rounds: int = ROUNDS,
    against: Kernel | Schedule | str | None = None,
    **others: str | None,
) -> str:
    """Return the page of a kernel, and of what stands beside it; `Kernel.report` has the arguments and the errors."""
    if all(other is None for other in (against, *others.values())):
        return page([section_of(kernel, timing=timing, rounds=rounds)])
    pair = pair_of(kernel, given, other_of(kernel, given, against, **others), timing=timing, rounds=rounds)
    return page(pair.sections, title=TWO, compare=True, in_turn=pair.in_turn)
