"""The results of a run: means by family, the worst case, and everything as JSON."""

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from ...kernels.host.cpu import cache_sizes, cpu_facts, cpu_model, package_version, usable_cores
from .cases.case import larger_than
from .cases.suite import APART
from .machines import FORMAT, model_text
from .measure import OURS, Measured, geometric_mean

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

    def of_bound_in_order(self) -> float | None:
        """Return the same for the bound in the order of the indices, over the cases where it is known."""
        return geometric_mean([one.of_bound_in_order for one in self._beyond_cache()])

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
        "of_bound_in_order_beyond_cache": report.of_bound_in_order(),
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
        **{name: getattr(one, name) for name in ("bound_us", "of_bound", "of_bound_in_order")},
    }


def _figures_json(one: Measured) -> dict[str, Any]:
    names = ("median_us", "rounds_us", "ratios", "best_peer", "ratio", "ways", "rejected", "wrong")
    return {name: getattr(one, name) for name in names}
