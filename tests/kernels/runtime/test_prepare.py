"""What one call remembers for the next: nothing that another call must not see."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME

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


@pytest.mark.thorough
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
