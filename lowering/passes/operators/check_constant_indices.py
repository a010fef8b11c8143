"""The pass `check-constant-indices`: bounds of constant indices, handled before the module runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from ....ir.dialects.attributes import BoundsAttr
from ....ir.errors import BoundsError
from ....ir.positions import NOWHERE, resolve
from ....ir.semantics import DYNAMIC, NO_NEGATIVE_INDICES, Bounds
from ...nest.builder import rewrite_ops
from ...nest.constant_indices import AnyGather, ConstantGatherPattern, insert_constant, node_label


@dataclass(frozen=True)
class CheckConstantIndices(ModulePass):
    """Check constant indices once, make them positions, and check no more.

    Every index becomes the position in [0, size) that it means under the gather's bounds mode, and the mode becomes
    `unchecked`: what checks, wraps or clips the index at run time is never generated.

    Preconditions: tensors, and static sizes of the indexed axes; a gather whose axis is dynamic stays as it is. So does
    one with `bounds zero` and an index outside, whose slice of zeros no position gives.

    Input:
        %i = arith.constant dense<[0, -1]> : tensor<2xi64>
        %r = gather.gather %x, %i axis 0 batch_dims 0 bounds error
            : tensor<5x4xf32>, tensor<2xi64> -> tensor<2x4xf32>
    Output:
        %i = arith.constant dense<[0, 4]> : tensor<2xi64>
        %r = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked
            : tensor<5x4xf32>, tensor<2xi64> -> tensor<2x4xf32>

    Raises:
        BoundsError: an index is not valid; names the node and the value.
    """

    name = "check-constant-indices"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_ops(op, _CheckIndices())


class _CheckIndices(ConstantGatherPattern):
    def rewrite_gather(self, gather: AnyGather, values: np.ndarray, rewriter: PatternRewriter) -> None:
        data_shape, index_shape = gather.shapes()
        axes = gather.normalized().axes(index_shape)
        sizes = [data_shape[axis] for axis in axes]
        if gather.bounds.data is Bounds.UNCHECKED or DYNAMIC in sizes:
            return
        positions = _positions(gather, values, axes, sizes)
        if positions is None:
            return
        if not np.array_equal(positions, values):
            fits = positions.size == 0 or positions.max() <= np.iinfo(values.dtype).max
            gather.operands[1] = insert_constant(rewriter, positions.astype(values.dtype) if fits else positions)
        gather.properties["bounds"] = BoundsAttr(Bounds.UNCHECKED)
        rewriter.notify_op_modified(gather)


def _positions(gather: AnyGather, values: np.ndarray, axes: Sequence[int], sizes: Sequence[int]) -> np.ndarray | None:
    """Return the positions that indices mean, or None where one of them gives zeros.

    The components of a gather_nd lie along the last dimension of `values`.
    """
    bounds, version = gather.bounds.data, gather.version.data if gather.version else ""
    has_no_negative = version in NO_NEGATIVE_INDICES and bounds is Bounds.ERROR
    components = values.reshape(-1, len(sizes)).T
    mode = Bounds.UNCHECKED if has_no_negative else bounds
    resolved = [resolve(part, size, mode) for part, size in zip(components, sizes, strict=True)]
    positions = np.stack(resolved, -1).reshape(values.shape)
    outside = np.argwhere(positions == NOWHERE)
    if not len(outside):
        return positions
    if bounds is Bounds.ZERO:
        return None
    if 0 in sizes:
        axis = axes[sizes.index(0)]
        raise BoundsError(f"{node_label(gather)}: axis {axis} of data has size 0, so none of its indices is valid")
    place = tuple(map(int, outside[0]))
    which = place[-1] if len(sizes) > 1 else 0
    axis, size = axes[which], sizes[which]
    raise BoundsError(
        f"{node_label(gather)}: index {int(values[place])} at position {place} of its constant indices "
        f"is out of range [{0 if has_no_negative else -size}, {size - 1}] for axis {axis} of size {size}"
    )
