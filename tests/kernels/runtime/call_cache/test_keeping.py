"""What repeated calls keep: memory, references and a table, under threads and forks; and large work."""

import contextlib
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
from gathernest.ir.operator_spec import Gather
from gathernest.ir.semantics import Bounds
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.runtime import call_cache
from gathernest.kernels.runtime.dispatch import Request
from gathernest.kernels.runtime.prepare import prepare_problem
from gathernest.lowering.native.call_layout import Header, Slot

from .conftest import DATA, INDICES, find


def prepared_gather(data, indices):
    """Return what runs a gather along axis 0."""
    return prepare_problem(Request(Gather(0), Bounds.ERROR).problem(data, indices))


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
    counts = []
    for _ in range(4):
        work()
        gc.collect()
        counts.append([sys.getrefcount(value) for value in watched])
    # Each round of a leak leaves 200 references; threads of earlier tests may take some of None in one of them.
    for value, of_rounds in zip(watched, zip(*counts, strict=True), strict=True):
        assert min(now - then for then, now in itertools.pairwise(of_rounds)) < 100, (type(value), of_rounds)


def test_a_remembered_call_keeps_its_dtypes():
    made = [np.dtype([("a", "i4")]) for _ in range(2)]
    data, out = DATA.view("i4").astype(made[0]), np.empty((3, 4), made[1])
    before = [sys.getrefcount(dtype) for dtype in made]
    for _ in range(3):
        gn.gather(data, INDICES, out=out)
        gn.gather(data, INDICES)
    assert find(data, INDICES, out) is out
    assert find(data, INDICES).dtype is made[0]
    assert all(sys.getrefcount(dtype) > count for dtype, count in zip(made, before, strict=True))
    del data, out
    call_cache.CALLS.forget()
    RUNTIME.prepared.clear()
    gc.collect()
    assert sys.getrefcount(made[1]) < before[1]


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
    table = call_cache.CallTable(8)
    for size in range(1, 60):
        data, indices = np.arange(5.0), np.zeros(size, np.int64)
        prepared = prepared_gather(data, indices)
        table.remember(prepared, data, indices, None, data.dtype, call_cache.NO_KEYS, gn.knobs.settings())
        assert table.find(data, indices, None, *call_cache.NO_KEYS).shape == (size,)
    assert 1 <= len(table._calls) <= 8
    found = [table.find(np.arange(5.0), np.zeros(size, np.int64), None, *call_cache.NO_KEYS) for size in range(1, 60)]
    assert 1 <= sum(result is not None for result in found) <= 8
    assert all(result is None or not result.any() for result in found)


def test_keys_last_while_somebody_has_them_and_no_longer():
    value, before = ("a key", 0), len(call_cache._keys)
    key = call_cache.one_object(value)
    for number in range(2 * call_cache.MOST_REMEMBERED):
        call_cache.one_object(("another key", number))
    assert call_cache.one_object(("a key", 0)) is key
    assert call_cache.one_object(("a key", 1)) is not key
    assert len(call_cache._keys) == before + 1
    del key
    assert len(call_cache._keys) == before


def with_every_opcode(work, interruption, is_traced):
    """Iterate over the opcodes of the traced functions in `work()`, which runs with `interruption()` before each."""
    seen, wanted = 0, 0

    def trace(frame, event, _):
        nonlocal seen
        if frame.f_code.co_filename != call_cache.__file__ or not is_traced(frame.f_code.co_name):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == wanted:
                sys.settrace(None)
                interruption()
        return trace

    before = sys.gettrace()
    while seen >= wanted:
        seen, wanted = 0, wanted + 1
        sys.settrace(trace)
        with contextlib.suppress(KeyboardInterrupt):
            work()
        sys.settrace(before)
        yield
    assert wanted > 20


def _interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("what", ["the same call", "another call", "forgetting", "an interrupt"])
def test_whatever_comes_between_two_steps_of_the_table_a_slot_points_to_a_call_that_lives(what):
    table, data = call_cache.CallTable(1), np.arange(5.0)
    indices = [np.zeros(size, np.int64) for size in (1, 2, 3)]
    ready = [prepared_gather(data, taken) for taken in indices]

    def remember(which):
        rest = data.dtype, call_cache.NO_KEYS, gn.knobs.settings()
        table.remember(ready[which], data, indices[which], None, *rest)

    between = {
        "the same call": lambda: remember(1),
        "another call": lambda: remember(2),
        "forgetting": table.forget,
        "an interrupt": _interrupt,
    }
    # Signals do not come between taking or releasing a lock and its block, where an interrupt would leave it locked.
    in_block = ("_place", "_clear")
    for step in (lambda: remember(1), table.forget):
        for _ in with_every_opcode(step, between[what], lambda name: what != "an interrupt" or name in in_block):
            if address := table.native()[Header.WORDS + Slot.CALL]:
                assert [call._call.ctypes.data for call in table._calls.values()] == [address]
            remember(0)
            assert table.find(data, indices[0], None, *call_cache.NO_KEYS).shape == (1,)


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
                call_cache.CALLS.forget()
        stop.set()
        return seed

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(work, range(6))) == list(range(6))


def test_without_a_native_entry_every_call_goes_the_long_way(python):
    code = """
    import numpy as np, gathernest as gn
    from gathernest.lowering.native import call_layout, fast_call
    fast_call.fields_hold = lambda: False
    from gathernest.kernels.runtime import call_cache
    from gathernest.kernels.host.runtime import RUNTIME
    data, indices = np.arange(20.0).reshape(5, 4), np.array([0, 4, 2])
    kernel = gn.compile("gather", data, indices)
    for _ in range(4):
        assert gn.gather(data, indices).tobytes() == kernel(data, indices).tobytes() == data[indices].tobytes()
        assert kernel(data, indices, out=np.empty((3, 4))).tobytes() == data[indices].tobytes()
    print(call_cache.native_entry())
    """
    assert python(code).strip() == "None"


def test_a_forked_child_finds_calls_and_remembers_its_own(python):
    code = """
    import os, threading, numpy as np, gathernest as gn
    from gathernest.kernels.runtime import call_cache
    from gathernest.kernels.host.runtime import RUNTIME
    data, indices = np.arange(20.0).reshape(5, 4), np.array([0, 4, 2])
    for _ in range(3):
        gn.gather(data, indices)
    held = threading.Event()
    def work():
        with RUNTIME.lock:
            held.set()
            sum(range(3_000_000))  # as an import or a compilation would
    threading.Thread(target=work).start()
    held.wait()
    child = os.fork()
    if child == 0:
        found = call_cache.CALLS.find(data, indices, None, 0, 0, "error")
        for _ in range(3):
            gn.gather(data, indices[:2])
        own = call_cache.CALLS.find(data, indices[:2], None, 0, 0, "error")
        os._exit(0 if found is not None and own.tobytes() == data[[0, 4]].tobytes() else 1)
    print(os.waitpid(child, 0)[1])
    """
    assert python(code).strip() == "0"
