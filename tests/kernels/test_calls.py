"""Repeated calls, which machine code finds and runs: only those that mean what the first one meant."""

import copy
import gc
import itertools
import random
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels import calls, prepare
from gathernest.lowering.numba.call_layout import place_in_table

DATA = np.arange(20, dtype=np.float32).reshape(5, 4)
INDICES = np.array([0, -1, 2])
WANTED = DATA[INDICES]


@pytest.fixture(autouse=True)
def _forget_calls():
    calls.CALLS.forget()
    yield
    calls.CALLS.forget()


def find(data, indices, out=None, axis=0, batch_dims=0, bounds="error"):
    """Return what the native table finds, without any other way."""
    return calls.CALLS.find(data, indices, out, axis, batch_dims, bounds)


@pytest.fixture
def warm():
    """The plain call and the one with `out`, both in the table."""
    out = np.empty_like(WANTED)
    for _ in range(3):
        gn.gather(DATA, INDICES)
        gn.gather(DATA, INDICES, out=out)
    assert find(DATA, INDICES) is not None
    assert find(DATA, INDICES, out) is out
    return out


class Count:
    """Counts how often a function is called."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *arguments, **rest):
        self.calls += 1
        return self.function(*arguments, **rest)


@pytest.fixture
def planned(monkeypatch):
    """How often a call came to be prepared, from here on."""
    counter = Count(prepare.prepare)
    monkeypatch.setattr("gathernest.kernels.gather.prepare", counter)
    return counter


# what is found


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
        for number, (array, chosen, (axis, bounds)) in enumerate(cases[:30]):
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


# what is not


@pytest.mark.parametrize("dtype", ["i4", "u4", ">f4", "V4", [("a", "i2"), ("b", "i2")]])
def test_data_of_another_dtype_with_the_same_shapes_keeps_its_dtype(warm, dtype):
    data = DATA.view(dtype) if np.dtype(dtype).isnative else DATA.astype(dtype)
    for _ in range(4):
        found = gn.gather(data, INDICES)
        assert found.dtype == np.dtype(dtype)
        assert found.tobytes() == data[INDICES].tobytes()


@pytest.mark.parametrize("dtype", ["i1", "i4", "u8", ">i8"])
def test_indices_of_another_dtype_with_the_same_shapes_are_read_as_such(warm, dtype):
    indices = np.array([0, 4, 2]).astype(dtype)
    for _ in range(4):
        assert gn.gather(DATA, indices).tobytes() == DATA[[0, 4, 2]].tobytes()


@pytest.mark.parametrize("kind", [bool, float, object, str])
def test_indices_that_are_no_integers_are_refused_where_others_were_found(warm, kind):
    with pytest.raises(gn.IndexTypeError, match="indices must be integers"):
        gn.gather(DATA, np.ones(3).astype(kind))


class Labelled(np.ndarray):
    """A subclass that would notice."""

    def __array_finalize__(self, parent):
        self.label = getattr(parent, "label", None)


def test_subclasses_give_plain_arrays_and_masked_ones_are_refused(warm):
    assert find(DATA.view(Labelled), INDICES) is None
    assert find(DATA, INDICES.view(Labelled)) is None
    assert find(DATA, INDICES, warm.view(Labelled)) is None
    for _ in range(3):
        assert type(gn.gather(DATA.view(Labelled), INDICES.view(Labelled))) is np.ndarray
    with pytest.raises(gn.InvalidGatherError, match="masked"):
        gn.gather(np.ma.masked_array(DATA), INDICES)


def test_an_out_of_a_subclass_is_returned_as_it_is(warm):
    out = warm.view(Labelled)
    for _ in range(3):
        assert gn.gather(DATA, INDICES, out=out) is out
        assert out.tobytes() == WANTED.tobytes()


def test_a_read_only_out_is_refused_and_untouched_where_a_writeable_one_was_found(warm):
    warm[...] = 7
    warm.flags.writeable = False
    with pytest.raises(gn.InvalidGatherError, match="writeable"):
        gn.gather(DATA, INDICES, out=warm)
    assert (warm == 7).all()
    warm.flags.writeable = True
    assert gn.gather(DATA, INDICES, out=warm).tobytes() == WANTED.tobytes()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty((3, 5), "f4"), "shape"),
        (np.empty((4, 3), "f4"), "shape"),
        (np.empty(12, "f4"), "shape"),
        (np.empty((3, 4), "i4"), "dtype"),
        (np.empty((3, 4), ">f4"), "dtype"),
        ([[0.0]], "ndarray"),
        (np.broadcast_to(np.float32(0), (3, 4)), "read-only|broadcast"),
    ],
)
def test_a_wrong_out_is_refused_where_a_right_one_was_found(warm, out, message):
    for _ in range(2):
        with pytest.raises(gn.InvalidGatherError, match=message):
            gn.gather(DATA, INDICES, out=out)


def test_data_and_indices_may_be_read_only(warm):
    data, indices = DATA.copy(), INDICES.copy()
    data.flags.writeable = indices.flags.writeable = False
    assert find(data, indices).tobytes() == WANTED.tobytes()


def test_strided_outs_are_each_found_with_their_own_strides(warm):
    outs = [np.zeros((6, 4), "f4")[::2], np.zeros((4, 3), "f4").T, np.zeros((3, 8), "f4")[:, 1::2], warm[::-1]]
    for _ in range(4):
        for out in outs:
            out[...] = -1
            assert gn.gather(DATA, INDICES, out=out) is out
            assert np.array_equal(out, WANTED)
    assert find(DATA, INDICES, outs[0]) is outs[0]


def test_an_out_that_overlaps_itself_is_never_found(warm):
    window = np.lib.stride_tricks.as_strided(np.zeros(9, "f4"), (3, 4), (8, 4))
    for _ in range(3):
        assert gn.gather(DATA, INDICES, out=window) is window
    assert find(DATA, INDICES, window) is None


@pytest.mark.parametrize(
    "other",
    [
        {"data": DATA.view("i4")},
        {"data": np.asfortranarray(DATA)},
        {"data": np.zeros((6, 4), "f4")},
        {"data": np.zeros((5, 4, 1), "f4")},
        {"indices": INDICES.view("u8")},
        {"indices": np.zeros(6, "i8")[::2]},
        {"indices": np.zeros((3, 1), "i8")},
        {"out": None},
        {"out": np.zeros((3, 4), "i4")},
        {"out": np.zeros((4, 3), "f4").T},
        {"out": np.zeros((3, 5), "f4")},
        {"axis": 1},
        {"batch_dims": 1},
        {"bounds": "clip"},
    ],
    ids=lambda other: f"{next(iter(other))}-{next(iter(other.values()))!r:.9}",
)
def test_a_call_that_hashes_like_another_is_not_taken_for_it(warm, other):
    own = {"data": DATA, "indices": INDICES, "out": warm, "axis": 0, "batch_dims": 0, "bounds": "error"}
    words, hash_of = calls.CALLS.native(), calls.CALLS._hash
    assert words is not None
    hashes = [hash_of(*(own | changed).values()) for changed in ({}, other)]
    slot = next(words[place : place + 7] for place in calls.CALLS._kept if words[place] == hashes[0])
    place = place_in_table(words, [hashes[1]])
    words[place : place + 7] = [hashes[1], *slot[1:]]
    assert find(**(own | other)) is None
    words[place : place + 7] = slot
    assert find(**own) is warm


# overlap


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("offset", range(-14, 22))
def test_an_out_at_any_distance_from_data_gets_the_right_rows(warm, offset, step):
    memory = np.arange(80, dtype=np.float32)
    data = memory[24:44].reshape(5, 4)
    out = memory[24 + offset : 36 + offset].reshape(3, 4)[::step]
    apart = offset <= -12 or offset >= 20
    for _ in range(2):  # the first prepares `out` of these strides
        gn.gather(DATA, INDICES, out=np.zeros(12, "f4").reshape(3, 4)[::step])
        gn.gather(DATA, INDICES, out=np.zeros(12, "f4").reshape(3, 4)[::step])
    wanted = data[INDICES]
    assert (find(data, INDICES, out) is not None) == apart
    memory[24:44] = np.arange(24, 44)
    wanted = data[INDICES]
    assert gn.gather(data, INDICES, out=out) is out
    assert out.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("offset", range(-14, 5))
def test_an_out_at_any_distance_from_indices_gets_the_right_rows(offset):
    data = np.arange(20).reshape(5, 4)
    for _ in range(3):
        gn.gather(data, INDICES, out=np.zeros((3, 4), np.int64))
    memory = np.zeros(48, np.int64)
    indices, out = memory[20:23], memory[20 + offset : 32 + offset].reshape(3, 4)
    indices[:] = INDICES
    wanted = data[INDICES]
    found = find(data, indices, out)
    assert (found is not None) == (offset <= -12 or offset >= 3)
    indices[:] = INDICES
    assert gn.gather(data, indices, out=out) is out
    assert out.tobytes() == wanted.tobytes()


def test_an_out_between_the_rows_of_data_is_not_taken_for_one_apart():
    memory = np.arange(80, dtype=np.float32).reshape(10, 8)
    data, out = memory[::2, :4], memory[1:7:2, :4]
    for _ in range(3):
        assert gn.gather(data, INDICES, out=out).tobytes() == data[INDICES].tobytes()


# errors


def test_an_index_outside_is_the_same_error_and_leaves_out_untouched(warm):
    for indices in (np.array([0, 5, 1]), np.array([0, -6, 1]), np.array([9, 9, 9])):
        calls.CALLS.forget()
        with pytest.raises(gn.BoundsError) as slow:
            gn.gather(DATA, indices)
        for _ in range(3):
            gn.gather(DATA, INDICES)
            gn.gather(DATA, INDICES, out=warm)
        warm[...] = 7
        assert find(DATA, INDICES) is not None
        with pytest.raises(gn.BoundsError) as fast:
            gn.gather(DATA, indices)
        with pytest.raises(gn.BoundsError) as with_out:
            find(DATA, indices, warm)
        assert str(fast.value) == str(slow.value) == str(with_out.value)
        assert (warm == 7).all()


def test_a_result_too_large_for_memory_is_a_memory_error(warm, monkeypatch):
    data = np.broadcast_to(np.zeros(1, "u1"), (3, 1 << 46))
    for _ in range(2):
        with pytest.raises(MemoryError):
            gn.gather(data, INDICES[:1])


# knobs


def test_knobs_that_decide_what_runs_close_the_gate(warm, monkeypatch):
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
            patch.setenv(gn.kernels.knobs.KNOBS[name].variable, str(value))
            assert not is_open()
        assert is_open()


def test_other_knobs_leave_the_gate_open(warm, tmp_path):
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


def test_a_kernel_that_has_calls_refuses_what_it_refused():
    kernel = gn.compile("gather", DATA, INDICES)
    for _ in range(2):
        kernel(DATA, INDICES)
        with pytest.raises(gn.InvalidGatherError, match="this kernel was compiled for data"):
            kernel(DATA.astype("f8"), INDICES)
        with pytest.raises(gn.BoundsError, match="index 5 at position"):
            kernel(DATA, INDICES + 3)
        with pytest.raises(TypeError):
            kernel(DATA)
        with pytest.raises(TypeError):
            kernel(DATA, INDICES, None, None)
        with pytest.raises(TypeError, match="axis"):
            kernel(DATA, INDICES, axis=1)


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


# large work


def test_large_work_is_found_and_shared():
    data = np.arange(400_000, dtype=np.float32).reshape(-1, 8)
    indices = np.random.default_rng(0).integers(0, len(data), 60_000)
    out = np.empty((60_000, 8), np.float32)
    for _ in range(4):
        assert gn.gather(data, indices).tobytes() == data[indices].tobytes()
        assert gn.gather(data, indices, out=out) is out and out.tobytes() == data[indices].tobytes()
    assert find(data, indices).tobytes() == data[indices].tobytes()
    indices[41_234] = 10**9
    out[...] = 7
    with pytest.raises(gn.BoundsError, match=r"index 1000000000 at position \(41234,\)"):
        find(data, indices, out)
    assert (out == 7).all()


# memory, references, threads


def test_calls_leave_no_reference_behind(warm):
    kernel = gn.compile("gather", DATA, INDICES)
    data, indices, bad, out = DATA.copy(), INDICES.copy(), INDICES + 9, warm

    def work():
        for _ in range(200):
            gn.gather(data, indices)
            gn.gather(data, indices, out=out)
            kernel(data, indices, out)
            kernel(data, indices, out=out)
            gn.gather(data, [0, 1, 2], np.int64(0))
            with pytest.raises(gn.BoundsError):
                gn.gather(data, bad, out=out)
            with pytest.raises(gn.InvalidGatherError):
                gn.gather(data, indices, out=out[:2])

    watched = [data, indices, bad, out, data.dtype, indices.dtype, None, np.ndarray]
    work()
    gc.collect()
    before = [sys.getrefcount(value) for value in watched]
    work()
    gc.collect()
    after = [sys.getrefcount(value) for value in watched]
    assert all(abs(now - then) < 20 for now, then in zip(after, before, strict=True)), (before, after)


def test_memory_does_not_grow_with_calls(warm):
    def work():
        for _ in range(2000):
            gn.gather(DATA, INDICES)
            gn.gather(DATA, INDICES, out=warm)

    work()
    tracemalloc.start()
    try:
        work()
        before = tracemalloc.get_traced_memory()[0]
        work()
        work()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


def test_a_table_holds_no_more_calls_than_it_has_slots():
    table = calls.CallTable(8)
    for size in range(1, 60):
        data, indices = np.arange(5.0), np.zeros(size, np.int64)
        prepared = prepare.prepare(data, indices, None, gn.kernels.gather.Gather(0), gn.kernels.gather.Bounds("error"))
        table.remember(prepared, data, indices, None, calls.NO_KEYS)
        assert table.find(data, indices, None, *calls.NO_KEYS).shape == (size,)
    assert 1 <= len(table._kept) <= 8
    found = [table.find(np.arange(5.0), np.zeros(size, np.int64), None, *calls.NO_KEYS) for size in range(1, 60)]
    assert 1 <= sum(result is not None for result in found) <= 8
    assert all(result is None or not result.any() for result in found)


def test_threads_that_hammer_the_table_with_different_shapes_get_right_results():
    start, stop = threading.Barrier(6), threading.Event()

    def work(seed: int) -> int:
        rng, choose = np.random.default_rng(seed), random.Random(seed)
        cases = []
        for _ in range(40):
            data = rng.random((choose.randint(1, 9), choose.randint(1, 9)))
            indices = rng.integers(0, len(data), choose.randint(1, 9))
            cases.append((data, indices, data[indices], np.empty((len(indices), data.shape[1]))))
        start.wait()
        for _ in range(60):
            for data, indices, wanted, out in cases:
                assert gn.gather(data, indices).tobytes() == wanted.tobytes()
                assert gn.gather(data, indices, out=out).tobytes() == wanted.tobytes()
            if seed == 0:
                calls.CALLS.forget()
        stop.set()
        return seed

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(work, range(6))) == list(range(6))


def test_without_a_native_entry_every_call_goes_the_long_way(python):
    code = """
    import numpy as np, gathernest as gn
    from gathernest.lowering.numba import call_layout, entry
    entry.fields_hold = lambda: False
    from gathernest.kernels import calls
    data, indices = np.arange(20.0).reshape(5, 4), np.array([0, 4, 2])
    kernel = gn.compile("gather", data, indices)
    for _ in range(4):
        assert gn.gather(data, indices).tobytes() == kernel(data, indices).tobytes() == data[indices].tobytes()
        assert kernel(data, indices, out=np.empty((3, 4))).tobytes() == data[indices].tobytes()
    print(calls.native_entry())
    """
    assert python(code).strip() == "None"


def test_a_forked_child_finds_calls_and_remembers_its_own(python):
    code = """
    import os, numpy as np, gathernest as gn
    from gathernest.kernels import calls
    data, indices = np.arange(20.0).reshape(5, 4), np.array([0, 4, 2])
    for _ in range(3):
        gn.gather(data, indices)
    assert calls._lock.acquire()
    child = os.fork()
    if child == 0:
        found = calls.CALLS.find(data, indices, None, 0, 0, "error")
        for _ in range(3):
            gn.gather(data, indices[:2])
        own = calls.CALLS.find(data, indices[:2], None, 0, 0, "error")
        os._exit(0 if found is not None and own.tobytes() == data[[0, 4]].tobytes() else 1)
    print(os.waitpid(child, 0)[1])
    """
    assert python(code).strip() == "0"
