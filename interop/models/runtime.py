"""The values that `Model` and the runtimes of models share: a tensor's type, a gather in a model, and a runtime.

A `Runtime` holds one model and runs it whole. It says which gathers the model has, measures the sizes of their
operands, and cuts the model at some of them. `Model` decides which gathers run here; it knows neither ONNX nor
OpenVINO.

A model is cut into stages. Stage `k` holds the nodes that need the results of the gathers of stage `k - 1`, each node
as late as possible, and the gathers of a stage run after its nodes. The usual model has gathers that read inputs, and
one stage for all other nodes.
"""

import math
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.element_types import element_type_name
from ...ir.errors import GathernestError, InvalidGatherError, ModelError, show
from ...ir.operator_spec import OperatorSpec
from ...ir.problem import Problem
from ...ir.semantics import Bounds, Shape

# A runtime's own function takes and gives a value for each name. Most values are arrays.
Values = Mapping[str, Any]
Run = Callable[[Values], list[Any]]
# Leave the model whole after this number of calls that the kernels here rejected, since each of them runs twice.
MAX_MISSES = 8
# Read files and tensors of at most this number of bytes, unless `load` is told another one.
DEFAULT_MAX_BYTES = 2**31
# A runtime's time in nanoseconds: for each index; for each byte of a result; for each byte of rows that it stores and
# adds; for each element of a table that it computes whole; for each iteration of a Loop.
INDEX_NS, BYTE_NS, ROW_BYTE_NS, TABLE_ELEMENT_NS, ITERATION_NS = 2.0, 0.1, 0.25, 0.3, 10_000.0


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
        replaced: the value that the model reads where the gather ran: `result`, or what `added` makes of it.
        added: nodes that run in the model after the gather, in the runtime's own terms.
        is_table_computed: whether the runtime computes the whole table, element by element.
        is_loop: whether the runtime runs a Loop, with an iteration for each element of the third operand.
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
    replaced: str
    added: tuple[Any, ...] = ()
    is_table_computed: bool = False
    is_loop: bool = False
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

    def predict_runtime_ns(self, shapes: Mapping[str, Shape]) -> float:
        """Return the runtime's own time in nanoseconds, for some shapes of the operands."""
        table, indices = (shapes[name] for name in self.operands[:2])
        dtype = self.specs[self.operands[0]].dtype
        assert dtype is not None
        if self.operator.adds:
            iterations = math.prod(shapes[self.operands[2]]) if self.is_loop else 0
            return math.prod(indices) * math.prod(table[1:]) * dtype.itemsize * ROW_BYTE_NS + iterations * ITERATION_NS
        elements = math.prod(self.problem(shapes, 1).slices.shape)
        computed = math.prod(table) - elements if self.is_table_computed else 0
        moved = math.prod(indices) * INDEX_NS + elements * dtype.itemsize * BYTE_NS
        return moved + computed * TABLE_ELEMENT_NS


# The names of the values that a node or a gather reads, those that it makes, and itself.
Item = tuple[Sequence[str], Sequence[str], Any]


