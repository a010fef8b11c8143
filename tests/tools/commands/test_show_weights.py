"""`show --weights` and `--quantised`: the stages that `gather_reduce` runs for rows that are multiplied."""

import json
from dataclasses import replace

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.array_spec import ArraySpec
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime import dispatch

BAGS = ("show", "--operator", "gather_reduce", "--data", "40x6xf32", "--indices", "5x3xi64")


@pytest.mark.draw(3)
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
def test_the_kernel_is_that_of_a_call(gathernest, monkeypatch, dtype, reduce, factors, title):
    data, indices = np.ones((40, 6), dtype), np.arange(15).reshape(5, 3)
    seen, prepare = [], dispatch.prepare_problem
    monkeypatch.setattr(
        dispatch, "prepare_problem", lambda problem, *rest: seen.append(problem) or prepare(problem, *rest)
    )
    dispatch.RUNTIME.forget()
    given = (
        {"weights": np.ones((5, 3), np.float32 if dtype != "float64" else np.float64)} if "weights" in factors else {}
    )
    if "quantised" in factors:
        given |= {"scale": np.ones(40, np.float32), "bias": np.ones(40, np.float32)}
    gn.gather_reduce(data, indices, reduce=reduce, **given)
    operator = {"sum": "gather_reduce", "mean": "gather_mean"}[reduce]
    flags = {name: name in factors for name in ("weights", "quantised")}
    assert [replace(problem, is_fresh=True) for problem in seen] == [problem_of(operator, data, indices, **flags)]
    words = "show", "--operator", operator, "--data", str(ArraySpec.of(data)), "--indices", "5x3xi64"
    ended = gathernest(*words, *[f"--{name}" for name in factors], "--json")
    assert (ended.status, json.loads(ended.out)["gather"]) == (0, title)
