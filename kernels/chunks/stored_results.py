"""Results that go to an array in a file or a store (h5py, zarr), block by block along its chunks.

No more of the result is in memory than a block, or of dask's arrays than a block a worker.
"""

import itertools
from typing import Any

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.errors import InvalidGatherError
from ...ir.semantics import Shape
from ..runtime.array_checks import is_stored_array, reject_closed
from .aliases import check_not_read

# Of a block of the result; more where a chunk has more.
BLOCK_BYTES = 1 << 26


def delivered(lazy: Any, out: Any) -> Any:
    """Return a dask array, or where `out` is given what `store` returns."""
    return lazy if out is None else store(lazy, out)


def store(lazy: Any, out: Any) -> Any:
    """Compute a dask array into a stored array, each block by the worker that has it, and return the stored array.

    Blocks are cut so that no two of them write to one chunk of a zarr array; those of h5py take turns.

    Raises:
        InvalidGatherError: shape or dtype are others, the dask array reads from it, it may not be written to, or not by
            the workers of the scheduler.
    """
    from dask.array import store as dask_store

    check_stored_out(out, lazy.shape, lazy.dtype)
    check_not_read(lazy, out)
    is_in_file = hasattr(out, "file")
    if not is_in_file:
        lazy = lazy.rechunk(tuple(map(aligned, lazy.chunks, chunk_shape(out))))
    try:
        dask_store(lazy, out, lock=is_in_file)  # pyright: ignore[reportArgumentType]
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
    if not is_stored_array(out):
        raise InvalidGatherError(
            "out cannot be in memory with dask arrays, whose result is computed later; leave it out, pass a zarr.Array "
            "or an h5py.Dataset, or write the result with dask.array.store"
        )
    reject_closed(out, "out")
    kind = "h5py.Dataset" if hasattr(out, "file") else "zarr.Array"
    if out.shape is None or tuple(out.shape) != shape:
        raise InvalidGatherError(f"out is a {kind} and must have shape {shape}, got {out.shape}")
    if out.dtype != dtype:
        raise InvalidGatherError(f"out is a {kind} and must have dtype {dtype}, as the result has, got {out.dtype}")
    if getattr(out, "read_only", False) or (hasattr(out, "file") and out.file.mode == "r"):
        raise InvalidGatherError(f"out is a {kind} that may not be written to; open it with mode 'r+'")


def write_chunks(out: Any, result: ArraySpec) -> Shape:
    """Return what `chunk_shape` does; raises InvalidGatherError where a stored array cannot take the result."""
    check_stored_out(out, result.shape, result.dtype)
    return chunk_shape(out)


def chunk_shape(stored: Any) -> Shape:
    """Return the shape of what a stored array reads or writes in one go: a shard or a chunk; 1 where there are none."""
    return getattr(stored, "shards", None) or stored.chunks or (1,) * len(stored.shape)


def block_chunks(out: Any) -> list[tuple[int, ...]]:
    """Return the chunks of a stored array put together to blocks of at most `BLOCK_BYTES`, by dimension."""
    shape, steps = tuple(out.shape), chunk_shape(out)
    sizes, most = list(steps), max(BLOCK_BYTES // max(out.dtype.itemsize, 1), 1)
    for dim in reversed(range(len(shape))):
        others = max(int(np.prod(sizes[:dim] + sizes[dim + 1 :], dtype=np.int64)), 1)
        sizes[dim] = max(most // others // steps[dim], 1) * steps[dim]
    return [
        tuple(min(size, end - start) for start in range(0, end, size)) or (0,)
        for size, end in zip(sizes, shape, strict=True)
    ]


def aligned(chunks: tuple[int, ...], step: int) -> tuple[int, ...]:
    """Return chunks about as large that end where chunks of the size `step` do."""
    total = sum(chunks)
    ends = sorted({min(-(-end // step) * step, total) for end in itertools.accumulate(chunks)})
    return tuple(end - start for start, end in itertools.pairwise([0, *(end for end in ends if end)])) or (0,)
