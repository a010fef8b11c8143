"""The results of a run: means by family, tables for the terminal and as Markdown, JSON, and the stored runs."""

import argparse
import json
import platform
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...ir.errors import GathernestError
from ...ir.numbers import parse_json
from ...kernels.host.cpu import PACKAGE, cache_sizes, cpu_facts, cpu_model, package_version, usable_cores
from ...kernels.host.machine import AVX2_BYTES, built_in_for, has_avx512
from ...lowering.schedule.machine_model import BUILT_IN
from ..console.terminal import UsageError
from .cases import APART, FAMILIES, describe, larger_than
from .measure import OURS, Measured, geometric_mean

if TYPE_CHECKING:
    from rich.table import Table

LAST_LEVEL_IF_UNKNOWN = 2**25


class Together(NamedTuple):
    """How many times as fast as one thread all are: where they fill a core's units, and where they copy memory."""

    computing: float
    copying: float


@dataclass(frozen=True, slots=True)
class Mean:
    """Ratios against the best peer of each of so many cases, taken together; a peer wins the cases `below_1`."""

    cases: int
    geometric_mean: float
    worst_case: str
    worst_ratio: float
    below_1: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A run of the suite.

    Attributes:
        versions: of gathernest and its peers, in the order of the table.
        threads, rounds: how many everyone had, and how often everyone was timed.
        cut: the largest size of a dimension, or None where the suite ran in full.
        load: the load of the machine before the run, or None where the system does not tell it.
        together: how many times as fast as one thread all were, before the run and after it; None of one thread.
    """

    measured: Sequence[Measured]
    versions: Mapping[str, str]
    threads: int
    rounds: int
    cut: int | None = None
    load: float | None = None
    together: Sequence[Together | None] = ()

    @property
    def peers(self) -> list[str]:
        """The peers that took part."""
        return [name for name in self.versions if name != OURS]

    @property
    def wrong(self) -> list[str]:
        """A line for every candidate that gave other bytes or failed."""
        named = {one.case.name: one for one in self.measured}
        named |= {f"{one.case.name}, new result": one.new for one in self.measured if one.new is not None}
        return [f"{case}: {name} {problem}" for case, one in named.items() for name, problem in one.wrong.items()]

    @property
    def of_new_results(self) -> "Report | None":
        """The same of calls that make their result, or None where they were not measured."""
        if not any(one.new is not None for one in self.measured):
            return None
        return replace(self, measured=[one.of_new_results for one in self.measured if one.of_new_results is not None])

    def families(self) -> dict[str, Mean]:
        """Return a mean for every family that has a case with a peer."""
        names = dict.fromkeys(one.case.family for one in self.measured)
        means = {name: _mean([one for one in self.measured if one.case.family == name]) for name in names}
        return {name: mean for name, mean in means.items() if mean is not None}

    def gathers(self) -> Mean | None:
        """Return the mean over all gathers; gradients, bags and the cost of a call are other questions."""
        return _mean([one for one in self.measured if one.case.family not in APART])

    def of_bound(self) -> float | None:
        """Return the geometric mean of the fractions of the roofline bound, for gathers larger than the last cache."""
        return geometric_mean([one.of_bound for one in self._beyond_cache()])

    def _beyond_cache(self) -> list[Measured]:
        large = (one for one in self.measured if larger_than(one.case, last_level_bytes()))
        return [one for one in large if one.case.family not in APART]


def last_level_bytes() -> int:
    """Return the size of the largest cache of this machine."""
    return max(cache_sizes().values(), default=LAST_LEVEL_IF_UNKNOWN)


def _mean(measured: Sequence[Measured]) -> Mean | None:
    ratios = {one.case.name: one.ratio for one in measured if one.ratio is not None}
    mean = geometric_mean(list(ratios.values()))
    if mean is None:
        return None
    worst = min(ratios, key=lambda name: ratios[name])
    return Mean(len(ratios), mean, worst, ratios[worst], tuple(name for name in ratios if ratios[name] < 1))


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as JSON can hold it."""
    new = report.of_new_results
    return {
        "format": FORMAT,
        "machine": {
            "cpu": cpu_model(),
            "family": cpu_facts().get("cpu family"),
            "model": model_text(cpu_facts()),
            "usable_cores": usable_cores(),
            "caches_bytes": cache_sizes(),
        },
        "versions": {"python": platform.python_version(), "numba": package_version("numba"), **report.versions},
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "load": report.load,
        "threads": report.threads,
        "together": [None if each is None else each._asdict() for each in report.together],
        "rounds": report.rounds,
        "cut": report.cut,
        "cases": [_case_json(one) for one in report.measured],
        **_means_json(report),
        "new": None if new is None else _means_json(new),
        "of_bound_beyond_cache": report.of_bound(),
    }


