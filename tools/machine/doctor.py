"""`gathernest doctor`: print versions, machine, threads and the state of the cache, and say what is wrong."""

import argparse
import json
import os
import platform
import sys
import warnings
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ...ir.errors import DependencyError, GathernestError, did_you_mean
from ...kernels.host import cpu
from ...kernels.host.cache_folder import why_not_writable
from ...kernels.host.dependencies import LEAST_VERSIONS, problem_with
from ...kernels.host.knobs import KNOBS, knobs
from ...lowering.programs import PROGRAMS, find
from ..console.terminal import DONE, FAILED, Parser, make_console
from .calibrate import beside_built_in, doubts

if TYPE_CHECKING:
    from rich.console import Console

    from ...kernels.host.machine import Calibration

PACKAGES = ("gathernest", "numpy", "numba", "llvmlite", "xdsl", "ml_dtypes", "platformdirs", "rich")
PEERS = ("onnx", "onnxruntime", "openvino", "torch", "tensorflow-cpu", "tensorflow", "jax")
EXAMPLES = """examples:
  gathernest doctor
  gathernest doctor --json"""

Facts = dict[str, dict[str, Any]]


@dataclass
class Findings:
    """What is wrong: `problems` keep gathernest from working, `notes` only cost time."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Print the facts; the status is 1 when something is broken."""
    findings = Findings()
    facts = gather_facts(findings)
    if options.json:
        print(json.dumps({**facts, "problems": findings.problems, "notes": findings.notes}, indent=1))
    else:
        _print_facts(make_console(), facts, findings)
    return FAILED if findings.problems else DONE


def gather_facts(findings: Findings) -> Facts:
    """Return the facts by section, and add to the findings."""
    findings.problems += [problem for name in LEAST_VERSIONS if (problem := problem_with(name)) is not None]
    can_compile = not findings.problems
    settings = _settings(findings)
    return {
        "versions": _versions(),
        "machine": _machine_facts(),
        "machine_model": _machine_model(findings) if can_compile else {},
        "threads": _thread_facts(findings) if can_compile else {},
        "cache": _cache_facts(findings) if can_compile else {},
        "check": _check(findings) if can_compile else {},
        "compilation": _compilation(findings) if can_compile else {},
        "programs": _programs(),
        "settings": settings,
    }


def _versions() -> dict[str, Any]:
    versions = {"python": f"{platform.python_version()} ({sys.executable})"}
    versions |= {name: cpu.package_version(name) for name in PACKAGES}
    found = {name: cpu.package_version(name) for name in PEERS}
    return versions | {name: version for name, version in found.items() if version != "not installed"}


