"""Stored results, read from plain files: asv's, and the JSON of `gathernest bench compare`.

Files of several folders and machines are read together, and their names mean nothing, so results merge by copying.
Of asv's results only what a busy machine cannot change much is read: `track_`, `mem_` and `peakmem_` benchmarks.
"""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....ir.numbers import parse_json
from .series import Series

# asv's own files beside the results; the second has the units.
MACHINE, BENCHMARKS = "machine.json", "benchmarks.json"
# Prefixes of the benchmarks that are read, and their units where asv's file of benchmarks is missing.
UNITS = {"track": "", "mem": "bytes", "peakmem": "bytes"}
PAIRED_UNIT = "times the base"


@dataclass(frozen=True, slots=True)
class Point:
    """One number of one benchmark at one commit; of two for the same, the one that was measured later counts."""

    commit: str
    value: float
    version: str = ""
    measured: float = 0.0


@dataclass(slots=True)
class Results:
    """Everything that the files have.

    Attributes:
        points: by (group, name) of the series.
        units: by the name of a benchmark without its parameters.
        notes: a line for every file that cannot be read.
        files: how many had results.
    """

    points: dict[tuple[str, str], list[Point]] = field(default_factory=lambda: defaultdict(list))
    units: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    files: int = 0

    @property
    def commits(self) -> set[str]:
        """The commits that something was measured at."""
        return {point.commit for points in self.points.values() for point in points}

    def along(self, commits: Sequence[str]) -> list[Series]:
        """Return the series of commits, oldest first; a benchmark whose code changed begins anew there."""
        order = {commit: number for number, commit in enumerate(commits)}
        found: list[Series] = []
        for (group, name), points in sorted(self.points.items()):
            here = [point for point in points if point.commit in order]
            here.sort(key=lambda point: (order[point.commit], point.measured))
            last = {point.commit: point for point in here if point.version == here[-1].version}
            if last:
                values = tuple(point.value for point in last.values())
                unit = self.units.get(name.partition("(")[0], "")
                found.append(Series(name, group, unit, tuple(last), values))
        return found


def read(folders: Sequence[Path]) -> Results:
    """Read every file below some folders."""
    results = Results()
    for path in sorted({path for folder in folders for path in folder.rglob("*.json")}):
        if path.name == MACHINE:
            continue
        try:
            data = parse_json(path.read_bytes(), allow_nan=True)
            if not isinstance(data, dict):
                raise TypeError("it is no JSON object")
            _add(results, path, data)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            results.notes.append(
                f"{path} cannot be read as results ({_reason(error)}), so it is left out; remove it, or measure again"
            )
    return results


def _add(results: Results, path: Path, data: dict[str, Any]) -> None:
    if path.name == BENCHMARKS:
        stated = {name: fact["unit"] for name, fact in data.items() if isinstance(fact, dict) and "unit" in fact}
        results.units |= stated
        return
    found = list(_asv_points(data) if "result_columns" in data else _paired_points(data))
    for key, point in found:
        results.points[key].append(point)
        _, _, method = key[1].partition("(")[0].rpartition(".")
        results.units.setdefault(key[1].partition("(")[0], UNITS.get(method.partition("_")[0], PAIRED_UNIT))
    results.files += bool(found)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _asv_points(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Point]]:
    """Yield the numbers of a file as asv writes it: a list of results, one a combination of parameters."""
    required = [f"{name} {version}" for name, version in sorted(data["requirements"].items()) if version]
    group = ", ".join([data["params"]["machine"], f"Python {data['python']}", *required])
    for name, row in data["results"].items():
        method = name.rpartition(".")[2]
        if method.partition("_")[0] not in UNITS:
            continue
        columns = dict(zip(data["result_columns"], row, strict=False))
        version, measured = columns.get("version") or "", columns.get("started_at") or 0
        for words, value in zip(itertools.product(*columns["params"]), columns["result"] or (), strict=False):
            if value is not None and math.isfinite(value):
                said = ", ".join(re.sub(r"^'(.*)'$", r"\1", word) for word in words)
                label = f"{name}({said})" if said else name
                yield (group, label), Point(data["commit_hash"], float(value), version, float(measured))


def _paired_points(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Point]]:
    """Yield the ratios of a comparison of two commits, but for those of too few restarts for an interval.

    Raises:
        ValueError: a side is no commit alone: the files of a working tree, or other versions of packages.
    """
    base, head, measured = data["base"]["commit"], data["head"]["commit"], float(data.get("measured", 0))
    if data["head"]["changed_files"]:
        raise ValueError(f"it measured files that differ from commit {head[:10]}")
    if "==" in data["head"].get("revision", ""):
        raise ValueError(f"it measured {data['head']['revision']}, not a commit")
    for name, found in data["benchmarks"].items():
        if math.isfinite(ratio := float(found["ratio"])) and None not in found["interval"]:
            yield (f"times beside {base[:10]}, {data['machine']}", name), Point(head, ratio, measured=measured)
