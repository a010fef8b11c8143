"""Settings: where their values come from, what they do, and what they reject."""

import threading
from pathlib import Path

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host.knobs import KNOBS, KnobError

DATA, INDICES = np.arange(12.0).reshape(4, 3), np.array([3, 0, -2])
WANTED = DATA[INDICES].tolist()


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for knob in KNOBS.values():
        if knob.variable != "GATHERNEST_CACHE_DIR":
            monkeypatch.delenv(knob.variable, raising=False)
    yield
    for name in KNOBS:
        delattr(gn.knobs, name)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("cache_limit_mb", 512),
        ("num_threads", None),
        ("dump_dir", None),
        ("interpret", False),
        ("always_compile", False),
        ("schedule", None),
        ("no_color", False),
    ],
)
def test_a_knob_without_a_setting_has_its_default(name, default):
    assert getattr(gn.knobs, name) == default


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num_threads", "3", 3),
        ("interpret", "1", True),
        ("interpret", "true", True),
        ("interpret", " ON ", True),
        ("interpret", "0", False),
        ("interpret", "off", False),
        ("always_compile", "yes", True),
        ("schedule", "parallelize-loops{loops=indices}", "parallelize-loops{loops=indices}"),
        ("no_color", "anything", True),
    ],
)
def test_a_knob_reads_its_environment_variable(monkeypatch, name, text, value):
    monkeypatch.setenv(KNOBS[name].variable, text)
    assert getattr(gn.knobs, name) == value


@pytest.mark.parametrize("name", KNOBS)
def test_an_empty_environment_variable_is_an_unset_one(monkeypatch, name):
    monkeypatch.setenv(KNOBS[name].variable, "")
    assert getattr(gn.knobs, name) == KNOBS[name].default


def test_a_scope_goes_before_an_assignment_and_that_before_the_environment(monkeypatch):
    monkeypatch.setenv("GATHERNEST_NUM_THREADS", "1")
    gn.knobs.num_threads = 2
    with gn.knobs.scope(num_threads=3):
        assert gn.knobs.num_threads == 3
        with gn.knobs.scope(num_threads=4):
            assert gn.knobs.num_threads == 4
        assert gn.knobs.num_threads == 3
    assert gn.knobs.num_threads == 2
    del gn.knobs.num_threads
    assert gn.knobs.num_threads == 1


def test_an_error_of_a_call_says_where_the_schedule_is_from(monkeypatch):
    monkeypatch.setenv("GATHERNEST_SCHEDULE", "x")
    with pytest.raises(gn.ScheduleError, match=r"^GATHERNEST_SCHEDULE: 'x' is not a pass of a schedule"):
        gn.gather([1], [0])
    with gn.knobs.scope(schedule="y"), pytest.raises(gn.ScheduleError, match=r"^knobs.schedule: 'y' is not a pass"):
        gn.gather([1], [0])


def test_a_knob_says_where_its_value_is_from(monkeypatch):
    monkeypatch.setenv("GATHERNEST_DUMP_DIR", "a")
    assert (gn.knobs.place("dump_dir"), gn.knobs.told("dump_dir")) == ("GATHERNEST_DUMP_DIR", "GATHERNEST_DUMP_DIR=a")
    gn.knobs.dump_dir = "b"
    assert gn.knobs.told("dump_dir") == "knobs.dump_dir=b"
    with gn.knobs.scope_of_options(dump_dir=("--dump-dir", "c")):
        assert (gn.knobs.dump_dir, gn.knobs.told("dump_dir")) == (Path("c"), "--dump-dir c")
        with gn.knobs.scope(dump_dir="d"):
            assert gn.knobs.told("dump_dir") == "knobs.dump_dir=d"
    with gn.knobs.scope(dump_dir="c"):
        assert gn.knobs.place("dump_dir") == "knobs.dump_dir"
    del gn.knobs.dump_dir
    with pytest.raises(KnobError, match=r"^--threads 0 is not allowed; set it to a whole number from 1 below 2\*\*31$"):
        gn.knobs.scope_of_options(num_threads=("--threads", 0)).__enter__()


def test_a_scope_ends_with_an_error_inside_it():
    with pytest.raises(ZeroDivisionError), gn.knobs.scope(num_threads=3):
        1 / 0  # noqa: B018
    assert gn.knobs.num_threads is None


def test_a_scope_holds_for_its_own_thread_and_an_assignment_for_every_one():
    seen = []
    gn.knobs.interpret = True  # which holds for every thread
    with gn.knobs.scope(num_threads=3):
        thread = threading.Thread(target=lambda: seen.extend([gn.knobs.num_threads, gn.knobs.interpret]))
        thread.start()
        thread.join()
    assert seen == [None, True]


def test_interpret_runs_the_interpreter_and_compiles_nothing(forget, cache_dir):
    with gn.knobs.scope(interpret=True):
        assert gn.gather(DATA, INDICES).tolist() == WANTED
    assert not cache_dir.exists()


def test_interpret_rejects_a_bad_index_with_the_same_message_and_leaves_out_untouched():
    messages = []
    for interpret in (False, True):
        out = np.full((3, 3), 7.0)
        with gn.knobs.scope(interpret=interpret), pytest.raises(gn.BoundsError) as caught:
            gn.gather(DATA, [3, 9, -2], out=out)
        assert (out == 7).all()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.thorough
def test_interpret_from_the_environment_needs_no_numba(python):
    code = """
        import sys, gathernest as gn
        print(gn.gather([1, 2, 3], [2, 0]).tolist(), "numba" in sys.modules)
    """
    assert python(code, GATHERNEST_INTERPRET="1").strip() == "[3, 1] False"


def test_always_compile_neither_reads_nor_writes_the_cache(forget, cache_dir):
    with gn.knobs.scope(always_compile=True, schedule=""):
        assert gn.gather(DATA, INDICES).tolist() == WANTED
    assert not cache_dir.exists()


def test_dump_dir_that_cannot_be_written_is_named(forget, cache_dir, monkeypatch):
    monkeypatch.setenv("GATHERNEST_DUMP_DIR", __file__)
    with pytest.raises(KnobError) as raised:
        gn.gather(DATA, INDICES)
    said = "cannot be written (Not a directory); set it to another folder, or leave it out"
    assert str(raised.value) == f"GATHERNEST_DUMP_DIR={__file__} {said}"


def test_a_schedule_from_the_environment_is_part_of_the_key(forget, monkeypatch):
    keys = set()
    for size in ("2", "3"):
        monkeypatch.setenv("GATHERNEST_SCHEDULE", f"tile-loops{{loops=indices sizes={size}}}")
        keys.add(gn.compile("gather", DATA, INDICES).key)
        assert gn.gather(DATA, INDICES).tolist() == WANTED
    assert len(keys) == 2


def test_a_path_in_a_home_folder_that_nobody_knows_is_not_allowed(monkeypatch):
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", "~nobody-of-that-name/cache")
    with pytest.raises(KnobError, match=r"GATHERNEST_CACHE_DIR='~nobody-of-that-name/cache' is not allowed; set it to"):
        _ = gn.knobs.cache_dir
