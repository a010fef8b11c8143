"""An OpenVINO model in OpenVINO, with its gathers and embedding bags left out where they run here.

Models are untrusted. The `.xml` and the `.bin` are read here, within limits, and OpenVINO opens no file. Its parser of
XML, pugixml, expands no entities and follows no references, so nothing else needs to check the text.

A part of a cut model is a copy of the model whose inputs are what earlier parts and gathers give.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.element_types import is_movable
from ...ir.errors import BoundsError, ModelError
from ...ir.operator_spec import Gather, GatherElements, GatherMean, GatherNd, GatherReduce, OperatorSpec
from ...ir.semantics import Bounds
from ...kernels.host.dependencies import require
from ...kernels.reduction.gather_reduce import gather_reduce
from ...kernels.runtime.dispatch import run_gather
from .runtime import FileLimits, Item, ModelGather, Run, Runtime, Stage, TensorSpec, Values, read_file, with_errors

# The names of element types that NumPy has, as OpenVINO spells them.
ELEMENT_TYPES = {
    "boolean": "bool",
    "string": "object",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
}


class OpenVinoModel(Runtime):
    """A `Runtime` of an OpenVINO model."""

    def __init__(self, openvino: Any, model: Any, weights: Any = None):
        # Constants of a model share the memory of its weights, and do not hold it.
        self._openvino, self._model, self._weights = openvino, model, weights
        self.title = f"OpenVINO {openvino.__version__.partition('-')[0]}"
        self.inputs = {_name_of(port): _spec_of(port) for port in model.inputs}
        self._parameters = [_name_of(port) for port in model.inputs]
        self._input_names = {_key(port): name for port, name in zip(model.inputs, self._parameters, strict=True)}
        self.run: Run = _compile(openvino, model, self.title, self._parameters)
        self.optional: frozenset[str] = frozenset()
        self.outputs = tuple(_name_of(port) for port in model.outputs)
        self._sources = [port.get_node().input_value(0) for port in model.outputs]
        self._results = [_key(port) for port in self._sources]
        self.gathers: Sequence[ModelGather] = tuple(self._find_gathers())

    def _find_gathers(self) -> Iterator[ModelGather]:
        """Yield the gathers and bags of the main graph; none of a model with variables, or with names that differ."""
        nodes = self._model.get_ordered_ops()
        names = {node.get_friendly_name() for node in nodes}
        if len(names) < len(nodes) or len(self.inputs) < len(self._parameters) or self._model.get_sinks():
            return
        for node in nodes:
            find = _OPERATORS.get(node.get_type_name())
            found = find(node) if find else None
            if found is not None:
                yield found

    def _items(self, chosen: Sequence[ModelGather]) -> Iterator[Item]:
        """Yield the nodes and the chosen gathers without constants, which are in every part."""
        if any(port.get_node().get_type_name() in ("Parameter", "Constant") for port in self._sources):
            raise ModelError("an output of the model is an input or a constant")
        at = {found.replaced: found for found in chosen}
        for node in self._model.get_ordered_ops():
            if node.get_type_name() in ("Parameter", "Result", "Constant"):
                continue
            made = [_key(port) for port in node.outputs()]
            found = at.get(made[0]) if made else None
            values = [port for port in node.input_values() if port.get_node().get_type_name() != "Constant"]
            yield found.operands if found else [_key(port) for port in values], made, found or node

    def _open_part(self, stage: Stage) -> Run:
        from openvino import opset8  # pyright: ignore[reportMissingImports]

        model = self._model.clone()
        ports = {_key(port): port for node in model.get_ordered_ops() for port in node.outputs()}
        parameters = list[Any]()
        for key in stage.inputs:
            port = ports[key]
            if port.get_node().get_type_name() == "Parameter":
                parameters.append(port.get_node())
                continue
            parameter = opset8.parameter(port.get_partial_shape(), port.get_element_type())
            for target in port.get_target_inputs():
                target.replace_source_output(parameter.output(0))
            parameters.append(parameter)
        results = [opset8.result(ports[key]) for key in stage.outputs]
        part = with_errors(self.title, self._openvino.Model)(results, parameters, "part")
        return _compile(self._openvino, part, self.title, stage.inputs)


def _compile(openvino: Any, model: Any, title: str, names: Sequence[str]) -> Run:
    """Return a function that runs a model on values of some names; each thread has a request of its own.

    Raises:
        ModelError: OpenVINO does not compile the model; or a Gather surely gives no elements: OpenVINO divides by their
            number when it compiles one whose shapes are known, which ends the process.
    """
    for node in model.get_ops():
        if node.get_type_name() != "Gather" or node.get_output_partial_shape(0).is_dynamic:
            continue
        sizes = list(node.get_output_shape(0))
        if 0 in sizes:
            raise ModelError(
                f"Gather {node.get_friendly_name()!r} gives no elements, as the sizes of its result are {sizes}, "
                f"and {title} cannot compile that; correct the shapes"
            )
    # OpenVINO gives a thread that compiles another stack for the handlers of signals, and frees it with the model: the
    # next signal of that thread would kill the process.
    with ThreadPoolExecutor(1) as pool:
        compiled = pool.submit(with_errors(title, openvino.Core().compile_model), model, "CPU").result()
    local = threading.local()

    def run(inputs: Values) -> list[Any]:
        values = tuple([inputs[name] for name in names])  # a list would take 25 µs more
        request = getattr(local, "request", None)
        if request is None:
            request = local.request = compiled.create_infer_request()
        return [*request.infer(values, share_inputs=True).values()]

    return with_errors(title, run)


def _key(port: Any) -> str:
    """Return a name of a value, which copies of the model have as well."""
    place = port.get_index()
    name = port.get_node().get_friendly_name()
    return f"{name}:{place}" if place else name


def _name_of(port: Any) -> str:
    """Return the name of an input or an output: one of its tensor's, or that of its node."""
    return min(port.get_names(), default=port.get_node().get_friendly_name())


