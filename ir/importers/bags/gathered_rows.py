"""Reductions; sums and means of floats are of gathered rows, over the last dimension of their indices."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ...dialects.gather_dialect import GatherOp
from ...dialects.graph.bag_ops import BagsOp
from ...dialects.graph.elementwise_ops import FLOATS
from ...dialects.graph_op import shape_of_value
from ...errors import ModelError
from ...operator_spec import Gather
from ...semantics import NO_NEGATIVE_INDICES, Bounds, Shape
from .. import operators
from ..graph_builder import GraphBuilder, normal_axes

# What ONNX Runtime adds as a product with ones, four rows at a time; rows of float64 it adds one by one.
ADDED_BY_FOUR = "float32"


def reduce(
    builder: GraphBuilder,
    function: str,
    value: SSAValue,
    axes: Sequence[int] | None,
    name: str,
    *,
    keep: bool,
    by_four: bool = False,
) -> SSAValue:
    """Add a reduction along axes, along all where they are None.

    A mean and a sum of floats depend on the order of their elements. They are of gathered rows, which are added one by
    one, as OpenVINO does, or by four, as ONNX Runtime does.

    Raises:
        ModelError: of these two, the value is no gather along the first axis of a table, or its rows are reduced along
            other axes.
    """
    if function != "mean" and (function != "sum" or builder.dtype(value).name not in FLOATS):
        return operators.reduce(builder, function, value, axes, name, keep=keep)
    rank, gather = len(shape_of_value(value)), value.owner
    reduced = normal_axes(range(rank) if axes is None else axes, rank)
    if isinstance(gather, GatherOp) and gather.normalized() == Gather(0, 0) and builder.dtype(value).name in _REDUCED:
        table, indices = gather.operands
        if _has_rows(shape_of_value(table), by_four) and reduced == (len(shape_of_value(indices)) - 1,):
            bounds = _bounds(gather)
            operands, group = [table, indices], 4 if by_four and builder.dtype(value).name == ADDED_BY_FOUR else 1
            rows = builder.shape_operator(BagsOp, operands, name, reduce=function, bounds=bounds, group=group)
            builder.replaced(gather)
            return builder.unsqueeze(rows, reduced, name) if keep else rows
    raise ModelError(
        f"a {function} of {value.type} along axes {list(reduced)}: what it gives depends on their order; "
        "supported are those of rows of float32 or float64 that a Gather takes from the first axis of a matrix, along "
        "the last dimension of its indices; gathernest.split leaves all others to ONNX Runtime"
    )


def _has_rows(table: Shape, by_four: bool) -> bool:
    """Return whether runtimes add rows of a table; single elements they add in vectors, OpenVINO those of a column."""
    return len(table) > 1 and (by_four or any(size != 1 for size in table[1:]))


def _bounds(gather: GatherOp) -> str:
    if gather.version is not None and gather.version.data in NO_NEGATIVE_INDICES:
        return "natural"
    return "zero" if gather.bounds.data is Bounds.ZERO else "error"


_REDUCED = ("float32", "float64")
