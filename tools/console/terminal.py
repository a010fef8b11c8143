"""The terminal: one line for an error, colours and progress only on a terminal, and an exit status."""

import argparse
import contextlib
import errno
import fnmatch
import io
import json
import os
import re
import sys
import textwrap
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ...ir.errors import SOURCE_HINT, GathernestError, did_you_mean, show
from ...ir.numbers import MAX_INT64, MIN_INT64, parse_real, parse_whole
from ...kernels.host.files import write_file
from ...kernels.host.knobs import knobs

if TYPE_CHECKING:
    from rich.console import Console

# The largest number of rounds, threads and the like, and the longest time: some ten years.
_MAX_COUNT, _MAX_SECONDS = 2**31 - 1, 3e8

DONE, FAILED, MISUSED, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141


class UsageError(GathernestError):
    """The command line itself is wrong."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises our errors, with suggestions of close names, and checks rules."""

    rules: tuple[Callable[[argparse.Namespace], None], ...] = ()

    def __init__(self, **settings: Any):
        settings |= {name: wrapped(settings[name]) for name in ("description", "epilog") if settings.get(name)}
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)
        # A word that this matches is a value, not an option; argparse's own pattern does not match -1e-30.
        self._negative_number_matcher = re.compile(r"-[.0-9]|-(inf|nan)", re.IGNORECASE)

    def error(self, message: str) -> NoReturn:
        if (choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)) is not None:
            names = re.findall(r"[\w-]+", choice[2])  # which only some versions of Python quote
            message = f"{message[: choice.start(2)]}{', '.join(names)}){did_you_mean(choice[1], names)}"
        link = " See" if message.endswith("?") else "; see"
        raise UsageError(f"{message}{link} '{self.prog} --help'")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or a version; argparse's own says nothing where that fails, as on a full disk."""
        stream = sys.stderr if file is None else file
        if message and stream is not None:
            stream.write(message)

    def parse_known_args(self, args: Any, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse a command line; an unknown option or a word that is left is an error of this command."""
        known = [flag for action in self._actions for flag in action.option_strings]
        below = [action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        for number, word in enumerate(args):
            flag = word.partition("=")[0]
            is_command = any(word in commands or (number == 0 and word[:1] != "-") for commands in below)
            if word == "--" or is_command:  # the options behind a command are its own
                break
            if flag.startswith("--") and flag not in known:
                self.error(f"there is no option {flag}{did_you_mean(flag, known)}")
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        for rule in self.rules:
            rule(found)
        return found, left

    def alone(self, name: str, others: Iterable[str], why: str) -> None:
        """Have an option rejected beside others that would do nothing; `why` follows its flag in the message."""

        def rule(options: argparse.Namespace) -> None:
            if flags_given(options, [name]) and (left := flags_given(options, others)):
                raise UsageError(f"{flag_of(name)} {why}; leave out {', '.join(left)}")

        self.rules = (*self.rules, rule)

    def needs(self, names: Iterable[str], *needed: str) -> None:
        """Have each of some options rejected where none of the options is given that it is for."""

        def rule(options: argparse.Namespace) -> None:
            if (given := flags_given(options, names)) and not flags_given(options, needed):
                wanted = " or ".join(map(flag_of, needed))
                raise UsageError(f"{given[0]} is for {wanted}; add {wanted}, or leave {given[0]} out")

        self.rules = (*self.rules, rule)


def wrapped(text: str) -> str:
    """Return a text whose paragraphs fit 80 columns; a paragraph with indented lines, such as examples, stays."""
    parts = (part if "\n  " in part else textwrap.fill(" ".join(part.split()), 80) for part in text.split("\n\n"))
    return "\n\n".join(parts)


# The texts of options that several commands have, by their usage.
SHARED_OPTIONS = {
    "--json": "print one JSON object",
    "--schedule TEXT": 'such as "tile-loops{loops=indices sizes=64}"; empty for none; chosen by the sizes when omitted',
    "--allow-external-data": "read a model's weights from other files in its folder",
    "--random SEED": "fills arrays of which only the sizes are given",
    "--size NAME=N ...": "a size that a model leaves open, for random inputs; INPUT.AXIS=N where it has no name",
}


def add_option(parser: argparse._ActionsContainer, usage: str, text: str = "", **settings: Any) -> None:
    """Declare an option, a flag or an argument.

    Args:
        parser: of which command, or a group of its options.
        usage: how help shows it: `--list`, `-o --output FILE`, `--input NAME=FILE ...` for a repeated option,
            `FILE` for an argument and `[FILE]` for an optional argument.
        text: its help; the text in `SHARED_OPTIONS` when omitted.
        settings: others of argparse, such as `type`.
    """
    words = usage.removesuffix(" ...").split()
    flags = [word for word in words if word.startswith("-")]
    metavar = words[-1] if words[-1] not in flags else None
    if metavar is not None:
        settings["metavar"] = metavar.strip("[]")
    elif "action" not in settings:
        settings["action"] = "store_true"
    if usage.endswith(" ..."):
        settings = {"action": "append", "default": [], **settings}
    if not flags and metavar is not None:
        flags = [metavar.strip("[]").lower()]
        settings |= {"nargs": "?"} if metavar.startswith("[") else {}
    parser.add_argument(*flags, help=text or SHARED_OPTIONS[usage], **settings)


def flag_of(name: str) -> str:
    """Return the option of a name: `--batch-dims` of `batch_dims`, and the argument `FILE` of `file`."""
    return "FILE" if name == "file" else f"--{name.replace('_', '-')}"


def flags_given(options: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Return the flags of the options that are given."""
    values = ((name, getattr(options, name)) for name in names)
    return [flag_of(name) for name, value in values if value is not None and value is not False and value != []]


def positive(text: str) -> int:
    """Read a whole number from 1, as an argument's type."""
    return _read_whole(text, 1, _MAX_COUNT, "a whole number from 1")


def seed(text: str) -> int:
    """Read a whole number from 0, as an argument's type."""
    return _read_whole(text, 0, MAX_INT64, "a seed of 0 or more")


def integer(text: str) -> int:
    """Read a whole number of at most 64 bits, as an argument's type."""
    return _read_whole(text, MIN_INT64, MAX_INT64, "a whole number")


def _read_whole(text: str, least: int, most: int, wanted: str) -> int:
    try:
        return parse_whole(text, least, most)
    except ValueError:
        limit = f", at most {most}" if len(text) >= len(str(_MAX_COUNT)) else ""
        raise argparse.ArgumentTypeError(f"expected {wanted}{limit}, got {show(text)}") from None


def real(text: str) -> float:
    """Read a finite number, as an argument's type."""
    try:
        return parse_real(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def words(text: str) -> list[str]:
    """Read words with commas between, as an argument's type."""
    found = [word.strip() for word in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names with commas between, got {show(text)}")
    return found


def select(names: Iterable[str], patterns: Sequence[str], complaint: str) -> list[str]:
    """Return the names that patterns select, in the order of the names; all of them without a pattern.

    Args:
        names: the names.
        patterns: in which * stands for anything.
        complaint: the message about a pattern that selects nothing, which takes the place of `{pattern}`.

    Raises:
        UsageError: a pattern selects nothing.
    """
    known = list(names)
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise UsageError(complaint.replace("{pattern}", repr(pattern)) + did_you_mean(pattern, known))
    return [name for name in known if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def positive_seconds(text: str) -> float:
    """Read a time above 0 in seconds, as an argument's type."""
    try:
        number = parse_real(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= _MAX_SECONDS:
        limit = f", at most {_MAX_SECONDS:g}" if number > 0 else ""
        raise argparse.ArgumentTypeError(f"expected seconds above 0{limit}, got {show(text)}")
    return number


# ---- paths that options say a command writes, checked before its work ----


def check_file(option: str, path: Path | str, *, makes_folder: bool = False) -> Path:
    """Return the path of a file that can be written; its folder may be missing where the command makes it.

    Raises:
        UsageError: it cannot be written.
    """
    place = _check_place(option, path, "file")
    if place.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file in it")
    if place.exists() and not place.is_file():
        raise UsageError(f"{option} {path} is a device or a pipe, no plain file; name another file")
    if not makes_folder and not place.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {place.parent}; make it first")
    return place


def check_json(path: str | None) -> None:
    """Check the file of --json, where one is named and it is not standard output; raises UsageError."""
    if path not in (None, "-"):
        check_file("--json", path)


def check_folder(option: str, path: Path | str, content: str) -> None:
    """Check that a folder for `content` is there or can be made; raises UsageError."""
    place = _check_place(option, path, "folder")
    if place.exists() and not place.is_dir():
        raise UsageError(f"{option} {path} is a file, and {content} go to a folder; name another")


def _check_place(option: str, path: Path | str, kind: str) -> Path:
    """Return a path whose lowest part that is there can be written, and is a folder if it is above the path."""
    if path == "":
        raise UsageError(f"{option} is empty; give it the name of a {kind}")
    place = Path(path)
    there = next((part for part in (place, *place.parents) if part.exists()), place)
    if there != place and not there.is_dir():
        raise UsageError(f"{option} {place}: {there} is a file, not a folder; name another {kind}")
    if not os.access(there, os.W_OK):
        raise UsageError(f"{option} {place} cannot be written; name another {kind}")
    return place


def write_text(target: str, text: str) -> None:
    """Write a text to a plain file, or to standard output for `-`; raises OSError."""
    if target == "-":
        sys.stdout.write(text)
    else:
        write_file(target, text)


def say(kind: str, *lines: str) -> None:
    """Write lines such as `gathernest: note: ...` to standard error."""
    for line in lines:
        print(f"gathernest: {kind}: {line}", file=sys.stderr, flush=True)


# ---- the run of a tool ----


def run_tool(program: str, body: Callable[[], int], *, shows_traceback: bool = False) -> int:
    """Run a tool; an error becomes an exit status and one line on standard error.

    Args:
        program: its name, which the line begins with.
        body: the tool; returns the exit status.
        shows_traceback: whether the traceback and the source of an error are printed before its line.

    Returns:
        What `body` returns; 1 after an error, 2 when the command line is wrong, 130 after Ctrl-C, 141 when the reader
        of the output has gone, as for a program that SIGPIPE ends.
    """
    _open_closed_output()
    _accept_any_text()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _say(program, f"warning: {message}")
            try:
                status = body()
            except SystemExit as end:  # argparse, after --help or --version
                status = end.code if isinstance(end.code, int) else DONE
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        _say(program, "interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except Exception as error:
        _drop_output(unless_writable=True)
        if shows_traceback:
            _print_traceback(error)
        _say(program, f"error: {_described(error, 'the lines above' if shows_traceback else 'what --traceback shows')}")
        return MISUSED if isinstance(error, UsageError) else FAILED


def _print_traceback(error: Exception) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        traceback.print_exception(error)
        if isinstance(error, GathernestError) and error.source:
            print(error.source, file=sys.stderr)


def _described(error: Exception, report: str) -> str:
    """Return the one line for an error; `report` names the text to report where the error is nobody's input."""
    if isinstance(error, GathernestError):
        return str(error).replace(SOURCE_HINT, report)
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return reason if error.filename is None else f"{error.filename or repr('')}: {reason}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory{f': {error}' if str(error) else ''}"
    first = str(error).partition("\n")[0]
    return f"unexpected {type(error).__name__}{f': {first}' if first else ''}; please report it with {report}"


def _say(program: str, text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"{program}: {text}", file=sys.stderr, flush=True)


def _open_closed_output() -> None:
    """Write to nothing where standard output or errors are closed, so that no other file takes their place.

    A file that is opened later would get their handle, and `print` writes to standard output if `sys.stderr` is None.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _accept_any_text() -> None:
    """Write `?` for a character that the terminal's encoding lacks, instead of failing.

    UTF-8 lacks the bytes of a file's name that is not UTF-8.
    """
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if stream.errors == "strict" or stream.encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(errors="replace")


def _drop_output(*, unless_writable: bool = False) -> None:
    """Point standard output at nothing, so that Python does not fail again when it flushes at its end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if unless_writable:
            try:
                sys.stdout.flush()
                return
            except OSError:
                pass
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def make_console(*, stderr: bool = False) -> "Console":
    """Return a rich console that neither wraps nor interprets text, and has no colours under NO_COLOR."""
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "the reader of the output has gone")

    console = PlainConsole(
        stderr=stderr,
        color_system=None if knobs.no_color else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )
    if console.width < 1:  # COLUMNS=0, of a terminal that knows no size: rich would print nothing
        console.width = 80
    return console


def answer(as_json: bool, facts: Any, print_text: Callable[[], object]) -> None:
    """Print facts as one JSON object, or call a function that prints them."""
    if as_json:
        print(json.dumps(facts))
    else:
        print_text()


def print_table(
    console: "Console", columns: Sequence[str], rows: Iterable[Sequence[Any]], *, header: str = "bold"
) -> None:
    """Print a table without lines, each of whose rows stands on one line, however narrow the console is.

    Args:
        console: where.
        columns: headings; a heading that begins with `>` is aligned right. Without any text, the table has no head.
        rows: of texts, or of texts with a style; a short row ends in empty cells.
        header: the style of the headings.
    """
    from rich.text import Text

    head = [Text(column.removeprefix(">"), style=header) for column in columns]
    cells = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in (head, *cells) if place < len(row)) for place in range(len(columns))]
    for row in [*([head] if any(map(len, head)) else []), *cells]:
        for cell, column, width in zip(row, columns, widths, strict=False):
            cell.align("right" if column[:1] == ">" else "left", width)
        line = Text(" ").join(row)
        line.rstrip()
        console.print(line, soft_wrap=True)


def time_text(microseconds: float | None) -> str:
    """Return a time with three digits, such as "4.56 µs" or "12.3 ms"; empty for none."""
    if microseconds is None:
        return ""
    unit, value = ("ms", microseconds / 1e3) if microseconds >= 999.5 else ("µs", microseconds)
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; a heading that begins with `>` is of a column that is aligned right."""
    marks = "|".join("--:" if column[:1] == ">" else "---" for column in columns)
    lines = [f"| {' | '.join(cells)} |" for cells in ([column.removeprefix(">") for column in columns], *rows)]
    return "\n".join([lines[0], f"|{marks}|", *lines[1:]])


@contextlib.contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error, when that is a terminal, while the body runs and calls the function that it gets.

    That takes how many steps to go on by; or `done` and `total` steps; and, as `said`, words to stand behind the bar.
    Without a total, the bar only moves. Where there is no terminal, a line every 20 seconds says how far it is.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = make_console(stderr=True)
    said_column = TextColumn("{task.fields[said]}", markup=False)
    columns = TextColumn(title, markup=False), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), said_column
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task, last = bar.add_task(title, total=total, said=""), time.monotonic()

        def show(count: int = 0, *, done: int | None = None, total: int | None = None, said: str = "") -> None:
            nonlocal last
            bar.update(task, advance=count, completed=done, total=total, said=said[: max(console.width - 60, 10)])
            if not console.is_terminal and time.monotonic() >= last + 20:
                last, state = time.monotonic(), bar.tasks[task]
                console.print(f"{title}: {state.completed:g}" + (f" of {state.total:g}" if state.total else ""))

        yield show