def _spec_of(port: Any) -> TensorSpec:
    kind = port.get_element_type().get_type_name()
    shape = port.get_partial_shape()
    sizes = None if shape.rank.is_dynamic else tuple(None if dim.is_dynamic else dim.get_length() for dim in shape)
    if kind not in ELEMENT_TYPES:
        return TensorSpec(None, None, kind)
    return TensorSpec(sizes, np.dtype(ELEMENT_TYPES[kind]))


# ---- gathers ----


def _constant_of(port: Any) -> np.ndarray | None:
    """Return a constant of the model, which shares its memory; None where the value is none."""
    node = port.get_node()
    if node.get_type_name() != "Constant" or _spec_of(port).dtype is None:
        return None
    array = node.get_data() if port.get_element_type().get_type_name() == "string" else node.data
    array.flags.writeable = False
    return array


def _behind(port: Any, kinds: str) -> Any:
    """Return the value behind conversions between integers, or from narrow to wide numbers where `kinds` has f."""
    while port.get_node().get_type_name() == "Convert":
        source = port.get_node().input_value(0)
        before, after = _spec_of(source).dtype, _spec_of(port).dtype
        if before is None or after is None or before.kind not in kinds or after.kind not in kinds:
            break
        if "f" in kinds and not (
            np.can_cast(before, after, "safe") and source.get_node().get_type_name() == "Constant"
        ):
            break
        port = source
    return port


def _gather_of(node: Any, operator: OperatorSpec, *, is_reversed: bool = False) -> ModelGather | None:
    """Return a gather, from the narrow constant where its table is a widened one."""
    table, indices = _behind(node.input_value(0), "fiu"), _behind(node.input_value(1), "iu")
    specs = _spec_of(table), _spec_of(indices)
    dtype, result = specs[0].dtype, _spec_of(node.output(0))
    if dtype is None or not is_movable(dtype) or dtype.hasobject or specs[1].dtype is None or result.dtype is None:
        return None
    run = partial(_compute, operator, dtype=result.dtype, is_reversed=is_reversed)
    remark = ""
    if _constant_of(indices) is not None and all(size == 1 for size in specs[1].shape or ()):
        remark = "one constant index selects a slice, which the runtime copies as fast"
    return _found(node, [table, indices], operator, run, remark)


