"""Launches: when they are parallel, and on how many threads."""

import gc
import itertools
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import pytest
from numba.np.ufunc import parallel

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.runtime import launch as threads
from gathernest.kernels.runtime.call_cache import CALLS
from gathernest.kernels.runtime.launch import available_threads, launch
from gathernest.lowering.native.call_layout import At

MOST = numba.config.NUMBA_NUM_THREADS


needs_two_threads = pytest.mark.skipif(MOST < 2, reason="this machine gives Numba one thread only")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("variable", "text", "allowed", "with_knob"),
    [
        ("OMP_NUM_THREADS", "1", 1, 2),
        pytest.param("OMP_NUM_THREADS", " 1,4 ", 1, 2, marks=pytest.mark.thorough),
        pytest.param("OMP_NUM_THREADS", "many", 2, 2, marks=pytest.mark.thorough),
        pytest.param("OMP_NUM_THREADS", "0", 2, 2, marks=pytest.mark.thorough),
        pytest.param("OMP_NUM_THREADS", "9" * 5000, 2, 2, marks=pytest.mark.thorough, id="OMP-digits"),
        pytest.param("NUMBA_NUM_THREADS", "1", 1, 1, marks=pytest.mark.thorough),
        pytest.param("NUMBA_NUM_THREADS", "1000000000", 2, 2, marks=pytest.mark.thorough),
    ],
)
@needs_two_threads
def test_a_launch_uses_as_many_threads_as_variables_allow(python, variable, text, allowed, with_knob):
    """The knob goes before what OpenMP was given; a team is not started where one thread is enough.

    The process prints the number of its cores each time, as a system may take one away for a while.
    """
    code = """
    import os, numpy as np, gathernest as gn
    from gathernest.kernels.host.cpu import usable_cores
    from gathernest.kernels.host.runtime import RUNTIME
    from gathernest.kernels.runtime.launch import available_threads
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    data, indices = np.arange(4e5).reshape(-1, 8), np.arange(50000)
    cores = usable_cores()
    assert gn.gather(data, indices).tobytes() == data.tobytes()
    print(cores, available_threads(), RUNTIME.team is not None)
    with gn.knobs.scope(num_threads=2):
        print(usable_cores(), available_threads())
    print({name: os.environ[name] for name in os.environ if "THREADS" in name})
    """
    unset = {"OMP_NUM_THREADS": "", "GATHERNEST_NUM_THREADS": ""}
    facts, with_scope, environment = python(code, **unset | {variable: text}).splitlines()
    cores, threads, has_team = facts.split()
    assert (int(threads), has_team) == (min(int(cores), allowed), str(min(int(cores), allowed) > 1)), environment
    cores, threads = map(int, with_scope.split())
    assert threads == min(cores, with_knob), environment


class Launches:
    """A large gather whose calls are known, and what ran them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data, self.indices = np.arange(400_000.0).reshape(-1, 8), np.arange(50_000)[::-1].copy()
        self.in_python = 0
        monkeypatch.setattr(threads, "launch", self._launch)
        for _ in range(5):
            self.threads()

    def _launch(self, *arguments: Any) -> int:
        self.in_python += 1
        return launch(*arguments)

    def threads(self) -> tuple[int, bool]:
        """Return how many threads were to share a call, and whether it ran through Python's `launch`."""
        words, before = RUNTIME.team._words if RUNTIME.team else None, self.in_python
        generation = words[At.GENERATION] if words else 0
        assert gn.gather(self.data, self.indices).tobytes() == self.data[self.indices].tobytes()
        words = RUNTIME.team._words
        return (words[At.WANTED] if words[At.GENERATION] != generation else 1), self.in_python != before


@pytest.fixture
def launches(monkeypatch) -> Launches:
    monkeypatch.setattr(parallel, "_is_initialized", False)  # another test may have started Numba's threads
    return Launches(monkeypatch)


@needs_two_threads
def test_a_large_call_runs_without_python_once_its_threads_are_known(launches):
    assert [launches.threads() for _ in range(3)] == [(available_threads(), False)] * 3


@needs_two_threads
def test_a_scope_counts_from_its_first_call_and_is_known_from_the_third(launches):
    with gn.knobs.scope(num_threads=1):
        assert [launches.threads() for _ in range(4)] == [(1, True), (1, True), (1, False), (1, False)]
    with gn.knobs.scope(num_threads=2):
        assert [launches.threads() for _ in range(3)] == [(2, True), (2, True), (2, False)]
    assert launches.threads() == (available_threads(), True)


