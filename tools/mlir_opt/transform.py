"""xDSL's optimizer driver with our dialects, passes and targets, and errors that name their place in the input."""

import argparse
import re
import sys
import textwrap
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import AttributeInvT, Operation, SSAValue
from xdsl.parser import Parser as MlirParser
from xdsl.parser import UnresolvedOperand
from xdsl.passes import PassPipeline
from xdsl.targets.mlir import MLIRTarget
from xdsl.universe import Universe
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException
from xdsl.utils.lexer import Span
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from ... import __version__
from ...ir.errors import GathernestError, InternalError, did_you_mean
from ...ir.modules.context import load_dialects, print_generic, verify_module
from ...lowering.numba.emitter import emit
from ...lowering.pipeline import Stage, parse_passes, record_stages
from ...lowering.registry import PASSES, PIPELINES, all_passes, summary
from ..console.stage_text import SEPARATOR, join_stages
from ..console.terminal import DONE, FAILED, Parser, UsageError
from .diagnostics import InputError, mismatches

PROGRAM = "gathernest-opt"
LOOP_DIALECTS = ("builtin", "func", "scf", "arith", "memref", "vector")
EXAMPLES = """examples:
  gathernest-opt gather.mlir -p default
  gathernest-opt gather.mlir -p "nest,tile-loops{loops=indices sizes=64}" --print-between-passes
  gathernest-opt gather.mlir -p default -t numba
  gathernest show --data 9x4xf32 --indices 5xi64 --stage operator | gathernest-opt -p nest
  gathernest-opt invalid.mlir --split-input-file --verify-diagnostics

--verify-diagnostics checks errors in MLIR's manner: every piece of the input must give exactly the error
that a comment `// expected-error {{part of its text}}` names, on the line of the comment, or on another
with @+1, @-1, @above, @below, @unknown after `expected-error`. Errors of passes have no line, and only
their text is compared.

A pass that fails unexpectedly prints its traceback, and leaves a file whose first line is the command that
repeats it."""


@dataclass(frozen=True)
class NumbaTarget(Target):
    """The Python source that Numba compiles."""

    name = "numba"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        foreign = sorted({op.name for op in module.walk() if op.name.partition(".")[0] not in LOOP_DIALECTS})
        if foreign:
            raise GathernestError(
                f"the code generator prints loops, and the module still has {', '.join(foreign)}; "
                "lower it first, for instance with -p default"
            )
        output.write(emit(module).source)


