"""The command `gathernest`: demo, show and doctor."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from ..ir.errors import GathernestError

EXAMPLES = {
    "demo": "gathernest demo",
    "show": "gathernest show --data 2x64x128xf32 --indices 2x32x21xi64 --axis 1 --batch-dims 1 --stage all",
    "doctor": "gathernest doctor --json",
}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="gathernest",
        description="Gather operators compiled to parallel CPU code, with every stage to read.",
        epilog="Set-up and settings: gathernest doctor. The compiler as a filter: gathernest-opt --help.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    demo = _command(commands, "demo", "look up the embeddings of real text and check them against NumPy")
    demo.add_argument("--rounds", type=_positive, default=9, help="rounds of the timing (default: 9)")
    _add_show(_command(commands, "show", "print any stage of any gather"))
    _command(commands, "doctor", "print versions, machine, threads and the state of the cache")
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, doc: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name, help=doc, description=doc.capitalize() + ".", epilog=f"Example: {EXAMPLES[name]}"
    )
    command.add_argument("--json", action="store_true", help="print one JSON object, for scripts")
    return command


def _add_show(show: argparse.ArgumentParser) -> None:
    show.add_argument("--operator", default="gather", help="gather, gather_nd or gather_elements (default: gather)")
    show.add_argument("--data", required=True, metavar="SPEC", help="sizes and element type, such as 2x64x128xf32")
    show.add_argument("--indices", required=True, metavar="SPEC", help="the same for indices, such as 2x32x21xi64")
    show.add_argument("--axis", type=int, default=0, help="axis to gather from (default: 0)")
    show.add_argument("--batch-dims", type=int, default=0, help="leading dimensions that both share (default: 0)")
    show.add_argument("--bounds", default="error", help="error, zero, clip, wrap or unchecked (default: error)")
    show.add_argument("--schedule", metavar="TEXT", help="a schedule; chosen by the sizes when omitted")
    show.add_argument(
        "--stage",
        metavar="NAME",
        help="a pass, operator, source, llvm, asm, list or all; a short overview when omitted",
    )
    show.add_argument("--picture", action="store_true", help="draw the loop nest of a stage instead of its text")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text}")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, or 1 after an error or a finding of `doctor`."""
    options = make_parser().parse_args(arguments)
    return guarded("gathernest", lambda: _run(options))


def guarded(program: str, run: Callable[[], int]) -> int:
    """Run a command; print a user's error as one line, and survive a closed pipe and Ctrl-C."""
    try:
        status = run()
        sys.stdout.flush()
        return status
    except GathernestError as error:
        print(f"{program}: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        print(f"{program}: error: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    if options.command == "demo":
        from .demo import run_demo

        return run_demo(options.rounds, as_json=options.json)
    if options.command == "show":
        from .show import run_show

        return run_show(options)
    from .doctor import run_doctor

    return run_doctor(as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
