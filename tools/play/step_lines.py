"""The steps of a schedule as text, one in a line: read without running it as Python, and applied to a script."""

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

from ...ir.errors import ScheduleError, did_you_mean, show
from ...lowering.schedule.steps import STEPS
from ...lowering.schedule_language.nest_script import NestScript

NAMES = (*(step.method for step in STEPS.values()), "apply")
EXAMPLE = 'tile("indices", 64)'
# A pass as text: a name with a hyphen or options, or without parentheses.
_PASS = re.compile(r"[a-z][\w-]*(\{[^{}]*\})?(,\s*[a-z][\w-]*(\{[^{}]*\})?)*,?")
_IGNORED = ("import gathernest as gn",)


class StepLineError(ScheduleError):
    """A line of steps cannot be read, or its step is not legal.

    Attributes:
        line: its number, from 1.
        text: the line.
        cause: what the schedule language raised for the step; None where the line cannot be read.
    """

    def __init__(self, line: int, text: str, cause: ScheduleError | str):
        super().__init__(f"line {line} of the steps: {cause}")
        self.line, self.text = line, text
        self.cause = cause if isinstance(cause, ScheduleError) else None


def apply_lines(script: NestScript, text: str) -> None:
    """Apply steps to a script: calls such as `tile("indices", 64)`, with or without `s.` before them, or passes.

    Empty lines and comments (`#`) are left out. The steps before one that is not legal stay applied.

    Raises:
        StepLineError: a line cannot be read, or its step is not legal.
    """
    for number, line in enumerate(text.splitlines(), 1):
        try:
            for method, positional, named in _calls(line.strip()):
                getattr(script, method)(*positional, **named)
        except StepLineError:
            raise
        except ScheduleError as error:
            raise StepLineError(number, line, error) from None
        except _UnreadableError as error:
            raise StepLineError(number, line, str(error)) from None


class _UnreadableError(Exception):
    """A line is no step."""


Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def _calls(line: str) -> Iterator[Call]:
    """Yield the calls of a line, in order."""
    if not line or line.startswith("#") or line in _IGNORED:
        return
    if _PASS.fullmatch(line):
        yield "apply", (line.rstrip(","),), {}
        return
    try:
        node = ast.parse(line, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _UnreadableError(f"expected a step such as {EXAMPLE}, got {show(line)}{_hint(line)}") from None
    yield from _chain(node, line)


def _hint(line: str) -> str:
    if re.match(r"\w+\s*=", line):
        return "; the gather is set above, so leave this line out, and name loops by text"
    return "; write one step a line, with its quotation marks and parentheses closed"


def _chain(node: ast.expr, line: str) -> Iterator[Call]:
    """Yield the calls of `s.a(...).b(...)`, the first one first."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        raise _UnreadableError(f"expected a step such as {EXAMPLE}, got {show(line)}; write one step a line")
    if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name):
        yield from _chain(node.func.value, line)
    method = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
    if method not in NAMES:
        closest = did_you_mean(method, NAMES)
        raise _UnreadableError(f"there is no step {method!r}; the steps are {', '.join(NAMES)}{closest}")
    positional = tuple(_value(argument) for argument in node.args)
    named = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise _UnreadableError(f"{method}: ** is not read here; write the arguments out")
        named[keyword.arg] = _value(keyword.value)
    _check_arguments(method, positional, named)
    yield method, positional, named


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        text = ast.unparse(node)
        mended = f'; a loop is named by text: "{text}"' if isinstance(node, ast.Name) else "; write the value itself"
        raise _UnreadableError(f"expected a text or a number, got {text}{mended}") from None


def _check_arguments(method: str, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
    signature = inspect.signature(getattr(NestScript, method))
    try:
        signature.bind(None, *positional, **named)
    except TypeError as error:
        taken = ", ".join(str(each).partition(":")[0] for name, each in signature.parameters.items() if name != "self")
        raise _UnreadableError(f"{method}: {error}; it takes ({taken})") from None
