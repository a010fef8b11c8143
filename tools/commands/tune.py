"""`gathernest tune`: find the fastest schedule of a gather on this machine, and record it for later calls."""

import argparse
from collections.abc import Callable, Sized
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import GathernestError, InvalidGatherError, show
from ...kernels.host.cpu import cpu_model
from ...kernels.host.dependencies import require
from ...kernels.host.knobs import knobs
from ...kernels.host.machine import sharing_threads
from ...kernels.tuned_schedules.records import Record, Records, change_records, merged, read_records, records_path
from ..console.problem_options import add_problem_options, check_no_problem, problem_arguments, read_schedule
from ..console.terminal import (
    DONE,
    FAILED,
    Parser,
    UsageError,
    add_option,
    answer,
    check_file,
    make_console,
    positive,
    positive_seconds,
    print_table,
    progress,
    time_text,
)

if TYPE_CHECKING:
    from ...kernels.tuning.tuner import Progress, TuningResult

FILE = "a file of tuning records that you alone can write"
# What --json says of a confirmation.
CONFIRMED = ("holds", "ratio", "pairs", "wins", "wins_needed")
EXAMPLES = """examples:
  gathernest tune --data 1000000x64xf32 --indices 100000xi64
  gathernest tune --data 8192x1024xf32 --indices 512xi64 --axis 1 --time-limit 5 --json
  gathernest tune --list
  gathernest tune --replay
  gathernest tune --export tuned.json
  gathernest tune --import tuned.json
  gathernest tune --forget 2"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    from ...kernels.tuned_schedules.confirmation import LEAST_PAIRS

    add_problem_options(parser)
    candidate = "a schedule to compare with the default; may be repeated; a search finds them when omitted"
    add_option(parser, "--candidate TEXT ...", candidate)
    limit = "the longest time of compiling a candidate, and of one call of it (default: 20)"
    add_option(parser, "--time-limit SECONDS", limit, type=positive_seconds)
    rounds = f"pairs in which the winner must beat the default, {LEAST_PAIRS} or more (default: 21)"
    add_option(parser, "--rounds N", rounds, type=positive)
    actions = parser.add_mutually_exclusive_group()
    add_option(actions, "--list", "print the records")
    add_option(actions, "--replay", "measure the recorded winners against the default again; changes nothing")
    add_option(actions, "--export FILE", "put the records into a file, merged with its own")
    add_option(actions, "--import FILE", "merge the records of a file into ours", dest="import_file")
    add_option(actions, "--forget NUMBER", "remove a record, by its number in --list; all for all")
    add_option(parser, "--json")


def run(options: argparse.Namespace) -> int:
    """Tune, or list, export, import, replay or forget the records."""
    actions = [name for name in ("list", "replay", "export", "forget") if getattr(options, name) not in (None, False)]
    actions += [] if options.import_file is None else ["import"]
    if actions:
        check_no_problem(options, f"--{actions[0]} is for the records, and tunes nothing")
    if options.list:
        return _print_list(options.json)
    for given, action in ((options.export, _export), (options.import_file, _import), (options.forget, _forget)):
        if given is not None:
            return action(given, as_json=options.json)
    require("xdsl", "numba", "llvmlite")
    return _replay(options) if options.replay else _tune(options)


def _tune(options: argparse.Namespace) -> int:
    from ...kernels.tune import tune

    arguments = problem_arguments(options)
    for text in options.candidate:
        read_schedule(text, "--candidate")
    with progress("tuning") as show:
        result = tune(
            **arguments,
            candidates=options.candidate or None,
            progress=lambda step: show(done=step.done, total=step.total, said=_said(step)),
            **_measuring(options, time_limit_s=options.time_limit),
        )
    answer(options.json, _as_json(result), lambda: _print_result(result))
    return DONE


def _measuring(options: argparse.Namespace, **others: Any) -> dict[str, Any]:
    """Return the options of the measurement that were given."""
    return {name: value for name, value in {"rounds": options.rounds, **others}.items() if value is not None}


def _said(step: "Progress") -> str:
    best = "" if step.best is None else f"best {step.best[1]:.2f}x {_shown(str(step.best[0]))}; "
    return f"{best}now {_shown(step.doing)}"


def _shown(schedule: str) -> str:
    return schedule or "the empty schedule"


def _as_json(result: "TuningResult") -> dict[str, Any]:
    found = result.confirmation
    return {
        "problem_class": result.problem_class,
        "schedule": str(result.schedule),
        "is_default": result.is_default,
        "summary": result.summary,
        "confirmation": None if found is None else {name: getattr(found, name) for name in CONFIRMED},
        "candidates": [{**asdict(trial), "schedule": str(trial.schedule)} for trial in result.trials],
        "file": None if result.file is None else str(result.file),
    }


def _print_result(result: "TuningResult") -> None:
    from rich.text import Text

    console = make_console()
    styles, rows = {"winner": "green", "failed": "red", "abandoned": "dim"}, list[list[Text]]()
    for trial in result.trials:
        time = "" if trial.time_us is None else time_text(trial.time_us)
        ratio = "" if trial.ratio is None else f"{trial.ratio:.2f}x"
        said = _shown(str(trial.schedule)) + (f": {trial.reason}" if trial.reason else "")
        rows.append([Text(cell, style=styles.get(trial.outcome, "")) for cell in (trial.outcome, time, ratio, said)])
    print_table(console, ("", ">time", ">ratio", "schedule"), rows)
    console.print(f"{result.summary[:1].upper()}{result.summary[1:]}.", style="bold")
    where = "not recorded" if result.file is None else f"recorded in {result.file}"
    console.print(f"The result is {where}.")


def _file() -> Path:
    """Return the file of records; raises InvalidGatherError when the knob is off."""
    path = records_path(sharing_threads())
    if path is None:
        raise InvalidGatherError("GATHERNEST_TUNING is off, so there is no file of tuning records; unset it")
    return path


def _records() -> Records:
    from ...kernels.tune import recorded

    file = _file()
    where = f"the file {file}" if knobs.tuning is None else knobs.told("tuning")
    return _read(where, f"set {knobs.place('tuning')} to", recorded)


def _read(where: str, verb: str, read: Callable[[], Records]) -> Records:
    """Return the records of a file; raises GathernestError where it cannot be read."""
    try:
        return read()
    except OSError as error:
        raise GathernestError(f"{where} cannot be read ({error.strerror or error}); {verb} {FILE}") from None


def _print_list(as_json: bool) -> int:
    records = _records()
    lines = [f"{_count(records)} in {_file()}"]
    for number, record in enumerate(records.values(), 1):
        lines += [f"{number:3}  {_named(record)}", f"     {_described(record)}"]
    entries = {key: record.to_json() for key, record in records.items()}
    return _say({"file": str(_file()), "records": entries}, "\n".join(lines), as_json)


def _named(record: Record) -> str:
    """Return the gather of a record in one line."""
    problem = dict(record.problem)
    arrays = f"{problem.pop('operator', '?')} {problem.pop('data', '?')} by {problem.pop('indices', '?')}"
    return ", ".join([arrays, *(f"{name} {value}" for name, value in problem.items())])


def _described(record: Record) -> str:
    count = f"{record.wins} of {record.pairs} pairs, {record.date}, {record.cpu}"
    if record.schedule is None:
        return f"the default stays ({count})"
    return f"{record.ratio:.2f}x: {_shown(record.schedule)} ({count})"


def _export(file: str, *, as_json: bool) -> int:
    check_file("--export", file, makes_folder=True)
    path, records = Path(file), _records()
    after = change_records(path, lambda before: merged(before, records))
    return _say({"file": str(path), "records": len(after)}, f"{path} has {_count(after)} now.", as_json)


def _import(file: str, *, as_json: bool) -> int:
    from ...kernels.tune import absorb

    given = _read(f"--import {file}", "name", lambda: read_records(Path(file)))
    before = _records()
    if absorb(given) is None:
        return FAILED
    after = _records()
    taken = sum(after[key] == record and before.get(key) != record for key, record in given.items())
    facts = {"file": str(_file()), "given": len(given), "taken": taken, "records": len(after)}
    text = f"Took {taken} of {_count(given)}, each better than ours; {_file()} has {len(after)} now."
    others = sorted({record.cpu for record in given.values()} - {cpu_model()})
    if others:
        text += f"\nSome were measured on {', '.join(others)}; --replay measures them here."
    return _say({**facts, "other_cpus": others}, text, as_json)


def _forget(number: str, *, as_json: bool) -> int:
    from ...kernels.tune import forget

    keys = list(_records())
    if number != "all" and not keys:
        raise UsageError(f"--forget has nothing to remove: {_file()} has no records")
    if number != "all" and not (number.isdecimal() and 1 <= int(number) <= len(keys)):
        raise UsageError(
            f"--forget takes a number from 1 to {len(keys)}, as --list prints them, or all; got {show(number)}"
        )
    gone = keys if number == "all" else [keys[int(number) - 1]]
    if forget(gone) is None:
        return FAILED
    return _say({"file": str(_file()), "forgotten": gone}, f"Removed {len(gone)} of {_count(keys)}.", as_json)


def _replay(options: argparse.Namespace) -> int:
    from ...kernels.tune import replay

    records = {key: record for key, record in _records().items() if record.schedule is not None}
    entries: list[dict[str, Any]] = []
    with progress("replaying", len(records)) as step:
        for key, record in records.items():
            entry = {"problem_class": key, "schedule": record.schedule, "recorded_ratio": record.ratio}
            try:
                found = replay(record, **_measuring(options))
                ratio, holds = (None, False) if found is None else (found.ratio, found.holds)
                entries.append({**entry, "error": None, "is_default": found is None, "ratio": ratio, "holds": holds})
            except (GathernestError, TypeError) as error:  # a record may be of another version
                entries.append({**entry, "error": str(error)})
            step(1)
    facts = {"file": str(_file()), "records": entries}
    answer(options.json, facts, lambda: _print_replay(list(records.values()), entries))
    return FAILED if any(entry["error"] for entry in entries) else DONE


def _print_replay(records: list[Record], entries: list[dict[str, Any]]) -> None:
    console = make_console()
    if not records:
        console.print(f"There are no tuned schedules in {_file()}.")
    for record, entry in zip(records, entries, strict=True):
        console.print(_named(record))
        if entry["error"]:
            console.print(f"  cannot be measured: {entry['error']}", style="red")
        elif entry["is_default"]:
            console.print("  is the default now", style="dim")
        else:
            word = "still wins" if entry["holds"] else "does not win now"
            text = f"  {word}: {entry['ratio']:.2f}x, {record.ratio:.2f}x when it was recorded"
            console.print(text, style="green" if entry["holds"] else "yellow")


def _count(records: Sized) -> str:
    return f"{len(records)} record{'' if len(records) == 1 else 's'}"


def _say(facts: dict[str, Any], text: str, as_json: bool) -> int:
    answer(as_json, facts, lambda: make_console().print(text))
    return DONE
