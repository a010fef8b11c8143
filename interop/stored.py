"""Arrays in files and stores (h5py, zarr): read by the rows that indices need, and written block by block.

The rows of data along the first indexed axis that some index points to are read in order, each once: those of a chunk,
or those that lie close to each other, in one go. The gather then runs on these rows with renumbered indices. Of `grad`
blocks of rows are read, each added to the sums. A result is written by blocks of whole chunks, so that no more of it
is in memory than a block, or of dask's arrays than a block a worker.
"""

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..ir.array_spec import ArraySpec
from ..ir.errors import InvalidGatherError
from ..ir.operator_spec import GatherElements, GatherReduce, OperatorSpec
from ..ir.positions import NOWHERE
from ..ir.problem import Problem
from ..ir.semantics import Bounds, Shape
from ..kernels.reduction.bags import padding_position
from ..kernels.reduction.gather_reduce import gather_reduce
from ..kernels.runtime.array_checks import check_out, data_array, summation_dtype
from ..kernels.runtime.dispatch import run_gather
from .arrays import check_open, is_stored
from .parts import (
    Labels,
    add_onto,
    check_indices,
    find_positions,
    finish_gradient,
    grid_of,
    keyed_rows,
    label_dimensions,
)

# Rows with less between them are read in one go: a read costs some 50 us, in which a file in memory gives so much.
CLOSE_BYTES = 1 << 16
# Of what is read in one go beside the rows, and of `grad` at a time; more where a chunk has more.
READ_BYTES = 1 << 24
# Of a block of a result that is written; more where a chunk has more.
BLOCK_BYTES = 1 << 26


def gather(
    operator: OperatorSpec, data: Any, indices: np.ndarray, bounds: Bounds, out: np.ndarray | None = None,
    *, version: str | None, schedule: Any, place: Sequence[slice] = (),
) -> np.ndarray:  # fmt: skip
    """Gather from a stored array, or from its part at a place; see `gather.gather` for the arguments.

    Raises:
        BoundsError: an index is not valid; nothing was read.
        InvalidGatherError: the attributes or `out` do not fit the shapes.
    """
    spans = [part.indices(size)[:2] for part, size in zip(place or [slice(None)] * data.ndim, data.shape, strict=True)]
    table = ArraySpec(tuple(end - start for start, end in spans), np.dtype(data.dtype))
    problem = Problem.checked(operator, table, ArraySpec.of(indices), bounds, version=version)
    check_out(out, problem.result.shape, problem.table.dtype)
    spec, (first, *axes) = problem.operator, problem.axes
    positions = find_positions(problem, indices)
    is_used = positions[:, 0] != NOWHERE
    shape = indices.shape if isinstance(spec, GatherElements) else table.shape
    parts: list[Any] = [slice(start, start + size) for (start, _), size in zip(spans, shape, strict=True)]
    for number, axis in enumerate(axes, 1):
        along = positions[is_used, number]
        low, high = (int(along.min()), int(along.max()) + 1) if along.size else (0, 0)
        parts[axis] = slice(low, high)
        positions[:, number] -= low
    parts[first], positions[:, 0] = _renumbered(positions[:, 0])
    rows = read(data, parts, first)
    return run_gather(spec, rows, positions.reshape(indices.shape), Bounds.ZERO, out, schedule=schedule)


