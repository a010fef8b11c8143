import json
import re

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.errors import InternalError
from gathernest.kernels.machine.explain import explain
from gathernest.kernels.tuning.sample_arrays import SampleError, sample_arrays
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.predict import predict
from gathernest.lowering.schedule.schedule import Schedule, shorter_schedules

TILED = "tile-loops{loops=indices sizes=16}"


@pytest.mark.thorough
def test_explanation_has_bytes_bound_time_and_passes():
    found = gn.compile("gather", "300x16xf32", "50xi64", schedule=TILED).explain(rounds=2)
    assert found.gather == "gather 300x16xf32 by 50xi64, axis 0, batch_dims 0, bounds error"
    assert found.schedule == TILED
    assert dict(found.model_bound.traffic.streams)["output"] == 50 * 64
    assert found.model_bound.traffic.is_counted
    assert found.rounds == 2
    assert found.fraction == found.bound.time_us / found.measured_us > 0
    assert found.bound.traffic == found.model_bound.traffic
    (ablation,) = found.ablations
    assert ablation.left_out == TILED
    assert ablation.rejected is None and ablation.measured_us is not None
    assert ablation.times_as_fast == pytest.approx(ablation.measured_us / found.measured_us)


@pytest.mark.thorough
def test_what_is_explained_is_the_kernel_that_is_timed_of_calls_with_out():
    kernel = gn.compile("gather", "4000xf32", "200000xi64")
    found = kernel.explain(rounds=1)
    *reasons, predicted = found.reasons
    assert tuple(reasons) == kernel.with_out.plan.reasons and reasons[-1].startswith("out is given: the check")
    assert predicted.startswith("predicted ") and " µs: " in predicted
    assert kernel.plan.reasons[-1].startswith("a new result")


def test_text_has_a_part_for_each_question(golden, without_numbers):
    """The text of explanations with made-up numbers is in tests/playground."""
    with gn.knobs.scope(num_threads=1, machine="zen3"):
        kernel = gn.compile("gather", "300x16xf32", "50xi64", schedule=TILED)
        found = kernel.explain(rounds=1)
    assert {name: len(times) for name, times in found.bound.rounds_us.items()} == {"copy": 1, "random lines": 1}
    assert found.predicted_us == predict(kernel.plan.schedule, kernel.plan.layout.nest, BUILT_IN["zen3"]).time_us
    text = re.sub(r"(?m)^(the machine is|the median is) .*\n", "", without_numbers(str(found)))
    text = re.sub(r"(?m)^\d+ lines of data", "# lines of data", text)  # a row has two lines where it is not aligned
    text = re.sub(r"(at # (?:GB/s|million a second))  .*", r"\1  THE FASTEST WAY", text)
    golden("explanation.txt", re.sub(r"bound by (copy|random lines)", "bound by THE SLOWER", text))


def test_json_holds_what_the_text_says():
    found = gn.compile("gather", "300x16xf32", "50xi64", schedule=TILED).explain(rounds=1)
    stored = json.loads(json.dumps(found.to_json()))
    assert stored["schedule"] == TILED
    assert stored["model_bound"]["bytes"]["all"] == found.model_bound.traffic.total_bytes
    assert stored["fraction"] == found.fraction == stored["bound"]["time_us"] / stored["measured_us"]
    assert stored["machine"] == "zen4" and stored["model_bound"]["time_us"] == found.model_bound.time_us > 0
    assert set(stored["bound"]["rounds_us"]) == set(stored["bound"]["ways"]) == {"copy", "random lines"}
    assert stored["ablations"][0]["left_out"] == TILED
    assert stored["predicted_us"] == found.predicted_us > 0


@pytest.mark.thorough
def test_rejected_rest_is_reported_with_its_reason():
    schedule = f"{TILED},parallelize-loops{{loops=indices_o}}"
    found = gn.compile("gather", "300x16xf32", "50xi64", schedule=schedule).explain(rounds=1)
    tiles, parallel = found.ablations
    assert tiles.left_out == TILED and tiles.measured_us is None
    assert tiles.rejected is not None and tiles.rejected.startswith("the nest has no loop 'indices_o'")
    assert parallel.rejected is None
    assert f"other steps need it: {tiles.rejected}" in str(found)


def test_two_prefetches_are_left_out_together_and_have_a_line_each():
    far = "prefetch{what=rows loop=indices ahead=16 locality=2}"
    near = "prefetch{what=rows loop=indices ahead=4 locality=3}"
    found = gn.compile("gather", "300x16xf32", "50xi64", schedule=f"{far},{near}").explain(rounds=1)
    (ablation,) = found.ablations
    assert ablation.left_out == f"{far},{near}"
    assert shorter_schedules(Schedule.parse(found.schedule)) == {f"{far},{near}": Schedule()}
    first, last = found.sections()[
        "Without a pass, the time of a call, and how many times as fast the whole schedule is"
    ]
    assert first == f"{far},"
    assert last.startswith(near) and last.endswith(f"{ablation.times_as_fast:.2f}x")


