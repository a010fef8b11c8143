"""Gathers of dask arrays: a graph of the tasks in `chunked.py`, and nothing computed while it is made.

A block of the result is one task where the indexed axes of data are one chunk. Where they are several it is one task a
chunk and one that merges; of indices that are an ndarray, only the chunks that they point into have tasks at all.
"""

import functools
import itertools
import math
import mmap
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.errors import InvalidGatherError
from ...ir.operator_spec import Gather, GatherElements, OperatorSpec
from ...ir.problem import Problem
from ...ir.semantics import Bounds, Shape
from ...lowering.registry import Pipeline
from ...lowering.schedule.schedule import Schedule
from ..runtime.array_checks import memory_owner
from .chunked import ChunkedGather

# A number for every dimension of an array; dimensions of data, indices and the result with one number are one.
Labels = tuple[int, ...]


def gather_dask(
    operator: OperatorSpec,
    data: Any,
    indices: Any,
    bounds: Bounds,
    out: np.ndarray | None,
    *,
    version: str | None,
    schedule: Schedule | Pipeline | None,
) -> Any:
    """Return the dask array that gathers when it is computed; see `gather.gather` for the arguments.

    Args:
        data, indices: arrays of which one at least is dask's; the other may be an ndarray. Indices are integers.
        schedule: for the tasks that gather from whole axes.

    Raises:
        InvalidGatherError: the attributes do not fit the shapes, `out` is given, a chunk's size is not known, or
            dask plans queries itself.
    """
    from dask.array import Array
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    if out is not None:
        raise InvalidGatherError(
            "out cannot be given with dask arrays, whose result is computed later; leave it out, and write the result "
            "with dask.array.store"
        )
    if Array.__module__ != "dask.array.core":
        raise InvalidGatherError(
            "gathers of dask arrays do not work with dask's option 'array.query-planning', which is on; set it to "
            "False before dask.array is imported"
        )
    for name, array in (("data", data), ("indices", indices)):
        _check_chunks(name, array)
    problem = Problem.checked(
        operator, ArraySpec(data.shape, data.dtype), ArraySpec(indices.shape, indices.dtype), bounds, version=version
    )
    labels = _label_dimensions(problem)
    if isinstance(indices, np.ndarray) and not is_mapped(indices):
        indices = indices.copy()  # the graph names the chunks that they point into, so they must stay what they are
    known = indices if isinstance(indices, np.ndarray) else None
    chunks, data, indices = _align(problem, data, indices, labels)
    chunked = ChunkedGather(problem, schedule, tuple(_ends(chunks[axis]) for axis in problem.axes))
    name = f"{problem.operator.name.replace('_', '-')}-{tokenize(repr(chunked), data.name, indices.name)}"
    graph = _Graph(chunked, name, chunks, labels, (data.name, indices.name), known)
    layers = HighLevelGraph.from_collections(name, dict(graph.tasks()), dependencies=[data, indices])
    result_chunks = tuple(chunks[label] for label in labels[2])
    meta = np.empty((0,) * len(result_chunks), data.dtype)
    return Array(layers, name, result_chunks, meta=meta)  # pyright: ignore[reportCallIssue]


def _check_chunks(name: str, array: Any) -> None:
    """Check that a dask array says how large its chunks are, and that they are ndarrays."""
    if isinstance(array, np.ndarray):
        return
    if any(math.isnan(size) for size in array.shape):
        raise InvalidGatherError(
            f"{name} has chunks of unknown size, its shape is {array.shape}; find their sizes with "
            f"{name}.compute_chunk_sizes()"
        )
    if not isinstance(array._meta, np.ndarray):
        raise InvalidGatherError(
            f"{name} has chunks of {type(array._meta).__name__}, and gathers need ndarrays; convert them with "
            f"{name}.map_blocks(numpy.asarray)"
        )


def _label_dimensions(problem: Problem) -> tuple[Labels, Labels, Labels]:
    """Return the labels of data (0 to its rank - 1), of indices and of the result."""
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


def _align(
    problem: Problem, data: Any, indices: Any, labels: tuple[Labels, Labels, Labels]
) -> tuple[dict[int, tuple[int, ...]], Any, Any]:
    """Return the chunks by label, and both arrays as dask arrays of these chunks.

    The dimensions that they share get the chunks of both. A tuple of indices is in one chunk. An ndarray is cut as the
    other array is; indices beyond that so that a block of the result is not larger than dask's `array.chunk-size`.
    """
    data_labels, indices_labels, _ = labels
    if isinstance(problem.operator, GatherElements):
        axis, sizes = problem.operator.axis, problem.indices.shape
        data = data[tuple(slice(None) if dim == axis else slice(size) for dim, size in enumerate(sizes))]
    if isinstance(indices, np.ndarray):
        indices = _as_dask_array(indices, _index_chunks(problem, data, labels))
    elif indices_labels and indices_labels[-1] not in labels[2]:
        indices = indices.rechunk({indices.ndim - 1: -1})
    if isinstance(data, np.ndarray):
        of_indices = dict(zip(indices_labels, indices.chunks, strict=True))
        data = _as_dask_array(data, tuple(of_indices.get(dim, (size,)) for dim, size in enumerate(data.shape)))
    of_data = dict(zip(data_labels, data.chunks, strict=True))
    of_indices = dict(zip(indices_labels, indices.chunks, strict=True))
    shared = {label: _common_chunks(of_data[label], of_indices[label]) for label in of_data.keys() & of_indices.keys()}
    chunks = of_data | of_indices | shared
    data = data.rechunk(tuple(chunks[label] for label in data_labels))
    return chunks, data, indices.rechunk(tuple(chunks[label] for label in indices_labels))


