"""Bags with `--weights` and `--quantised`, in every command that takes the shapes of a gather."""

import json

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.errors import InvalidGatherError
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.reduction.bags import with_weights
from gathernest.kernels.tuned_schedules.records import arguments_of
from gathernest.kernels.tuning.sample_arrays import sample_arrays

BAGS = ("--operator", "gather_reduce", "--data", "40x6xf32", "--indices", "5x3xi64", "--weights")
MEANS = ("--operator", "gather_mean", "--data", "40x6xui8", "--indices", "5x3xi64", "--quantised")
KERNELS = [("f16", False), ("f32", False), ("f64", False), ("ui8", True)]


@pytest.mark.draw(2)
@pytest.mark.parametrize(("element", "quantised"), KERNELS)
def test_a_kernel_gives_the_bytes_of_a_call(element, quantised):
    kernel = gn.compile("gather_reduce", f"40x6x{element}", "5x3xi64", weights=True, quantised=quantised)
    rng = np.random.default_rng(0)
    data = rng.integers(0, 100, (40, 6)).astype(kernel.problem.table.dtype)
    indices, weights = rng.integers(0, 40, (5, 3)), rng.random((5, 3)).astype(kernel.problem.result.dtype)
    factors = {"scale": rng.random(40, np.float32), "bias": rng.random(40, np.float32)} if quantised else {}
    beside = np.stack([weights * each[indices] for each in factors.values()]) if quantised else weights
    places = with_weights(indices, beside, 40)
    out, turned = np.empty((5, 6), kernel.problem.result.dtype), np.empty((6, 5), kernel.problem.result.dtype).T
    result = kernel(data, places)
    wanted = gn.gather_reduce(data, indices, weights=weights, **factors)
    assert result.dtype == kernel.problem.result.dtype
    assert result.astype(wanted.dtype).tobytes() == wanted.tobytes()
    for given in (out, turned):
        assert kernel(data, places, given) is given
        assert given.tobytes() == result.tobytes()
    called = np.empty_like(out)
    assert kernel.cfunc(data.ctypes, places.ctypes, called.ctypes) == 0
    assert called.tobytes() == result.tobytes()


def test_a_result_of_another_dtype_is_rejected():
    kernel = gn.compile("gather_mean", "40x6xi8", "5x3xi64", quantised=True)
    data, places = sample_arrays(kernel.problem)
    with pytest.raises(InvalidGatherError, match="out must have dtype"):
        kernel(data, places, np.empty((5, 6), np.int8))


def test_a_dask_array_is_rejected():
    dask = pytest.importorskip("dask.array")
    kernel = gn.compile("gather_reduce", "40x6xf32", "5x3xi64", weights=True)
    data, places = sample_arrays(kernel.problem)
    with pytest.raises(InvalidGatherError, match="is of arrays in memory; load data, or compute it first"):
        kernel(dask.from_array(data), places)


@pytest.mark.parametrize(("element", "quantised"), KERNELS)
def test_made_up_weights_are_small_whole_numbers(element, quantised):
    problem = problem_of("gather_reduce", f"40x6x{element}", "5x3xi64", weights=True, quantised=quantised)
    _, places = sample_arrays(problem)
    beside = np.ascontiguousarray(places[..., 1:]).view(f"f{places.itemsize}")
    assert set(np.unique(beside)) <= {1.0, 2.0, 3.0}
    assert ((places[..., 0] >= 0) & (places[..., 0] < 40)).all()


@pytest.mark.parametrize("flag", ["weights", "quantised"])
def test_a_record_names_the_problem_again(flag):
    problem = problem_of("gather_reduce", "40x6xi8" if flag == "quantised" else "40x6xf32", "5x3xi64", **{flag: True})
    assert problem_of(**arguments_of(problem)) == problem


@pytest.mark.parametrize("words", [BAGS, MEANS])
def test_warm_compiles_the_kernel_of_a_call(gathernest, words):
    ended = gathernest("warm", *words, "--json")
    assert ended.status == 0
    (kernel,) = json.loads(ended.out)["kernels"]
    assert kernel["outcome"] in ("compiled", "cached")
    assert kernel["arguments"]["operator"] in ("gather_weighted", "gather_weighted_mean")


def test_tune_times_schedules(gathernest, monkeypatch, tmp_path):
    monkeypatch.setenv("GATHERNEST_TUNING", str(tmp_path / "records.json"))
    ended = gathernest("tune", *BAGS, "--candidate", "vectorize-inner{lanes=4}", "--rounds", "15", "--json")
    assert ended.status == 0
    found = json.loads(ended.out)
    assert [trial["outcome"] for trial in found["candidates"]].count("failed") == 0
    ended = gathernest("tune", "--list")
    assert "gather_weighted 40x6xf32 by 5x3x2xi32, bounds zero" in ended.out


def test_build_says_what_a_place_holds(gathernest, program, tmp_path):
    program("cc")
    library = tmp_path / "bags.so"
    ended = gathernest("build", "--so", str(library), *BAGS, "--name", "sums", "--and", *MEANS, "--name", "means")
    assert ended.status == 0
    header = library.with_suffix(".h").read_text()
    assert "each place of indices: an index, and the bits of a weight, as float" in header
    assert "each place of indices: an index, and the bits of a weight and a bias, as float" in header
    assert "int64_t means(const uint8_t *data, const int32_t *indices, float *out);" in header


@pytest.mark.thorough
def test_report_has_no_drawing_of_accesses(gathernest, tmp_path):
    page = tmp_path / "report.html"
    ended = gathernest("report", *BAGS, "--no-timing", "-o", str(page))
    assert ended.status == 0
    assert "gather_weighted" in page.read_text()
    assert "The memory accesses" not in page.read_text()


@pytest.mark.draw(3)
@pytest.mark.parametrize("words", [BAGS, MEANS])
@pytest.mark.parametrize("way", [(), ("--bisect",), ("--step", "3")])
def test_a_stage_runs_again(gathernest, tmp_path, words, way):
    stage = tmp_path / "stage.mlir"
    stage.write_text(gathernest("show", *words, "--stage", "hoist-invariants").out)
    ended = gathernest("exec", str(stage), *way)
    assert ended.status == 0, ended.err


@pytest.mark.parametrize("words", [BAGS, MEANS, BAGS[:-1]])
def test_the_playground_rejects_bags(gathernest, words):
    pytest.importorskip("marimo", reason="the playground needs marimo: pip install 'gathernest[play]'")
    ended = gathernest("play", *words, "--no-browser")
    assert ended.status == 2
    said = f"the steps of the playground are of gathers and gradients, got {words[1]}; gathernest show --operator"
    assert said in " ".join(ended.err.split())
