"""Gathers of dask arrays: a graph of the tasks in `chunked.py`, and nothing computed while it is made.

A block of the result is one task where the indexed axes of data are one chunk. Where they are several it is one task a
chunk and one that merges; of indices that are an ndarray, only the chunks that they point into have tasks at all. No
task splits indices that are dask's: each chunk looks for its own, so the graph has no task more than `data[indices]`.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.errors import BoundsError
from ...ir.operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from ...ir.problem import Problem
from ...ir.semantics import Bounds
from ...lowering.registry import Pipeline
from ...lowering.schedule.schedule import Schedule
from .blocks import (
    Chunks,
    Grid,
    Labels,
    Told,
    as_dask_array,
    check_dask_arrays,
    chunks_of_most,
    common_chunks,
    cut_to,
    ends_of,
    is_mapped,
    label_dimensions,
    most_items,
    on_blocks,
    unwritten,
)
from .chunked import ChunkedGather, Split
from .stored_results import aligned, delivered, write_chunks


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
        InvalidGatherError: the attributes do not fit the shapes, `out` is in memory, a chunk's size is not known, or
            dask plans queries itself.
    """
    from dask.array import Array
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    check_dask_arrays(data=data, indices=indices)
    problem = Problem.checked(
        operator, ArraySpec(data.shape, data.dtype), ArraySpec(indices.shape, indices.dtype), bounds, version=version
    )
    labels, indices = label_dimensions(problem), unwritten(indices)
    known = indices if isinstance(indices, np.ndarray) else None
    steps = {} if out is None else dict(zip(labels[2], write_chunks(out, problem.slices), strict=True))
    chunks, data, indices = _align(problem, data, indices, labels, steps)
    chunked = ChunkedGather(problem, schedule, tuple(ends_of(chunks[axis]) for axis in problem.axes))
    name = f"{problem.operator.name.replace('_', '-')}-{tokenize(repr(chunked), data.name, indices.name)}"
    # The same for all gathers by these indices from arrays cut alike, which so resolve them once.
    split = f"split-{tokenize(chunked.ends, repr(chunked.splitter()), indices.name)}"
    graph = _Graph(chunked, Grid(chunks), (name, split, data.name, indices.name), labels, known)
    tasks: Any = dict(graph.tasks())
    reads_indices = known is None or math.prod(map(len, chunked.ends)) == 1 or any(key[0] == split for key in tasks)
    sources = [data, indices] if reads_indices else [data]
    layers = HighLevelGraph.from_collections(name, tasks, dependencies=sources)
    result_chunks = tuple(chunks[label] for label in labels[2])
    meta = np.empty((0,) * len(result_chunks), data.dtype)
    return delivered(Array(layers, name, result_chunks, meta=meta), out)  # pyright: ignore[reportCallIssue]


def _align(
    problem: Problem, data: Any, indices: Any, labels: tuple[Labels, Labels, Labels], steps: dict[int, int]
) -> tuple[dict[int, tuple[int, ...]], Any, Any]:
    """Return the chunks by label, and both arrays as dask arrays of these chunks.

    The dimensions that they share get the chunks of both. A tuple of indices is in one chunk. An ndarray is cut as the
    other array is; indices beyond that so that a block of the result is not larger than dask's `array.chunk-size`, or
    than the largest chunk of data where indices are of dask; and at multiples of the steps of their labels.
    """
    data_labels, indices_labels, _ = labels
    if isinstance(problem.operator, GatherElements):
        axis, sizes = problem.operator.axis, problem.indices.shape
        data = data[tuple(slice(None) if dim == axis else slice(size) for dim, size in enumerate(sizes))]
    if isinstance(indices, np.ndarray):
        indices = as_dask_array(indices, _index_chunks(problem, data, labels, steps))
    elif indices_labels and indices_labels[-1] not in labels[2]:
        indices = indices.rechunk({indices.ndim - 1: -1})
    if isinstance(data, np.ndarray):
        of_indices = dict(zip(indices_labels, indices.chunks, strict=True))
        data = as_dask_array(data, tuple(of_indices.get(dim, (size,)) for dim, size in enumerate(data.shape)))
    of_data = dict(zip(data_labels, data.chunks, strict=True))
    of_indices = dict(zip(indices_labels, indices.chunks, strict=True))
    shared = {label: common_chunks(of_data[label], of_indices[label]) for label in of_data.keys() & of_indices.keys()}
    chunks = of_data | of_indices | shared
    items = math.prod(max(sizes, default=0) for sizes in of_data.values())
    own = [label for label in indices_labels if label in labels[2] and label not in of_data]
    chunks |= cut_to(max(most_items(problem.table.dtype), items), chunks, labels[2], own)
    data = data.rechunk(tuple(chunks[label] for label in data_labels))
    return chunks, data, indices.rechunk(tuple(chunks[label] for label in indices_labels))


