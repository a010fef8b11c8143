"""What upstream MLIR has and xDSL lacks: the custom syntax of `scf.parallel`.

xDSL prints `scf.parallel` in the generic form only. `ParallelOp` is xDSL's with upstream's syntax.
"""

from typing import Self

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Dialect, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer


class ParallelOp(scf.ParallelOp):
    """`scf.parallel (%i, %j) = (%l, %m) to (%u, %v) step (%s, %t) init (%z) -> i64 { ... scf.reduce(...) }`."""

    name = "scf.parallel"

    def print(self, printer: Printer) -> None:
        def values(word: str, group: tuple[SSAValue, ...]) -> None:
            printer.print_string(word)
            printer.print_list(group, printer.print_ssa_value)
            printer.print_string(")")

        values(" (", tuple(self.body.block.args))
        values(" = (", tuple(self.lowerBound))
        values(" to (", tuple(self.upperBound))
        values(" step (", tuple(self.step))
        if self.initVals:
            values(" init (", tuple(self.initVals))
            printer.print_string(" -> ")
            printer.print_list([result.type for result in self.res], printer.print_attribute)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=bool(self.initVals))
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        def operands(word: str | None) -> list[SSAValue]:
            parser.parse_keyword(word) if word else parser.parse_punctuation("=")
            unresolved = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
            return [parser.resolve_operand(value, IndexType()) for value in unresolved]

        names = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
        )
        lower, upper, step = operands(None), operands("to"), operands("step")
        position, initial = parser.pos, []
        if parser.parse_optional_keyword("init"):
            unresolved = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
            parser.parse_punctuation("->")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            initial = parser.resolve_operands(unresolved, types, position)
        body = parser.parse_region([name.resolve(IndexType()) for name in names])
        if not isinstance(body.block.last_op, scf.ReduceOp):
            body.block.add_op(scf.ReduceOp())
        op = cls(lower, upper, step, body, initial)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


Scf = Dialect("scf", [ParallelOp if op is scf.ParallelOp else op for op in scf.Scf.operations])
