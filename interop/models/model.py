"""`gn.load`: a model that runs in its own runtime, with its gathers run here where a trial shows that to be faster.

    model = gn.load("model.onnx")
    outputs = model(tokens=tokens)
    print(model.plan)

The first call with inputs of some sizes runs the whole model, measures the operands of its gathers, and predicts which
gathers would pay. If any would, the model is cut at them, runs once more on the same inputs, and must give the same
bytes. The next calls take turns between both ways, and the faster way is kept. All of that is one `_Trial`, which
replaces itself by the function that won.
"""

import operator
import os
import statistics
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.errors import GathernestError, InvalidGatherError, ModelError, did_you_mean, show
from ...ir.problem import Problem
from ...ir.semantics import Shape, flag_argument
from ...kernels.host.dependencies import require
from ...kernels.host.knobs import knobs
from ...kernels.host.runtime import RUNTIME
from ...kernels.runtime.array_checks import reject_masked
from .runtime import DEFAULT_MAX_BYTES, FileLimits, ModelGather, Run, Runtime, Values

# A cut model needs another run of the runtime: its cost, in nanoseconds.
CUT_NS = 50_000
# Cost in nanoseconds of a gather that runs here: its call from Python, and a value that goes in and out of the runtime.
CALL_NS = 20_000
# Part of the runtime's time for a gather that a kernel here saves.
SAVED_FACTOR = 0.4
# Count this number of calls of each way in each of its turns. The first call of a turn is not counted, since caches
# hold the other way's data, and neither are calls with gathers here while threads of the runtime spin after its turn.
CALLS_A_TURN, TURNS, SPINNING_NS = 3, 3, 70_000_000
# Run gathers here if a call then takes at most this part of the time of the whole model in its runtime.
MAX_TIME_RATIO = 0.95
# Stop a trial early if a turn takes this many times as long as the runtime alone.
HOPELESS_RATIO = 2.0
# Why a gather stays in the runtime while others are tried here.
UNTRIED = "predicted to save less than its call takes"
# Keep the decision for this number of combinations of sizes; the model stays whole for others.
MAX_DECISIONS = 64
# Remember how to run this number of exact combinations of shapes.
MAX_WAYS = 1024


