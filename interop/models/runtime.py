"""The values that `Model` and the runtimes of models share: a tensor's type, a gather in a model, and a runtime.

A `Runtime` holds one model and runs it whole. It says which gathers the model has, measures the sizes of their
operands, and cuts the model at some of them. `Model` decides which gathers run here; it knows neither ONNX nor
OpenVINO.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.element_types import element_type_name
from ...ir.errors import InvalidGatherError, ModelError
from ...ir.operator_spec import OperatorSpec
from ...ir.problem import Problem
from ...ir.semantics import Bounds, Shape

# A runtime's own function takes and gives a value for each name. Most values are arrays.
Values = Mapping[str, Any]
Run = Callable[[Values], list[Any]]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The type of an input or an output of a model.

    Attributes:
        shape: sizes, with a name or None for a size that is known only when the model runs; None for an unknown rank.
        dtype: of the elements, object for strings; None for a value that is no tensor.
        kind: the runtime's name of a type that is no tensor, such as `seq(tensor(int64))`.

    Prints as `f32[batch, 4]`, with `?` for a size without a name.
    """

    shape: tuple[int | str | None, ...] | None
    dtype: np.dtype | None
    kind: str = ""

    def admits(self, array: Any) -> bool:
        """Return whether an array has this type."""
        if self.dtype is None or getattr(array, "dtype", None) != self.dtype:
            return False
        return self.shape is None or (
            array.ndim == len(self.shape)
            and all(
                size == wanted or not isinstance(wanted, int)
                for size, wanted in zip(array.shape, self.shape, strict=True)
            )
        )

    def size_names(self, name: str) -> list[str | None]:
        """Return what the sizes of the input of that name are called: `NAME.AXIS` without a name, None if known."""
        return [
            None if isinstance(size, int) else size or f"{name}.{axis}" for axis, size in enumerate(self.shape or ())
        ]

    def __str__(self) -> str:
        if self.dtype is None:
            return self.kind
        sizes = ["..."] if self.shape is None else ["?" if size is None else str(size) for size in self.shape]
        kind = "str" if self.dtype.hasobject else element_type_name(self.dtype)
        return f"{kind}[{', '.join(sizes)}]"


@dataclass(frozen=True, slots=True, eq=False)
class ModelGather:
    """A gather, or a bag of gathered rows, that a runtime found in its model and can leave out of it.

    Attributes:
        node: the name of the node in the model.
        kind: the operator as the model calls it, such as `Gather` or `Loop (embedding bag)`.
        operands: the names of the values that `compute` takes: the table, the indices, then offsets or weights.
        result: the name of the value that `compute` gives.
        operator: what runs, as the IR knows it; for a bag the reduction of bags of one length.
        bounds: what an index outside means.
        compute: takes the arrays of the operands, and gives the result; it may raise GathernestError, and the whole
            model then runs in its runtime.
        tables: the constant operands by name, read-only and shared with the runtime.
        specs: what is known of the operands before a run.
        runtime_ns: predicts the runtime's own time from the shapes of the operands.
        parts: what the runtime leaves out of the model, in its own terms.
        remark: why it always stays in the runtime; empty for a gather that can run here.
    """

    node: str
    kind: str
    operands: tuple[str, ...]
    result: str
    operator: OperatorSpec
    bounds: Bounds
    compute: Callable[..., np.ndarray]
    tables: Mapping[str, np.ndarray]
    specs: Mapping[str, TensorSpec]
    runtime_ns: "Callable[[ModelGather, Mapping[str, Shape]], float]"
    parts: Any = None
    remark: str = ""

    def problem(self, shapes: Mapping[str, Shape], size: int) -> Problem:
        """Return the problem for some shapes of the operands, with `size` for every size that is not known.

        For bags of different lengths that is as many bags of as many indices.

        Raises:
            InvalidGatherError: the sizes do not fit the operator, or the rank of an operand is not known.
        """
        specs: list[ArraySpec] = []
        for name in self.operands[:2]:
            spec = self.specs[name]
            if name not in shapes and spec.shape is None:
                raise InvalidGatherError(f"the rank of {name!r} is not known before the model runs")
            shape = shapes.get(name) or tuple(known if isinstance(known, int) else size for known in spec.shape or ())
            assert spec.dtype is not None
            if name == self.operands[1] and self.operator.adds and len(shape) == 1:
                shape = size, size
            specs.append(ArraySpec(shape, spec.dtype))
        return Problem.checked(self.operator, specs[0], specs[1], self.bounds)


class Runtime(Protocol):
    """A model in the runtime of its format. Every method raises ModelError with the runtime's own message.

    Attributes:
        title: the runtime's name and version, such as `ONNX Runtime 1.32.0`.
        run: runs the whole model on its inputs by name, and returns its outputs in order.
        inputs: the types of the inputs that a call must give, by name, in the model's order.
        optional: the names of inputs that have a value in the model.
        outputs: the names of the outputs in the model's order; one may be there twice.
        gathers: what can be left out of the model, in the order of its nodes.
    """

    title: str
    run: Run
    inputs: Mapping[str, TensorSpec]
    optional: frozenset[str]
    outputs: tuple[str, ...]
    gathers: Sequence[ModelGather]

    def measure(self, inputs: Values) -> Mapping[str, Shape]:
        """Return the shapes of all operands of the gathers, for these inputs."""
        ...

    def cut(self, chosen: Sequence[ModelGather]) -> Run:
        """Return a function that runs the model with the chosen gathers computed here; it gives what `run` gives."""
        ...


def place_late(items: Sequence[tuple[Sequence[str], Sequence[str], Any]], outputs: Sequence[str]) -> list[list[Any]]:
    """Return the items of a graph in stages. The gathers of a stage run after its nodes.

    Each node is in the last stage in which it can be, so that few values pass from stage to stage.

    Args:
        items: the names of the values that each node or `ModelGather` reads and makes, and itself, in an order that
            can run.
        outputs: the names of the values that are wanted; what none of them needs is left out.
    """
    depth: dict[str, int] = {}
    for reads, made, item in items:
        start = max((depth.get(name, 0) for name in reads), default=0)
        depth |= dict.fromkeys(made, start + isinstance(item, ModelGather))
    last = max(depth.values(), default=0)
    latest = dict.fromkeys(outputs, last)
    stages: list[list[Any]] = [[] for _ in range(last + 1)]
    for reads, made, item in reversed(items):
        wanted = [latest[name] for name in made if name in latest]
        if not wanted:
            continue
        stage = depth[made[0]] - 1 if isinstance(item, ModelGather) else min(wanted)
        stages[stage].insert(0, item)
        for name in reads:
            latest[name] = min(latest.get(name, last), stage)
    return [stage for stage in stages if stage]


def wrap_error(title: str, error: Exception) -> ModelError:
    """Return the ModelError for an error of a runtime."""
    reason = str(error).strip() or type(error).__name__
    return ModelError(f"{title} does not run the model: {reason}")
