"""Read an OpenVINO IR of version 10 or 11: the `.xml` that `openvino.save_model` writes and the `.bin` beside it.

The graph is put in order in `openvino_xml`; here its layers become operations of the IR, one function a type.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import numpy as np
from xdsl.ir import SSAValue

from ..dialects.graph_op import shape_of_value
from ..dialects.graph_ops import ReshapeOp, ShapeOfOp
from ..errors import ModelError, number_of_inputs
from ..operator_spec import Gather, GatherElements, GatherNd
from ..semantics import DYNAMIC, Bounds, shapes_agree
from .bags.openvino_bags import OPENVINO_BAGS
from .file_limits import FileLimits, OpenFile, open_file
from .graph_builder import GraphBuilder, ImportedModel, unsupported
from .openvino_layers import ELEMENTWISE_AND_MOVING, Kind, element_dtype
from .openvino_xml import Layer, integer, read_layers

# Types of layers that may have any number of outputs; a Result has none, and every other has one.
SEVERAL_OUTPUTS = ("Split", "VariadicSplit")


def import_openvino(path: Path, *, limits: FileLimits | None = None) -> ImportedModel:
    """Read the `.xml` of an OpenVINO IR, and what it needs of the `.bin` of the same name.

    Args:
        path: the `.xml` file.
        limits: of the model's memory.

    Raises:
        ModelError: a file is damaged, or the model holds what is not supported; names the layer.
    """
    limits = limits or FileLimits()
    layers = read_layers(path, limits)
    with ExitStack() as stack:
        # Opened by the first layer that needs it.
        weights = cache(lambda: stack.enter_context(open_file(path.with_suffix(".bin"), limits)))
        _check_supported(layers)
        reader = _Reader(layers, GraphBuilder(limits), weights)
        stack.enter_context(reader.builder.naming_nodes())
        for layer in layers.values():
            reader.builder.node, reader.builder.kind = layer.name, layer.type
            reader.read(layer)
    if not reader.outputs:
        raise ModelError(f"{path} has no Result; the model may be damaged")
    for name, value in reader.outputs.items():
        reader.builder.result(name, value)
    return reader.builder.finish()


class _Reader:
    """Turns layers into operations, in an order in which every input comes before its use."""

    def __init__(self, layers: Mapping[int, Layer], builder: GraphBuilder, weights: Callable[[], OpenFile]):
        self.layers, self.builder, self.weights = layers, builder, weights
        self.values: dict[int, Sequence[SSAValue]] = {}
        self.outputs: dict[str, SSAValue] = {}
        self._inputs: set[str] = set()

    def read(self, layer: Layer) -> None:
        """Add one layer.

        Raises:
            ModelError: its type is not supported, or what it says does not fit.
        """
        _, least, most, convert = _CONVERTERS[layer.type]
        operands = [self.values[source][place] for source, place in layer.sources]
        if not least <= len(operands) <= most:
            raise ModelError(f"{layer.type} has {number_of_inputs(least, most)}, got {len(operands)}")
        if len(layer.outputs) != (layer.type != "Result") and layer.type not in SEVERAL_OUTPUTS:
            raise ModelError(f"it has {len(layer.outputs)} outputs")
        given = convert(self, layer, operands)
        values = [given] if isinstance(given, SSAValue) else given
        if len(layer.outputs) not in (0, len(values)):
            raise ModelError(f"it has {len(layer.outputs)} outputs, and gives {len(values)}")
        self.values[layer.id] = values
        for port, value in zip(layer.outputs, values, strict=False):
            if not shapes_agree(port.shape, shape_of_value(value)):
                raise ModelError(
                    f"its output is declared with shape {_shown(port.shape)}, and the graph gives {value.type}"
                )

    def parameter(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        (port,) = layer.outputs
        name = port.names[0] if port.names else layer.name
        if name in self._inputs:
            raise ModelError(f"input {name!r} is there twice")
        self._inputs.add(name)
        return self.builder.argument(name, element_dtype(layer.required("element_type")), _sizes(layer, dynamic=True))

    def constant(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        dtype, shape = element_dtype(layer.required("element_type")), _sizes(layer, dynamic=False)
        self.builder.limits.check_shape("its value", shape, dtype)
        offset, size_bytes = (integer(layer.required(name), name) for name in ("offset", "size"))
        wanted = math.prod(shape) * dtype.itemsize
        if size_bytes != wanted and wanted:  # what has no elements is written with a byte of padding
            raise ModelError(f"it has size {size_bytes}, and shape {_shown(shape)} of {dtype} has {wanted} bytes")
        self.builder.weights.check_room(wanted, layer.name)
        data = self.weights().read(offset, wanted)
        return self.builder.constant(layer.name, np.frombuffer(data, dtype).reshape(shape))

    def result(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        ((source, place),) = layer.sources
        given = layer.result_names or self.layers[source].outputs[place].names
        name = next((name for name in given if name not in self.outputs), layer.name)
        if name in self.outputs:
            raise ModelError(f"output {name!r} is there twice")
        self.outputs[name] = operands[0]
        return operands[0]

    def gather(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        data, indices, axis = operands
        axes = self.builder.known_integers(axis, "the axis")
        if len(axes) != 1:
            raise ModelError(f"the axis must be one number, got {axes}")
        version = int(layer.opset.removeprefix("opset"))
        batch_dims = layer.integer("batch_dims", 0) if version > 1 else 0
        bounds = Bounds.ZERO if version == 8 else Bounds.ERROR
        spec = Gather(axes[0], batch_dims)
        return self.builder.gather(spec, data, indices, bounds, f"openvino.Gather-{version}", layer.name)

    def gather_nd(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        version, batch_dims = int(layer.opset.removeprefix("opset")), layer.integer("batch_dims", 0)
        name = f"openvino.GatherND-{version}"
        data, indices = operands
        kept = self.builder.gather(GatherNd(batch_dims), data, indices, Bounds.ERROR, name, layer.name)
        return self._flattened(kept, batch_dims, layer) if version == 5 and batch_dims > 1 else kept

    def _flattened(self, kept: SSAValue, batch_dims: int, layer: Layer) -> SSAValue:
        """Return a tensor with its batch dimensions made one, as GatherND-5 has them."""
        rest = shape_of_value(kept)[batch_dims:]
        if DYNAMIC in rest or 0 in rest:
            raise ModelError(
                f"GatherND-5 makes one dimension of its {batch_dims} batch dimensions, for which the others must be "
                f"known and not 0, got {kept.type}"
            )
        sizes = self.builder.constant(f"{layer.name}.sizes", np.array([-1, *rest], np.int64))
        return self.builder.shape_operator(ReshapeOp, [kept, sizes], layer.name, allow_zero=True)

    def gather_elements(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        spec = GatherElements(integer(layer.required("axis"), "axis"))
        data, indices = operands
        return self.builder.gather(spec, data, indices, Bounds.ERROR, "openvino.GatherElements-6", layer.name)

    def convert(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        return self.builder.cast(operands[0], element_dtype(layer.required("destination_type")), layer.name)

    def shape_of(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        kind = layer.attributes.get("output_type", "i64")
        if kind not in ("i32", "i64"):
            raise ModelError(f"output_type must be i32 or i64, got {kind!r}")
        rank = len(shape_of_value(operands[0]))
        return self.builder.shape_operator(ShapeOfOp, operands, layer.name, element_dtype(kind), start=0, end=rank)

    def reshape(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        special = layer.attributes.get("special_zero", "false")
        if special not in ("true", "false", "1", "0"):
            raise ModelError(f"special_zero must be true or false, got {special!r}")
        return self.builder.shape_operator(ReshapeOp, operands, layer.name, allow_zero=special in ("false", "0"))

    def squeeze(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        if layer.attributes.get("allow_axis_skip", "false") not in ("false", "0"):
            raise ModelError("allow_axis_skip, which makes the rank depend on sizes, is not supported")
        axes = self.builder.known_integers(operands[1], "axes") if len(operands) > 1 else None
        return self.builder.squeeze(operands[0], axes, layer.name)

    def unsqueeze(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        return self.builder.unsqueeze(operands[0], self.builder.known_integers(operands[1], "axes"), layer.name)

    def concat(self, layer: Layer, operands: list[SSAValue]) -> SSAValue:
        return self.builder.concat(operands, integer(layer.required("axis"), "axis"), layer.name)


def _sizes(layer: Layer, *, dynamic: bool) -> tuple[int, ...]:
    """Read the attribute `shape`: `2,?,-1`, where `?`, `-1` and a range stand for a size that is not known."""
    sizes: list[int] = []
    for word in layer.required("shape").split(","):
        text = word.strip()
        if dynamic and (text in ("?", "-1") or ".." in text):
            sizes.append(DYNAMIC)
        elif text:
            size = integer(text, "a size of its shape")
            if size < 0:
                raise ModelError(f"its shape is {layer.required('shape')!r}, and sizes are 0 or more")
            sizes.append(size)
    if "..." in layer.required("shape"):
        raise ModelError("its rank is not known; save the model with a known rank")
    return tuple(sizes)


def _shown(shape: tuple[int, ...]) -> str:
    return f"[{', '.join('?' if size == DYNAMIC else str(size) for size in shape)}]"


def _check_supported(layers: Mapping[int, Layer]) -> None:
    """Check type and opset of every layer; raises ModelError, which names all that are not supported."""
    found: dict[str, list[str]] = {}
    for layer in layers.values():
        if layer.type not in _CONVERTERS or layer.opset not in _CONVERTERS[layer.type][0]:
            found.setdefault(f"{layer.type} of {layer.opset}", []).append(layer.name)
    if found:
        there = ", ".join(f"{kind} ({'/'.join(opsets)})" for kind, (opsets, *_) in _CONVERTERS.items())
        raise unsupported(found, there.replace("opset", ""))


def _built(kind: Kind) -> "_Kind":
    """Return the entry of a layer that needs the builder only."""
    opsets, least, most, convert = kind
    return opsets, least, most, lambda reader, layer, operands: convert(reader.builder, layer, operands)


# What a type of layer becomes: the opsets that have it, the least and the most inputs, and the function.
_Kind = tuple[tuple[str, ...], int, int, Callable[[_Reader, Layer, list[SSAValue]], SSAValue | Sequence[SSAValue]]]
_CONVERTERS: Mapping[str, _Kind] = {
    "Parameter": (("opset1",), 0, 0, _Reader.parameter),
    "Const": (("opset1",), 0, 0, _Reader.constant),
    "Result": (("opset1",), 1, 1, _Reader.result),
    "Gather": (("opset1", "opset7", "opset8"), 3, 3, _Reader.gather),
    "GatherND": (("opset5", "opset8"), 2, 2, _Reader.gather_nd),
    "GatherElements": (("opset6",), 2, 2, _Reader.gather_elements),
    "Convert": (("opset1",), 1, 1, _Reader.convert),
    "ShapeOf": (("opset1", "opset3"), 1, 1, _Reader.shape_of),
    "Reshape": (("opset1",), 2, 2, _Reader.reshape),
    "Squeeze": (("opset1", "opset15"), 1, 2, _Reader.squeeze),
    "Unsqueeze": (("opset1",), 2, 2, _Reader.unsqueeze),
    "Concat": (("opset1",), 1, 10**6, _Reader.concat),
    **{name: _built(kind) for name, kind in {**ELEMENTWISE_AND_MOVING, **OPENVINO_BAGS}.items()},
}
