"""Levels 0 and 1 of the `gather` dialect: the reductions of gathered slices.

A gather_reduce sums the slices of each bag, the indices along the last dimension, from zero and in the order of the
indices. An index that is outside under `bounds zero` adds nothing; a bag without an index gives zeros.

A gather_max begins with the slice of the first index, and takes an element of a later one where it is larger. So of
equal elements the first stays, a NaN stays where it is the first, and is left out where it is not. Under `bounds zero`
an index outside gives zeros where it is the first, and is left out where it is not.
"""

from typing import ClassVar

from xdsl.dialects.builtin import ComplexType, IntegerType, Signedness
from xdsl.irdl import irdl_op_definition
from xdsl.utils.exceptions import VerifyException

from ..operator_spec import GatherMax, GatherReduce
from .gather_ops import AnyShaped, OperatorOp
from .gradient_ops import verify_summed


class ReductionOp(OperatorOp):
    """What every reduction has: slices along the first axis of data, and bags along the last dimension of indices."""

    INTEGERS: ClassVar = ()

    def verify_(self) -> None:
        super().verify_()
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
