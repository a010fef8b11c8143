"""The command `gathernest-opt`: run passes over MLIR text, as `mlir-opt` does, with errors that a person can read."""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ParseError, VerifyException

from ..ir.context import make_context, print_generic, verify_module
from ..ir.errors import GathernestError
from ..lowering.numba.emitter import emit
from ..lowering.passes import NAMES, all_passes
from ..lowering.pipeline import PIPELINES, parse_passes
from .cli import guarded

SEPARATOR = "// -----"
EXPECTED = re.compile(r"//\s*expected-error\s*\{\{(.*?)\}\}")
EXAMPLES = """examples:
  gathernest-opt gather.mlir -p default                      operator to loops
  gathernest-opt gather.mlir -p "nest,tile-loops{loops=indices sizes=64}" --print-between-passes
  gathernest-opt gather.mlir -p default -t numba             the source that Numba compiles"""


class OptError(GathernestError):
    """The input does not parse or is not valid; the message names the place."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the input, and the line before its first."""

    text: str
    line_offset: int


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="gathernest-opt",
        description="Run passes over MLIR text.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "input", nargs="?", default="-", metavar="FILE", help="the input; - or nothing for standard input"
    )
    parser.add_argument(
        "-p", "--passes", default="", metavar="PIPELINE", help=f"passes, or one of {', '.join(PIPELINES)}"
    )
    parser.add_argument(
        "-t", "--target", choices=("mlir", "numba"), default="mlir", help="what to print (default: mlir)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write; standard output if omitted")
    parser.add_argument("--print-between-passes", action="store_true", help="print the module after every pass")
    parser.add_argument("--time-passes", action="store_true", help="print what each pass took, to standard error")
    parser.add_argument("--print-op-generic", action="store_true", help="print MLIR's generic syntax")
    parser.add_argument(
        "--allow-unregistered-dialect", action="store_true", help="accept operations that are not known"
    )
    parser.add_argument(
        "--split-input-file", action="store_true", help=f"take pieces between {SEPARATOR} by themselves"
    )
    parser.add_argument(
        "--verify-diagnostics",
        action="store_true",
        help="check that the errors are those of the comments `// expected-error {{text}}`, one a piece at most",
    )
    parser.add_argument("--list-passes", action="store_true", help="list the passes and the named pipelines")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    options = make_parser().parse_args(arguments)
    return guarded("gathernest-opt", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.list_passes:
        print_passes()
        return 0
    passes = parse_passes(options.passes)
    name = "<stdin>" if options.input == "-" else options.input
    text = sys.stdin.read() if options.input == "-" else Path(options.input).read_text()
    outputs: list[str] = []
    failures = 0
    for chunk in split(text) if options.split_input_file else [Chunk(text, 0)]:
        if options.verify_diagnostics:
            failures += _check_diagnostic(options, passes, chunk, name)
        else:
            outputs.append(transform(options, passes, chunk, name))
    if not options.verify_diagnostics:
        _write(options.output, f"{SEPARATOR}\n".join(outputs))
    return 1 if failures else 0


def split(text: str) -> Iterator[Chunk]:
    """Yield the pieces between separators."""
    line = 0
    for piece in text.split(SEPARATOR):
        yield Chunk(piece, line)
        line += piece.count("\n")


def transform(options: argparse.Namespace, passes: list[ModulePass], chunk: Chunk, name: str) -> str:
    """Parse a piece, run the passes, and return what is to be printed.

    Raises:
        OptError: the piece does not parse or is not valid, before or after a pass, or a pass of xDSL fails.
        GathernestError: a pass refuses it.
    """
    context = make_context()
    context.allow_unregistered = options.allow_unregistered_dialect
    module = _parse(context, chunk, name)
    _verify(module, lambda message: _at_operation(message, chunk, name))
    for step in passes:
        start = time.perf_counter()
        _apply(step, context, module, name)
        if options.time_passes:
            print(f"{(time.perf_counter() - start) * 1e3:9.3f} ms  {step.name}", file=sys.stderr)
        what = f"{name}: the module after {step.name} is not valid"
        _verify(module, lambda message, what=what: f"{what}: {message}")
        if options.print_between_passes:
            print(f"// after {step.name}\n{module}\n")
    if options.target == "numba":
        return emit(module).source
    return print_generic(module) if options.print_op_generic else f"{module}\n"


def _apply(step: ModulePass, context: Context, module: ModuleOp, name: str) -> None:
    try:
        step.apply(context, module)
    except GathernestError:
        raise
    except Exception as error:
        raise OptError(f"{name}: pass {step.name} failed: {type(error).__name__}: {_last_line(error)}") from error


def _parse(context: Context, chunk: Chunk, name: str) -> ModuleOp:
    try:
        return Parser(context, chunk.text, name).parse_module()
    except ParseError as error:
        raise OptError(pointing(error.msg, chunk, name, error.span.start, error.span.end)) from None
    except VerifyException as error:
        raise OptError(f"{name}: {_last_line(error)}") from None


def pointing(message: str, chunk: Chunk, name: str, start: int, end: int) -> str:
    """Return a message with file, line and column, the line itself, and a caret under the place."""
    before = chunk.text.rfind("\n", 0, start) + 1
    source = chunk.text[before:].partition("\n")[0]
    line, column = chunk.text.count("\n", 0, start) + chunk.line_offset + 1, start - before
    caret = " " * column + "^" * max(min(end, before + len(source)) - start, 1)
    return f"{name}:{line}:{column + 1}: {message}\n  {source}\n  {caret}"


def _verify(module: ModuleOp, describe: Callable[[str], str]) -> None:
    try:
        verify_module(module)
    except VerifyException as error:
        raise OptError(describe(_last_line(error))) from None


def _last_line(error: Exception) -> str:
    """Return an error's own message: xDSL prints the whole module in front of it."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip(" ^|") if lines else type(error).__name__


def _at_operation(message: str, chunk: Chunk, name: str) -> str:
    """Point at the operation that a message names, where the text has it once."""
    operation = message.partition(":")[0].partition(" ")[0]
    places = (
        [match.start() for match in re.finditer(re.escape(operation) + r"\b", chunk.text)] if "." in operation else []
    )
    if len(places) != 1:
        return f"{name}: not valid: {message}"
    return pointing(message, chunk, name, places[0], places[0] + len(operation))


def _check_diagnostic(options: argparse.Namespace, passes: list[ModulePass], chunk: Chunk, name: str) -> int:
    """Return 0 when a piece fails as its comment says, or does not fail without one."""
    expected = EXPECTED.search(chunk.text)
    try:
        transform(options, passes, chunk, name)
        got = None
    except GathernestError as error:
        got = str(error)
    wanted = expected[1] if expected else None
    if got == wanted or (got is not None and wanted is not None and wanted in got):
        return 0
    place = f"{name}:{chunk.line_offset + 1}"
    said = f"got {got!r}" if got is not None else "got none"
    print(f"{place}: expected {'no error' if wanted is None else f'the error {wanted!r}'}, {said}", file=sys.stderr)
    return 1


def print_passes() -> None:
    """Print our passes, xDSL's, and the named pipelines."""
    print("passes of gathernest:")
    for name in NAMES:
        print(f"  {name}")
    print("passes of xDSL:")
    for name in all_passes():
        if name not in NAMES:
            print(f"  {name}")
    print("pipelines:")
    for name, text in PIPELINES.items():
        print(f"  {name} = {text}")


def _write(path: str | None, text: str) -> None:
    if path is None:
        print(text, end="")
    else:
        Path(path).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