def test_every_field_of_a_schedule_is_left_out_once_in_the_order_of_the_pipeline():
    schedule = Schedule.parse(
        "specialize-inner{bytes=64},owner-computes{owners=2 axis=axis},tile-loops{loops=indices sizes=16},"
        "interchange-loops{order=indices_o,indices_i,inner},parallelize-loops{loops=indices_o},"
        "hoist-indices{before=indices_o},vectorize-inner{lanes=8},unroll{loop=inner factor=2},"
        "prefetch{what=rows loop=indices_i ahead=16 locality=3},stream-stores"
    )
    shorter = shorter_schedules(schedule)
    assert ",".join(shorter) == str(schedule)
    for left_out, rest in shorter.items():
        assert left_out not in str(rest)
        assert len(str(rest)) == len(str(schedule)) - len(left_out) - 1


@pytest.mark.parametrize(
    ("operator", "data", "indices", "axis"),
    [
        ("gather", "40x30xui8 strided<[60, 2]>", "9xi8", 1),
        ("gather", "40x30xf64 strided<[-30, 1]>", "3x4xui64", 0),
        ("gather_nd", "9x8x7xf32", "5x2xi32", 0),
        ("gather_elements", "9x8xf32", "4x8xi64", 0),
        ("gather_grad", "40x16xf32", "30xi64", 0),
    ],
)
def test_every_operator_and_layout_is_explained_over_made_up_arrays(operator, data, indices, axis):
    found = gn.compile(operator, data, indices, axis, schedule="").explain(rounds=1)
    assert found.measured_us > 0
    assert set(dict(found.model_bound.traffic.streams)) == (
        {"indices", "grad", "output"} if operator.endswith("_grad") else {"indices", "data", "output"}
    )


def test_given_arrays_of_other_sizes_are_explained_as_they_are():
    kernel = gn.compile("gather", "300x16xf32", "50xi64", schedule=TILED)
    data, indices = np.ones((70, 32), np.float32)[::2], np.array([0, 34, -1])
    found = kernel.explain(data, indices, rounds=1)
    assert found.gather.startswith("gather 35x32xf32 strided<[64, 1]> by 3xi64")
    assert found.schedule == TILED


def test_out_takes_the_result():
    data, indices = np.arange(60, dtype=np.float32).reshape(20, 3), np.array([3, -1, 19])
    out = np.zeros((3, 6), np.float32)[:, ::2]
    explain(gn.compile("gather", data, indices, schedule=TILED), data, indices, out, rounds=1)
    np.testing.assert_array_equal(out, data[indices])


def test_a_schedule_that_gives_other_bytes_is_an_internal_error(monkeypatch):
    kernel = gn.compile("gather", "20x3xi32", "5xi64", schedule=TILED)
    call = gn.Kernel.__call__

    def wrong(self, data, indices, out=None):
        result = call(self, data, indices, out)
        if not str(self.schedule):
            result[0] += 1
        return result

    monkeypatch.setattr(gn.Kernel, "__call__", wrong)
    with pytest.raises(InternalError, match=r"^without tile-loops\{.*\} the bytes are others than with the whole"):
        kernel.explain(rounds=1)


def test_made_up_arrays_that_do_not_fit_are_rejected_before_they_are_made():
    with pytest.raises(SampleError) as caught:
        gn.compile("gather", "100000000000x1024xf32", "1000xi64", schedule="").explain()
    assert re.fullmatch(
        r"data 100000000000x1024xf32 and indices 1000xi64, their result and two copies of it take 381,?469.7 GiB, and "
        r"[\d.]+ GiB of memory are free; pass arrays of your own, or compile the kernel for smaller ones",
        str(caught.value),
    )


def test_made_up_arrays_have_the_layout_and_indices_inside():
    problem = gn.compile("gather", "300x8xi16 strided<[-32, 2]>", "1000xi8", schedule="").problem
    data, indices = sample_arrays(problem)
    assert (data.shape, data.strides, data.dtype) == ((300, 8), (-64, 4), np.int16)
    assert (indices.shape, indices.dtype) == ((1000,), np.int8)
    assert indices.min() >= 0 and len(np.unique(indices)) == 128
    assert len(np.unique(data)) > 1000
    again = sample_arrays(problem)
    np.testing.assert_array_equal(again[0], data)
