"""The command `gathernest-opt`: xDSL's driver with our dialects, passes and targets; errors have their place."""

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
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.targets.mlir import MLIRTarget
from xdsl.utils.exceptions import ArgSpecParseError, ParseError, ShrinkException
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from .. import __version__
from ..ir.errors import SOURCE_HINT, GathernestError, ScheduleError
from ..ir.modules.context import make_context, print_generic
from ..ir.modules.exec_comment import header_lines
from ..ir.modules.plugins import plugins
from ..ir.modules.read_module import InputError, read_module
from ..kernels.host.dependencies import require
from ..kernels.host.files import text_of, write_file
from ..lowering.numba.emitter import emit
from ..lowering.pipeline import Stage, parse_passes, read_edits, record_stages
from ..lowering.registry import PASSES, PIPELINES, own_passes, summary
from ..lowering.stage_files import edited_stages, write_stages
from ..lowering.upstream.machine_code import strict_module
from .console.completion import add_completion
from .console.stages import SEPARATOR, join_stages
from .console.terminal import DONE, FAILED, Parser, UsageError, add_option, check_file, check_folder, run_tool, wrapped

PROGRAM = "gathernest-opt"
EXAMPLES = """examples:
  gathernest-opt gather.mlir -p default
  gathernest-opt gather.mlir -p "nest,tile-loops{loops=indices sizes=64}" --print-between-passes
  gathernest-opt gather.mlir -p default -t numba
  gathernest-opt gather.mlir -p default -t upstream | mlir-opt
  gathernest-opt gather.mlir -p nest --dump-dir stages    # edit one of the files there, then
  gathernest-opt gather.mlir -p nest --override-dir stages
  gathernest show --data 9x4xf32 --indices 5xi64 --stage operator | gathernest-opt -p nest
  gathernest-opt gather.mlir -p "default" --prove
  gathernest-opt invalid.mlir --split-input-file --verify-diagnostics

--verify-diagnostics checks errors in MLIR's manner: every piece of the input must give exactly the error
that a comment `// expected-error {{part of its text}}` names, on the line of the comment, or on another
with @+1, @-1, @above, @below, @unknown after `expected-error`. Errors of passes have no line, and only
their text is compared.

With --reproducer FILE, a pass that fails leaves a file whose first line is the command that repeats it."""


OPTIONS = {
    "--list-passes": "list the passes and the named pipelines",
    "--traceback": "show the traceback of every error",
    "--prove": "prove each pass for all sizes; needs the extra prove",
    "--reproducer FILE": "write the module and the rest of the passes there when a pass fails",
    "--dump-dir DIR": "write every stage to a file there, such as 01-normalize-gather.mlir",
    "--override-dir DIR": "replace stages by the edited files of a dump there",
}


@dataclass(frozen=True)
class NumbaTarget(Target):
    """The Python source that Numba compiles."""

    name = "numba"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(emit(module).source)


@dataclass(frozen=True)
class UpstreamTarget(Target):
    """The module without our attributes, which a plain `mlir-opt` takes."""

    name = "upstream"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(f"{strict_module(module)!s}\n")