@needs_two_threads
def test_an_assigned_knob_counts_at_once(launches):
    gn.knobs.num_threads = 1
    try:
        assert launches.threads() == (1, True)
    finally:
        del gn.knobs.num_threads
    assert launches.threads()[0] == available_threads()


@needs_two_threads
def test_a_variable_of_the_environment_counts_at_once(launches, monkeypatch):
    monkeypatch.setenv("GATHERNEST_NUM_THREADS", "1")
    assert launches.threads() == (1, True)
    monkeypatch.delenv("GATHERNEST_NUM_THREADS")
    assert launches.threads()[0] == available_threads()


@needs_two_threads
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no threads to cores")
def test_affinity_counts_at_once_where_threads_are_known(launches):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert launches.threads() == (1, True)
    finally:
        os.sched_setaffinity(0, before)
    assert launches.threads()[0] == available_threads()


@needs_two_threads
def test_a_launch_keeps_to_what_numba_is_set_to(launches):
    numba.set_num_threads(1)
    try:
        assert launches.threads() == (1, True)
    finally:
        numba.set_num_threads(MOST)


@needs_two_threads
def test_a_small_call_wakes_no_thread_and_more_threads_than_there_are_means_all(launches):
    before = RUNTIME.team._words[At.GENERATION]
    for _ in range(3):
        assert gn.gather(launches.data[:9], [8, 0]).tolist() == launches.data[[8, 0]].tolist()
    assert RUNTIME.team._words[At.GENERATION] == before
    with gn.knobs.scope(num_threads=10_000):
        assert available_threads() == MOST
        assert launches.threads() == (MOST, True)


@needs_two_threads
def test_an_index_out_of_range_is_an_error_where_threads_are_known(launches):
    launches.indices[7] = 50_000
    with pytest.raises(gn.BoundsError, match="50000"):
        gn.gather(launches.data, launches.indices)
    out = np.full((50_000, 8), 3.0)
    for _ in range(3):
        with pytest.raises(gn.BoundsError, match="50000"):
            gn.gather(launches.data, launches.indices, out=out)
    assert (out == 3.0).all()
    launches.indices[7] = 7
    assert launches.threads() == (available_threads(), False)


@needs_two_threads
def test_calls_of_many_threads_are_right_while_others_forget_them(launches):
    """A kernel may still run when its call is forgotten, and freed by whoever forgets it."""
    wanted, is_over = launches.data[launches.indices].tobytes(), threading.Event()

    def gather() -> int:
        calls = 0
        while not is_over.is_set():
            assert gn.gather(launches.data, launches.indices).tobytes() == wanted
            calls += 1
        return calls

    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(gather) for _ in range(3)]
        for _ in range(200):
            RUNTIME.forget_calls()
            time.sleep(0.002)
        is_over.set()
        assert all(each.result() > 0 for each in done)


@needs_two_threads
def test_other_threads_run_while_a_large_call_does(launches):
    """With a switch interval this long, Python runs them only where a call gives up the GIL."""
    counted, is_over = [0], threading.Event()

    def count() -> None:
        while not is_over.is_set():
            counted[0] += 1
            time.sleep(0)

    out, interval = np.empty((50_000, 8)), sys.getswitchinterval()
    for _ in range(5):
        gn.gather(launches.data, launches.indices, out=out)
    worker = threading.Thread(target=count)
    sys.setswitchinterval(100.0)
    try:
        worker.start()
        before = counted[0]
        for _ in range(200):
            gn.gather(launches.data, launches.indices, out=out)
        assert counted[0] > before
        assert launches.threads() == (available_threads(), False)
    finally:
        sys.setswitchinterval(interval)
        is_over.set()
        worker.join()


@needs_two_threads
def test_large_calls_leave_no_reference_behind(launches):
    data, indices, out = launches.data, launches.indices, np.empty((50_000, 8))
    bad = indices.copy()
    bad[7] = 50_000

    def work() -> None:
        for _ in range(60):
            gn.gather(data, indices)
            gn.gather(data, indices, out=out)
            with pytest.raises(gn.BoundsError):
                gn.gather(data, bad, out=out)
            with pytest.raises(gn.BoundsError):
                gn.gather(data, bad)

    finishes = [call._finish for call in CALLS._calls.values() if call._is_shared]
    assert finishes
    watched, counts = [data, indices, bad, out, data.dtype, *finishes], list[list[int]]()
    for _ in range(4):
        work()
        gc.collect()
        counts.append([sys.getrefcount(value) for value in watched])
    for value, of_rounds in zip(watched, zip(*counts, strict=True), strict=True):
        assert min(now - then for then, now in itertools.pairwise(of_rounds)) < 30, (type(value), of_rounds)
