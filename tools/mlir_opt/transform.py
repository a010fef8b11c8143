"""One piece of MLIR text through passes: parsed with the place of every operation, verified after every pass."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ParseError, VerifyException

from ...ir.errors import GathernestError, did_you_mean
from ...ir.modules.context import make_context, print_generic, verify_module
from ...lowering.numba.emitter import emit
from ...lowering.pipeline import Stage
from .diagnostics import InputError

Target = Literal["mlir", "numba"]
COMMENT = re.compile("//.*")
LOOP_DIALECTS = ("builtin", "func", "scf", "arith", "memref", "vector")


@dataclass
class Transformed:
    """What became of a piece.

    Attributes:
        stages: the module as it came and after every pass that ran.
        text: what is to be printed; None after an error.
        error: what ended it.
    """

    stages: list[Stage] = field(default_factory=list)
    text: str | None = None
    error: InputError | None = None


class _PlacedParser(Parser):
    """A parser that remembers where each operation begins."""

    def __init__(self, context: Context, text: str, file: str):
        super().__init__(context, text, file)
        self.places: dict[Operation, int] = {}

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        self.places[op] = start
        return op


@dataclass
class Transformer:
    """Runs passes on pieces of one file.

    Attributes:
        passes: what to run.
        file: the name of the input, for errors.
        target: what to print in the end.
        generic: whether to print MLIR's generic syntax.
        allow_unregistered: whether operations of unknown dialects are accepted.
    """

    passes: Sequence[ModulePass]
    file: str
    target: Target = "mlir"
    generic: bool = False
    allow_unregistered: bool = False

    def run(self, text: str) -> Transformed:
        """Transform a piece. Lines of `text` are those of the file: a later piece begins with empty ones."""
        result = Transformed()
        context = make_tool_context()
        context.allow_unregistered = self.allow_unregistered
        try:
            module = self._parse(context, text)
            result.stages.append(self._stage("input", module, 0.0))
            for step in self.passes:
                milliseconds = self._apply(context, module, step)
                result.stages.append(self._stage(str(step).replace('"', ""), module, milliseconds))
            result.text = self._print(module)
        except InputError as error:
            result.error = error
        return result

    def _parse(self, context: Context, text: str) -> ModuleOp:
        if not COMMENT.sub("", text).strip():
            raise InputError("there is nothing in the input", self.file)
        parser = None
        try:
            parser = _PlacedParser(context, text, self.file)
            module = parser.parse_module()
        except ParseError as error:
            raise self._parse_error(error, text, context) from None
        except Exception as error:  # xDSL raises others for odd input, without a place: say how far it came
            raise InputError(_message(error), self.file, text, start=parser.pos if parser else 0) from None
        try:
            verify_module(module)
        except Exception as error:
            op = _culprit(module, error)
            start = parser.places.get(op) if op is not None else None
            if op is None or start is None:
                raise InputError(_message(error), self.file) from None
            start = max(text.find(op.name, start), start)
            raise InputError(_message(error), self.file, text, start=start, length=len(op.name)) from None
        return module

    def _parse_error(self, error: ParseError, text: str, context: Context) -> InputError:
        message, start, length = error.msg.strip(), error.span.start, len(error.span)
        if (unknown := re.fullmatch(r"Operation (\S+) is not registered", message)) is not None:
            name = unknown[1]  # xDSL points behind it
            message += did_you_mean(name, [op.name for op in context.loaded_ops])
            start, length = max(text.rfind(name, 0, start), 0), len(name)
        return InputError(message, self.file, text, start=start, length=length)

    def _apply(self, context: Context, module: ModuleOp, step: ModulePass) -> float:
        """Run a pass and verify what it leaves; return its time in milliseconds."""
        start = time.perf_counter()
        try:
            step.apply(context, module)
        except GathernestError as error:
            message = str(error).removeprefix(f"{step.name}: ")
            raise InputError(message, self.file, where=f"pass {step.name}: ") from None
        except Exception as error:
            raise InputError(_message(error), self.file, where=f"pass {step.name} failed: ") from None
        milliseconds = (time.perf_counter() - start) * 1e3
        try:
            verify_module(module)
        except Exception as error:
            raise InputError(_message(error), self.file, where=f"pass {step.name} left an invalid module: ") from None
        return milliseconds

    def _stage(self, name: str, module: ModuleOp, milliseconds: float) -> Stage:
        text = print_generic(module) if self.generic else str(module) + "\n"
        return Stage(name, text, milliseconds, sum(1 for _ in module.walk()))

    def _print(self, module: ModuleOp) -> str:
        if self.target == "mlir":
            return print_generic(module) if self.generic else str(module) + "\n"
        foreign = sorted({op.name for op in module.walk() if op.name.partition(".")[0] not in LOOP_DIALECTS})
        if foreign:
            raise InputError(
                f"the code generator prints loops, and the module still has {', '.join(foreign)}; "
                "lower it first, for instance with -p default",
                self.file,
                where="-t numba: ",
            )
        try:
            return emit(module).source
        except GathernestError as error:
            raise InputError(str(error), self.file, where="-t numba: ") from None


def make_tool_context() -> Context:
    """Return a context with our dialects, and those of xDSL that ours do not replace."""
    context = make_context()
    ours = {dialect.name for dialect in context.loaded_dialects}
    for name, factory in get_all_dialects().items():
        if name not in ours:
            context.register_dialect(name, factory)
    return context


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
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    known = isinstance(error, VerifyException | GathernestError)
    return text if known else f"{type(error).__name__}: {text}"
