"""`gathernest doctor`: print versions, machine, threads, cache and problems; measure this machine."""

import argparse
import json
import os
import platform
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import DependencyError, GathernestError, did_you_mean
from ...kernels.host import cpu
from ...kernels.host.cache_folder import why_not_writable
from ...kernels.host.dependencies import LEAST_VERSIONS, problem_with
from ...kernels.host.files import write_file
from ...kernels.host.knobs import KNOBS, knobs
from ...kernels.host.machine import BUSY_CORES, built_in_machine
from ...lowering.programs import PROGRAMS, find
from ..console.terminal import DONE, FAILED, Parser, add_option, answer, check_file, make_console, print_table, progress

if TYPE_CHECKING:
    from rich.console import Console

    from ...kernels.host.machine import Calibration

PACKAGES = ("gathernest", "numpy", "numba", "llvmlite", "xdsl", "ml_dtypes", "platformdirs", "rich")
PEERS = ("onnx", "onnxruntime", "openvino", "torch", "tensorflow-cpu", "tensorflow", "jax")
EXAMPLES = """examples:
  gathernest doctor
  gathernest doctor --json
  gathernest doctor --calibrate
  gathernest doctor --calibrate --dry-run --machine-file mine.json
  GATHERNEST_MACHINE=mine.json gathernest show --data 1000000x64xf32 --indices 100000xi64
  gathernest doctor --forget"""

Facts = dict[str, dict[str, Any]]


@dataclass
class Findings:
    """The findings: `problems` keep gathernest from working, `notes` only cost time."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_option(parser, "--json")
    group = parser.add_argument_group("calibration", "the machine model that schedules are chosen by")
    add_option(group, "--calibrate", "measure this machine instead, in 20 seconds, for all later choices of schedules")
    add_option(group, "--dry-run", "measure and print, but keep nothing for later choices")
    add_option(group, "--machine-file FILE", "also write the model as a file that GATHERNEST_MACHINE reads")
    add_option(group, "--forget", "remove what was measured, and measure nothing")
    parser.needs(("dry_run", "machine_file"), "calibrate")
    parser.alone("forget", ("calibrate",), "measures nothing")


def run(options: argparse.Namespace) -> int:
    """Print the facts, with the status 1 when something is broken; or measure this machine; or forget its numbers."""
    if options.forget:
        return _forget(options.json)
    if options.calibrate:
        return _calibrate(options)
    findings = Findings()
    facts = gather_facts(findings)
    found = {**facts, "problems": findings.problems, "notes": findings.notes}
    answer(options.json, found, lambda: _print_facts(make_console(), facts, findings))
    return FAILED if findings.problems else DONE


def gather_facts(findings: Findings) -> Facts:
    """Return the facts by section, and add to the findings."""
    findings.problems += [problem for name in LEAST_VERSIONS if (problem := problem_with(name)) is not None]
    settings = _settings(findings)
    looks = {
        "machine_model": _machine_model,
        "threads": _thread_facts,
        "cache": _cache_facts,
        "check": _check,
        "compilation": _compilation,
    }
    can_compile = not any(problem_with(name) for name in LEAST_VERSIONS)
    found = {name: look(findings) if can_compile else {} for name, look in looks.items()}
    return {
        "versions": _versions(),
        "machine": _machine_facts(),
        **found,
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
    """Return the model that schedules are chosen by, the reason for it, and its measured fields."""
    from ...kernels.host.machine import known_calibration, known_machine, machine_model

    try:
        because, model = known_machine().because, asdict(machine_model())
    except GathernestError as error:
        findings.problems += {str(error)} - {*findings.problems}
        return {}
    found = known_calibration()
    facts: dict[str, Any] = {"name": model.pop("name"), "because": because, "calibration": None}
    if found is not None:
        names = ("date", "threads", "other_cores", "fields")
        facts["calibration"] = {name: getattr(found, name) for name in names} | {"age_days": round(found.age_days, 2)}
        findings.notes += _doubts(found)
    return facts | model


def _doubts(found: "Calibration") -> list[str]:
    """Return why a calibration may not be right any more."""
    now = {name: cpu.package_version(name) for name in found.versions}
    changed = [f"{name} {version}, now {now[name]}" for name, version in found.versions.items() if now[name] != version]
    again = "gathernest doctor --calibrate measures it again"
    changes = [f"this machine was measured with {', '.join(changed)}; {again}"] if changed else []
    return [*changes, *_unmeasured(found)]


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
    """Return the cache's folder, whether it can be written, and its size for these versions and for others."""
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
    """Return the settings that differ from their defaults, by variable; a value that is not allowed is a finding."""
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


