"""How arrays are cut: labels of dimensions, chunks that several arrays share, and the keys of their blocks.

Dimensions of data, indices and slices that are one have one label, so their chunks are one tuple.
"""

import functools
import itertools
import math
import mmap
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.errors import InvalidGatherError
from ...ir.operator_spec import Gather, GatherElements
from ...ir.problem import Problem
from ...ir.semantics import Shape
from ..runtime.array_checks import memory_owner

# A number for every dimension of an array; dimensions of data, indices and slices with one number are one.
Labels = tuple[int, ...]
Chunks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What dask was told of a block, which a function of the user makes: its argument, shape and dtype (None: any)."""

    name: str
    shape: Shape
    dtype: np.dtype | None

    def checked(self, block: Any) -> np.ndarray:
        """Return a block as an ndarray; raises InvalidGatherError where it is another than dask was told.

        Positions in it are not checked again, so rows beyond a smaller block would be read.
        """
        array = np.asarray(block)
        if array.shape != self.shape or (self.dtype is not None and array.dtype != self.dtype):
            raise InvalidGatherError(
                f"a block of {self.name} has shape {array.shape} and dtype {array.dtype}, and dask was told shape "
                f"{self.shape}{'' if self.dtype is None else f' and dtype {self.dtype}'}; say what the blocks are "
                "where they are made, as map_blocks(function, dtype=dtype, chunks=chunks) does"
            )
        return array


def on_blocks(work: Callable[..., Any], told: tuple[Told, ...], *arguments: Any) -> Any:
    """Return what a task makes of its arguments, of which the first are blocks that are checked."""
    blocks = [each.checked(block) for each, block in zip(told, arguments, strict=False)]
    return work(*blocks, *arguments[len(told) :])


@dataclass(frozen=True, slots=True)
class Grid:
    """The blocks of arrays that are cut alike.

    Attributes:
        chunks: the sizes of the chunks by label.
    """

    chunks: dict[int, tuple[int, ...]]

    def places(self, labels: Labels) -> Iterator[dict[int, int]]:
        """Return the blocks of an array in C order, each as the number of its chunk by label."""
        for numbers in itertools.product(*(range(len(self.chunks[label])) for label in labels)):
            yield dict(zip(labels, numbers, strict=True))

    def key(self, name: str, labels: Labels, place: dict[int, int]) -> tuple:
        """Return the key of a block; a label without a place has one chunk."""
        return (name, *(place.get(label, 0) for label in labels))

    def origin(self, labels: Labels, place: dict[int, int]) -> Shape:
        """Return where a block of an array starts."""
        return tuple((0, *ends_of(self.chunks[label]))[place.get(label, 0)] for label in labels)

    def shape(self, labels: Labels, place: dict[int, int]) -> Shape:
        """Return the shape of a block of an array."""
        return tuple(self.chunks[label][place.get(label, 0)] for label in labels)

    def slices(self, labels: Labels, place: dict[int, int]) -> tuple[slice, ...]:
        """Return where a block of an array lies."""
        parts = zip(self.origin(labels, place), self.shape(labels, place), strict=True)
        return tuple(slice(start, start + size) for start, size in parts)

    def told(self, name: str, labels: Labels, place: dict[int, int], dtype: np.dtype | None = None) -> "Told":
        """Return what dask was told of a block of an array, by the name of the argument."""
        return Told(name, self.shape(labels, place), dtype)

    def block(self, array: np.ndarray, labels: Labels, place: dict[int, int]) -> np.ndarray:
        """Return a block of an array in memory, which is a view."""
        return array[(*self.slices(labels, place), ...)]  # the ellipsis makes a view of an array of rank 0, too


@functools.lru_cache
def ends_of(chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Return where each chunk of a dimension ends."""
    return tuple(itertools.accumulate(chunks))


def label_dimensions(problem: Problem) -> tuple[Labels, Labels, Labels]:
    """Return the labels of the table (0 to its rank - 1), of indices and of slices."""
    operator, rank, indices_rank = problem.operator, problem.table.rank, problem.indices.rank
    data = tuple(range(rank))
    own = tuple(range(rank, rank + indices_rank))
    if isinstance(operator, GatherElements):
        indices = tuple(rank if label == operator.axis else label for label in data)
        return data, indices, indices
    batch_dims: int = operator.batch_dims  # type: ignore[attr-defined]
    indices = (*data[:batch_dims], *own[batch_dims:])
    if isinstance(operator, Gather):
        return data, indices, (*data[: operator.axis], *indices[batch_dims:], *data[operator.axis + 1 :])
    return data, indices, (*indices[:-1], *data[problem.axes.stop :])


