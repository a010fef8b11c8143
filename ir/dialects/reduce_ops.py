"""Levels 0 and 1 of the `gather` dialect: the reduction of gathered slices.

A gather_reduce sums the slices of each bag, the indices along the last dimension, from zero and in the order of the
indices. An index that is outside under `bounds zero` adds nothing; a bag without an index gives zeros.
"""

from typing import ClassVar

from xdsl.irdl import irdl_op_definition

from ..operator_spec import GatherReduce
from .gather_ops import OperatorOp
from .gradient_ops import verify_summed


@irdl_op_definition
class GatherReduceOp(OperatorOp):
    """Sums of slices of data along its first axis, one for each bag.

    ```
    %r = gather.gather_reduce %data, %indices bounds error
         : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x4xf32>
    ```
    """

    name = "gather.gather_reduce"
    SPEC: ClassVar = GatherReduce
    INTEGERS: ClassVar = ()

    def verify_(self) -> None:
        super().verify_()
        verify_summed(self)
