"""The command `gathernest`: one sub-command a module of this folder.

A sub-command's module has `add_arguments(parser)` and `run(options)`, and defers heavy imports until it runs.
"""

import os
import sys
from collections.abc import Sequence

from .. import __version__
from ..kernels.host.knobs import KNOBS
from . import bench
from .commands import build, cache, demo, doctor, play, report, run, show, tune, warm
from .commands import exec as exec_command
from .console.completion import add_completion
from .console.terminal import MISUSED, Parser, run_tool

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


def make_parser() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="gathernest",
        description="Gather operators compiled to parallel CPU code, with every stage to read.",
        epilog="example: gathernest show --data 1000x64xf32 --indices 100xi64\n\n"
        "gathernest-opt is the compiler as a filter on MLIR text.",
    )
    parser.add_argument("--version", action="version", version=f"gathernest {__version__}")
    add_completion(parser)
    added = parser.add_subparsers(dest="tool", metavar="COMMAND", title="commands")
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").partition("\n")[0].partition(": ")[2].rstrip(".")
        command = added.add_parser(
            name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.", epilog=module.EXAMPLES
        )
        module.add_arguments(command)
        command.add_argument("--traceback", action="store_true", help="show the traceback of an error")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run_tool("gathernest", lambda: _run(words), shows_traceback="--traceback" in words)


def _run(words: list[str]) -> int:
    parser = make_parser()
    options = parser.parse_args(words)
    if options.tool is None:
        parser.print_help(sys.stderr)
        return MISUSED
    command = COMMANDS[options.tool]
    if command is not doctor:  # it reports the settings that the user's own programs have
        os.environ.setdefault(KNOBS["compile"].variable, "now")  # a command waits for its kernels, and times them
    return command.run(options)


if __name__ == "__main__":
    sys.exit(main())
