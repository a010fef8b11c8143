"""Gathers, gradients and sums of bags of dask arrays: dask arrays too, of which nothing is computed before the result.

Every block of indices meets every chunk that it may point into, in a `blockwise` of dask that gives the rows or sums of
each pair; a `reduction` of dask merges the rows, or adds the sums in a tree of `FAN_IN` that the chunks alone decide.
Indices in memory are known when a gather is made: then the pairs that have a row are planned here (`_planned`), and no
chunk is read that no index points into. Of 64 chunks, 1,000 random rows take 0.7 of the time of `dask.array.take`, and
200,000 a tenth; the `blockwise` graph takes three times as long.

`gather`, `gradient` and `reduce` are the door for arrays that are no ndarrays; without dask's, `stored` has the rest.
"""

import itertools
import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..ir.array_spec import ArraySpec
from ..ir.errors import InvalidGatherError
from ..ir.operator_spec import Gather, GatherElements, Gradient, OperatorSpec
from ..ir.positions import NOWHERE
from ..ir.problem import Problem
from ..ir.semantics import Bounds, Shape
from ..kernels.reduction.bags import divided, padding_position
from ..kernels.reduction.gather_reduce import gather_reduce
from ..kernels.runtime.array_checks import index_array, is_lazy, memory_owner, out_array
from ..kernels.runtime.dispatch import run_gather
from . import stored
from .parts import (
    Labels,
    Sums,
    add_rows,
    add_sums,
    check_indices,
    find_positions,
    finish_gradient,
    gradient_problem,
    grid_of,
    keyed_rows,
    label_dimensions,
    make_tuples,
    merge_rows,
    narrowed,
    take_rows,
    told,
)

FAN_IN = 4  # How many neighbouring sums a task adds: fewer make the tree deeper, more hold more sums at a time.

# Take rows of chunks in one task, which holds all of these chunks, if they have at most this part of the bytes that
# dask's configuration gives a chunk (`array.chunk-size`): a task for each chunk makes the gather of 1,000 rows of 64
# chunks 2.7 times as slow, and of 200,000 rows 1.4 times.
IN_MEMORY_RATIO = 0.5

Chunks = tuple[tuple[int, ...], ...]
Ends = tuple[np.ndarray, np.ndarray]
Spans = tuple[slice, ...]  # Where a pair of blocks lies in each label of a task's order.


def gather(
    operator: OperatorSpec, data: Any, indices: Any, bounds: Bounds, out: Any, *, version: str | None, schedule: Any
) -> Any:
    """Gather from or by arrays of dask, from a stored array, or into one; arguments and errors as of `gather.gather`.

    Returns:
        `out`, or a dask array where data or indices are one, whose errors come when it is computed; else an ndarray.
    """
    rest: dict[str, Any] = {"version": version, "schedule": schedule}
    if is_lazy(data) or is_lazy(indices):
        return stored.delivered(_gather(operator, data, indices, bounds, **rest), out)
    work = stored.gather if isinstance(out, np.ndarray | None) else stored.gather_into
    return work(operator, data, indices, bounds, out, **rest)


def gradient(
    operator: OperatorSpec, grad: Any, indices: Any, data_shape: Shape, bounds: Bounds, gradient: Gradient, out: Any,
    *, version: str | None,
) -> Any:  # fmt: skip
    """Return the gradient of arrays of dask, or of a stored `grad`; see `gradient.gather_grad` and `gather`."""
    problem = gradient_problem(operator, grad, indices, data_shape, bounds, gradient, version)
    if is_lazy(grad) or is_lazy(indices):
        return stored.delivered(_gradient(problem, grad, indices), out)
    written = out if out is None else out_array(out)
    result = stored.gradient(problem, grad, indices, written)
    return result if out is None else out


