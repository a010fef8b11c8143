"""The pass `compose-gathers`: a gather of a gather as one."""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.gather_dialect import GatherOp
from ....ir.operator_spec import Gather
from ....ir.semantics import Bounds
from ...nest.constant_indices import constant_array, constant_gathers, insert_constant, replace_result


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
        for outer, values in constant_gathers(op):
            inner = outer.source.owner
            if not isinstance(outer, GatherOp) or not isinstance(inner, GatherOp):
                continue
            composed = _composed(outer, values, inner)
            if composed is not None:
                _replace(outer, inner, composed)


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


def _replace(outer: GatherOp, inner: GatherOp, composed: np.ndarray) -> None:
    indices = insert_constant(composed, outer)
    indices.name_hint = indices.name_hint or "indices"
    first = inner.normalized()
    assert outer.result is not None and inner.result is not None
    op = GatherOp(
        inner.source,
        indices,
        bounds=Bounds.UNCHECKED,
        version=outer.version.data if outer.version else None,
        result_type=outer.result.type,  # type: ignore[arg-type]
        integers=first.attributes(),
    )
    op.attributes |= outer.attributes
    Rewriter.insert_op(op, InsertPoint.before(outer))
    replace_result(outer, op.results[0])
    Rewriter.erase_op(inner)
