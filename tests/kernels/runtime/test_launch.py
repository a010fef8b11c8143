"""Launches: when they are parallel, and on how many threads."""

import ctypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numba
import pytest

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.runtime import launch as threads
from gathernest.kernels.runtime.launch import launch
from gathernest.lowering.native import thread_team_ir
from gathernest.lowering.native.thread_team_ir import At
from gathernest.lowering.schedule.machine_model import BUILT_IN

LARGE = True
MOST = numba.config.NUMBA_NUM_THREADS


class Recorder:
    """A stand-in for a compiled kernel that notes whether it is launched with a team, and how many it uses of that."""

    def __init__(self) -> None:
        self.parallel: list[bool] = []
        self.threads: list[int] = []

    def __call__(self, *arguments: object) -> int:
        team = arguments[-1]
        assert isinstance(team, int)
        self.parallel.append(team != 0)
        self.threads.append(ctypes.c_int64.from_address(team + 8 * At.WANTED).value if team else 1)
        return 7


@pytest.fixture
def kernel() -> Recorder:
    return Recorder()


needs_two_threads = pytest.mark.skipif(MOST < 2, reason="this machine gives Numba one thread only")


def test_launch_returns_what_the_kernel_returns(kernel):
    assert launch(kernel, (1, 2), not LARGE) == 7


def test_small_work_runs_serially(kernel):
    launch(kernel, (), not LARGE)
    assert kernel.parallel == [False]


@needs_two_threads
def test_large_work_runs_in_parallel(kernel):
    launch(kernel, (), LARGE)
    assert kernel.parallel == [True]


@needs_two_threads
def test_a_launch_meanwhile_runs_serially(kernel):
    with RUNTIME.launching:
        launch(kernel, (), LARGE)
    launch(kernel, (), LARGE)
    assert kernel.parallel == [False, True]


def test_one_thread_wanted_runs_serially(kernel):
    with gn.knobs.scope(num_threads=1):
        launch(kernel, (), LARGE)
    assert kernel.parallel == [False]


@needs_two_threads
def test_num_threads_is_what_a_launch_uses(kernel):
    with gn.knobs.scope(num_threads=2):
        launch(kernel, (), LARGE)
    assert kernel.threads == [2]


@pytest.fixture
def eight_threads(monkeypatch):
    """A Numba of eight threads on eight cores."""
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 8)
    monkeypatch.setattr(RUNTIME, "team", None)
    monkeypatch.setattr(threads, "usable_cores", lambda: 8)
    monkeypatch.setattr(threads, "_openmp_threads", 64)


def test_a_launch_uses_all_threads(eight_threads, kernel):
    launch(kernel, (), LARGE)
    assert kernel.threads == [8]


def test_launches_use_as_many_threads_as_are_wanted_each_time(eight_threads, kernel):
    for wanted in (3, 8, 2):
        with gn.knobs.scope(num_threads=wanted):
            launch(kernel, (), LARGE)
    assert kernel.threads == [3, 8, 2]


def test_a_launch_uses_no_more_threads_than_cores_that_are_usable_now(eight_threads, kernel, monkeypatch):
    for cores in (2, 1):
        monkeypatch.setattr(threads, "usable_cores", lambda cores=cores: cores)
        launch(kernel, (), LARGE)
    assert kernel.threads == [2, 1]
    assert kernel.parallel == [True, False]


def test_a_launch_uses_no_more_threads_than_openmp_was_given(eight_threads, kernel, monkeypatch):
    monkeypatch.setattr(threads, "_openmp_threads", 2)
    launch(kernel, (), LARGE)
    assert kernel.threads == [2]


def test_num_threads_goes_before_what_openmp_was_given(eight_threads, kernel, monkeypatch):
    monkeypatch.setattr(threads, "_openmp_threads", 2)
    with gn.knobs.scope(num_threads=5):
        launch(kernel, (), LARGE)
    assert kernel.threads == [5]


def test_a_system_without_threads_for_a_team_runs_everything_serially(eight_threads, kernel, monkeypatch):
    monkeypatch.setattr(thread_team_ir.ctypes, "CDLL", lambda name: object())
    for _ in range(2):
        launch(kernel, (), LARGE)
    assert kernel.parallel == [False, False]