def _renumbered(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions that are used, ascending, and the place of each among them; behind all of them of none."""
    used = np.unique(positions[positions != NOWHERE])
    return used, np.where(positions == NOWHERE, len(used), np.searchsorted(used, positions))


def read(data: Any, parts: list[Any], axis: int) -> np.ndarray:
    """Return the part of a stored array that has these slices, and on `axis` the ascending rows at `parts[axis]`."""
    used = parts[axis]
    sizes = [len(used) if dim == axis else len(range(*part.indices(data.shape[dim]))) for dim, part in enumerate(parts)]
    if 0 in sizes:
        return np.empty(sizes, data.dtype)
    if hasattr(data, "oindex"):
        return np.asarray(data.oindex[tuple(parts)])
    rows = np.empty(sizes, data.dtype)
    row_bytes = max(math.prod(sizes[axis + 1 :]) * data.dtype.itemsize, 1)
    read_bytes = max(math.prod(sizes) // len(used) * data.dtype.itemsize, 1)
    is_filtered = data.chunks and data.id.get_create_plist().get_nfilters()  # then chunks are read whole
    chunk = data.chunks[axis] if is_filtered else 1
    chunks = used // chunk
    apart = np.diff(chunks) > max(CLOSE_BYTES // row_bytes // chunk, 1)
    apart |= np.diff(chunks // max(READ_BYTES // read_bytes // chunk, 1)) > 0
    place = [slice(None)] * len(parts)
    for start, end in itertools.pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), len(used)]):
        first, last = int(used[start]), int(used[end - 1])
        piece = data[(*parts[:axis], slice(first, last + 1), *parts[axis + 1 :])]
        place[axis] = slice(start, end)
        is_whole = end - start == last + 1 - first
        rows[tuple(place)] = piece if is_whole else np.take(piece, used[start:end] - first, axis)
    return rows


def gather_into(
    operator: OperatorSpec, data: Any, indices: np.ndarray, bounds: Bounds, out: Any,
    *, version: str | None, schedule: Any,
) -> Any:  # fmt: skip
    """Gather from data in memory or in a file into a stored array, and return it; see `gather.gather`.

    Raises:
        BoundsError: an index is not valid; nothing was written.
        InvalidGatherError: the attributes or `out` do not fit the shapes, or it is data or may not be written to.
    """
    specs = ArraySpec(tuple(data.shape), np.dtype(data.dtype)), ArraySpec.of(indices)
    problem = Problem.checked(operator, *specs, bounds, version=version)
    check_stored_out(out, problem.slices.shape, problem.table.dtype)
    if is_stored(data):
        check_apart(data, out, "data itself")
    check_indices(problem, indices)
    of_data, of_indices, of_result = label_dimensions(problem)
    steps, rest = _block_shape(out), {"version": version, "schedule": schedule}
    for starts in itertools.product(
        *(range(0, max(size, 1), step) for size, step in zip(out.shape, steps, strict=True))
    ):
        place = {label: slice(at, at + step) for label, at, step in zip(of_result, starts, steps, strict=True)}
        parts, block = _part(of_data, place), indices[(*_part(of_indices, place), ...)]
        if is_stored(data):
            rows = gather(problem.operator, data, block, bounds, place=parts, **rest)
        else:
            rows = run_gather(problem.operator, data[parts], block, bounds, **rest)
        out[_part(of_result, place)] = rows
    return out


def _part(labels: Labels, place: dict[int, slice]) -> tuple[slice, ...]:
    """Return the part of an array whose dimensions with some labels are cut at a place."""
    return tuple(place.get(label, slice(None)) for label in labels)


def reduce(data: Any, indices: np.ndarray, ends: Any, out: Any, **options: Any) -> np.ndarray:
    """Return the result of `gather_reduce`; each row that indices need is read once."""
    size, bounds, padding = data.shape[0], options.pop("bounds"), options.pop("padding_index")
    problem = Problem.checked(
        GatherReduce(), ArraySpec(tuple(data.shape), np.dtype(data.dtype)), ArraySpec.of(indices), bounds
    )
    positions = find_positions(problem, indices)[:, 0]
    if padding is not None:
        positions[positions == padding_position(padding, size)] = NOWHERE
    used, places = _renumbered(positions)
    rows = read(data, [used, *(slice(0, size) for size in data.shape[1:])], 0)
    for name in ("scale", "bias"):
        if options[name] is not None:
            options[name] = data_array(options[name], name)
            if options[name].shape == (size,):  # the call below says what is wrong with others
                options[name] = options[name][used]
    lengths = None if ends is None else ends[1]
    return gather_reduce(rows, places.reshape(indices.shape), lengths=lengths, bounds="zero", out=out, **options)


def gradient(problem: Problem, grad: Any, indices: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """Return the gradient by a stored `grad`, with the bytes that one in memory gives; see `gradient.gather_grad`.

    The result is in memory, and beside it a copy of the sums of narrow floats.

    Raises:
        BoundsError: an index is not valid; nothing was read.
        InvalidGatherError: `out` does not fit.
    """
    data_shape = problem.table.shape
    check_out(out, data_shape, problem.table.dtype)
    check_indices(problem, indices)
    of_table, of_indices, of_grad = label_dimensions(problem)
    total, shape = None, tuple(grad.shape)
    cut = [dim for dim, label in enumerate(of_grad) if label in of_indices and label not in of_table][:1]
    size, chunk = (shape[cut[0]], chunk_shape(grad)[cut[0]]) if cut else (1, 1)
    row_bytes = max(math.prod(shape) // max(size, 1) * grad.dtype.itemsize, 1)
    step = max(READ_BYTES // row_bytes // chunk, 1) * chunk
    for start in range(0, size, step):
        place = {of_grad[dim]: slice(start, start + step) for dim in cut}
        rows, block = grad[(*_part(of_grad, place), ...)], indices[(*_part(of_indices, place), ...)]
        positions = find_positions(problem, block)
        (places,) = (positions[:, 0] != NOWHERE).nonzero()
        hits = places, positions[places]
        rows, keys, size = keyed_rows(problem, data_shape, np.asarray(rows), grid_of(problem, block.shape), hits)
        if total is None:
            total = np.zeros((size, *rows.shape[1:]), rows.dtype)
        add_onto(total, rows, keys)
    if total is None:
        total = np.zeros(math.prod(data_shape), summation_dtype(grad.dtype) or grad.dtype)
    result = finish_gradient(problem, data_shape, total)
    if out is None:
        return result
    out[...] = result
    return out


def delivered(lazy: Any, out: Any) -> Any:
    """Return a dask array; where `out` is given compute into it, each block by the worker that has it, and return it.

    Blocks are cut so that no two of them write to one chunk of a zarr array; those of h5py take turns.

    Raises:
        InvalidGatherError: `out` is in memory, of other shape or dtype, an array that dask reads from, or may not be
            written to, or not by the workers of the scheduler.
    """
    if out is None:
        return lazy
    from dask.array import store

    check_stored_out(out, lazy.shape, lazy.dtype)
    for source in _named_in(list(lazy.__dask_graph__().values())):
        check_apart(source, out, "what dask reads from")
    is_in_file = hasattr(out, "file")
    if not is_in_file:
        lazy = lazy.rechunk(tuple(map(_aligned, lazy.chunks, chunk_shape(out))))
    try:
        store(lazy, out, lock=is_in_file)  # pyright: ignore[reportArgumentType]
    except (TypeError, OSError, KeyError) as error:
        if not is_in_file:
            raise
        raise InvalidGatherError(
            f"out is an h5py.Dataset, and a file that this process has open cannot be written by other processes "
            f"({type(error).__name__}); compute on threads, with dask.config.set(scheduler='threads'), or pass a "
            "zarr.Array"
        ) from error
    return out


def check_stored_out(out: Any, shape: Shape, dtype: np.dtype) -> None:
    """Check that a stored array can take the result; raises InvalidGatherError, also for one that is not stored."""
    if not is_stored(out):
        raise InvalidGatherError(
            "out cannot be in memory with dask arrays, whose result is computed later; leave it out, pass a zarr.Array "
            "or an h5py.Dataset, or write the result with dask.array.store"
        )
    check_open(out, "out")
    kind = "h5py.Dataset" if hasattr(out, "file") else "zarr.Array"
    if out.shape is None or tuple(out.shape) != shape:
        raise InvalidGatherError(f"out is a {kind} and must have shape {shape}, got {out.shape}")
    if out.dtype != dtype:
        raise InvalidGatherError(f"out is a {kind} and must have dtype {dtype}, as the result has, got {out.dtype}")
    if getattr(out, "read_only", False) or (hasattr(out, "file") and out.file.mode == "r"):
        raise InvalidGatherError(f"out is a {kind} that may not be written to; open it with mode 'r+'")


def chunk_shape(stored: Any) -> Shape:
    """Return the shape of what a stored array reads or writes in one go: a shard or a chunk; 1 where there are none."""
    return getattr(stored, "shards", None) or stored.chunks or (1,) * len(stored.shape)


def _block_shape(out: Any) -> list[int]:
    """Return the shape of whole chunks of a stored array put together to a block of at most `BLOCK_BYTES`."""
    sizes, most = list(chunk_shape(out)), max(BLOCK_BYTES // max(out.dtype.itemsize, 1), 1)
    for dim, size in reversed(list(enumerate(sizes))):
        others = max(math.prod(sizes[:dim] + sizes[dim + 1 :]), 1)
        sizes[dim] = min(max(most // others // size, 1) * size, max(out.shape[dim], 1))
    return sizes


def _aligned(chunks: tuple[int, ...], step: int) -> tuple[int, ...]:
    """Return chunks about as large that end where chunks of the size `step` do."""
    total = sum(chunks)
    ends = sorted({min(-(-end // step) * step, total) for end in itertools.accumulate(chunks)} - {0})
    return tuple(end - start for start, end in itertools.pairwise([0, *ends])) or (0,)


def check_apart(source: Any, out: Any, what: str) -> None:
    """Check that two stored arrays are not one, also where each was opened by itself; raises InvalidGatherError."""
    if type(source) is not type(out):
        return
    if hasattr(out, "file"):
        written = list(_datasets(out))
        is_one = any(read == dataset for read in _datasets(source) for dataset in written)
    else:
        is_one = _address(source) == _address(out)
    if is_one:
        raise InvalidGatherError(
            f"out is {what}, whose slices would be read after others were written; pass another array of the file"
        )


def _named_in(parts: list[Any]) -> Iterator[Any]:
    """Return the stored arrays that tasks of dask name as their arguments."""
    while parts:
        part = parts.pop()
        if is_stored(part):
            yield part
        elif isinstance(part, tuple | list):
            parts += part
        elif isinstance(part, dict):
            parts += part.values()
        else:  # what a node of dask's task specification has
            parts += [
                vars_
                for name in ("value", "func", "args", "kwargs", "keywords")
                if (vars_ := getattr(part, name, None)) is not None
            ]


def _address(array: Any) -> str:
    """Return the file, folder or address of a zarr array, and its name there."""
    store = array.store
    while hasattr(store, "_store"):  # a wrapper's
        store = store._store
    if hasattr(store, "fs"):
        files, path = getattr(store.fs, "sync_fs", store.fs), store.path
        if files.protocol == "dir":
            files, path = files.fs, os.path.join(files.path, path)
        address = files.unstrip_protocol(path)
    elif type(store).__name__ in ("LocalStore", "DirectoryStore"):
        address = f"file://{getattr(store, 'root', None) or store.path}"
    else:
        address = str(store)
    if address.startswith("file://"):
        address = os.path.realpath(address.removeprefix("file://"))
    return os.path.join(address, array.path).rstrip("/")


def _datasets(dataset: Any) -> Iterator[Any]:
    """Return a dataset of HDF5, and those whose elements a virtual one has."""
    yield dataset
    for source in dataset.virtual_sources() if dataset.is_virtual else ():
        with suppress(OSError, KeyError):  # of a source that is missing, a virtual dataset has the fill value
            file = dataset.file
            if source.file_name != ".":
                file = type(file)(os.path.join(os.path.dirname(file.filename), source.file_name), "r")
            yield from _datasets(file[source.dset_name])
