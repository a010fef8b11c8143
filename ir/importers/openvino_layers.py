"""Layers of an OpenVINO IR that compute or move elements, as operations of the IR, and OpenVINO's element types.

Functions of elements and reductions come from the tables of `functions`; the others are one function each.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from xdsl.ir import SSAValue

from ..dialects.graph.functions import FUNCTIONS, REDUCTIONS
from ..dialects.graph_op import shape_of_value
from ..element_types import parse_element_type
from ..errors import ModelError
from ..semantics import DYNAMIC
from . import operators
from .bags.gathered_rows import reduce
from .graph_builder import GraphBuilder, normal_axes
from .openvino_xml import Layer, integer

# A function of the builder, a layer and its operands.
Convert = Callable[[GraphBuilder, Layer, list[SSAValue]], SSAValue | Sequence[SSAValue]]
# The opsets that have a type of layer, the least and the most inputs, and what converts it.
Kind = tuple[tuple[str, ...], int, int, Convert]
# OpenVINO's names of the element types that lie in a `.bin` one element after the other.
ELEMENTS = {
    "boolean": "bool",
    **{f"{kind}{bits}": f"{name}{bits}" for kind, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e8m0": "float8_e8m0fnu",
}


def element_dtype(name: str) -> np.dtype:
    """Return the dtype of one of OpenVINO's element types; one that is not supported is a ModelError."""
    if name not in ELEMENTS:
        raise ModelError(f"element type {name!r} is not supported; {', '.join(ELEMENTS)} are")
    return parse_element_type(ELEMENTS[name])


def _flag(layer: Layer, name: str, default: str) -> bool:
    text = layer.attributes.get(name, default)
    if text not in ("true", "false", "1", "0"):
        raise ModelError(f"{name} must be true or false, got {text!r}")
    return text in ("true", "1")


def _check_broadcast(layer: Layer) -> None:
    """Check that a layer broadcasts as NumPy does, or not at all."""
    how = layer.attributes.get("auto_broadcast", "numpy")
    if how not in ("numpy", "none"):
        raise ModelError(f"auto_broadcast must be numpy or none, got {how!r}")


