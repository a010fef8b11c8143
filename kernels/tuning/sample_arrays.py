"""Arrays of known shapes, dtypes and strides with made-up values, for measuring a kernel without its caller's data."""

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.errors import GathernestError
from ...ir.operator_spec import GatherWeighted
from ...ir.problem import Problem
from ..host.cpu import free_memory_bytes

PATTERN_BYTES = 2**20


class SampleError(GathernestError, ValueError):
    """Arrays of these sizes cannot be made up."""


def sample_arrays(problem: Problem, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return what a kernel of a problem takes: data (of a gradient, grad) and uniformly random indices, all inside.

    Raises:
        SampleError: they would not fit in the free memory, with the result and two copies of it.
    """
    source, result = problem.source, problem.result
    needed = _span_bytes(source) + _span_bytes(problem.indices) + 3 * _span_bytes(result)
    free = free_memory_bytes()
    if needed > free:
        raise SampleError(
            f"data {source} and indices {problem.indices}, their result and two copies of it take {_gib(needed)}, and "
            f"{_gib(free)} of memory are free; pass arrays of your own, or compile the kernel for smaller ones"
        )
    rng = np.random.default_rng(seed)
    data = strided_array(source)
    if not problem.adds:
        _fill_bytes(data, rng)
    else:
        data[...] = rng.integers(0, 100, data.shape, np.uint8).astype(data.dtype)
    indices = strided_array(problem.indices)
    limits = [min(size, int(np.iinfo(indices.dtype).max) + 1) for size in problem.axis_sizes]
    drawn = np.array(limits if len(limits) > 1 else limits[0], np.int64)
    indices[...] = rng.integers(0, np.maximum(drawn, 1), indices.shape).astype(indices.dtype)
    if isinstance(problem.operator, GatherWeighted):
        fill_weights(indices, rng)
    return data, indices


def fill_weights(places: np.ndarray, rng: np.random.Generator) -> None:
    """Put the bits of made-up weights, and of biases, beside the indices of a gather_weighted.

    They are small whole numbers, so sums of small whole numbers are exact.

    Args:
        places: (..., 2 or 3) int32 or int64; changed.
    """
    beside = places[..., 1:]
    beside[...] = rng.integers(1, 4, beside.shape).astype(f"f{places.itemsize}").view(places.dtype)


def _span_bytes(spec: ArraySpec) -> int:
    """Return the bytes from the first to the last that an array lies in."""
    if 0 in spec.shape:
        return 0
    reach = sum((size - 1) * abs(stride) for size, stride in zip(spec.shape, spec.strides, strict=True))
    return reach + spec.dtype.itemsize


def strided_array(spec: ArraySpec) -> np.ndarray:
    """Return an array of that layout in memory of its own, which is zeros."""
    first = sum((size - 1) * max(-stride, 0) for size, stride in zip(spec.shape, spec.strides, strict=True))
    memory = np.zeros(max(_span_bytes(spec), 1), np.uint8)
    if 0 in spec.shape:
        return np.ndarray(spec.shape, spec.dtype)
    return np.ndarray(spec.shape, spec.dtype, memory, first, spec.strides)


def _fill_bytes(array: np.ndarray, rng: np.random.Generator) -> None:
    """Fill the memory that an array lies in with random bytes, which repeat after a megabyte."""
    memory = array.base
    if not isinstance(memory, np.ndarray):
        return
    pattern = rng.integers(0, 256, PATTERN_BYTES, np.uint8)
    for at in range(0, len(memory), PATTERN_BYTES):
        memory[at : at + PATTERN_BYTES] = pattern[: len(memory) - at]


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"