class OptMain(xDSLOptMain):
    """The driver. Pieces of the input are transformed one by one; an error ends its piece, not the others."""

    version_format = f"{PROGRAM} {__version__}, xDSL {{xdsl_version}}"

    def __init__(self, words: Sequence[str]):
        self.words, self.status = words, DONE
        super().__init__("Run passes over MLIR text.", words)

    def register_all_dialects(self) -> None:
        load_dialects(self.ctx)
        ours = {dialect.name for dialect in self.ctx.loaded_dialects}
        for name, factory in Universe.get_multiverse().all_dialects.items():
            if name not in ours:
                self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        self.available_passes = all_passes()

    def register_all_targets(self) -> None:
        self.available_targets = {"mlir": lambda: MLIRTarget, "numba": lambda: NumbaTarget}

    def register_all_frontends(self) -> None:
        self.available_frontends = {"mlir": self._parse}

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.__class__ = Parser
        arg_parser.prog, arg_parser.epilog = PROGRAM, EXAMPLES
        arg_parser.formatter_class, arg_parser.allow_abbrev = argparse.RawDescriptionHelpFormatter, False
        listing = next(action for action in arg_parser._actions if action.dest == "passes")
        listing.help = "passes and named pipelines; see --list-passes"
        arg_parser.add_argument("--output", dest="output_file", help=argparse.SUPPRESS)
        arg_parser.add_argument("--list-passes", action="store_true", help="list the passes and the named pipelines")
        arg_parser.add_argument("--traceback", action="store_true", help="show the traceback of every error")
        assert isinstance(arg_parser, Parser)
        arg_parser.check_options(self.words)

    def setup_pipeline(self) -> None:
        self.pipeline = PassPipeline(tuple(parse_passes(self.args.passes)))

    def get_input_name(self) -> str:
        name: str | None = self.args.input_file
        return "<stdin>" if name is None or name == "-" else name

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        if self.args.input_file is None and (sys.stdin is None or sys.stdin.isatty()):
            raise UsageError(f"there is no input; name a FILE, or - to type it; see '{PROGRAM} --help'")
        name = self.get_input_name()
        return sys.stdin.buffer if name == "<stdin>" else open(name, "rb"), "mlir"

    def run(self) -> None:
        """Transform every piece of the input, print the results, and set `status`."""
        if self.args.list_passes:
            return print_passes()
        text = self._read()
        outputs: list[str] = []
        for piece in split(text) if self.args.split_input_file else [text]:
            stages: list[Stage] = []
            result = error = None
            try:
                result = self._transform(piece, stages)
            except InputError as raised:
                error = raised
            if stages and self.args.print_between_passes:
                outputs.append(join_stages(stages))
            if result is not None and not (self.args.print_between_passes and self.args.target == "mlir"):
                outputs.append(result)
            if self.args.time_passes:
                _print_times(stages)
            self._complain(piece, error)
        output = f"\n{SEPARATOR}\n".join(outputs)
        if self.args.output_file is None:
            sys.stdout.write(output)
        elif self.status == DONE:
            Path(self.args.output_file).write_text(output, encoding="utf-8")

    def _read(self) -> str:
        with self.get_input_stream()[0] as stream:
            try:
                return stream.read().decode()
            except UnicodeDecodeError as error:
                place = f"{error.reason} at byte {error.start}"
                raise GathernestError(f"{self.get_input_name()} is not UTF-8 text: {place}") from None

    def _transform(self, text: str, stages: list[Stage]) -> str:
        """Return the result of a piece of the input, and add its stages to a list.

        Lines of `text` are those of the file: a later piece begins with empty ones.

        Raises:
            InputError: the piece does not parse, is not valid, or is rejected by a pass or the target.
        """
        module = self.available_frontends["mlir"](BytesIO(text.encode()))
        passes, where = self.pipeline.passes, ""
        printed = print_generic if self.args.print_op_generic else str
        try:
            for stage in record_stages(
                module, passes, self.ctx, first="input", printed=printed, verify=not self.args.disable_verify
            ):
                stages.append(stage)
                where = f"pass {passes[len(stages) - 1].name}" if len(stages) <= len(passes) else where
            where = f"-t {self.args.target}"
            return f"{self.output_resulting_program(module).rstrip()}\n"
        except (GathernestError, ValueError) as error:
            message = str(error).removeprefix(where.removeprefix("pass ")).removeprefix(":").strip()
            raise InputError(message, self.get_input_name(), where=f"{where}: ") from error

    def _complain(self, text: str, error: InputError | None) -> None:
        """Print what is wrong about how a piece ended."""
        cause = None if error is None else error.__cause__
        complaints = [] if error is None else [str(error)]
        if self.args.verify_diagnostics:
            complaints = mismatches(text, error, self.get_input_name())
        elif self.args.parsing_diagnostics and isinstance(cause, ParseError):
            return print(error)
        if complaints and cause is not None and (self.args.traceback or isinstance(cause, InternalError)):
            traceback.print_exception(cause.__cause__ or cause)
        for complaint in complaints:
            print(f"{PROGRAM}: error: {complaint}", file=sys.stderr)
            self.status = FAILED

    def _parse(self, stream: IO[bytes]) -> ModuleOp:
        """Parse and verify a piece; raises InputError with the place of what is wrong."""
        text, file = stream.read().decode(), self.get_input_name()
        if not re.sub("//.*", "", text).strip():
            raise InputError("there is nothing in the input", file)
        parser = None
        try:
            parser = _PlacedParser(self.ctx, text, file)
            module = parser.parse_module(not self.args.no_implicit_module)
        except ParseError as error:
            message, start, length = self._explained(error, text, parser)
            raise InputError(message, file, text, start=start, length=length) from error
        except Exception as error:  # xDSL raises others for odd input, without a place: say how far it came
            raise InputError(_message(error), file, text, start=parser.pos if parser else 0) from error
        try:
            if not self.args.disable_verify:
                verify_module(module)
        except Exception as error:
            op = _culprit(module, error)
            start = parser.places.get(op) if op is not None else None
            if op is None or start is None:
                raise InputError(_message(error), file) from error
            start = max(text.find(op.name, start), start)
            raise InputError(_message(error), file, text, start=start, length=len(op.name)) from error
        return module

    def _explained(self, error: ParseError, text: str, parser: "_PlacedParser | None") -> tuple[str, int, int]:
        """Return the message of an error, where it is, and how long that is; xDSL points behind some."""
        message, span = error.msg.strip(), error.span
        if (unknown := re.fullmatch(r"Operation (\S+) is not registered", message)) is not None:
            name = unknown[1]
            message += did_you_mean(name, [op.name for op in self.ctx.loaded_ops])
            return message, max(text.rfind(name, 0, span.start), 0), len(name)
        if parser is not None and message.startswith("values used but not defined"):
            name = next(iter(parser.forward_ssa_references))
            message, span = f"%{name} is used but not defined", parser.uses[name]
        elif isinstance(error, MultipleSpansParseError) and message.startswith("region ends with missing block"):
            span = error.refs[0][0]
        return message, span.start, len(span)


