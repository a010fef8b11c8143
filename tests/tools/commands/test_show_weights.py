"""`show --weights` and `--quantised`: the stages that `gather_reduce` runs for rows that are multiplied."""

import json

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.array_spec import ArraySpec

BAGS = ("show", "--operator", "gather_reduce", "--data", "40x6xf32", "--indices", "5x3xi64")


@pytest.mark.draw(1)
@pytest.mark.parametrize(
    ("dtype", "reduce", "factors", "title"),
    [
        ("float32", "sum", ["weights"], "gather_weighted 40x6xf32 by 5x3x2xi32 -> 5x6xf32, bounds zero"),
        ("float16", "sum", ["weights"], "gather_weighted 40x6xf16 by 5x3x2xi32 -> 5x6xf32, bounds zero"),
        ("float64", "sum", ["weights"], "gather_weighted 40x6xf64 by 5x3x2xi64 -> 5x6xf64, bounds zero"),
        ("int8", "sum", ["quantised"], "gather_weighted 40x6xi8 by 5x3x3xi32 -> 5x6xf32, bounds zero"),
        ("uint8", "sum", ["weights", "quantised"], "gather_weighted 40x6xui8 by 5x3x3xi32 -> 5x6xf32, bounds zero"),
        ("uint8", "mean", ["quantised"], "gather_weighted_mean 40x6xui8 by 5x3x3xi32 -> 5x6xf32, bounds zero"),
    ],
)
def test_the_kernel_is_that_of_a_call(gathernest, tmp_path, dtype, reduce, factors, title):
    data, indices = np.ones((40, 6), dtype), np.arange(15).reshape(5, 3)
    given = (
        {"weights": np.ones((5, 3), np.float32 if dtype != "float64" else np.float64)} if "weights" in factors else {}
    )
    if "quantised" in factors:
        given |= {"scale": np.ones(40, np.float32), "bias": np.ones(40, np.float32)}
    with gn.knobs.scope(dump_dir=tmp_path, always_compile=True):
        gn.gather_reduce(data, indices, reduce=reduce, **given)
    (called,) = [path.read_text().partition("builtin.module")[2] for path in tmp_path.rglob("00-operator.mlir")]
    operator = {"sum": "gather_reduce", "mean": "gather_mean"}[reduce]
    words = "show", "--operator", operator, "--data", str(ArraySpec.of(data)), "--indices", "5x3xi64"
    words += tuple(f"--{name}" for name in factors)
    assert called and gathernest(*words, "--stage", "operator").out.partition("builtin.module")[2] == called
    ended = gathernest(*words, "--json")
    assert (ended.status, json.loads(ended.out)["gather"]) == (0, title)
