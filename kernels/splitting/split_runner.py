"""Run a model that is cut at its lookups: indices and the rest in ONNX Runtime, the lookups here."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from ...ir.errors import BoundsError
from ...ir.importers.onnx_tensors import TensorReader
from ...ir.semantics import Shape
from ..gather import gather
from ..reduction.gather_reduce import gather_reduce
from .lookups import Lookup
from .parts import indices_part, rest_part
from .runtime_session import RuntimeSession


class SplitRunner:
    """Runs the parts one after the other; the results of lookups have the memory that they had in the call before.

    Attributes:
        parts: the models that ONNX Runtime runs, by name.
        tables: those of the lookups, by name.
    """

    def __init__(self, model: onnx.ModelProto, lookups: Sequence[Lookup], reader: TensorReader):
        """Cut a model at its lookups; raises ModelError where a tensor cannot be read, or a part is rejected."""
        wanted = {lookup.table for lookup in lookups}
        self.tables = {
            tensor.name: reader.array(tensor, f"initializer {tensor.name!r}")
            for tensor in model.graph.initializer
            if tensor.name in wanted
        }
        found = {"indices": indices_part(model, lookups, reader), "rest": rest_part(model, lookups, reader)}
        self.parts = {key: part for key, part in found.items() if part is not None}
        self._sessions = {
            key: RuntimeSession(part, threads=1 if key == "indices" else None, is_part=True)
            for key, part in self.parts.items()
        }
        self._lookups, self._outputs = lookups, {info.name for info in model.graph.output}
        self._buffers: dict[str, np.ndarray] = {}

    def run(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs, which are new arrays, and results of lookups, which are not, by name.

        Raises:
            BoundsError: an index is not valid; names the table.
            ModelError: ONNX Runtime rejects the inputs.
        """
        values = dict(arrays)
        if "indices" in self._sessions:
            values |= self._sessions["indices"].run(arrays)
        results = {lookup.result: self._look_up(lookup, values[lookup.indices]) for lookup in self._lookups}
        if "rest" in self._sessions:
            results |= self._sessions["rest"].run({**arrays, **results}, kept=list(results))
        return results

    def _look_up(self, lookup: Lookup, indices: np.ndarray) -> np.ndarray:
        table = self.tables[lookup.table]
        out = None if lookup.result in self._outputs else self._buffer(lookup, table, indices.shape)
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

    def _buffer(self, lookup: Lookup, table: np.ndarray, shape: Shape) -> np.ndarray:
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
