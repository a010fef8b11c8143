"""The peak rates of this machine: a parallel copy, and reads of random lines, measured once and stored on disk.

    <cache folder>/ceilings/<digest of the machine>.json

Every rate is the best of several rounds, since other processes can only make one slower. Rates are measured at a few
sizes and interpolated between them, in the logarithm of the size.
"""

import hashlib
import itertools
import json
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...lowering.schedule.machine_model import MachineModel
from ..host.cache_folder import cache_folder, warn_unwritable
from ..host.cpu import cache_sizes, cpu_model, last_level_cache_bytes, package_version, usable_cores
from ..host.dependencies import require_compiler
from ..host.files import publish
from ..host.knobs import knobs
from ..host.machine import machine_model
from ..runtime.launch import available_threads

FORMAT = 1
# Is called with the passes that are done, and the most there will be.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class CopyRate:
    """How fast a parallel copy is.

    Attributes:
        footprint_bytes: bytes of source and target together.
        bytes_per_s: bytes read and bytes written, in a second; the faster of a copy with non-temporal stores, which
            does not read the lines that it writes, and one without.
    """

    footprint_bytes: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class LineRate:
    """How fast lines of 64 bytes at random places are read in parallel, with the best of some prefetch distances.

    Attributes:
        table_bytes: bytes of the table, every line of which is read once before any is read again.
        piece_lines: adjacent lines that are read at each place.
        lines_per_s: lines in a second.
    """

    table_bytes: int
    piece_lines: int
    lines_per_s: float


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The peak rates of one machine, the ceilings of its roofline.

    Attributes:
        machine: what they depend on: the CPU, its caches, the number of threads, the versions.
        copies: by footprint, smallest first; the last is far larger than the caches.
        lines: by piece_lines and then table_bytes, smallest first.
    """

    machine: dict[str, Any]
    copies: tuple[CopyRate, ...]
    lines: tuple[LineRate, ...]

    @property
    def threads(self) -> int:
        """How many threads they were measured with."""
        return self.machine["threads"]

    @property
    def stream_copy_bytes_per_s(self) -> float:
        """The rate of a copy far larger than the caches: bytes read and bytes written, in a second."""
        return self.copies[-1].bytes_per_s

    def copy_bytes_per_s(self, footprint_bytes: float) -> float:
        """Return the rate of a copy that reads and writes so many bytes together."""
        return _interpolated([(rate.footprint_bytes, rate.bytes_per_s) for rate in self.copies], footprint_bytes)

    def lines_per_s(self, table_bytes: float, piece_lines: float = 1) -> float:
        """Return the rate of random lines.

        Args:
            table_bytes: bytes of the lines that are read, each counted once.
            piece_lines: adjacent lines at each place, 1 or more.
        """
        by_piece: dict[int, list[tuple[float, float]]] = {}
        for rate in self.lines:
            by_piece.setdefault(rate.piece_lines, []).append((rate.table_bytes, rate.lines_per_s))
        return _interpolated(
            [(piece, _interpolated(rates, table_bytes)) for piece, rates in by_piece.items()], piece_lines
        )

    def override(self, model: MachineModel) -> MachineModel:
        """Return a model of this machine with these rates, shared evenly by the threads, for its own."""

        def copy(footprint_bytes: int) -> float:
            return self.copy_bytes_per_s(footprint_bytes) / self.threads / 1e9

        def line(table_bytes: int) -> float:
            return self.threads * 1e9 / self.lines_per_s(table_bytes)

        l1, l2, l3 = model.l1_bytes // 2, model.l2_bytes // 2, model.l3_bytes // 2  # well inside each
        copies = copy(l2), copy(l3), copy(16 * l3)
        return replace(model, copy_bytes_per_ns=copies, line_ns=(line(l1), line(l2), line(l3), line(8 * l3)))

    def or_better(self, other: "Ceilings | None") -> "Ceilings":
        """Return these ceilings, with every rate that is higher in the other ones, which are of the same sizes."""
        if other is None or self._sizes() != other._sizes():
            return self
        copies = zip(self.copies, other.copies, strict=True)
        lines = zip(self.lines, other.lines, strict=True)
        return Ceilings(
            self.machine,
            tuple(max(pair, key=lambda rate: rate.bytes_per_s) for pair in copies),
            tuple(max(pair, key=lambda rate: rate.lines_per_s) for pair in lines),
        )

    def _sizes(self) -> list[tuple[int, ...]]:
        copies = [(rate.footprint_bytes,) for rate in self.copies]
        return [*copies, *((rate.table_bytes, rate.piece_lines) for rate in self.lines)]

    def to_json(self) -> dict[str, Any]:
        """Return the ceilings as JSON can hold them."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Ceilings":
        """Return what `to_json` gave.

        Raises:
            ValueError: it is of another format, or holds what cannot be a rate.
            KeyError, TypeError: something is missing, or is not what it should be.
        """
        if stored["format"] != FORMAT:
            raise ValueError(f"the format is {stored['format']}, not {FORMAT}")
        copies = tuple(CopyRate(**entry) for entry in stored["copies"])
        lines = tuple(LineRate(**entry) for entry in stored["lines"])
        numbers = [number for rate in (*copies, *lines) for number in asdict(rate).values()]
        if not copies or not lines or not all(math.isfinite(number) and number > 0 for number in numbers):
            raise ValueError("a rate or a size is missing, or is not a positive number")
        return cls(dict(stored["machine"]), copies, lines)


