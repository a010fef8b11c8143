"""The results of a run: means by family, tables for the terminal and as Markdown, JSON, and the stored runs."""

import argparse
import json
import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...ir.errors import GathernestError
from ...kernels.host.cpu import PACKAGE, cache_sizes, cpu_facts, cpu_model, package_version, usable_cores
from ...kernels.host.machine import AVX2_BYTES, built_in_for, has_avx512
from ...lowering.schedule.machine_model import BUILT_IN
from ..console.terminal import UsageError, time_text
from .cases import APART, larger_than
from .measure import OURS, Measured, geometric_mean

LAST_LEVEL_IF_UNKNOWN = 2**25
ALL = "all gathers"


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of the ratios against the best peer over `cases` cases; a peer wins the cases `below_1`."""

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
        threads, rounds: the numbers of threads and of timings of everyone.
        cut: the largest size of a dimension, or None where the suite ran in full.
        load: the load of the machine before the run, or None where the system does not tell it.
    """

    measured: Sequence[Measured]
    versions: Mapping[str, str]
    threads: int
    rounds: int
    cut: int | None = None
    load: float | None = None

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

    @property
    def by_result(self) -> "dict[str, Report]":
        """The measurements of calls into a given result, and into a new one where there are any."""
        new = self.of_new_results
        return {"into a given result": self} | ({} if new is None else {"into a new result": new})

    def means(self) -> dict[str, Mean]:
        """Return the mean of each family that has a case with a peer, and the mean of all gathers at the end.

        Gradients, bags and the cost of a call are no gathers.
        """
        families = dict.fromkeys(one.case.family for one in self.measured)
        groups = {name: [one for one in self.measured if one.case.family == name] for name in families}
        groups[ALL] = [one for one in self.measured if one.case.family not in APART]
        return {name: mean for name, group in groups.items() if (mean := _mean(group)) is not None}

    def of_bound(self) -> float | None:
        """Return the geometric mean of the fractions of the roofline bound, for gathers larger than the last cache."""
        large = (one for one in self.measured if larger_than(one.case, last_level_bytes()))
        return geometric_mean([one.of_bound for one in large if one.case.family not in APART])


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
        "rounds": report.rounds,
        "cut": report.cut,
        "cases": [_case_json(one) for one in report.measured],
        **_means_json(report),
        "new": None if new is None else _means_json(new),
        "of_bound_beyond_cache": report.of_bound(),
    }


def _means_json(report: Report) -> dict[str, Any]:
    means = {name: asdict(mean) for name, mean in report.means().items()}
    gathers = means.pop(ALL, None)
    return {"families": means, "gathers": gathers}


def _case_json(one: Measured) -> dict[str, Any]:
    return {
        **asdict(one.case),
        **{name: getattr(one.case, name) for name in ("table_bytes", "row_bytes", "rows")},
        "larger_than_cache": larger_than(one.case, last_level_bytes()),
        **_figures_json(one),
        "new": None if one.new is None else _figures_json(one.new),
        "bound": None if one.bound is None else one.bound.to_json(),
        "bound_us": one.bound and one.bound.time_us,
        "of_bound": one.of_bound,
    }


def _figures_json(one: Measured) -> dict[str, Any]:
    names = ("median_us", "rounds_us", "ratios", "best_peer", "ratio", "ways", "rejected", "wrong")
    return {name: getattr(one, name) for name in names}


FOLDER = PACKAGE / "docs" / "machines"
# Of the files.
FORMAT = 3
# The parts of the model name of a CPU that are no name.
NOISE = re.compile(r"\(R\)|\(TM\)|\bCPU\b|\bProcessor\b|@.*|\d+-Core\b", re.IGNORECASE)


def model_text(facts: dict[str, str]) -> str | None:
    """Return the model of a CPU as /proc/cpuinfo tells it, and where its AVX-512 is hidden, which makes it another."""
    model, name = facts.get("model"), built_in_for(facts)[0]
    hides = BUILT_IN[name].wide_vector_bytes > AVX2_BYTES and not has_avx512(facts)
    return f"{model} without AVX-512" if model and hides else model


