"""Levels 0 and 1 of the `gather` dialect: the reductions of gathered slices.

A gather_reduce sums the slices of each bag, the indices along the last dimension, from zero and in the order of the
indices. An index that is outside under `bounds zero` adds nothing; a bag without an index gives zeros.

A gather_max begins with the slice of the first index, and takes an element of a later one where it is larger. So of
equal elements the first stays, a NaN stays where it is the first, and is left out where it is not. Under `bounds zero`
an index outside gives zeros where it is the first, and is left out where it is not.

A mean is a sum that is divided by the number of slices in it, in the type of the sum; that of an empty bag by 1.
"""

from typing import ClassVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, opt_prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ..operator_spec import GatherMax, GatherMean, GatherReduce, GatherWeighted, GatherWeightedMean
from .gather_ops import AnyShaped, OperatorOp
from .gradient_ops import verify_summed


class ReductionOp(OperatorOp):
    """What every reduction has: slices along the first axis of data, and bags along the last dimension of indices."""

    INTEGERS: ClassVar = ()

    @property
    def divides(self) -> bool:
        """Whether each sum is divided by the number of slices in it."""
        assert issubclass(self.SPEC, GatherReduce)
        return self.SPEC.divides

    def sum_type(self) -> Attribute:
        """Return the type that elements have when they are added: f32 of narrower floats."""
        assert isinstance(self.source.type, AnyShaped)
        element = self.source.type.element_type
        return Float32Type() if isinstance(element, Float16Type | BFloat16Type) else element

    def infer_type(self) -> TensorType:
        return TensorType(self.sum_type(), super().infer_type().get_shape())

    def verify_(self) -> None:
        super().verify_()
        if not isinstance(self.sum_type(), Float32Type):
            verify_summed(self)


@irdl_op_definition
class GatherReduceOp(ReductionOp):
    """Sums of slices of data along its first axis, one for each bag.

    ```
    %r = gather.gather_reduce %data, %indices bounds error
         : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x4xf32>
    ```
    """

    name = "gather.gather_reduce"
    SPEC: ClassVar = GatherReduce


@irdl_op_definition
class GatherMeanOp(ReductionOp):
    """Means of slices of data along its first axis, one for each bag; of floats.

    ```
    %r = gather.gather_mean %data, %indices bounds zero
         : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x4xf32>
    ```
    """

    name = "gather.gather_mean"
    SPEC: ClassVar = GatherMean

    def verify_(self) -> None:
        super().verify_()
        if not isinstance(self.sum_type(), Float32Type | Float64Type):
            raise VerifyException(f"gather.gather_mean: expected floats, got {self.sum_type()}")


@irdl_op_definition
class GatherMaxOp(ReductionOp):
    """The largest of the slices of data along its first axis, for each bag; of floats and signed integers.

    ```
    %r = gather.gather_max %data, %indices bounds error
         : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x4xf32>
    ```
    """

    name = "gather.gather_max"
    SPEC: ClassVar = GatherMax

    def verify_(self) -> None:
        super().verify_()
        assert isinstance(self.source.type, AnyShaped)
        element = self.source.type.element_type
        is_unsigned = isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED
        if is_unsigned or isinstance(element, ComplexType):
            raise VerifyException(f"gather.gather_max: expected floats or signed integers, got {element}")


class WeightedOp(ReductionOp):
    """What the weighted sum and the weighted mean have: indices with the bits of a weight beside each of them."""

    unsigned_data = opt_prop_def(UnitAttr)

    def sum_type(self) -> Attribute:
        assert isinstance(self.source.type, AnyShaped)
        return Float64Type() if self.source.type.element_type == Float64Type() else Float32Type()

    def verify_(self) -> None:
        super().verify_()
        assert isinstance(self.source.type, AnyShaped) and isinstance(self.indices.type, AnyShaped)
        element, index = self.source.type.element_type, self.indices.type.element_type
        is_byte = isinstance(element, IntegerType) and element.width.data == 8
        if not is_byte and not isinstance(element, Float16Type | BFloat16Type | Float32Type | Float64Type):
            raise VerifyException(f"{self.name}: expected floats or integers of 8 bits, got {element}")
        if index != IntegerType(64 if element == Float64Type() else 32):
            raise VerifyException(f"{self.name}: expected indices as wide as the weights, got {index}")

    def print_more(self, printer: Printer) -> None:
        if self.unsigned_data is not None:
            printer.print_string(" unsigned_data")

    @classmethod
    def parse_more(cls, parser: Parser) -> dict[str, Attribute]:
        return {"unsigned_data": UnitAttr()} if parser.parse_optional_keyword("unsigned_data") else {}


@irdl_op_definition
class GatherWeightedOp(WeightedOp):
    """Sums of slices of data along its first axis, each multiplied by the weight whose bits stand beside its index.

    ```
    %r = gather.gather_weighted %data, %indices bounds zero
         : tensor<9x4xf16>, tensor<2x3x2xi32> -> tensor<2x4xf32>
    ```

    Data of f16, bf16, f32 and integers of 8 bits have indices of i32, beside weights of f32; data of f64 have those of
    i64, beside weights of f64. A third place has the bits of a bias, which is added to the product. `unsigned_data`
    says that integers were unsigned before their signedness was erased.
    """

    name = "gather.gather_weighted"
    SPEC: ClassVar = GatherWeighted


@irdl_op_definition
class GatherWeightedMeanOp(WeightedOp):
    """Means of slices of data along its first axis, multiplied as those of a gather_weighted are.

    ```
    %r = gather.gather_weighted_mean %data, %indices bounds zero unsigned_data
         : tensor<9x4xi8>, tensor<2x3x3xi32> -> tensor<2x4xf32>
    ```
    """

    name = "gather.gather_weighted_mean"
    SPEC: ClassVar = GatherWeightedMean