class OptMain(xDSLOptMain):
    """The driver. Pieces of the input are transformed one by one; an error ends its piece, not the others."""

    version_format = f"{PROGRAM} {__version__}, xDSL {{xdsl_version}}"

    def __init__(self, words: Sequence[str]):
        self.words, self.status = words, DONE
        super().__init__("Run passes over MLIR text.", self.words)

    def register_all_dialects(self) -> None:
        self.ctx = make_context()
        ours = {dialect.name for dialect in self.ctx.loaded_dialects}
        for name, factory in get_all_dialects().items():
            if name not in ours:
                self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        self.available_passes = own_passes()  # `parse_passes` finds the passes of other packages

    def register_all_targets(self) -> None:
        self.available_targets = {
            "mlir": lambda: MLIRTarget,
            "numba": lambda: NumbaTarget,
            "upstream": lambda: UpstreamTarget,
        }

    def register_all_frontends(self) -> None:
        self.available_frontends = {"mlir": self._parse}

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.__class__ = Parser
        arg_parser.prog, arg_parser.epilog = PROGRAM, wrapped(EXAMPLES)
        arg_parser.formatter_class, arg_parser.allow_abbrev = argparse.RawDescriptionHelpFormatter, False
        listing = next(action for action in arg_parser._actions if action.dest == "passes")
        listing.help = "passes and named pipelines; see --list-passes"
        arg_parser.add_argument("--output", dest="output_file", help=argparse.SUPPRESS)
        for usage, text in OPTIONS.items():
            add_option(arg_parser, usage, text)
        add_completion(arg_parser)

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
            return _print_passes()
        if self.args.split_input_file and (self.args.dump_dir, self.args.override_dir) != (None, None):
            raise UsageError("--dump-dir and --override-dir are for one module; leave out --split-input-file")
        self._check_outputs()
        text = self._read()
        outputs: list[str] = []
        for piece in _split(text) if self.args.split_input_file else [text]:
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
            if self.args.dump_dir is not None:
                write_stages(Path(self.args.dump_dir), stages, header_lines(text))
            self._complain(piece, error)
        output = f"\n{SEPARATOR}\n".join(outputs)
        if self.args.output_file is None:
            sys.stdout.write(output)
        elif self.status == DONE:
            write_file(self.args.output_file, output)

    def _check_outputs(self) -> None:
        """Check the output files, before the passes run; raises UsageError."""
        for option, path in (("--reproducer", self.args.reproducer), ("-o", self.args.output_file)):
            if path is not None:
                check_file(option, path)
        if self.args.dump_dir is not None:
            check_folder("--dump-dir", self.args.dump_dir, "stages")

    def _read(self) -> str:
        with self.get_input_stream()[0] as stream:
            return text_of(stream, self.get_input_name())

    def _transform(self, text: str, stages: list[Stage]) -> str:
        """Return the result of a piece of the input, and add its stages to a list; raises InputError.

        A later piece of the file begins with empty lines, so that lines are numbered as in the file.
        """
        module = self.available_frontends["mlir"](BytesIO(text.encode()))
        if self.args.prove:
            return self._prove(module)
        passes = self.pipeline.passes
        printed = print_generic if self.args.print_op_generic else str
        edits = self._edits()
        try:
            verify = not self.args.disable_verify
            made = record_stages(module, passes, self.ctx, first="input", printed=printed, verify=verify, edits=edits)
            for stage in made:
                stages.append(stage)
                if self.args.time_passes and len(stages) > 1:
                    print(f"{stage.milliseconds:9.2f} ms  {stage.name}", file=sys.stderr)
            comment = header_lines(text, with_passes=not passes) if self.args.target == "mlir" else ""
            return f"{comment}{self.output_resulting_program(module).rstrip()}\n"
        except (GathernestError, ValueError) as error:
            where = "" if not stages else f"-t {self.args.target}"
            where = f"pass {passes[len(stages) - 1].name}" if 0 < len(stages) <= len(passes) else where
            message = str(error).removeprefix(where.removeprefix("pass ")).removeprefix(":").strip()
            message = message.replace(SOURCE_HINT, self._reproducer(error))
            raise InputError(message, self.get_input_name(), where=f"{where}: ") from error

    def _reproducer(self, error: GathernestError | ValueError) -> str:
        """Write the module and the passes of an error to the file of `--reproducer`; return its name, or the option."""
        path = self.args.reproducer
        if path is None:
            return "the file that --reproducer FILE writes"
        if isinstance(error, GathernestError) and error.source:
            write_file(path, error.source)
        return path

    def _prove(self, module: ModuleOp) -> str:
        """Return a line for each pass, instead of the module; a refuted pass makes `status` a failure.

        Below the first refuted pass is the command that runs the module behind it on the counterexample.
        """
        require("islpy", "z3-solver")
        from ..lowering.proof.prover import Status, prove_passes

        file, lines, is_refuted = self.args.reproducer, list[str](), False
        try:
            for verdict in prove_passes(module, self.pipeline.passes, self.ctx):
                lines.append(str(verdict))
                if verdict.status is not Status.REFUTED:
                    continue
                if not is_refuted and verdict.example is not None and verdict.example.command("FILE"):
                    if file is not None:
                        write_file(file, f"{module!s}\n")
                    which = " with the module that --reproducer FILE writes" if file is None else ""
                    lines.append(f"  run it{which}: {verdict.example.command(file or 'FILE')}")
                is_refuted, self.status = True, FAILED
        except (GathernestError, ValueError) as error:
            raise InputError(str(error), self.get_input_name(), where="--prove: ") from error
        return "\n".join([*lines, ""])

    def _edits(self) -> dict[int, ModuleOp]:
        """Return the stages that the folder of edited ones replaces; raises InputError."""
        if self.args.override_dir is None:
            return {}
        folder = self.args.override_dir
        if not folder or not Path(folder).is_dir():
            raise UsageError(
                f"--override-dir: {folder or 'the empty name'} is not a folder; name one that --dump-dir wrote"
            )
        files, verify = edited_stages(Path(folder)), not self.args.disable_verify
        return read_edits(files, self.pipeline.passes, self.ctx, first="input", verify=verify)

    def _complain(self, text: str, error: InputError | None) -> None:
        """Print the complaints about a piece."""
        cause = None if error is None else error.__cause__
        complaints = [] if error is None else [str(error)]
        if self.args.verify_diagnostics:
            complaints = _mismatches(text, error, self.get_input_name())
        elif self.args.parsing_diagnostics and isinstance(cause, ParseError):
            return print(error)
        if complaints and cause is not None and self.args.traceback:
            traceback.print_exception(cause.__cause__ or cause)
        for complaint in complaints:
            print(f"{PROGRAM}: error: {complaint}", file=sys.stderr)
            self.status = FAILED

    def _parse(self, stream: IO[bytes]) -> ModuleOp:
        """Parse and verify a piece; raises InputError with the place of the error."""
        return read_module(
            stream.read().decode("utf-8-sig"),
            self.get_input_name(),
            self.ctx,
            verify=not self.args.disable_verify,
            implicit_module=not self.args.no_implicit_module,
        )


