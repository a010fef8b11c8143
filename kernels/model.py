"""Models: `load` reads one, and the `Model` it gives runs its gathers through compiled kernels.

The file becomes one module (`ir.importers`), which the pipeline `graph` simplifies. What runs is a list of steps made
from the last stage once: gathers go to `kernels.gather`, the shape operators between them to NumPy, as views wherever
that is enough.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.array_spec import ArraySpec
from ..ir.element_types import is_movable
from ..ir.errors import BoundsError, GathernestError, InvalidGatherError, ModelError
from ..ir.importers.file_limits import DEFAULT_MAX_BYTES, FileLimits
from ..ir.operator_spec import OperatorSpec, gathered_shape
from ..ir.problem import Problem
from ..ir.semantics import Bounds
from .gather import run_operator
from .host.recycled_memory import RECYCLED
from .host.runtime import RUNTIME
from .models.large_results import joined, memory_of, owned
from .models.sources import ModelSource, read_model
from .models.tensor_spec import TensorSpec, checked_inputs, inputs_by_name
from .runtime.array_checks import index_array

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue

    from ..ir.importers.graph_builder import ImportedModel
    from ..ir.modules.weights import Weights

PIPELINE = "graph"


@dataclass(frozen=True, slots=True)
class _Step:
    """One operation: what it calls, where its operands and its result lie, and which values nobody needs after it."""

    node: str
    call: Callable[..., np.ndarray]
    operands: tuple[int, ...]
    result: int
    dead: tuple[int, ...]


class Model:
    """A model from a file, ready to run; make one with `gathernest.load`. Safe to use from several threads.

    Attributes:
        inputs: name to `TensorSpec`, in the model's order.
        outputs: the same of what it gives.
        weights: the values of the module's weights by name, read-only.
        pipeline: the passes that made it, as text that `gathernest-opt -p` takes.
    """

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    weights: "Weights"
    pipeline: str

    def __init__(self, imported: "ImportedModel", name: str = "model"):
        """Take what an importer has read, and run the pipeline on it; the module is changed in place.

        Raises:
            BoundsError: a constant index is not valid; names the node.
        """
        from ..ir.modules.weights import model_context
        from ..lowering.pipeline import run_passes
        from ..lowering.registry import PIPELINES

        self._as_read = imported.snapshot(), imported.weights.copy()
        try:
            run_passes(imported.module, PIPELINE, model_context(imported.weights, imported.known))
        except GathernestError:
            raise
        except Exception:
            _ = self.stages  # names the pass that failed, and saves what repeats it
            raise
        self.name = name
        self.pipeline = PIPELINES[PIPELINE]
        self.weights = imported.weights
        self.inputs, self.outputs, self._values, self._steps, self._results = _plan(imported)

    @cached_property
    def stages(self) -> Mapping[str, str]:
        """The module after every pass of the pipeline, as text: `operator`, as it was read, first.

        Made at the first use: the pipeline runs again on the module as it was read.
        """
        from ..ir.modules.weights import model_context
        from ..lowering.pipeline import run_pipeline

        module, weights = self._as_read
        stages = run_pipeline(module(), PIPELINE, model_context(weights.copy()))
        return MappingProxyType({stage.pass_name: stage.text for stage in stages})

    def gathers(self, size: int = 128) -> dict[str, Problem]:
        """Return the gathers and the bags that it runs, by the names of their nodes; those of strings have no kernel.

        Args:
            size: of dimensions whose sizes are known only when the model runs, and of bags of different lengths.

        Raises:
            InvalidGatherError: attributes do not fit sizes that were assumed so.
        """
        from ..ir.dialects.attributes import node_name
        from ..ir.dialects.graph.bag_ops import BagsOp
        from ..ir.modules.known_values import AnyGather
        from ..ir.modules.weights import model_context
        from ..lowering.pipeline import run_passes
        from .models.bags import problem_of_bags

        module, weights = self._as_read
        graph = module()
        run_passes(graph, PIPELINE, model_context(weights.copy()))
        found: dict[str, Problem] = {}
        for op in graph.walk():
            if not isinstance(op, AnyGather | BagsOp):
                continue
            specs = [_spec_of(operand, size) for operand in op.operands]
            if isinstance(op, BagsOp):
                problem = problem_of_bags(op.fields(), specs, size)
            elif is_movable(specs[0].dtype):
                version = op.version.data if op.version else None
                problem = Problem.checked(op.spec(), specs[0], specs[1], op.bounds.data, version=version)
            else:
                continue
            name = node_name(op) or op.name
            found[name if name not in found else f"{name} {len(found)}"] = problem
        return found

    def __call__(self, /, *arrays: Any, **inputs: Any) -> dict[str, np.ndarray]:
        """Run the model on arrays in the order of its inputs, and on others by name; see `run`."""
        return self.run(inputs_by_name(self.inputs, arrays, inputs))

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Run the model.

        Args:
            inputs: an array for every input by its name, of exactly its dtype and of sizes that its shape allows.
                Sizes of one name are the same in all of them.

        Returns:
            The outputs by name, in the model's order: new C-contiguous arrays, which share no memory with the inputs.

        Raises:
            ModelError: an input is missing, unknown, or of the wrong dtype, rank or sizes; or sizes that are known only
                now do not fit.
            BoundsError: an index is not valid; names the node.
        """
        values: list[np.ndarray | None] = list(self._values)
        for place, array in enumerate(checked_inputs(self.inputs, inputs)):
            values[place] = array
        taken = {id(memory): memory for array in values if array is not None for memory in memory_of(array)}
        for step in self._steps:
            try:
                values[step.result] = step.call(*[values[place] for place in step.operands])
            except (BoundsError, InvalidGatherError, ModelError) as error:
                raise type(error)(f"node {step.node!r}: {error}") from None
            for place in step.dead:
                values[place] = None
        results: dict[str, np.ndarray] = {}
        for name, place in zip(self.outputs, self._results, strict=True):
            array = values[place]
            assert array is not None
            results[name] = array = owned(array, taken)
            taken |= {id(memory): memory for memory in memory_of(array)}
        return results

    def __str__(self) -> str:
        return list(self.stages.values())[-1]

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {spec}" for name, spec in self.inputs.items())
        outputs = ", ".join(f"{name}: {spec}" for name, spec in self.outputs.items())
        return f"<gathernest model {self.name}: ({inputs}) -> ({outputs})>"