def machine_name(facts: dict[str, str], cores: int) -> str:
    """Return a name of a machine for files: model name, family, model and cores, as in `amd-epyc-25-17-2-cores`.

    Args:
        facts: the facts of a core in /proc/cpuinfo; missing names are left out.
        cores: the number of usable cores.
    """
    parts = [NOISE.sub(" ", facts.get("model name", "")), facts.get("cpu family", ""), model_text(facts) or ""]
    words = re.findall(r"[a-z0-9.]+", " ".join(parts).lower())
    return "-".join([*(words or ["cpu"]), str(cores), "core" if cores == 1 else "cores"])


def storing_path(options: argparse.Namespace) -> Path:
    """Return the file of this machine for a command line that measures the whole suite.

    Raises:
        UsageError: it measures something else.
        GathernestError: this is no checkout with its pages.
    """
    if options.case or options.family or options.quick or options.no_new_results:
        raise UsageError(
            "--store writes the whole suite in full; leave --case, --family, --quick and --no-new-results out"
        )
    if not FOLDER.parent.is_dir():
        raise GathernestError(f"--store writes to docs/machines of a checkout, and {PACKAGE} is none; use --json FILE")
    return FOLDER / f"{machine_name(cpu_facts(), usable_cores())}.json"


def as_text(found: dict[str, Any]) -> str:
    """Return a run as JSON, lists of numbers on one line."""
    return re.sub(r"\[[-\d.,\se]+\]", _on_one_line, json.dumps(found, indent=1)) + "\n"


def _on_one_line(numbers: re.Match[str]) -> str:
    return f"[{' '.join(numbers[0].strip('[]').split())}]"


HEADINGS = {OURS: "time", "onnxruntime": "ORT", "openvino": "OV", "tensorflow": "TF"}


def table_of(report: Report) -> tuple[list[str], list[list[Any]]]:
    """Return columns and rows of a table: our time, the ratio to every peer with its mean, and the part of the bound.

    It fits 80 columns with all libraries. The best peer of a case is bold, and red where it is faster.
    """
    from rich.text import Text

    has_bounds = any(one.of_bound is not None for one in report.measured)
    rows: list[list[Any]] = []
    family = None
    for one in report.measured:
        if one.case.family != family:
            family = one.case.family
            rows.append([Text(f"- {family}", style="dim")])
        best = "bold red" if one.ratio is not None and one.ratio < 1 else "bold green"
        shown = [Text(_peer_text(one, name), style=best if name == one.best_peer else "") for name in report.peers]
        bound = [_percent(one.of_bound) or "–"] if has_bounds else []
        rows.append([one.case.name, time_text(one.median_us.get(OURS)), *shown, *bound])
    if report.peers:
        means = (geometric_mean([one.ratios.get(name) for one in report.measured]) for name in report.peers)
        rows.append(["geometric mean", "", *(ratio_text(mean) or "–" for mean in means)])
    names = (OURS, *report.peers, *(["bound"] if has_bounds else []))
    return ["case", *(f">{HEADINGS.get(name, name)}" for name in names)], rows


def summary(report: Report) -> list[str]:
    """Return the lines below a table: the mean and the worst case of each family, and of all gathers."""
    means = [f"{name:<22} {_mean_text(mean)}" for name, mean in report.means().items()]
    mean = report.of_bound()
    return [*means, f"{'of the bound':<22} {_percent(mean):>7}, cases larger than cache"] if mean else means


def _mean_text(mean: Mean) -> str:
    return f"{ratio_text(mean.geometric_mean):>7}, worst {ratio_text(mean.worst_ratio)} ({mean.worst_case})"


def conditions(report: Report) -> str:
    """Return machine, threads, rounds and versions as one line."""
    versions = [f"{name} {version}" for name, version in report.versions.items()]
    rounds = f"medians of {report.rounds} interleaved rounds in one process, bytes compared first"
    cut = f"; no dimension above {report.cut}" if report.cut is not None else ""
    python = f"Python {platform.python_version()}, numba {package_version('numba')}"
    threads = f"{report.threads} thread{'s' if report.threads > 1 else ''} for everyone but numpy, which has one"
    return f"{cpu_model()}, {usable_cores()} cores; {threads}; {rounds}{cut}; {python}, {', '.join(versions)}"


def ratio_text(ratio: float | None) -> str:
    """Return a ratio such as "1.25×"; empty for none."""
    return "" if ratio is None else f"{ratio:.2f}×" if ratio < 99.995 else f"{ratio:.0f}×"


def _peer_text(one: Measured, name: str) -> str:
    if name in one.wrong and name not in one.ratios:
        return "wrong"
    return ratio_text(one.ratios.get(name)) or "–"


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.0f} %"
