"""The pass `gather-to-slice`: constant indices at regular steps need no indices."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.attributes import NODE
from ....ir.dialects.gather_dialect import GatherOp
from ....ir.dialects.graph_op import GraphOp, no_elements
from ....ir.dialects.graph_ops import SliceOp, SqueezeOp, UnsqueezeOp
from ....ir.modules.weights import weights_of
from ....ir.operator_spec import Gather
from ....ir.semantics import DYNAMIC, Bounds
from .graph_queries import constant_gathers, replace_result


@dataclass(frozen=True)
class GatherToSlice(ModulePass):
    """Turn a gather by an arithmetic run of indices into a slice.

    Indices that are a start and a constant step, which may be negative, become `graph.slice`: a view of data, copied
    where it is used. A single index of rank 0 drops its axis with `graph.squeeze`; dimensions of size 1 that the
    indices have beside the run come with `graph.unsqueeze`.

    Preconditions: tensors, constant indices that `check-constant-indices` has checked (`bounds unchecked`), an indexed
    axis of static size, no batch dimensions.

    Input:
        %i = arith.constant dense<[4, 2, 0]> : tensor<3xi64>
        %r = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked
            : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
    Output:
        %r = graph.slice %x axis 0 start 4 step -2 count 3 : tensor<5x4xf32> -> tensor<3x4xf32>

    What it does not do: indices that repeat, and those of more than one dimension that is not of size 1.
    """

    name = "gather-to-slice"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for gather, values in list(constant_gathers(op, weights_of(ctx))):
            operator = gather.normalized()
            if isinstance(gather, GatherOp) and isinstance(operator, Gather):
                run = _run_of(gather, operator, values)
                if run is not None:
                    _replace(gather, operator.axis, values.shape, run)


def _run_of(gather: GatherOp, operator: Gather, values: np.ndarray) -> tuple[int, int, int] | None:
    """Return start, step and count of the run that indices are, or None."""
    size = gather.shapes()[0][operator.axis]
    if gather.bounds.data is not Bounds.UNCHECKED or operator.batch_dims or size == DYNAMIC:
        return None
    if gather.result is None or gather.result.type != gather.infer_type():
        return None
    if values.size == 0 or sum(extent != 1 for extent in values.shape) > 1:
        return None
    if not 0 <= values.min() <= values.max() < size:
        return None
    flat = values.reshape(-1).astype(np.int64)
    step = int(flat[1] - flat[0]) if flat.size > 1 else 1
    if step == 0 or not np.array_equal(flat, flat[0] + step * np.arange(flat.size)):
        return None
    return int(flat[0]), step, flat.size


def _replace(gather: GatherOp, axis: int, shape: tuple[int, ...], run: tuple[int, int, int]) -> None:
    start, step, count = run
    value: SSAValue = gather.source
    if (start, step, count) != (0, 1, gather.shapes()[0][axis]):
        value = _insert(SliceOp, gather, value, axis=axis, start=start, step=step, count=count)
    if not shape:
        value = _insert(SqueezeOp, gather, value, axes=(axis,))
    elif len(shape) > 1:
        kept = next((dim for dim, extent in enumerate(shape) if extent != 1), 0)
        value = _insert(UnsqueezeOp, gather, value, axes=tuple(axis + dim for dim in range(len(shape)) if dim != kept))
    replace_result(gather, value)


def _insert(kind: type[GraphOp], gather: GatherOp, value: SSAValue, **fields: Any) -> SSAValue:
    op: IRDLOperation = kind.inferred([value], no_elements, **fields)
    if NODE in gather.attributes:
        op.attributes[NODE] = gather.attributes[NODE]
    Rewriter.insert_op(op, InsertPoint.before(gather))
    return op.results[0]