def load(
    source: ModelSource,
    *,
    allow_external_data: bool = False,
    max_file_bytes: int = DEFAULT_MAX_BYTES,
    max_tensor_bytes: int = DEFAULT_MAX_BYTES,
    max_total_bytes: int = DEFAULT_MAX_BYTES,
) -> Model:
    """Read a model of gathers.

    Args:
        source: the path of a `.onnx` file (extra `onnx`), or of the `.xml` of an OpenVINO IR with its `.bin` beside it
            (extra `openvino`); the bytes of a `.onnx` file, an `onnx.ModelProto` or an `openvino.Model`.
        allow_external_data: whether an ONNX model's weights may be read from other files in its own folder.
        max_file_bytes: the most bytes read from a file.
        max_tensor_bytes: the most bytes a tensor may have, as far as its sizes are known before the model runs.
        max_total_bytes: the most bytes its constants, and what is computed from them at load, may have together.

    Returns:
        The model, its constants folded and its constant indices checked.

    Raises:
        ModelError: the source is none of these, cannot be read, is damaged, or holds operators that are not supported,
            all of which are named.
        BoundsError: a constant index is not valid; names the node.
        DependencyError: the package that reads such a file is missing; says how to install it.
    """
    limits = FileLimits(max_file_bytes, max_tensor_bytes, max_total_bytes)

    def read() -> Model:
        imported, name = read_model(source, limits, allow_external_data=allow_external_data)
        return Model(imported, name)

    is_path = isinstance(source, str | os.PathLike)
    return RUNTIME.make(read, kind=("load", Path(source).suffix if is_path else type(source)))


def _plan(imported: "ImportedModel") -> tuple[Any, ...]:
    """Return inputs, outputs, the values that are there before a run, the steps, and where the results lie."""
    from ..ir.dialects.attributes import node_name
    from ..ir.interpreters.graph import find_function
    from ..ir.modules.known_values import constant_array

    function = find_function(imported.module, "main")
    block, attributes = function.body.block, function.arg_attrs
    inputs = _specs(list(block.args), attributes.data if attributes else ())
    places: dict[SSAValue, int] = {argument: number for number, argument in enumerate(block.args)}
    values: list[np.ndarray | None] = [None] * len(places)
    pending: list[tuple[Operation, tuple[int, ...], int]] = []
    returned: Sequence[SSAValue] = ()
    for op in block.ops:
        if not op.results:
            returned = op.operands
            continue
        place = places[op.results[0]] = len(values)
        values.append(constant_array(op.results[0], imported.weights))
        if values[-1] is None:
            pending.append((op, tuple([places[operand] for operand in op.operands]), place))
    results = tuple(places[value] for value in returned)
    last_use = {operand: place for _, operands, place in pending for operand in operands}
    dead: dict[int, tuple[int, ...]] = {}
    for number in last_use.keys() - set(results):
        dead[last_use[number]] = (*dead.get(last_use[number], ()), number)
    calls = _calls_of((op for op, *_ in pending), imported.weights, imported.limits)
    steps = tuple(
        _Step(node_name(op) or op.name, call, operands, place, dead.get(place, ()))
        for (op, operands, place), call in zip(pending, calls, strict=True)
    )
    outputs = _specs(list(returned), function.res_attrs.data if function.res_attrs else ())
    return inputs, outputs, tuple(values), steps, results


