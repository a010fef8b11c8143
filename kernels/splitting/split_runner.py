"""Run a model that is cut at its lookups: indices and the rest in ONNX Runtime, the lookups here."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from ...ir.errors import BoundsError
from ...ir.importers.onnx_tensors import TensorReader
from ...ir.semantics import Shape
from ..gather import gather
from .lookups import Lookup
from .parts import indices_part, rest_part
from .runtime_session import RuntimeSession
from .runtime_sums import RuntimeSum


class SplitRunner:
    """Runs the parts one after the other; the results of lookups have the memory that they had in the call before.

    Attributes:
        parts: the models that ONNX Runtime runs, by name.
        tables: those of the lookups, by name.
    """

    def __init__(self, model: onnx.ModelProto, lookups: Sequence[Lookup], reader: TensorReader, *, fast_sums: bool):
        """Cut a model at its lookups; raises ModelError where a tensor cannot be read, or a part is rejected.

        With `fast_sums` rows are added in the order of the indices, and otherwise as ONNX Runtime adds them.
        """
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
        self._sums: dict[tuple[str, np.dtype], RuntimeSum] = {}
        for lookup in lookups:
            dtype = self.tables[lookup.table].dtype
            if lookup.reduce is not None and (lookup.reduce, dtype) not in self._sums:
                self._sums[lookup.reduce, dtype] = RuntimeSum(lookup.reduce, dtype, in_order=fast_sums)
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
        results = {lookup.result: self._look_up(lookup, values) for lookup in self._lookups}
        if "rest" in self._sessions:
            results |= self._sessions["rest"].run({**arrays, **results}, kept=list(results))
        return results

    def _look_up(self, lookup: Lookup, values: Mapping[str, np.ndarray]) -> np.ndarray:
        table, indices = self.tables[lookup.table], values[lookup.indices]
        weights = left_out = None
        if lookup.weights is not None:
            indices, weights = np.broadcast_arrays(indices, values[lookup.weights][..., 0])
        if lookup.left_out is not None:
            indices, left_out = np.broadcast_arrays(indices, values[lookup.left_out][..., 0])
        out = None if lookup.result in self._outputs else self._buffer(lookup, table, indices.shape)
        try:
            if lookup.reduce is None:
                return gather(table, indices, lookup.axis, out=out)
            found = self._sums[lookup.reduce, table.dtype].run(table, indices, out, weights=weights, left_out=left_out)
        except BoundsError as error:
            where = str(error).partition("; use bounds=")[0]  # a model has no other bounds
            raise BoundsError(f"table {lookup.table!r}: {where}") from None
        return np.expand_dims(found, -2) if out is None and lookup.keep_dim else found

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
