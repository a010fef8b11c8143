"""Reading MLIR text: errors name the file, the line and the column, and show the place."""

import bisect
import math
import re
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import AttributeInvT, Operation, SSAValue, TypeAttribute
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException
from xdsl.utils.lexer import Span

from ..errors import GathernestError, did_you_mean, shorten
from ..numbers import MAX_INT64
from .context import verify_module
from .plugins import why_unknown

# MLIR limits the width of an integer type to this number of bits.
MAX_INTEGER_BITS = 2**24 - 1
# A dense constant in a text has at most this number of elements: each takes 8 bytes until the constant is packed.
MAX_DENSE_ELEMENTS = 2**26
_INTEGER_TYPE = re.compile(r"[su]?i(\d+)")


class PlacedParser(Parser):
    """A parser that gives every operation its line and column as its location, unless the text says another.

    Attributes:
        places: where each operation begins, as an offset in the text.
        uses: where each value is first used.
        names: the name in the text of each value that is used.
    """

    def __init__(self, context: Context, text: str, file: str = "<input>"):
        super().__init__(context, text, file)
        self.file, self._lines = file, [0, *(match.end() for match in re.finditer("\n", text))]
        self.places: dict[Operation, int] = {}
        self.uses: dict[str, Span[str]] = {}
        self.names: dict[SSAValue, str] = {}

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        """Parse a type as xDSL does; rejects integers wider than MLIR's, whose ranges would fill the memory."""
        width = _INTEGER_TYPE.fullmatch(name := self._current_token.text)
        if width is not None and (len(width[1]) > len(str(MAX_INTEGER_BITS)) or int(width[1]) > MAX_INTEGER_BITS):
            self.raise_error(f"an integer type has at most {MAX_INTEGER_BITS} bits, got {shorten(name)}")
        return super()._parse_optional_integer_or_float_type()

    def parse_shape_dimension(self, allow_dynamic: bool = True) -> int:
        """Parse a size as xDSL does; rejects one of more than 63 bits."""
        token = self._current_token
        if (size := super().parse_shape_dimension(allow_dynamic)) > MAX_INT64:
            self.raise_error(f"a size has at most 63 bits, got {shorten(token.text)}", token.span)
        return size

    def _parse_dense_literal_type(self) -> Any:
        """Parse the type of a dense constant; rejects large ones, since all elements become Python objects."""
        kind = super()._parse_dense_literal_type()
        if math.prod(kind.get_shape()) > MAX_DENSE_ELEMENTS:
            self.raise_error(f"a dense constant has at most {MAX_DENSE_ELEMENTS} elements, got {kind}")
        return kind

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        self.places[op] = start
        if isinstance(op.location, UnknownLoc):
            line = bisect.bisect_right(self._lines, start)
            column = start - self._lines[line - 1] + 1
            op.location = FileLineColLoc(StringAttr(self.file), IntAttr(line), IntAttr(column))
        return op

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:
        self.uses.setdefault(operand.operand_name, operand.span)
        value = super().resolve_operand(operand, type)
        self.names[value] = operand.operand_name
        return value


# A number in a text has at most this number of digits: Python reads no more than some thousands, and MLIR has fewer.
MAX_DIGITS = 4000
_LONG_NUMBER = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
# A string or a comment, which may have any letters, or a letter that is not ASCII.
_OTHER_LETTERS = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|([^\x00-\x7f])')
MOST_COLUMNS = 90


class InputError(GathernestError):
    """An input does not parse, is not valid, or is rejected by a pass.

    Attributes:
        message: the error, without its place.
        line, column: of the input, from 1; None when the place is not known.
        length: the number of characters that the caret marks.
    """

    def __init__(
        self, message: str, file: str, text: str = "", *, start: int | None = None, length: int = 1, where: str = ""
    ):
        self.message = message
        self.line = None if start is None else text.count("\n", 0, start) + 1
        self.column = None if start is None else start - text.rfind("\n", 0, start)
        self.length = length
        super().__init__(_render(f"{where}{message}", file, text, start, length))


def _render(message: str, file: str, text: str, start: int | None, length: int) -> str:
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
        InputError: it does not parse or is not valid; has the place of the error.
    """
    return read_placed(text, file, context, verify=verify, implicit_module=implicit_module)[0]


def read_placed(
    text: str, file: str, context: Context, *, verify: bool = True, implicit_module: bool = True
) -> tuple[ModuleOp, PlacedParser]:
    """Read a module as `read_module` does; return the parser, too, which knows places and names in the text."""
    if not re.sub("//.*", "", text).strip():
        raise InputError("there is nothing in the input", file)
    letters = () if text.isascii() else _OTHER_LETTERS.finditer(text)
    if (other := next((match for match in letters if match[1]), None)) is not None:
        message = f"expected ASCII outside of strings and comments, got {other[1]!r}"
        raise InputError(message, file, text, start=other.start())
    parser = None
    try:
        parser = PlacedParser(context, text, file)
        module = parser.parse_module(implicit_module)
    except ParseError as error:
        message, start, length = _explain(error, text, parser, context)
        raise InputError(message, file, text, start=start, length=length) from error
    except Exception as error:  # xDSL raises other errors for odd input, without a place
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


def _explain(error: ParseError, text: str, parser: PlacedParser | None, context: Context) -> tuple[str, int, int]:
    """Return the message, the start and the length of an error, also where xDSL points behind it."""
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
        except Exception:  # some of xDSL's checks raise errors other than VerifyException
            return op
    return None


def message_of(error: Exception) -> str:
    """Return the first line of an error that is not empty; xDSL puts whole modules below it."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    is_check = isinstance(error, VerifyException | GathernestError) or type(error) is Exception
    return text if is_check else f"{type(error).__name__}: {text}"