def _machine_facts() -> dict[str, Any]:
    return {
        "system": platform.platform(terse=True),
        "cpu": cpu.cpu_model(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "cores_by_affinity": cpu.affine_cores(),
        "cores_by_quota": cpu.cpu_quota() or "no limit",
        "usable_cores": cpu.usable_cores(),
        "caches_bytes": cpu.cache_sizes(),
    }


def _machine_model(findings: Findings) -> dict[str, Any]:
    """Return the model that schedules are chosen by, why it is this one, and what of it was measured."""
    from ...kernels.host.machine import known_calibration, known_machine, machine_model

    try:
        because, model = known_machine().because, asdict(machine_model())
    except GathernestError as error:
        findings.problems += {str(error)} - {*findings.problems}
        return {}
    found = known_calibration()
    facts: dict[str, Any] = {"name": model.pop("name"), "because": because, "calibration": None}
    if found is not None:
        facts["calibration"] = {
            "date": found.date,
            "age_days": round(found.age_days, 2),
            "threads": found.threads,
            "other_cores": found.other_cores,
            "fields": {
                name: list(value) if isinstance(value, tuple) else value for name, value in found.fields.items()
            },
        }
        findings.notes += _doubts(found)
    return facts | model


def _doubts(found: "Calibration") -> list[str]:
    """Return why a calibration may not be right any more."""
    now = {name: cpu.package_version(name) for name in found.versions}
    changed = [f"{name} {version}, now {now[name]}" for name, version in found.versions.items() if now[name] != version]
    again = "gathernest calibrate measures it again"
    changes = [f"this machine was measured with {', '.join(changed)}; {again}"] if changed else []
    return [*changes, *doubts(found)]


def _thread_facts(findings: Findings) -> dict[str, Any]:
    """Return how many threads a large gather uses, and how many start."""
    try:
        from ...kernels.runtime.launch import available_threads, started_threads

        used, started = available_threads(), started_threads()
        if started < used:
            findings.notes.append(f"only {started} of {used} threads start, so large gathers run on fewer")
        return {"used": used, "started": started}
    except GathernestError:
        return {}  # a setting that is not allowed, which is among the findings already
    except Exception as error:
        findings.problems.append(f"threads do not start: {_first_line(error)}")
        return {}


def _cache_facts(findings: Findings) -> dict[str, Any]:
    """Return the cache's folder, whether it can be written, and what it holds for these versions and for others."""
    from ...kernels.runtime.disk_cache import cache_root, usage

    root = cache_root()
    folder, problem = root.parent, why_not_writable(root)
    if problem is not None:
        findings.notes.append(
            f"the cache folder {folder} cannot be written ({problem}), so every process compiles anew; "
            "set GATHERNEST_CACHE_DIR to a folder that can"
        )
    if knobs.always_compile:
        findings.notes.append("GATHERNEST_ALWAYS_COMPILE is set, so the cache is not used")
    return {"folder": str(folder), "writable": problem is None, **usage()}


def _check(findings: Findings) -> dict[str, Any]:
    """Run a small gather, from the operator to machine code, and compare it with NumPy."""
    import numpy as np

    data, indices = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([2, -1])
    try:
        from ...kernels.gather import gather

        with warnings.catch_warnings(), knobs.scope(compile="now"):
            warnings.simplefilter("ignore")
            right = np.array_equal(gather(data, indices), np.take(data, indices, axis=0))
    except Exception as error:
        if str(error) not in findings.problems:
            findings.problems.append(f"a small gather failed: {type(error).__name__}: {_first_line(error)}")
        return {"small_gather": "failed"}
    if not right:
        findings.problems.append("a small gather gave the wrong result; please report this with the output of doctor")
    return {"small_gather": "right" if right else "wrong"}


def _compilation(findings: Findings) -> dict[str, Any]:
    """Return when kernels are compiled, whether the service can start, and who answered calls of this process."""
    from ...kernels.runtime.compile_service import KERNELS, problem_with_service

    try:
        mode = knobs.compile
    except GathernestError:
        return {}  # which is among the findings already
    problem = problem_with_service()
    if problem is not None:
        findings.notes.append(
            f"the compile service cannot start ({problem}), so the second call of a kind compiles in its own process"
        )
    findings.notes += KERNELS.notes
    return {"mode": mode, **KERNELS.status(), "service_can_start": problem is None}


def _programs() -> dict[str, Any]:
    """Return where the programs that features run are, with their versions, or why they cannot be used."""
    facts: dict[str, Any] = {}
    for name, program in PROGRAMS.items():
        if program.purpose != "tests":
            try:
                facts[name] = str(find(name))
            except DependencyError as error:
                facts[name] = f"{error}; for {program.purpose}"
    return facts


def _settings(findings: Findings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, by variable; what is not allowed is a finding."""
    settings: dict[str, Any] = {}
    for name, knob in KNOBS.items():
        try:
            value = getattr(knobs, name)
        except GathernestError as error:
            findings.problems.append(str(error))
            settings[knob.variable] = f"{os.environ.get(knob.variable)!r}, not allowed"
            continue
        if value != knob.default:
            settings[knob.variable] = value if isinstance(value, bool | int) else str(value)
    if settings.get("GATHERNEST_INTERPRET"):
        findings.notes.append("GATHERNEST_INTERPRET is set, so the interpreter runs every gather, slowly")
    unknown = [name for name in os.environ if name.startswith("GATHERNEST_")]
    known = [knob.variable for knob in KNOBS.values()]
    for name in sorted(set(unknown) - set(known)):
        findings.notes.append(f"{name} is set, and gathernest has no such setting{did_you_mean(name, known)}")
    return settings


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _calibration_text(found: dict[str, Any] | None) -> str:
    if found is None:
        return "none; gathernest calibrate measures this machine in 20 seconds"
    hours = 24 * found["age_days"]
    age = f"{hours:.0f} hours" if hours < 48 else f"{found['age_days']:.0f} days"
    return f"{age} old, of {found['date']}, for {found['threads']} threads"


def _print_facts(console: "Console", facts: Facts, findings: Findings) -> None:
    calibration, beside = facts["machine_model"].get("calibration"), {}
    if calibration is not None and knobs.machine is None:
        beside = beside_built_in(facts["machine_model"], calibration["fields"])
    for section, entries in facts.items():
        console.print(section.replace("_", " "), style="bold")
        for name, value in entries.items():
            label, text = _label(name), _shown(name, value)
            if section in ("versions", "programs", "settings", "machine_model"):  # names that are typed as they stand
                label, text = name, beside[name] if section == "machine_model" and name in beside else str(value)
            if name == "calibration":
                text = _calibration_text(value)
            console.print(f"  {label:<26} {text}")
        if not entries:
            console.print("  none set" if section == "settings" else "  not looked at", style="dim")
    for text in findings.notes:
        console.print(f"note: {text}", style="yellow")
    for text in findings.problems:
        console.print(f"problem: {text}", style="bold red")
    if not findings.problems:
        console.print("Everything that gathernest needs works.", style="green")


def _label(name: str) -> str:
    return name.removesuffix("_bytes").replace("_bytes_", "_").replace("_", " ")


def _shown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(f'{key}_bytes', size)}" for key, size in value.items()) or "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and "_bytes" in name:
        return f"{value / 2**20:.1f} MiB" if value >= 2**20 else f"{value / 2**10:.0f} KiB"
    return str(value)
