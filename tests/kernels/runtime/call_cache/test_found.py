"""Repeated calls that machine code finds and runs, by the functions and by kernels."""

import copy
import gc
import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.runtime.prepare import Prepared

from ....selection import examples
from .conftest import DATA, INDICES, WANTED, find


def test_a_repeated_call_plans_nothing(warm, planned):
    assert gn.gather(DATA, INDICES).tobytes() == WANTED.tobytes()
    assert gn.gather(DATA, INDICES, out=warm) is warm
    assert planned.calls == 0


def test_repeated_calls_of_the_other_operators_plan_nothing(planned):
    tuples, elements = np.array([[0, 1], [-1, 2]]), np.array([[0, 1, 2, 3], [4, 3, 2, 1]])
    counts = []
    for _ in range(5):
        assert gn.gather_nd(DATA, tuples).tobytes() == DATA[[0, -1], [1, 2]].tobytes()
        by_element = gn.gather_elements(DATA, elements, bounds="zero")
        assert by_element.tobytes() == np.take_along_axis(DATA, elements, 0).tobytes()
        counts.append(planned.calls)
    assert counts == [2, 4, 4, 4, 4]


def test_a_result_is_a_new_contiguous_array_that_owns_its_memory(warm):
    first, second = gn.gather(DATA, INDICES), gn.gather(DATA, INDICES)
    for result in (first, second):
        assert type(result) is np.ndarray
        assert result.flags.c_contiguous and result.flags.owndata and result.flags.writeable
        assert (result.shape, result.dtype) == (WANTED.shape, WANTED.dtype)
    assert not np.may_share_memory(first, second)


def test_other_values_in_arrays_of_the_same_shapes_give_their_own_result(warm):
    rng = np.random.default_rng(0)
    for _ in range(50):
        data, indices = rng.random((5, 4), np.float32), rng.integers(-5, 5, 3)
        assert gn.gather(data, indices).tobytes() == data[indices].tobytes()


def test_lists_and_numpy_scalars_are_found_once_they_are_arrays(warm, planned):
    assert gn.gather(DATA, [0, -1, 2]).tobytes() == WANTED.tobytes()
    assert gn.gather(DATA, INDICES, np.int64(0)).tobytes() == WANTED.tobytes()
    assert gn.gather(DATA, INDICES, [0], batch_dims=0, bounds="".join(["err", "or"])).tobytes() == WANTED.tobytes()
    assert planned.calls == 0


@pytest.mark.parametrize(
    ("version", "indices", "attributes", "outside"),
    [
        ("openvino.Gather-8", INDICES, (0,), None),
        ("openvino.Gather-8", INDICES, (-2,), None),
        (
            "onnx.Gather-13",
            INDICES,
            (),
            "index 5 at position (0,) of indices is out of range [-5, 4] for axis 0 of size 5",
        ),
        ("onnx.GatherND-13", INDICES[:, None], (), "index 5 at position (0, 0) of indices is out of range [-5, 4]"),
        ("openvino.GatherElements-6", INDICES[:, None], (0,), "index 5 at position (0, 0) of indices is out of range"),
    ],
)
def test_repeated_calls_of_an_operator_version_plan_nothing(planned, version, indices, attributes, outside):
    operator = gn.ops[version]
    wanted, counts = WANTED if indices is INDICES or "ND" in version else WANTED[:, :1], []
    for _ in range(4):
        assert operator(DATA, indices, *attributes).tobytes() == wanted.tobytes()
        assert operator(DATA, indices.tolist(), *attributes).tobytes() == wanted.tobytes()
        counts.append(planned.calls)
    assert counts[1] == counts[3] <= 4
    wrong = indices.copy()
    wrong[0] = 5
    if outside is None:
        assert not operator(DATA, wrong, *attributes)[0].any()
    else:
        with pytest.raises(gn.BoundsError) as caught:
            operator(DATA, wrong, *attributes)
        assert str(caught.value).startswith(outside)


