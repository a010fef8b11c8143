"""The graph of an ONNX model: what makes and reads each value, patterns of nodes, and models of a part of its nodes."""

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...ir.errors import ModelError
from ...kernels.reduction.operands import Reduction
from .runtime import TensorSpec

OWN_DOMAINS = ("", "ai.onnx")
# What `OP` stands for in a pattern.
REDUCTIONS: dict[str, Reduction] = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max"}
# A constant with more elements is none of a pattern.
MAX_CONSTANT_SIZE = 1 << 16


class Graph:
    """The main graph of a model.

    Attributes:
        proto: the model, without local functions.
        arrays: the tensors that lie beside it, by name.
        types: of the values that onnx infers.
        makers: by the name of a value the node that makes it.
        readers: by the name of a value the nodes that read it, an output of the model among them as None.
    """

    def __init__(self, proto: onnx.ModelProto, arrays: Mapping[str, np.ndarray]):
        self.arrays, self.proto = arrays, _with_types(inlined(proto))
        graph = self.proto.graph
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        described = (*graph.input, *graph.value_info, *graph.output)
        self.types = {info.name: info.type for info in described if info.type.WhichOneof("value")}
        self.makers = {name: node for node in graph.node for name in node.output if name}
        self.readers: dict[str, list[onnx.NodeProto | None]] = defaultdict(list)
        for node in graph.node:
            for name in read_names(node):
                self.readers[name].append(node)
        for info in graph.output:
            self.readers[info.name].append(None)

    def spec(self, name: str) -> TensorSpec | None:
        """Return the type of a tensor; None where it is not known."""
        if name in self.initializers:
            tensor = self.initializers[name]
            return TensorSpec(tuple(tensor.dims), dtype_of(tensor.data_type))
        kind = self.types.get(name)
        return None if kind is None else spec_of_type(kind)

    def rank(self, name: str) -> int | None:
        """Return the rank of a tensor; None where it is not known."""
        spec = self.spec(name)
        return None if spec is None or spec.shape is None else len(spec.shape)

    def constant(self, name: str) -> np.ndarray | None:
        """Return a constant of the model; None where the value is none."""
        if name in self.arrays:
            return self.arrays[name]
        if name in self.initializers:
            return numpy_helper.to_array(self.initializers[name])
        maker = self.makers.get(name)
        return constant_of(maker) if is_own(maker, "Constant") else None

    def only_reader(self, name: str) -> onnx.NodeProto | None:
        """Return the node that alone reads a value."""
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 else None


