"""Nodes of an ONNX graph that compute or move elements, as operations of the IR, and the table of all operators.

Functions of elements and reductions come from the tables of `functions`; the others are one function each.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from xdsl.ir import SSAValue

from ..dialects.graph.functions import FUNCTIONS, REDUCTIONS
from ..dialects.graph_op import shape_of_value
from ..errors import ModelError
from ..semantics import DYNAMIC
from . import operators
from .bags.gathered_rows import reduce
from .bags.onnx_loop import bags_of_loop
from .graph_builder import GraphBuilder
from .onnx_nodes import GATHERS_AND_SHAPES, Converter, OnnxNode

# The modes of Pad, which `graph.pad` has under the same names.
_PADDINGS = ("constant", "edge", "reflect", "wrap")


def _elementwise(function: str, node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    if node.attributes.get("broadcast", 0):
        raise ModelError(f"{node.op_type}-{node.version} broadcasts by an axis; convert the model to opset 7 or later")
    values = [node.input(place) for place in range(len(node.inputs))]
    return operators.elementwise(builder, function, values, node.output)


def _chained(function: str, node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    values = [node.input(place) for place in range(max(len(node.inputs), 1))]
    return operators.chained(builder, function, values, node.output)


def _mod(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    if node.attributes.get("fmod", 0):
        return _elementwise("fmod", node, builder)
    return _elementwise("remainder", node, builder)


def _clip(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    value, limits = node.input(0), [node.optional_input(1), node.optional_input(2)]
    for place, name in enumerate(("min", "max")):
        if name in node.attributes:  # versions before 11
            limit = node.attributes[name].astype(builder.dtype(value))
            limits[place] = builder.constant(f"{node.output}.{name}", limit)
    return operators.clip(builder, value, limits[0], limits[1], node.output)


def _transpose(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    return operators.transpose(builder, node.input(0), node.attributes.get("perm"), node.output)


def _slice(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    if node.version < 10:
        starts, ends = (operators.numbers(builder, node.required(name), name) for name in ("starts", "ends"))
        axes = node.attributes.get("axes")
        return operators.strided_slice(builder, node.input(0), (starts, ends, None), axes, node.output)
    bounds = node.input(1), node.input(2), node.optional_input(4)
    return operators.strided_slice(builder, node.input(0), bounds, _known(node, 3, builder, "axes"), node.output)


def _known(node: OnnxNode, place: int, builder: GraphBuilder, what: str) -> list[int] | None:
    """Return the integers of an input that must be known at load; None where it is left out."""
    value = node.optional_input(place)
    return None if value is None else builder.known_integers(value, what)


def _expand(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    return operators.broadcast(builder, node.input(0), node.input(1), node.output, both=True)


def _constant_of_shape(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    value = node.attributes.get("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise ModelError(f"attribute 'value' must be one element, got shape {value.shape}")
    element = builder.constant(f"{node.output}.value", value.reshape(()))
    return operators.broadcast(builder, element, node.input(0), node.output)


def _range(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    return operators.integers(builder, [node.input(place) for place in range(3)], node.output)


def _reduce(function: str, node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    axes = node.attributes.get("axes", _known(node, 1, builder, "axes"))
    if not axes and node.attributes.get("noop_with_empty_axes", 0):
        return node.input(0)
    keep = bool(node.attributes.get("keepdims", 1))
    return reduce(builder, function, node.input(0), axes or None, node.output, keep=keep, by_four=True)


def _pad(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    data, mode = node.input(0), node.attributes.get("mode", "constant")
    if mode not in _PADDINGS:
        raise ModelError(f"mode {mode!r} is not supported; {', '.join(_PADDINGS)} are")
    axes = _known(node, 3, builder, "axes")
    axes = range(len(shape_of_value(data))) if axes is None else axes
    if node.version < 11:
        counts = node.attributes.get("pads", node.attributes.get("paddings"))
        if counts is None:
            raise ModelError("attribute 'pads' is missing")
        given = operators.numbers(builder, counts, f"{node.output}.pads")
        value = builder.constant(f"{node.output}.value", _element(node.attributes.get("value", 0), builder.dtype(data)))
    else:
        given, value = node.input(1), node.optional_input(2)
        if value is None:
            value = builder.constant(f"{node.output}.value", _element(0, builder.dtype(data)))
    if shape_of_value(given) not in ((2 * len(axes),), (DYNAMIC,)):
        raise ModelError(f"pads must be {2 * len(axes)} integers for {len(axes)} axes, got {given.type}")
    before, after = (_part(builder, given, start, start + len(axes), f"{node.output}.pads") for start in (0, len(axes)))
    values = data, before, after, operators.scalar(builder, value, node.output)
    return operators.pad(builder, values, axes, mode, node.output)


def _element(value: float | np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.hasobject:
        raise ModelError("strings are not padded")
    return np.asarray(value).astype(dtype).reshape(())


def _part(builder: GraphBuilder, vector: SSAValue, start: int, end: int, name: str) -> SSAValue:
    first, last = (operators.numbers(builder, [number], name) for number in (start, end))
    return operators.strided_slice(builder, vector, (first, last, None), [0], name)


def _split(node: OnnxNode, builder: GraphBuilder) -> Sequence[SSAValue]:
    given = node.attributes.get("split", _known(node, 1, builder, "split"))
    sizes: Sequence[int] | int = node.attributes.get("num_outputs", len(node.outputs)) if given is None else given
    if (sizes if isinstance(sizes, int) else len(sizes)) != len(node.outputs):
        raise ModelError(f"{len(node.outputs)} outputs are named, and split is {sizes}")
    if not isinstance(sizes, int) and any(size < 0 for size in sizes):
        raise ModelError(f"split is {sizes}, and sizes are 0 or more")
    return operators.split(builder, node.input(0), sizes, node.attributes.get("axis", 0), node.output)


def _cumsum(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    axes = _known(node, 1, builder, "the axis") or []
    if len(axes) != 1:
        raise ModelError(f"the axis must be one number, got {axes}")
    flags = {name: bool(node.attributes.get(name, 0)) for name in ("exclusive", "reverse")}
    return operators.cumsum(builder, node.input(0), axes[0], node.output, **flags)


def _flatten(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    return operators.flatten(builder, node.input(0), node.attributes.get("axis", 1), node.output)


def _size(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    return operators.element_count(builder, node.input(0), node.output)


def _tile(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    if node.version < 6:
        raise ModelError("Tile-1 is not supported; convert the model to opset 6 or later")
    return operators.tile(builder, node.input(0), builder.known_integers(node.input(1), "repeats"), node.output)


def _cast_like(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    return builder.cast(node.input(0), builder.dtype(node.input(1)), node.output)


CONVERTERS: dict[str, Converter] = {
    **GATHERS_AND_SHAPES,
    **{function.onnx: partial(_elementwise, name) for name, function in FUNCTIONS.items() if function.onnx},
    **{operator: partial(_reduce, name) for name, (_, operator) in REDUCTIONS.items()},
    "ReduceMean": partial(_reduce, "mean"),
    "Loop": bags_of_loop,
    "Min": partial(_chained, "minimum"),
    "Max": partial(_chained, "maximum"),
    "Mod": _mod,
    "Clip": _clip,
    "Transpose": _transpose,
    "Slice": _slice,
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Pad": _pad,
    "Split": _split,
    "CumSum": _cumsum,
    "Flatten": _flatten,
    "Size": _size,
    "Tile": _tile,
    "CastLike": _cast_like,
}
SUPPORTED = tuple(CONVERTERS)
