"""Gathers of dask arrays, cut at random, give the reference's bytes or reject what it rejects.

The tasks run the slow reference instead of compiled kernels, so that every case costs milliseconds.
"""

import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import gathernest as gn
from gathernest.ir import reference
from gathernest.kernels.chunks import chunked

BOUNDS = ("error", "zero", "clip", "wrap", "unchecked")
OPERATORS = ("gather", "gather_nd", "gather_elements")
QUICK = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=12,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def slow_kernels(monkeypatch):
    def run(operator, data, indices, bounds, *ignored):
        return reference.run(operator, data, indices, bounds)

    monkeypatch.setattr(chunked, "run_gather", run)


def cut(draw, array: np.ndarray) -> da.Array:
    """Return an array as dask's, every dimension in chunks of any size from 0."""
    sizes = []
    for size in array.shape:
        ends = sorted(draw(st.lists(st.integers(0, size), max_size=2)))
        sizes.append(tuple(np.diff([0, *ends, size]).tolist()))
    return da.from_array(array, chunks=tuple(sizes))


@pytest.mark.parametrize("kind", ["data", "indices", "both"])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("operator", OPERATORS)
@settings(QUICK)
@given(draws=st.data())
def test_a_chunked_gather_equals_the_reference(slow_kernels, oracle, operator, bounds, kind, draws):
    case = oracle.case(draws.draw, operator=operator, bounds=bounds, layouts=("contiguous", "transposed"))
    data = cut(draws.draw, case.data) if kind != "indices" else case.data
    indices = cut(draws.draw, case.indices) if kind != "data" else case.indices
    wanted = oracle.expected(case)
    lazy = getattr(gn, operator)(data, indices, bounds=bounds, **case.attributes())
    assert (lazy.shape, lazy.dtype) == (case.out_shape, case.data.dtype)
    if wanted is None:
        with pytest.raises(gn.BoundsError):
            lazy.compute(scheduler="sync")
    else:
        assert oracle.same_bytes(np.asarray(lazy.compute(scheduler="sync")), wanted)
