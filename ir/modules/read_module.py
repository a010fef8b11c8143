"""Reading MLIR text: errors name the file, the line and the column, and show the place."""

import re

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException

from ..errors import GathernestError, did_you_mean, shorten
from .context import verify_module
from .placed_parser import PlacedParser
from .plugins import why_unknown

# Of a number in a text: Python reads no more than some thousands, and MLIR's integers have fewer.
MAX_DIGITS = 4000
_LONG_NUMBER = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
MOST_COLUMNS = 90


class InputError(GathernestError):
    """An input does not parse, is not valid, or is rejected by a pass.

    Attributes:
        message: what is wrong.
        line, column: of the input, from 1; None when the place is not known.
        length: how many characters it is about.
    """

    def __init__(
        self, message: str, file: str, text: str = "", *, start: int | None = None, length: int = 1, where: str = ""
    ):
        self.message = message
        self.line = None if start is None else text.count("\n", 0, start) + 1
        self.column = None if start is None else start - text.rfind("\n", 0, start)
        self.length = length
        super().__init__(_rendered(f"{where}{message}", file, text, start, length))


def _rendered(message: str, file: str, text: str, start: int | None, length: int) -> str:
    """Return `file:line:column: message` with the line of the input and a caret under the place."""
    if start is None:
        return f"{file}: {message}"
    begin = text.rfind("\n", 0, start) + 1
    line = text[begin:].partition("\n")[0].removesuffix("\r")
    column = min(start - begin, len(line))
    place = f"{file}:{text.count(chr(10), 0, begin) + 1}:{column + 1}"
    if len(line) > MOST_COLUMNS:
        cut = min(max(0, column - MOST_COLUMNS // 2), len(line) - MOST_COLUMNS)
        more = "..." if cut + MOST_COLUMNS < len(line) else ""
        line, column = f"{'...' if cut else ''}{line[cut : cut + MOST_COLUMNS]}{more}", column - cut + 3 * bool(cut)
    blank = re.sub(r"[^\t]", " ", line[:column])
    return f"{place}: {message}\n  {line}\n  {blank}{'^' * max(1, min(length, len(line) - column))}"


def read_module(
    text: str, file: str, context: Context, *, verify: bool = True, implicit_module: bool = True
) -> ModuleOp:
    """Parse and verify a module, whose operations have their lines as locations.

    Raises:
        InputError: it does not parse or is not valid; has the place of what is wrong.
    """
    return read_placed(text, file, context, verify=verify, implicit_module=implicit_module)[0]


def read_placed(
    text: str, file: str, context: Context, *, verify: bool = True, implicit_module: bool = True
) -> tuple[ModuleOp, PlacedParser]:
    """Read a module as `read_module` does; return the parser, too, which knows places and names in the text."""
    if not re.sub("//.*", "", text).strip():
        raise InputError("there is nothing in the input", file)
    parser = None
    try:
        parser = PlacedParser(context, text, file)
        module = parser.parse_module(implicit_module)
    except ParseError as error:
        message, start, length = _explained(error, text, parser, context)
        raise InputError(message, file, text, start=start, length=length) from error
    except Exception as error:  # xDSL raises others for odd input, without a place: say how far it came
        if (number := _LONG_NUMBER.search(text)) is not None:
            message = f"a number has at most {MAX_DIGITS} digits, got {shorten(number[0])}"
            raise InputError(message, file, text, start=number.start()) from None
        raise InputError(message_of(error), file, text, start=parser.pos if parser else 0) from error
    try:
        if verify:
            verify_module(module)
    except Exception as error:
        op = _culprit(module, error)
        start = parser.places.get(op) if op is not None else None
        if op is None or start is None:
            raise InputError(message_of(error), file) from error
        start = max(text.find(op.name, start), start)
        raise InputError(message_of(error), file, text, start=start, length=len(op.name)) from error
    return module, parser


def _explained(error: ParseError, text: str, parser: PlacedParser | None, context: Context) -> tuple[str, int, int]:
    """Return the message of an error, where it is, and how long that is; xDSL points behind some."""
    message, span = error.msg.strip(), error.span
    if (unknown := re.fullmatch(r"Operation (\S+) is not registered", message)) is not None:
        name = unknown[1]
        message += why_unknown() + did_you_mean(name, [op.name for op in context.loaded_ops])
        return message, max(text.rfind(name, 0, span.start), 0), len(name)
    if parser is not None and message.startswith("values used but not defined"):
        name = next(iter(parser.forward_ssa_references))
        message, span = f"%{name} is used but not defined", parser.uses[name]
    elif isinstance(error, MultipleSpansParseError) and message.startswith("region ends with missing block"):
        span = error.refs[0][0]
    return message, span.start, len(span)


def _culprit(module: ModuleOp, error: Exception) -> Operation | None:
    """Return the operation that does not verify: the error's own, or the first that fails by itself."""
    named = getattr(error, "op", None)
    if isinstance(named, Operation):
        return named
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except Exception:  # some of xDSL's checks raise others than VerifyException
            return op
    return None


def message_of(error: Exception) -> str:
    """Return the first line of an error that says something; xDSL puts whole modules below it."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    is_check = isinstance(error, VerifyException | GathernestError) or type(error) is Exception
    return text if is_check else f"{type(error).__name__}: {text}"