def check_dask_arrays(**arrays: Any) -> None:
    """Check that dask arrays, by the names of arguments, can be cut; ndarrays may be among them.

    Raises:
        InvalidGatherError: a chunk's size is not known, chunks are masked or no ndarrays, or dask plans queries itself.
    """
    from dask.array import Array

    if Array.__module__ != "dask.array.core":
        raise InvalidGatherError(
            "gathers of dask arrays do not work with dask's option 'array.query-planning', which is on; set it to "
            "False before dask.array is imported"
        )
    for name, array in arrays.items():
        if isinstance(array, np.ndarray):
            continue
        if any(math.isnan(size) for size in array.shape):
            raise InvalidGatherError(
                f"{name} has chunks of unknown size, its shape is {array.shape}; find their sizes with "
                f"{name}.compute_chunk_sizes()"
            )
        if isinstance(array._meta, np.ma.MaskedArray):
            raise InvalidGatherError(
                f"{name} has masked chunks, and their masks would be lost; pass dask.array.ma.filled({name}, value)"
            )
        if not isinstance(array._meta, np.ndarray):
            raise InvalidGatherError(
                f"{name} has chunks of {type(array._meta).__name__}, and gathers need ndarrays; convert them with "
                f"{name}.map_blocks(numpy.asarray)"
            )


def as_dask_array(array: np.ndarray, chunks: Chunks) -> Any:
    """Return an ndarray as a dask array whose chunks are views of it.

    `dask.array.from_array` would copy it, and its name is a digest of every byte: neither is fit for a mapped file.
    """
    from dask.array import Array
    from dask.array.core import slices_from_chunks
    from dask.base import tokenize

    token = uuid.uuid4().hex if is_mapped(array) else tokenize(array, chunks)
    name = f"array-{token}"
    keys = itertools.product([name], *(range(len(sizes)) for sizes in chunks))
    graph = {key: array[place] for key, place in zip(keys, slices_from_chunks(chunks), strict=True)}
    return Array(graph, name, chunks, meta=np.empty((0,) * array.ndim, array.dtype))  # pyright: ignore[reportCallIssue]


def is_mapped(array: Any) -> bool:
    """Return whether an array is a view of a mapped file."""
    return isinstance(memory_owner(array), mmap.mmap)


def unwritten(indices: Any) -> Any:
    """Return indices that stay what they are, as the graph names the chunks that they point into; files stay files."""
    return indices.copy() if isinstance(indices, np.ndarray) and not is_mapped(indices) else indices


def common_chunks(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Return the fewest chunks such that each is part of one chunk of either."""
    if left == right:
        return left
    ends = sorted({0, *ends_of(left), *ends_of(right)})
    return tuple(end - start for start, end in itertools.pairwise(ends)) or (0,)


def most_items(dtype: np.dtype, items: int = 1) -> int:
    """Return how many times so many items of a dtype a chunk may have by dask's `array.chunk-size`; 1 at least."""
    from dask import config
    from dask.utils import parse_bytes

    return max(parse_bytes(config.get("array.chunk-size")) // max(items * dtype.itemsize, 1), 1)


def chunks_of_most(wanted: tuple[Any, ...], shape: Shape, most: int) -> Chunks:
    """Return chunks of at most so many items in the dimensions that are "auto"; sizes of the others are as wanted."""
    from dask.array.core import normalize_chunks

    if 0 in shape:
        whole = tuple(size if want == "auto" else want for want, size in zip(wanted, shape, strict=True))
        return normalize_chunks(whole, shape)
    return normalize_chunks(wanted, shape, limit=most, dtype=np.dtype(np.int8))


def cut_to(
    most: int, chunks: dict[int, tuple[int, ...]], labels: Labels, cuttable: Sequence[int]
) -> dict[int, tuple[int, ...]]:
    """Return smaller chunks of some dimensions, so that no block of an array has more than so many items.

    Args:
        most: items of a block; where a single position of the cuttable dimensions has more, it is a block.
        chunks: of all dimensions.
        labels: of the array.
        cuttable: the labels that may be cut further, in that order.
    """
    smaller: dict[int, tuple[int, ...]] = {}
    items = math.prod(max(chunks[label], default=0) for label in labels)
    for label in cuttable:
        if items <= most:
            break
        largest = max(chunks[label])
        size = max(largest * most // items, 1)
        smaller[label] = tuple(part for chunk in chunks[label] for part in _parts(chunk, size))
        items = items // largest * size
    return smaller


def _parts(chunk: int, size: int) -> list[int]:
    """Return the sizes of the parts of a chunk: `size`, and less for the last one."""
    return [min(size, chunk - start) for start in range(0, chunk, size)] or [0]
