"""Inputs for a model at random, with what is used as indices in range."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...ir.errors import ModelError
from ...kernels.model import Model, TensorSpec

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

MOST_BYTES = 2**31


def random_inputs(model: Model, names: Sequence[str], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return an array for each of these inputs; what reaches the indices of a gather is in range of its axis.

    Raises:
        ModelError: an input has a size that is not known, or is used as indices of an axis whose size is not known.
    """
    limits = index_limits(model)
    arrays: dict[str, np.ndarray] = {}
    for name in names:
        spec = model.inputs[name]
        if not spec.is_static:
            raise ModelError(f"input {name!r} ({spec}) has sizes that are not known; {_remedy(name)}")
        if math.prod(_sizes(spec)) * spec.dtype.itemsize > MOST_BYTES:
            raise ModelError(f"input {name!r} ({spec}) is too large to fill; {_remedy(name)}")
        limit = limits.get(name, 100)
        if limit is None:
            raise ModelError(
                f"input {name!r} ({spec}) holds indices of an axis whose size is not known; {_remedy(name)}"
            )
        arrays[name] = filled(spec, limit, rng)
    return arrays


def _remedy(name: str) -> str:
    return f"give it with --input {name}=FILE.npy"


def _sizes(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(size for size in spec.shape if isinstance(size, int))


def filled(spec: TensorSpec, limit: int, rng: np.random.Generator) -> np.ndarray:
    """Return an array of a static spec at random; integers are below a limit."""
    shape, dtype = _sizes(spec), spec.dtype
    if dtype.kind in "iu":
        return rng.integers(0, max(min(limit, int(np.iinfo(dtype).max) + 1), 1), shape).astype(dtype)
    if dtype.kind in "fc" or "float" in dtype.name:
        return rng.standard_normal(shape).astype(dtype)
    if dtype.hasobject:
        return np.array([f"s{number}" for number in range(math.prod(shape))], object).reshape(shape)
    return rng.integers(0, 2, shape).astype(dtype)


def index_limits(model: Model) -> dict[str, int | None]:
    """Return, for each input that reaches the indices of a gather, the least size of an axis it indexes.

    None stands for an axis whose size is not known.
    """
    from ...ir.interpreters.graph import find_function
    from ...ir.modules.context import parse_module
    from ...ir.modules.known_values import AnyGather
    from ...ir.semantics import DYNAMIC

    names = list(model.inputs)
    limits: dict[str, int | None] = {}
    for op in find_function(parse_module(str(model)), "main").body.block.ops:
        if not isinstance(op, AnyGather):
            continue
        data_shape, index_shape = op.shapes()
        sizes = [data_shape[axis] for axis in op.normalized().axes(index_shape)]
        for number in _sources(op.indices):
            before = limits.get(names[number], 2**63)
            known = before is not None and DYNAMIC not in sizes
            limits[names[number]] = min([before, *sizes]) if known and before is not None else None
    return limits


def _sources(value: "SSAValue") -> set[int]:
    """Return the arguments whose elements a value is made of."""
    from xdsl.ir import BlockArgument, Operation

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
            stack += value.owner.operands if isinstance(value.owner, ConcatOp) else value.owner.operands[:1]
    return found
