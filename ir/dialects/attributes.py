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

# An argument has the `#gather.view` through which the function sees the caller's array.
VIEW = "gather.view"
# A tensor argument or result has the strides of an array that is not contiguous.
BYTE_STRIDES = "gather.byte_strides"
# A function has the least size of each indexed axis for which its code is right.
MIN_AXIS_SIZES = "gather.min_axis_sizes"
# A function has this where its code is right only for axes of less than 2**31, whose positions fit in 32 bits.
NARROW_AXES = "gather.narrow_axes"
# A function has the largest size of an axis for which its code is right.
MOST_AXIS_SIZE = "gather.most_axis_size"
# A function has the fewest and the most elements of a row for which its code is right; 0 sets no upper limit.
ROW_SIZES = "gather.row_sizes"
# A function has this where out is new: if it returns a number other than 0, out holds anything and is discarded.
FRESH_OUT = "gather.fresh_out"
# An argument that is a number has its value, the scale of a gradient.
SCALE = "gather.scale"
# An operator has the name of the graph node that it came from.
NODE = "gather.node"
# An operator has the names of its node's outputs, an array of strings.
OUTPUTS = "gather.outputs"
# A `vector.from_elements` has this where one gather instruction loads its elements.
GATHERED = "gathered"
# An upstream loop has the names of the loops that it was made from, separated by commas.
LOOP_NAMES = "gather.loops"


def node_name(op: Operation) -> str | None:
    """Return the name of the node that an operation came from, or None where it came from none."""
    node = op.attributes.get(NODE)
    if isinstance(node, BytesAttr):  # xDSL reads text that is not ASCII as bytes
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
    """`#gather.view<batch[0], outer[], axis[1], inner[2, 3]>`: the dimensions of an argument, as a kernel sees them.

    It names each dimension and lists the dimensions of the caller's array that it merges; dimensions of size 1 are left
    out. The arguments of a function have it from `collapse-dims` on.
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
