"""The public function `split`, and the model that it gives."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.errors import ModelError
from ...ir.importers.file_limits import DEFAULT_MAX_BYTES, FileLimits
from ..host.dependencies import require
from ..host.runtime import RUNTIME
from ..host.timing import time_interleaved
from ..models.tensor_spec import TensorSpec, checked_inputs, inputs_by_name

if TYPE_CHECKING:
    import onnx

    from .lookups import Lookup
    from .runtime_session import RuntimeSession

# ONNX Runtime's threads wait in a loop after a run of the whole model, 64 ms on two cores of a Zen 4, and hold a core
# that the lookups need: DLRM took 24 ms split right behind it, and 9 ms alone.
SPINNING_S = 0.1
# What a model is left whole for.
LEAST_GAIN = 1.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """A split model beside the whole one in ONNX Runtime, timed in turn.

    Attributes:
        whole_us, split_us: the median times of a call, in microseconds.
        rounds: of how many.
        gain: how many times as fast the split model is: the lesser of the median of the rounds' ratios and the ratio of
            the least times. On a busy machine one of them alone is above 1 for models that lose.
        has_same_bytes: of each output.
        largest_difference: for each output the largest difference of two elements, NaNs aside.
    """

    whole_us: float
    split_us: float
    rounds: int
    gain: float
    has_same_bytes: Mapping[str, bool]
    largest_difference: Mapping[str, float]


class SplitModel:
    """A model whose lookups run here, and the rest in ONNX Runtime; make one with `gathernest.split`.

    Its first call decides whether it is left whole, unless `split` had inputs for that. Calls from several threads take
    turns, since they share the memory that the lookups write to.

    Attributes:
        inputs: name to `TensorSpec`, in the model's order.
        outputs: the names of what it gives.
        lookups: what runs here; nothing where the model was left whole.
        parts: the models that ONNX Runtime runs, by name: "indices" computes the indices of the lookups where they are
            no inputs, and "rest" reads their results.
    """

    inputs: Mapping[str, TensorSpec]
    outputs: tuple[str, ...]
    lookups: "tuple[Lookup, ...]"
    parts: "Mapping[str, onnx.ModelProto]"

    def __init__(
        self, model: "onnx.ModelProto", reader: Any, name: str, source: "onnx.ModelProto | str", fast_sums: bool
    ):
        """Split a model; see `split`."""
        from google.protobuf.message import DecodeError

        from ...ir.importers.onnx import check_model
        from .external_tensors import check_external_tensors
        from .lookups import find_lookups
        from .split_runner import SplitRunner

        check_model(model, name)
        check_external_tensors(model, reader)
        self.name, self._source = name, source
        self.inputs = _input_specs(model)
        self.outputs = tuple(info.name for info in model.graph.output)
        if len({*self.outputs}) != len(self.outputs):
            raise ModelError(f"{name} has an output twice: {', '.join(self.outputs)}; it may be damaged")
        try:
            found = find_lookups(model)
        except DecodeError as error:  # subgraphs in one another, too many to be copied
            raise ModelError(f"{name} is damaged: {error}") from None
        if not found:
            raise ModelError(
                f"{name} has no lookup to take out: no Gather of a constant table of 64 KiB or more and two dimensions "
                "or more; run it in ONNX Runtime as it is"
            )
        self.lookups, self._fast_sums = tuple(found), fast_sums
        self._split = SplitRunner(model, found, reader, fast_sums=fast_sums)
        self.parts = self._split.parts
        self._whole: RuntimeSession | None = None
        self._is_decided = False
        self._lock = threading.RLock()

    def __call__(self, /, *arrays: Any, **inputs: Any) -> dict[str, np.ndarray]:
        """Run the model on arrays in the order of its inputs, and on others by name; see `run`."""
        return self.run(inputs_by_name(self.inputs, arrays, inputs))

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Run the model.

        Args:
            inputs: an array for every input by its name, of exactly its dtype and of sizes that its shape allows.

        Returns:
            The outputs by name, in the model's order, as new arrays.

        Raises:
            ModelError: an input is missing, unknown, or of the wrong dtype, rank or sizes.
            BoundsError: an index is not valid; names the table.
        """
        arrays = self._checked(inputs)
        with self._lock:
            if not self._is_decided:
                self.decide(arrays)
        return self._run_split(arrays) if self.lookups else self._run_whole(arrays)

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return dict(zip(self.inputs, checked_inputs(self.inputs, inputs), strict=True))

    def _run_split(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        with self._lock:
            found = self._run_whole(arrays) if self._split is None else self._split.run(arrays)
        return {name: found[name] for name in self.outputs}

    def _run_whole(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from .runtime_session import RuntimeSession

        if self._whole is None:
            self._whole = RuntimeSession(self._source)
        found = self._whole.run(arrays)
        return {name: found[name] for name in self.outputs}

    def decide(self, inputs: Mapping[str, Any]) -> Comparison:
        """Time both ways on inputs, and leave the model whole where `is_worth` says so; raises as `run` does."""
        found = self.compare(inputs)
        if self.is_worth(found):
            self._whole = None  # its copy of the tables
        else:
            self.leave_whole()
        self._is_decided = True
        return found

    def is_worth(self, found: Comparison) -> bool:
        """Return whether a comparison says to split: a gain of 1.05, and the same bytes unless `fast_sums`."""
        return found.gain >= LEAST_GAIN and (self._fast_sums or all(found.has_same_bytes.values()))

    def compare(self, inputs: Mapping[str, Any], rounds: int = 9) -> Comparison:
        """Run this model and the whole one in ONNX Runtime in turn on the same inputs; raises as `run` does."""
        if not isinstance(rounds, int) or rounds < 1:
            raise ModelError(f"rounds must be a whole number from 1, got {rounds!r}")
        arrays = self._checked(inputs)
        ours, theirs = self._run_split(arrays), self._run_whole(arrays)
        same = {name: _has_same_bytes(ours[name], theirs[name]) for name in self.outputs}
        differences = {
            name: 0.0 if same[name] else _largest_difference(ours[name], theirs[name]) for name in self.outputs
        }
        calls = {"whole": lambda: self._run_whole(arrays), "split": lambda: self._run_split(arrays)}
        timings = time_interleaved(calls, rounds=rounds, settle_s=SPINNING_S)
        whole, split = (1e6 * timings.median_s(name) for name in calls)
        least = {name: min(timings.rounds_s[name]) for name in calls}
        gain = min(timings.ratio("split", "whole"), least["whole"] / least["split"])
        return Comparison(whole, split, rounds, gain, same, differences)

    def index_limits(self) -> dict[str, int]:
        """Return the least number of rows that the indices of a lookup, which come from an input, select from."""
        from .parts import sources

        if self._split is None:
            return {}
        limits: dict[str, int] = {}
        for lookup in self.lookups:
            rows = self._split.tables[lookup.table].shape[lookup.axis]
            for name in sources(self.parts.get("indices"), lookup.indices):
                limits[name] = min(rows, limits.get(name, rows))
        return limits

    def leave_whole(self) -> None:
        """Run the whole model in ONNX Runtime from now on."""
        with self._lock:
            self.lookups, self.parts, self._split = (), {}, None
        self._is_decided = True

    def __repr__(self) -> str:
        count = len(self.lookups)
        where = f"{count} lookup{'s' * (count != 1)} here" if self.lookups else "left whole"
        return f"<gathernest split model {self.name}: {where}>"


def _input_specs(model: "onnx.ModelProto") -> dict[str, TensorSpec]:
    from ...ir.importers.onnx import input_type
    from ...ir.semantics import DYNAMIC

    stored, found = {tensor.name for tensor in model.graph.initializer}, dict[str, TensorSpec]()
    for info in model.graph.input:
        if info.name not in stored:
            dtype, sizes, dims = input_type(info, "input")
            shape = tuple(dim or None if size == DYNAMIC else size for size, dim in zip(sizes, dims, strict=True))
            found[info.name] = TensorSpec(shape, dtype)
    return found


def _has_same_bytes(ours: np.ndarray, theirs: np.ndarray) -> bool:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    return ours.tolist() == theirs.tolist() if ours.dtype.hasobject else ours.tobytes() == theirs.tobytes()


def _largest_difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype or ours.dtype.kind not in "bfiu":
        return float("inf")
    return float(np.nanmax(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)), initial=0.0))