def _index_chunks(problem: Problem, data: Any, labels: tuple[Labels, Labels, Labels], steps: dict[int, int]) -> Chunks:
    """Return chunks for indices that are an ndarray: data's where the two share a dimension, else of fitting size."""
    _, indices_labels, result = labels
    shape = problem.indices.shape
    of_data = dict(enumerate(data.chunks))
    slice_items = math.prod(max(of_data[label]) for label in result if label in of_data and label not in indices_labels)
    wanted = tuple(
        of_data.get(label, "auto") if label in result else (size,)
        for label, size in zip(indices_labels, shape, strict=True)
    )
    chunks = chunks_of_most(wanted, shape, most_items(problem.table.dtype, slice_items))
    return tuple(aligned(sizes, steps.get(label, 1)) for label, sizes in zip(indices_labels, chunks, strict=True))


@dataclass(frozen=True, slots=True)
class _Graph:
    """The tasks of one gather.

    Attributes:
        chunked: what every task knows.
        grid: how data, indices and the result are cut.
        names: of the result, of the split indices, of data and of indices.
        labels: of data, indices and the result.
        known: the indices, where their values are known already.
    """

    chunked: ChunkedGather
    grid: Grid
    names: tuple[str, str, str, str]
    labels: tuple[Labels, Labels, Labels]
    known: np.ndarray | None

    def tasks(self) -> Iterator[tuple[tuple, tuple]]:
        """Return every task with its key."""
        if math.prod(map(len, self.chunked.ends)) == 1:
            return self._whole()
        return self._unsplit() if self.known is None else self._in_parts(self.known)

    def _whole(self) -> Iterator[tuple[tuple, tuple]]:
        """Return one task a block, for indexed axes in one chunk."""
        grid, (name, _, data, indices), (of_data, of_indices, of_result) = self.grid, self.names, self.labels
        for place in grid.places(of_result):
            work = partial(self.chunked.gather_block, grid.origin(of_indices, place))
            told = self._told_data(place), grid.told("indices", of_indices, place)
            keys = grid.key(data, of_data, place), grid.key(indices, of_indices, place)
            yield grid.key(name, of_result, place), (partial(on_blocks, work, told), *keys)

    def _told_data(self, place: dict[int, int]) -> Told:
        return self.grid.told("data", self.labels[0], place, self.chunked.problem.table.dtype)

    def _unsplit(self) -> Iterator[tuple[tuple, tuple]]:
        """Return the tasks of unknown indices: those in which a chunk takes its own rows, and those that merge."""
        axes, (of_data, of_indices, of_result) = self.chunked.problem.axes, self.labels
        grid, (name, _, data, indices) = self.grid, self.names
        lean = replace(self.chunked, ends=())  # each task is pickled by itself, and the ends may be thousands
        shares = [list(itertools.pairwise((0, *ends))) for ends in self.chunked.ends]
        every_chunk = list(itertools.product(*map(enumerate, shares)))
        for place in grid.places(of_result):
            origin, block = grid.origin(of_indices, place), grid.key(indices, of_indices, place)
            parts = [(*grid.key(f"part-{name}", of_result, place), number) for number in range(len(every_chunk))]
            told = grid.told("indices", of_indices, place)
            for part, chunk in zip(parts, every_chunk, strict=True):
                numbers, share = zip(*chunk, strict=True)
                at = place | dict(zip(axes, numbers, strict=True))
                work = partial(on_blocks, partial(lean.take_own, origin, share), (self._told_data(at), told))
                yield part, (work, grid.key(data, of_data, at), block)
            shape, counts = grid.shape(of_result, place), grid.shape(of_indices, place)
            counts = counts[:-1] if isinstance(self.chunked.problem.operator, GatherNd) else counts
            yield grid.key(name, of_result, place), (partial(lean.merge_own, shape, counts), parts)

    def _in_parts(self, known: np.ndarray) -> Iterator[tuple[tuple, tuple]]:
        """Return the tasks of known indices: those that split them, those that take from a chunk, and those that merge.

        They are split here, where each of their blocks is for one block of the result.
        """
        axes, (of_data, of_indices, of_result) = self.chunked.problem.axes, self.labels
        grid, (name, split_name, data, _) = self.grid, self.names
        lean = replace(self.chunked, ends=())  # each task is pickled by itself, and the ends may be thousands
        every_chunk = list(itertools.product(*(range(len(ends)) for ends in self.chunked.ends)))
        ready, operator = self._ready_splits(known), self.chunked.problem.operator
        needs_places = not (isinstance(operator, Gather) and operator.batch_dims == 0)
        hit: dict[tuple, Sequence[int]] = {}
        if not ready:
            for key, task, numbers in split_tasks(self.chunked, grid, of_indices, self.names[1::2], known):
                yield key, task
                hit[key] = numbers or ()
        for place in grid.places(of_result):
            key = grid.key(split_name, of_indices, place)
            split, parts = ready.get(key), []
            for number in hit[key] if split is None else sorted(split.picks):
                at = place | dict(zip(axes, every_chunk[number], strict=True))
                source, told = grid.key(data, of_data, at), (self._told_data(at),)
                parts.append((*grid.key(f"part-{name}", of_result, place), number))
                if split is None:
                    yield parts[-1], (partial(on_blocks, partial(lean.take, number), told), source, key)
                else:
                    take = partial(lean.take, number, split=split.of_chunk(number, needs_places))
                    yield parts[-1], (partial(on_blocks, take, told), source)
            shape = grid.shape(of_result, place)
            merged = grid.key(name, of_result, place)
            if split is None:
                yield merged, (partial(lean.merge, shape, list(hit[key])), key, parts)
            else:
                yield merged, (partial(lean.merge, shape, sorted(split.picks), split.of_result()), parts)

    def _ready_splits(self, known: np.ndarray) -> dict[tuple, Split]:
        """Return the split of every block of indices by its key, or none where tasks do it."""
        _, of_indices, of_result = self.labels
        is_one_to_one = all(len(self.grid.chunks[label]) == 1 for label in of_result if label not in of_indices)
        if is_mapped(known) or not is_one_to_one:
            return {}
        try:
            return {
                self.grid.key(self.names[1], of_indices, place): self.chunked.split(
                    self.grid.origin(of_indices, place), self.grid.block(known, of_indices, place)
                )
                for place in self.grid.places(of_indices)
            }
        except BoundsError:  # that of a task says it when it is computed
            return {}


def split_tasks(
    chunked: ChunkedGather, grid: Grid, labels: Labels, names: Sequence[str], known: np.ndarray | None
) -> Iterator[tuple[tuple, tuple, list[int] | None]]:
    """Return the tasks that split indices by chunks, each with its key and the chunks that it points into.

    Args:
        chunked: has the ends of the chunks.
        labels: of indices.
        names: of the split indices, and of indices.
        known: the indices, where their values are known already; otherwise the chunks are None.
    """
    splitter = chunked.splitter()
    for place in grid.places(labels):
        origin = grid.origin(labels, place)
        work = partial(on_blocks, partial(splitter.split, origin), (grid.told("indices", labels, place),))
        task = work, grid.key(names[1], labels, place)
        numbers = None if known is None else chunked.chunks_hit(origin, grid.block(known, labels, place))
        yield grid.key(names[0], labels, place), task, numbers
