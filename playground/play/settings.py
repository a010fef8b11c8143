"""The settings of the page, the link that restores them, and the steps of a schedule as text."""

import ast
import base64
import inspect
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ...ir.errors import GathernestError, ScheduleError, did_you_mean, shorten, show
from ...ir.numbers import MIN_INT64, parse_whole
from ...ir.semantics import Bounds
from ...kernels.problems.named_problem import OPERATORS
from ...lowering.schedule.steps import STEPS
from ...lowering.schedule_language.nest_script import NestScript

# The first page of the playground: the gather and the schedule of docs/schedules.md.
FIRST_STEPS = """tile("indices", 64)
interchange("indices_o", "outer")
parallel("indices_o")
stage_indices("outer")
vectorize("inner", 8)
"""
LONGEST_TEXT = 1 << 20
WORDS = {"operator": OPERATORS, "bounds": tuple(mode.value for mode in Bounds)}


class LinkError(GathernestError, ValueError):
    """A link does not hold the settings of a playground."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A gather, its schedule, and a stage that a person edited.

    Attributes:
        operator, data, indices, axis, batch_dims, bounds, scale: as for `gathernest.compile`.
        steps: of the schedule, one in a line; None for the steps that the sizes choose.
        stage: the stage that is edited, by the name of its file in a dump, such as `07-fold-bounds`; empty for none.
        text: the edited text; empty for the text of the passes.
    """

    operator: str = "gather"
    data: str = "16x4000x64xf32"
    indices: str = "6000xi64"
    axis: int = 0
    batch_dims: int = 0
    bounds: str = "error"
    scale: float = 1.0
    steps: str | None = None
    stage: str = ""
    text: str = ""

    @property
    def gather(self) -> dict[str, Any]:
        """The arguments of `gathernest.compile`."""
        names = ("operator", "data", "indices", "axis", "batch_dims", "bounds", "scale")
        return {name: getattr(self, name) for name in names}

    def to_query(self) -> dict[str, str]:
        """Return the parameters of a link: the settings that differ from the defaults, and always both arrays."""
        default = Settings()
        values = {name: value for name, value in asdict(self).items() if value != getattr(default, name)}
        query = {"data": self.data, "indices": self.indices, **values}
        if self.text:
            query["text"] = base64.urlsafe_b64encode(zlib.compress(self.text.encode(), 9)).decode()
        return {name: str(value) for name, value in query.items()}

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> "Settings":
        """Return the settings of a link; `FIRST` where it has none. Parameters of other names are not read.

        Raises:
            LinkError: a value is not of its kind.
        """
        kinds = {field.name: type(field.default) for field in fields(cls) if field.name in query}
        if not kinds:
            return FIRST
        values: dict[str, Any] = {}
        for name, kind in kinds.items():
            text = query[name]
            if not isinstance(text, str):
                raise LinkError(f"the link gives {name} {len(text)} times; leave all but one out")
            try:
                values[name] = parse_whole(text, MIN_INT64) if kind is int else kind(text) if kind is float else text
            except ValueError:
                wanted = "a whole number" if kind is int else "a number"
                raise LinkError(
                    f"the link gives {name}={show(text)}, expected {wanted}; mend or leave it out"
                ) from None
            if text not in (allowed := WORDS.get(name, (text,))):
                said = f"expected {', '.join(allowed)}{did_you_mean(text, allowed)}"
                raise LinkError(f"the link gives {name}={show(text)}, {said}; mend or leave it out")
        if "text" in values:
            values["text"] = _unpacked(values["text"])
        return cls(**values)


FIRST = Settings(axis=1, bounds="wrap", steps=FIRST_STEPS)


def _unpacked(text: str) -> str:
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(base64.urlsafe_b64decode(text), LONGEST_TEXT)
        if unpacker.eof:
            return found.decode()
    except (ValueError, zlib.error):
        pass
    raise LinkError("the text of the stage in the link is damaged; copy the whole link, or leave text=... out")


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
        cause: why.
    """

    def __init__(self, line: int, text: str, cause: ScheduleError):
        super().__init__(f"line {line} of the steps: {cause}")
        self.line, self.text, self.cause = line, text, cause


def apply_lines(script: NestScript, text: str) -> None:
    """Apply steps to a script: calls such as `tile("indices", 64)`, with or without `s.` before them, or passes.

    Empty lines and comments (`#`) are left out. The steps before an illegal step stay applied.

    Raises:
        StepLineError: a line cannot be read, or its step is not legal.
    """
    for number, line in enumerate(text.splitlines(), 1):
        try:
            for method, positional, named in _calls(line.strip()):
                getattr(script, method)(*positional, **named)
        except ScheduleError as error:
            raise StepLineError(number, line, error) from None


def _calls(line: str) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Yield the calls of a line in order, each as its method and its arguments; raises ScheduleError."""
    if not line or line.startswith("#") or line in _IGNORED:
        return
    if _PASS.fullmatch(line):
        yield "apply", [line.rstrip(",")], {}
        return
    expected = f"expected a step such as {EXAMPLE}, got {show(line)}"
    chain: list[ast.Call] = []
    try:
        node = ast.parse(line, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        is_assignment = re.match(r"\w+\s*=", line)
        way_out = "write one step a line, with its quotation marks and parentheses closed"
        way_out = (
            "the gather is set above, so leave this line out, and name loops by text" if is_assignment else way_out
        )
        raise ScheduleError(f"{expected}; {way_out}") from None
    while not isinstance(node, ast.Name):  # `s`, or the method where a line begins with it
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            raise ScheduleError(f"{expected}; write one step a line")
        chain.append(node)
        node = node.func if isinstance(node.func, ast.Name) else node.func.value
    for call in reversed(chain):
        method = call.func.id if isinstance(call.func, ast.Name) else call.func.attr  # type: ignore[attr-defined]
        if method not in NAMES:
            closest = did_you_mean(method, NAMES)
            raise ScheduleError(f"there is no step {show(method)}; the steps are {', '.join(NAMES)}{closest}")
        positional = [_value(argument, line) for argument in call.args]
        if any(keyword.arg is None for keyword in call.keywords):
            raise ScheduleError(f"{method}: ** is not read here; write the arguments out")
        named = {str(keyword.arg): _value(keyword.value, line) for keyword in call.keywords}
        signature = inspect.signature(getattr(NestScript, method))
        try:
            signature.bind(None, *positional, **named)
        except TypeError as error:
            taken = ", ".join(
                str(each).partition(":")[0] for name, each in signature.parameters.items() if name != "self"
            )
            raise ScheduleError(f"{method}: {error}; it takes ({taken})") from None
        yield method, positional, named


def _value(node: ast.expr, line: str) -> Any:
    """Return the text or the number that an argument is; raises ScheduleError."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        text = shorten(ast.get_source_segment(line, node) or line)
        mended = f'; a loop is named by text: "{text}"' if isinstance(node, ast.Name) else "; write the value itself"
        raise ScheduleError(f"expected a text or a number, got {text}{mended}") from None
