"""`gathernest step`: step through one element of a result in a stage, forwards and back, with the values."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from ...ir.errors import InvalidGatherError, show
from ...kernels.host.dependencies import require
from ...lowering.registry import SCHEDULED_NEST
from ..console.problem_options import read_schedule
from ..console.terminal import DONE, FAILED, Parser, UsageError, make_console, positive, progress, seed
from .exec import add_stage_options, gather_of, read_file, with_header

if TYPE_CHECKING:
    from ...playground.trace import Steps

EXAMPLES = """examples:
  gathernest step --data 5x4xf32 --indices "[4,-1,0]xi64" --element 1,2
  gathernest step --data 5x4xf32 --indices "[4,-1,7]xi64" --bounds clip --element 2,0 --stage fold-bounds
  gathernest step --data 64x8xf32 --indices 20xi64 --schedule "tile-loops{loops=indices sizes=4}" --element 70
  gathernest step --operator gather_grad --data 3x4xf32 --data-shape 5x4 --indices "[1,4,1]xi64" --element 1,2
  gathernest step stage.mlir --element 1,2 --json

On a terminal it reads commands: Enter or n for the next step, p for the one before, g N for step N, l for all of them,
q to end. Elsewhere it prints all steps. The exit status is 1 where the stage gives another element than the operator's
reference. Bytes and cache lines are counted from the first byte of each array."""
HELP = "Enter or n: next, p: previous, g N: step N, l: all, q: end"
CONTEXT = 2


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="MLIR text of any level, instead of a stage made here")
    add_stage_options(parser)
    parser.add_argument("--random", type=seed, metavar="SEED", help="fills arrays of which only the sizes are given")
    parser.add_argument("--schedule", metavar="TEXT", help="a schedule; chosen by the sizes when omitted")
    parser.add_argument("--element", metavar="PLACE", default="0", help="position such as 3,1 or number (default: 0)")
    parser.add_argument(
        "--stage", metavar="NAME", help="operator or a pass; the scheduled nest, or FILE as it is, when omitted"
    )
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="how many share parallel loops (default: those of a large gather)"
    )
    parser.add_argument(
        "-i", "--interactive", action="store_true", help="read commands where there is no terminal, too"
    )


def run(options: argparse.Namespace) -> int:
    """Print or play the steps; the exit status is 1 where the stage is wrong."""
    require("xdsl", "numba", "llvmlite")
    if options.json and options.interactive:
        raise UsageError("--json prints one object, and --interactive reads commands; leave out one of them")
    if options.schedule is not None and (options.passes is not None or options.file is not None):
        raise InvalidGatherError("--schedule is for a whole pipeline that is made here; leave it out beside -p or FILE")
    with progress("interpreting"):
        steps = _steps(options)
    if options.json:
        print(json.dumps(steps.to_json()))
    elif options.interactive or (sys.stdin.isatty() and sys.stdout.isatty()):
        _play(steps)
    else:
        make_console().print(str(steps))
    return DONE if steps.is_right else FAILED


def _steps(options: argparse.Namespace) -> "Steps":
    from ...kernels.runtime.compile import module_of
    from ...kernels.runtime.plan import make_plan
    from ...playground.step import stage_of, stage_of_text, step_stage

    element = _element(options.element)
    if options.file is None:
        problem, data, indices = gather_of(vars(options))
        schedule = read_schedule(options.schedule)
        passes = make_plan(problem, schedule).pipeline if options.passes is None else options.passes
        is_default = options.stage is None
        name, text = stage_of(module_of(problem), passes, options.stage or SCHEDULED_NEST, falls_back=is_default)
        return step_stage(text, name, problem, data, indices, element, threads=options.threads)
    text, _ = read_file(options.file)
    given = with_header(options, text)
    problem, data, indices = gather_of(given)
    name, text = stage_of_text(text, options.file, given["passes"], options.stage)
    return step_stage(text, name, problem, data, indices, element, file=options.file, threads=options.threads)


def _element(text: str) -> int | tuple[int, ...]:
    """Read `3,1` as a position and `7` as a number."""
    try:
        return tuple(int(part) for part in text.split(",")) if "," in text else int(text)
    except ValueError:
        raise UsageError(
            f"--element: expected a position such as 3,1 or a number such as 7, got {show(text)}"
        ) from None


def _play(steps: "Steps") -> None:
    """Read commands until `q` or the end of the input, and print a step for each."""
    console = make_console()
    console.print(f"{steps.head()}\n{HELP}")
    number = 0
    console.print(_shown(steps, number))
    while True:
        try:
            words = input(f"step {number + 1} of {len(steps)}> ").split()
        except EOFError:
            return console.print()
        command, rest = (words[0], words[1:]) if words else ("n", [])
        if command == "q":
            return None
        if command == "l" and not rest:
            console.print(str(steps))
            continue
        wanted = _wanted(command, rest, number, len(steps))
        if isinstance(wanted, str):
            console.print(wanted)
            continue
        number = wanted
        console.print(_shown(steps, number))


def _wanted(command: str, rest: list[str], number: int, count: int) -> int | str:
    """Return the number of the step that a command asks for, or what is wrong with it."""
    if command in ("n", "p") and not rest:
        wanted = number + (1 if command == "n" else -1)
        return wanted if 0 <= wanted < count else f"this is the {'last' if command == 'n' else 'first'} step"
    if command == "g":
        if len(rest) == 1 and rest[0].isdecimal() and 1 <= int(rest[0]) <= count:
            return int(rest[0]) - 1
        return f"there is no step {' '.join(rest)!r}; give g with a number from 1 to {count}"
    return f"there is no command {' '.join([command, *rest])!r}; {HELP}"


def _shown(steps: "Steps", number: int) -> str:
    """Return a step below the lines of the stage around it."""
    step, lines = steps[number], steps.text.splitlines()
    first = max(step.line - 1 - CONTEXT, 0)
    around = [
        f"{'>' if at == step.line else ' '} {at:>3} | {row}"
        for at, row in enumerate(lines[first : step.line + CONTEXT], first + 1)
    ]
    thread = "" if step.thread is None else f" thread {step.thread}"
    return "\n".join([f"[{number + 1}/{len(steps)}] line {step.line}{thread}", *around, f"{step}"])
