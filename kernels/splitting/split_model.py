"""The public function `split`, and the model that it gives."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.errors import BoundsError, ModelError
from ...ir.importers.file_limits import DEFAULT_MAX_BYTES, FileLimits
from ..gather import gather
from ..host.dependencies import require
from ..host.timing import time_interleaved
from ..models.tensor_spec import TensorSpec, checked_inputs, inputs_by_name
from ..reduction.gather_reduce import gather_reduce

if TYPE_CHECKING:
    import onnx

    from .lookups import Lookup

# What a model is left whole for.
LEAST_GAIN = 1.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """A split model beside the whole one in ONNX Runtime, timed in turn.

    Attributes:
        whole_us, split_us: the median times of a call, in microseconds.
        rounds: of how many.
        has_same_bytes: of each output.
        largest_difference: for each output the largest difference of two elements, NaNs aside.
    """

    whole_us: float
    split_us: float
    rounds: int
    has_same_bytes: Mapping[str, bool]
    largest_difference: Mapping[str, float]

    @property
    def gain(self) -> float:
        """How many times as fast the split model is."""
        return self.whole_us / self.split_us


class SplitModel:
    """A model whose lookups run here, and the rest in ONNX Runtime; make one with `gathernest.split`.

    Calls from several threads take turns, since they share the memory that the lookups write to.

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
        self, model: "onnx.ModelProto", reader: Any, name: str, source: "onnx.ModelProto | str", with_sums: bool
    ):
        """Split a model; see `split`."""
        from ...ir.importers.onnx import check_model
        from .lookups import find_lookups
        from .parts import indices_part, rest_part
        from .runtime_session import RuntimeSession

        check_model(model, name)
        self.name, self._source = name, source
        self.inputs = _input_specs(model)
        self.outputs = tuple(info.name for info in model.graph.output)
        self.lookups = tuple(find_lookups(model, with_sums=with_sums))
        if not self.lookups:
            raise ModelError(
                f"{name} has no lookup to take out: no Gather of a constant table of 64 KiB or more; run it in ONNX "
                "Runtime as it is"
            )
        wanted = {lookup.table for lookup in self.lookups}
        self._tables = {
            tensor.name: reader.array(tensor, f"initializer {tensor.name!r}")
            for tensor in model.graph.initializer
            if tensor.name in wanted
        }
        found = {"indices": indices_part(model, self.lookups, reader), "rest": rest_part(model, self.lookups, reader)}
        self.parts = {key: part for key, part in found.items() if part is not None}
        self._sessions = {
            key: RuntimeSession(part, threads=1 if key == "indices" else None) for key, part in self.parts.items()
        }
        self._whole: RuntimeSession | None = None
        self._buffers: dict[str, np.ndarray] = {}
        self._lock = threading.Lock()

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
        arrays = dict(zip(self.inputs, checked_inputs(self.inputs, inputs), strict=True))
        if not self.lookups:
            return self._run_whole(arrays)
        with self._lock:
            return self._run_parts(arrays)

    def _run_parts(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = dict(arrays)
        if "indices" in self._sessions:
            values |= self._sessions["indices"].run(arrays)
        results = {lookup.result: self._look_up(lookup, values[lookup.indices]) for lookup in self.lookups}
        if "rest" in self._sessions:
            results |= self._sessions["rest"].run(arrays | results, kept=list(results))
        return {name: results[name] for name in self.outputs}

    def _look_up(self, lookup: "Lookup", indices: np.ndarray) -> np.ndarray:
        table = self._tables[lookup.table]
        out = None if lookup.result in self.outputs else self._buffer(lookup, table, indices.shape)
        try:
            if lookup.reduce is None:
                return gather(table, indices, lookup.axis, out=out)
            rows = None if out is None else out.reshape(*indices.shape[:-1], table.shape[1])
            found = gather_reduce(table, indices, reduce=lookup.reduce, out=rows)
        except BoundsError as error:
            where = str(error).partition("; use bounds=")[0]  # a model has no other bounds
            raise BoundsError(f"table {lookup.table!r}: {where}") from None
        if out is not None:
            return out
        return np.expand_dims(found, -2) if lookup.keep_dim else found

    def _buffer(self, lookup: "Lookup", table: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return the memory of a result: that of the call before where it has the same sizes."""
        if lookup.reduce is None:
            axis = lookup.axis % table.ndim
            sizes = (*table.shape[:axis], *shape, *table.shape[axis + 1 :])
        else:
            sizes = (*shape[:-1], *([1] if lookup.keep_dim else []), table.shape[1])
        known = self._buffers.get(lookup.result)
        if known is None or known.shape != sizes:
            known = self._buffers[lookup.result] = np.empty(sizes, table.dtype)
        return known

    def _run_whole(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from .runtime_session import RuntimeSession

        if self._whole is None:
            self._whole = RuntimeSession(self._source)
        found = self._whole.run(arrays)
        return {name: found[name] for name in self.outputs}

    def compare(self, inputs: Mapping[str, Any], rounds: int = 9) -> Comparison:
        """Run this model and the whole one in ONNX Runtime in turn on the same inputs; raises as `run` does."""
        if not isinstance(rounds, int) or rounds < 1:
            raise ModelError(f"rounds must be a whole number from 1, got {rounds!r}")
        arrays = dict(zip(self.inputs, checked_inputs(self.inputs, inputs), strict=True))
        ours, theirs = self.run(arrays), self._run_whole(arrays)
        same = {name: _has_same_bytes(ours[name], theirs[name]) for name in self.outputs}
        differences = {
            name: 0.0 if same[name] else _largest_difference(ours[name], theirs[name]) for name in self.outputs
        }
        calls = {"whole": lambda: self._run_whole(arrays), "split": lambda: self.run(arrays)}
        timings = time_interleaved(calls, rounds=rounds)
        whole, split = (1e6 * timings.median_s(name) for name in calls)
        return Comparison(whole, split, rounds, same, differences)

    def index_limits(self) -> dict[str, int]:
        """Return the least number of rows that the indices of a lookup, which come from an input, select from."""
        from .parts import sources

        limits: dict[str, int] = {}
        for lookup in self.lookups:
            rows = self._tables[lookup.table].shape[lookup.axis]
            for name in sources(self.parts.get("indices"), lookup.indices):
                limits[name] = min(rows, limits.get(name, rows))
        return limits

    def leave_whole(self) -> None:
        """Run the whole model in ONNX Runtime from now on."""
        self.lookups, self.parts, self._sessions = (), {}, {}
        self._tables, self._buffers = {}, {}

    def __repr__(self) -> str:
        where = f"{len(self.lookups)} lookups here" if self.lookups else "left whole"
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

    A lookup is a gather of a constant table of 64 KiB or more. The outputs have the bytes of ONNX Runtime alone.

    Args:
        model: a `.onnx` file, or an `onnx.ModelProto`.
        inputs: for a run on which both ways are timed: the model is left whole unless it is 1.05 times as fast split.
        fast_sums: whether the sum or mean over the last dimension of a lookup's indices is taken here, too, without the
            memory of the rows. It is added in the order of the indices, ONNX Runtime's in another one, so the last bits
            may differ.
        allow_external_data: whether weights may be read from other files in the model's folder.
        max_file_bytes, max_tensor_bytes, max_total_bytes: limits of memory, as for `load`.

    Raises:
        ModelError: the model cannot be read or is damaged, has no lookup, or ONNX Runtime rejects it.
        DependencyError: onnx or onnxruntime is missing; says how to install it.
    """
    require("onnx")
    from ...ir.importers.onnx import read_model
    from ...ir.importers.onnx_tensors import TensorReader
    from .runtime_session import require_runtime

    require_runtime()
    limits = FileLimits(max_file_bytes, max_tensor_bytes, max_total_bytes)
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        if path.suffix == ".xml":
            raise ModelError(f"{path} is an OpenVINO model, and only ONNX models are split; run it with load")
        reader, proto = TensorReader(limits, path.parent, allow_external_data), read_model(path, limits)
        found = SplitModel(proto, reader, path.name, str(path), fast_sums)
    elif not hasattr(model, "HasField"):
        kind = f"{type(model).__module__}.{type(model).__qualname__}"
        raise ModelError(f"a model to split is the path of a .onnx file or an onnx.ModelProto, got {kind}")
    else:
        found = SplitModel(model, TensorReader(limits, None, False), "the model", model, fast_sums)
    if inputs is not None and found.compare(inputs).gain < LEAST_GAIN:
        found.leave_whole()
    return found
