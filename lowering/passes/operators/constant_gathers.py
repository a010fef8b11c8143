"""The passes of modules of operators: gathers by constant indices, before each gather is lowered by itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.tensor import ExtractSliceOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from ....ir.dialects.attributes import NODE, BoundsAttr, node_name
from ....ir.dialects.gather_dialect import GatherElementsOp, GatherNdOp, GatherOp
from ....ir.dialects.types import dense_array
from ....ir.errors import BoundsError
from ....ir.modules.operator_module import constant_tensor
from ....ir.operator_spec import Gather
from ....ir.positions import NOWHERE, resolve
from ....ir.semantics import DYNAMIC, NO_NEGATIVE_INDICES, Bounds
from ...nest.builder import rewrite_ops

_AnyGather = GatherOp | GatherNdOp | GatherElementsOp


class _ConstantGatherPattern(RewritePattern):
    """Rewrites a gather on tensors whose indices are a constant."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, _AnyGather) and op.results and op.unsigned is None:
            values = _constant_array(op.operands[1])
            if values is not None:
                self.rewrite_gather(op, values, rewriter)

    def rewrite_gather(self, gather: _AnyGather, values: np.ndarray, rewriter: PatternRewriter) -> None:
        """Rewrite a gather with the values of its indices."""
        raise NotImplementedError


def _constant_array(value: SSAValue) -> np.ndarray | None:
    """Return the array of an `arith.constant` of integers; None for any other value."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr):
        return dense_array(op.value)
    return None


def _node_label(op: Operation) -> str:
    """Return the name of an operation in messages: its node's name, where it came from a node."""
    name = node_name(op)
    return op.name if name is None else f"node {name!r}"


def _insert_constant(rewriter: PatternRewriter, array: np.ndarray) -> SSAValue:
    """Insert the constant indices of a gather before the operation that is rewritten."""
    indices = rewriter.insert(constant_tensor(array)).results[0]
    indices.name_hint = indices.name_hint or "indices"
    return indices


@dataclass(frozen=True)
class CheckConstantIndices(ModulePass):
    """Check constant indices once, make them positions, and check no more.

    Every index becomes the position in [0, size) that it means under the gather's bounds mode, and the mode becomes
    `unchecked`, so that no code checks, wraps or clips the index at run time.

    Preconditions: tensors, and static sizes of the indexed axes; a gather whose axis is dynamic stays as it is, and so
    does a gather with `bounds zero` and an index outside, since no position gives a slice of zeros.

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


class _CheckIndices(_ConstantGatherPattern):
    def rewrite_gather(self, gather: _AnyGather, values: np.ndarray, rewriter: PatternRewriter) -> None:
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
            gather.operands[1] = _insert_constant(rewriter, positions.astype(values.dtype) if fits else positions)
        gather.properties["bounds"] = BoundsAttr(Bounds.UNCHECKED)
        rewriter.notify_op_modified(gather)


def _positions(gather: _AnyGather, values: np.ndarray, axes: Sequence[int], sizes: Sequence[int]) -> np.ndarray | None:
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
        raise BoundsError(f"{_node_label(gather)}: axis {axis} of data has size 0, so none of its indices is valid")
    place = tuple(map(int, outside[0]))
    which = place[-1] if len(sizes) > 1 else 0
    axis, size = axes[which], sizes[which]
    raise BoundsError(
        f"{_node_label(gather)}: index {int(values[place])} at position {place} of its constant indices "
        f"is out of range [{0 if has_no_negative else -size}, {size - 1}] for axis {axis} of size {size}"
    )


@dataclass(frozen=True)
class ComposeGathers(ModulePass):
    """Fold a gather of a gather with constant indices into one.

    Where the outer gather runs along a dimension that comes from the inner one's indices, it selects among those
    indices: the composition reads data once and writes no intermediate result.

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

    What it does not do: compose gathers along different dimensions of data, or gathers by tuples or by element.
    """

    name = "compose-gathers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_ops(op, _Compose())


class _Compose(_ConstantGatherPattern):
    def rewrite_gather(self, gather: _AnyGather, values: np.ndarray, rewriter: PatternRewriter) -> None:
        inner = gather.source.owner
        if not isinstance(gather, GatherOp) or not isinstance(inner, GatherOp):
            return
        composed = _compose(gather, values, inner)
        if composed is None:
            return
        op = GatherOp(
            inner.source,
            _insert_constant(rewriter, composed),
            bounds=Bounds.UNCHECKED,
            version=gather.version.data if gather.version else None,
            result_type=gather.results[0].type,  # type: ignore[arg-type]
            integers=inner.normalized().attributes(),
        )
        op.attributes |= gather.attributes
        rewriter.replace(gather, op)
        rewriter.erase(inner)


def _compose(outer: GatherOp, values: np.ndarray, inner: GatherOp) -> np.ndarray | None:
    """Return the composed indices of both gathers, or None where they cannot be composed."""
    first, second = inner.normalized(), outer.normalized()
    assert isinstance(first, Gather) and isinstance(second, Gather) and inner.result is not None
    picked = _constant_array(inner.indices)
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

    What it does not do: indices that repeat or fall, or have rank 2 or more.
    """

    name = "gather-to-slice"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_ops(op, _Slice())


class _Slice(_ConstantGatherPattern):
    def rewrite_gather(self, gather: _AnyGather, values: np.ndarray, rewriter: PatternRewriter) -> None:
        operator = gather.normalized()
        if not isinstance(gather, GatherOp) or not isinstance(operator, Gather):
            return
        if (run := _run_of(gather, operator, values)) is None:
            return
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
    """Return start, step and count of indices that are an arithmetic run, or None."""
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
