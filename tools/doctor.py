"""`gathernest doctor`: what a report of a problem should begin with."""

import json
import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ..kernels import machine
from ..kernels.cache import SIDECAR, cache_root
from ..kernels.knobs import KNOBS, knobs
from ..kernels.requirements import LEAST_VERSIONS, problem_with

PACKAGES = ("gathernest", "numpy", "numba", "llvmlite", "xdsl", "ml_dtypes")
MLIR_OPT = ("mlir-opt", *(f"mlir-opt-{version}" for version in range(25, 19, -1)))


def run_doctor(*, as_json: bool) -> int:
    """Print the facts; return 1 when something is broken."""
    problems = [problem for package in LEAST_VERSIONS if (problem := problem_with(package)) is not None]
    facts = {
        "versions": {"python": platform.python_version(), **{name: machine.package_version(name) for name in PACKAGES}},
        "machine": machine_facts(),
        "threads": thread_facts() if not problems else {},
        "cache": cache_facts() if not problems else {},
        "mlir-opt": next(
            (found for name in MLIR_OPT if (found := shutil.which(name))), "not found (only tests use it)"
        ),
        "settings": {
            knob.variable: os.environ[knob.variable] for knob in KNOBS.values() if knob.variable in os.environ
        },
    }
    if facts["cache"] and not facts["cache"]["writable"]:
        problems.append(
            f"the cache folder {facts['cache']['folder']} cannot be written, so every process compiles anew; "
            "set GATHERNEST_CACHE_DIR to a folder that can"
        )
    if as_json:
        print(json.dumps({**facts, "problems": problems}))
    else:
        print_facts(facts, problems)
    return 1 if problems else 0


def machine_facts() -> dict[str, Any]:
    """Return the CPU, the cores that this process may use, and the caches."""
    caches = {level: f"{size // 1024} KiB" for level, size in machine.cache_sizes().items()}
    return {"cpu": machine.cpu_model(), "cores": machine.usable_cores(), "caches": caches}


def thread_facts() -> dict[str, Any]:
    """Return how many threads a large gather uses and which of Numba's layers runs them, found by starting it."""
    import numba

    from ..kernels.threads import available_threads

    @numba.njit(parallel=True)
    def start_threads(count: int) -> int:
        total = 0
        for number in numba.prange(count):
            total += number
        return total

    start_threads(4)
    return {"used": available_threads(), "layer": numba.threading_layer()}  # type: ignore[attr-defined]


def cache_facts() -> dict[str, Any]:
    """Return the folder of this machine's kernels, how many there are, their size, and whether it can be written."""
    folder = cache_root()
    entries = list(folder.glob(f"*/{SIDECAR}"))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"folder": str(folder), "entries": len(entries), "bytes": size, "writable": _is_writable(folder)}


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def print_facts(facts: dict[str, Any], problems: list[str]) -> None:
    """Print the facts in aligned lines, problems last."""
    for section, entries in facts.items():
        if not isinstance(entries, dict):
            print(f"{section}: {entries}")
            continue
        print(f"{section}:{'' if entries else ' none set'}")
        for name, value in entries.items():
            text = ", ".join(f"{key} {size}" for key, size in value.items()) if isinstance(value, dict) else value
            print(f"  {name:<24} {text}")
    for problem in problems:
        mark = "problem:" if knobs.no_color or not os.isatty(1) else "\x1b[31mproblem:\x1b[0m"
        print(f"{mark} {problem}")
    if not problems:
        print("everything is in order")
