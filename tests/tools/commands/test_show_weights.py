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


def test_a_stage_has_the_bits_of_the_weight(gathernest):
    ended = gathernest(*BAGS, "--weights", "--stage", "hoist-invariants", "--picture")
    assert ended.status == 0
    assert "weight_bits = indices[i, k, 1]" in ended.out


ERRORS = {
    "gather": (("--operator", "gather", "--weights"), "weights are of gather_reduce, as in torch, got gather;"),
    "maximum": (
        ("--operator", "gather_max", "--data", "40x6xui8", "--quantised"),
        "quantised rows are of gather_reduce and gather_mean, got gather_max; name one of them",
    ),
    "no rows": (("--data", "0x6xf32", "--weights"), "no kernel runs for data without rows, got shape (0, 6); give it"),
    "mean": (("--operator", "gather_mean", "--weights"), "weights are of gather_reduce, as in torch, got gather_mean"),
    "integers": (
        ("--data", "40x6xi32", "--weights"),
        "weights are of rows of floats, or of int8 and uint8 with a scale, got int32; convert data, for instance to",
    ),
    "floats": (("--quantised",), "quantised rows are of int8 or uint8, got float32"),
    "axis": (("--weights", "--axis", "1"), "gather_reduce has no axis, got 1; leave it out"),
    "batch dims": (("--weights", "--batch-dims", "1"), "gather_reduce has no batch_dims, got 1"),
    "scale": (("--weights", "--scale", "2"), "scale is for gradients, and gather_reduce is none; multiply its result"),
    "clip": (("--weights", "--bounds", "clip"), "one kernel for all bounds, got bounds clip: indices become positions"),
    "small integers": (("--data", "40x6xi8", "--weights"), "got int8; name quantised as well"),
    "index dtype": (
        ("--operator", "gather_weighted", "--indices", "5x3x2xi64"),
        "by int32, an index and the bits of its weight, got float32 by int64; name gather_reduce with weights",
    ),
    "two pipelines": (("--weights", "--schedule", "", "-p", "cse"), "give schedule or pipeline, not both"),
    "float indices": (("--weights", "--indices", "5x3xf32"), "indices"),
    "bounds": (("--weights", "--bounds", "zeroes"), "zeroes"),
    "scalar data": (("--weights", "--data", "f32"), "data"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_names_what_does_not_fit(gathernest, name):
    words, text = ERRORS[name]
    ended = gathernest(*BAGS, *words)
    assert ended.status != 0
    assert text in " ".join(ended.err.split())