class Stage(NamedTuple):
    """Nodes that run in one session, the names of its inputs and outputs, and the gathers that run after them."""

    nodes: tuple[Any, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    gathers: tuple[ModelGather, ...]


class Runtime(ABC):
    """A model in the runtime of its format. Every method raises ModelError with the runtime's own message.

    Attributes:
        title: the runtime's name and version, such as `ONNX Runtime 1.32.0`.
        run: runs the whole model on its inputs by name, and returns its outputs in order.
        inputs: the types of the inputs that a call must give, by name, in the model's order.
        optional: the names of inputs that have a value in the model.
        outputs: the names of the outputs in the model's order; one may be there twice.
        gathers: what can be left out of the model, in the order of its nodes.
        _input_names: the input that gives it, by the name of a value in the graph.
        _results: the names of the values in the graph that are the outputs.
    """

    title: str
    run: Run
    inputs: Mapping[str, TensorSpec]
    optional: frozenset[str]
    outputs: tuple[str, ...]
    gathers: Sequence[ModelGather]
    _input_names: Mapping[str, str]
    _results: Sequence[str]
    _measured: tuple[Sequence[str], Run] | None = None

    @abstractmethod
    def _items(self, chosen: Sequence[ModelGather]) -> Iterable[Item]:
        """Yield the nodes and the chosen gathers in an order that can run; raise ModelError where none can be cut."""

    @abstractmethod
    def _open_part(self, stage: Stage) -> Run:
        """Return a function that runs the nodes of a stage, and gives its outputs."""

    def measure(self, inputs: Values) -> Mapping[str, Shape]:
        """Return the shapes of all operands of the gathers, for these inputs."""
        movable = [found for found in self.gathers if not found.remark]
        wanted = dict.fromkeys(name for found in movable for name in found.operands)
        shapes = {name: table.shape for found in movable for name, table in found.tables.items()}
        shapes |= {key: np.shape(inputs[name]) for key, name in self._input_names.items() if key in wanted}
        missing = [name for name in wanted if name not in shapes]
        if not missing:
            return shapes
        if self._measured is None:
            (stage,) = cut_in_stages(list(self._items(())), missing)
            self._measured = stage.outputs, self._open_part(stage)
        names, run = self._measured
        found = run({key: inputs[name] for key, name in self._input_names.items()})
        return shapes | dict(zip(names, map(np.shape, found), strict=True))

    def cut(self, chosen: Sequence[ModelGather], missed: list[str] | None = None) -> Run:
        """Return a function that runs the model with the chosen gathers computed here; it gives what `run` gives.

        A call that they do not take runs whole, and adds the reason to `missed`.
        """
        stages = cut_in_stages(list(self._items(chosen)), self._results)
        steps = [(self._open_part(stage) if stage.outputs else None, stage.outputs, stage.gathers) for stage in stages]
        missed = [] if missed is None else missed

        def run(inputs: Values) -> list[Any]:
            if len(missed) >= MAX_MISSES:
                return self.run(inputs)
            values: dict[str, Any] = {key: inputs[name] for key, name in self._input_names.items()}
            try:
                for run_part, outputs, gathers in steps:
                    if run_part is not None:
                        values.update(zip(outputs, run_part(values), strict=True))
                    for found in gathers:
                        operands = [found.tables[n] if n in found.tables else values[n] for n in found.operands]
                        values[found.result] = found.compute(*operands)
                return [values[name] for name in self._results]
            except (GathernestError, MemoryError) as error:  # the runtime says what is wrong, or takes it
                missed.append(str(error))
            return self.run(inputs)

        return run


def cut_in_stages(items: Sequence[Item], results: Sequence[str]) -> list[Stage]:
    """Return the stages of a model, each node in the last one in which it can be, so that few values pass on.

    Args:
        items: the model's nodes and the gathers that run here, in an order that can run.
        results: the names of the values that are wanted; what none of them needs is left out.
    """
    depth: dict[str, int] = {}
    for reads, made, item in items:
        start = max((depth.get(name, 0) for name in reads), default=0)
        depth |= dict.fromkeys(made, start + isinstance(item, ModelGather))
    last = max(depth.values(), default=0)
    latest = dict.fromkeys(results, last)
    levels: list[list[Item]] = [[] for _ in range(last + 1)]
    for reads, made, item in reversed(items):
        wanted = [latest[name] for name in made if name in latest]
        if not wanted:
            continue
        level = depth[made[0]] - 1 if isinstance(item, ModelGather) else min(wanted)
        levels[level].insert(0, (reads, made, item))
        for name in reads:
            latest[name] = min(latest.get(name, last), level)
    stages, later = list[Stage](), {*results}
    for level in filter(None, reversed(levels)):
        nodes = [item for item in level if not isinstance(item[2], ModelGather)]
        gathers = tuple(found for _, _, found in level if isinstance(found, ModelGather))
        later.update(name for found in gathers for name in found.operands)
        read = dict.fromkeys(name for reads, _, _ in nodes for name in reads)
        made = dict.fromkeys(name for _, made, _ in nodes for name in made)
        inputs, outputs = (name for name in read if name not in made), (name for name in made if name in later)
        stages.insert(0, Stage(tuple(item for _, _, item in nodes), tuple(inputs), tuple(outputs), gathers))
        later.update(read)
    return stages


def with_errors(title: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a runtime, whose errors become ModelErrors with the runtime's own message."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except GathernestError:
            raise
        except Exception as error:  # of whatever class the runtime has
            reason = str(error).strip() or type(error).__name__
            raise ModelError(f"{title} does not run the model: {reason}") from None

    return call


# ---- files of models: only regular ones are read, up to a limit ----


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The limits of a model's memory, in bytes.

    Attributes:
        max_file_bytes: of each file that is read.
        max_tensor_bytes: of each tensor.
        max_total_bytes: of all tensors together.
    """

    max_file_bytes: int = DEFAULT_MAX_BYTES
    max_tensor_bytes: int = DEFAULT_MAX_BYTES
    max_total_bytes: int = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        for name in ("max_file_bytes", "max_tensor_bytes", "max_total_bytes"):
            limit = getattr(self, name)
            if not isinstance(limit, int | np.integer) or isinstance(limit, bool) or limit < 0:
                raise ModelError(f"{name}={show(limit)} is no number of bytes; pass an integer from 0, such as 2**31")

    def check_tensor(self, what: str, shape: Sequence[int], dtype: np.dtype) -> int:
        """Return the bytes of a tensor; raises ModelError where sizes are no sizes, or over the limit."""
        if any(size < 0 or size >= 2**63 for size in shape):
            raise ModelError(f"{what} has shape {list(shape)}, and sizes are from 0 to 2**63 - 1")
        total = math.prod(filter(None, shape)) * max(dtype.itemsize, 1)
        self.check(f"{what} of shape {tuple(shape)} and {dtype}", total, "max_tensor_bytes")
        return total

    def check(self, what: str, size: int, limit: str) -> None:
        """Check a number of bytes by the limit of that name; raises ModelError."""
        if size > getattr(self, limit):
            raise ModelError(
                f"{what} has {size} bytes, over the limit {limit}={getattr(self, limit)}; raise it if the model is to "
                "be trusted"
            )


def read_file(path: Path, limits: FileLimits, what: str = "") -> bytes:
    """Return the bytes of a regular file.

    Args:
        path, limits: the file, and how large it may be.
        what: what lies in a file beside a model, which may be no link, nor have other hard links.

    Raises:
        ModelError: there is no such file, or it is over the limit.
    """
    if what and path.is_symlink():
        raise ModelError(f"{what} lie in {path.name!r}, which is a link, which may lead out of the folder")
    try:
        # A pipe without a writer is not waited for.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_NOFOLLOW if what else 0)
        number = os.open(path, flags)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}; check the path") from None
    except ValueError as error:  # a null byte in the name
        raise ModelError(f"{str(path)!r} cannot be read: {error}; check the path") from None
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        os.close(number)
        raise ModelError(f"{path} is no plain file; give the path of a model")
    with os.fdopen(number, "rb") as file:
        if what and status.st_nlink > 1:
            raise ModelError(f"{what} lie in {path.name!r}, which has other hard links, perhaps outside of the folder")
        limits.check(str(path), status.st_size, "max_file_bytes")
        return file.read(status.st_size)
