"""The attributes and types of the `gather` dialect."""

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import BytesAttr, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ..canonical import Groups, Operand
from ..element_types import parse_element_type
from ..errors import InvalidGatherError, did_you_mean
from ..loop_name import LoopName
from ..semantics import Bounds

I64 = IntegerType(64)

# On an argument: how it is seen, a `#gather.view`.
VIEW = "gather.view"
# On a tensor argument or result: the strides of an array that is not contiguous.
BYTE_STRIDES = "gather.byte_strides"
# On a function: the least size of each indexed axis that its code holds for.
MIN_AXIS_SIZES = "gather.min_axis_sizes"
# On a function: its code holds for axes of less than 2**31 only, whose positions fit in 32 bits.
NARROW_AXES = "gather.narrow_axes"
# On a function: the number of positions that an axis may have at most.
MOST_AXIS_SIZE = "gather.most_axis_size"
# On a function: the fewest and the most elements of a row that its code holds for; 0 for any number.
ROW_SIZES = "gather.row_sizes"
# On a function: out is new. Where the function returns another number than 0, out holds anything, and is discarded.
FRESH_OUT = "gather.fresh_out"
# On a number that a function takes: its value, the scale of a gradient.
SCALE = "gather.scale"
# On an operator: the name of the node of a graph that it came from.
NODE = "gather.node"
# On an operator: the names of its node's outputs, an array of strings.
OUTPUTS = "gather.outputs"
# On a `vector.from_elements`: its elements are loaded by one gather instruction.
GATHERED = "gathered"
# On an upstream loop: the names of the loops that it was, separated by commas.
LOOP_NAMES = "gather.loops"


def node_name(op: Operation) -> str | None:
    """Return the name of the node that an operation came from, or None where it came from none."""
    node = op.attributes.get(NODE)
    if isinstance(node, BytesAttr):  # xDSL reads text that is not ASCII so
        return node.data.decode(errors="replace")
    return node.data if isinstance(node, StringAttr) else None


@irdl_attr_definition
class BoundsAttr(Data[Bounds], SpacedOpaqueSyntaxAttribute):
    """`#gather<bounds zero>`; printed as the bare word inside our ops."""

    name = "gather.bounds"

    def verify(self) -> None:
        if not isinstance(self.data, Bounds):
            raise VerifyException(f"gather.bounds: expected a Bounds, got {self.data!r}")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Bounds:
        words = [mode.value for mode in Bounds]
        start = parser.pos
        word = parser.parse_optional_identifier()
        if word not in words:
            got = f"got {word!r}{did_you_mean(word, words)}" if word else "as in `bounds zero` or #gather<bounds zero>"
            parser.raise_error(f"expected a bounds mode ({', '.join(words)}), {got}", start, parser.pos)
        return Bounds(word)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data.value)


def _dimension(parser: AttrParser) -> int:
    return parser.parse_integer(allow_boolean=False, allow_negative=False)


@irdl_attr_definition
class ViewAttr(Data[tuple[tuple[str, tuple[int, ...]], ...]]):
    """`#gather.view<batch[0], outer[], axis[1], inner[2, 3]>`: how a kernel sees an argument.

    Names each dimension and lists the dimensions of the caller's array that it merges; dimensions of size 1 are left
    out. Carried by the arguments of a function from `collapse-dims` on.
    """

    name = "gather.view"

    @classmethod
    def of(cls, operand: Operand) -> Self:
        """Return the attribute for one operand of a canonical gather."""
        return cls(tuple(zip(operand.dims, operand.groups, strict=True)))

    @property
    def dims(self) -> tuple[LoopName, ...]:
        """The name of each dimension."""
        return tuple(LoopName(name) for name, _ in self.data)

    @property
    def groups(self) -> Groups:
        """The dimensions of the caller's array that each dimension merges."""
        return tuple(group for _, group in self.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, tuple[int, ...]], ...]:
        def entry() -> tuple[str, tuple[int, ...]]:
            name = parser.parse_identifier("the name of a dimension")
            group = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _dimension(parser))
            return name, tuple(group)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry))

    def print_parameter(self, printer: Printer) -> None:
        entries = (f"{name}[{', '.join(map(str, group))}]" for name, group in self.data)
        printer.print_string(f"<{', '.join(entries)}>")


@irdl_attr_definition
class BytesType(ParametrizedAttribute, TypeAttribute):
    """`!gather.bytes<12, "|S12">`: an element known by its size in bytes and its NumPy name only."""

    name = "gather.bytes"
    size_bytes: IntegerAttr = param_def()
    numpy_name: StringAttr = param_def()

    def __init__(self, size_bytes: int, numpy_name: str):
        super().__init__(IntegerAttr(size_bytes, I64), StringAttr(numpy_name))

    def verify(self) -> None:
        size, name = self.size_bytes.value.data, self.numpy_name.data
        if name.startswith("void"):
            return
        try:
            known = parse_element_type(name).itemsize
        except InvalidGatherError as error:
            raise VerifyException(f"gather.bytes: {error}") from None
        if known != size:
            raise VerifyException(f"gather.bytes: expected {known} bytes for {name!r}, got {size}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            size = _dimension(parser)
            parser.parse_punctuation(",")
            return IntegerAttr(size, I64), StringAttr(parser.parse_str_literal())

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.size_bytes.value.data}, ")
            printer.print_string_literal(self.numpy_name.data)
