"""The runs that `gathernest bench --store` wrote, side by side: parts of pages, and plots."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

from plots import FASTER, ROW, SLOWER, SPACE, Column, cases_plot, write, write_below

from gathernest.ir.errors import GathernestError
from gathernest.ir.numbers import parse_json
from gathernest.playground.drawings import drawing, finished, standalone, width_of
from gathernest.tools.bench.cases import APART, FAMILIES, Case, describe
from gathernest.tools.bench.measure import OURS, geometric_mean
from gathernest.tools.bench.report import ALL, FORMAT, machine_name, ratio_text
from gathernest.tools.console.terminal import markdown_table, time_text

# The column of calls that make their result.
NEW = "new result"
DOCS = Path(__file__).parents[1]
PAGES = ("performance.md", "experiments/peers.md", "experiments/threads.md", "../README.md")
PEER_TITLES = {"numpy": "NumPy", "torch": "PyTorch", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
PEER_TITLES |= {"tensorflow": "TensorFlow", "jax": "JAX"}
FAMILIES_PLOT = "images/families.svg"
YOUNG_PEERS = ("tensorflow", "jax")
WIDTH = 136
# Pixels of the longest bar of the plot of families.
BAR_WIDTH = 150.0
Run = dict[str, Any]


def stored_runs(folder: Path) -> list[dict[str, Any]]:
    """Return the stored runs by name; raises GathernestError where a file is none, or of another format."""
    runs: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.json")):
        try:
            run = {"new": None, **parse_json(path.read_bytes(), allow_nan=True)}
        except (ValueError, TypeError) as error:
            raise GathernestError(
                f"{path} is no stored run ({error}); store one with gathernest bench --store"
            ) from None
        if run.get("format") != FORMAT:
            raise GathernestError(
                f"{path} is a run of format {run.get('format')}, and format {FORMAT} can be read; store it again with "
                "gathernest bench --store"
            )
        runs.append(run | {"cases": [{"new": None, **case} for case in run["cases"]]})
    return runs


def pages_with_machines() -> dict[str, str]:
    """Return each page with its parts between `<!-- machines: PART -->` and `<!-- end of machines -->` written anew."""
    runs = stored_runs(DOCS / "machines")
    return {page: _with_parts((DOCS / page).read_text(), runs) for page in PAGES}


def _with_parts(text: str, runs: list[Run]) -> str:
    pattern = re.compile(r"(<!-- machines: (\w+) -->\n).*?(<!-- end of machines -->)", re.S)
    return pattern.sub(lambda found: f"{found[1]}\n{PARTS[found[2]](runs)}\n\n{found[3]}", text)


def plots() -> dict[str, str]:
    """Return the plots of families and of the cases of each run, as texts of SVG files, by their paths in docs."""
    runs = stored_runs(DOCS / "machines")
    drawn = {
        FAMILIES_PLOT: families_plot(runs, [_name(run) for run in runs], title=_title(runs[0]), notes=_plot_notes(runs))
    }
    for run in runs:
        drawn[_plot_path(run)] = cases_plot(run, _condition(run, [run]).replace("`", "").replace("**", ""))
    return {path: standalone(svg) for path, svg in drawn.items()}


def _plot_path(run: Run) -> str:
    machine = run["machine"]
    facts = {"model name": machine["cpu"], "cpu family": machine["family"], "model": machine["model"]}
    return f"images/cases-{machine_name(facts, machine['usable_cores'])}.svg"


def _title(run: Run) -> str:
    names = ", ".join(PEER_TITLES[name] for name in run["versions"] if name in PEER_TITLES)
    return f"How many times as fast as the best of {' and '.join(names.rsplit(', ', 1))}"


def _plot_notes(runs: list[Run]) -> list[str]:
    threads = " or ".join(map(str, sorted({run["threads"] for run in runs})))
    return [
        "Bars: geometric means over the cases, each against the peer that is best in it. Ticks: the worst case.",
        f"Family and model of each processor; {threads} threads for everyone, bytes compared first.",
    ]


def families_plot(runs: Sequence[dict[str, Any]], headings: Sequence[str], *, title: str, notes: list[str]) -> str:
    """Return the picture as SVG: a column for each run, with a bar for each family and a tick at its worst case.

    Args:
        runs: results of `as_json`, as stored runs hold them.
        headings: of their columns.
        title: the line above them.
        notes: the lines below them.
    """
    means = [means_of(run) for run in runs]
    counted = {name: mean["cases"] for of_run in reversed(means) for name, mean in of_run.items()}
    told = ". ".join(f"{heading}: {told_means(run)}" for heading, run in zip(headings, runs, strict=True))
    root = drawing("families", title, f"{told}.")
    names = {name: f"{name} ({cases} case{'s' * (cases > 1)})" for name, cases in counted.items()}
    longest = max(1.0, *(mean["geometric_mean"] for of_run in means for mean in of_run.values()))
    step = max(BAR_WIDTH + width_of("00.00×"), *map(width_of, headings)) + SPACE
    left, top = SPACE + max(map(width_of, names.values())) + SPACE / 2, SPACE + 2 * ROW
    write(root, title, SPACE, SPACE / 2, bold=True)
    for row, name in enumerate(counted):
        write(root, names[name], left - SPACE / 2, top + row * ROW, bold=name == ALL, end=True)
    for place, (heading, of_run) in enumerate(zip(headings, means, strict=True)):
        bars = Column(left + place * step, BAR_WIDTH, longest)
        write(root, heading, bars.left, SPACE / 2 + ROW, faint=True)
        for row, name in enumerate(counted):
            if name in of_run:
                _draw_family(root, bars, top + row * ROW, of_run[name])
        bars.draw_line(root, top, top + len(counted) * ROW)
    bottom = top + len(counted) * ROW + SPACE / 2
    return finished(root, left + len(runs) * step, write_below(root, notes, bottom))


def _draw_family(root: Any, bars: Column, top: float, mean: dict[str, Any]) -> None:
    ratio = mean["geometric_mean"]
    bars.draw_bar(root, top, ratio, ratio_text(ratio), FASTER if ratio >= 1 else SLOWER)
    bars.draw_mark(root, top, mean["worst_ratio"], f"worst {ratio_text(mean['worst_ratio'])} {mean['worst_case']}")


def means_of(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the mean of all gathers, then the means of the families."""
    whole = {} if run["gathers"] is None else {ALL: run["gathers"]}
    return whole | run["families"]


