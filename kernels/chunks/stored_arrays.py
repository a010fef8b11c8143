"""Gathers from arrays that lie in a file or a store (h5py, zarr): only the rows that the indices need are read.

The rows of data along the first indexed axis that some index points to are read in order, each once: those of a chunk,
or those that lie close to each other, in one go. The gather then runs on these rows with renumbered indices.
"""

import itertools
import math
from typing import Any

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.operator_spec import GatherElements, GatherNd, OperatorSpec
from ...ir.positions import NOWHERE, reject_negative, resolve
from ...ir.problem import Problem
from ...ir.semantics import NO_NEGATIVE_INDICES, Bounds
from ...lowering.registry import Pipeline
from ...lowering.schedule.schedule import Schedule
from ..runtime.array_checks import check_out
from ..runtime.dispatch import run_gather
from ..runtime.prepare import bounds_error

# Rows with less between them are read in one go: a read costs some 50 us, in which a file in memory gives so much.
_CLOSE_BYTES = 1 << 16
# Of what is read in one go; it lies in memory beside the rows.
_MOST_BYTES = 1 << 24


class StoredPart:
    """A part of a stored array, which is read as the whole is."""

    def __init__(self, whole: Any, place: tuple[slice, ...]):
        self.whole, self._starts = whole, [part.start for part in place]
        self.shape = tuple(part.stop - part.start for part in place)
        self.dtype, self.chunks = whole.dtype, whole.chunks

    def __getitem__(self, parts: tuple[Any, ...]) -> np.ndarray:
        """Return what lies at slices, and at most one array of positions."""
        moved = tuple(
            slice(part.start + start, part.stop + start) if isinstance(part, slice) else part + start
            for part, start in zip(parts, self._starts, strict=True)
        )
        return np.asarray(self.whole.oindex[moved] if hasattr(self.whole, "oindex") else self.whole[moved])


def gather_stored(
    operator: OperatorSpec,
    data: Any,
    indices: Any,
    bounds: Bounds,
    out: np.ndarray | None,
    *,
    version: str | None,
    schedule: Schedule | Pipeline | None,
) -> np.ndarray:
    """Gather from a stored array; see `gather.gather` for the arguments.

    Args:
        data: an h5py.Dataset or a zarr.Array, or a part of one.
        indices: an ndarray of a native integer dtype.

    Raises:
        BoundsError: an index is not valid; nothing was read.
        InvalidGatherError: the attributes or `out` do not fit the shapes, or data is no array.
    """
    specs = ArraySpec(tuple(data.shape), np.dtype(data.dtype)), ArraySpec.of(indices)
    problem = Problem.checked(operator, *specs, bounds, version=version)
    check_out(out, problem.result.shape, problem.table.dtype)
    if version in NO_NEGATIVE_INDICES:
        reject_negative(indices, str(version))
    spec, axes = problem.operator, problem.axes
    components = np.moveaxis(indices, -1, 0) if isinstance(spec, GatherNd) else indices[np.newaxis]
    positions = [resolve(part, size, bounds) for part, size in zip(components, problem.axis_sizes, strict=True)]
    nowhere = np.asarray(np.logical_or.reduce([part == NOWHERE for part in positions]))
    if bounds is not Bounds.ZERO and nowhere.any():
        raise bounds_error(problem, indices)
    parts: list[Any] = [slice(0, size) for size in data.shape]
    if isinstance(spec, GatherElements):
        parts = [slice(0, size) for size in indices.shape]
    is_used = ~nowhere
    for place, axis in enumerate(axes[1:], 1):
        along = positions[place][is_used]
        low, high = (int(along.min()), int(along.max())) if along.size else (0, 0)
        parts[axis] = slice(low, high + 1)
        positions[place] = positions[place] - low
    used = np.unique(positions[0][is_used])
    parts[axes[0]] = used
    rows = _read(data, parts, axes[0])
    positions[0] = np.where(nowhere, len(used), np.searchsorted(used, positions[0]))  # outside of them are zeros
    renumbered = np.stack(positions, -1) if isinstance(spec, GatherNd) else positions[0]
    return run_gather(spec, rows, renumbered, Bounds.ZERO, out, schedule=schedule)


def read_rows(data: Any, rows: np.ndarray) -> np.ndarray:
    """Return the rows of a stored array at positions (rows), which ascend."""
    return _read(data, [rows, *(slice(0, size) for size in data.shape[1:])], 0)


def _read(data: Any, parts: list[Any], axis: int) -> np.ndarray:
    """Return the part of a stored array that has these slices, and on `axis` the sorted rows at `parts[axis]`."""
    used = parts[axis]
    sizes = [len(used) if dim == axis else len(range(*part.indices(data.shape[dim]))) for dim, part in enumerate(parts)]
    if 0 in sizes:
        return np.empty(sizes, data.dtype)
    if hasattr(data, "oindex"):
        return np.asarray(data.oindex[tuple(parts)])
    if hasattr(getattr(data, "whole", None), "oindex"):
        return data[tuple(parts)]
    rows = np.empty(sizes, data.dtype)
    row_bytes = max(math.prod(sizes[axis + 1 :]) * data.dtype.itemsize, 1)
    read_bytes = max(math.prod(sizes) // len(used) * data.dtype.itemsize, 1)
    chunk = data.chunks[axis] if data.chunks else 1
    close = max(_CLOSE_BYTES // row_bytes // chunk, 1)
    most = max(_MOST_BYTES // read_bytes // chunk, 1)
    chunks = used // chunk
    apart = (np.diff(chunks) > close) | (np.diff(chunks // most) > 0)
    starts = [0, *(np.flatnonzero(apart) + 1).tolist(), len(used)]
    place = [slice(None)] * len(parts)
    for start, end in itertools.pairwise(starts):
        first, last = int(used[start]), int(used[end - 1])
        piece = data[(*parts[:axis], slice(first, last + 1), *parts[axis + 1 :])]
        place[axis] = slice(start, end)
        is_whole = end - start == last + 1 - first
        rows[tuple(place)] = piece if is_whole else np.take(piece, used[start:end] - first, axis)
    return rows
