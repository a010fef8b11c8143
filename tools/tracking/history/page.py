"""A history as one self-contained HTML page. Imports jinja2 and its markupsafe."""

import json
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from ....playground.report import TEMPLATES, render
from .chart import chart
from .history import History, Judged
from .labels import number, p_value, percent

TEMPLATE = Path(__file__).parent / "templates" / "history.html"


def page(history: History, *, title: str = "gathernest history") -> str:
    """Return the page of a history."""
    places = {commit.name: place for place, commit in enumerate(history.commits)}
    ids = {judged.series.key: f"s{number}" for number, judged in enumerate(history.judged)}
    groups: dict[str, list[dict[str, Any]]] = {}
    for judged in history.judged:
        groups.setdefault(judged.series.group, []).append(_figure(judged, places, ids[judged.series.key]))
    changes = [
        {
            "at": at,
            "said": _span(at.since.name, at.between),
            "rows": [
                {
                    "id": ids[series.key],
                    "name": _breakable(series.name),
                    "group": series.group,
                    "before": number(change.before, series.unit),
                    "after": number(change.after, series.unit),
                    "relative": percent(change.relative),
                    "is_worse": change.after > change.before,
                    "p_value": p_value(change),
                }
                for series, change in at.changes
            ],
        }
        for at in history.at
    ]
    commits = [[commit.name[:8], commit.date, commit.subject] for commit in history.commits]
    return render(
        TEMPLATE,
        (TEMPLATES / "report.css", TEMPLATE.with_suffix(".css")),
        title=title,
        history=history,
        changes=changes,
        groups=groups,
        commits=json.dumps(commits, ensure_ascii=True).replace("<", "\\u003c"),
    )


def _figure(judged: Judged, places: dict[str, int], name: str) -> dict[str, Any]:
    series = judged.series
    at = [places[commit] for commit in series.commits]
    return {
        "id": name,
        "series": series,
        "name": _breakable(series.name),
        "svg": chart(at, series.values, judged.changes, len(places)),
        "places": " ".join(map(str, at)),
        "numbers": "|".join(number(value, series.unit) for value in series.values),
        "largest": number(max(series.values), series.unit),
        "least": number(min(series.values), series.unit),
        "last": number(series.values[-1], series.unit),
        "noise": _noise(judged),
        "changes": len(judged.changes),
    }


def _breakable(name: str) -> Markup:
    """Return a name that a line may end in, before its parameters or after a dot."""
    return escape(name).replace("(", Markup("<wbr>(")).replace(".", Markup(".<wbr>"))


def _span(since: str, between: int) -> str:
    return "" if between == 1 else f"one of the {between} commits since {since[:8]}"


def _noise(judged: Judged) -> str:
    """Return what is known of the noise of a series, in words."""
    if judged.noise.is_exact:
        return "exact"
    return f"noise {percent(judged.noise.threshold, sign='')}" if judged.noise.is_known else "too few results to tell"
