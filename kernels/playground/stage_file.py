"""The arrays that a command line or the comment of a stage names: from a file, as values, or filled at random."""

import json
from pathlib import Path

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.errors import GathernestError, InvalidGatherError
from ...ir.operator_spec import GatherWeighted
from ...ir.problem import Problem
from ...ir.semantics import Bounds
from ..tuning.sample_arrays import fill_weights, strided_array

FORMS = "sizes and element type (5x4xf32), values ([[1,2],[3,4]]xi64), or a file.npy"


def read_array(text: str) -> np.ndarray | ArraySpec:
    """Return the array that a text gives, or the spec of one to fill.

    Raises:
        InvalidGatherError: the text is none of the three forms, or the file cannot be read.
    """
    try:
        if text.endswith(".npy"):
            return np.load(Path(text), allow_pickle=False)
        if text.startswith("["):
            values, _, kind = text.rpartition("]")
            return np.asarray(json.loads(f"{values}]"), ArraySpec.parse(f"1{kind}").dtype if kind else None)
        return ArraySpec.parse(text)
    except (GathernestError, ValueError, OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidGatherError(f"{text}: {reason}; give {FORMS}") from None


def filled(array: np.ndarray | ArraySpec, rng: np.random.Generator, problem: Problem | None = None) -> np.ndarray:
    """Return an array, or one of a spec filled at random: data with small numbers, a problem's indices with valid ones.

    Those count from both ends of the indexed axes; unchecked ones from the first alone.
    """
    if not isinstance(array, ArraySpec):
        return array
    result = strided_array(array)
    if problem is None:
        result[...] = rng.integers(0, 100, array.shape).astype(array.dtype)
        return result
    kind, sizes = np.iinfo(array.dtype), problem.axis_sizes
    low = [0 if problem.bounds is Bounds.UNCHECKED else max(-size, int(kind.min)) for size in sizes]
    high = [max(min(size, int(kind.max) + 1), least + 1) for size, least in zip(sizes, low, strict=True)]
    limits = (low, high) if len(sizes) > 1 else (low[0], high[0])
    result[...] = rng.integers(*limits, array.shape).astype(array.dtype)
    if isinstance(problem.operator, GatherWeighted):
        fill_weights(result, rng)
    return result