_known: dict[str, Ceilings] = {}


def ceilings(remeasure: bool = False, progress: Progress | None = None) -> Ceilings:
    """Return the ceilings of this machine for the number of threads in use, measured where no file has them.

    Measuring takes less than ten seconds and up to an eighth of the free memory. The knobs `num_threads`, `cache_dir`
    and `always_compile` (which neither reads nor writes the file) are heeded.

    Args:
        remeasure: measure again, and take the better of the known and the new for every rate: other processes can only
            make one lower.
        progress: is called after every pass of measuring with (passes done, passes in all).
    """
    require_compiler()
    found = known_ceilings()
    if found is None or remeasure:
        from .measure_peaks import measure_ceilings

        facts = machine_facts()
        found = measure_ceilings(facts, progress).or_better(found)
        path = _path_of(facts)
        _write(path, found)
        _known[path.stem] = found
    return found


def known_ceilings() -> Ceilings | None:
    """Return the ceilings of this machine for the number of threads in use; None where they are not measured yet."""
    facts = machine_facts()
    path = _path_of(facts)
    found = _known.get(path.stem) or _read(path, facts)
    if found is not None:
        _known[path.stem] = found
    return found


def measured_machine() -> MachineModel:
    """Return the model that schedules are chosen by, with the rates measured here unless the knob `machine` is set."""
    model = machine_model()
    known = known_ceilings() if knobs.machine is None else None
    return model if known is None else known.override(model)


def _path_of(facts: dict[str, Any]) -> Path:
    """Return the file of a machine."""
    name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / "ceilings" / f"{name}.json"


def machine_facts() -> dict[str, Any]:
    """Return what the ceilings depend on."""
    return {
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "cores": usable_cores(),
        "threads": available_threads(),
        "caches_bytes": cache_sizes(),
        "last_level_cache_bytes": last_level_cache_bytes(),
        "versions": {package: package_version(package) for package in ("gathernest", "numba", "llvmlite")},
    }


def _read(path: Path, facts: dict[str, Any]) -> Ceilings | None:
    """Return the ceilings in a file; None where there is no sound one for this machine."""
    if knobs.always_compile:
        return None
    try:
        found = Ceilings.from_json(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if found.machine == facts else None


def _write(path: Path, found: Ceilings) -> None:
    """Write the file; warn where that cannot be done."""
    if knobs.always_compile:
        return
    try:
        publish(path, json.dumps(found.to_json(), indent=1) + "\n")
    except OSError as error:
        warn_unwritable(path.parent, error, "the ceilings of this machine are measured anew in every process")


def _interpolated(points: Sequence[tuple[float, float]], size: float) -> float:
    """Return the value at a size between points in ascending order; that of the first or the last outside of them."""
    if size <= points[0][0]:
        return points[0][1]
    for (low, before), (high, after) in itertools.pairwise(points):
        if size <= high:
            share = math.log(size / low) / math.log(high / low)
            return before * (after / before) ** share
    return points[-1][1]
