"""Gathers whose result goes to an array in a file or a store, block by block along its chunks."""

from typing import Any

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.operator_spec import OperatorSpec
from ...ir.positions import first_outside, reject_negative
from ...ir.problem import Problem
from ...ir.semantics import NO_NEGATIVE_INDICES, Bounds
from ...lowering.registry import Pipeline
from ...lowering.schedule.schedule import Schedule
from ..runtime.array_checks import is_dask_array, is_stored_array
from ..runtime.dispatch import run_gather
from ..runtime.prepare import bounds_error
from .aliases import check_apart
from .blocks import Grid, label_dimensions
from .dask_arrays import gather_dask
from .stored_arrays import StoredPart, gather_stored
from .stored_results import block_chunks, check_stored_out


def gather_into(
    operator: OperatorSpec,
    data: Any,
    indices: Any,
    bounds: Bounds,
    out: Any,
    *,
    version: str | None,
    schedule: Schedule | Pipeline | None,
) -> Any:
    """Gather into a stored array, and return it; see `gather.gather` for the arguments.

    Args:
        data, indices: in memory, of dask, or data stored.
        out: an h5py.Dataset or a zarr.Array.

    Raises:
        BoundsError: an index is not valid; nothing was written. Of dask's indices, other blocks may have been.
        InvalidGatherError: the attributes or `out` do not fit the shapes, or it is data or may not be written to.
    """
    rest = {"version": version, "schedule": schedule}
    specs = ArraySpec(tuple(data.shape), np.dtype(data.dtype)), ArraySpec(indices.shape, indices.dtype)
    if is_dask_array(data) or is_dask_array(indices):
        if isinstance(indices, np.ndarray):
            check_indices(Problem.checked(operator, *specs, bounds, version=version), indices)
        return gather_dask(operator, data, indices, bounds, out, **rest)
    problem = Problem.checked(operator, *specs, bounds, version=version)
    check_stored_out(out, problem.slices.shape, problem.table.dtype)
    if is_stored_array(data):
        check_apart(data, out)
    check_indices(problem, indices)
    of_data, of_indices, of_result = label_dimensions(problem)
    whole = dict(zip((*of_data, *of_indices), ((size,) for size in (*data.shape, *indices.shape)), strict=True))
    grid = Grid(whole | dict(zip(of_result, block_chunks(out), strict=True)))
    for place in grid.places(of_result):
        block = grid.block(indices, of_indices, place)
        if is_stored_array(data):
            part = StoredPart(data, grid.slices(of_data, place))
            found = gather_stored(problem.operator, part, block, bounds, None, **rest)
        else:
            found = run_gather(
                problem.operator, grid.block(data, of_data, place), block, bounds, version=version, schedule=schedule
            )
        out[grid.slices(of_result, place)] = found
    return out


def check_indices(problem: Problem, indices: np.ndarray) -> None:
    """Check all indices before anything is written; raises BoundsError."""
    if problem.version in NO_NEGATIVE_INDICES:
        reject_negative(indices, str(problem.version))
    sizes, bounds = problem.axis_sizes, problem.bounds
    is_empty = 0 in sizes and bounds is not Bounds.ZERO and indices.size > 0
    if is_empty or (bounds is Bounds.ERROR and first_outside(indices, sizes) is not None):
        raise bounds_error(problem, indices)
