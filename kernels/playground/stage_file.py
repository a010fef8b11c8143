"""The arrays that a command line or the comment of a stage names: from a file, as values, or filled at random."""

import json
import os
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
        return _values(text) if text.startswith("[") else ArraySpec.parse(text)
    except (GathernestError, ValueError, OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if not text.startswith("[") and os.path.isdir(text):
            reason = "this is a folder"
        elif not text.startswith("[") and not text.endswith(".npy") and os.path.exists(text):
            reason = "this is a file whose name does not end in .npy"
        raise InvalidGatherError(f"{text}: {reason}; give {FORMS}") from None


def _values(text: str) -> np.ndarray:
    """Return the array of values in brackets with an element type; raises ValueError or InvalidGatherError."""
    values, bracket, kind = text.rpartition("]")
    if not bracket:
        raise ValueError("a ] is missing")
    dtype = ArraySpec.parse(f"1{kind}").dtype if kind else None
    try:
        return np.asarray(json.loads(f"{values}]"), dtype)
    except json.JSONDecodeError as error:
        if error.pos > len(values):
            raise ValueError("a ] is missing") from None
        wrong = f"{text[error.pos]!r} at position {error.pos + 1}"
        raise ValueError(f"{wrong} is wrong, as values are numbers with commas between") from None
    except OverflowError:
        raise ValueError(f"a value is outside the range of {kind[1:]}") from None
    except (ValueError, TypeError, RecursionError):
        raise ValueError("values are numbers, in rows of one length") from None


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
