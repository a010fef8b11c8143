"""Inputs for a model at random, with what is used as indices in range."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...ir.errors import ModelError, did_you_mean
from ...kernels.model import Model
from ...kernels.models.tensor_spec import TensorSpec, bound_sizes

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

MOST_BYTES = 2**31


def random_inputs(
    model: Model, given: Mapping[str, np.ndarray], rng: np.random.Generator, sizes: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Return an array for each input that is not given; what reaches the indices of a gather is in range of its axis.

    See `random_arrays`.
    """
    return random_arrays(model.inputs, given, rng, sizes or {}, lambda bound: index_limits(model, bound))


def random_arrays(
    inputs: Mapping[str, TensorSpec],
    given: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    sizes: Mapping[str, int],
    limits_for: Callable[[Mapping[str, int]], Mapping[str, int]],
) -> dict[str, np.ndarray]:
    """Return an array for each input that is not given.

    Args:
        inputs: of a model.
        given: the arrays of other inputs, by name; their sizes are those of the same names.
        rng: fills the arrays.
        sizes: sizes that are not known before the model runs, by their names or as `INPUT.AXIS`.
        limits_for: gives, for all sizes, the numbers that integers of an input are below, by its name; 100 for others.

    Raises:
        ModelError: an input has a size that is not known, a size contradicts an array, or there is none of that name.
    """
    known = {dim for name, spec in inputs.items() for dim in spec.size_names(name) if dim is not None}
    bound = dict(sizes)
    for dim in bound:
        if dim not in known:
            there = ", ".join(sorted(known)) or "none that are not known"
            raise ModelError(f"--size {dim!r} is no size of the model; it has {there}{did_you_mean(dim, known)}")
    for dim, size in bound_sizes(inputs, {name: array.shape for name, array in given.items()}).items():
        if bound.setdefault(dim, size) != size:
            raise ModelError(f"--size {dim}={bound[dim]} contradicts the arrays, whose size is {size}")
    missing = [name for name in inputs if name not in given]
    shapes = {name: _shape(inputs[name], name, bound) for name in missing}
    limits = limits_for(bound)
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


def index_limits(model: Model, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return, for each input that reaches the indices of a gather, the least size of an axis it indexes.

    An axis whose size is not known counts as one of size 1, since index 0 is in range of every axis that has elements.
    The sizes of inputs that the caller has bound are `sizes`.
    """
    from xdsl.ir import BlockArgument

    from ...ir.interpreters.graph import find_function
    from ...ir.modules.context import parse_module
    from ...ir.modules.known_values import AnyGather
    from ...ir.semantics import DYNAMIC

    names = list(model.inputs)
    limits: dict[str, int] = {}
    for op in find_function(parse_module(str(model)), "main").body.block.ops:
        if not isinstance(op, AnyGather):
            continue
        data_shape, index_shape = op.shapes()
        dims: list[str | None] = [None] * len(data_shape)
        if isinstance(data := op.operands[0], BlockArgument):
            name = names[data.index]
            dims = model.inputs[name].size_names(name)
        for axis in op.normalized().axes(index_shape):
            size = data_shape[axis] if data_shape[axis] != DYNAMIC else sizes.get(dims[axis] or "", 1)
            for number in _sources(op.indices):
                limits[names[number]] = min(limits.get(names[number], size), size)
    return limits


def _sources(value: "SSAValue") -> set[int]:
    """Return the arguments whose elements a value is made of."""
    from xdsl.ir import BlockArgument, Operation

    from ...ir.dialects.graph.elementwise_ops import ElementwiseOp
    from ...ir.dialects.graph_ops import ConcatOp, ShapeOfOp

    found: set[int] = set()
    seen: set[SSAValue] = set()
    stack = [value]
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument):
            found.add(value.index)
        elif isinstance(value.owner, Operation) and not isinstance(value.owner, ShapeOfOp):
            has_parts = isinstance(value.owner, ConcatOp | ElementwiseOp)
            stack += value.owner.operands if has_parts else value.owner.operands[:1]
    return found