def reduce(
    source: Any, indices: Any, ends: Ends | None, out: Any, *, reduce: str, bounds: Bounds,
    data_shape: Shape | None = None, **options: Any,
) -> Any:  # fmt: skip
    """Return the result of `gather_reduce` of dask or stored arrays; its gradient where `data_shape` is given."""
    if not (is_lazy(source) or is_lazy(indices)):
        return stored.reduce(source, indices, ends, out, reduce=reduce, bounds=bounds, **options)
    padding_index = options.pop("padding_index")
    for name, is_given in {
        "a weight, a scale or a bias": any(factor is not None for factor in options.values()),
        'a gradient of reduce="max"': reduce == "max" and data_shape is not None,
    }.items():
        if is_given:
            raise InvalidGatherError(f"{name} is of arrays in memory, got a dask array; compute data and indices first")
    lengths = None if ends is None else ends[1]
    return stored.delivered(_reduce(source, indices, lengths, reduce, padding_index, bounds, data_shape), out)


class _InMemory:
    """An array in memory or in a mapped file, whose chunks are views; `from_array` would copy and hash an ndarray."""

    def __init__(self, array: np.ndarray):
        self._array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim

    def __getitem__(self, place: tuple[slice, ...]) -> np.ndarray:
        return self._array[(*place, ...)]  # the ellipsis makes a view of an array of rank 0, too


def _as_dask(array: Any, chunks: Any) -> Any:
    """Return an array in memory or in a file as one of dask's, of these chunks."""
    from dask.array import from_array
    from dask.base import tokenize

    if not isinstance(array, np.ndarray):
        return from_array(array, chunks=chunks)
    name: Any = False if is_mapped(array) else f"array-{tokenize(array, chunks)}"  # False is another name each time
    meta = np.empty((0,) * array.ndim, array.dtype)
    return from_array(_InMemory(array), chunks=chunks, name=name, asarray=False, meta=meta)  # type: ignore[arg-type]


def is_mapped(array: Any) -> bool:
    """Return whether an array is a view of a mapped file."""
    return isinstance(memory_owner(array), mmap.mmap)


