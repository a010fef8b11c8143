"""The pass `gather-to-slice`: constant indices at regular steps need no indices."""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.tensor import ExtractSliceOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from ....ir.dialects.attributes import NODE
from ....ir.dialects.gather_dialect import GatherOp
from ....ir.operator_spec import Gather
from ....ir.semantics import DYNAMIC, Bounds
from ...nest.builder import rewrite_ops
from ...nest.constant_indices import AnyGather, ConstantGatherPattern


@dataclass(frozen=True)
class GatherToSlice(ModulePass):
    """Turn a gather by an arithmetic run of indices into a slice.

    Indices that are a start and a constant step become upstream's `tensor.extract_slice`: a view of data, copied where
    it is used. A single index of rank 0 drops its axis, as the type of the result says.

    Preconditions: tensors of static sizes, constant indices that `check-constant-indices` has checked (`bounds
    unchecked`), no batch dimensions.

    Input:
        %i = arith.constant dense<[0, 2, 4]> : tensor<3xi64>
        %r = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked
            : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
    Output:
        %r = tensor.extract_slice %x[0, 0] [3, 4] [2, 1] : tensor<5x4xf32> to tensor<3x4xf32>

    What it does not do: indices that repeat or fall, and those of rank 2 or more.
    """

    name = "gather-to-slice"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_ops(op, _Slice())


class _Slice(ConstantGatherPattern):
    def rewrite_gather(self, gather: AnyGather, values: np.ndarray, rewriter: PatternRewriter) -> None:
        operator = gather.normalized()
        run = None
        if isinstance(gather, GatherOp) and isinstance(operator, Gather):
            run = _run_of(gather, operator, values)
        if run is None:
            return
        assert isinstance(operator, Gather)
        shape, axis, result = gather.shapes()[0], operator.axis, gather.results[0]
        if run == (0, 1, shape[axis]) and result.type == gather.source.type:
            rewriter.replace(gather, (), [gather.source])
            return
        offsets, sizes, strides = [0] * len(shape), [*shape], [1] * len(shape)
        offsets[axis], strides[axis], sizes[axis] = run
        op = ExtractSliceOp(gather.source, offsets, sizes, strides, result.type)
        if NODE in gather.attributes:
            op.attributes[NODE] = gather.attributes[NODE]
        rewriter.replace(gather, op)


def _run_of(gather: GatherOp, operator: Gather, values: np.ndarray) -> tuple[int, int, int] | None:
    """Return start, step and count of the run that indices are, or None."""
    shape = gather.shapes()[0]
    if gather.bounds.data is not Bounds.UNCHECKED or operator.batch_dims or DYNAMIC in shape:
        return None
    if gather.result is None or gather.result.type != gather.infer_type():
        return None
    if values.size == 0 or values.ndim > 1 or not 0 <= values.min() <= values.max() < shape[operator.axis]:
        return None
    flat = values.reshape(-1).astype(np.int64)
    step = int(flat[1] - flat[0]) if flat.size > 1 else 1
    if step < 1 or not np.array_equal(flat, flat[0] + step * np.arange(flat.size)):
        return None
    return int(flat[0]), step, flat.size
