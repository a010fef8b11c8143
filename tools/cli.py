"""The command `gathernest`: one sub-command a module of this folder.

A sub-command's module has `add_arguments(parser)` and `run(options)`, and defers heavy imports until it runs.
"""

import os
import sys
from collections.abc import Sequence

from .. import __version__
from ..ir.errors import did_you_mean
from ..kernels.host.knobs import KNOBS
from . import bench
from .commands import build, cache, demo, doctor, play, report, run, show, tune, warm
from .commands import exec as exec_command
from .console.completion import add_completion
from .console.terminal import MISUSED, Parser, UsageError, run_tool

COMMANDS = {
    "demo": demo,
    "run": run,
    "show": show,
    "report": report,
    "play": play,
    "exec": exec_command,
    "tune": tune,
    "warm": warm,
    "build": build,
    "cache": cache,
    "bench": bench,
    "doctor": doctor,
}


def make_parser() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of the whole command line, and that of each sub-command."""
    parser = Parser(
        prog="gathernest",
        description="Gather operators compiled to parallel CPU code, with every stage to read.",
        epilog="example: gathernest show --data 1000x64xf32 --indices 100xi64\n\n"
        "gathernest-opt is the compiler as a filter on MLIR text.",
    )
    parser.add_argument("--version", action="version", version=f"gathernest {__version__}")
    add_completion(parser)
    added = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    commands: dict[str, Parser] = {}
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").partition("\n")[0].partition(": ")[2].rstrip(".")
        commands[name] = added.add_parser(
            name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.", epilog=module.EXAMPLES
        )
        module.add_arguments(commands[name])
        commands[name].add_argument("--traceback", action="store_true", help="show the traceback of an error")
    return parser, commands


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run_tool("gathernest", lambda: _run(words), shows_traceback="--traceback" in words)


def _run(words: list[str]) -> int:
    parser, commands = make_parser()
    at = next((number for number, word in enumerate(words) if not word.startswith("-")), len(words))
    parser.check_options(words[:at])
    parser.parse_args(words[:at])
    if at == len(words):
        parser.print_help(sys.stderr)
        return MISUSED
    command = words[at]
    if command not in commands:
        raise UsageError(
            f"there is no command {command!r}; the commands are {', '.join(commands)}{did_you_mean(command, commands)}"
        )
    commands[command].check_options(words[at + 1 :])
    if COMMANDS[command] is not doctor:  # it tells what the user's own programs would meet
        os.environ.setdefault(KNOBS["compile"].variable, "now")  # who uses a command waits for kernels, and times them
    return COMMANDS[command].run(commands[command].parse_args(words[at + 1 :]))


if __name__ == "__main__":
    sys.exit(main())
