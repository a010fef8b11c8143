"""Levels 0 and 1 of the `gather` dialect: the operators, their gradients and the reductions.

All have a source, indices, and either a result (on tensors) or `into` (on memrefs), a bounds mode, and the name of the
operator version they came from. Their integer attributes, the shape of the result and the roles of dimensions are those
of their `SPEC`, a class of `ir.operator_spec`; `_operator` adds them to an operation. The source of a gather is data.

A gradient is a scatter-add: its source is `grad`, the gradient of the gather's result. Each slice of it is added to
the place where the gather reads that slice, in the order of the indices, onto zeros; the sums are multiplied by
`scale`. A slice whose index is outside under `bounds zero` adds nothing. Elements must have a sum: they are floats of
32 or 64 bits, integers (modulo their width), or complex.

A reduction sums the slices of each bag, the indices along the last dimension, from zero and in the order of the
indices. An index that is outside under `bounds zero` adds nothing; a bag without an index gives zeros. A mean is a sum
that is divided by its number of slices, or by 1 where the bag is empty, in the type of the sum. A gather_max begins
with the slice of the first index, and takes an element of a later slice where it is larger. So the first of equal
elements stays, and a NaN stays where it is the first element and is left out elsewhere. Under `bounds zero` an index
outside gives zeros where it is the first, and is left out elsewhere.
"""

import math
from abc import ABC
from collections.abc import Callable, Mapping
from typing import ClassVar, Self, TypeVar

import numpy as np
from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AnyOf,
    EqAttrConstraint,
    IRDLOperation,
    MessageConstraint,
    ParamAttrConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from ..canonical import Role
from ..element_types import check_scale
from ..errors import InvalidGatherError
from ..operator_spec import (
    Gather,
    GatherElements,
    GatherMax,
    GatherMean,
    GatherNd,
    GatherReduce,
    GatherWeighted,
    GatherWeightedMean,
    OperatorSpec,
    attribute_names,
)
from ..semantics import Bounds, Shape, shapes_agree, show_shape
from .attributes import I64, BoundsAttr

AnyShaped = TensorType | MemRefType


