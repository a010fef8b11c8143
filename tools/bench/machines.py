"""Stored runs, one JSON file a machine: `docs/machines/`, which the pages show side by side."""

import json
import re
from pathlib import Path
from typing import Any

from ...ir.errors import GathernestError
from ...kernels.host.cpu import PACKAGE, cpu_facts, usable_cores

FOLDER = PACKAGE / "docs" / "machines"
# Of the files; 2 has new results.
FORMAT = 2
# What is no name in the model name of a CPU.
NOISE = re.compile(r"\(R\)|\(TM\)|\bCPU\b|\bProcessor\b|@.*|\d+-Core\b", re.IGNORECASE)


def machine_name(facts: dict[str, str], cores: int) -> str:
    """Return a name of a machine for files: model name, family, model and cores, as in `amd-epyc-25-17-2-cores`.

    Args:
        facts: what /proc/cpuinfo says of a core; names that are missing are left out.
        cores: how many can be used.
    """
    parts = [NOISE.sub(" ", facts.get("model name", "")), facts.get("cpu family", ""), facts.get("model", "")]
    words = re.findall(r"[a-z0-9.]+", " ".join(parts).lower())
    return "-".join([*(words or ["cpu"]), str(cores), "core" if cores == 1 else "cores"])


def storing_path() -> Path:
    """Return the file of this machine; raises GathernestError where this is no checkout with its pages."""
    if not FOLDER.parent.is_dir():
        raise GathernestError(f"--store writes to docs/machines of a checkout, and {PACKAGE} is none; use --json FILE")
    return FOLDER / f"{machine_name(cpu_facts(), usable_cores())}.json"


def stored_runs(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the stored runs by name, those of older formats with what they lack as None.

    Raises:
        GathernestError: a run has a newer format than this reads.
    """
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> dict[str, Any]:
    run = {"format": 1, "new": None, **json.loads(path.read_text(encoding="utf-8"))}
    if run["format"] > FORMAT:
        raise GathernestError(
            f"{path} is a run of format {run['format']}, and formats to {FORMAT} can be read; update gathernest"
        )
    return run | {"cases": [{"new": None, **case} for case in run["cases"]]}


def as_text(found: dict[str, Any]) -> str:
    """Return a run as JSON, lists of numbers on one line."""
    return re.sub(r"\[[-\d.,\se]+\]", _on_one_line, json.dumps(found, indent=1)) + "\n"


def _on_one_line(numbers: re.Match[str]) -> str:
    return f"[{' '.join(numbers[0].strip('[]').split())}]"