# What decides how arrays are run, and whether they need a check.
_FACTS = operator.attrgetter("__class__", "shape", "dtype")


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """Where one gather of a model runs.

    Attributes:
        node: the name of its node.
        kind: the operator as the model calls it.
        operands: the names of the table and the indices, each with its type or shape.
        is_here: whether it runs in a kernel of gathernest, and not in the model's runtime.
        reason: why, in words.
    """

    node: str
    kind: str
    operands: tuple[str, ...]
    is_here: bool
    reason: str

    def __str__(self) -> str:
        where = "here" if self.is_here else "runtime"
        return f"{self.node}: {self.kind} of {' by '.join(self.operands)}\n  {where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the gathers of a model run, for the sizes of one call.

    Attributes:
        runtime: the name and version of the model's runtime.
        entries: one for each gather, in the model's order.
        is_trial: whether calls still find out which way is faster.
    """

    runtime: str
    entries: tuple[PlanEntry, ...]
    is_trial: bool = False

    def __str__(self) -> str:
        here, count = sum(entry.is_here for entry in self.entries), len(self.entries)
        texts = [f"{self.runtime} runs the model; {here} of {count} gather{'s' * (count != 1)} run here"]
        alike = dict[int | str, list[PlanEntry]]()  # one that runs here, or all that stay for one reason
        for number, entry in enumerate(self.entries):
            alike.setdefault(number if entry.is_here else entry.reason, []).append(entry)
        for entries in alike.values():
            names = f"{len(entries)} gathers: {', '.join(entry.node for entry in entries)}"
            shown = textwrap.fill(names, 80, subsequent_indent="  ", break_on_hyphens=False)
            texts += map(str, entries) if len(entries) == 1 else [shown, f"  runtime: {entries[0].reason}"]
        return "\n".join(texts)

    def __iter__(self) -> Iterator[PlanEntry]:
        return iter(self.entries)


class Model:
    """A model that is ready to run; make one with `gathernest.load`. Safe to use from several threads.

    Attributes:
        name: of its file or graph.
        runtime: runs the whole model, and cuts it.
        inputs: name to `TensorSpec`, in the model's order; a call gives each.
        outputs: the names of what it gives.
        plan: where each gather runs, for the sizes of the latest call.
    """

    def __init__(self, runtime: Runtime, name: str = "model"):
        self.name, self.runtime = name, runtime
        self.inputs, self.outputs = runtime.inputs, runtime.outputs
        self._ways: dict[Any, Run] = {}
        self._trials: dict[Any, _Trial] = {}
        self._lock = threading.RLock()
        self.plan = _plan(runtime, (), {}, "is decided when the model runs")

    def __call__(self, /, *arrays: Any, **inputs: Any) -> dict[str, Any]:
        """Run the model on arrays in the order of its inputs, and on others by name; see `run`."""
        if len(arrays) > len(self.inputs):
            raise ModelError(
                f"the model has {len(self.inputs)} input{'s' * (len(self.inputs) != 1)}, "
                f"{', '.join(self.inputs) or 'none'}; got {len(arrays)}"
            )
        placed = dict(zip(self.inputs, arrays, strict=False))
        for name in inputs:
            if name in placed:
                raise ModelError(f"input {name!r} is given by position and by name; give it once")
        return self.run({**placed, **inputs})

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model.

        Args:
            inputs: a value for every input by its name, as the model's runtime takes it; arrays of other libraries and
                lists become NumPy arrays. Inputs that have a value in the model may be left out.

        Returns:
            The outputs by name, in the model's order, with the bytes that the runtime gives.

        Raises:
            ModelError: an input is missing or unknown, or the runtime rejects the inputs, with its message.
        """
        try:
            way = self._ways.get((*inputs, *map(_FACTS, inputs.values())), self._run_first)
        except (AttributeError, TypeError):  # lists, and what is no mapping
            way = self._run_first
        return dict(zip(self.outputs, way(inputs), strict=True))

    def check_names(self, names: Iterable[str]) -> None:
        """Check that the model has inputs of these names; raises ModelError with the closest."""
        for name in names:
            if name not in self.inputs and name not in self.runtime.optional:
                there = ", ".join(self.inputs) or "none"
                raise ModelError(
                    f"the model has no input {show(name)}; it has {there}{did_you_mean(name, self.inputs)}"
                )

    def gathers(self, size: int = 128) -> dict[str, Problem]:
        """Return the gathers and bags of the model by the names of their nodes, as problems that can be compiled.

        Args:
            size: of dimensions whose sizes are known only when the model runs, and of bags of different lengths.
        """
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or not 0 <= size < 2**31:
            raise ModelError(f"size={show(size)} is no size of a dimension; it is an integer from 0 to 2**31 - 1")
        found: dict[str, Problem] = {}
        for gather in self.runtime.gathers:
            try:
                problem = gather.problem({}, int(size))
            except InvalidGatherError:
                continue
            found[gather.node if gather.node not in found else f"{gather.node} {len(found)}"] = problem
        return found

    def gather(self, node: str, size: int = 128) -> Problem:
        """Return the gather of a node, as `gathers` does; raises ModelError where the model has none of that name."""
        found = self.gathers(size)
        if not isinstance(node, str) or node not in found:
            there = ", ".join(found) or "none"
            raise ModelError(f"{self.name} has no gather {show(node)}; it has {there}{did_you_mean(node, found)}")
        return found[node]

    def __str__(self) -> str:
        return str(self.plan)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {spec}" for name, spec in self.inputs.items())
        return f"<gathernest model {self.name}: ({inputs}) -> ({', '.join(self.outputs)})>"

    def _run_first(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Run inputs whose shapes are met for the first time, and remember how to run them from now on."""
        arrays, way = self._read(inputs), self.runtime.run
        if not all(gather.remark for gather in self.runtime.gathers) and self.runtime.optional.isdisjoint(arrays):
            if not all(spec.admits(arrays[name]) for name, spec in self.inputs.items()):
                return way(arrays)  # the runtime says what it does not take
            way = self._trial(arrays)
        outputs = way(arrays)
        if type(inputs) is dict and all(
            type(value) is np.ndarray and arrays[name] is value for name, value in inputs.items()
        ):  # else each call reads its inputs
            if len(self._ways) >= MAX_WAYS:
                self._ways.clear()
            self._ways[(*inputs, *map(_FACTS, inputs.values()))] = way
        return outputs

    def _trial(self, arrays: Values) -> Run:
        """Return the trial of inputs whose sizes have as many bits as these, or what it has settled on."""
        key = tuple((name, tuple(size.bit_length() for size in array.shape)) for name, array in arrays.items())
        with self._lock:
            if key not in self._trials and len(self._trials) >= MAX_DECISIONS:
                return self.runtime.run
            trial = self._trials.setdefault(key, _Trial(self.runtime, weakref.proxy(self)))
            return trial.settled or trial

    def _set_plan(self, plan: Plan) -> None:
        self.plan = plan
        self._ways.clear()  # the next call of each looks for the way that its trial has settled on

    def _read(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs as values that the runtime takes; raises ModelError for names that do not fit."""
        if not isinstance(inputs, Mapping):
            raise ModelError(f"inputs are a dict of arrays by name, as {{'name': array}}, got {type(inputs).__name__}")
        self.check_names(inputs)
        for name, spec in self.inputs.items():
            if name not in inputs:
                raise ModelError(f"input {name!r} is missing; it is {spec}")
        return {name: self._as_value(name, value) for name, value in inputs.items()}

    def _as_value(self, name: str, value: Any) -> Any:
        """Return an array in the machine's byte order; lists get the dtype of the input, if it has their values."""
        spec = self.inputs.get(name)
        if spec is None or spec.dtype is None:
            return value
        try:
            reject_masked(value, f"input {name!r}")
            array = np.asarray(value)
            if not hasattr(value, "dtype") and not spec.dtype.hasobject:
                given, array = array, np.asarray(value, spec.dtype)
                if given.dtype.kind not in "biufc" or (spec.dtype.kind in "biu" and not np.array_equal(given, array)):
                    raise ValueError("its values are not of that type")
        except GathernestError as error:
            raise ModelError(str(error)) from None
        except Exception as error:  # of whatever library it is
            got = f"a value of type {type(value).__name__}"
            raise ModelError(f"input {name!r} is {spec}, got {got}, which is no such array: {error}") from None
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))

    def __reduce__(self) -> Any:
        raise ModelError(
            f"model {self.name} cannot be copied or pickled, as its runtime holds it; gathernest.load it again in each "
            "process; threads may share it"
        )


