"""The peak rates of this machine: a parallel copy, and reads of random lines, measured once and stored on disk.

    <cache folder>/ceilings/<digest of the machine>.json

Every rate is the best of several rounds, since other processes can only make one slower.
"""

import json
import platform
from pathlib import Path
from typing import Any

from ..host.cache_folder import warn_unwritable
from ..host.cpu import cache_sizes, cpu_model, last_level_cache_bytes, package_version, usable_cores
from ..host.dependencies import require_compiler
from ..host.files import publish
from ..host.knobs import knobs
from ..host.machine_files.measured_file import measured_file, read_measured
from ..runtime.launch import available_threads
from .ceilings import Ceilings, ReportSteps

_known: dict[str, Ceilings] = {}


def ceilings(remeasure: bool = False, progress: ReportSteps | None = None) -> Ceilings:
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


def _path_of(facts: dict[str, Any]) -> Path:
    """Return the file of a machine."""
    return measured_file("ceilings", facts)


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
    found = read_measured(path, Ceilings.from_json)
    return found if found is not None and found.machine == facts else None


def _write(path: Path, found: Ceilings) -> None:
    """Write the file; warn where that cannot be done."""
    if knobs.always_compile:
        return
    try:
        publish(path, json.dumps(found.to_json(), indent=1) + "\n")
    except OSError as error:
        warn_unwritable(path.parent, error, "the ceilings of this machine are measured anew in every process")