def _spec_of(value: "SSAValue", size: int) -> ArraySpec:
    """Return the array that a value is, with this size for each that is not known."""
    from ..ir.dialects.graph_op import shape_of_value, tensor_type
    from ..ir.dialects.types import numpy_dtype
    from ..ir.semantics import DYNAMIC

    shape = tuple(size if known == DYNAMIC else known for known in shape_of_value(value))
    return ArraySpec(shape, numpy_dtype(tensor_type(value).element_type))


def _specs(values: Sequence["SSAValue"], attributes: Sequence[Any]) -> Mapping[str, TensorSpec]:
    """Return what the function's arguments or results are, by the names that they carry."""
    from ..ir.dialects.attributes import DIMS, NAME
    from ..ir.dialects.graph_op import shape_of_value, tensor_type
    from ..ir.dialects.types import numpy_dtype
    from ..ir.semantics import DYNAMIC

    found: dict[str, TensorSpec] = {}
    for value, entry in zip(values, attributes, strict=True):
        sizes = shape_of_value(value)
        dims = [dim.data or None for dim in entry.data[DIMS].data] if DIMS in entry.data else [None] * len(sizes)
        shape = tuple(dim if size == DYNAMIC else size for size, dim in zip(sizes, dims, strict=True))
        found[entry.data[NAME].data] = TensorSpec(shape, numpy_dtype(tensor_type(value).element_type))
    return MappingProxyType(found)


def _calls_of(
    ops: Iterable["Operation"], weights: "Weights", limits: FileLimits
) -> Iterator[Callable[..., np.ndarray]]:
    """Yield what carries out each operation on the arrays of its operands."""
    from ..ir.dialects.graph.bag_ops import BagsOp
    from ..ir.dialects.graph.elementwise_ops import ElementwiseOp, element_dtypes
    from ..ir.dialects.graph.functions import FUNCTIONS
    from ..ir.dialects.graph_op import GraphOp, tensor_type
    from ..ir.dialects.graph_ops import ConcatOp
    from ..ir.dialects.types import numpy_dtype
    from ..ir.interpreters.graph import reject_negative_indices
    from ..ir.modules.known_values import AnyGather
    from ..lowering.passes.graph.graph_queries import last_positions
    from .models.bags import reduced_bags

    for op in ops:
        if isinstance(op, AnyGather):
            version, check = op.version.data if op.version else None, partial(reject_negative_indices, op)
            yield partial(_gathered, op.spec(), op.bounds.data, version, check, last_positions(op, weights), limits)
        else:
            assert isinstance(op, GraphOp)
            dtype = numpy_dtype(tensor_type(op.result).element_type)
            function = FUNCTIONS[op.function.data].compute if isinstance(op, ElementwiseOp) else None
            if isinstance(op, BagsOp):
                yield partial(reduced_bags, op.fields(), limits)
                continue
            if isinstance(op, ConcatOp):
                yield partial(_joined, ConcatOp, op.fields())
                continue
            if isinstance(function, np.ufunc) and dtype.kind == "f" and element_dtypes(op.operands)[0] == dtype:
                yield partial(_applied, function, type(op), op.fields(), dtype, limits)
                continue
            yield partial(_computed, type(op), op.fields(), dtype, limits)


def _gathered(
    operator: OperatorSpec,
    bounds: Bounds,
    version: str | None,
    check: Callable[[np.ndarray], None],
    last: tuple[tuple[int, int], ...],
    limits: FileLimits,
    data: np.ndarray,
    indices: np.ndarray,
) -> np.ndarray:
    limits.check_shape("the result", gathered_shape(operator, data.shape, indices.shape), data.dtype)
    if last and all(place < data.shape[axis] for axis, place in last):
        bounds = Bounds.UNCHECKED  # constants, looked at when the model was loaded
    else:
        check(indices)
    return run_operator(operator, data, index_array(indices), bounds, None, version=version)


def _computed(kind: Any, fields: Any, dtype: np.dtype, limits: FileLimits, *arrays: np.ndarray) -> np.ndarray:
    if (sizes := kind.result_sizes(fields, arrays)) is not None:
        limits.check_shape("the result", sizes, dtype)
    return kind.compute(fields, dtype, arrays)


def _applied(
    function: np.ufunc, kind: Any, fields: Any, dtype: np.dtype, limits: FileLimits, *arrays: np.ndarray
) -> np.ndarray:
    sizes = kind.result_sizes(fields, arrays)
    limits.check_shape("the result", sizes, dtype)
    with np.errstate(all="ignore"):
        return function(*arrays, out=RECYCLED.new(tuple(sizes), dtype))


def _joined(kind: Any, fields: Any, *arrays: np.ndarray) -> np.ndarray:
    kind.check_shapes(fields, arrays)
    return joined(arrays, fields["axis"])