class _Trial:
    """A function that runs a model both ways in turn, until it is known which way is faster for some sizes.

    Its first call runs the whole model, and prepares the cut one where the sizes promise that it pays. While one thread
    is in a trial, calls of other threads run the whole model. It is in no cycle, as a collection of garbage in a forked
    child would end a session there, and wait for threads that only the parent has.

    Args:
        model: a weak proxy of the model, which gets the plans.
    """

    def __init__(self, runtime: Runtime, model: Any):
        self._runtime, self._model = runtime, model
        self.settled: Run | None = None
        self._chosen: tuple[ModelGather, ...] = ()
        self._missed: list[str] = []  # why calls of the cut model ran whole
        self._shapes: Mapping[str, Shape] = {}
        self._way: Run | None = None
        self._turns: Generator[Run, int, tuple[Run, str, bool]] | None = None
        self._lock = threading.Lock()

    def __call__(self, inputs: Values) -> list[Any]:
        """Run the model, and learn from it."""
        if self.settled is not None:
            return self.settled(inputs)
        if not self._lock.acquire(blocking=False):
            return self._runtime.run(inputs)
        try:
            start, turns = time.perf_counter_ns(), self._turns
            outputs = (self._way or self._prepare)(inputs)
            if turns is not None:
                try:
                    self._way = turns.send(time.perf_counter_ns() - start)
                except StopIteration as end:
                    self._settle(*end.value)
            return outputs
        finally:
            self._lock.release()

    def _prepare(self, inputs: Values) -> list[Any]:
        """Run the whole model, and the cut one if the sizes promise that it pays and its bytes are the same."""
        outputs = self._runtime.run(inputs)
        try:
            self._shapes = self._runtime.measure(inputs)
            self._chosen = self._choose()
            if not self._chosen:
                self._settle(self._runtime.run, "too small to be worth another call of the runtime")
                return outputs
            cut = self._runtime.cut(self._chosen, self._missed)
            with knobs.scope(compile="now"):  # kernels are timed, and not what answers until they are compiled
                found = cut(inputs)
        except GathernestError as error:
            self._settle(self._runtime.run, f"it cannot be left out: {error}")
            return outputs
        if not all(map(has_same_bytes, outputs, found)):
            self._settle(self._runtime.run, "the runtime rounds otherwise where it is left out")
            return outputs
        self._turns = _take_turns(self._runtime.run, cut)
        self._way = next(self._turns)
        self._set_plan((), "a trial is under way", is_trial=True)
        return outputs

    def _choose(self) -> tuple[ModelGather, ...]:
        """Return the gathers whose predicted savings are worth their calls; none where another run costs more."""
        gathers = [gather for gather in self._runtime.gathers if not gather.remark]
        gains = [SAVED_FACTOR * gather.predict_runtime_ns(self._shapes) - CALL_NS for gather in gathers]
        is_worth = sum(gain for gain in gains if gain > 0) > CUT_NS
        return tuple(gather for gather, gain in zip(gathers, gains, strict=True) if is_worth and gain > 0)

    def _settle(self, way: Run, reason: str, is_here: bool = False) -> None:
        self.settled = way
        self._set_plan(self._chosen if is_here else (), reason if is_here or not self._missed else self._missed[-1])

    def _set_plan(self, here: Sequence[ModelGather], reason: str, *, is_trial: bool = False) -> None:
        self._model._set_plan(_plan(self._runtime, here, self._shapes, reason, tried=self._chosen, is_trial=is_trial))


