"""Gathers that are small enough to interpret: sizes cut, and arrays whose indices try every rule of a bounds mode."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.errors import GathernestError
from ...ir.operator_spec import GatherWeighted
from ...ir.problem import Problem
from ...ir.semantics import Bounds
from ..tuning.sample_arrays import fill_weights

# The largest size of a dimension that is interpreted, tried in turn: an operation takes some 10 microseconds.
LARGEST_SIZES = (5, 19, 70)
MOST_ELEMENTS = 3000


def interpretable(problem: Problem) -> Iterator[Problem]:
    """Yield the problem with its sizes cut to what is interpreted quickly, smallest first, and at last as it is.

    The row size may be fixed in the code, so that it is kept in every other form.
    """
    table, indices = problem.table.shape, problem.indices.shape
    for largest in LARGEST_SIZES:
        cut = [tuple(min(size, largest) for size in shape) for shape in (table, indices)]
        for shape in dict.fromkeys((cut[0], (*cut[0][:-1], *table[-1:]))):
            with contextlib.suppress(GathernestError):
                smaller = problem.resized(shape, cut[1])
                if smaller.result.size + smaller.source.size <= MOST_ELEMENTS:
                    yield smaller
    yield problem


def samples_of(problem: Problem) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield arrays that a problem is tried on, with indices at random, at both ends, and outside."""
    shape, dtype = problem.source.shape, problem.source.dtype
    data = (np.arange(problem.source.size) % 120 + 1).reshape(shape).astype(dtype)
    kind, rng = np.iinfo(problem.indices.dtype), np.random.default_rng(0)
    sizes = np.array(problem.axis_sizes, object)
    low = np.maximum(-sizes, int(kind.min))
    high = np.minimum(sizes - 1, int(kind.max))
    lists = [(low, high)]
    if problem.bounds in (Bounds.ZERO, Bounds.CLIP, Bounds.WRAP, Bounds.ERROR):
        lists += [(np.maximum(2 * low - 1, int(kind.min)), np.minimum(2 * high + 2, int(kind.max)))]
        lists += [(int(kind.min), int(kind.max))]
    lists = [(least, most) for least, most in lists if np.all(np.less_equal(least, most))]
    for least, most in lists or [(0, 0)]:
        indices = _drawn(problem.indices, least, most, rng)
        if isinstance(problem.operator, GatherWeighted):
            fill_weights(indices, rng)
        yield data, indices
    for outside in (sizes, -sizes - 1) if problem.bounds is Bounds.ERROR and problem.indices.size else ():
        if np.all(outside >= int(kind.min)) and np.all(outside <= int(kind.max)):
            indices = np.zeros(problem.indices.shape, problem.indices.dtype)
            indices.reshape(-1, len(sizes))[-1] = outside  # one alone: no other that is outside hides it
            yield data, indices


def _drawn(spec: ArraySpec, least: Any, most: Any, rng: np.random.Generator) -> np.ndarray:
    """Return indices between two bounds, both of which occur."""
    least, most = (np.broadcast_to(np.asarray(bound, object), spec.shape).reshape(-1) for bound in (least, most))
    drawn = [
        (low, high, int(rng.integers(low, high, endpoint=True)))[min(place % 5, 2)]
        for place, (low, high) in enumerate(zip(least, most, strict=True))
    ]
    return np.array(drawn, object).reshape(spec.shape).astype(spec.dtype)
