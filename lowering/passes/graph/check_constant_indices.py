"""The pass `check-constant-indices`: bounds of constant indices, handled before the model runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ....ir.dialects.attributes import BoundsAttr
from ....ir.errors import BoundsError
from ....ir.modules.known_values import AnyGather
from ....ir.modules.weights import weights_of
from ....ir.semantics import DYNAMIC, NO_NEGATIVE_INDICES, Bounds
from .graph_queries import constant_gathers, insert_constant, node_label


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
        weights = weights_of(ctx)
        for gather, values in constant_gathers(op, weights):
            if gather.bounds.data is Bounds.UNCHECKED:
                continue
            data_shape, index_shape = gather.shapes()
            axes = gather.normalized().axes(index_shape)
            sizes = [data_shape[axis] for axis in axes]
            if DYNAMIC in sizes:
                continue
            positions = _positions(gather, values, axes, sizes)
            if positions is None:
                continue
            if not np.array_equal(positions, values):
                name = f"{gather.indices.name_hint or 'indices'}_checked"
                fits = positions.size == 0 or positions.max() <= np.iinfo(values.dtype).max
                positions = positions.astype(values.dtype) if fits else positions
                gather.operands[1] = insert_constant(positions, gather, weights, name)
                gather.indices.name_hint = gather.indices.name_hint or "indices"
            gather.properties["bounds"] = BoundsAttr(Bounds.UNCHECKED)


def _positions(gather: AnyGather, values: np.ndarray, axes: Sequence[int], sizes: Sequence[int]) -> np.ndarray | None:
    """Return the positions that indices mean, or None where one of them gives zeros.

    Args:
        values: the indices; of a gather_nd the components lie along the last dimension.
        axes, sizes: the indexed axes of data, and their sizes.
    """
    if gather.name != "gather.gather_nd":
        return _resolved(gather, values, axes[0], sizes[0], ())
    positions = np.empty(values.shape, np.int64)
    for number, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        component = _resolved(gather, values[..., number], axis, size, (number,))
        if component is None:
            return None
        positions[..., number] = component
    return positions


def _resolved(gather: AnyGather, values: np.ndarray, axis: int, size: int, last: tuple[int, ...]) -> np.ndarray | None:
    """Return the positions on one axis; `last` completes a place in `values` to one in the whole of the indices."""
    bounds = gather.bounds.data
    if values.size == 0:
        return values.astype(np.int64)
    if size == 0 and bounds is not Bounds.ZERO:
        raise BoundsError(f"{node_label(gather)}: axis {axis} of data has size 0, so none of its indices is valid")
    if bounds is Bounds.CLIP:
        return np.clip(values, 0, size - 1).astype(np.int64)
    if bounds is Bounds.WRAP:
        return (values.astype(object) % size).astype(np.int64)
    version = gather.version.data if gather.version else ""
    least = 0 if version in NO_NEGATIVE_INDICES and bounds is Bounds.ERROR else -size
    outside = values >= size if values.dtype.kind == "u" else (values < least) | (values >= size)
    if outside.any():
        if bounds is Bounds.ZERO:
            return None
        place = tuple(int(number) for number in np.argwhere(outside)[0])
        raise BoundsError(
            f"{node_label(gather)}: index {int(values[place])} at position {(*place, *last)} of its constant indices "
            f"is out of range [{least}, {size - 1}] for axis {axis} of size {size}"
        )
    positions = values.astype(np.int64)
    return np.where(positions < 0, positions + size, positions)