def _take_turns(run: Run, cut: Run) -> Generator[Run, int, tuple[Run, str, bool]]:
    """Yield how the next call runs, and receive its time in nanoseconds; return the arguments of `_settle`."""
    times: tuple[list[int], list[int]] = [], []
    wins: list[bool] = []
    whole = split = 0.0
    while len(wins) < TURNS and split <= HOPELESS_RATIO * whole:
        for way, taken in zip((run, cut), times, strict=True):
            start = time.perf_counter_ns()
            yield way
            while way is cut and time.perf_counter_ns() - start < SPINNING_NS:
                yield way
            for _ in range(CALLS_A_TURN):
                taken.append((yield way))
        whole, split = map(statistics.median, times)
        wins.append(operator.gt(*(statistics.median(taken[-CALLS_A_TURN:]) for taken in times)))
    # A busy machine may slow one way for a while: the cut model must win each turn, and at its best.
    is_faster = split <= MAX_TIME_RATIO * whole and all(wins) and min(times[1]) < min(times[0])
    text = f"a call of the model takes {split / 1e3:,.0f} µs with such gathers here, {whole / 1e3:,.0f} µs without"
    text += ", but not in each turn of the trial" * (split < whole and not is_faster)
    return cut if is_faster else run, text, is_faster


def _plan(
    runtime: Runtime,
    chosen: Sequence[ModelGather],
    shapes: Mapping[str, Shape],
    reason: str,
    *,
    tried: Sequence[ModelGather] = (),
    is_trial: bool = False,
) -> Plan:
    entries: list[PlanEntry] = []
    for gather in runtime.gathers:
        shown = tuple(
            f"{name} {shapes[name]}" if name in shapes else f"{name} {gather.specs[name]}"
            for name in gather.operands[:2]
        )
        why = reason if not tried or gather in tried else UNTRIED
        entries.append(PlanEntry(gather.node, gather.kind, shown, gather in chosen, gather.remark or why))
    return Plan(runtime.title, tuple(entries), is_trial)


