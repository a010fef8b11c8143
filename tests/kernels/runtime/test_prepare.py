"""What one call remembers for the next: nothing that another call must not see."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.runtime import call_cache, dispatch, prepare

DATA = np.arange(12.0).reshape(4, 3)


def test_a_gather_that_was_interpreted_is_compiled_without_the_knob(forget, serial):
    with gn.knobs.scope(interpret=True):
        assert gn.gather(DATA, [3, 0]).tolist() == DATA[[3, 0]].tolist()
    assert gn.gather(DATA, [3, 0]).tolist() == DATA[[3, 0]].tolist()
    (loaded,) = (found.loaded for found in RUNTIME.prepared.values() if found.loaded is not None)
    assert loaded.program.source


def test_a_forced_schedule_does_not_serve_a_call_without_it(forget):
    schedules = ["", "tile-loops{loops=indices sizes=2}", ""]
    for schedule in schedules:
        with gn.knobs.scope(schedule=schedule):
            assert gn.gather(DATA, [3, 0]).tolist() == DATA[[3, 0]].tolist()
    assert sorted(str(found.plan.schedule) for found in RUNTIME.prepared.values()) == sorted(set(schedules))


def test_an_operator_version_and_the_plain_gather_each_have_their_own_message(forget, serial):
    with pytest.raises(gn.BoundsError) as plain:
        gn.gather(DATA, [9])
    with pytest.raises(gn.BoundsError) as versioned:
        gn.ops["onnx.Gather-13"](DATA, [9])
    assert str(plain.value) == f"{versioned.value}; use bounds='zero', 'clip' or 'wrap' to allow it"


def test_layouts_of_one_shape_each_have_their_own_numbers(forget, serial):
    indices = np.array([[3, 0], [1, 2]])
    for picks in (indices, indices.T, np.repeat(indices, 2, axis=1)[:, ::2]):
        for out in (None, np.zeros((3, 2, 2)).T, np.zeros((2, 2, 6))[..., ::2]):
            assert gn.gather(DATA, picks, out=out).tolist() == DATA[picks].tolist()


def test_always_compile_takes_no_kernel_that_is_loaded(forget, cache_dir, serial):
    gn.gather(DATA, [3, 0])
    ((key, before),) = RUNTIME.loaded.items()
    with gn.knobs.scope(always_compile=True):
        gn.gather(DATA, [3, 0])
    assert list(RUNTIME.loaded) == [key]
    assert RUNTIME.loaded[key] is not before


def test_no_more_calls_are_remembered_than_there_is_room_for(forget, monkeypatch):
    monkeypatch.setattr(dispatch, "MOST_REMEMBERED", 2)
    for size in range(1, 6):
        assert gn.gather(np.zeros((size, 0)), np.zeros(0, np.int64)).shape == (0, 0)
        assert 1 <= len(RUNTIME.prepared) <= 2


def test_a_knob_that_another_thread_sets_meanwhile_changes_nothing_of_this_call(forget, serial, monkeypatch):
    planned = prepare.planned

    def planned_meanwhile(*arguments):
        gn.knobs.interpret = True
        return planned(*arguments)

    monkeypatch.setattr(prepare, "planned", planned_meanwhile)
    try:
        assert gn.gather(DATA, [3, 0]).tolist() == DATA[[3, 0]].tolist()
    finally:
        del gn.knobs.interpret
    (prepared,) = RUNTIME.prepared.values()
    assert prepared.loaded is not None


def test_an_index_outside_that_a_remembered_call_finds_is_looked_for_once(forget, monkeypatch):
    data, indices = np.arange(12.0).reshape(4, 3), np.array([3, 0])
    for _ in range(3):
        gn.gather(data, indices)
    monkeypatch.setattr(prepare.Prepared, "run", None)  # a second run of the kernel would call it
    with pytest.raises(gn.BoundsError, match=r"index 9 at position \(1,\) of indices"):
        gn.gather(data, np.array([0, 9]))


def test_the_same_question_is_asked_of_the_table_once(forget, monkeypatch):
    questions = []
    monkeypatch.setattr(call_cache.CALLS, "find", lambda *asked: questions.append(asked))
    for arguments in ((DATA, np.array([3, 0])), (DATA, [3, 0]), (DATA, np.array([3, 0]), np.int64(0))):
        questions.clear()
        gn.gather(*arguments)
        same = [[id(value) for value in asked] for asked in questions]
        assert len(same) == len({tuple(ids) for ids in same})