def _as_dask_array(array: np.ndarray, chunks: tuple[tuple[int, ...], ...]) -> Any:
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


def _common_chunks(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Return the fewest chunks such that each is part of one chunk of either."""
    if left == right:
        return left
    ends = sorted({0, *_ends(left), *_ends(right)})
    return tuple(end - start for start, end in itertools.pairwise(ends)) or (0,)


def _index_chunks(problem: Problem, data: Any, labels: tuple[Labels, Labels, Labels]) -> tuple[tuple[int, ...], ...]:
    """Return chunks for indices that are an ndarray: data's where the two share a dimension, else of fitting size."""
    from dask import config
    from dask.array.core import normalize_chunks
    from dask.utils import parse_bytes

    _, indices_labels, result = labels
    shape, dtype = problem.indices.shape, problem.indices.dtype
    if 0 in shape:
        return normalize_chunks(shape, shape)
    of_data = dict(enumerate(data.chunks))
    slice_items = math.prod(max(of_data[label]) for label in result if label in of_data and label not in indices_labels)
    most_items = parse_bytes(config.get("array.chunk-size")) // max(slice_items * problem.table.dtype.itemsize, 1)
    wanted = tuple(
        of_data.get(label, "auto") if label in result else (size,)
        for label, size in zip(indices_labels, shape, strict=True)
    )
    return normalize_chunks(wanted, shape, limit=max(most_items, 1) * dtype.itemsize, dtype=dtype)


@dataclass(frozen=True, slots=True)
class _Graph:
    """The tasks of one gather.

    Attributes:
        chunked: what every task knows.
        name: of the result; its blocks have the keys `(name, *numbers of chunks)`.
        chunks: the sizes of the chunks by label, as data and indices have them.
        labels: of data, indices and the result.
        sources: the names of data and indices.
        known: the indices, where their values are known already.
    """

    chunked: ChunkedGather
    name: str
    chunks: dict[int, tuple[int, ...]]
    labels: tuple[Labels, Labels, Labels]
    sources: tuple[str, str]
    known: np.ndarray | None

    def tasks(self) -> Iterator[tuple[tuple, tuple]]:
        """Return every task with its key."""
        return self._whole() if math.prod(map(len, self.chunked.ends)) == 1 else self._in_parts()

    def _whole(self) -> Iterator[tuple[tuple, tuple]]:
        """Return one task a block, for indexed axes in one chunk."""
        for place in self._places(self.labels[2]):
            work = partial(self.chunked.gather_block, self._origin(place))
            keys = self._key(self.sources[0], place, 0), self._key(self.sources[1], place, 1)
            yield self._key(self.name, place, 2), (work, *keys)

    def _in_parts(self) -> Iterator[tuple[tuple, tuple]]:
        """Return the tasks that split indices, those that take from a chunk, and those that merge."""
        axes = self.chunked.problem.axes
        lean = replace(self.chunked, ends=())  # each task is pickled by itself, and the ends may be thousands
        every_chunk = list(itertools.product(*(range(len(ends)) for ends in self.chunked.ends)))
        hit: dict[tuple, Sequence[int]] = {}
        for place in self._places(self.labels[1]):
            key, origin = self._key(f"split-{self.name}", place, 1), self._origin(place)
            yield key, (partial(self.chunked.split, origin), self._key(self.sources[1], place, 1))
            block = self._known_block(place)
            hit[key] = range(len(every_chunk)) if block is None else self.chunked.chunks_hit(origin, block)
        for place in self._places(self.labels[2]):
            split, parts = self._key(f"split-{self.name}", place, 1), []
            for number in hit[split]:
                source = self._key(self.sources[0], place | dict(zip(axes, every_chunk[number], strict=True)), 0)
                parts.append((*self._key(f"part-{self.name}", place, 2), number))
                yield parts[-1], (partial(lean.take, number), source, split)
            shape = tuple(self.chunks[label][place[label]] for label in self.labels[2])
            yield self._key(self.name, place, 2), (partial(lean.merge, shape, list(hit[split])), split, parts)

    def _places(self, labels: Labels) -> Iterator[dict[int, int]]:
        """Return the blocks of an array, each as the number of its chunk by label."""
        for numbers in itertools.product(*(range(len(self.chunks[label])) for label in labels)):
            yield dict(zip(labels, numbers, strict=True))

    def _key(self, name: str, place: dict[int, int], of: int) -> tuple:
        """Return the key of a block of data (0), indices (1) or the result (2); a label with no place has one chunk."""
        return (name, *(place.get(label, 0) for label in self.labels[of]))

    def _origin(self, place: dict[int, int]) -> Shape:
        """Return where a block of indices starts."""
        return tuple((0, *_ends(self.chunks[label]))[place.get(label, 0)] for label in self.labels[1])

    def _known_block(self, place: dict[int, int]) -> np.ndarray | None:
        if self.known is None:
            return None
        sizes = (self.chunks[label][place[label]] for label in self.labels[1])
        return self.known[
            tuple(slice(start, start + size) for start, size in zip(self._origin(place), sizes, strict=True))
        ]


@functools.lru_cache
def _ends(chunks: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(itertools.accumulate(chunks))