def has_same_bytes(ours: Any, theirs: Any) -> bool:
    """Return whether two outputs are equal, byte for byte where they are arrays."""
    if not isinstance(ours, np.ndarray) or not isinstance(theirs, np.ndarray):
        if isinstance(ours, list) and isinstance(theirs, list):
            return len(ours) == len(theirs) and all(map(has_same_bytes, ours, theirs))
        return type(ours) is type(theirs) and ours == theirs
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    return ours.tolist() == theirs.tolist() if ours.dtype.hasobject else ours.tobytes() == theirs.tobytes()


def load(
    source: Any,
    *,
    allow_external_data: bool = False,
    max_file_bytes: int = DEFAULT_MAX_BYTES,
    max_tensor_bytes: int = DEFAULT_MAX_BYTES,
    max_total_bytes: int = DEFAULT_MAX_BYTES,
) -> Model:
    """Load a model of ONNX or OpenVINO; it runs in its own runtime, and its gathers here where that is faster.

    Args:
        source: the path of a `.onnx` file (extra `onnx`), or of the `.xml` of an OpenVINO IR with its `.bin` beside it
            (extra `openvino`); the bytes of a `.onnx` file, an `onnx.ModelProto` or an `openvino.Model`.
        allow_external_data: whether an ONNX model's weights may be read from other files in its own folder.
        max_file_bytes: the most bytes of a file that is read.
        max_tensor_bytes: the most bytes of a tensor that is stored in the model or beside it.
        max_total_bytes: the most bytes of all these tensors.

    Returns:
        The model. ONNX runs in ONNX Runtime, or in `onnx.reference` where that is not installed.

    Raises:
        ModelError: the source is none of these, cannot be read or is damaged, or its runtime rejects it.
        DependencyError: a package that such a model needs is missing; says how to install it.
    """
    allow_external_data = flag_argument(allow_external_data, "allow_external_data")
    limits = FileLimits(max_file_bytes, max_tensor_bytes, max_total_bytes)
    is_path, is_bytes = isinstance(source, str | os.PathLike), isinstance(source, bytes | bytearray | memoryview)
    if (is_path and Path(source).suffix == ".xml") or _is_a(source, "openvino", "Model"):
        from .openvino_runtime import open_openvino

        return Model(*open_openvino(source, limits))
    if is_bytes and bytes(source[:64]).lstrip()[:1] == b"<":
        raise ModelError("these bytes are XML; an OpenVINO IR is loaded by the path of its .xml, beside its .bin")
    if not is_path and not is_bytes and not _is_a(source, "onnx", "ModelProto"):
        raise ModelError(
            f"a model is the path of a .onnx or .xml file, the bytes of a .onnx file, an onnx.ModelProto or an "
            f"openvino.Model, got {type(source).__module__}.{type(source).__qualname__}{_remedy(source)}"
        )
    require("onnx")
    onnx_runtime = RUNTIME.make(lambda: import_module(".onnx_runtime", __package__), kind="onnx")
    return Model(*onnx_runtime.open_onnx(source, limits, allow_external_data=allow_external_data))


def _is_a(source: Any, package: str, name: str) -> bool:
    """Return whether an object is of a class of a package, which is not imported for that."""
    kind = getattr(sys.modules.get(package), name, None)
    return isinstance(kind, type) and isinstance(source, kind)


def _remedy(source: Any) -> str:
    """Return the advice for a model of another kind; empty where there is none."""
    if type(source).__module__.partition(".")[0] == "openvino":
        return "; load what it was compiled from"
    is_module = any(kind.__module__.startswith("torch.") and kind.__name__ == "Module" for kind in type(source).__mro__)
    return "; export it first: torch.onnx.export(module, inputs, 'model.onnx')" if is_module else ""
