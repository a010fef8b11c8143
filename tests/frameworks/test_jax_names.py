"""`take` and `take_along_axis` with mode "fill" and "clip" beside JAX's own: values, dtypes and errors."""

import numpy as np
import pytest

import gathernest as gn

from ..selection import examples

jnp = pytest.importorskip("jax.numpy", reason="jax is not installed")


def outcome(call) -> object:
    try:
        result = np.asarray(call())
    except (IndexError, ValueError, TypeError):
        return "an error"
    return result.dtype, result.shape, result.tobytes() if result.dtype != bool else result.tolist()


def drawn(seed: int) -> tuple[np.random.Generator, np.ndarray, int]:
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 4, int(rng.integers(1, 3)))
    array = rng.integers(0, 99, shape).astype(rng.choice(["f4", "i4", "u1", "c8", "?", jnp.bfloat16]))
    return rng, array, int(rng.integers(-array.ndim, array.ndim + (rng.random() < 0.1)))


@pytest.mark.parametrize("mode", ["fill", "clip", "wrap"])
def test_take_gives_what_jax_gives(mode):
    for seed in range(examples(20)):
        rng, array, axis = drawn(seed)
        axis = None if rng.random() < 0.2 else axis
        indices = rng.integers(-5, 5, (3, 2)[: int(rng.integers(0, 3))])
        expected = outcome(lambda: jnp.take(jnp.asarray(array), indices, axis, mode=mode))  # noqa: B023
        assert outcome(lambda: gn.take(array, indices, axis, mode=mode)) == expected, seed  # noqa: B023


@pytest.mark.parametrize(("mode", "fill_value"), [("fill", None), ("fill", 7), ("clip", None)])
def test_take_along_axis_gives_what_jax_gives(mode, fill_value):
    seen = set()
    for seed in range(examples(20)):
        rng, array, axis = drawn(seed)
        shape = [int(rng.choice([1, size, size, 2])) for size in array.shape]
        indices = rng.integers(-5, 5, shape)
        if array.dtype == bool and fill_value is not None:
            continue
        rest = {"mode": mode, "fill_value": fill_value}
        expected = outcome(lambda: jnp.take_along_axis(jnp.asarray(array), indices, axis, **rest))  # noqa: B023
        found = outcome(lambda: gn.take_along_axis(array, indices, axis, negative_indices="wrap", **rest))  # noqa: B023
        assert found == expected, seed
        seen.add(expected == "an error")
    assert seen == {True, False}


def test_jax_reads_negative_indices_from_the_end_and_tensorflow_does_not(tf):
    assert (
        gn.take([1.0, 2.0], [-1], mode="fill").tolist()
        == jnp.take(jnp.array([1.0, 2.0]), jnp.array([-1]), mode="fill").tolist()
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        tf.gather([1.0, 2.0], [-1])
    with pytest.raises(gn.BoundsError, match="is negative"):
        gn.take([1.0, 2.0], [-1], negative_indices="outside")
