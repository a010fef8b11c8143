"""Levels 0 and 1 of the `gather` dialect: the gradients of the operators.

A gradient is a scatter-add: each slice of `grad` is added to where the gather of the same attributes would have read
it, in the order of the indices, onto zeros; the sums are multiplied by `scale`. A slice whose index is outside under
`bounds zero` adds nothing. Elements have a sum: floats of 32 or 64 bits, integers (modulo their width), and complex.
"""

import math
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ComplexType, Float32Type, Float64Type, FloatAttr, IntegerAttr, IntegerType, f64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ..element_types import check_scale
from ..errors import InvalidGatherError
from ..operator_spec import Gather, GatherElements, GatherNd
from .gather_ops import AnyShaped, OperatorOp


def verify_summed(op: OperatorOp) -> np.dtype:
    """Check that the elements of an operator have a sum, and return their dtype; signs do not matter to a sum.

    Raises:
        VerifyException: they are no floats of 32 or 64 bits, complex of them, or integers of 8 to 64 bits.
    """
    assert isinstance(op.source.type, AnyShaped)
    element = op.source.type.element_type
    number = element.element_type if isinstance(element, ComplexType) else element
    is_integer = isinstance(element, IntegerType) and element.width.data in (8, 16, 32, 64)
    if not (is_integer and isinstance(number, IntegerType)) and not isinstance(number, Float32Type | Float64Type):
        raise VerifyException(
            f"{op.name}: expected elements of f32, f64, a complex of them or integers of 8 to 64 bits, got "
            f"{element}; narrower floats are summed in f32"
        )
    width = number.bitwidth // 8
    return np.dtype(f"c{2 * width}" if number is not element else f"{'i' if is_integer else 'f'}{width}")


class GradientOp(OperatorOp):
    """What every gradient has: the gradient of what the gather gave as its source, and that of data as its result."""

    SOURCE: ClassVar[str] = "grad"
    SLICES: ClassVar[str] = "grad"

    scale = opt_prop_def(FloatAttr)

    @property
    def table(self) -> SSAValue:
        """The gradient of data."""
        return self.target

    @property
    def slices(self) -> SSAValue:
        """The gradient of what the gather gave."""
        return self.source

    @property
    def factor(self) -> float:
        """What the sums are multiplied by."""
        return 1.0 if self.scale is None else self.scale.value.data

    def verify_(self) -> None:
        super().verify_()
        dtype = verify_summed(self)
        if not math.isfinite(self.factor):
            raise VerifyException(f"{self.name}: expected a finite scale, got {self.factor}")
        try:
            check_scale(self.factor, dtype)
        except InvalidGatherError as error:
            raise VerifyException(f"{self.name}: {error}") from None

    def print_more(self, printer: Printer) -> None:
        if self.scale is not None:
            printer.print_string(" scale ")
            printer.print_float(self.scale.value.data, f64)

    @classmethod
    def parse_more(cls, parser: Parser) -> dict[str, Attribute]:
        if parser.parse_optional_keyword("scale") is None:
            return {}
        return {"scale": FloatAttr(float(parser.parse_number()), f64)}


@irdl_op_definition
class GatherGradOp(GradientOp):
    """The gradient of `gather.gather` with respect to data.

    ```
    %r = gather.gather_grad %grad, %indices axis 1 batch_dims 0 bounds error scale 5.000000e-01
         : tensor<2x4xf32>, tensor<4xi64> -> tensor<2x3xf32>
    ```
    """

    name = "gather.gather_grad"
    SPEC: ClassVar = Gather
    INTEGERS: ClassVar = ("axis", "batch_dims")

    axis = prop_def(IntegerAttr)
    batch_dims = prop_def(IntegerAttr)


@irdl_op_definition
class GatherNdGradOp(GradientOp):
    """The gradient of `gather.gather_nd` with respect to data.

    ```
    %r = gather.gather_nd_grad %grad, %indices batch_dims 0 bounds error
         : tensor<5x4xf32>, tensor<5x2xi64> -> tensor<2x3x4xf32>
    ```
    """

    name = "gather.gather_nd_grad"
    SPEC: ClassVar = GatherNd
    INTEGERS: ClassVar = ("batch_dims",)

    batch_dims = prop_def(IntegerAttr)


@irdl_op_definition
class GatherElementsGradOp(GradientOp):
    """The gradient of `gather.gather_elements` with respect to data.

    ```
    %r = gather.gather_elements_grad %grad, %indices axis 1 bounds error
         : tensor<2x5xf32>, tensor<2x5xi64> -> tensor<2x3xf32>
    ```
    """

    name = "gather.gather_elements_grad"
    SPEC: ClassVar = GatherElements
    INTEGERS: ClassVar = ("axis",)
    IGNORES_TAIL: ClassVar = True

    axis = prop_def(IntegerAttr)
