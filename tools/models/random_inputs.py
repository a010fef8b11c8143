"""Inputs for a model at random, with what is used as indices in range."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...interop.models.model import Model
from ...interop.models.runtime import TensorSpec
from ...ir.errors import ModelError, did_you_mean

MOST_BYTES = 2**31


def random_inputs(
    model: Model, given: Mapping[str, np.ndarray], rng: np.random.Generator, sizes: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Return an array for each input that is not given; what reaches the indices of a gather is in range of its axis.

    See `random_arrays`.
    """
    return random_arrays(model.inputs, given, rng, sizes or {}, index_limits(model))


def random_arrays(
    inputs: Mapping[str, TensorSpec],
    given: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    sizes: Mapping[str, int],
    limits: Mapping[str, int],
) -> dict[str, np.ndarray]:
    """Return an array for each input that is not given.

    Args:
        inputs: of a model.
        given: the arrays of other inputs, by name; their sizes are those of the same names.
        rng: fills the arrays.
        sizes: sizes that are not known before the model runs, by their names or as `INPUT.AXIS`.
        limits: the numbers that integers of an input are below, by its name; 100 for others.

    Raises:
        ModelError: an input has a size that is not known, a size contradicts an array, or there is none of that name.
    """
    known = {dim for name, spec in inputs.items() for dim in spec.size_names(name) if dim is not None}
    bound = dict(sizes)
    for dim in bound:
        if dim not in known:
            there = ", ".join(sorted(known)) or "none that are not known"
            raise ModelError(f"--size {dim!r} is no size of the model; it has {there}{did_you_mean(dim, known)}")
    dims = [
        pair for name, array in given.items() for pair in zip(inputs[name].size_names(name), array.shape, strict=False)
    ]
    for dim, size in dims:
        if dim is not None and bound.setdefault(dim, size) != size:
            raise ModelError(f"--size {dim}={bound[dim]} contradicts the arrays, whose size is {size}")
    missing = [name for name in inputs if name not in given]
    shapes = {name: _shape(inputs[name], name, bound) for name in missing}
    return {name: _filled(replace(inputs[name], shape=shapes[name]), limits.get(name, 100), rng) for name in missing}


def _shape(spec: TensorSpec, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the sizes of an input; raises ModelError where one is not known, or they are too large to fill."""
    dims = spec.size_names(name)
    unknown = [dim for dim in dims if dim is not None and dim not in sizes]
    remedy = f"give it with --input {name}=FILE.npy"
    if unknown:
        wanted = " ".join(f"--size {dim}=N" for dim in dict.fromkeys(unknown))
        raise ModelError(f"input {name!r} ({spec}) has sizes that are not known; give them with {wanted}, or {remedy}")
    shape = tuple(
        size if isinstance(size, int) else sizes[dim or ""] for size, dim in zip(spec.shape, dims, strict=True)
    )
    if math.prod(shape) * spec.dtype.itemsize > MOST_BYTES:
        raise ModelError(f"input {name!r} ({spec}) is too large to fill; {remedy}")
    return shape


def _filled(spec: TensorSpec, limit: int, rng: np.random.Generator) -> np.ndarray:
    shape, dtype = tuple(size for size in spec.shape if isinstance(size, int)), spec.dtype
    if dtype.kind in "iu":
        return rng.integers(0, max(min(limit, int(np.iinfo(dtype).max) + 1), 1), shape).astype(dtype)
    if dtype.kind in "fc" or "float" in dtype.name:
        return rng.standard_normal(shape).astype(dtype)
    if dtype.hasobject:
        return np.array([f"s{number}" for number in range(math.prod(shape))], object).reshape(shape)
    return rng.integers(0, 2, shape).astype(dtype)


def index_limits(model: Model) -> dict[str, int]:
    """Return, for each input, a number that its integers are below: the least size of an axis that indices select from.

    Axes whose size is not known do not count, and neither do gathers with constant indices.
    """
    limit = 100
    for found in model.runtime.gathers:
        table, indices = found.operands[:2]
        shape = found.specs[table].shape
        if indices in found.tables or shape is None:
            continue
        for axis in found.problem({}, 1).axes:
            size = shape[axis]
            limit = min(limit, size) if isinstance(size, int) else limit
    return dict.fromkeys(model.inputs, limit)