class _PlacedParser(MlirParser):
    """A parser that remembers where each operation begins, and where each value is first used."""

    def __init__(self, context: Context, text: str, file: str):
        super().__init__(context, text, file)
        self.places: dict[Operation, int] = {}
        self.uses: dict[str, Span[str]] = {}

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        self.places[op] = start
        return op

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:
        self.uses.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)


def split(text: str) -> list[str]:
    """Return the pieces between separators that hold anything, each on the lines that it has in the file."""
    pieces: list[str] = []
    line = 0
    for piece in re.split(rf"^[ \t]*{re.escape(SEPARATOR)}[ \t]*$", text, flags=re.MULTILINE):
        if re.sub("//(?!.*expected-error).*", "", piece).strip():
            pieces.append("\n" * line + piece)
        line += piece.count("\n")
    return pieces or [text]


def _culprit(module: ModuleOp, error: Exception) -> Operation | None:
    """Return the operation that does not verify: the error's own, or the first that fails by itself."""
    named = getattr(error, "op", None)
    if isinstance(named, Operation):
        return named
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException:
            return op
        except Exception:
            return None
    return None


def _message(error: Exception) -> str:
    """Return the first line of an error that says something; xDSL puts whole modules below it."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text if isinstance(error, VerifyException | GathernestError) else f"{type(error).__name__}: {text}"


def _print_times(stages: Sequence[Stage]) -> None:
    for stage in stages[1:]:
        print(f"{stage.milliseconds:10.3f} ms  {stage.name}", file=sys.stderr)
    print(f"{sum(stage.milliseconds for stage in stages):10.3f} ms  in all", file=sys.stderr)


def print_passes() -> None:
    """Print our passes with what they do, the named pipelines, and the names of xDSL's passes."""
    print("Passes of gathernest (docs/passes.md has their options):")
    for name in PASSES:
        print(f"  {name:<22} {summary(name)}")
    print("\nPipelines, which -p takes as passes:")
    for name, text in PIPELINES.items():
        print(textwrap.fill(text.replace(",", ", "), 96, initial_indent=f"  {name:<22} ", subsequent_indent=" " * 25))
    print("\nPasses of xDSL:")
    others = [name for name in all_passes() if name not in PASSES]
    print(textwrap.fill(", ".join(others), 96, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))
