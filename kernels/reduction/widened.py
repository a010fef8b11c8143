"""Reductions whose kernels give another dtype than data's: of narrow floats, and of slices with weights."""

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.element_types import number_width
from ...ir.errors import InvalidGatherError
from ...ir.operator_spec import GatherReduce, GatherWeighted
from ...ir.problem import Problem
from ...ir.semantics import Bounds
from ...lowering.stage_files import last_changes
from ..gather import run_operator
from ..host.knobs import knobs
from ..host.runtime import RUNTIME
from ..runtime.array_checks import lies_evenly
from ..runtime.call_cache import MOST_REMEMBERED
from ..runtime.prepare import Prepared, prepare_problem


def run_reduction(operator: GatherReduce, data: np.ndarray, places: np.ndarray, bounds: Bounds) -> np.ndarray:
    """Carry out a reduction, and return its sums in the dtype that `operator.result_dtype` gives.

    Args:
        data: (rows, inner...).
        places: (bags..., bag) indices; of a gather_weighted (bags..., bag, 2), as `with_weights` makes them.

    Raises:
        BoundsError: an index is not valid under `bounds`.
    """
    dtype = operator.result_dtype(data.dtype)
    if dtype == data.dtype and not isinstance(operator, GatherWeighted):
        return run_operator(operator, data, places, bounds, None)
    if not lies_evenly(data.shape, data.strides, number_width(data.dtype)):
        data = np.ascontiguousarray(data)
    prepared = _prepared(operator, data, places, bounds)
    result = prepared.result(dtype)
    prepared.run(data, places, result)
    return result


def _prepared(operator: GatherReduce, data: np.ndarray, places: np.ndarray, bounds: Bounds) -> Prepared:
    """Return the prepared kernel of a reduction, cached by everything that decides it."""
    settings = knobs.settings()
    changes = None if settings.override_dir is None else last_changes(settings.override_dir)
    arrays = data.shape, data.strides, data.dtype, places.shape, places.strides, places.dtype
    like = operator, bounds, settings, changes, *arrays
    found = RUNTIME.prepared.get(like)
    if found is None:
        problem = Problem.checked(operator, ArraySpec.of(data), ArraySpec.of(places), bounds)
        with knobs.scope(**settings._asdict()):  # another thread may change them meanwhile
            found = RUNTIME.make(lambda: prepare_problem(problem))
        if len(RUNTIME.prepared) >= MOST_REMEMBERED:
            RUNTIME.prepared.clear()
        RUNTIME.prepared[like] = found
    return found


def rounded(sums: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return sums in a dtype that is theirs or narrower, rounded to the nearest even."""
    if (sums.dtype, dtype) != (np.float32, np.float16) or not sums.flags.c_contiguous:
        return sums.astype(dtype, copy=False)
    from ...lowering.native.round_halves import rounding

    run = rounding()
    if run is None:
        return sums.astype(dtype)
    halves = np.empty(sums.shape, dtype)
    run(sums.ctypes.data, halves.ctypes.data, sums.size)
    return halves


def with_weights(positions: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Return (..., 2): each position and the bits of its weight, as a gather_weighted reads them; 3 with biases.

    Args:
        positions: (...) in [0, size], where `size` adds nothing.
        weights: (...) float32 or float64; with biases (2, ...).
        size: of the first axis of data.

    Raises:
        InvalidGatherError: positions do not fit beside weights of 32 bits.
    """
    dtype = np.dtype(f"i{weights.itemsize}")
    if size > np.iinfo(dtype).max:
        raise InvalidGatherError(
            f"weights of float32 are for data of at most {np.iinfo(dtype).max} rows, got {size}; "
            "convert data to float64"
        )
    columns = [positions, *weights.view(dtype)] if weights.ndim > positions.ndim else [positions, weights.view(dtype)]
    places = np.empty((*positions.shape, len(columns)), dtype)
    for number, column in enumerate(columns):
        places[..., number] = column
    return places
