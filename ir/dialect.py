"""The `gather` dialect: the operators, and the loop nest with named loops that they become.

| op                   | level | what it says                                                              |
|----------------------|-------|---------------------------------------------------------------------------|
| `gather.gather`      | 0, 1  | the operator: on tensors it has a result, on memrefs it writes into `out` |
| `gather.loop`        | 2, 3  | one named loop of the nest; may be parallel; may sum what its body yields |
| `gather.yield`       | 2, 3  | the end of a loop body                                                    |
| `gather.resolve`     | 2, 3  | an index to a position and whether it is valid, by a bounds mode          |
| `gather.masked_load` | 2, 3  | a load that gives zero, and touches nothing, where its mask is false      |

Everything else in a nest is upstream `arith`, `memref`, `scf` and `func`. The kernel's contract holds at every level:
`out` overlaps neither `data` nor `indices`, and no other thread writes to them meanwhile.
"""

from xdsl.ir import Dialect

from .attributes import I64, BoundsAttr, BytesType, ViewAttr
from .nest_ops import LoopOp, MaskedLoadOp, ResolveOp, YieldOp
from .operators import AnyShaped, GatherOp

__all__ = [
    "I64",
    "AnyShaped",
    "BoundsAttr",
    "BytesType",
    "Gather",
    "GatherOp",
    "LoopOp",
    "MaskedLoadOp",
    "ResolveOp",
    "ViewAttr",
    "YieldOp",
]

Gather = Dialect("gather", [GatherOp, LoopOp, YieldOp, ResolveOp, MaskedLoadOp], [BoundsAttr, ViewAttr, BytesType])