def _reader() -> tuple[Any, Any]:
    """Import what reads a model, and ONNX Runtime."""
    from ...ir.importers.onnx import read_model
    from ...ir.importers.onnx_tensors import TensorReader
    from .runtime_session import require_runtime

    require_runtime()
    return read_model, TensorReader


def split(
    model: "str | os.PathLike[str] | onnx.ModelProto",
    inputs: Mapping[str, Any] | None = None,
    *,
    fast_sums: bool = False,
    allow_external_data: bool = False,
    max_file_bytes: int = DEFAULT_MAX_BYTES,
    max_tensor_bytes: int = DEFAULT_MAX_BYTES,
    max_total_bytes: int = DEFAULT_MAX_BYTES,
) -> SplitModel:
    """Take the lookups out of an ONNX model: they run here, and the rest in ONNX Runtime.

    A lookup is a gather of a constant table of 64 KiB or more, with the sum or mean of its rows over the last dimension
    of the indices, and a mask or weights for it. The outputs have the bytes of ONNX Runtime alone.

    Args:
        model: a `.onnx` file, or an `onnx.ModelProto`.
        inputs: for runs that time both ways: the model is left whole unless it is 1.05 times as fast split. Those of
            the first call when None.
        fast_sums: whether sums over the indices are added in the order of the indices. ONNX Runtime has another one, so
            the last bits may differ.
        allow_external_data: whether weights may be read from other files in the model's folder.
        max_file_bytes, max_tensor_bytes, max_total_bytes: limits of memory, as for `load`.

    Raises:
        ModelError: the model cannot be read or is damaged, has no lookup, or ONNX Runtime rejects it.
        DependencyError: onnx or onnxruntime is missing; says how to install it.
    """
    require("onnx")
    read_model, TensorReader = RUNTIME.make(_reader, kind="split")
    limits = FileLimits(max_file_bytes, max_tensor_bytes, max_total_bytes)
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        if path.suffix == ".xml":
            raise ModelError(f"{path} is an OpenVINO model, and only ONNX models are split; gathernest run takes it")
        reader, proto = TensorReader(limits, path.parent, allow_external_data), read_model(path, limits)
        found = SplitModel(proto, reader, path.name, str(path), fast_sums)
    elif not hasattr(model, "HasField"):
        kind = f"{type(model).__module__}.{type(model).__qualname__}"
        raise ModelError(f"a model to split is the path of a .onnx file or an onnx.ModelProto, got {kind}")
    else:
        found = SplitModel(model, TensorReader(limits, None, False), "the model", model, fast_sums)
    if inputs is not None:
        found.decide(inputs)
    return found
