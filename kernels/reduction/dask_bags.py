"""Sums of bags of dask arrays: a graph of the tasks in `chunked_bags.py`, and nothing computed while it is made.

Bags are cut into blocks, and rows of data where its chunks are. Each block gets the sums of its rows from every chunk
that it points into, and they are added in the order of the chunks; the gradient goes the other way.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...ir.semantics import Bounds, Shape
from ..chunks.blocks import (
    Chunks,
    Grid,
    Labels,
    Told,
    as_dask_array,
    chunks_of_most,
    common_chunks,
    cut_to,
    ends_of,
    most_items,
    on_blocks,
    unwritten,
)
from ..chunks.dask_gradient import tree
from .bags import padding_position
from .chunked_bags import ChunkedBags, Ends


def reduce_dask(
    data: Any, indices: Any, ends: Ends | None, reduce: str, padding_index: int | None, bounds: Bounds
) -> Any:
    """Return the dask array that sums rows by bags when it is computed; see `gather_reduce` for the arguments.

    Args:
        data, indices: arrays of which one at least is dask's; the other may be an ndarray.
        ends: the starts and lengths of bags; None where each row of indices is a bag.

    Raises:
        InvalidGatherError: the padding index is none of data.
    """
    bags = _blocks_of_bags(indices, ends, data.shape[1:], data.dtype, None)
    inner = [(size,) for size in data.shape[1:]] if isinstance(data, np.ndarray) else data.chunks[1:]
    if isinstance(data, np.ndarray):
        data = as_dask_array(data, ((data.shape[0],), *inner))
    return _made(data, bags, data.chunks[0], tuple(inner), reduce, padding_index, bounds)


def reduce_dask_grad(
    grad: Any,
    indices: Any,
    data_shape: Shape,
    ends: Ends | None,
    reduce: str,
    padding_index: int | None,
    bounds: Bounds,
) -> Any:
    """Return the dask array that is the gradient of `reduce_dask` when it is computed."""
    rank = grad.ndim - len(data_shape) + 1
    bags = _blocks_of_bags(indices, ends, data_shape[1:], grad.dtype, grad)
    inner = tuple((size,) for size in data_shape[1:]) if isinstance(grad, np.ndarray) else grad.chunks[rank:]
    wanted = (*bags.chunks, *inner)
    grad = as_dask_array(grad, wanted) if isinstance(grad, np.ndarray) else grad.rechunk(wanted)
    rows = chunks_of_most(("auto", *inner), data_shape, most_items(grad.dtype))[0]
    return _made(grad, bags, rows, inner, reduce, padding_index, bounds, is_gradient=True)


def _made(
    source: Any,
    bags: "_Blocks",
    rows: tuple[int, ...],
    inner: Chunks,
    reduce: str,
    padding_index: int | None,
    bounds: Bounds,
    is_gradient: bool = False,
) -> Any:
    """Return the dask array of a reduction, or of its gradient, of arrays that are cut to fit."""
    from dask.array import Array
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    count = sum(rows)
    if padding_index is not None:
        padding_index = padding_position(padding_index, count)
    chunked = ChunkedBags(count, bags.indices.shape, bounds, padding_index, reduce == "mean", ends_of(rows))
    digest = tokenize(repr(chunked), source.name, bags.indices.name, bags.ends)
    name = f"gather-reduce{'-grad' if is_gradient else ''}-{digest}"
    rank = len(bags.chunks)
    labels = tuple(range(rank)), tuple(range(rank + 1, rank + 1 + len(inner)))
    grid = Grid(dict(enumerate((*bags.chunks, rows, *inner))))
    graph = _Graph(chunked, grid, bags, labels, (name, f"split-{digest}", source.name), source.dtype)
    tasks = graph.grad_tasks() if is_gradient else graph.tasks()
    layers = HighLevelGraph.from_collections(name, dict(tasks), dependencies=[source, bags.indices])
    chunks = (rows, *inner) if is_gradient else (*bags.chunks, *inner)
    meta = np.empty((0,) * len(chunks), source.dtype)
    return Array(layers, name, chunks, meta=meta)  # pyright: ignore[reportCallIssue]


@dataclass(frozen=True, slots=True)
class _Blocks:
    """How bags are cut.

    Attributes:
        chunks: the sizes of the blocks, by dimensions of bags.
        indices: a dask array, a chunk for each block.
        ends: the starts and lengths of all bags; None where each row of indices is a bag.
        known: the indices, where their values are known already.
    """

    chunks: Chunks
    indices: Any
    ends: Ends | None
    known: np.ndarray | None


def _blocks_of_bags(indices: Any, ends: Ends | None, inner: Shape, dtype: np.dtype, grad: Any) -> _Blocks:
    """Return bags cut so that a block of the result, and one of indices, has at most `array.chunk-size` bytes.

    Args:
        inner: the shape of a row.
        dtype: of rows.
        grad: of a gradient, what the bags' rows are added from; bags are cut where it is, too.
    """
    indices = unwritten(indices)
    known = indices if isinstance(indices, np.ndarray) else None
    of_grad, own = _chunks_of(grad), _chunks_of(indices)
    most = most_items(dtype, math.prod(inner))
    if ends is not None:
        largest = None if known is not None else max(own[0], default=1)
        sizes, of_indices = _cut_bags(ends, most, ends_of(of_grad[0]) if of_grad else (), largest)
        return _Blocks((sizes,), _rechunked(indices, (of_indices,)), ends, known)
    bag, shape = indices.shape[-1], indices.shape[:-1]
    most = min(most, most_items(indices.dtype, bag))
    if known is not None and not of_grad:
        chunks = chunks_of_most(("auto",) * len(shape), shape, most) if shape else ()
    else:
        given = [array[: len(shape)] for array in (of_grad, own) if array]
        cut = dict(enumerate(map(common_chunks, given[0], given[-1])))
        chunks = tuple((cut | cut_to(most, cut, tuple(cut), tuple(cut))).values())
    return _Blocks(chunks, _rechunked(indices, (*chunks, (bag,))), None, known)


def _chunks_of(array: Any) -> Chunks:
    """Return the chunks of a dask array, none of another."""
    return () if isinstance(array, np.ndarray | None) else array.chunks


def _rechunked(indices: Any, chunks: Chunks) -> Any:
    return as_dask_array(indices, chunks) if isinstance(indices, np.ndarray) else indices.rechunk(chunks)


def _cut_bags(
    ends: Ends, most_bags: int, cut: tuple[int, ...], indices_chunk: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return how many bags, and how many indices, each block has.

    Args:
        most_bags: of a block.
        cut: numbers of bags where a block ends in any case.
        indices_chunk: about how many indices a block has; None for as many as a chunk of dask's.
    """
    starts, lengths = ends
    most_indices = most_items(np.dtype(np.int64)) if indices_chunk is None else max(indices_chunk, 1)
    sums = np.concatenate([[0], np.cumsum(lengths)])
    bags, first, fixed = [], 0, [*cut, len(starts)]
    while first < len(starts):
        fit = int(np.searchsorted(sums, sums[first] + most_indices, side="right")) - 1
        end = min(max(fit, first + 1), first + most_bags, next(place for place in fixed if place > first))
        bags.append((first, end))
        first = end
    bags = bags or [(0, 0)]
    return tuple(end - first for first, end in bags), tuple(int(sums[end] - sums[first]) for first, end in bags)