def _cut(wanted: Sequence[Any], shape: Shape, dtype: np.dtype, items: int = 1) -> Chunks:
    """Return chunks whose "auto" dimensions are cut by dask's `array.chunk-size`; an element stands for items."""
    from dask.array.core import normalize_chunks

    if 0 in shape:
        wanted = [size if want == "auto" else want for want, size in zip(wanted, shape, strict=True)]
    most = max(_chunk_bytes() // max(items * dtype.itemsize, 1), 1)
    return normalize_chunks(tuple(wanted), shape, limit=most, dtype=np.dtype(np.int8))


def _chunk_bytes() -> int:
    """Return how many bytes dask's configuration gives a chunk."""
    from dask import config
    from dask.utils import parse_bytes

    return parse_bytes(config.get("array.chunk-size"))


@dataclass(frozen=True, slots=True)
class _Task:
    """What the tasks of one call do with a chunk of the table and a block of indices.

    Attributes:
        problem: the whole arrays, as if they were contiguous, and the operator;
        labels: of the table, of indices, and of the result of the gather or the sums.
        order: the labels of the spans.
        schedule: for gathers from whole axes.
        is_whole: whether the indexed axes of data are one chunk each.
    """

    problem: Problem
    labels: tuple[Labels, Labels, Labels]
    order: Labels
    schedule: Any = None
    is_whole: bool = False

    def _span(self, spans: Spans, labels: Sequence[int]) -> tuple[Shape, Shape]:
        """Return where a block of an array starts, and its shape."""
        places = [spans[self.order.index(label)] for label in labels]
        return tuple(place.start for place in places), tuple(place.stop - place.start for place in places)

    def _blocks(self, spans: Spans, which: int, block: Any, indices: Any) -> tuple[np.ndarray, np.ndarray, Shape]:
        """Return a block of the table (0) or of grad (2), one of indices, and where that starts.

        Raises:
            InvalidGatherError: a block is another than dask was told.
        """
        _, shape = self._span(spans, self.labels[which])
        origin, index_shape = self._span(spans, self.labels[1])
        block = told(block, "grad" if which else "data", shape, self.problem.table.dtype)
        return block, index_array(told(indices, "indices", index_shape)), origin

    def _hits(self, spans: Spans, indices: np.ndarray, origin: Shape) -> tuple[np.ndarray, np.ndarray]:
        """Return which indices mean positions in a chunk, and these positions there."""
        starts, sizes = map(np.array, self._span(spans, self.problem.axes))
        positions = find_positions(self.problem, indices, origin) - starts
        (places,) = np.logical_and.reduce(((positions >= 0) & (positions < sizes)).T).nonzero()
        return places, positions[places]

    def gather(self, spans: Spans, data: Any, indices: Any) -> tuple[np.ndarray, np.ndarray] | np.ndarray:
        """Return the rows of a chunk and their places; a block of the result where axes are whole."""
        problem, (data, indices, origin) = self.problem, self._blocks(spans, 0, data, indices)
        if self.is_whole:
            check_indices(problem, indices, origin)
            rest = None, problem.version, None, self.schedule
            return run_gather(problem.operator, data, indices, problem.bounds, *rest)
        grid, (places, positions) = grid_of(problem, indices.shape), self._hits(spans, indices, origin)
        return narrowed(places), take_rows(problem, data, make_tuples(problem, grid, places, positions))

    def merge(self, spans: Spans, parts: Any) -> np.ndarray:
        """Return a block of the result, by the spans of its own labels, of the rows of all chunks."""
        if isinstance(parts[0], np.ndarray):
            return parts[0]
        (_, of_indices, of_result), sizes = self.labels, [place.stop - place.start for place in spans]
        grid = tuple(sizes[of_result.index(label)] for label in of_indices if label in of_result)
        return merge_rows(self.problem, tuple(sizes), grid, *zip(*parts, strict=True))

    def gradient(self, spans: Spans, grad: Any, indices: Any) -> Sums:
        """Return the sums that a block of grad adds to a chunk of the result."""
        grad, indices, origin = self._blocks(spans, 2, grad, indices)
        chunk, hits = self._span(spans, self.labels[0])[1], self._hits(spans, indices, origin)
        rows, keys, size = keyed_rows(self.problem, chunk, grad, grid_of(self.problem, indices.shape), hits)
        return add_rows(rows, keys, size, chunk)

    def finish_gradient(self, parts: list[Sums]) -> np.ndarray:
        """Return a chunk of a gradient of the parts of all blocks of grad."""
        total = add_sums(parts)
        return finish_gradient(self.problem, total.shape, total.of_all_keys())


def _paired(
    task: _Task, work: Any, arrays: Sequence[tuple[Labels, Any]], chunks: dict[int, tuple[int, ...]], rank: int
) -> Any:
    """Return the dask array whose blocks are merged of what each chunk of the table gives for each block of indices.

    Args:
        task, work: the method `work` of the task gives the part of a pair, by the spans of its labels and its blocks.
        arrays: of dask, each behind its labels, which are cut by `chunks`.
        rank: how many labels of `task.order` the result has.
    """
    import dask
    import dask.array as da
    from dask.base import tokenize
    from dask.layers import ArraySliceDep

    name = f"{task.problem.name.replace('_', '-')}-{tokenize(repr(task), *(array for _, array in arrays))}"
    order, dtype = task.order, task.problem.table.dtype
    spans, meta = ArraySliceDep(tuple(chunks[label] for label in order)), np.empty((0,) * rank, dtype)
    options: dict[str, Any] = {"dtype": np.int64, "meta": np.empty((0,) * len(order), np.int64), "align_arrays": False}
    # Layers of other annotations are not fused: a chunk is read once, and not for every block of indices.
    with dask.annotate(gathernest="parts"):  # pyright: ignore[reportPrivateImportUsage]
        pairs = itertools.chain.from_iterable((array, labels) for labels, array in arrays)
        parts = da.blockwise(work, order, spans, order, *pairs, name=f"part-{name}", **options)
        if work == task.gather:
            of_result, options = order[:rank], options | {"concatenate": False, "dtype": dtype, "meta": meta}
            spans = ArraySliceDep(tuple(chunks[label] for label in of_result))
            merge = partial(_of_list, task.merge)
            return da.blockwise(merge, of_result, spans, of_result, parts, order, name=name, **options)
        axes, options = tuple(range(rank, len(order))), {"dtype": np.int64, "meta": meta, "split_every": FAN_IN}
        merge, add = partial(_of_list, task.finish_gradient), partial(_of_list, add_sums)
        return da.reduction(parts, _of_block, merge, axes, combine=add, name=name, concatenate=False, **options)


def _of_block(block: Any, axis: Any, keepdims: bool) -> Any:
    return block


def _of_list(function: Any, *arguments: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the result of a function of a list of parts, the last argument, which dask nests by the axes."""
    *spans, parts = arguments
    parts = parts if isinstance(parts, list) else [parts]
    while isinstance(parts[0], list):
        parts = list(itertools.chain.from_iterable(parts))
    return function(*spans, parts)


def _gather(
    operator: OperatorSpec, data: Any, indices: Any, bounds: Bounds, *, version: str | None, schedule: Any
) -> Any:
    """Return the dask array that gathers when it is computed; one of data and indices at least is dask's."""
    import dask.array as da
    from dask.array.core import unify_chunks

    specs = ArraySpec(tuple(data.shape), np.dtype(data.dtype)), ArraySpec(indices.shape, indices.dtype)
    problem = Problem.checked(operator, *specs, bounds, version=version)
    labels = of_data, of_indices, of_result = label_dimensions(problem)
    if isinstance(data, da.Array):
        data, known = _near(problem, data), isinstance(indices, np.ndarray) and not is_mapped(indices)
        own = ["auto" if label not in of_data else data.chunks[label] for label in of_indices]
        if not isinstance(indices, da.Array):
            own = [own[dim] if label in of_result else -1 for dim, label in enumerate(of_indices)]
            rows = math.prod(
                data.chunksize[label] for label in of_data if label in of_result and label not in of_indices
            )
            cut = _cut(own, indices.shape, problem.table.dtype, rows)
            if known:
                indices = indices.copy()  # its values decide what is read
                check_indices(problem, indices)
            if known and any(data.numblocks[axis] > 1 for axis in problem.axes):
                return _planned(problem, labels, data, indices, cut)
            indices = _as_dask(indices, cut)
    else:
        shared, is_near = dict(zip(of_indices, indices.chunks, strict=True)), isinstance(data, np.ndarray)
        data = _near(problem, data) if is_near else data
        cut = tuple(shared.get(label, size) for label, size in enumerate(data.shape)) if is_near else "auto"
        data = _near(problem, _as_dask(data, cut))
    if set(of_indices) - set(of_result):
        indices = indices.rechunk((*indices.chunks[:-1], -1))  # pyright: ignore[reportArgumentType]
    chunks, (data, indices) = unify_chunks(data, of_data, indices, of_indices)
    is_whole, order = all(len(chunks[axis]) == 1 for axis in problem.axes), (*of_result, *of_data, *of_indices)
    task = _Task(problem, labels, tuple(dict.fromkeys(order)), schedule, is_whole=is_whole)
    return _paired(task, task.gather, [(of_data, data), (of_indices, indices)], chunks, len(of_result))


def _near(problem: Problem, data: Any) -> Any:
    """Return data as far as a gather of elements reads it off the axis."""
    if not isinstance(problem.operator, GatherElements):
        return data
    sizes = enumerate(problem.indices.shape)
    return data[tuple(slice(None if dim in problem.axes else size) for dim, size in sizes)]


def _planned(
    problem: Problem, labels: tuple[Labels, Labels, Labels], data: Any, indices: np.ndarray, cut: Chunks
) -> Any:
    """Return the dask array of a gather by known indices, cut so, whose tasks read no chunk without an index."""
    from dask.array import Array
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    of_data, of_indices, of_result = labels
    chunks = dict(enumerate(data.chunks)) | dict(zip(of_indices, cut, strict=True))
    edges = {label: [0, *itertools.accumulate(sizes)] for label, sizes in chunks.items()}
    name = f"{problem.name.replace('_', '-')}-{tokenize(repr(problem), data.name, indices, cut)}"
    graph, others = dict[Any, Any](), [label for label in of_result if label not in of_indices]
    for place in itertools.product(*(range(len(sizes)) for sizes in cut)):
        at = dict(zip(of_indices, place, strict=True))
        block = indices[(*(slice(*edges[label][number : number + 2]) for label, number in at.items()), ...)]
        grid, found = grid_of(problem, block.shape), _by_chunk(problem, block, [edges[axis] for axis in problem.axes])
        for other in itertools.product(*(range(len(chunks[label])) for label in others)):
            here, tasks, taken_bytes = at | dict(zip(others, other, strict=True)), list[Any](), 0
            key = (name, *(here[label] for label in of_result))
            for numbers, _, tuples in found:
                there = here | dict(zip(problem.axes, numbers, strict=True))
                shape = tuple(chunks[label][there[label]] for label in of_data)
                taken_bytes += math.prod(shape) * problem.table.dtype.itemsize
                tasks.append((partial(_take, problem, shape, tuples), (data.name, *(there[each] for each in of_data))))
            if taken_bytes > IN_MEMORY_RATIO * _chunk_bytes():
                parts = {(f"part-{name}", *key[1:], number): task for number, task in enumerate(tasks)}
                graph.update(parts)
                tasks = [*parts]
            shape, places = tuple(chunks[label][here[label]] for label in of_result), [part[1] for part in found]
            graph[key] = (partial(merge_rows, problem, shape, grid, places), tasks)
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[data])
    meta = np.empty((0,) * len(of_result), problem.table.dtype)
    return Array(layers, name, tuple(chunks[label] for label in of_result), meta=meta)  # pyright: ignore[reportCallIssue]


def _by_chunk(
    problem: Problem, indices: np.ndarray, edges: list[list[int]]
) -> list[tuple[tuple[int, ...], np.ndarray, np.ndarray]]:
    """Return (number on each axis, places, tuples) of each chunk that indices point into."""
    positions, counts = find_positions(problem, indices), [len(ends) - 1 for ends in edges]
    along = [np.searchsorted(ends[1:], part, side="right") for ends, part in zip(edges, positions.T, strict=True)]
    is_there = positions[:, 0] != NOWHERE
    numbers = np.where(is_there, np.ravel_multi_index(along, counts, mode="clip"), -1)
    order = np.argsort(narrowed(numbers + 1), kind="stable")
    found, first = np.unique(numbers[order], return_index=True)
    parts, grid = [], grid_of(problem, indices.shape)
    for number, places in zip(found.tolist(), np.split(order, first[1:]), strict=False):  # none of none
        if number >= 0:
            chunk = tuple(map(int, np.unravel_index(number, counts)))
            own = positions[places] - [ends[which] for ends, which in zip(edges, chunk, strict=True)]
            parts.append((chunk, narrowed(places), make_tuples(problem, grid, places, own)))
    return parts


def _take(problem: Problem, shape: Shape, tuples: np.ndarray, data: Any) -> np.ndarray:
    return take_rows(problem, told(data, "data", shape, problem.table.dtype), tuples)


def _gradient(problem: Problem, grad: Any, indices: Any) -> Any:
    """Return the dask array that is the gradient when it is computed; one of grad and indices at least is dask's."""
    import dask.array as da
    from dask.array.core import unify_chunks

    data_shape = problem.table.shape
    of_table, of_indices, of_grad = labels = label_dimensions(problem)
    if not isinstance(indices, da.Array):
        check_indices(problem, indices)
        sizes = dict(zip(of_grad, grad.chunks, strict=True))
        cut = tuple(sizes.get(label, size) for label, size in zip(of_indices, indices.shape, strict=True))
        indices = _as_dask(indices if is_mapped(indices) else indices.copy(), cut)
    if not isinstance(grad, da.Array):
        sizes = dict(zip(of_indices, indices.chunks, strict=True))
        grad = _as_dask(grad, tuple(sizes.get(label, size) for label, size in zip(of_grad, grad.shape, strict=True)))
    if set(of_indices) - set(of_grad):
        indices = indices.rechunk((*indices.chunks[:-1], -1))  # pyright: ignore[reportArgumentType]
    cut, (grad, indices) = unify_chunks(grad, of_grad, indices, of_indices)
    elements = isinstance(problem.operator, GatherElements)  # what lies beyond indices has no sums
    near = [indices.shape[dim] if elements and dim not in problem.axes else size for dim, size in enumerate(data_shape)]
    wanted = ["auto" if label in problem.axes else cut[label] for label in of_table]
    chunks = cut | dict(enumerate(_cut(wanted, tuple(near), problem.table.dtype)))
    reduced = tuple(dict.fromkeys(label for label in (*of_grad, *of_indices) if label not in of_table))
    task = _Task(problem, labels, (*of_table, *reduced))
    made = _paired(task, task.gradient, [(of_grad, grad), (of_indices, indices)], chunks, len(of_table))
    for dim, size in enumerate(data_shape):
        if near[dim] < size:
            beyond = (*made.shape[:dim], size - near[dim], *made.shape[dim + 1 :])
            cut = (*made.chunks[:dim], -1, *made.chunks[dim + 1 :])
            made = da.concatenate([made, da.zeros(beyond, dtype=made.dtype, chunks=cut)], dim)
    return made


@dataclass(frozen=True, slots=True)
class _BagTask:
    """What the tasks of bags do with a block of indices and the lengths of its bags.

    Attributes:
        problem: a gather of rows, where an index that is not valid means zeros.
        padding: the position of the padding index.
        reduce: of the bags.
    """

    problem: Problem
    padding: int
    reduce: Any

    def _read(self, indices: Any, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which indices of a block have a row, and the number of the bag of each."""
        bags, (_, *bag) = np.repeat(np.arange(lengths.size), lengths.reshape(-1)), self.problem.indices.shape
        shape = (*lengths.shape, bag[-1]) if len(bag) == lengths.ndim else (len(bags),)
        positions = find_positions(self.problem, told(indices, "indices", shape))[:, 0]
        return (positions != NOWHERE) & (positions != self.padding), bags

    def sum(self, rows: np.ndarray, indices: Any, lengths: np.ndarray) -> np.ndarray:
        """Return the reduced bags of a block, of the rows that its indices read."""
        is_read, bags = self._read(indices, lengths)
        rows = rows.reshape(len(bags), *rows.shape[np.ndim(indices) :])
        places = np.where(is_read, np.arange(len(bags)), len(bags))
        result = gather_reduce(rows, places, lengths=lengths.reshape(-1), reduce=self.reduce, bounds="zero")
        return result.reshape(*lengths.shape, *rows.shape[1:])

    def spread(self, grad: Any, indices: Any, lengths: np.ndarray) -> np.ndarray:
        """Return the row that a block of a gradient adds at each index, zero at the padding index."""
        (is_read, bags), shape = self._read(indices, lengths), self.problem.table.shape[1:]
        grad = told(grad, "grad", (*lengths.shape, *shape), self.problem.table.dtype).reshape(lengths.size, *shape)
        if self.reduce == "mean":
            counts = np.bincount(bags[is_read], minlength=lengths.size)
            grad = divided(grad, np.maximum(counts, 1).reshape(-1, *[1] * len(shape)))
        rows = grad[bags]
        rows[~is_read] = 0
        return rows.reshape(*np.shape(indices), *shape)


def _reduce(
    source: Any, indices: Any, lengths: np.ndarray | None, reduce: str, padding_index: int | None, bounds: Bounds,
    data_shape: Shape | None,
) -> Any:  # fmt: skip
    """Return the dask array of the reduced bags when it is computed, or of their gradient.

    One task gathers and reduces the rows of a block of whole bags. A gradient is the gradient of a gather of a row for
    each index.

    Args:
        source: data, or grad where `data_shape` is given; it or indices are dask's, the other may be in memory.
        lengths: of the bags; None where each row of indices is a bag.
    """
    import dask.array as da

    if lengths is None and indices.ndim == 1:  # one bag
        source = source[np.newaxis] if data_shape else source
        made = _reduce(source, indices, np.array([indices.size]), reduce, padding_index, bounds, data_shape)
        return made if data_shape else made[0]
    is_even, shape, dtype = lengths is None, data_shape or tuple(source.shape), source.dtype.newbyteorder("=")
    specs = ArraySpec(shape, dtype), ArraySpec(tuple(indices.shape), np.dtype(indices.dtype))
    problem = Problem.checked(Gather(), *specs, Bounds.ZERO if bounds is Bounds.ERROR else bounds)
    task = _BagTask(problem, NOWHERE if padding_index is None else padding_position(padding_index, shape[0]), reduce)
    lengths = np.full(indices.shape[:-1], indices.shape[-1]) if lengths is None else lengths
    items = math.prod(shape[1:]) * max(int(lengths.sum()) // max(lengths.size, 1), 1)
    cut = _cut(["auto", *lengths.shape[1:]], lengths.shape, dtype, items)[0]
    cut_by: Any = source if data_shape and is_lazy(source) else indices if is_even else None
    own = cut_by.chunks[0] if is_lazy(cut_by) else ()
    cut = own if own and max(own) <= max(cut) else cut
    of_bags, of_indices = tuple(range(lengths.ndim)), tuple(range(indices.ndim))
    edges = np.cumsum([0, *cut] if is_even else [0, *lengths])[... if is_even else np.cumsum([0, *cut])]
    wanted = (tuple(np.diff(edges).tolist()), *indices.shape[1:])
    known = indices if is_lazy(indices) else indices.copy()
    if not is_lazy(indices):
        check_indices(Problem.checked(Gather(), *specs, bounds), known)
    indices = indices.rechunk(wanted) if is_lazy(indices) else _as_dask(known, wanted)
    of_rest = tuple(range(len(of_indices), len(of_indices) + len(shape) - 1))
    pairs = (indices, of_indices, _as_dask(lengths, (cut, *lengths.shape[1:])), of_bags)
    options: dict[str, Any] = {"concatenate": True, "dtype": dtype, "align_arrays": False}
    if data_shape is None:
        rows = _gather(Gather(), source, known, bounds, version=None, schedule=None)
        rows = rows.rechunk((*indices.chunks, *rows.chunks[len(of_indices) :]))
        options |= {"meta": np.empty((0,) * (len(of_bags) + len(of_rest)), dtype), "adjust_chunks": {0: cut}}
        made = da.blockwise(task.sum, (*of_bags, *of_rest), rows, (*of_indices, *of_rest), *pairs, **options)
        return made.astype(source.dtype)
    source = source if is_lazy(source) else _as_dask(source, -1)
    grad = source.rechunk((cut, *lengths.shape[1:], *shape[1:])).astype(dtype)
    options |= {"meta": np.empty((0,) * (len(of_indices) + len(of_rest)), dtype), "adjust_chunks": {0: wanted[0]}}
    rows = da.blockwise(task.spread, (*of_indices, *of_rest), grad, (*of_bags, *of_rest), *pairs, **options)
    whole = gradient_problem(Gather(), rows, indices, shape, bounds, Gradient(), None)
    return _gradient(whole, rows, known).astype(source.dtype)
