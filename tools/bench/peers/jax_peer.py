"""JAX: compiled functions of arrays on the CPU's device; it allocates every result."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import numpy as np
from jax import numpy as jnp  # pyright: ignore[reportMissingImports]

from ..cases.case import Case, Inputs
from .peer import Call, Peer, Variants


class Jax(Peer):
    """JAX with 64-bit dtypes, as the cases have them."""

    name = "jax"
    is_allocating = True

    def start(self, threads: int) -> None:
        os.environ["PJRT_NPROC"] = str(threads)  # read when JAX first makes its client
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_enable_x64", True)

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        function = jax.jit(_function(case))
        data = jnp.asarray(inputs.data)
        return {"jit": [_call(function, data, jnp.asarray(picks)) for picks in inputs.indices]}


def _call(function: Callable[..., Any], data: Any, picks: Any) -> Call:
    return lambda: function(data, picks).block_until_ready()


def _function(case: Case) -> Callable[[Any, Any], Any]:
    """Return the case as JAX writes it; indices outside are clamped, which costs less than its default."""
    if case.is_gradient:
        place = (slice(None),) * case.axis
        return lambda grad, picks: jnp.zeros(case.data, grad.dtype).at[(*place, picks)].add(grad, mode="clip")
    if case.is_reduction:
        reduction = jnp.max if case.operator == "gather_max" else jnp.sum
        return lambda data, picks: reduction(jnp.take(data, picks, axis=0, mode="clip"), axis=-2)
    if case.operator == "gather_elements":
        cut = tuple(slice(size) if dim != case.axis else slice(None) for dim, size in enumerate(case.indices))
        return lambda data, picks: jnp.take_along_axis(data[cut], picks, case.axis, mode="clip")
    if case.operator == "gather_nd":
        grids = np.indices(case.indices[:-1], sparse=True)[: case.batch_dims]
        return lambda data, picks: data.at[(*grids, *jnp.moveaxis(picks, -1, 0))].get(mode="clip")
    function: Callable[..., Any] = partial(jnp.take, axis=case.axis - case.batch_dims, mode="clip")
    for _ in range(case.batch_dims):
        function = jax.vmap(function)
    return function
