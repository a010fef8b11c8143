"""The pass `compose-gathers`: a gather of a gather as one."""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from ....ir.dialects.gather_dialect import GatherOp
from ....ir.operator_spec import Gather
from ....ir.semantics import Bounds
from ...nest.builder import rewrite_ops
from ...nest.constant_indices import AnyGather, ConstantGatherPattern, constant_array, insert_constant


@dataclass(frozen=True)
class ComposeGathers(ModulePass):
    """Fold a gather of a gather with constant indices into one.

    What the outer gather takes along a dimension that the inner one's indices made, it takes from those indices: their
    composition reads data once and never writes what lies between.

    Preconditions: tensors; both gathers have constant indices that `check-constant-indices` has checked (`bounds
    unchecked`) and no batch dimensions; nothing else uses the inner result; the composed indices are no more than the
    larger of both.

    Input:
        %i = arith.constant dense<[4, 2, 0]> : tensor<3xi64>
        %t = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked
            : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
        %j = arith.constant dense<1> : tensor<2xi64>
        %r = gather.gather %t, %j axis 0 batch_dims 0 bounds unchecked
            : tensor<3x4xf32>, tensor<2xi64> -> tensor<2x4xf32>
    Output:
        %k = arith.constant dense<2> : tensor<2xi64>
        %r = gather.gather %x, %k axis 0 batch_dims 0 bounds unchecked
            : tensor<5x4xf32>, tensor<2xi64> -> tensor<2x4xf32>

    What it does not do: compose gathers along different dimensions of data, or those by tuples or by element.
    """

    name = "compose-gathers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_ops(op, _Compose())


class _Compose(ConstantGatherPattern):
    def rewrite_gather(self, gather: AnyGather, values: np.ndarray, rewriter: PatternRewriter) -> None:
        inner = gather.source.owner
        if not isinstance(gather, GatherOp) or not isinstance(inner, GatherOp):
            return
        composed = _composed(gather, values, inner)
        if composed is None:
            return
        op = GatherOp(
            inner.source,
            insert_constant(rewriter, composed),
            bounds=Bounds.UNCHECKED,
            version=gather.version.data if gather.version else None,
            result_type=gather.results[0].type,  # type: ignore[arg-type]
            integers=inner.normalized().attributes(),
        )
        op.attributes |= gather.attributes
        rewriter.replace(gather, op)
        rewriter.erase(inner)


def _composed(outer: GatherOp, values: np.ndarray, inner: GatherOp) -> np.ndarray | None:
    """Return the indices of both gathers in one, or None where they cannot be."""
    first, second = inner.normalized(), outer.normalized()
    assert isinstance(first, Gather) and isinstance(second, Gather) and inner.result is not None
    picked = constant_array(inner.indices)
    is_checked = inner.bounds.data is Bounds.UNCHECKED and outer.bounds.data is Bounds.UNCHECKED
    if picked is None or not is_checked or first.batch_dims or second.batch_dims or inner.unsigned is not None:
        return None
    along = second.axis - first.axis
    if not inner.result.has_one_use() or not 0 <= along < picked.ndim:
        return None
    size = picked.shape[along]
    if values.size and not 0 <= values.min() <= values.max() < size:
        return None
    if picked.size and values.size * (picked.size // max(size, 1)) > max(picked.size, values.size):
        return None
    return np.take(picked, values.astype(np.int64), axis=along)
