"""Tuning a problem: what is compiled, compared, timed and recorded. Times are made up; no clock is read here."""

import os

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host.cpu import OtherLoad
from gathernest.kernels.host.timing import Timings
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.tune import tune
from gathernest.kernels.tuned_schedules.records import TuningWarning, read_records
from gathernest.kernels.tuning import tuner
from gathernest.kernels.tuning.sample_arrays import sample_arrays
from gathernest.kernels.tuning.tuner import Progress, Tuner, TuningResult

DATA, INDICES = "1000x64xf32", "4000xi64"
SMALL, LARGE, SERIAL = "tile-loops{loops=indices sizes=3}", "tile-loops{loops=indices sizes=700}", ""
MIDDLE = "tile-loops{loops=indices sizes=70}"
SHARED = "parallelize-loops{loops=indices}"
ILLEGAL, UNKNOWN = "tile-loops{loops=rows sizes=4}", "parallelize-loops{loops=inner}"


def outcomes(result: TuningResult) -> dict[str, str]:
    return {str(trial.schedule): trial.outcome for trial in result.trials[1:]}


pytestmark = pytest.mark.usefixtures("own_records")


@pytest.fixture
def serial_default():
    """Let the default be one thread, which compiles sooner."""
    with gn.knobs.scope(schedule=""):
        yield


def test_the_fastest_candidate_wins_is_recorded_and_used(timed):
    timed({SMALL: 0.8, LARGE: 0.5})
    result = tune("gather", DATA, INDICES, candidates=[SMALL, gn.Schedule.parse(LARGE), SERIAL])
    assert str(result.schedule) == LARGE
    assert outcomes(result) == {LARGE: "winner", SMALL: "timed", SERIAL: "timed"}
    assert result.summary == f"{LARGE} is 2.00 times as fast as the default; it won 21 of 21 pairs"
    assert gn.compile("gather", DATA, INDICES).schedule == result.schedule
    record = read_records(result.file)[result.problem_class]
    assert (record.schedule, record.default, record.ratio) == (LARGE, str(result.trials[0].schedule), 2.0)
    assert (record.default_us, record.winner_us, record.pairs, record.wins) == (1e6, 5e5, 21, 21)
    assert record.problem == {
        "operator": "gather",
        "data": DATA,
        "indices": INDICES,
        "axis": 0,
        "batch_dims": 0,
        "bounds": "error",
    }


def test_a_call_that_was_planned_before_takes_the_tuned_schedule(timed):
    data, indices = np.arange(64000.0).reshape(1000, 64), np.arange(4000) % 1000
    before = gn.gather(data, indices)
    timed({LARGE: 0.5})
    tune("gather", data, indices, candidates=[LARGE])
    kernel = gn.compile("gather", data, indices)
    assert str(kernel.schedule) == LARGE
    assert np.array_equal(gn.gather(data, indices), before)


@pytest.mark.parametrize(("time_s", "won"), [(0.99, 21), (1.0, 0), (1.2, 0)])
def test_the_default_stays_when_no_other_is_two_percent_faster(timed, time_s, won):
    timed({LARGE: time_s, SERIAL: 1.5})
    result = tune("gather", DATA, INDICES, candidates=[LARGE, SERIAL])
    assert result.is_default
    assert result.schedule == result.trials[0].schedule
    assert result.summary == (
        f"the default stays: the best other schedule was {1 / time_s:.2f} times as fast and won {won} of 21 pairs; "
        "17 are needed, and a ratio of 1.02"
    )
    assert read_records(result.file)[result.problem_class].schedule is None
    assert gn.compile("gather", DATA, INDICES).schedule == result.schedule


def test_a_default_that_wins_takes_an_older_records_place(timed):
    timed({LARGE: 0.5})
    tune("gather", DATA, INDICES, candidates=[LARGE])
    timed({LARGE: 1.5})
    assert tune("gather", DATA, INDICES, candidates=[LARGE]).is_default
    assert str(gn.compile("gather", DATA, INDICES).schedule) != LARGE


@pytest.mark.parametrize("candidate", [SMALL, gn.Schedule.parse(SMALL)])
def test_one_schedule_is_one_candidate(timed, serial_default, candidate):
    timed({SMALL: 0.5})
    assert outcomes(tune("gather", DATA, INDICES, candidates=candidate)) == {SMALL: "winner"}


def test_failures_are_kept_with_their_reason(timed, serial_default):
    timed({LARGE: 0.5})
    result = tune("gather", DATA, INDICES, candidates=[ILLEGAL, UNKNOWN, LARGE])
    failed = {str(trial.schedule): trial.reason for trial in result.trials if trial.outcome == "failed"}
    assert "the nest has no loop 'rows'" in failed[ILLEGAL]
    assert "inner stands in indices, which is not parallel" in failed[UNKNOWN]
    assert [trial.outcome for trial in result.trials] == ["default", "winner", "failed", "failed"]


