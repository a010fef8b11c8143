"""Arrays to time a problem on, made from its description."""

import numpy as np

from ..ir.array_spec import ArraySpec
from .plan import Problem


def sample_arrays(problem: Problem, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return (source, indices) for a problem: data, or grad of a gradient, and indices inside their axes at random.

    Every byte is written, so that no page is still to be made when the time is taken.

    Args:
        problem: what they are for; its arrays have the same shapes, dtypes and strides.
        seed: of the random numbers.

    Returns:
        Random bytes, for a gradient whole numbers below 100 in its dtype; and indices spread evenly over each axis.
    """
    rng = np.random.default_rng(seed)
    return source_array(problem, rng), index_array(problem, rng)


def source_array(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """Return data of random bytes; of a gradient grad, of whole numbers, whose sums are no NaN."""
    if problem.gradient is None:
        return _placed(problem.data, rng)
    grad = _placed(problem.slices, rng)
    grad[...] = rng.integers(0, 100, grad.shape, np.int8).astype(grad.dtype)
    return grad


def index_array(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """Return indices that are all inside their axes, and inside what their dtype holds."""
    indices = _placed(problem.indices, rng)
    ends = np.minimum(np.array(problem.axis_sizes, np.uint64), np.uint64(np.iinfo(indices.dtype).max))
    ends = np.maximum(ends, np.uint64(1))
    indices[...] = rng.integers(0, ends if len(ends) > 1 else ends[0], indices.shape, np.uint64)
    return indices


def _placed(spec: ArraySpec, rng: np.random.Generator) -> np.ndarray:
    """Return an array with the strides of a specification, over random bytes."""
    reaches = [stride * (size - 1) for size, stride in zip(spec.shape, spec.strides, strict=True)]
    before = -sum(reach for reach in reaches if reach < 0)
    after = sum(reach for reach in reaches if reach > 0) + spec.dtype.itemsize
    memory = rng.integers(0, 256, before + after if 0 not in spec.shape else 0, np.uint8)
    return np.ndarray(spec.shape, spec.dtype, memory, before if 0 not in spec.shape else 0, spec.strides)