@pytest.mark.parametrize(
    ("text", "limit"), [("2", 2), ("4,2", 4), (" 3 ", 3), ("", None), ("0", None), ("-1", None), ("many", None)]
)
def test_openmp_threads_are_the_first_number_of_the_variable(monkeypatch, text, limit):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    found = threads._read_openmp_threads()
    assert found == limit or (limit is None and found > 10**9)


@needs_two_threads
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no threads to cores")
def test_affinity_that_changes_after_the_import_is_kept_to(kernel):
    before = os.sched_getaffinity(0)
    launch(kernel, (), LARGE)
    os.sched_setaffinity(0, {min(before)})
    try:
        launch(kernel, (), LARGE)
        assert threads.available_threads() == 1
    finally:
        os.sched_setaffinity(0, before)
    launch(kernel, (), LARGE)
    assert kernel.parallel == [True, False, True]


def test_threads_are_not_started_where_one_is_enough(python):
    code = """
    import os, numpy as np, gathernest as gn
    from gathernest.kernels.runtime import launch as threads
    from gathernest.kernels.host.runtime import RUNTIME
    data, indices = np.arange(4e5).reshape(-1, 8), np.arange(50000)
    with gn.knobs.scope(num_threads=1):
        for _ in range(3):
            assert gn.gather(data, indices).tobytes() == data.tobytes()
    print(RUNTIME.team, gn.gather(data, indices).tobytes() == data.tobytes(), RUNTIME.team)
    """
    assert python(code, NUMBA_NUM_THREADS="1").strip() == "None True None"


def test_numba_num_threads_is_kept_to(python):
    code = """
    import numpy as np, gathernest as gn
    from gathernest.kernels.runtime.launch import available_threads
    data, indices = np.arange(4e5).reshape(-1, 8), np.arange(50000)
    assert gn.gather(data, indices).tobytes() == data.tobytes()
    print(available_threads())
    """
    assert python(code, NUMBA_NUM_THREADS="1").strip() == "1"


def test_workers_of_a_pool_launch_one_at_a_time(eight_threads, monkeypatch):
    at_once, most, lock = [], [], threading.Lock()
    start = threading.Barrier(6)

    def kernel(team: int) -> int:
        with lock:
            at_once.append(team)
            most.append(sum(at_once))
        start.wait()
        with lock:
            at_once.remove(team)
        return 0

    monkeypatch.setattr(threads, "_team_of", lambda count: 1)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: launch(kernel, (), LARGE), range(6)))
    assert max(most) == 1


@pytest.mark.parametrize(
    ("work_bytes", "rows", "table_bytes", "is_large"),
    [
        (60, 3, 80, False),
        (128 << 10, 2000, 1 << 20, False),
        (4 << 20, 30_000, 1 << 20, True),
        (80_000, 5000, 1 << 28, True),
    ],
)
def test_work_is_large_by_its_bytes_or_by_reads_beyond_the_caches(work_bytes, rows, table_bytes, is_large):
    assert BUILT_IN["zen4"].is_worth_sharing(work_bytes, rows, table_bytes) == is_large


def test_a_child_has_a_lock_that_nobody_holds_and_a_team_of_its_own(monkeypatch):
    held = threading.Lock()
    held.acquire()
    monkeypatch.setattr(RUNTIME, "launching", held)
    monkeypatch.setattr(RUNTIME, "team", object())
    RUNTIME._before_fork()
    RUNTIME._begin_child()
    assert RUNTIME.launching.acquire(blocking=False)
    assert RUNTIME.team is None


@needs_two_threads
def test_a_launch_keeps_to_what_numba_is_set_to(kernel):
    numba.set_num_threads(1)
    try:
        launch(kernel, (), LARGE)
    finally:
        numba.set_num_threads(MOST)
    assert kernel.parallel == [False]


def test_more_threads_than_there_are_means_all(kernel):
    with gn.knobs.scope(num_threads=10_000):
        launch(kernel, (), LARGE)
        assert threads.available_threads() == MOST
    assert kernel.threads == [MOST]


def test_a_kernel_that_raises_leaves_launches_and_threads_as_they_were(kernel):
    def fails(*arguments):
        raise RuntimeError("by design")

    with gn.knobs.scope(num_threads=2), pytest.raises(RuntimeError, match="by design"):
        launch(fails, (), LARGE)
    assert RUNTIME.launching.acquire(blocking=False)
    RUNTIME.launching.release()