def test_nothing_is_won_where_every_other_fails(timed, serial_default):
    timed({LARGE: 0.5})
    tune("gather", DATA, INDICES, candidates=[LARGE])
    result = tune("gather", DATA, INDICES, candidates=[ILLEGAL])
    assert result.is_default
    assert result.summary == "the default stays: no other schedule could be timed to the end"
    assert read_records(result.file) == {}


def test_a_schedule_that_gives_other_bytes_cannot_win(timed, serial_default, monkeypatch):
    timed({LARGE: 0.5})
    prepared = tuner.prepare_problem

    class Wrong:
        def __init__(self, right):
            self.right = right

        def run(self, source, indices, out):
            self.right.run(source, indices, out)
            out[0, 0] += 1

    monkeypatch.setattr(
        tuner, "prepare_problem", lambda problem, s: Wrong(prepared(problem, s)) if s.tiles else prepared(problem, s)
    )
    result = tune("gather", np.zeros((1000, 64), "f4"), INDICES, candidates=[LARGE])
    assert result.is_default
    assert result.trials[1].outcome == "failed"
    assert result.trials[1].reason == (
        f"it gives other bytes than the default; please report it with the schedule {LARGE}"
    )


def test_a_far_slower_candidate_is_abandoned_after_a_round_and_another(timed, serial_default):
    heats = timed({SMALL: 0.5, LARGE: 1.6})
    result = tune("gather", DATA, INDICES, candidates=[SMALL, LARGE])
    assert outcomes(result) == {SMALL: "winner", LARGE: "abandoned"}
    assert result.trials[2].reason == "it takes 3.2 times as long as the best so far"
    assert result.trials[2].time_us == 1.6e6
    assert [heat for heat in heats if LARGE in heat] == [[SERIAL, LARGE]] * 2


def test_one_slow_round_does_not_end_a_candidate(timed, serial_default, monkeypatch):
    slow = iter([9.0])

    def timer(candidates, *, rounds):
        first = {LARGE: next(slow, 0.5)} if LARGE in candidates else {}
        return Timings({name: [first.get(name, 1.0)] * rounds for name in candidates})

    monkeypatch.setattr(Tuner.__init__, "__kwdefaults__", Tuner.__init__.__kwdefaults__ | {"timer": timer})
    assert outcomes(tune("gather", DATA, INDICES, candidates=[LARGE])) == {LARGE: "winner"}


def test_on_a_busy_machine_one_thread_cannot_win_over_several(timed):
    timed({SERIAL: 0.1, SHARED: 0.5})
    problem = problem_of("gather", DATA, INDICES)
    busy = Tuner(problem, *sample_arrays(problem), busy_cores=lambda: 1.3)
    result = busy.run([gn.Schedule.parse(SERIAL), gn.Schedule.parse(SHARED)])
    assert outcomes(result) == {SERIAL: "timed", SHARED: "winner"}
    assert result.busy_cores == 1.3
    assert result.summary.endswith(
        "; it won 21 of 21 pairs; other processes used 1.3 cores meanwhile, so only schedules that start threads where "
        "the default does could win"
    )


@pytest.mark.parametrize(("step", "reason"), [(1, "compiling took 9.0 s"), (2, "one call took 9.0 s")])
def test_a_candidate_over_the_time_limit_is_abandoned(timed, serial_default, step, reason):
    timed({LARGE: 0.1})
    ticks = iter([0.0, 9.0 if step == 1 else 1.0, 10.0])
    problem = problem_of("gather", DATA, INDICES)
    tuned = Tuner(problem, *sample_arrays(problem), time_limit_s=5, clock=lambda: next(ticks))
    result = tuned.run([gn.Schedule.parse(LARGE)])
    assert outcomes(result) == {LARGE: "abandoned"}
    assert result.trials[1].reason == reason
    assert result.is_default


def test_the_search_goes_on_from_the_two_fastest_and_the_default(timed, serial_default, monkeypatch):
    timed({SMALL: 0.8, LARGE: 0.6, MIDDLE: 0.9})
    asked = []

    def search(space, keep):
        assert space.nest.copied[-1] == ("inner", 64)
        assert (space.default, space.is_gradient) == (gn.Schedule(), False)
        schedules = [gn.Schedule.parse(text) for text in (SERIAL, SMALL, MIDDLE, ILLEGAL, LARGE)]
        asked.append([str(schedule) for schedule in keep(schedules)])

    monkeypatch.setattr(tuner, "search", search)
    result = tune("gather", DATA, INDICES)
    assert asked == [[SERIAL, LARGE, SMALL]]
    assert outcomes(result) == {LARGE: "winner", SMALL: "timed", MIDDLE: "timed", ILLEGAL: "failed"}


