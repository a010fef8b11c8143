"""Stored runs, one JSON file a machine: `docs/machines/`, which the pages show side by side."""

import argparse
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ...ir.errors import GathernestError
from ...ir.numbers import parse_json
from ...kernels.host.cpu import PACKAGE, cpu_facts, usable_cores
from ...kernels.host.machine import AVX2_BYTES, built_in_for, has_avx512
from ...lowering.schedule.machine_model import BUILT_IN
from ..console.terminal import UsageError
from .cases.suite import APART, FAMILIES

FOLDER = PACKAGE / "docs" / "machines"
# Of the files; 2 has new results, and 3 bounds of memory without zeros: those before are up to twice too short.
FORMAT = 3
FIRST_WITH_BOUNDS = 3
OF_BOUND = "bound", "bound_us", "of_bound", "of_bound_in_order"
MEANS_OF_BOUND = "of_bound_beyond_cache", "of_bound_in_order_beyond_cache"
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
    """Return the stored runs by name, those of older formats with what they lack as None.

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
    without, means = ({}, {}) if has_bounds else (dict.fromkeys(OF_BOUND), dict.fromkeys(MEANS_OF_BOUND))
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
