"""The runs that `gathernest bench --store` wrote, side by side: parts of the README and of performance.md."""

import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

from gathernest.tools.bench.cases.case import Case, describe
from gathernest.tools.bench.machines import stored_runs
from gathernest.tools.bench.measure import OURS, geometric_mean
from gathernest.tools.bench.scaling import predict
from gathernest.tools.bench.scaling.compare import CASES
from gathernest.tools.bench.table import NEW, markdown_table, marked_ratio, new_result_text, ratio_text, time_text

DOCS = Path(__file__).parents[1]
PAGES = ("performance.md", "scaling.md", "../README.md")
# The README has these cases.
SHOWN = (
    *("rows-8B", "rows-64B", "rows-256B", "rows-4KB", "rows-64KB", "scalars-256MB-table", "scalars-256KB-table"),
    *("last-axis", "last-axis-long", "middle-axis", "tiny-batches-scalars", "nd-pairs-rows", "elements-first-axis"),
    *("elements-middle-axis", "int8-scalars", "gradient-rows-256B", "call-function"),
)
YOUNG_PEERS = ("tensorflow", "jax")
WIDTH = 136
Run = dict[str, Any]


def pages_with_machines() -> dict[str, str]:
    """Return each page with its parts between `<!-- machines: PART -->` and `<!-- end of machines -->` written anew."""
    runs = stored_runs(DOCS / "machines")
    return {page: _with_parts((DOCS / page).read_text(), runs) for page in PAGES}


def _with_parts(text: str, runs: list[Run]) -> str:
    pattern = re.compile(r"(<!-- machines: (\w+) -->\n).*?(<!-- end of machines -->)", re.S)
    return pattern.sub(lambda found: f"{found[1]}\n{PARTS[found[2]](runs)}\n\n{found[3]}", text)


def _cases(runs: list[Run], names: Iterable[str] | None = None) -> str:
    """Return a row for each case: for each machine our time, the best peer and its, the ratio, and new results."""
    shown = None if names is None else set(names)
    cases = {case["name"]: case for run in runs for case in run["cases"] if shown is None or case["name"] in shown}
    rows = []
    for name, case in cases.items():
        row = [name, describe(Case(**{field.name: _tuple(case[field.name]) for field in fields(Case)}))]
        for run in runs:
            row += _measured(next((one for one in run["cases"] if one["name"] == name), None), has_new=bool(run["new"]))
        rows.append(row)
    headings, marks = ["case", "shapes"], ["---", "---"]
    for run in runs:
        headings += [_short(run, runs), "best peer", "ratio", *([NEW] if run["new"] else [])]
        marks += ["--:", "---", "--:", *(["--:"] if run["new"] else [])]
    return markdown_table(headings, marks, rows)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _measured(case: dict[str, Any] | None, *, has_new: bool) -> list[str]:
    row = ["", "", ""]
    if case is not None and (peer := case["best_peer"]) is not None:
        told = f"{peer} {case['ways'][peer]}, {time_text(case['median_us'][peer])}"
        row = [time_text(case["median_us"][OURS]), told, marked_ratio(case["ratio"])]
    return [*row, _new_text(case)] if has_new else row


def _new_text(case: dict[str, Any] | None) -> str:
    found = None if case is None else _of_new_results(case)
    return "" if found is None else new_result_text(found["median_us"].get(OURS), found["ratio"], found["best_peer"])


def _of_new_results(case: dict[str, Any]) -> dict[str, Any] | None:
    return case if case["into"] == "new" else case["new"]


def _families(runs: list[Run]) -> str:
    """Return the geometric mean and the worst case of each family, by machine."""
    names = list(dict.fromkeys(name for run in runs for name in run["families"]))
    rows = []
    for name in [*names, "all gathers"]:
        row = [name]
        for run in runs:
            mean, new = _mean_of(run, name), _mean_of(run["new"], name)
            row += ["", "", ""] if mean is None else _mean(mean)
            row += ["" if new is None else ratio_text(new["geometric_mean"])] if run["new"] else []
        rows.append(row)
    headings, marks = ["family"], ["---"]
    for run in runs:
        headings += ["cases", _short(run, runs) if len(runs) > 1 else "geometric mean", "worst case"]
        headings += [NEW] if run["new"] else []
        marks += ["--:", "--:", "---", *(["--:"] if run["new"] else [])]
    return markdown_table(headings, marks, rows)