def test_calls_that_differ_in_one_thing_are_told_apart():
    data = np.arange(16, dtype=np.int32).reshape(2, 2, 4) - 3
    indices = np.array([[0, 1], [1, 7]])
    layouts = [data, np.asfortranarray(data), data[::-1], data.astype("i8"), data.astype(">i4"), data.astype("f4")]
    picks = [indices, indices.T, indices[:, ::-1], indices.astype("u1"), indices.astype(">i8"), indices.reshape(4)]
    modes = [(axis, bounds) for axis in (0, 1, 2, -1) for bounds in ("zero", "clip", "wrap")]
    cases = list(itertools.product(layouts, picks, modes))
    random.Random(0).shuffle(cases)
    wanted = {}
    for _ in range(3):
        for number, (array, chosen, (axis, bounds)) in enumerate(cases[: examples(40)]):
            found = gn.gather(array, chosen, axis, bounds=bounds)
            assert found.dtype == array.dtype
            wanted.setdefault(number, reference(array, chosen, axis, bounds))
            assert found.tobytes() == wanted[number].tobytes()


def reference(data, indices, axis, bounds):
    """Gather with NumPy."""
    size = data.shape[axis]
    if bounds != "zero":
        return np.take(data, indices, axis=axis, mode=bounds)
    result = np.take(data, indices, axis=axis, mode="wrap")
    outside = (indices < -size) | (indices >= size)
    moved = np.moveaxis(result, range(axis % data.ndim, axis % data.ndim + indices.ndim), range(indices.ndim))
    moved[outside] = 0
    return np.ascontiguousarray(result)


def test_a_boolean_is_no_axis_where_one_was_found(warm):
    for _ in range(2):
        with pytest.raises(gn.InvalidGatherError, match="axis must be an int"):
            gn.gather(DATA, INDICES, False)


# knobs


def test_knobs_that_decide_what_runs_make_the_guard_fail(warm, monkeypatch):
    def is_open():
        return find(DATA, INDICES) is not None

    for name, value in (("schedule", "tile-loops{loops=indices sizes=2}"), ("interpret", True), ("always_compile", 1)):
        with gn.knobs.scope(**{name: value}):
            assert not is_open()
            with gn.knobs.scope(num_threads=1):
                assert not is_open()
        assert is_open()
        setattr(gn.knobs, name, value)
        assert not is_open()
        delattr(gn.knobs, name)
        assert is_open()
        with monkeypatch.context() as patch:
            patch.setenv(gn.kernels.host.knobs.KNOBS[name].variable, str(value))
            assert not is_open()
        assert is_open()


def test_schedules_tuned_anew_or_turned_off_are_not_passed_by(warm):
    with gn.knobs.scope(tuning="off"):
        assert find(DATA, INDICES) is None
    assert find(DATA, INDICES) is not None
    RUNTIME.forget()
    assert find(DATA, INDICES) is None


@pytest.mark.parametrize(("name", "value"), [("tuning", "off"), ("machine", "zen3")])
def test_a_knob_that_plans_are_made_by_costs_nothing_after_the_first_calls(warm, planned, name, value):
    setattr(gn.knobs, name, value)
    try:
        assert find(DATA, INDICES) is None  # planned before, by what held then
        for _ in range(5):
            assert gn.gather(DATA, INDICES).tobytes() == WANTED.tobytes()
        assert planned.calls == 2
        setattr(gn.knobs, name, value)
        assert find(DATA, INDICES) is not None
    finally:
        delattr(gn.knobs, name)
    assert find(DATA, INDICES) is None


def test_a_call_in_a_scope_of_such_a_knob_is_not_remembered_for_the_time_after():
    with gn.knobs.scope(tuning="off"):
        for _ in range(4):
            gn.gather(DATA, INDICES)
    assert find(DATA, INDICES) is None


def test_a_call_is_not_remembered_when_a_knob_was_assigned_while_it_ran(monkeypatch):
    prepare, calls = Prepared.run, []

    def run_and_assign(self, *arrays):
        prepare(self, *arrays)
        calls.append(arrays)
        if len(calls) == 2:  # which would be remembered
            gn.knobs.tuning = "off"

    monkeypatch.setattr(Prepared, "run", run_and_assign)
    try:
        for _ in range(2):
            gn.gather(DATA, INDICES)
        assert find(DATA, INDICES) is None
        for _ in range(2):
            gn.gather(DATA, INDICES)
        assert find(DATA, INDICES) is not None
    finally:
        del gn.knobs.tuning


def test_other_knobs_leave_the_guard_alone(warm, tmp_path):
    with gn.knobs.scope(num_threads=1, dump_dir=tmp_path):
        assert find(DATA, INDICES) is not None
    gn.knobs.schedule = None
    assert find(DATA, INDICES) is not None
    del gn.knobs.schedule


