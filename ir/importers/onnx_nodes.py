"""Nodes of an ONNX graph, and its gathers and shape operators as operations of the IR, for every version of ai.onnx."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import onnx
import onnx.defs
from xdsl.ir import SSAValue

from ..dialects.graph_op import shape_of_value
from ..dialects.graph_ops import ReshapeOp, ShapeOfOp
from ..errors import ModelError, number_of_inputs
from ..operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from ..semantics import Bounds
from .graph_builder import GraphBuilder, lookup
from .onnx_tensors import TensorReader, element_dtype, strings

# Operators that give as many outputs as the node names.
SEVERAL_OUTPUTS = ("Split",)
_Kind = onnx.AttributeProto


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """A node with its inputs found and its attributes read.

    Attributes:
        op_type: its operator.
        version: the version of ai.onnx that its operator came with or was last changed in.
        outputs: the names of what it gives.
        inputs: its inputs, None for one that is left out.
        attributes: those that it has; tensors as arrays, strings as str, subgraphs as they are.
        values: what its subgraphs may read, by name.
        reader: reads their tensors.
    """

    op_type: str
    version: int
    outputs: tuple[str, ...]
    inputs: tuple[SSAValue | None, ...]
    attributes: dict[str, Any]
    values: Mapping[str, SSAValue]
    reader: TensorReader

    @property
    def output(self) -> str:
        """The name of its only, or its first, output."""
        return self.outputs[0]

    def input(self, place: int) -> SSAValue:
        """Return an input that must be there; raises ModelError."""
        value = self.optional_input(place)
        if value is None:
            raise ModelError(f"input #{place} is missing")
        return value

    def optional_input(self, place: int) -> SSAValue | None:
        """Return an input, or None when it is left out."""
        return self.inputs[place] if place < len(self.inputs) else None

    def required(self, name: str) -> Any:
        """Return an attribute that must be there; raises ModelError."""
        if name not in self.attributes:
            raise ModelError(f"attribute {name!r} is missing")
        return self.attributes[name]


def read_node(proto: onnx.NodeProto, opset: int, values: Mapping[str, SSAValue], reader: TensorReader) -> OnnxNode:
    """Return a node, checked against its operator's document in an opset.

    Raises:
        ModelError: the operator is not in the opset, or its inputs, outputs or attributes are not those it has.
    """
    version, least, most, known = _schema(proto.op_type, opset)
    names, outputs = list(proto.input), list(proto.output)
    if not least <= len(names) <= most:
        raise ModelError(f"{proto.op_type}-{version} has {number_of_inputs(least, most)}, got {len(names)}")
    if len(outputs) != 1 and (proto.op_type not in SEVERAL_OUTPUTS or not outputs):
        raise ModelError(f"{proto.op_type} gives one output, got {len(outputs)}")
    attributes: dict[str, Any] = {}
    for attribute in proto.attribute:
        if attribute.name not in known:
            there = ", ".join(known) or "none"
            raise ModelError(f"{proto.op_type}-{version} has no attribute {attribute.name!r}; it has {there}")
        number, wanted = known[attribute.name]
        if attribute.ref_attr_name or number != attribute.type or attribute.name in attributes:
            kinds = _Kind.AttributeType
            kind = kinds.Name(attribute.type) if attribute.type in kinds.values() else attribute.type
            raise ModelError(f"attribute {attribute.name!r} must be one {wanted}, got {kind}")
        if number not in _VALUES:
            raise ModelError(f"attribute {attribute.name!r} is of a kind that is not supported, {wanted}")
        attributes[attribute.name] = _VALUES[number](attribute, reader)
    inputs = tuple([lookup(values, name, "input") if name else None for name in names])
    return OnnxNode(proto.op_type, version, tuple(outputs), inputs, attributes, values, reader)


@lru_cache
def _schema(op_type: str, opset: int) -> tuple[int, int, int, dict[str, Any]]:
    """Return an operator's version in an opset, its least and most inputs, and the types of its attributes."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        raise ModelError(f"{op_type} is not an operator of opset {opset}, which the model is written in") from None
    kinds: dict[str, Any] = {name: attribute.type for name, attribute in schema.attributes.items()}
    types = {name: (kind.value, kind.name) for name, kind in kinds.items()}
    return schema.since_version, schema.min_input, schema.max_input, types