def _print_facts(console: "Console", facts: Facts, findings: Findings) -> None:
    calibration, beside = facts["machine_model"].get("calibration"), {}
    if calibration is not None and knobs.machine is None:
        beside = _beside_built_in(facts["machine_model"], calibration["fields"])
    for section, entries in facts.items():
        console.print(section.replace("_", " "), style="bold")
        shown = {name: _shown(name, value) for name, value in entries.items()}
        if section == "machine_model":
            shown |= {name: str(value) for name, value in entries.items() if "_bytes" in name} | beside
        rows = [(f"  {name:<26}", text) for name, text in shown.items()]
        print_table(console, ("", ""), rows or [("  none set" if section == "settings" else "  not looked at",)])
    for text in findings.notes:
        console.print(f"note: {text}", style="yellow")
    for text in findings.problems:
        console.print(f"problem: {text}", style="bold red")
    if not findings.problems:
        console.print("Everything that gathernest needs works.", style="green")


def _shown(name: str, value: Any) -> str:
    if name == "calibration":
        if value is None:
            return "none; gathernest doctor --calibrate measures it"
        days = value["age_days"]
        age = f"{24 * days:.0f} hours" if days < 2 else f"{days:.0f} days"
        return f"{age} old, of {value['date']}, for {value['threads']} threads"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(f'{key}_bytes', size)}" for key, size in value.items()) or "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and "_bytes" in name:
        return f"{value / 2**20:.1f} MiB" if value >= 2**20 else f"{value / 2**10:.0f} KiB"
    return str(value)


def _calibrate(options: argparse.Namespace) -> int:
    """Measure this machine, so that schedules are chosen by its own numbers."""
    from ...kernels.machine.calibrate import calibrate, keep

    if options.machine_file is not None:
        check_file("--machine-file", options.machine_file)
    with progress("measuring this machine") as show, knobs.scope(compile="now"):
        found = calibrate(lambda done, most, text: show(done=done, total=most, said=text))
    if options.machine_file is not None:
        write_file(options.machine_file, json.dumps(found.description(), indent=1) + "\n")
    kept = None if options.dry_run else keep(found)
    facts = {**found.to_json(), "file": None if kept is None else str(kept)}
    answer(options.json, facts, lambda: _print_calibration(found, kept))
    return DONE


def _beside_built_in(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return some fields of a model as text, each beside the built-in model's number."""
    other = built_in_machine().model
    return {name: f"{_text(fields[name]):<26} built-in {_text(getattr(other, name))}" for name in names}


def _unmeasured(found: "Calibration") -> list[str]:
    """Return the fields of a calibration that are not measured, and why."""
    notes: list[str] = []
    if found.other_cores >= BUSY_CORES:
        notes.append(
            f"other processes used {found.other_cores:.1f} cores while this machine was measured, so the last cache "
            "and launches are not; measure again when they are done"
        )
    ends = [
        f"{name} {_text(each['low'])} to {_text(each['high'])}"
        for name, each in found.uncertain.items()
        if each["low"] != each["high"]
    ]
    if ends:
        notes.append(f"the built-in numbers stay where the measured ones vary: {'; '.join(ends)}")
    return notes


def _text(value: Any) -> str:
    return (
        ", ".join(map(_text, value)) if isinstance(value, tuple | list) else f"{value:g}" if value < 1e5 else str(value)
    )


def _forget(as_json: bool) -> int:
    from ...kernels.machine.calibrate import forget

    path = forget()
    result = "this machine has not been measured" if path is None else f"removed {path}"
    text = f"{result}; schedules are chosen by the built-in model {built_in_machine().model.name}"
    answer(as_json, {"removed": None if path is None else str(path)}, lambda: make_console().print(text))
    return DONE


def _print_calibration(found: "Calibration", kept: Path | None) -> None:
    console = make_console()
    rows = _beside_built_in(found.fields, found.fields).items()
    print_table(console, ("", ""), [(f"{name:<20}", text) for name, text in rows])
    for note in _unmeasured(found):
        console.print(f"note: {note}", style="yellow")
    if kept is None:
        console.print("nothing is kept of a dry run")
    elif knobs.machine is None:
        console.print(f"schedules are chosen by these numbers from now on; they are in {kept}")
    else:
        console.print(f"the numbers are in {kept}, but GATHERNEST_MACHINE or knobs.machine goes first", style="yellow")