def told_means(run: dict[str, Any]) -> str:
    """Return these means as text."""
    return ", ".join(f"{name} {ratio_text(mean['geometric_mean'])}" for name, mean in means_of(run).items())


def _families_plot(runs: list[Run]) -> str:
    """Return the plot of families for the README, with its values as text."""
    told = "; ".join(f"{_name(run)}: {told_means(run)}" for run in runs)
    every = max(len(run["cases"]) for run in runs)
    every_case = f"[All {every} cases, with times and versions](docs/experiments/peers.md)"
    return f"![{_title(runs[0])}. {told}](docs/{FAMILIES_PLOT})\n\n{every_case}"


def _cases_plot(runs: list[Run]) -> str:
    """Return the plot of cases of each machine; the table has its values as text."""
    said = "Bars for each case: the ratio to the best peer, and the fraction of the roofline bound"
    return "\n\n".join(f"![{said}](../{_plot_path(run)})" for run in runs)


def _cases(runs: list[Run]) -> str:
    """Return a row for each case: for each machine our time, the best peer and its, the ratio, and new results."""
    cases = {case["name"]: case for run in runs for case in run["cases"]}
    rows = []
    for name, case in cases.items():
        row = [name, describe(Case(**{field.name: _tuple(case[field.name]) for field in fields(Case)}))]
        for run in runs:
            row += _measured(next((one for one in run["cases"] if one["name"] == name), None), has_new=bool(run["new"]))
        rows.append(row)
    columns = ["case", "shapes"]
    for run in runs:
        columns += [f">{_short(run, runs)}", "best peer", ">ratio", *([f">{NEW}"] if run["new"] else [])]
    return markdown_table(columns, rows)


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
    for name in [*names, ALL]:
        row = [name]
        for run in runs:
            mean, new = _mean_of(run, name), _mean_of(run["new"], name)
            row += ["", "", ""] if mean is None else _mean(mean)
            row += ["" if new is None else ratio_text(new["geometric_mean"])] if run["new"] else []
        rows.append(row)
    columns = ["family"]
    for run in runs:
        columns += [">cases", f">{_short(run, runs) if len(runs) > 1 else 'geometric mean'}", "worst case"]
        columns += [f">{NEW}"] if run["new"] else []
    return markdown_table(columns, rows)


def _mean_of(means: dict[str, Any] | None, family: str) -> dict[str, Any] | None:
    if means is None:
        return None
    return means["gathers"] if family == ALL else means["families"].get(family)


def _mean(mean: dict[str, Any]) -> list[str]:
    worst = f"{ratio_text(mean['worst_ratio'])}, {mean['worst_case']}"
    return [str(mean["cases"]), ratio_text(mean["geometric_mean"]), worst]


