"""Tuned schedules in use: which calls take them, and what a file of them can do wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.tune import tune
from gathernest.kernels.tuned_schedules.records import TuningWarning, write_records

DATA, INDICES = "1000x64xf32", "4000xi64"
SMALL, LARGE = "tile-loops{loops=indices sizes=3}", "tile-loops{loops=indices sizes=700}"
ILLEGAL = "tile-loops{loops=rows sizes=4}"
pytestmark = pytest.mark.usefixtures("own_records")


def test_problems_of_one_class_share_a_record_and_others_do_not(timed):
    timed({LARGE: 0.5})
    tune("gather", DATA, INDICES, candidates=[LARGE])

    def is_tuned(data: str, indices: str, **options) -> bool:
        with gn.knobs.scope(interpret=True):
            return str(gn.compile("gather", data, indices, **options).schedule) == LARGE

    assert is_tuned("1100x64xi32", "80x50xi64")
    assert is_tuned("1x1000x64xf32", "4400xi64", axis=1)
    assert not is_tuned("1000x63xf32", INDICES)
    assert not is_tuned("2000x64xf32", INDICES)
    assert not is_tuned(DATA, "9000xi64")
    assert not is_tuned(DATA, "4000xi32")
    assert not is_tuned("1000x64xf64", INDICES)
    assert not is_tuned(DATA, INDICES, bounds="zero")
    with gn.knobs.scope(num_threads=1):
        assert not is_tuned(DATA, INDICES)


def test_the_knob_switches_tuned_schedules_off_and_on(timed):
    data, indices = np.arange(64000, dtype="f4").reshape(1000, 64), np.arange(4000) % 1000
    timed({LARGE: 0.5})
    file = tune("gather", data, indices, candidates=[LARGE]).file
    with gn.knobs.scope(tuning="off"):
        assert str(gn.compile("gather", data, indices).schedule) != LARGE
        assert tune("gather", data, indices, candidates=[LARGE]).file is None
    del gn.knobs.tuning
    with gn.knobs.scope(tuning=file):
        assert str(gn.compile("gather", data, indices).schedule) == LARGE


def test_a_forced_schedule_wins_over_a_tuned_one(timed):
    timed({LARGE: 0.5})
    tune("gather", DATA, INDICES, candidates=[LARGE])
    with gn.knobs.scope(schedule=SMALL):
        assert str(gn.compile("gather", DATA, INDICES).schedule) == SMALL
    assert str(gn.compile("gather", DATA, INDICES, schedule=SMALL).schedule) == SMALL


@pytest.mark.parametrize(
    "schedule",
    [ILLEGAL, "tile-lops{}", "a-pass-of-no-schedule," * 90 + "x", "prefetch-indices{loop=indices distance=16}"],
)
def test_a_record_that_is_not_legal_is_ignored_with_one_warning(timed, schedule):
    timed({LARGE: 0.5})
    result = tune("gather", DATA, INDICES, candidates=[LARGE])
    content = json.loads(result.file.read_text())
    content["records"][result.problem_class]["schedule"] = schedule
    result.file.write_text(json.dumps(content))
    RUNTIME.forget()
    wanted = r"is ignored: (?s:.{10,230})\. Tune it again, or remove it with gathernest tune --forget"
    with pytest.warns(TuningWarning, match=wanted):
        kernel = gn.compile("gather", DATA, INDICES)
    assert kernel.schedule == result.trials[0].schedule
    data = np.arange(64000, dtype="f4").reshape(1000, 64)
    assert np.array_equal(gn.gather(data, np.arange(4000) % 1000), data[np.arange(4000) % 1000])


def test_a_damaged_file_is_one_warning_and_stays_as_it_is(tmp_path):
    file = tmp_path / "damaged.json"
    file.write_text("{")
    with gn.knobs.scope(tuning=file):
        with pytest.warns(TuningWarning, match=r"is not a file of tuning records: .* Its schedules are not used"):
            gn.compile("gather", "5x4xf32", "3xi64")
        gn.compile("gather", "5x4xf32", "4xi64")
    assert file.read_text() == "{"


def test_a_file_that_cannot_be_read_is_one_warning(tmp_path):
    with gn.knobs.scope(tuning=tmp_path), pytest.warns(TuningWarning, match=r"cannot be read \(Is a directory\)"):
        gn.compile("gather", "5x4xf32", "3xi64")


def test_an_unsound_file_is_one_warning(tmp_path, make_unsound):
    file = tmp_path / "records.json"
    write_records(file, {})
    make_unsound(file)
    with gn.knobs.scope(tuning=file):
        with pytest.warns(TuningWarning, match=r"cannot be read \(.+\), so they are not used"):
            assert gn.gather([1.0, 2.0], [1]).tolist() == [2.0]
        gn.compile("gather", "5x4xf32", "4xi64")


def test_a_shipped_file_serves_a_fresh_process(timed, python):
    timed({LARGE: 0.5})
    file = tune("gather", DATA, INDICES, candidates=[LARGE]).file
    code = f"import gathernest as gn; print(gn.compile('gather', '{DATA}', '{INDICES}').schedule)"
    assert python(code, GATHERNEST_TUNING=str(file)).strip() == LARGE


@pytest.mark.parametrize("is_linked", [False, True])
def test_the_warning_points_at_the_callers_line(python, tmp_path, is_linked):
    if is_linked:
        (tmp_path / "gathernest").symlink_to(Path(gn.__file__).parent)
    (tmp_path / "records.json").write_text("{")
    code = """
        import warnings, gathernest as gn
        with warnings.catch_warnings(record=True) as caught:
            gn.gather([1.0, 2.0], [0])
        print(*[(warning.filename, warning.lineno) for warning in caught])
    """
    assert python(code, GATHERNEST_TUNING="records.json").strip() == "('<string>', 4)"
