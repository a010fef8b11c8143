"""A parser that knows where in its text each operation begins, so that messages can name a line."""

import bisect
import math
import re
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, UnknownLoc
from xdsl.ir import AttributeInvT, Operation, SSAValue, TypeAttribute
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.lexer import Span

from ..errors import shorten

# Of an integer type: the limit of MLIR.
MAX_INTEGER_BITS = 2**24 - 1
# Of a dense constant in a text: a tensor that is one value takes 8 bytes an element before it is packed.
MAX_DENSE_ELEMENTS = 2**26
_INTEGER_TYPE = re.compile(r"[su]?i(\d+)")


class PlacedParser(Parser):
    """A parser that gives every operation its line and column as its location, unless the text says another.

    Attributes:
        places: where each operation begins, as an offset in the text.
        uses: where each value is first used.
        names: what the text calls each value that is used.
    """

    def __init__(self, context: Context, text: str, file: str = "<input>"):
        super().__init__(context, text, file)
        self.file, self._lines = file, [0, *(match.end() for match in re.finditer("\n", text))]
        self.places: dict[Operation, int] = {}
        self.uses: dict[str, Span[str]] = {}
        self.names: dict[SSAValue, str] = {}

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        """Return a type as xDSL does, but none of integers that MLIR has not: their ranges would fill the memory."""
        width = _INTEGER_TYPE.fullmatch(name := self._current_token.text)
        if width is not None and (len(width[1]) > len(str(MAX_INTEGER_BITS)) or int(width[1]) > MAX_INTEGER_BITS):
            self.raise_error(f"an integer type has at most {MAX_INTEGER_BITS} bits, got {shorten(name)}")
        return super()._parse_optional_integer_or_float_type()

    def _parse_dense_literal_type(self) -> Any:
        """Return the type of a dense constant, whose elements all become Python objects."""
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
