"""Gradients of dask arrays: a graph of the tasks in `chunked_gradient.py`, and nothing computed while it is made.

For each chunk of the result, every block of grad gives the sums of its rows. Sums of `FAN_IN` neighbouring blocks are
added in the order of the blocks, then those of neighbouring groups, up to one: a tree that the chunks alone decide.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.element_types import check_scale
from ...ir.operator_spec import GatherElements, Gradient, OperatorSpec
from ...ir.problem import Problem, check_addresses
from ...ir.semantics import Bounds, Shape
from ..runtime.array_checks import summation_dtype
from .blocks import (
    Grid,
    Labels,
    as_dask_array,
    check_dask_arrays,
    chunks_of_most,
    common_chunks,
    ends_of,
    label_dimensions,
    most_items,
    on_blocks,
    unwritten,
)
from .chunked import ChunkedGather
from .chunked_gradient import ChunkedGradient, add_parts
from .dask_arrays import split_tasks
from .stored_results import delivered

FAN_IN = 4


def gradient_dask(
    operator: OperatorSpec,
    grad: Any,
    indices: Any,
    data_shape: Shape,
    bounds: Bounds,
    gradient: Gradient,
    out: np.ndarray | None,
    *,
    version: str | None,
) -> Any:
    """Return the dask array that is the gradient when it is computed; see `gradient.gather_grad` for the arguments.

    Args:
        grad, indices: arrays of which one at least is dask's; the other may be an ndarray. Indices are integers.

    Raises:
        InvalidGatherError: the attributes or grad do not fit the shapes, its elements have no sum, `out` is in
            memory, a chunk's size is not known, or dask plans queries itself.
    """
    from dask.array import Array
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    check_dask_arrays(grad=grad, indices=indices)
    summation_dtype(grad.dtype)
    check_scale(gradient.scale, grad.dtype)
    table, read = ArraySpec(data_shape, grad.dtype), ArraySpec(grad.shape, grad.dtype)
    check_addresses(f"data_shape {data_shape}", data_shape, grad.dtype)
    spec = ArraySpec(indices.shape, indices.dtype)
    problem = Problem.checked(operator, table, spec, bounds, read, version, gradient)
    labels, indices = label_dimensions(problem), unwritten(indices)
    known = indices if isinstance(indices, np.ndarray) else None
    chunks, grad, indices = _align(problem, grad, indices, labels)
    sizes = _table_chunks(problem, chunks)
    chunked = ChunkedGather(problem, None, tuple(ends_of(sizes[axis]) for axis in problem.axes))
    name = f"{problem.name.replace('_', '-')}-{tokenize(repr(chunked), grad.name, indices.name)}"
    split = f"split-{tokenize(chunked.ends, repr(chunked.splitter()), indices.name)}"
    graph = _Graph(chunked, Grid(chunks), Grid(sizes), (name, split, grad.name, indices.name), labels, known)
    layers = HighLevelGraph.from_collections(name, dict(graph.tasks()), dependencies=[grad, indices])
    meta = np.empty((0,) * problem.table.rank, problem.table.dtype)
    return delivered(Array(layers, name, tuple(sizes.values()), meta=meta), out)  # pyright: ignore[reportCallIssue]


def _align(
    problem: Problem, grad: Any, indices: Any, labels: tuple[Labels, Labels, Labels]
) -> tuple[dict[int, tuple[int, ...]], Any, Any]:
    """Return the chunks of grad and indices by label, and both as dask arrays of these chunks.

    Shared dimensions get the chunks of both, and an ndarray those of the other. A tuple of indices is in one chunk.
    """
    _, of_indices, of_grad = labels
    whole = {label: (size,) for label, size in zip(of_indices, indices.shape, strict=True)}
    if isinstance(grad, np.ndarray):
        known = whole | dict(zip(of_indices, indices.chunks, strict=True))
        sizes = zip(of_grad, grad.shape, strict=True)
        grad = as_dask_array(grad, tuple(known.get(label, (size,)) for label, size in sizes))
    chunks = dict(zip(of_grad, grad.chunks, strict=True))
    if isinstance(indices, np.ndarray):
        chunks = whole | chunks
        indices = as_dask_array(indices, tuple(chunks[label] for label in of_indices))
    else:
        own = dict(zip(of_indices, indices.chunks, strict=True))
        chunks = chunks | {
            label: common_chunks(sizes, chunks[label]) if label in chunks else whole[label]
            for label, sizes in own.items()
        }
    grad = grad.rechunk(tuple(chunks[label] for label in of_grad))
    return chunks, grad, indices.rechunk(tuple(chunks[label] for label in of_indices))


def _table_chunks(problem: Problem, chunks: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Return the chunks of the result by label: grad's off the axes, and on them such that a chunk fits.

    Of a gradient of elements, what lies beyond indices is a chunk of its own.
    """
    shape, wanted = problem.table.shape, []
    for label, size in enumerate(shape):
        sizes: Any = "auto" if label in problem.axes else chunks[label]
        if isinstance(problem.operator, GatherElements) and sizes != "auto" and sum(sizes) < size:
            sizes = (*sizes, size - sum(sizes))
        wanted.append(sizes)
    return dict(enumerate(chunks_of_most(tuple(wanted), shape, most_items(problem.table.dtype))))


