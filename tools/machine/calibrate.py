"""`gathernest calibrate`: measure this machine, so that schedules are chosen by its own numbers."""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...kernels.host.knobs import knobs
from ...kernels.host.machine import BUSY_CORES, built_in_machine
from ..console.terminal import DONE, Parser, UsageError, check_file, make_console, progress

if TYPE_CHECKING:
    from ...kernels.host.machine import Calibration

EXAMPLES = """examples:
  gathernest calibrate
  gathernest calibrate --dry-run --machine-file mine.json
  GATHERNEST_MACHINE=mine.json gathernest show --data 1000000x64xf32 --indices 100000xi64
  gathernest calibrate --forget"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--dry-run", action="store_true", help="measure and print, but keep nothing for later choices")
    parser.add_argument(
        "--machine-file", metavar="FILE", help="also write the model as a file that GATHERNEST_MACHINE reads"
    )
    parser.add_argument("--forget", action="store_true", help="remove what was measured, and measure nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Measure this machine."""
    if options.forget:
        if options.dry_run or options.machine_file is not None:
            raise UsageError("--forget measures nothing; leave --dry-run and --machine-file out")
        return _forget(options.json)
    if options.machine_file is not None:
        check_file("--machine-file", options.machine_file)
    found = measured()
    if options.machine_file is not None:
        Path(options.machine_file).write_text(json.dumps(found.description(), indent=1) + "\n")
    kept = None if options.dry_run else _kept(found)
    if options.json:
        print(json.dumps({**found.to_json(), "file": None if kept is None else str(kept)}))
    else:
        _print(found, kept)
    return DONE


def measured() -> "Calibration":
    """Measure this machine behind a bar."""
    from ...kernels.machine.calibrate import calibrate

    with progress("measuring this machine") as show:
        return calibrate(lambda done, most, text: show(done=done, total=most, said=text))


def beside_built_in(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return some fields of a model as text, each beside the built-in model's number."""
    other = built_in_machine().model
    return {name: f"{_text(fields[name]):<26} built-in {_text(getattr(other, name))}" for name in names}


def doubts(found: "Calibration") -> list[str]:
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


def _kept(found: "Calibration") -> Path:
    from ...kernels.machine.calibrate import keep

    return keep(found)


def _forget(as_json: bool) -> int:
    from ...kernels.machine.calibrate import forget

    path = forget()
    if as_json:
        print(json.dumps({"removed": None if path is None else str(path)}))
    else:
        result = "this machine has not been measured" if path is None else f"removed {path}"
        make_console().print(f"{result}; schedules are chosen by the built-in model {built_in_machine().model.name}")
    return DONE


def _print(found: "Calibration", kept: Path | None) -> None:
    console = make_console()
    for name, text in beside_built_in(found.fields, found.fields).items():
        console.print(f"{name:<20} {text}")
    for note in doubts(found):
        console.print(f"note: {note}", style="yellow")
    if kept is None:
        console.print("nothing is kept of a dry run")
    elif knobs.machine is None:
        console.print(f"schedules are chosen by these numbers from now on; they are in {kept}")
    else:
        console.print(f"the numbers are in {kept}, but GATHERNEST_MACHINE or knobs.machine goes first", style="yellow")