def _mean_of(means: dict[str, Any] | None, family: str) -> dict[str, Any] | None:
    if means is None:
        return None
    return means["gathers"] if family == "all gathers" else means["families"].get(family)


def _mean(mean: dict[str, Any]) -> list[str]:
    worst = f"{ratio_text(mean['worst_ratio'])}, {mean['worst_case']}"
    return [str(mean["cases"]), ratio_text(mean["geometric_mean"]), worst]


def _conditions(runs: list[Run]) -> str:
    """Return a line for each machine: what it is, how it was measured, and where a peer wins."""
    wrap = partial(fill, width=WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrap(f"* {_condition(run, runs)}") for run in runs)


def _condition(run: Run, runs: list[Run]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    threads = f"{run['threads']} thread{'s' if run['threads'] > 1 else ''} for everyone but numpy, which has one"
    name = f"{_short(run, runs)}: " if len(runs) > 1 else ""
    lines = [f"{name}{_machine(run)}; {threads}; medians of {run['rounds']} interleaved rounds in one process, bytes"]
    lines[0] += f" compared first; {run['time'][:10]}; {versions}."
    if run["load"] is not None and run["load"] > run["machine"]["usable_cores"]:
        lines.append(f"**The machine was busy (load {run['load']:.1f}), so these figures say little.**")
    lines += [f"A peer wins {lost}."] if (lost := _lost((case, case["name"]) for case in run["cases"])) else []
    if run["new"] and (lost := _lost((_of_new_results(case), case["name"]) for case in run["cases"])):
        lines.append(f"With a new result a peer wins {lost}.")
    older = {kind: _older(run, kind) for kind in ("gathers", "gradients")}
    if all(older.values()):
        told = " and ".join(f"{ratio_text(mean)} over the {kind}" for kind, mean in older.items())
        lines.append(f"Without TensorFlow and JAX the geometric mean is {told}.")
    fractions = [run[f"of_bound{order}_beyond_cache"] for order in ("", "_in_order")]
    if None not in fractions:
        lines.append(
            "Over the cases larger than the caches the geometric mean of the fraction of the roofline bound is "
            f"{fractions[0]:.2f}, and {fractions[1]:.2f} with capacity misses."
        )
    return " ".join(lines)


def _lost(cases: Iterable[tuple[dict[str, Any] | None, str]]) -> str:
    """Return the cases that a peer wins, of figures and names."""
    named = [(found, name) for found, name in cases if found is not None and found["ratio"] is not None]
    worse = [(found, name) for found, name in named if found["ratio"] < 1]
    return "; ".join(f"`{name}` {ratio_text(found['ratio'])} ({found['best_peer']})" for found, name in worse)


def _older(run: Run, kind: str) -> float | None:
    """Return the mean against the best of the peers but TensorFlow and JAX, where the run has their figures."""
    cases = [case for case in run["cases"] if case["family"] != "call"]
    cases = [case for case in cases if (case["family"] == "gradient") == (kind == "gradients")]
    ratios = [{name: one for name, one in case["ratios"].items() if name not in YOUNG_PEERS} for case in cases]
    times = [case["median_us"] for case in cases]
    pairs = list(zip(ratios, times, strict=True))
    return geometric_mean([one[min(one, key=us.__getitem__)] for one, us in pairs]) if pairs and all(ratios) else None


def _machine(run: Run) -> str:
    machine = run["machine"]
    return f"{machine['cpu']} (family {machine['family']}, model {machine['model']}), {machine['usable_cores']} cores"


def _short(run: Run, runs: list[Run]) -> str:
    """Return what a column is called: the time, or the machine where there are several."""
    if len(runs) == 1:
        return "time"
    machine = run["machine"]
    return f"{machine['cpu']} {machine['family']}-{machine['model']}, {machine['usable_cores']} cores"


def _sockets() -> str:
    """Return the prediction for the machine in two_sockets.json."""
    return predict.as_markdown(predict.predict(CASES, predict.read_sockets(DOCS / "two_sockets.json")))


PARTS: dict[str, Callable[[list[Run]], str]] = {
    "cases": _cases,
    "shown": lambda runs: _cases(runs, SHOWN),
    "families": _families,
    "conditions": _conditions,
    "sockets": lambda runs: _sockets(),
}