@dataclass(frozen=True, slots=True)
class _Graph:
    """The tasks of one reduction or its gradient.

    Attributes:
        chunked: what every task knows.
        grid: how bags, rows and inner dimensions are cut.
        bags: the blocks of bags.
        labels: of bags and of inner dimensions; that of rows lies between.
        names: of the result, of the split indices, and of data or grad.
        dtype: of the result.
    """

    chunked: ChunkedBags
    grid: Grid
    bags: _Blocks
    labels: tuple[Labels, Labels]
    names: tuple[str, str, str]
    dtype: np.dtype

    def tasks(self) -> Iterator[tuple[tuple, tuple]]:
        """Return every task of a reduction with its key.

        All splits are one value, so that what any block takes from a chunk is taken while the chunk is there: of splits
        one by one, dask reads the whole table for the first block, and holds it for the others.
        """
        (of_bags, of_inner), (name, split_name, source) = self.labels, self.names
        lean, hit = replace(self.chunked, ends=()), {}
        for key, task, numbers in self._splits():
            yield key, task
            hit[key] = numbers
        splits, places = [*hit], {key: place for place, key in enumerate(hit)}
        every = (f"every-{split_name}",)
        if len(splits) > 1:
            yield every, (list, splits)
        for place in self.grid.places((*of_bags, *of_inner)):
            split = self.grid.key(split_name, of_bags, place)
            key, parts = self.grid.key(name, (*of_bags, *of_inner), place), {}
            for number in hit[split]:
                parts[number] = (f"part-{name}", *key[1:], number)
                at, of_rows = place | {len(of_bags): number}, (len(of_bags), *of_inner)
                rows, told = self.grid.key(source, of_rows, at), (self.grid.told("data", of_rows, at, self.dtype),)
                if len(splits) > 1:
                    work = partial(on_blocks, partial(lean.part_of, number, places[split]), told)
                    yield parts[number], (work, rows, every)
                else:
                    yield parts[number], (partial(on_blocks, partial(lean.part, number), told), rows, split)
            shape = self.grid.shape((*of_bags, *of_inner), place)
            for made, (work, arguments) in tree(key, parts, partial(lean.total, shape, self.dtype)):
                yield made, ((work, arguments, split) if made == key else (work, arguments))

    def grad_tasks(self) -> Iterator[tuple[tuple, tuple]]:
        """Return every task of a gradient with its key."""
        (of_bags, of_inner), (name, split_name, source) = self.labels, self.names
        lean, hit = replace(self.chunked, ends=()), {}
        for key, task, numbers in self._splits():
            yield key, task
            hit[key] = set(numbers)
        blocks, of_result = list(self.grid.places(of_bags)), (len(of_bags), *of_inner)
        for place in self.grid.places(of_result):
            key, parts, number = self.grid.key(name, of_result, place), {}, place[len(of_bags)]
            for count, block in enumerate(blocks):
                split = self.grid.key(split_name, of_bags, block)
                if number in hit[split]:
                    parts[count] = (f"part-{name}", *key[1:], count)
                    at, of_grad = place | block, (*of_bags, *of_inner)
                    told = (self.grid.told("grad", of_grad, at, self.dtype),)
                    work = partial(on_blocks, partial(lean.grad_part, number), told)
                    yield parts[count], (work, self.grid.key(source, of_grad, at), split)
            yield from tree(key, parts, partial(lean.grad_total, self.grid.shape(of_result, place), self.dtype))

    def _splits(self) -> Iterator[tuple[tuple, tuple, list[int]]]:
        """Return the tasks that split bags, each with its key and the chunks of rows that it may point into."""
        of_bags, (_, split_name, _) = self.labels[0], self.names
        every = list(range(len(self.chunked.ends)))
        for place in self.grid.places(of_bags):
            bag, size = self.grid.origin(of_bags, place), self.grid.shape(of_bags, place)
            numbers, ends = tuple(place[label] for label in of_bags), None
            if self.bags.ends is None:
                origin = (*bag, 0)
                numbers = (*numbers, 0)
                bag, size = origin, (*size, self.chunked.shape[-1])
                parts = tuple(slice(start, start + count) for start, count in zip(bag, size, strict=True))
            else:
                starts, lengths = (array[bag[0] : bag[0] + size[0]] for array in self.bags.ends)
                origin = (int(starts[0]) if len(starts) else 0,)
                ends = starts - origin[0], lengths
                parts = (slice(origin[0], origin[0] + int(lengths.sum())),)
            key = self.grid.key(split_name, of_bags, place)
            hit = every if self.bags.known is None else self.chunked.chunks_hit(self.bags.known[parts])
            told = (Told("indices", tuple(part.stop - part.start for part in parts), None),)
            work = partial(on_blocks, partial(self.chunked.split, origin, ends), told)
            yield key, (work, (self.bags.indices.name, *numbers)), every if hit is None else hit
