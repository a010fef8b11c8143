"""A case of the suite: one gather or gradient by its shapes, dtypes and distribution, and its arrays, seeded.

A case says what is moved and from where, never how; `suite.py` has the list, and `peers` run them.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ....ir.operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from ....lowering.schedule.machine_model import LINE_BYTES

Shape = tuple[int, ...]
Operator = Literal["gather", "gather_nd", "gather_elements", "gather_grad"]
Distribution = Literal["uniform", "zipf", "sorted", "repeated"]

# How often a "repeated" index comes in a row.
RUN = 16

# How many sets of indices to use in turn, for indices of up to so many bytes: a predictor learns small ones.
SETS_BY_INDEX_BYTES: Mapping[int, int] = {2**17: 16, 2**23: 4, 2**63: 2}


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arrays of a case.

    Attributes:
        data: the table, or the gradient of the gather's result for a case that is a gradient.
        indices: sets of indices to use in turn, all of one shape and dtype.
        out: an array for the result, touched.
    """

    data: np.ndarray
    indices: tuple[np.ndarray, ...]
    out: np.ndarray


@dataclass(frozen=True, slots=True)
class Case:
    """One gather of the suite.

    Attributes:
        name: unique, words joined by hyphens.
        family: what a geometric mean is taken over.
        data, indices: shapes. Of a gradient, `data` is the shape of its result.
        operator: a function of gathernest.
        dtype, index_dtype: NumPy's names.
        axis, batch_dims: not negative; 0 where the operator has none.
        distribution: how the indices fall on the table.
        into: "out" where the result is given, "new" where every candidate allocates it.
    """

    name: str
    family: str
    data: Shape
    indices: Shape
    operator: Operator = "gather"
    dtype: str = "float32"
    index_dtype: str = "int64"
    axis: int = 0
    batch_dims: int = 0
    distribution: Distribution = "uniform"
    into: Literal["out", "new"] = "out"

    @property
    def is_gradient(self) -> bool:
        """Whether it adds rather than copies."""
        return self.operator == "gather_grad"

    @property
    def gather(self) -> OperatorSpec:
        """The gather, or the one that it is the gradient of."""
        if self.operator == "gather_nd":
            return GatherNd(self.batch_dims)
        return GatherElements(self.axis) if self.operator == "gather_elements" else Gather(self.axis, self.batch_dims)

    @property
    def gathered(self) -> Shape:
        """The shape that the gather gives."""
        return tuple(self.gather.result_shape(self.data, self.indices))

    @property
    def row_bytes(self) -> int:
        """Bytes that lie together in the table for each index."""
        last = 0 if self.operator == "gather_elements" else math.prod(self.data[max(self._indexed) + 1 :])
        return max(last, 1) * self._width

    @property
    def rows(self) -> int:
        """How many such rows the gather reads."""
        return math.prod(self.gathered) * self._width // self.row_bytes

    @property
    def table_bytes(self) -> int:
        """Size of the table."""
        return math.prod(self.data) * self._width

    @property
    def index_bytes(self) -> int:
        """Size of one set of indices."""
        return math.prod(self.indices) * np.dtype(self.index_dtype).itemsize

    @property
    def gathered_bytes(self) -> int:
        """Size of the gather's result."""
        return math.prod(self.gathered) * self._width

    def larger_than(self, cache_bytes: int) -> bool:
        """Return whether one call touches more memory than a cache holds, whole lines counted."""
        lines = self.rows * math.ceil(self.row_bytes / LINE_BYTES) * LINE_BYTES
        return self.index_bytes + self.gathered_bytes + min(self.table_bytes, lines) > cache_bytes

    def cut(self, most: int) -> "Case":
        """Return the same case with no dimension above `most`, which is 8 or more so that tuples of indices stay."""
        shapes = [tuple(min(size, most) for size in shape) for shape in (self.data, self.indices)]
        return dataclasses.replace(self, data=shapes[0], indices=shapes[1])

    def describe(self) -> str:
        """Return its shapes and attributes as one line."""
        parts = [f"{_type(self.data, self.dtype)} by {_type(self.indices, self.index_dtype)}"]
        parts += [f"axis {self.axis}"] if self.axis else []
        parts += [f"batch_dims {self.batch_dims}"] if self.batch_dims else []
        parts += [self.distribution] if self.distribution != "uniform" else []
        return ", ".join(parts)

    def make(self, sets: int | None = None) -> Inputs:
        """Return its arrays, the same ones every time, with so many sets of indices, or as many as their size asks for.

        A gradient has small whole numbers, whose sums are exact in any order.
        """
        rng = np.random.default_rng(0)
        if sets is None:
            by_size = next(number for most, number in SETS_BY_INDEX_BYTES.items() if self.index_bytes <= most)
            sets = 1 if self.family == "call" else by_size
        indices = tuple(self._draw(rng) for _ in range(sets))
        # np.ones touches the pages of the result: the first write to a page is slow.
        if not self.is_gradient:
            return Inputs(_elements(self.data, self.dtype, rng), indices, np.ones(self.gathered, self.dtype))
        grad = rng.integers(-8, 9, self.gathered, np.int8).astype(self.dtype)
        return Inputs(grad, indices, np.ones(self.data, self.dtype))

    @property
    def _width(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def _indexed(self) -> tuple[int, ...]:
        return tuple(self.gather.normalized(self.data, self.indices).axes(self.indices))

    def _draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return one set of indices; tuples fall on the product of their axes as single indices on theirs."""
        sizes = [self.data[axis] for axis in self._indexed]
        shape = self.indices[:-1] if self.operator == "gather_nd" else self.indices
        places = _places(self.distribution, math.prod(sizes), math.prod(shape), rng).reshape(shape)
        if self.operator == "gather_nd":
            places = np.stack(np.unravel_index(places, sizes), axis=-1)
        return np.ascontiguousarray(places, self.index_dtype)


def expected(case: Case, inputs: Inputs, number: int) -> np.ndarray:
    """Return the expected result for the set of indices of that number, by plain NumPy."""
    data, indices = inputs.data, inputs.indices[number]
    if case.operator == "gather_elements":
        cut = tuple(slice(size) if dim != case.axis else slice(None) for dim, size in enumerate(case.indices))
        return np.take_along_axis(data[cut], indices, case.axis)
    if case.operator == "gather_nd":
        batch = np.indices(case.indices[:-1], sparse=True)[: case.batch_dims]
        return data[(*batch, *np.moveaxis(indices, -1, 0))]
    if case.is_gradient:
        sums = np.zeros(case.data, case.dtype)
        place: Any = (*[slice(None)] * case.axis, indices)
        np.add.at(sums, place, data)
        return sums
    return _take(data, indices, case.axis, case.batch_dims)


def _take(data: np.ndarray, indices: np.ndarray, axis: int, batch_dims: int) -> np.ndarray:
    if not batch_dims:
        return np.take(data, indices, axis=axis)
    pairs = zip(data, indices, strict=True)
    return np.stack([_take(table, picks, axis - 1, batch_dims - 1) for table, picks in pairs])


def _places(distribution: Distribution, size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return `count` numbers below `size`."""
    if distribution == "zipf":
        ranks = np.minimum(np.exp(rng.random(count) * math.log(size + 1)).astype(np.int64) - 1, size - 1)
        stride = next(odd for odd in range(size * 5 // 8 | 1, 2 * size + 3, 2) if math.gcd(odd, size) == 1)
        return ranks * stride % size  # the frequent ones far from each other
    if distribution == "repeated":
        return np.repeat(rng.integers(0, size, math.ceil(count / RUN)), RUN)[:count]
    places = rng.integers(0, size, count)
    return np.sort(places) if distribution == "sorted" else places


def _elements(shape: Shape, dtype: str, rng: np.random.Generator) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind == "c":
        return rng.random((*shape, 2), np.float64).astype(f"f{kind.itemsize // 2}", copy=False).view(kind)[..., 0]
    if kind.kind == "f":
        drawn = np.float64 if kind.itemsize == 8 else np.float32
        return rng.random(shape, drawn).astype(kind, copy=False)
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)


def _type(shape: Shape, dtype: str) -> str:
    from ....ir.element_types import element_type_name

    return "x".join([*map(str, shape), element_type_name(np.dtype(dtype))])