def _elementwise(function: str, builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    _check_broadcast(layer)
    return operators.elementwise(builder, function, operands, layer.name)


def _divide(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    function = "floor_divide" if _flag(layer, "m_pythondiv", "true") else "divide"
    return _elementwise(function, builder, layer, operands)


def _clamp(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    dtype = builder.dtype(operands[0])
    limits: list[SSAValue] = []
    for name, rounded in (("min", math.ceil), ("max", math.floor)):
        try:
            number = float(layer.required(name))
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise ModelError(f"{name} must be a number, got {layer.required(name)!r}")
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            number = min(max(number, info.min), info.max)
            number = min(max(rounded(number), info.min), info.max)
        limits.append(builder.constant(f"{layer.name}.{name}", np.array(number).astype(dtype)))
    return operators.clip(builder, operands[0], limits[0], limits[1], layer.name)


def _transpose(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    order = builder.known_integers(operands[1], "the order")
    return operators.transpose(builder, operands[0], order or None, layer.name)


def _slice(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    axes = builder.known_integers(operands[4], "the axes") if len(operands) > 4 else None
    return operators.strided_slice(builder, operands[0], (operands[1], operands[2], operands[3]), axes, layer.name)


def _broadcast(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    value, sizes, *mapping = operands
    mode = layer.attributes.get("mode", "numpy")
    if mode == "explicit" and mapping:
        axes = builder.known_integers(mapping[0], "the axes")
        rank = shape_of_value(sizes)[0] if len(shape_of_value(sizes)) == 1 else DYNAMIC
        shape = shape_of_value(value)
        if rank == DYNAMIC or len(axes) != len(shape) or sorted(axes) != axes:
            raise ModelError(f"axes {axes} do not say where the dimensions of {value.type} go")
        others = [axis for axis in range(rank) if axis not in normal_axes(axes, rank)]
        value = builder.unsqueeze(value, others, layer.name)
    elif mode not in ("numpy", "bidirectional") or mapping:
        raise ModelError(
            f"mode {mode!r} of {len(operands)} inputs is not supported; numpy, bidirectional, explicit are"
        )
    return operators.broadcast(builder, value, sizes, layer.name, both=mode == "bidirectional")


def _range(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    if "output_type" in layer.attributes:
        dtype = element_dtype(layer.required("output_type"))
        if dtype.kind in "iu" and any(builder.dtype(operand).kind not in "iu" for operand in operands):
            raise ModelError("a range of integers between floats is not supported")
        operands = [builder.cast(operand, dtype, layer.name) for operand in operands]
    return operators.integers(builder, operands, layer.name)


def _reduce(function: str, builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    axes = builder.known_integers(operands[1], "the axes")
    return reduce(builder, function, operands[0], axes, layer.name, keep=_flag(layer, "keep_dims", "false"))


def _pad(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    mode, rank = layer.required("pad_mode"), len(shape_of_value(operands[0]))
    if len(operands) < 4:
        operands = [*operands, builder.constant(f"{layer.name}.value", np.zeros((), builder.dtype(operands[0])))]
    data, before, after, value = operands
    values = data, before, after, operators.scalar(builder, value, layer.name)
    return operators.pad(builder, values, range(rank), mode, layer.name)


def _split(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> Sequence[SSAValue]:
    axes = builder.known_integers(operands[1], "the axis")
    if len(axes) != 1:
        raise ModelError(f"the axis must be one number, got {axes}")
    if len(operands) > 2:
        sizes = builder.known_integers(operands[2], "the lengths")
        if len(sizes) != len(layer.outputs):
            raise ModelError(f"{len(layer.outputs)} outputs are declared, and lengths are {sizes}")
        return operators.split(builder, operands[0], sizes, axes[0], layer.name)
    parts = integer(layer.required("num_splits"), "num_splits")
    (axis,) = normal_axes(axes, len(shape_of_value(operands[0])))
    size = shape_of_value(operands[0])[axis]
    if parts != len(layer.outputs) or parts < 1 or (size != DYNAMIC and size % parts):
        raise ModelError(f"num_splits is {parts}, for {len(layer.outputs)} outputs and an axis of size {size}")
    return operators.split(builder, operands[0], parts, axis, layer.name)


def _cumsum(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    axes = builder.known_integers(operands[1], "the axis") if len(operands) > 1 else [0]
    if len(axes) != 1:
        raise ModelError(f"the axis must be one number, got {axes}")
    flags = {name: _flag(layer, name, "false") for name in ("exclusive", "reverse")}
    return operators.cumsum(builder, operands[0], axes[0], layer.name, **flags)


def _roll(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    value, *others = operands
    shifts, axes = (builder.known_integers(other, what) for other, what in zip(others, ("shift", "axes"), strict=True))
    if len(shifts) not in (1, len(axes)):
        raise ModelError(f"{len(shifts)} shifts are given for {len(axes)} axes")
    for shift, axis in zip(shifts * (len(axes) if len(shifts) == 1 else 1), axes, strict=True):
        value = operators.roll(builder, value, shift, axis, layer.name)
    return value


def _scatter_update(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    vector, indices, updates, axis = operands
    if builder.known_integers(axis, "the axis") not in ([0], [-1]):
        raise ModelError("ScatterUpdate is supported along the axis of a vector")
    places = builder.known_integers(indices, "the indices")
    if not shape_of_value(indices) == shape_of_value(updates):
        raise ModelError(f"updates must have the shape of indices, {indices.type}, got {updates.type}")
    if not shape_of_value(updates):
        updates = builder.unsqueeze(updates, [0], layer.name)
    return operators.put(builder, vector, places, updates, layer.name)


def _tile(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    return operators.tile(builder, operands[0], builder.known_integers(operands[1], "repeats"), layer.name)


def _convert_like(builder: GraphBuilder, layer: Layer, operands: list[SSAValue]) -> SSAValue:
    return builder.cast(operands[0], builder.dtype(operands[1]), layer.name)


ELEMENTWISE_AND_MOVING: Mapping[str, Kind] = {
    **{
        function.openvino: ((function.opset,), function.operands, function.operands, partial(_elementwise, name))
        for name, function in FUNCTIONS.items()
        if function.openvino
    },
    **{operator: (("opset1",), 2, 2, partial(_reduce, name)) for name, (_, operator) in REDUCTIONS.items()},
    "ReduceMean": (("opset1",), 2, 2, partial(_reduce, "mean")),
    "Divide": (("opset1",), 2, 2, _divide),
    "Clamp": (("opset1",), 1, 1, _clamp),
    "Transpose": (("opset1",), 2, 2, _transpose),
    "Slice": (("opset8",), 4, 5, _slice),
    "Broadcast": (("opset1", "opset3"), 2, 3, _broadcast),
    "Range": (("opset1", "opset4"), 3, 3, _range),
    "Pad": (("opset1", "opset12"), 3, 4, _pad),
    "Split": (("opset1",), 2, 2, _split),
    "VariadicSplit": (("opset1",), 3, 3, _split),
    "CumSum": (("opset3",), 1, 2, _cumsum),
    "Roll": (("opset7",), 3, 3, _roll),
    "ScatterUpdate": (("opset3",), 4, 4, _scatter_update),
    "Tile": (("opset1",), 2, 2, _tile),
    "ConvertLike": (("opset1",), 2, 2, _convert_like),
}