class OperatorOp(IRDLOperation, ABC):
    """The base class of the gather operators.

    `unsigned` says that the index type was unsigned before its signedness was erased; `version` names the operator
    it came from, such as "openvino.Gather-8".
    """

    SPEC: ClassVar[type[OperatorSpec]]
    # The integer attributes, in the order in which they print.
    INTEGERS: ClassVar[tuple[str, ...]]
    # Properties that not all operators have, as a part of their text.
    OWN_FORMAT: ClassVar[str] = ""
    # Messages use these names for the source, and for the array that has a slice for each index.
    SOURCE: ClassVar[str] = "data"
    SLICES: ClassVar[str] = "a result"

    source = operand_def(AnyOf((base(TensorType), base(MemRefType))))
    indices = operand_def(AnyOf((base(TensorType), base(MemRefType))))
    out = opt_operand_def(base(MemRefType))
    result = opt_result_def(MessageConstraint(base(TensorType), "expected a tensor type for the result"))

    bounds = prop_def(BoundsAttr)
    unsigned = opt_prop_def(UnitAttr)
    version = opt_prop_def(StringAttr)

    def __init__(
        self,
        source: SSAValue,
        indices: SSAValue,
        out: SSAValue | None = None,
        *,
        bounds: Bounds,
        unsigned: bool = False,
        version: str | None = None,
        result_type: TensorType | None = None,
        integers: Mapping[str, int],
    ):
        super().__init__(
            operands=[source, indices, out],
            result_types=[result_type],
            properties={
                **{name: IntegerAttr(integers[name], I64) for name in self.INTEGERS},
                "bounds": BoundsAttr(bounds),
                "unsigned": UnitAttr() if unsigned else None,
                "version": StringAttr(version) if version else None,
            },
        )

    @property
    def target(self) -> SSAValue:
        """The value that is written: the result on tensors, `into` on memrefs."""
        target = self.result if self.result is not None else self.out
        assert target is not None
        return target

    @property
    def table(self) -> SSAValue:
        """The value that the indices point into; it has the shape of data."""
        return self.source

    @property
    def slices(self) -> SSAValue:
        """The value that has one slice for each index, and so the shape of the gather's result."""
        return self.target

    def integer(self, name: str) -> int:
        """Return an integer attribute, negative where the source wrote it so."""
        value = self.properties[name]
        assert isinstance(value, IntegerAttr)
        return value.value.data

    def shapes(self) -> tuple[Shape, Shape]:
        """Return the shapes of data and indices."""
        data, indices = self.table.type, self.operands[1].type
        assert isinstance(data, AnyShaped) and isinstance(indices, AnyShaped)
        return data.get_shape(), indices.get_shape()

    def spec(self) -> OperatorSpec:
        """Return the operator as a value, with its attributes as they are written."""
        return self.SPEC(*map(self.integer, self.INTEGERS))

    def normalized(self) -> OperatorSpec:
        """Return the operator as a value, checked against the shapes; raises InvalidGatherError."""
        data, indices = self.shapes()
        has_tail = self.SPEC is GatherElements  # dimensions of data after the rank of indices belong to its elements
        return self.spec().normalized(data[: len(indices)] if has_tail else data, indices)

    def normalize(self) -> None:
        """Make the integer attributes non-negative; raises InvalidGatherError."""
        for name, value in self.normalized().attributes().items():
            self.properties[name] = IntegerAttr(value, I64)

    def roles(self) -> tuple[Role, ...]:
        """Return the role of each dimension; raises InvalidGatherError."""
        data, indices = self.shapes()
        return self.normalized().roles(len(data), indices)

    def infer_type(self) -> TensorType:
        """Return the type of the gather's result on tensors; raises InvalidGatherError."""
        assert isinstance(self.source.type, AnyShaped)
        return TensorType(self.source.type.element_type, self.normalized().result_shape(*self.shapes()))

    def into(self, source: SSAValue, indices: SSAValue, out: SSAValue) -> Self:
        """Return the same operator on memrefs, with every attribute it has."""
        return type(self).create(
            operands=[source, indices, out], properties=self.properties, attributes=self.attributes
        )

    def verify_(self) -> None:
        self._verify_form()
        self._verify_indices()
        try:
            expected = self.infer_type()
        except InvalidGatherError as error:
            raise VerifyException(f"{self.name}: {error}") from None
        target, slices = self.target.type, self.slices.type
        assert isinstance(target, AnyShaped) and isinstance(slices, AnyShaped)
        if target.element_type != expected.element_type:
            raise VerifyException(
                f"{self.name}: expected element type {expected.element_type} as {self.SOURCE} has, "
                f"got {target.element_type}"
            )
        wanted, got = expected.get_shape(), slices.get_shape()
        if not shapes_agree(wanted, got):
            raise VerifyException(
                f"{self.name}: expected {self.SLICES} of shape {show_shape(wanted)}, got {show_shape(got)}"
            )

    def _verify_form(self) -> None:
        source, indices = self.source.type, self.indices.type
        if type(source) is not type(indices):
            raise VerifyException(f"{self.name}: expected {self.SOURCE} and indices both tensors or both memrefs")
        if isinstance(source, TensorType) == (self.out is not None):
            raise VerifyException(
                f"{self.name}: expected a result and no `into` on tensors, `into` and no result on memrefs"
            )
        if (self.out is None) == (self.result is None):
            raise VerifyException(f"{self.name}: expected either a result or `into`, not both or neither")
        if self.out in (self.source, self.indices):
            raise VerifyException(f"{self.name}: expected `into` another memref than {self.SOURCE} and indices")

    def _verify_indices(self) -> None:
        assert isinstance(self.indices.type, AnyShaped)
        element = self.indices.type.element_type
        if not isinstance(element, IntegerType) or element.width.data not in (8, 16, 32, 64):
            raise VerifyException(f"{self.name}: expected indices of an integer type of 8 to 64 bits, got {element}")
        if self.unsigned is not None and element.signedness.data is not Signedness.SIGNLESS:
            raise VerifyException(f"{self.name}: `unsigned` is for erased index types; {element} says it by itself")


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
    """The base of gradients: the source is the gradient of the gather's result, the result is the gradient of data."""

    SOURCE: ClassVar[str] = "grad"
    SLICES: ClassVar[str] = "grad"
    OWN_FORMAT: ClassVar[str] = "(`scale` $scale^)?"

    scale = opt_prop_def(ParamAttrConstraint(FloatAttr, (AnyAttr(), EqAttrConstraint(f64))))

    @property
    def table(self) -> SSAValue:
        """The gradient of data."""
        return self.target

    @property
    def slices(self) -> SSAValue:
        """The gradient of the gather's result."""
        return self.source

    @property
    def factor(self) -> float:
        """The number that the sums are multiplied by."""
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


