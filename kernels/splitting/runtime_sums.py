"""Sums of looked-up rows that have the bytes of ONNX Runtime, which adds them in an order of its own."""

import functools
import math
from typing import Literal

import numpy as np
import onnx
from onnx import helper

from ...ir.errors import ModelError
from ...ir.semantics import Bounds, BoundsMode, Shape
from ..gather import gather
from ..host.cpu import usable_cores
from ..reduction.bags import check_indices
from ..reduction.grouped_sums import grouped_sum
from .runtime_session import RuntimeSession

# ONNX Runtime reduces a dimension in the middle as a product with ones. On x86-64 that adds four rows of float32 from
# the first to the last, and then their sum to the others; of what is left two rows, and one. Rows of float64 it adds
# one by one.
GROUPS = (4, 1)
# ONNX Runtime has another order where there are fewer bags than threads, or than four times as many on some CPUs.
MOST_BAGS_A_CORE = 4
# A sum in another order may have the same bytes by chance; so many never have.
LEAST_SUMS_TRIED = 128
OPSET = 13


class RuntimeSum:
    """ReduceSum or ReduceMean over the rows of each bag, as ONNX Runtime has it.

    Each number of rows in a bag is tried once, on random rows, against ONNX Runtime itself. Where none of the orders
    gives its bytes, rows are gathered here and reduced there.
    """

    def __init__(self, reduce: Literal["sum", "mean"], dtype: np.dtype, *, in_order: bool = False):
        """Make it; `in_order` adds the rows in the order of the indices, whatever ONNX Runtime does."""
        self._reduce, self._dtype, self._in_order = reduce, dtype, in_order
        self._session = RuntimeSession(_reduction(reduce, dtype), is_part=True)
        self._groups: dict[Shape, int | None] = {}
        self._most_bags = MOST_BAGS_A_CORE * usable_cores()

    def run(
        self,
        table: np.ndarray,
        indices: np.ndarray,
        out: np.ndarray | None = None,
        *,
        weights: np.ndarray | None = None,
        left_out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return (bags..., columns): the sum or mean of each bag.

        Args:
            table: (rows, columns) of the dtype.
            indices: (bags..., bag).
            out: where to put it, or None for a new array.
            weights: (bags..., bag): what rows are multiplied by; None for ones.
            left_out: (bags..., bag) bools: whose rows are zeros, and count in a mean; None where all are rows.

        Raises:
            BoundsError: an index is not valid; `out` is untouched.
            ModelError: indices have no dimension to reduce.
        """
        if not indices.ndim:
            raise ModelError("one index has no dimension to reduce; the model may be damaged")
        shape, columns = indices.shape[:-1], table.shape[1]
        indices = indices.reshape(math.prod(shape), indices.shape[-1])
        weights = None if weights is None else weights.reshape(indices.shape)
        bounds: BoundsMode = "error"
        if left_out is not None:
            check_indices(indices, len(table), Bounds.ERROR)
            indices, bounds = np.where(left_out.reshape(indices.shape), len(table), indices), "zero"
        group = self._group((*indices.shape, columns))
        if group is None:
            rows = gather(table, indices, bounds=bounds)
            if weights is not None:
                np.multiply(rows, weights[..., np.newaxis], out=rows)
            sums = self._reduced(rows)
        else:
            sums = grouped_sum(table, indices, group, weights, bounds)
            if self._reduce == "mean":
                sums /= self._dtype.type(indices.shape[1])
        if out is None:
            return sums.reshape(*shape, columns)
        out[...] = sums.reshape(out.shape)
        return out

    def _group(self, shape: Shape) -> int | None:
        """Return of how many rows the groups are that ONNX Runtime adds in bags of a shape; None where none is."""
        bags, bag, columns = shape
        if not bags or not bag or not columns:
            return None
        if self._in_order:
            return 1
        tried = min(bags, self._most_bags), bag, columns
        if tried not in self._groups:
            self._groups[tried] = next((group for group in GROUPS if self._has_order(group, tried)), None)
        return self._groups[tried]

    def _has_order(self, group: int, shape: Shape) -> bool:
        """Return whether ONNX Runtime adds groups of so many rows, by the bytes of sums of random rows and of -0.0."""
        bags, bag, columns = shape
        random, draws = np.random.default_rng(0), -(-LEAST_SUMS_TRIED // (bags * columns))
        for scale in [*[1.0] * draws, -0.0]:
            rows = random.random(shape, self._dtype)
            rows *= scale
            wanted = _sums_of_groups(rows, group)
            if self._reduce == "mean":
                wanted /= self._dtype.type(bag)
            if self._reduced(rows).tobytes() != wanted.tobytes():
                return False
        return True

    def _reduced(self, rows: np.ndarray) -> np.ndarray:
        return self._session.run({"rows": rows})["sums"]


def _sums_of_groups(rows: np.ndarray, group: int) -> np.ndarray:
    """Return (bags, columns): what `grouped_sum` gives for rows (bags, bag, columns), as NumPy adds them."""
    total, start = np.zeros_like(rows[:, 0]), 0
    while start < rows.shape[1]:
        while start + group > rows.shape[1]:
            group //= 2
        total += functools.reduce(np.add, rows[:, start : start + group].swapaxes(0, 1))
        start += group
    return total


def _reduction(reduce: str, dtype: np.dtype) -> onnx.ModelProto:
    """Return a model that reduces the rows of each bag: (bags, bag, columns) to (bags, columns)."""
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    if reduce == "sum":
        node = helper.make_node("ReduceSum", ["rows", "axes"], ["sums"], keepdims=0)
    else:
        node = helper.make_node("ReduceMean", ["rows"], ["sums"], axes=[1], keepdims=0)
    axes = [helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [1])] if reduce == "sum" else []
    rows = helper.make_tensor_value_info("rows", kind, ["bags", "bag", "columns"])
    sums = helper.make_tensor_value_info("sums", kind, ["bags", "columns"])
    graph = helper.make_graph([node], "reduction", [rows], [sums], axes)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
