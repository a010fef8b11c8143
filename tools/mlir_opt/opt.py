"""The command `gathernest-opt`: run passes over MLIR text, as `mlir-opt` does, with errors that a person can read."""

import re
import sys
import textwrap
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ... import __version__
from ...ir.errors import GathernestError, did_you_mean
from ...kernels.host.dependencies import require
from ..stage_text import SEPARATOR, join_stages
from ..terminal import DONE, FAILED, Parser, UsageError, run_tool

if TYPE_CHECKING:
    from .transform import Transformed, Transformer

PROGRAM = "gathernest-opt"
TARGETS = ("mlir", "numba")
EXAMPLES = """examples:
  gathernest-opt gather.mlir -p default
  gathernest-opt gather.mlir -p "nest,tile-loops{loops=indices sizes=64}" --print-between-passes
  gathernest-opt gather.mlir -p default -t numba
  gathernest show --data 9x4xf32 --indices 5xi64 --stage operator | gathernest-opt -p nest
  gathernest-opt invalid.mlir --split-input-file --verify-diagnostics

--verify-diagnostics checks errors in MLIR's manner: every piece of the input must give exactly the error
that a comment `// expected-error {{part of its text}}` names, on the line of the comment, or on another
with @+1, @-1, @above, @below, @unknown after `expected-error`. Errors of passes have no line, and only
their text is compared."""


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(prog=PROGRAM, description="Run passes over MLIR text.", epilog=EXAMPLES)
    add = parser.add_argument
    add("input", nargs="?", metavar="FILE", help="the input; - for standard input, from which a pipe is read anyway")
    add("-p", "--passes", default="", metavar="PIPELINE", help="passes and named pipelines; see --list-passes")
    add("-t", "--target", default="mlir", metavar="TARGET", help="what to print: mlir (default), or numba's source")
    add("-o", "--output", metavar="FILE", help="where to write; standard output if omitted")
    add("--print-between-passes", action="store_true", help="print the module before and after every pass")
    add("--time-passes", action="store_true", help="print what each pass took, to standard error")
    add("--print-op-generic", action="store_true", help="print MLIR's generic syntax, which mlir-opt reads")
    add("--allow-unregistered-dialect", action="store_true", help="accept operations that are not known")
    add("--split-input-file", action="store_true", help=f"take the pieces between lines `{SEPARATOR}` by themselves")
    add("--verify-diagnostics", action="store_true", help="check that errors come as comments expect them; see below")
    add("--list-passes", action="store_true", help="list the passes and the named pipelines")
    add("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run_tool(PROGRAM, lambda: _run(words))


def _run(words: list[str]) -> int:
    parser = make_parser()
    parser.check_options(words)
    options = parser.parse_args(words)
    require("xdsl")
    if options.list_passes:
        print_passes()
        return DONE
    transformer = _transformer(options)
    text = read_input(options.input)
    pieces = split(text) if options.split_input_file else [text]
    outputs: list[str] = []
    complaints: list[str] = []
    for piece in pieces:
        result = transformer.run(piece)
        outputs += _printed(result, options)
        if options.time_passes:
            _print_times(result)
        complaints += _complaints(piece, result, options, transformer.file)
    for complaint in complaints:
        print(f"{PROGRAM}: error: {complaint}", file=sys.stderr)
    output = f"\n{SEPARATOR}\n".join(outputs)
    if options.output is None:
        sys.stdout.write(output)
    elif not complaints:
        Path(options.output).write_text(output, encoding="utf-8")
    return FAILED if complaints else DONE


def _transformer(options: Namespace) -> "Transformer":
    """Return what runs the passes that the command line names.

    Raises:
        GathernestError: the pipeline or the target is not known.
    """
    from ...lowering.pipeline import parse_passes
    from .transform import Transformer

    if options.target not in TARGETS:
        raise UsageError(
            f"there is no target {options.target!r}; use {' or '.join(TARGETS)}{did_you_mean(options.target, TARGETS)}"
        )
    return Transformer(
        parse_passes(options.passes),
        "<stdin>" if options.input in (None, "-") else options.input,
        options.target,
        options.print_op_generic,
        options.allow_unregistered_dialect,
    )


def read_input(name: str | None) -> str:
    """Return the text of the input.

    Raises:
        GathernestError: none was given, or it is not text.
    """
    if name is None and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError(f"there is no input; name a FILE, or - to type it; see '{PROGRAM} --help'")
    try:
        if name not in (None, "-"):
            return Path(name).read_text(encoding="utf-8")
        return sys.stdin.buffer.read().decode() if hasattr(sys.stdin, "buffer") else sys.stdin.read()
    except UnicodeDecodeError as error:
        raise GathernestError(f"{name or '<stdin>'} is not UTF-8 text: {error.reason} at byte {error.start}") from None


def split(text: str) -> list[str]:
    """Return the pieces between separators that hold anything, each on the lines that it has in the file."""
    pieces: list[str] = []
    line = 0
    for piece in re.split(rf"^[ \t]*{re.escape(SEPARATOR)}[ \t]*$", text, flags=re.MULTILINE):
        if re.sub("//(?!.*expected-error).*", "", piece).strip():
            pieces.append("\n" * line + piece)
        line += piece.count("\n")
    return pieces or [text]


def _printed(result: "Transformed", options: Namespace) -> list[str]:
    """Return what a piece prints: its stages when asked for, also before an error, and its result."""
    if not options.print_between_passes:
        return [] if result.text is None else [result.text]
    outputs = [join_stages(result.stages)] if result.stages else []
    return [*outputs, result.text] if result.text is not None and options.target != "mlir" else outputs


def _complaints(piece: str, result: "Transformed", options: Namespace, file: str) -> list[str]:
    from .diagnostics import mismatches

    if options.verify_diagnostics:
        return mismatches(piece, result.error, file)
    return [] if result.error is None else [str(result.error)]


def _print_times(result: "Transformed") -> None:
    for stage in result.stages[1:]:
        print(f"{stage.milliseconds:10.3f} ms  {stage.name}", file=sys.stderr)
    print(f"{sum(stage.milliseconds for stage in result.stages):10.3f} ms  in all", file=sys.stderr)


def print_passes() -> None:
    """Print our passes with what they do, the named pipelines, and the names of xDSL's passes."""
    from ...lowering.passes import GRAPH_NAMES, NAMES, all_passes, load_pass
    from ...lowering.pipeline import PIPELINES

    print("Passes of gathernest (docs/passes.md has their options):")
    for name in (*NAMES, *GRAPH_NAMES):
        print(f"  {name:<22} {(load_pass(name).__doc__ or '').partition(chr(10))[0]}")
    print("\nPipelines, which -p takes as passes:")
    for name, text in PIPELINES.items():
        print(textwrap.fill(text.replace(",", ", "), 96, initial_indent=f"  {name:<22} ", subsequent_indent=" " * 25))
    print("\nPasses of xDSL:")
    others = [name for name in all_passes() if name not in (*NAMES, *GRAPH_NAMES)]
    print(textwrap.fill(", ".join(others), 96, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))


if __name__ == "__main__":
    sys.exit(main())