def read_names(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of the values that a node reads, those that its subgraphs read from outside included."""
    yield from filter(None, node.input)
    for body in bodies(node):
        made = {info.name for info in body.input} | {tensor.name for tensor in body.initializer}
        for inner in body.node:
            yield from (name for name in read_names(inner) if name not in made)
            made.update(inner.output)
        yield from (info.name for info in body.output if info.name not in made)


def bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the subgraphs of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def is_own(node: onnx.NodeProto | None, *kinds: str) -> TypeGuard[onnx.NodeProto]:
    """Return whether a node is one of some operators of ai.onnx."""
    return node is not None and node.op_type in kinds and node.domain in OWN_DOMAINS


def integer(node: onnx.NodeProto, name: str, default: int) -> int:
    """Return an attribute that is an integer."""
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def constant_of(node: onnx.NodeProto) -> np.ndarray | None:
    """Return the value of a Constant; None for strings and sparse tensors."""
    dtypes = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    for attribute in node.attribute:
        if attribute.name == "value":
            return numpy_helper.to_array(attribute.t)
        if attribute.name in dtypes:
            return np.array(helper.get_attribute_value(attribute), dtypes[attribute.name])
    return None


def dtype_of(kind: int) -> np.dtype | None:
    """Return an element type of ONNX as NumPy has it; None for one that this onnx does not know."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    except (KeyError, TypeError, ValueError):
        return None


def spec_of_type(kind: onnx.TypeProto) -> TensorSpec:
    """Return a type of ONNX as a `TensorSpec`."""
    if kind.WhichOneof("value") != "tensor_type" or not kind.tensor_type.elem_type:
        return TensorSpec(None, None, (kind.WhichOneof("value") or "value").removesuffix("_type"))
    tensor, dtype = kind.tensor_type, dtype_of(kind.tensor_type.elem_type)
    if dtype is None:
        return TensorSpec(None, None, f"element type {tensor.elem_type}")
    if not tensor.HasField("shape"):
        return TensorSpec(None, dtype)
    sizes = (dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim)
    return TensorSpec(tuple(sizes), dtype)


class Pattern:
    """A pattern of nodes, which is compared with what makes a value of a graph.

    A pattern is an expression. `Add(x, [1], axis=2)` is that operator with these operands and attributes, where the
    outputs of bodies, and attributes that are lists, are operands behind the inputs. A number, a list or '' stands for
    itself, and `a | b` for either. A name stands for one value outside of all bodies, one in capitals for a constant,
    and `OP` for a reduction. A Loop names the inputs of its body, and the number of the output that is meant:
    `Loop('', c, x, y, z, inputs='n c x', output=1)`.

    Attributes:
        bound: the name of the value, or the list or number of the constant, that each name stands for.
    """

    def __init__(self, graph: Graph, **bound: Any):
        self._graph, self.bound = graph, bound
        # What makes each value of the bodies; None for their inputs, and for a name that two values have.
        self._scope: dict[str, Any] = {}
        self._entered: set[str] = set()

    def match(self, pattern: str, name: str) -> bool:
        """Return whether a value is made as a pattern says."""
        return self._match(_parse_pattern(pattern), name)

    def _match(self, pattern: ast.expr, value: Any) -> bool:
        """Compare with the value of a name, or with an attribute that is a list."""
        if isinstance(pattern, ast.BinOp):
            before = dict(self.bound)
            if self._match(pattern.left, value):
                return True
            self.bound = before
            return self._match(pattern.right, value)
        value = self._behind_copies(value) if isinstance(value, str) else value
        if isinstance(pattern, ast.Call):
            maker = self._maker(value) if isinstance(value, str) else None
            return isinstance(maker, onnx.NodeProto) and self._match_node(pattern, maker, value)
        if not isinstance(pattern, ast.Name):
            return ast.literal_eval(pattern) in (value, self._constant(value))
        if pattern.id.isupper():
            value = self._constant(value)
        elif pattern.id not in self.bound and isinstance(value, str) and value in self._scope:
            return False
        return value is not None and self.bound.setdefault(pattern.id, value) == value

    def _match_node(self, pattern: ast.Call, node: onnx.NodeProto, value: str) -> bool:
        kind: str = pattern.func.id  # type: ignore[attr-defined]
        wanted = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in pattern.keywords}
        inputs, output = wanted.pop("inputs", "").split(), wanted.pop("output", 0)
        given = {one.name: one.i for one in node.attribute if one.type == onnx.AttributeProto.INT}
        if not is_own(node, *(REDUCTIONS if kind == "OP" else [kind])) or value != node.output[output]:
            return False
        if wanted != {name: number for name, number in given.items() if number != (name == "keepdims")}:
            return False
        operands: list[Any] = [*node.input]
        for attribute in sorted(node.attribute, key=lambda one: one.name, reverse=True):  # an else is behind its then
            if attribute.HasField("g"):
                self._enter(f"{value} {attribute.name}", attribute.g)
                self.bound |= zip(inputs, (info.name for info in attribute.g.input), strict=False)
                operands += (info.name for info in attribute.g.output)
        operands += [[*one.ints] for one in node.attribute if one.ints]
        args = pattern.args[:4] if kind == "Slice" and len(operands) == 4 else pattern.args  # steps of 1
        if kind == "OP" and self.bound.setdefault(kind, node.op_type) != node.op_type:
            return False
        return len(args) == len(operands) and all(map(self._match, args, operands))

    def _enter(self, key: str, body: onnx.GraphProto) -> None:
        """Add the values of a body, once."""
        if key in self._entered:
            return
        self._entered.add(key)
        made = [(info.name, None) for info in body.input] + [(tensor.name, tensor) for tensor in body.initializer]
        made += [(name, node) for node in body.node for name in node.output]
        for name, maker in made:
            self._scope[name] = None if name in self._scope else maker

    def _maker(self, name: str) -> Any:
        return self._scope[name] if name in self._scope else self._graph.makers.get(name)

    def _behind_copies(self, name: str) -> str:
        """Return the value that others are copies of; the integers of patterns fit the type of every copy."""
        while isinstance(node := self._maker(name), onnx.NodeProto) and is_own(node, "Identity", "CastLike"):
            if node.op_type == "CastLike" and not isinstance(self._constant(node.input[0]), int | list):
                break
            name = node.input[0]
        return name

    def _constant(self, name: Any) -> Any:
        """Return the numbers of a small constant; None where the value is none."""
        maker = self._scope.get(name) if isinstance(name, str) else None
        if isinstance(maker, onnx.TensorProto):
            array = numpy_helper.to_array(maker)
        elif isinstance(name, str) and name not in self._scope:
            array = self._graph.constant(name)
        else:
            array = constant_of(maker) if is_own(maker, "Constant") else None
        return array.tolist() if array is not None and array.size <= MAX_CONSTANT_SIZE else None


@functools.cache
def _parse_pattern(pattern: str) -> ast.expr:
    return ast.parse(pattern, mode="eval").body


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without local functions, or the model itself where onnx rejects them."""
    from onnx import inliner

    try:
        return inliner.inline_local_functions(proto) if proto.functions else proto
    except (MemoryError, RuntimeError, ValueError):
        return proto


def _with_types(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with the types of its values as far as onnx infers them."""
    from onnx import shape_inference

    try:  # without data propagation, which would make a dimension of each vector's element
        return shape_inference.infer_shapes(proto)
    except (shape_inference.InferenceError, MemoryError, RuntimeError, ValueError):
        return proto  # what onnx rejects stays in the runtime


def make_part(
    graph: Graph, nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.ModelProto:
    """Return a model of some nodes; raises ModelError where the type of one of its inputs is not known."""
    part = onnx.ModelProto(ir_version=graph.proto.ir_version, producer_name="gathernest")
    part.opset_import.extend(graph.proto.opset_import)
    part.functions.extend(graph.proto.functions)
    part.graph.name = "part"
    part.graph.node.extend(nodes)
    for name in inputs:
        if name not in graph.types:
            raise ModelError(f"the type of value {name!r} is not known")
        part.graph.input.append(onnx.ValueInfoProto(name=name, type=graph.types[name]))
    part.graph.output.extend(onnx.ValueInfoProto(name=name, type=graph.types.get(name)) for name in outputs)
    read = {name for node in nodes for name in read_names(node)}
    part.graph.initializer.extend(tensor for name, tensor in graph.initializers.items() if name in read)
    return part