@dataclass(frozen=True, slots=True)
class _Graph:
    """The tasks of one gradient.

    Attributes:
        chunked: resolves indices, and has the ends of the result's chunks on the axes.
        grid: how grad and indices are cut.
        table: how the result is cut.
        names: of the result, of the split indices, of grad and of indices.
        labels: of the result, of indices and of grad.
        known: the indices, where their values are known already.
    """

    chunked: ChunkedGather
    grid: Grid
    table: Grid
    names: tuple[str, str, str, str]
    labels: tuple[Labels, Labels, Labels]
    known: np.ndarray | None

    def tasks(self) -> Iterator[tuple[tuple, tuple]]:
        """Return every task with its key."""
        name, split_name, grad_name, _ = self.names
        of_table, of_indices, of_grad = self.labels
        gradient = ChunkedGradient(self.chunked.problem)
        hit: dict[tuple, set[int] | None] = {}
        for key, task, numbers in split_tasks(self.chunked, self.grid, of_indices, self.names[1::2], self.known):
            yield key, task
            hit[key] = None if numbers is None else set(numbers)
        blocks = list(self.grid.places(of_indices))
        for place in self.table.places(of_table):
            shape, number = self.table.shape(of_table, place), self._number(place)
            parts: dict[int, tuple] = {}
            meeting = [(block, at) for block in blocks if (at := self._meets(place, block)) is not None]
            for count, (block, at) in enumerate(meeting):
                split = self.grid.key(split_name, of_indices, block)
                hits = hit[split]
                if hits is not None and number not in hits:
                    continue
                parts[count] = (*self.table.key(f"part-{name}", of_table, place), count)
                told = (self.grid.told("grad", of_grad, at, gradient.problem.table.dtype),)
                work = partial(on_blocks, partial(gradient.part, number, shape), told)
                yield parts[count], (work, self.grid.key(grad_name, of_grad, at), split)
            key = self.table.key(name, of_table, place)
            yield from tree(key, parts, partial(gradient.total, shape))

    def _number(self, place: dict[int, int]) -> int:
        """Return the number of a chunk of the result, counted over the indexed axes."""
        number = 0
        for axis, ends in zip(self.chunked.problem.axes, self.chunked.ends, strict=True):
            number = number * len(ends) + place[axis]
        return number

    def _meets(self, place: dict[int, int], block: dict[int, int]) -> dict[int, int] | None:
        """Return the block of grad that a block of indices adds to a chunk of the result; None where they are apart."""
        axes = self.chunked.problem.axes
        shared = {label: number for label, number in place.items() if label not in axes}
        if any(shared.get(label, number) != number for label, number in block.items()):
            return None
        at = shared | block
        return at if all(at.get(label, 0) < len(self.grid.chunks[label]) for label in self.labels[2]) else None


def tree(key: tuple, parts: dict[int, tuple], last: Callable[..., Any]) -> Iterator[tuple[tuple, tuple]]:
    """Return the tasks that add parts: neighbours first, in their order.

    Args:
        key: of the last task.
        parts: the keys of the parts by their numbers, ascending. One that is left out is known to be zero.
        last: adds the last of them, and makes what the key stands for.
    """
    level = 0
    while parts and max(parts) >= FAN_IN:
        groups: dict[int, list[tuple]] = {}
        for number, part in parts.items():
            groups.setdefault(number // FAN_IN, []).append(part)
        parts, level = {}, level + 1
        for number, group in groups.items():
            parts[number] = group[0] if len(group) == 1 else (f"sum-{key[0]}", *key[1:], level, number)
            if len(group) > 1:
                yield parts[number], (add_parts, group)
    yield key, (last, list(parts.values()))
