"""The cases that are measured: each one gather, gradient or reduction by shapes, dtypes and distribution.

The one list of cases: asv, `gathernest bench` and the paired comparison read it. Arrays are seeded. It imports NumPy
alone, so that today's cases run with the package of any commit: `bind` makes a call of the public functions of the
package given.

A case says what is moved and from where, never how. Names tell what is special: the bytes of a row, the distribution of
the indices, the dtype. What is not said is float32, int64 indices, uniform, into a result that is given.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

Shape = tuple[int, ...]
Operator = Literal["gather", "gather_nd", "gather_elements", "gather_grad", "gather_reduce", "gather_max"]
Distribution = Literal["uniform", "zipf", "sorted", "repeated"]
Call = Callable[[], Any]

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
    """One gather, gradient or reduction of the suite.

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
        """Whether it adds the slices to the table."""
        return self.operator == "gather_grad"

    @property
    def is_reduction(self) -> bool:
        """Whether the slices of a bag, the last dimension of indices, become one."""
        return self.operator in ("gather_reduce", "gather_max")

    @property
    def is_plain(self) -> bool:
        """Whether it copies slices, and does nothing else."""
        return not self.is_gradient and not self.is_reduction

    @property
    def indexed(self) -> range:
        """The dimensions of the table that are indexed."""
        first = self.batch_dims if self.operator == "gather_nd" else self.axis
        return range(first, first + (self.indices[-1] if self.operator == "gather_nd" else 1))

    @property
    def gathered(self) -> Shape:
        """The shape that the gather gives."""
        if self.operator == "gather_elements":
            return (*self.indices, *self.data[len(self.indices) :])
        if self.operator == "gather_nd":
            return (*self.indices[:-1], *self.data[self.indexed.stop :])
        if self.is_reduction:
            return (*self.indices[:-1], *self.data[1:])
        return (*self.data[: self.axis], *self.indices[self.batch_dims :], *self.data[self.axis + 1 :])

    @property
    def row_bytes(self) -> int:
        """Bytes that lie together in the table for each index."""
        last = 0 if self.operator == "gather_elements" else math.prod(self.data[max(self.indexed) + 1 :])
        return max(last, 1) * self._width

    @property
    def rows(self) -> int:
        """How many such rows the gather reads."""
        if self.is_reduction:
            return math.prod(self.indices)
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

    def cut(self, most: int) -> "Case":
        """Return the same case with no dimension above `most`, which is 8 or more so that tuples of indices stay."""
        shapes = [tuple(min(size, most) for size in shape) for shape in (self.data, self.indices)]
        return dataclasses.replace(self, data=shapes[0], indices=shapes[1])

    def make(self, sets: int | None = None, *, zeros: bool = False) -> Inputs:
        """Return its arrays, the same ones every time, with so many sets of indices, or as many as their size asks for.

        What is added are small whole numbers, whose sums are exact in any order. With `zeros` all but the indices is 0
        and takes no time to make: enough for what is not timed.
        """
        rng = np.random.default_rng(0)
        if sets is None:
            by_size = next(number for most, number in SETS_BY_INDEX_BYTES.items() if self.index_bytes <= most)
            sets = 1 if self.family == "call" else by_size
        indices = tuple(self._draw(rng) for _ in range(sets))
        if zeros:
            given, result = (self.gathered, self.data) if self.is_gradient else (self.data, self.gathered)
            return Inputs(np.zeros(given, self.dtype), indices, np.zeros(result, self.dtype))
        # np.ones touches the pages of the result: the first write to a page is slow.
        if self.is_plain:
            return Inputs(_elements(self.data, self.dtype, rng), indices, np.ones(self.gathered, self.dtype))
        given, result = (self.gathered, self.data) if self.is_gradient else (self.data, self.gathered)
        added = rng.integers(-8, 9, given, np.int8).astype(self.dtype)
        return Inputs(added, indices, np.ones(result, self.dtype))

    @property
    def _width(self) -> int:
        return np.dtype(self.dtype).itemsize

    def _draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return one set of indices; tuples fall on the product of their axes as single indices on theirs."""
        sizes = [self.data[axis] for axis in self.indexed]
        shape = self.indices[:-1] if self.operator == "gather_nd" else self.indices
        places = _places(self.distribution, math.prod(sizes), math.prod(shape), rng).reshape(shape)
        if self.operator == "gather_nd":
            places = np.stack(np.unravel_index(places, sizes), axis=-1)
        return np.ascontiguousarray(places, self.index_dtype)


def bind(case: Case, inputs: Inputs, gn: Any) -> Call:
    """Return a call of a case: each goes on to the next set of indices.

    Args:
        case: which.
        inputs: its arrays, as `make` returns them.
        gn: the imported gathernest of any commit; only its public functions are used.
    """
    if case.into == "new":
        calls = [partial(gn.gather, inputs.data, picks, case.axis) for picks in inputs.indices]
    else:
        kernel = compiled(case, inputs, gn)
        calls = [partial(kernel, inputs.data, picks, inputs.out) for picks in inputs.indices]
    if len(calls) == 1:
        return calls[0]
    following = itertools.cycle(calls).__next__
    return lambda: following()()


def compiled(case: Case, inputs: Inputs, gn: Any) -> Any:
    """Return the kernel of a case, compiled by the gathernest that is given."""
    table = inputs.out if case.is_gradient else inputs.data
    return gn.compile(case.operator, table, inputs.indices[0], axis=case.axis, batch_dims=case.batch_dims)


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


M = 1_000_000

ROWS = [
    Case("rows-8B", "rows", (8 * M, 2), (M,)),
    Case("rows-16B", "rows", (4 * M, 4), (M,)),
    Case("rows-64B", "rows", (M, 16), (400_000,)),
    Case("rows-100B", "rows", (500_000, 25), (200_000,)),
    Case("rows-256B", "rows", (M, 64), (100_000,)),
    Case("rows-1KB", "rows", (200_000, 256), (30_000,)),
    Case("rows-4KB", "rows", (32_000, 1024), (8000,)),
    Case("rows-64KB", "rows", (2000, 16_384), (1000,)),
    Case("rows-256B-small-table", "rows", (1000, 64), (4000,)),
    Case("rows-256B-tiny-table", "rows", (32, 64), (200_000,)),
]
SCALARS = [
    Case("scalars-256MB-table", "scalars", (64 * M,), (4 * M,)),
    Case("scalars-4MB-table", "scalars", (M,), (M,)),
    Case("scalars-256KB-table", "scalars", (65_536,), (M,)),
    Case("scalars-16KB-table", "scalars", (4096,), (100_000,)),
]
DISTRIBUTIONS = [
    Case("rows-256B-zipf", "distributions", (M, 64), (100_000,), distribution="zipf"),
    Case("rows-256B-sorted", "distributions", (M, 64), (100_000,), distribution="sorted"),
    Case("rows-64B-repeated", "distributions", (M, 16), (400_000,), distribution="repeated"),
    Case("scalars-zipf", "distributions", (64 * M,), (4 * M,), distribution="zipf"),
    Case("scalars-sorted", "distributions", (64 * M,), (4 * M,), distribution="sorted"),
]
AXES = [
    Case("last-axis", "axes", (8192, 1024), (512,), axis=1),
    Case("last-axis-in-cache", "axes", (512, 1024), (512,), axis=1),
    Case("last-axis-few", "axes", (500_000, 16), (4,), axis=1),
    Case("last-axis-long", "axes", (64, M), (100_000,), axis=1),
    Case("middle-axis", "axes", (64, 1000, 32), (500,), axis=1),
    Case("middle-axis-8B", "axes", (256, 4096, 2), (2048,), axis=1),
]
BATCHES = [
    Case("tiny-batches-rows", "batches", (8192, 32, 16), (8192, 8), axis=1, batch_dims=1),
    Case("tiny-batches-scalars", "batches", (16_384, 64), (16_384, 16), axis=1, batch_dims=1),
    Case("batches-of-tokens", "batches", (64, 512, 768), (64, 76), axis=1, batch_dims=1),
    Case("few-batches-rows", "batches", (4, 100_000, 32), (4, 50_000), axis=1, batch_dims=1),
    Case("few-batches-scalars", "batches", (4, 4 * M), (4, 500_000), axis=1, batch_dims=1),
    Case("batches-last-axis", "batches", (64, 128, 512), (64, 256), axis=2, batch_dims=1),
]
TUPLES = [
    Case("nd-pairs-rows", "gather_nd", (1000, 1000, 16), (300_000, 2), "gather_nd"),
    Case("nd-pairs-scalars", "gather_nd", (4096, 4096), (2 * M, 2), "gather_nd"),
    Case("nd-triples-rows", "gather_nd", (64, 64, 64, 8), (200_000, 3), "gather_nd"),
    Case("nd-batches", "gather_nd", (32, 4000, 64), (32, 2000, 1), "gather_nd", batch_dims=1),
]
ELEMENTS = [
    Case("elements-first-axis", "gather_elements", (8192, 1024), (2048, 1024), "gather_elements"),
    Case("elements-middle-axis", "gather_elements", (64, 512, 128), (64, 256, 128), "gather_elements", axis=1),
    Case("elements-last-axis", "gather_elements", (8192, 1024), (8192, 256), "gather_elements", axis=1),
]
DTYPES = [
    Case("int8-scalars", "dtypes", (16 * M,), (4 * M,), dtype="int8"),
    Case("int8-rows-3B", "dtypes", (4 * M, 3), (M,), dtype="int8"),
    Case("int16-last-axis", "dtypes", (4096, 2048), (1024,), dtype="int16", axis=1),
    Case("float64-scalars", "dtypes", (16 * M,), (2 * M,), dtype="float64"),
    Case("complex128-scalars", "dtypes", (8 * M,), (M,), dtype="complex128"),
    Case("rows-256B-int32-indices", "dtypes", (M, 64), (100_000,), index_dtype="int32"),
    Case("scalars-int32-indices", "dtypes", (16 * M,), (4 * M,), index_dtype="int32"),
]
GRADIENTS = [
    Case("gradient-rows-256B", "gradient", (100_000, 64), (100_000,), "gather_grad"),
    Case("gradient-rows-32B", "gradient", (M, 8), (400_000,), "gather_grad"),
    Case("gradient-rows-4KB", "gradient", (10_000, 1024), (40_000,), "gather_grad"),
    Case("gradient-few-rows", "gradient", (100, 64), (200_000,), "gather_grad"),
    Case("gradient-zipf", "gradient", (100_000, 64), (100_000,), "gather_grad", distribution="zipf"),
    Case("gradient-scalars", "gradient", (M,), (4 * M,), "gather_grad"),
]
BAGS = [
    Case("bags-16-1KB", "bags", (200_000, 256), (8192, 16), "gather_reduce"),
    Case("bags-32-1KB", "bags", (200_000, 256), (4096, 32), "gather_reduce"),
    Case("bags-64-1KB", "bags", (200_000, 256), (2048, 64), "gather_reduce"),
    Case("bags-128-1KB", "bags", (200_000, 256), (1024, 128), "gather_reduce"),
    Case("bags-32-256B", "bags", (M, 64), (8192, 32), "gather_reduce"),
    Case("bags-zipf", "bags", (M, 64), (8192, 32), "gather_reduce", distribution="zipf"),
    Case("bags-maxima", "bags", (200_000, 256), (4096, 32), "gather_max"),
]
CALLS = [Case("call-function", "call", (5, 4), (3,), into="new"), Case("call-kernel", "call", (5, 4), (3,))]
SUITE = (*(*ROWS, *SCALARS, *DISTRIBUTIONS, *AXES, *BATCHES, *TUPLES, *ELEMENTS, *DTYPES), *(*GRADIENTS, *BAGS, *CALLS))
FAMILIES = tuple(dict.fromkeys(case.family for case in SUITE))
# Families that the mean over all gathers leaves out: they are other questions.
APART = ("gradient", "bags", "call")
BY_NAME = {case.name: case for case in SUITE}
