"""Embedding bags of OpenVINO as `graph.bags`: by offsets, by rows of indices, and by numbers of segments.

Spec: EmbeddingBagOffsets-15, EmbeddingBagOffsetsSum-3, EmbeddingBagPacked-15, EmbeddingBagPackedSum-3 and
EmbeddingSegmentsSum-3. Indices are from 0 on; rows are added in their order.
"""

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import SSAValue

from ...dialects.graph.bag_ops import BagsOp, CountLessOp
from ...dialects.graph_op import shape_of_value
from ...errors import ModelError
from ...semantics import DYNAMIC
from .. import operators
from ..graph_builder import GraphBuilder
from ..openvino_xml import Layer

Convert = Callable[[GraphBuilder, Layer, list[SSAValue]], SSAValue]
# The opsets of a type of layer, the least and the most inputs, and what converts it.
Kind = tuple[tuple[str, ...], int, int, Convert]
# Of default_index: an empty bag gives zeros.
NO_DEFAULT = -1


def _reduction(layer: Layer) -> str:
    found = layer.attributes.get("reduction", "sum")
    if found not in ("sum", "mean"):
        raise ModelError(f"reduction must be sum or mean, got {found!r}")
    return found


def _bags(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    fields = {"reduce": _reduction(layer), "bounds": "natural", "group": 1}
    return builder.shape_operator(BagsOp, operands, layer.name, **fields)


def _packed(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    if len(shape_of_value(operands[1])) != 2:
        raise ModelError(f"indices must have rank 2, a row for each bag, got {operands[1].type}")
    return _bags(builder, layer, operands)


def _by_offsets(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    table, indices, offsets, *others = operands
    name = layer.name
    starts = builder.cast(offsets, operators.INT64, name)
    bounds = builder.concat([starts, _length(builder, indices, name)], 0, name)
    second, end = (operators.numbers(builder, [number], name) for number in (1, np.iinfo(np.int64).max))
    ends = operators.strided_slice(builder, bounds, (second, end, None), [0], name)
    return _of_parts(builder, layer, [table, indices, starts, ends], others)


def _by_segments(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    table, indices, segments, count, *others = operands
    name = layer.name
    if builder.dtype(segments).kind not in "iu" or shape_of_value(indices) != shape_of_value(segments):
        raise ModelError(f"segment_ids must be integers of the shape of indices, {indices.type}, got {segments.type}")
    segments = builder.cast(segments, operators.INT64, name)
    one = builder.constant(f"{name}.one", np.array(1, np.int64))
    zero = builder.constant(f"{name}.zero", np.array(0, np.int64))
    number = operators.scalar(builder, builder.cast(count, operators.INT64, name), name)
    numbers = operators.integers(builder, [zero, number, one], name)
    following = operators.elementwise(builder, "add", [numbers, one], name)
    parts = [builder.shape_operator(CountLessOp, [segments, of], name) for of in (numbers, following)]
    return _of_parts(builder, layer, [table, indices, *parts], others)


def _of_parts(builder: GraphBuilder, layer: Layer, bags: list[SSAValue], others: list[SSAValue]) -> SSAValue:
    """Add bags that are parts of a vector; `others` are the default index and the weights, where there are any.

    An empty bag of a default index is one index behind the others, whose weight is 1.
    """
    table, indices, starts, ends = bags
    weights = others[1:]
    default = builder.known_integers(others[0], "default_index") if others else [NO_DEFAULT]
    rows = shape_of_value(table)[0] if shape_of_value(table) else DYNAMIC
    if len(default) != 1 or default[0] < NO_DEFAULT or (rows != DYNAMIC and default[0] >= rows):
        raise ModelError(f"default_index must be one index of the table, or -1 for zeros, got {default}")
    if default[0] != NO_DEFAULT:
        name, kind = layer.name, builder.dtype(indices)
        last = _length(builder, indices, name)
        behind = operators.elementwise(builder, "add", [last, operators.numbers(builder, [1], name)], name)
        is_empty = operators.elementwise(builder, "equal", [starts, ends], name)
        starts, ends = (
            operators.elementwise(builder, "select", [is_empty, place, part], name)
            for place, part in ((last, starts), (behind, ends))
        )
        row = builder.constant(f"{name}.default", np.array(default, np.int64).astype(kind))
        indices = builder.concat([indices, row], 0, name)
        one = [builder.constant(f"{name}.weight", np.ones(1, builder.dtype(given))) for given in weights]
        weights = [builder.concat([*weights, *one], 0, name)] if weights else []
    return _bags(builder, layer, [table, indices, starts, ends, *weights])


def _length(builder: GraphBuilder, vector: SSAValue, name: str) -> SSAValue:
    if len(shape_of_value(vector)) != 1:
        raise ModelError(f"indices must have rank 1, got {vector.type}")
    return operators.shape_of(builder, vector, 0, 1, name)


OPENVINO_BAGS: Mapping[str, Kind] = {
    "EmbeddingBagOffsets": (("opset15",), 3, 5, _by_offsets),
    "EmbeddingBagOffsetsSum": (("opset3",), 3, 5, _by_offsets),
    "EmbeddingBagPacked": (("opset15",), 2, 3, _packed),
    "EmbeddingBagPackedSum": (("opset3",), 2, 3, _packed),
    "EmbeddingSegmentsSum": (("opset3",), 4, 6, _by_segments),
}
