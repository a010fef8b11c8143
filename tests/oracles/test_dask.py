"""Gathers and gradients of dask arrays, cut at random, give the reference's bytes or reject what it rejects.

The tasks run the slow reference instead of compiled kernels, so that every case costs milliseconds.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import gathernest as gn
from gathernest.ir import reference
from gathernest.ir.errors import BoundsError
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd
from gathernest.ir.semantics import Bounds
from gathernest.kernels.chunks import chunked, chunked_gradient, sums

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

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

    def add(rows, keys, size):
        total = np.zeros((size, *rows.shape[1:]), rows.dtype)
        np.add.at(total, keys, rows)
        return total

    monkeypatch.setattr(chunked, "run_gather", run)
    monkeypatch.setattr(chunked_gradient, "run_gather", run)
    monkeypatch.setattr(sums, "_added", add)


def cut(draw, array: np.ndarray) -> da.Array:
    """Return an array as dask's, every dimension in chunks of any size from 0."""
    sizes = []
    for size in array.shape:
        ends = sorted(draw(st.lists(st.integers(0, size), max_size=2)))
        sizes.append(tuple(np.diff([0, *ends, size]).tolist()))
    return da.from_array(array, chunks=tuple(sizes))


@pytest.mark.draw(8)
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


@pytest.mark.parametrize("operator", OPERATORS)
@settings(QUICK, max_examples=16)
@given(draws=st.data())
def test_a_chunked_gradient_equals_the_reference(slow_kernels, oracle, operator, draws):
    dtype = np.dtype(draws.draw(st.sampled_from(["f4", "i2", "f2"])))
    case = oracle.case(draws.draw, operator=operator, dtype=dtype, layouts=("contiguous",), most=12)
    grad = np.random.default_rng(0).integers(-3, 4, case.out_shape).astype(dtype)  # sums are exact in any order
    kind, scale = draws.draw(st.sampled_from(["grad", "indices", "both"])), draws.draw(st.sampled_from([1.0, -2.0]))
    parts = cut(draws.draw, grad) if kind != "indices" else grad
    indices = cut(draws.draw, case.indices) if kind != "grad" else case.indices
    spec = {"gather": Gather, "gather_nd": GatherNd, "gather_elements": GatherElements}[operator]
    with dask.config.set({"array.chunk-size": draws.draw(st.sampled_from(["128MiB", "32B"]))}):
        function = getattr(gn, f"{operator}_grad")
        lazy = function(parts, indices, case.data.shape, bounds=case.bounds, scale=scale, **case.attributes())
    assert (lazy.shape, lazy.dtype) == (case.data.shape, dtype)
    try:
        wanted = reference.gradient(
            spec(**case.attributes()), grad, case.indices, case.data.shape, Bounds(case.bounds), scale
        )
    except BoundsError:
        with pytest.raises(gn.BoundsError):
            lazy.compute(scheduler="sync")
    else:
        assert oracle.same_bytes(np.asarray(lazy.compute(scheduler="sync")), wanted)