@pytest.mark.draw(2)
@pytest.mark.parametrize(
    ("operator", "data", "indices", "options"),
    [
        ("gather_nd", "30x40x8xf32", "9000x2xi32", {}),
        ("gather_elements", "300x40xf64", "300x40xui8", {"axis": 1}),
        ("gather", "40x3x64xS6", "40x50xi16", {"axis": 1, "batch_dims": 1, "bounds": "zero"}),
        ("gather", "4x3xf32 strided<[-1, 4]>", "90000xi64", {}),
        ("gather_grad", "900x16xf32", "5000xi64", {"scale": 0.5}),
    ],
)
def test_every_operator_can_be_tuned_from_its_description(timed, operator, data, indices, options):
    timed({SERIAL: 0.5})
    result = tune(operator, data, indices, candidates=[SERIAL], **options)
    assert outcomes(result) == {SERIAL: "winner"}
    assert problem_of(**read_records(result.file)[result.problem_class].problem) == result.problem


def test_progress_tells_every_step_and_the_best_so_far(timed, serial_default):
    timed({SMALL: 0.8, LARGE: 0.5})
    seen: list[Progress] = []
    tune("gather", DATA, INDICES, candidates=[SMALL, LARGE], progress=seen.append)
    assert [step.doing for step in seen] == [
        "compiling the default",
        SMALL,
        LARGE,
        "racing",
        "confirming the winner",
        "done",
    ]
    assert [step.done for step in seen] == [0, 1, 2, 3, 4, 5]
    assert [step.total for step in seen] == [3, 5, 5, 5, 5, 5]
    bests = [None if step.best is None else (str(step.best[0]), step.best[1]) for step in seen]
    assert bests == [None, None, (SMALL, 1.25), (LARGE, 2.0), (LARGE, 2.0), (LARGE, 2.0)]


def test_a_result_that_cannot_be_written_is_a_warning(timed, serial_default, tmp_path):
    (tmp_path / "file").write_text("")
    timed({LARGE: 0.5})
    warned = pytest.warns(TuningWarning, match=r"records.json cannot be written \(.*\), so they stay as they were")
    with gn.knobs.scope(tuning=tmp_path / "file" / "records.json"), warned:
        result = tune("gather", DATA, INDICES, candidates=[LARGE])
    assert result.file is None
    assert str(result.schedule) == LARGE


def test_the_interpreter_is_not_tuned():
    with (
        gn.knobs.scope(interpret=True),
        pytest.raises(gn.GathernestError, match="GATHERNEST_INTERPRET is set; unset it"),
    ):
        tune("gather", DATA, INDICES)


def test_other_load_is_what_cores_did_beside_this_process(tmp_path):
    core = min(os.sched_getaffinity(0))
    stat = tmp_path / "stat"
    stat.write_text(f"cpu 1 1 1 1 1 1 1 1 0 0\ncpu{core} 0 0 0 50 50 0 0 0 0 0\ncpu9999 5 5 5 5 5 5 5 5 0 0\n")
    load = OtherLoad(stat)
    stat.write_text(f"cpu{core} 900000 0 0 99 99 0 0 0 0 0\n")
    assert load.cores() > 100
    assert OtherLoad(tmp_path / "missing").cores() == 0


def test_dask_arrays_are_not_tuned():
    dask_array = pytest.importorskip("dask.array")
    with pytest.raises(
        gn.InvalidGatherError, match="data is a dask array, and tuning times arrays in memory; pass one"
    ):
        tune("gather", dask_array.zeros((9, 4)), INDICES)


@pytest.mark.parametrize(
    ("data", "indices"),
    [
        ("9x4xf32", "7xi64"),
        ("300xS3", "7x2xi8"),
        ("4x3xf32 strided<[-1, 8]>", "6xui16"),
        ("5x4xf32 strided<[0, 1]>", "2xi64"),
    ],
)
def test_sample_arrays_are_as_described_and_their_indices_inside(data, indices):
    problem = problem_of("gather", data, indices)
    made, index = sample_arrays(problem)
    for array, spec in ((made, problem.table), (index, problem.indices)):
        assert (array.shape, array.dtype, array.strides) == (spec.shape, spec.dtype, spec.strides)
    assert index.min() >= 0
    assert index.max() < problem.axis_sizes[0]


def test_sample_tuples_stay_inside_each_axis():
    _, index = sample_arrays(problem_of("gather_nd", "3x500xf32", "4000x2xi64"))
    assert index[:, 0].max() == 2
    assert 400 < index[:, 1].max() < 500