def _summary(runs: list[Run]) -> str:
    """Return a row for each machine: its means, into a given result and into a new one, and where a peer wins."""
    rows = []
    for run in runs:
        means = [
            " / ".join(ratio_text(mean["geometric_mean"]) if mean else "–" for mean in _both(run, family))
            for family in (ALL, "gradient", "bags")
        ]
        lost = _lost((case, case["name"]) for case in run["cases"])
        new = _lost((_of_new_results(case), case["name"]) for case in run["cases"]) if run["new"] else ""
        told = "; ".join([*([lost] if lost else []), *([f"new results: {new}"] if new else [])])
        rows.append([_short(run, runs) if len(runs) > 1 else _name(run), *means, told or "nowhere"])
    return markdown_table(["", ">gathers", ">gradients", ">bags", "a peer wins"], rows)


def _both(run: Run, family: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    return _mean_of(run, family), _mean_of(run["new"], family)


def _conditions(runs: list[Run]) -> str:
    """Return a line for each machine: its name, the way of measuring, and the cases that a peer wins."""
    wrap = partial(fill, width=WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrap(f"* {_condition(run, runs)}") for run in runs)


def _together(found: Sequence[Mapping[str, float] | None]) -> str:
    """Return how many times as fast as one thread all were around a run; nothing where it was not measured."""
    times = [f"{each['computing']:.1f} and {each['copying']:.1f}" for each in found if each is not None]
    if len(times) < 2:
        return ""
    return f", who compute and copy {times[0]} times as fast as one before the run, {times[1]} after it"


def new_result_text(microseconds: float | None, ratio: float | None, peer: str | None) -> str:
    """Return a cell such as "3.10 ms, 2.57× jax"; without a peer the time alone."""
    time_ = time_text(microseconds)
    return time_ if peer is None else f"{time_}, {marked_ratio(ratio)} {peer}"


def marked_ratio(ratio: float | None) -> str:
    """Return a ratio for Markdown, bold where a peer wins."""
    shown = ratio_text(ratio)
    return f"**{shown}**" if ratio is not None and ratio < 1 else shown


def _condition(run: Run, runs: list[Run]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    threads = f"{run['threads']} thread{'s' if run['threads'] > 1 else ''} for everyone but numpy, which has one"
    name = f"{_short(run, runs)}: " if len(runs) > 1 else ""
    threads += _together(run.get("together", ()))
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
    if (fraction := run["of_bound_beyond_cache"]) is not None:
        lines.append(
            "Over the cases larger than the caches the geometric mean of the fraction of the roofline bound is "
            f"{fraction:.2f}."
        )
    return " ".join(lines)


def _lost(cases: Iterable[tuple[dict[str, Any] | None, str]]) -> str:
    """Return the cases that a peer wins, of figures and names."""
    named = [(found, name) for found, name in cases if found is not None and found["ratio"] is not None]
    worse = [(found, name, found.get("of_bound")) for found, name in named if found["ratio"] < 1]
    return "; ".join(
        f"`{name}` {ratio_text(found['ratio'])} ({found['best_peer']}"
        f"{'' if part is None else f', at {100 * part:.0f} % of the roofline bound'})"
        for found, name, part in worse
    )


def _older(run: Run, kind: str) -> float | None:
    """Return the mean against the best of the peers but TensorFlow and JAX, where the run has their figures."""
    of_kind = {"gathers": [family for family in FAMILIES if family not in APART], "gradients": ["gradient"]}[kind]
    cases = [case for case in run["cases"] if case["family"] in of_kind]
    ratios = [{name: one for name, one in case["ratios"].items() if name not in YOUNG_PEERS} for case in cases]
    times = [case["median_us"] for case in cases]
    pairs = list(zip(ratios, times, strict=True))
    return geometric_mean([one[min(one, key=us.__getitem__)] for one, us in pairs]) if pairs and all(ratios) else None


def _machine(run: Run) -> str:
    machine = run["machine"]
    return f"{machine['cpu']} (family {machine['family']}, model {machine['model']}), {machine['usable_cores']} cores"


def _short(run: Run, runs: list[Run]) -> str:
    """Return the heading of a column: the time, or the machine where there are several."""
    if len(runs) == 1:
        return "time"
    return f"{_name(run)}, {run['machine']['usable_cores']} cores"


def _name(run: Run) -> str:
    machine = run["machine"]
    return f"{machine['cpu']} {machine['family']}-{machine['model']}"


def _sockets() -> str:
    """Return the prediction for the machine in two_sockets.json."""
    from sockets import CASES, predict, predictions_as_markdown, read_sockets

    return predictions_as_markdown(predict(CASES, read_sockets(DOCS / "two_sockets.json")))


PARTS: dict[str, Callable[[list[Run]], str]] = {
    "cases": _cases,
    "cases_plot": _cases_plot,
    "families_plot": _families_plot,
    "families": _families,
    "conditions": _conditions,
    "summary": _summary,
    "sockets": lambda runs: _sockets(),
}