_VALUES: dict[int, Callable[[onnx.AttributeProto, TensorReader], Any]] = {
    _Kind.INT: lambda attribute, _: attribute.i,
    _Kind.INTS: lambda attribute, _: list(attribute.ints),
    _Kind.FLOAT: lambda attribute, _: np.array(attribute.f, np.float32),
    _Kind.FLOATS: lambda attribute, _: np.array(attribute.floats, np.float32),
    _Kind.STRING: lambda attribute, _: attribute.s.decode("utf-8"),
    _Kind.STRINGS: lambda attribute, _: strings(attribute.strings),
    _Kind.GRAPH: lambda attribute, _: attribute.g,
    _Kind.TENSOR: lambda attribute, reader: reader.array(attribute.t, f"attribute {attribute.name!r}"),
}


def _gathered(operator: Callable[[int], OperatorSpec], number: str, node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    spec, version = operator(node.attributes.get(number, 0)), f"onnx.{node.op_type}-{node.version}"
    return builder.gather(spec, node.input(0), node.input(1), Bounds.ERROR, version, node.output)


def _constant(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    if len(node.attributes) != 1:
        raise ModelError(f"a Constant has one value, got the attributes {', '.join(node.attributes) or 'none'}")
    ((name, value),) = node.attributes.items()
    if name == "value_string":
        value = np.array(value, object)
    elif name in ("value_int", "value_ints"):
        value = np.array(value, np.int64)
    return builder.constant(node.output, value)


def _identity(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    return node.input(0)


def _cast(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    to = node.required("to")
    if isinstance(to, str):  # version 1 writes the type's name
        to = onnx.TensorProto.DataType.Value(to) if to in onnx.TensorProto.DataType.keys() else -1  # noqa: SIM118
    return builder.cast(node.input(0), element_dtype(to, "attribute 'to'"), node.output)


def _shape(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    rank = len(shape_of_value(node.input(0)))
    start, end, _ = slice(node.attributes.get("start", 0), node.attributes.get("end", rank)).indices(rank)
    end = max(start, end)
    return builder.shape_operator(ShapeOfOp, [node.input(0)], node.output, np.dtype(np.int64), start=start, end=end)


def _axes(node: OnnxNode, builder: GraphBuilder) -> list[int] | None:
    """Return the attribute or, from version 13 on, the input `axes`; None when it is left out."""
    value = node.optional_input(1)
    return builder.known_integers(value, "axes") if value is not None else node.attributes.get("axes")


def _squeeze(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    return builder.squeeze(node.input(0), _axes(node, builder), node.output)


def _unsqueeze(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    axes = _axes(node, builder)
    if axes is None:
        raise ModelError("axes are missing")
    return builder.unsqueeze(node.input(0), axes, node.output)


def _reshape(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    sizes = node.optional_input(1)
    if sizes is None:
        sizes = builder.constant(f"{node.output}.shape", np.array(node.required("shape"), np.int64))
    allow_zero = bool(node.attributes.get("allowzero", 0))
    return builder.shape_operator(ReshapeOp, [node.input(0), sizes], node.output, allow_zero=allow_zero)


def _concat(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    axis = node.attributes.get("axis", 1) if node.version < 4 else node.required("axis")
    inputs = [node.input(place) for place in range(len(node.inputs))]
    if not inputs:
        raise ModelError("inputs are missing")
    return builder.concat(inputs, axis, node.output)


# What adds a node to the module, and returns its output, or its outputs where it may have several.
Converter = Callable[[OnnxNode, GraphBuilder], SSAValue | Sequence[SSAValue]]
GATHERS_AND_SHAPES: dict[str, Converter] = {
    "Gather": partial(_gathered, Gather, "axis"),
    "GatherND": partial(_gathered, GatherNd, "batch_dims"),
    "GatherElements": partial(_gathered, GatherElements, "axis"),
    "Constant": _constant,
    "Identity": _identity,
    "Cast": _cast,
    "Shape": _shape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Concat": _concat,
}