class ReductionOp(OperatorOp):
    """The base class of reductions: slices are along the first axis of data, bags along the last one of indices."""

    @property
    def divides(self) -> bool:
        """Whether each sum is divided by the number of slices in it."""
        assert issubclass(self.SPEC, GatherReduce)
        return self.SPEC.divides

    def sum_type(self) -> Attribute:
        """Return the type in which elements are added: f32 for narrower floats."""
        assert isinstance(self.source.type, AnyShaped)
        element = self.source.type.element_type
        return Float32Type() if isinstance(element, Float16Type | BFloat16Type) else element

    def infer_type(self) -> TensorType:
        return TensorType(self.sum_type(), super().infer_type().get_shape())

    def verify_(self) -> None:
        super().verify_()
        assert isinstance(self.source.type, AnyShaped)
        element, total = self.source.type.element_type, self.sum_type()
        if not isinstance(total, Float32Type):
            verify_summed(self)
        if self.divides and not isinstance(total, Float32Type | Float64Type):
            raise VerifyException(f"{self.name}: expected floats, got {total}")
        is_unsigned = isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED
        if self.SPEC is GatherMax and (is_unsigned or isinstance(element, ComplexType)):
            raise VerifyException(f"{self.name}: expected floats or signed integers, got {element}")


class WeightedOp(ReductionOp):
    """The base class of the weighted sum and mean, whose indices have the bits of a weight beside each of them."""

    OWN_FORMAT: ClassVar[str] = "(`unsigned_data` $unsigned_data^)?"

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


_Kind = TypeVar("_Kind", bound=OperatorOp)


def _operator(spec: type[OperatorSpec], suffix: str = "") -> Callable[[type[_Kind]], type[_Kind]]:
    """Return a decorator that makes a class an operation: it adds the operator's name, integer attributes and text."""

    def define(kind: type[_Kind]) -> type[_Kind]:
        kind.name, kind.SPEC, kind.INTEGERS = f"gather.{spec.name}{suffix}", spec, attribute_names(spec)
        kind.__annotations__ |= {"SPEC": ClassVar, "INTEGERS": ClassVar}  # without these xDSL takes them for fields
        for name in kind.INTEGERS:
            setattr(kind, name, prop_def(IntegerAttr.constr(builtin.I64)))
        integers = " ".join(f"`{name}` ${name}" for name in kind.INTEGERS)
        kind.assembly_format = (
            f"$source `,` $indices (`into` $out^)? {integers} `bounds` $bounds {kind.OWN_FORMAT} "
            "(`unsigned` $unsigned^)? (`version` $version^)? attr-dict "
            "`:` type($source) `,` type($indices) (`,` type($out)^)? (`->` type($result)^)?"
        )
        return irdl_op_definition(kind)

    return define