def _means_json(report: Report) -> dict[str, Any]:
    gathers = report.gathers()
    return {
        "families": {name: asdict(mean) for name, mean in report.families().items()},
        "gathers": None if gathers is None else asdict(gathers),
    }


def _case_json(one: Measured) -> dict[str, Any]:
    return {
        **asdict(one.case),
        **{name: getattr(one.case, name) for name in ("table_bytes", "row_bytes", "rows")},
        "larger_than_cache": larger_than(one.case, last_level_bytes()),
        **_figures_json(one),
        "new": None if one.new is None else _figures_json(one.new),
        "bound": None if one.bound is None else one.bound.to_json(),
        **{name: getattr(one, name) for name in ("bound_us", "of_bound")},
    }


def _figures_json(one: Measured) -> dict[str, Any]:
    names = ("median_us", "rounds_us", "ratios", "best_peer", "ratio", "ways", "rejected", "wrong")
    return {name: getattr(one, name) for name in names}


FOLDER = PACKAGE / "docs" / "machines"
# Of the files; 2 has new results, and 3 bounds of memory without zeros: those before are up to twice too short.
FORMAT = 3
FIRST_WITH_BOUNDS = 3
OF_BOUND = "bound", "bound_us", "of_bound"
# What is no name in the model name of a CPU.
NOISE = re.compile(r"\(R\)|\(TM\)|\bCPU\b|\bProcessor\b|@.*|\d+-Core\b", re.IGNORECASE)


def model_text(facts: dict[str, str]) -> str | None:
    """Return the model of a CPU as /proc/cpuinfo tells it, and where its AVX-512 is hidden, which makes it another."""
    model, name = facts.get("model"), built_in_for(facts)[0]
    hides = BUILT_IN[name].wide_vector_bytes > AVX2_BYTES and not has_avx512(facts)
    return f"{model} without AVX-512" if model and hides else model


def machine_name(facts: dict[str, str], cores: int) -> str:
    """Return a name of a machine for files: model name, family, model and cores, as in `amd-epyc-25-17-2-cores`.

    Args:
        facts: what /proc/cpuinfo says of a core; names that are missing are left out.
        cores: how many can be used.
    """
    parts = [NOISE.sub(" ", facts.get("model name", "")), facts.get("cpu family", ""), model_text(facts) or ""]
    words = re.findall(r"[a-z0-9.]+", " ".join(parts).lower())
    return "-".join([*(words or ["cpu"]), str(cores), "core" if cores == 1 else "cores"])


def storing_path(options: argparse.Namespace) -> Path:
    """Return the file of this machine, where a command line measures what is stored.

    Raises:
        UsageError: it measures something else.
        GathernestError: this is no checkout with its pages.
    """
    if options.case or options.quick or options.no_new_results or not set(options.family) <= set(APART):
        raise UsageError(
            "--store writes the whole suite in full, or beside what was stored the families that no mean over others "
            f"has, --family {','.join(APART)}; leave --case, other families, --quick and --no-new-results out"
        )
    if not FOLDER.parent.is_dir():
        raise GathernestError(f"--store writes to docs/machines of a checkout, and {PACKAGE} is none; use --json FILE")
    path = FOLDER / f"{machine_name(cpu_facts(), usable_cores())}.json"
    if options.family and not path.exists():
        raise UsageError(f"--store --family adds to {path}, which does not exist; store the whole suite first")
    return path


