"""A parser that knows where in its text each operation begins, so that messages can name a line."""

import bisect
import re

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, UnknownLoc
from xdsl.ir import AttributeInvT, Operation, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.lexer import Span


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