def _compute(
    operator: OperatorSpec, table: np.ndarray, indices: np.ndarray, *, dtype: np.dtype, is_reversed: bool
) -> np.ndarray:
    """Gather rows. OpenVINO narrows indices to 32 bits; what it does with those outside it does itself."""
    indices = indices.astype(np.int32, copy=False)
    if not is_reversed and indices.size and indices.min() < 0:
        raise ModelError("a negative index is read by the runtime")
    try:
        return run_gather(operator, np.asarray(table), indices, Bounds.ERROR).astype(dtype, copy=False)
    except BoundsError:
        raise ModelError("an index outside of the table is read by the runtime") from None


def _find_gather(node: Any) -> ModelGather | None:
    axis = _constant_of(node.input_value(2))
    if axis is None or axis.size != 1:
        return None
    version = node.get_type_info().version_id
    batch_dims = 0 if version == "opset1" else node.get_attributes()["batch_dims"]
    if axis.reshape(()) in (0, -2) and batch_dims == 0 and (bag := _find_reduction(node)) is not None:
        return bag
    return _gather_of(node, Gather(int(axis.reshape(())), batch_dims), is_reversed=version == "opset8")


def _find_nd(node: Any) -> ModelGather | None:
    batch_dims = node.get_attributes()["batch_dims"]
    if batch_dims > 1 and node.get_type_info().version_id == "opset5":
        return None  # version 5 makes one dimension of its batch dimensions
    return _gather_of(node, GatherNd(batch_dims))


# ---- bags ----


def _find_reduction(node: Any) -> ModelGather | None:
    """Return the bags of a Gather whose rows a ReduceSum or ReduceMean of each row of indices alone reads."""
    readers = [target.get_node() for target in node.output(0).get_target_inputs()]
    kind = readers[0].get_type_name() if len(readers) == 1 else ""
    axes = _constant_of(readers[0].input_value(1)) if kind in ("ReduceSum", "ReduceMean") else None
    table, indices = _behind(node.input_value(0), "fiu"), _behind(node.input_value(1), "iu")
    rows, rank = _spec_of(node.input_value(0)), len(_spec_of(indices).shape or ())
    if axes is None or not rank or axes.reshape(-1).tolist() not in ([-2], [rank - 1]):
        return None
    if rows.dtype != np.float32 or len(rows.shape or ()) != 2:
        return None
    reduce = "mean" if kind == "ReduceMean" else "sum"
    is_reversed, keeps = node.get_type_info().version_id == "opset8", readers[0].get_attributes()["keep_dims"]
    run = partial(_reduce_rows, reduce=reduce, keeps=keeps, is_reversed=is_reversed)
    return _found(readers[0], [table, indices], GatherMean() if reduce == "mean" else GatherReduce(), run)


def _reduce_rows(table: np.ndarray, indices: np.ndarray, *, reduce: str, keeps: bool, is_reversed: bool) -> np.ndarray:
    if not indices.size:
        raise ModelError("bags without an index are reduced by the runtime")
    if is_reversed:
        indices = np.where(indices < 0, indices + len(table), indices)
    found = _compute_bag(table, indices, form="EmbeddingBagPacked", reduce=reduce)
    return np.expand_dims(found, -2) if keeps else found


def _find_bag(node: Any) -> ModelGather | None:
    """Return the bags of an EmbeddingBagOffsets, EmbeddingBagPacked or EmbeddingSegments of any version."""
    kind = node.get_type_name()
    ports, form = node.input_values(), kind.removesuffix("Sum")
    reduce = node.get_attributes().get("reduction", "sum")
    count = {"EmbeddingBagOffsets": 3, "EmbeddingBagPacked": 2, "EmbeddingSegments": 4}[form]
    operands, others = ports[:count], ports[count:]
    if form != "EmbeddingBagPacked" and others:
        default = _constant_of(others[0])
        if default is None or default.tolist() not in (-1, [-1]):
            return None  # an empty bag is a row of the table
        others = others[1:]
    operands = [_behind(operands[0], "fiu"), *(_behind(port, "iu") for port in operands[1:]), *others]
    dtypes = {_spec_of(port).dtype for port in (node.output(0), *others)}
    if dtypes != {np.dtype(np.float32)} or reduce not in ("sum", "mean"):
        return None
    run = partial(_compute_bag, form=form, reduce=reduce)
    operator = GatherMean() if reduce == "mean" else GatherReduce()
    return _found(node, operands, operator, run)