def _split(text: str) -> list[str]:
    """Return the pieces between separators that hold anything, each on the lines that it has in the file."""
    pieces: list[str] = []
    line = 0
    for piece in re.split(rf"^[ \t]*{re.escape(SEPARATOR)}[ \t]*$", text, flags=re.MULTILINE):
        if re.sub("//(?!.*expected-error).*", "", piece).strip():
            pieces.append("\n" * line + piece)
        line += piece.count("\n")
    return pieces or [text]


def _print_passes() -> None:
    """Print our passes with their summaries, the named pipelines, and the passes of xDSL and of other packages."""
    print("Passes of gathernest (docs/passes.md has their options):")
    for name in PASSES:
        print(f"  {name:<22} {summary(name)}")
    print("\nPipelines, which -p takes as passes:")
    for name, text in PIPELINES.items():
        print(f"  {name:<22} {text.replace(',', ', ')}")
    others = ", ".join(name for name in own_passes() if name not in PASSES)
    print("\nPasses of xDSL:", textwrap.indent(textwrap.fill(others, 94, break_on_hyphens=False), "  "), sep="\n")
    for plugin in plugins():
        print(f"\nPasses of {plugin}:")
        for name in plugin.passes:
            print(f"  {name:<22} {_said_of(name)}")
        if plugin.error is not None:
            print(f"  {plugin.failure}")


def _said_of(name: str) -> str:
    """Return the summary of a pass of another package, or the reason why it cannot be used."""
    if name in own_passes() or name in PIPELINES:
        return "not used: gathernest or xDSL has this name"
    try:
        return summary(name)
    except ScheduleError as error:
        return f"cannot be used: {error}"


# A comment that says which error its input must give.
_EXPECTED = re.compile(r"//\s*expected-error(?:\s*@\s*(?P<place>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}")


@dataclass(frozen=True, slots=True)
class _Expected:
    """A comment `// expected-error {{text}}` on a 1-based line, and the line that must have the error; None for any."""

    line: int | None
    text: str
    written_on: int

    def describes(self, error: InputError) -> bool:
        """Return whether an error is this one; an error without a place only has to have the text."""
        return self.text in error.message and (self.line is None or error.line is None or self.line == error.line)


def _expected_errors(text: str) -> list[_Expected]:
    """Return the errors that the comments of an input expect."""
    found: list[_Expected] = []
    for number, line in enumerate(text.split("\n"), start=1):
        for match in _EXPECTED.finditer(line):
            offset = {None: 0, "above": -1, "below": 1}.get(match["place"])
            if offset is None and match["place"] != "unknown":
                offset = int(match["place"])
            found.append(_Expected(None if offset is None else number + offset, match["text"], number))
    return found


def _mismatches(text: str, error: InputError | None, file: str) -> list[str]:
    """Return the differences between the expected errors of an input and its actual one."""
    expected = _expected_errors(text)
    matched = next((entry for entry in expected if error is not None and entry.describes(error)), None)
    complaints = [
        f"{file}:{entry.written_on}: expected the error {entry.text!r}, which did not occur"
        + ("" if matched is None else "; one error ends a piece, so put // ----- between and use --split-input-file")
        for entry in expected
        if entry is not matched
    ]
    if error is not None and matched is None:
        complaints.append(f"an error came that is not expected: {error}")
    return complaints


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run_tool(PROGRAM, lambda: _run(words), shows_traceback="--traceback" in words)


def _run(words: list[str]) -> int:
    try:
        driver = OptMain(words)
    except ArgSpecParseError as error:  # derives from BaseException
        raise UsageError(f"--target does not parse: {str(error).splitlines()[-1].strip()}") from None
    try:
        driver.run()
    except ShrinkException:
        return DONE
    return FAILED if driver.args.shrink else driver.status


if __name__ == "__main__":
    sys.exit(main())
