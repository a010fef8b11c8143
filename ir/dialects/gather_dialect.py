"""The `gather` dialect: the operators, and the loop nest with named loops that they become.

| op                       | level | meaning                                                                   |
|--------------------------|-------|---------------------------------------------------------------------------|
| `gather.gather`          | 0, 1  | slices along an axis; a result on tensors, written `into` out on memrefs  |
| `gather.gather_nd`       | 0, 1  | slices by tuples of indices                                               |
| `gather.gather_elements` | 0, 1  | elements, each by an index of its own                                     |
| `gather.gather_grad`, `gather.gather_nd_grad`, `gather.gather_elements_grad` | 0, 1 | their gradients: a scatter-add |
| `gather.gather_reduce`   | 0, 1  | the sum of the slices of each bag, the indices along the last dimension   |
| `gather.gather_weighted` | 0, 1  | that sum of slices multiplied by weights, which stand beside the indices  |
| `gather.gather_mean`, `gather.gather_weighted_mean` | 0, 1 | both sums, divided by the number of slices in each |
| `gather.gather_max`      | 0, 1  | the largest of the slices of each bag                                     |
| `gather.loop`            | 2, 3  | one named loop of the nest; may be parallel; may sum its body's values    |
| `gather.yield`           | 2, 3  | the end of a loop body                                                    |
| `gather.resolve`         | 2, 3  | an index to a position and whether it is valid, by a bounds mode          |
| `gather.masked_load`     | 2, 3  | a load that gives zero, and touches nothing, where its mask is false      |
| `gather.accumulate`      | 2, 3  | adds to an element in memory, or takes the larger, where its mask is true |

Everything else in a nest is upstream `arith`, `memref`, `scf` and `func`. The kernel's contract holds at every level:
`out` overlaps neither `data` nor `indices`. Another thread may write to `indices` during a call: then two loads of an
index may give two values, and neither leads to an access outside of `data` or `out`.
"""

from xdsl.ir import Dialect

from .attributes import I64, BoundsAttr, BytesType, ViewAttr
from .gather_ops import (
    AnyShaped,
    GatherElementsGradOp,
    GatherElementsOp,
    GatherGradOp,
    GatherMaxOp,
    GatherMeanOp,
    GatherNdGradOp,
    GatherNdOp,
    GatherOp,
    GatherReduceOp,
    GatherWeightedMeanOp,
    GatherWeightedOp,
    GradientOp,
    OperatorOp,
    ReductionOp,
    WeightedOp,
)
from .nest_ops import AccumulateOp, LoopOp, MaskedLoadOp, ResolveOp, YieldOp

__all__ = [
    "I64",
    "AccumulateOp",
    "AnyShaped",
    "BoundsAttr",
    "BytesType",
    "Gather",
    "GatherElementsGradOp",
    "GatherElementsOp",
    "GatherGradOp",
    "GatherMaxOp",
    "GatherMeanOp",
    "GatherNdGradOp",
    "GatherNdOp",
    "GatherOp",
    "GatherReduceOp",
    "GatherWeightedMeanOp",
    "GatherWeightedOp",
    "GradientOp",
    "LoopOp",
    "MaskedLoadOp",
    "OperatorOp",
    "ReductionOp",
    "ResolveOp",
    "ViewAttr",
    "WeightedOp",
    "YieldOp",
]

Gather = Dialect(
    "gather",
    [
        *(GatherOp, GatherNdOp, GatherElementsOp, GatherGradOp, GatherNdGradOp, GatherElementsGradOp),
        *(GatherReduceOp, GatherMeanOp, GatherMaxOp, GatherWeightedOp, GatherWeightedMeanOp),
        *(LoopOp, YieldOp, ResolveOp, MaskedLoadOp, AccumulateOp),
    ],
    [BoundsAttr, ViewAttr, BytesType],
)