def _compute_bag(table: np.ndarray, indices: np.ndarray, *others: np.ndarray, form: str, reduce: Any) -> np.ndarray:
    """Reduce the rows of bags in their order, as OpenVINO does."""
    if indices.size and (indices.min() < 0 or indices.max() >= len(table)):
        raise ModelError("an index outside of the table is read by the runtime")
    if table.dtype != np.float32:  # the rows alone are widened
        rows = run_gather(Gather(0), np.asarray(table), indices, Bounds.ERROR).astype(np.float32)
        table, indices = rows.reshape(-1, table.shape[1]), np.arange(indices.size).reshape(indices.shape)
    cut: dict[str, Any] = {}
    if form == "EmbeddingBagOffsets":
        cut["offsets"], *others = others[0].astype(np.int64), *others[1:]  # type: ignore[assignment]
        if not cut["offsets"].size or cut["offsets"][0] != 0:
            raise ModelError("rows before the first bag are read by the runtime")
    elif form == "EmbeddingSegments":
        segments, bags, *others = others[0].astype(np.int64), int(others[1].reshape(())), *others[2:]  # type: ignore[assignment]
        if segments.size and (segments[0] < 0 or segments[-1] >= bags or (np.diff(segments) < 0).any()):
            raise ModelError("segments that are not in order are read by the runtime")
        cut["lengths"] = np.bincount(segments, minlength=bags)
    weights = others[0] if others else None
    return gather_reduce(table, indices.astype(np.int32, copy=False), reduce=reduce, weights=weights, **cut)


_OPERATORS: dict[str, Callable[[Any], ModelGather | None]] = {
    "Gather": _find_gather,
    "GatherElements": lambda node: _gather_of(node, GatherElements(node.get_attributes()["axis"])),
    "GatherND": _find_nd,
    "EmbeddingBagOffsetsSum": _find_bag,
    "EmbeddingBagOffsets": _find_bag,
    "EmbeddingBagPackedSum": _find_bag,
    "EmbeddingBagPacked": _find_bag,
    "EmbeddingSegmentsSum": _find_bag,
}


def _found(
    node: Any, operands: Sequence[Any], operator: OperatorSpec, compute: Callable[..., np.ndarray], remark: str = ""
) -> ModelGather:
    ports, version = {_key(port): port for port in operands}, node.get_type_info().version_id
    tables = {key: array for key, port in ports.items() if (array := _constant_of(port)) is not None}
    specs, result = {key: _spec_of(port) for key, port in ports.items()}, _key(node.output(0))
    kind = f"{node.get_type_name()}-{version.removeprefix('opset')}"
    rest = Bounds.ZERO if kind == "Gather-8" else Bounds.ERROR, compute, tables, specs, result
    return ModelGather(
        node.get_friendly_name(), kind, tuple(map(_key, operands)), result, operator, *rest, remark=remark
    )


# ---- reading ----


def open_openvino(source: Any, limits: FileLimits) -> tuple[OpenVinoModel, str]:
    """Return an OpenVINO model in OpenVINO, and its name; raises as `load` does."""
    require("openvino")
    import openvino  # pyright: ignore[reportMissingImports]

    if not isinstance(source, str | os.PathLike):
        return OpenVinoModel(openvino, source.clone(), source), source.get_friendly_name()
    path = Path(source)
    text = read_file(path, limits)
    if not text.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"<?xml", b"<net")):
        raise ModelError(f"{path} is no XML; name the .xml of an OpenVINO IR")
    weights_path = path.with_suffix(".bin")
    weights = b""
    if os.path.lexists(weights_path):
        weights = read_file(weights_path, limits, f"the weights of {path.name}")
    memory = np.frombuffer(bytearray(weights or b"\0"), np.uint8)
    title = f"OpenVINO {openvino.__version__.partition('-')[0]}"
    model = with_errors(title, openvino.Core().read_model)(text, openvino.Tensor(memory, shared_memory=True))
    total = 0
    for node in model.get_ops():
        if node.get_type_name() == "Constant" and (dtype := _spec_of(node.output(0)).dtype) is not None:
            total += limits.check_tensor(f"constant {node.get_friendly_name()!r}", list(node.shape), dtype)
            limits.check("all tensors of the model together", total, "max_total_bytes")
    return OpenVinoModel(openvino, model, memory), path.name