def stored_runs(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the stored runs by name; fields that an older format lacks are None.

    Raises:
        GathernestError: a run has a newer format than this reads.
    """
    return [read_run(path) for path in sorted(folder.glob("*.json"))]


def read_run(path: Path) -> dict[str, Any]:
    """Return a stored run; see `stored_runs`."""
    try:
        run = {"format": 1, "new": None, **parse_json(path.read_bytes(), allow_nan=True)}
    except (ValueError, TypeError) as error:
        raise GathernestError(f"{path} is no stored run ({error}); store one with gathernest bench --store") from None
    if run["format"] > FORMAT:
        raise GathernestError(
            f"{path} is a run of format {run['format']}, and formats to {FORMAT} can be read; update gathernest"
        )
    has_bounds = run["format"] >= FIRST_WITH_BOUNDS
    without, means = ({}, {}) if has_bounds else (dict.fromkeys(OF_BOUND), {"of_bound_beyond_cache": None})
    return run | means | {"cases": [{"new": None, **case, **without} for case in run["cases"]]}


def with_families(stored: dict[str, Any], measured: dict[str, Any], families: Collection[str]) -> dict[str, Any]:
    """Return a stored run with the cases of some families measured later; "later" says when.

    Args:
        stored, measured: runs of one machine.
        families: those of `measured`, each of `APART`: no mean over other families has their cases.

    Raises:
        GathernestError: the packages have other versions, or as many threads were not used.
    """
    for name in ("versions", "threads"):
        if measured[name] != stored[name]:
            raise GathernestError(
                f"the stored run has {name} {stored[name]}, got {measured[name]}; store the whole suite, without "
                "--family"
            )
    when = {name: measured[name] for name in ("time", "load", "rounds")}
    kept = [case for case in stored["cases"] if case["family"] not in families]
    merged = stored | {"format": FORMAT, "later": stored.get("later", {}) | dict.fromkeys(families, when)}
    merged["cases"] = sorted([*kept, *measured["cases"]], key=lambda case: FAMILIES.index(case["family"]))
    merged["families"] = _in_order(stored["families"] | measured["families"])
    merged["new"] = stored["new"] | {"families": _in_order(stored["new"]["families"] | measured["new"]["families"])}
    return merged


def _in_order(means: dict[str, Any]) -> dict[str, Any]:
    return {family: means[family] for family in sorted(means, key=FAMILIES.index)}


def as_text(found: dict[str, Any]) -> str:
    """Return a run as JSON, lists of numbers on one line."""
    return re.sub(r"\[[-\d.,\se]+\]", _on_one_line, json.dumps(found, indent=1)) + "\n"


def _on_one_line(numbers: re.Match[str]) -> str:
    return f"[{' '.join(numbers[0].strip('[]').split())}]"


HEADINGS = {OURS: "time", "onnxruntime": "ORT", "openvino": "OV", "tensorflow": "TF"}
ALL = "all gathers"
WIDTH = 80  # of the table on a terminal, in columns
# The column of calls that make their result.
NEW = "new result"


def as_table(report: Report) -> "Table":
    """Return a table for a terminal of 80 columns: our time, the ratio to every peer, and the part of the bound.

    The best peer of a case is bold, and red where it is faster.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    has_bounds = any(one.of_bound is not None for one in report.measured)
    table.add_column("case", no_wrap=True)
    for name in (OURS, *report.peers, *(["bound"] if has_bounds else [])):
        table.add_column(HEADINGS.get(name, name), justify="right", no_wrap=True)
    family = None
    for one in report.measured:
        if one.case.family != family:
            family = one.case.family
            table.add_row(Text(f"- {family}", style="dim"))
        best = "bold red" if one.ratio is not None and one.ratio < 1 else "bold green"
        cells = [Text(one.case.name), Text(time_text(one.median_us.get(OURS)))]
        cells += [Text(_peer_text(one, name), style=best if name == one.best_peer else "") for name in report.peers]
        table.add_row(*cells, *([Text(_percent(one.of_bound) or "–")] if has_bounds else []))
    return table


def summary(report: Report) -> list[str]:
    """Return the lines below a table: the mean and the worst case of each family, and of all gathers."""
    means = [f"{name:<22} {_mean_text(mean)}" for name, mean in _means(report).items()]
    mean = report.of_bound()
    return [*means, f"{'of the bound':<22} {_percent(mean):>7}, cases larger than cache"] if mean else means


def _mean_text(mean: Mean) -> str:
    return f"{ratio_text(mean.geometric_mean):>7}, worst {ratio_text(mean.worst_ratio)} ({mean.worst_case})"


def markdown_table(headings: Sequence[str], marks: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, its columns aligned by marks such as "--:"."""
    lines = [f"| {' | '.join(cells)} |" for cells in (headings, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(marks)}|", *lines[1:]])


def as_markdown(report: Report) -> str:
    """Return the README's table, with the means, the machine and the versions below it."""
    new = report.of_new_results
    rows: list[tuple[str, ...]] = []
    for one in report.measured:
        best = one.best_peer
        told = "" if best is None else f"{best} {one.ways[best]}, {time_text(one.median_us[best])}"
        row = (one.case.name, describe(one.case), time_text(one.median_us.get(OURS)), told, marked_ratio(one.ratio))
        rows.append(row if new is None else (*row, _new_text(one.of_new_results)))
    headings, marks = ("case", "shapes", "time", "best peer", "ratio"), ("---", "---", "--:", "---", "--:")
    cases = markdown_table(*_with_new(new, headings, marks), rows)
    of_new = {} if new is None else _means(new)
    means: list[tuple[str, ...]] = []
    for name, one in _means(report).items():
        worst = f"{ratio_text(one.worst_ratio)}, {one.worst_case}"
        row = (name, str(one.cases), ratio_text(one.geometric_mean), worst)
        means.append(row if new is None else (*row, ratio_text(of_new[name].geometric_mean) if name in of_new else ""))
    headings, marks = ("family", "cases", "geometric mean", "worst case"), ("---", "--:", "--:", "---")
    families = markdown_table(*_with_new(new, headings, marks), means)
    return f"{cases}\n\n{families}\n\n{conditions(report)}.\n"


def _with_new(new: Report | None, headings: Sequence[str], marks: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return headings and marks of a table, with a column more for new results where they were measured."""
    return (headings, marks) if new is None else ((*headings, NEW), (*marks, "--:"))


def _new_text(one: Measured | None) -> str:
    """Return the time of a case into a new result, with the ratio and the best peer."""
    if one is None:
        return ""
    return new_result_text(one.median_us.get(OURS), one.ratio, one.best_peer)


def new_result_text(microseconds: float | None, ratio: float | None, peer: str | None) -> str:
    """Return a cell such as "3.10 ms, 2.57× jax"; without a peer the time alone."""
    time_ = time_text(microseconds)
    return time_ if peer is None else f"{time_}, {marked_ratio(ratio)} {peer}"


def marked_ratio(ratio: float | None) -> str:
    """Return a ratio for Markdown, bold where a peer wins."""
    shown = ratio_text(ratio)
    return f"**{shown}**" if ratio is not None and ratio < 1 else shown


def _means(report: Report) -> dict[str, Mean]:
    """Return the means of the families, and the mean of all gathers at the end."""
    gathers = report.gathers()
    return report.families() | ({} if gathers is None else {ALL: gathers})


def conditions(report: Report) -> str:
    """Return machine, threads, rounds and versions as one line."""
    versions = [f"{name} {version}" for name, version in report.versions.items()]
    rounds = f"medians of {report.rounds} interleaved rounds in one process, bytes compared first"
    cut = f"; no dimension above {report.cut}" if report.cut is not None else ""
    python = f"Python {platform.python_version()}, numba {package_version('numba')}"
    threads = f"{report.threads} thread{'s' if report.threads > 1 else ''} for everyone but numpy, which has one"
    threads += together_text([each and each._asdict() for each in report.together])
    return f"{cpu_model()}, {usable_cores()} cores; {threads}; {rounds}{cut}; {python}, {', '.join(versions)}"


def together_text(found: Sequence[Mapping[str, float] | None]) -> str:
    """Return how many times as fast as one thread all were before and after a run, as JSON holds it; maybe nothing."""
    times = [f"{each['computing']:.1f} and {each['copying']:.1f}" for each in found if each is not None]
    if len(times) < 2:
        return ""
    return f", who compute and copy {times[0]} times as fast as one before the run, {times[1]} after it"


def time_text(microseconds: float | None) -> str:
    """Return a time with three digits, such as "4.56 µs" or "12.3 ms"; empty for none."""
    if microseconds is None:
        return ""
    unit, value = ("ms", microseconds / 1e3) if microseconds >= 999.5 else ("µs", microseconds)
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def ratio_text(ratio: float | None) -> str:
    """Return a ratio such as "1.25×"; empty for none."""
    return "" if ratio is None else f"{ratio:.2f}×" if ratio < 99.995 else f"{ratio:.0f}×"


def _peer_text(one: Measured, name: str) -> str:
    if name in one.wrong and name not in one.ratios:
        return "wrong"
    return ratio_text(one.ratios.get(name)) or "–"


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.0f} %"