@_operator(Gather)
class GatherOp(OperatorOp):
    """Slices of data along one axis.

    ```
    %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds error
         : tensor<2x3xf32>, tensor<4xi64> -> tensor<2x4xf32>
    gather.gather %data, %indices into %out axis 1 batch_dims 0 bounds zero : memref<...>, memref<...>, memref<...>
    ```
    """


@_operator(GatherNd)
class GatherNdOp(OperatorOp):
    """Slices of data by tuples of indices, which lie along the last dimension of indices.

    ```
    %r = gather.gather_nd %data, %indices batch_dims 0 bounds error
         : tensor<2x3x4xf32>, tensor<5x2xi64> -> tensor<5x4xf32>
    ```
    """


@_operator(GatherElements)
class GatherElementsOp(OperatorOp):
    """Elements of data, each by an index of its own along one axis.

    Dimensions of data after the rank of indices belong to the elements, and are copied whole.

    ```
    %r = gather.gather_elements %data, %indices axis 1 bounds error
         : tensor<2x3xf32>, tensor<2x5xi64> -> tensor<2x5xf32>
    ```
    """


@_operator(Gather, "_grad")
class GatherGradOp(GradientOp):
    """The gradient of `gather.gather` with respect to data.

    ```
    %r = gather.gather_grad %grad, %indices axis 1 batch_dims 0 bounds error scale 5.000000e-01
         : tensor<2x4xf32>, tensor<4xi64> -> tensor<2x3xf32>
    ```
    """


@_operator(GatherNd, "_grad")
class GatherNdGradOp(GradientOp):
    """The gradient of `gather.gather_nd` with respect to data.

    ```
    %r = gather.gather_nd_grad %grad, %indices batch_dims 0 bounds error
         : tensor<5x4xf32>, tensor<5x2xi64> -> tensor<2x3x4xf32>
    ```
    """


@_operator(GatherElements, "_grad")
class GatherElementsGradOp(GradientOp):
    """The gradient of `gather.gather_elements` with respect to data.

    ```
    %r = gather.gather_elements_grad %grad, %indices axis 1 bounds error
         : tensor<2x5xf32>, tensor<2x5xi64> -> tensor<2x3xf32>
    ```
    """


@_operator(GatherReduce)
class GatherReduceOp(ReductionOp):
    """Sums of slices of data along its first axis, one for each bag.

    ```
    %r = gather.gather_reduce %data, %indices bounds error
         : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x4xf32>
    ```
    """


@_operator(GatherMean)
class GatherMeanOp(ReductionOp):
    """Means of slices of data along its first axis, one for each bag; of floats.

    ```
    %r = gather.gather_mean %data, %indices bounds zero
         : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x4xf32>
    ```
    """


@_operator(GatherMax)
class GatherMaxOp(ReductionOp):
    """The largest of the slices of data along its first axis, for each bag; of floats and signed integers.

    ```
    %r = gather.gather_max %data, %indices bounds error
         : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x4xf32>
    ```
    """


@_operator(GatherWeighted)
class GatherWeightedOp(WeightedOp):
    """Sums of slices of data along its first axis, each multiplied by the weight whose bits stand beside its index.

    ```
    %r = gather.gather_weighted %data, %indices bounds zero
         : tensor<9x4xf16>, tensor<2x3x2xi32> -> tensor<2x4xf32>
    ```

    Data of f16, bf16, f32 and integers of 8 bits have indices of i32, beside weights of f32; data of f64 have indices
    of i64, beside weights of f64. A third place has the bits of a bias, which is added to the product. `unsigned_data`
    says that integers were unsigned before their signedness was erased.
    """


@_operator(GatherWeightedMean)
class GatherWeightedMeanOp(WeightedOp):
    """Means of slices of data along its first axis, multiplied by weights as gather_weighted does.

    ```
    %r = gather.gather_weighted_mean %data, %indices bounds zero unsigned_data
         : tensor<9x4xi8>, tensor<2x3x3xi32> -> tensor<2x4xf32>
    ```
    """