def test_an_invalid_knob_is_an_error_where_calls_were_found(warm, monkeypatch):
    monkeypatch.setenv("GATHERNEST_INTERPRET", "perhaps")
    with pytest.raises(gn.GathernestError, match="GATHERNEST_INTERPRET='perhaps' is not allowed"):
        gn.gather(DATA, INDICES)


def test_a_scope_in_one_thread_leaves_the_others_alone(warm):
    inside, leave = threading.Event(), threading.Event()

    def work():
        with gn.knobs.scope(interpret=True):
            inside.set()
            leave.wait()
            return find(DATA, INDICES)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(work)
        inside.wait()
        assert find(DATA, INDICES) is not None
        leave.set()
        assert waiting.result() is None


def test_a_call_under_a_knob_is_not_remembered_for_the_time_after():
    with gn.knobs.scope(schedule=""):
        for _ in range(4):
            gn.gather(DATA, INDICES)
    assert find(DATA, INDICES) is None


# kernels


def test_a_kernel_takes_out_by_place_and_by_name_and_other_sizes():
    kernel = gn.compile("gather", DATA, INDICES)
    out = np.empty_like(WANTED)
    larger, more = np.arange(35, dtype="f4").reshape(7, 5), np.arange(6)
    for _ in range(3):
        assert kernel(DATA, INDICES, out) is out and out.tobytes() == WANTED.tobytes()
        out[...] = 0
        assert kernel(DATA, INDICES, out=out) is out and out.tobytes() == WANTED.tobytes()
        assert kernel(DATA, INDICES).tobytes() == kernel(data=DATA, indices=[0, -1, 2]).tobytes() == WANTED.tobytes()
        assert kernel(DATA, INDICES, None).tobytes() == kernel(DATA, INDICES, out=None).tobytes() == WANTED.tobytes()
        assert kernel(larger, more).tobytes() == larger[more].tobytes()


def test_a_kernel_that_has_calls_rejects_what_it_rejected():
    kernel = gn.compile("gather", DATA, INDICES)
    for _ in range(2):
        kernel(DATA, INDICES, np.empty_like(WANTED))
        with pytest.raises(gn.InvalidGatherError, match="this kernel was compiled for data"):
            kernel(DATA.astype("f8"), INDICES)
        with pytest.raises(gn.BoundsError, match="index 5 at position"):
            kernel(DATA, INDICES + 3)
        with pytest.raises(TypeError):
            kernel(DATA)
        with pytest.raises(TypeError):
            kernel(DATA, INDICES, None, None)
        with pytest.raises(TypeError, match="result"):
            kernel(DATA, INDICES, result=np.empty_like(WANTED))


def test_a_kernel_keeps_to_its_own_schedule_and_bounds():
    schedule = gn.Schedule.parse("tile-loops{loops=indices sizes=2}")
    clipping = gn.compile("gather", DATA, INDICES, bounds="clip", schedule=schedule)
    strict = gn.compile("gather", DATA, INDICES)
    for _ in range(3):
        assert clipping(DATA, INDICES + 9).tobytes() == DATA[[4, 4, 4]].tobytes()
        with pytest.raises(gn.BoundsError):
            strict(DATA, INDICES + 9)
    assert clipping.schedule == schedule


def test_a_gradient_kernel_and_function_give_the_same_on_every_call():
    grad, indices = np.arange(12.0).reshape(3, 4), np.array([1, 1, 0])
    kernel = gn.compile("gather_grad", "5x4xf64", indices)
    wanted = np.zeros((5, 4))
    np.add.at(wanted, indices, grad)
    out = np.full((5, 4), 9.0)
    for _ in range(4):
        assert kernel(grad, indices).tobytes() == wanted.tobytes()
        assert kernel(grad, indices, out) is out and out.tobytes() == wanted.tobytes()
        assert gn.gather_grad(grad, indices, (5, 4)).tobytes() == wanted.tobytes()
        assert gn.gather_grad(grad, indices, (7, 4)).shape == (7, 4)
        assert gn.gather_grad(grad, indices, (5, 4), scale=2.0).tobytes() == (2 * wanted).tobytes()


def test_a_kernel_can_be_copied_and_dies_with_its_last_name():
    kernel = gn.compile("gather", DATA, INDICES)
    kernel(DATA, INDICES)
    twin, call = copy.copy(kernel), kernel.func
    assert twin(DATA, INDICES).tobytes() == WANTED.tobytes()
    assert repr(twin) == repr(kernel)
    del kernel, twin
    gc.collect()
    assert call(DATA, INDICES).tobytes() == WANTED.tobytes()
