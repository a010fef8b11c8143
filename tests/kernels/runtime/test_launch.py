"""Launches: when they are parallel, and that Python threads and forks at any moment do no harm."""

import ctypes
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
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


def test_workers_of_a_pool_launch_one_at_a_time(monkeypatch):
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
    RUNTIME.lock.acquire()
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


DATA = np.arange(4000 * 16, dtype=np.float32).reshape(4000, 16)
INDICES = np.random.default_rng(0).integers(-6000, 6000, 9000)


def wanted(bounds: str) -> np.ndarray:
    if bounds in ("clip", "wrap"):
        return DATA.take(INDICES, axis=0, mode=bounds)
    out = DATA.take(INDICES, axis=0, mode="wrap")
    out[(INDICES < -4000) | (INDICES >= 4000)] = 0
    return out


@pytest.mark.parametrize("count", [2, 8])
def test_python_threads_that_gather_at_once_get_right_results(count):
    modes = ["zero", "clip", "wrap", "error"]
    start = threading.Barrier(count)

    def work(number: int) -> str:
        bounds = modes[number % 4]
        start.wait()
        for _ in range(10):
            if bounds == "error":
                with pytest.raises(gn.BoundsError):
                    gn.gather(DATA, INDICES)
            else:
                assert gn.gather(DATA, INDICES, bounds=bounds).tobytes() == wanted(bounds).tobytes()
        return bounds

    with ThreadPoolExecutor(count) as pool:
        assert list(pool.map(work, range(count))) == [modes[number % 4] for number in range(count)]


def test_python_threads_that_need_the_same_new_kernel_get_one(forget, cache_dir):
    start = threading.Barrier(4)

    def work(_: int) -> bytes:
        start.wait()
        return gn.gather(DATA, INDICES, bounds="clip").tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(4))) == {wanted("clip").tobytes()}
    assert len(list(cache_dir.glob("*/*/kernel.json"))) == 1


@pytest.mark.parametrize("num_threads", [1, 2])
def test_any_number_of_threads_gives_the_same_bytes(num_threads):
    with gn.knobs.scope(num_threads=num_threads):
        assert gn.gather(DATA, INDICES, bounds="zero").tobytes() == wanted("zero").tobytes()


SETUP = """
    import os, sys, threading, numpy as np, gathernest as gn
    data = np.arange(40000 * 8.0).reshape(40000, 8)
    indices = np.arange(40000)[::-1].copy()
    wanted = data[::-1].tobytes()
    def right():
        return gn.gather(data, indices).tobytes() == wanted
"""


def test_two_threads_that_launch_at_once_do_not_end_the_process(python):
    code = """
    results = []
    workers = [threading.Thread(target=lambda: results.extend(right() for _ in range(40))) for _ in range(3)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    print(len(results), all(results))
    """
    assert python(SETUP + code, NUMBA_NUM_THREADS="2").strip() == "120 True"


def test_a_fork_after_a_parallel_call_gathers_on_as_many_threads_in_the_child(python):
    code = """
    from gathernest.kernels.runtime import launch as threads
    from gathernest.kernels.host.runtime import RUNTIME
    def tasks():
        return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 2
    assert right()
    assert tasks() >= threads.available_threads()
    child = os.fork()
    if child == 0:
        new = gn.gather(data.astype("f4"), indices, bounds="clip").tobytes() == data[::-1].astype("f4").tobytes()
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0 if right() else 1)
        status = os.waitpid(grandchild, 0)[1]
        os._exit(0 if right() and new and status == 0 and tasks() == threads.available_threads() else 2)
    print(os.waitpid(child, 0)[1], right())
    """
    assert python(SETUP + code, NUMBA_NUM_THREADS="2", OMP_NUM_THREADS="").strip() == "0 True"


def test_a_fork_before_any_parallel_call_starts_threads_of_its_own(python):
    code = """
    from gathernest.kernels.runtime import launch as threads
    from gathernest.kernels.host.runtime import RUNTIME
    child = os.fork()
    if child == 0:
        os._exit(0 if right() and (RUNTIME.team is not None or threads.available_threads() == 1) else 1)
    print(os.waitpid(child, 0)[1], right())
    """
    assert python(SETUP + code, NUMBA_NUM_THREADS="2").strip() == "0 True"


def test_a_pool_of_forked_processes_gathers(python):
    code = """
    import multiprocessing
    assert right()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.starmap(right, [()] * 6))
    """
    assert python(SETUP + code, NUMBA_NUM_THREADS="2").strip() == str([True] * 6)


def test_a_fork_while_threads_gather_gathers_in_the_child(python):
    code = """
    stop = threading.Event()
    def work():
        while not stop.is_set():
            assert right()
    assert right()
    workers = [threading.Thread(target=work) for _ in range(2)]
    [worker.start() for worker in workers]
    statuses = []
    for _ in range(5):
        child = os.fork()
        if child == 0:
            os._exit(0 if right() else 1)
        statuses.append(os.waitpid(child, 0)[1])
    stop.set()
    [worker.join() for worker in workers]
    print(statuses)
    """
    assert python(SETUP + code, NUMBA_NUM_THREADS="2").strip() == "[0, 0, 0, 0, 0]"


def test_a_fork_while_a_thread_compiles_compiles_in_the_child(python):
    code = """
    import signal
    gn.knobs.always_compile = True
    assert right()
    started = threading.Event()
    def work():
        started.set()
        for bounds in ("zero", "clip", "wrap"):
            gn.gather(data, indices, bounds=bounds)
    worker = threading.Thread(target=work)
    worker.start()
    started.wait()
    for bounds in ("zero", "wrap"):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            gn.gather(data, indices, bounds=bounds)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    worker.join()
    """
    assert python(SETUP + code).split() == ["0", "0"]


@needs_two_threads
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux says how large the stack of a thread is")
def test_members_have_stacks_of_their_own_size_whatever_the_limit_is(python):
    code = """
    import ctypes, resource
    if resource.getrlimit(resource.RLIMIT_STACK)[0] != 256 << 10:
        resource.setrlimit(resource.RLIMIT_STACK, (256 << 10, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        os.execv(sys.executable, sys.orig_argv)
    from gathernest.kernels.host.runtime import RUNTIME
    from gathernest.lowering.native.thread_team_ir import At, Member, libc
    assert right()
    attributes, size = (ctypes.c_int64 * 16)(), ctypes.c_size_t()
    handle = ctypes.c_void_p(RUNTIME.team._words[At.MEMBERS + Member.WORDS + Member.HANDLE])
    libc().pthread_getattr_np(handle, attributes)
    libc().pthread_attr_getstacksize(attributes, ctypes.byref(size))
    print(size.value >= 1 << 20)
    """
    assert python(SETUP + code, NUMBA_NUM_THREADS="2").strip() == "True"


def test_a_thread_of_the_smallest_stack_gathers_what_has_yet_to_be_compiled(python):
    code = """
    gn.gather
    threading.stack_size(32 << 10)
    results = []
    def work():
        with gn.knobs.scope(always_compile=True):
            results.append(right())
        for _ in range(3):
            results.append(right())
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    print(results, threading.stack_size())
    """
    assert python(SETUP + code, NUMBA_NUM_THREADS="2").strip() == f"{[True] * 4} {32 << 10}"


@pytest.mark.parametrize("always_compile", ["0", "1"])
def test_a_fork_at_any_moment_of_a_first_gather_leaves_both_processes_whole(python, always_compile):
    code = """
    import signal, time
    delay = float(os.environ["DELAY"])
    results = []
    worker = threading.Thread(target=lambda: results.append(right()))
    worker.start()
    time.sleep(delay)  # the fork comes at a moment of its own in each process
    child = os.fork()
    signal.alarm(60)
    if child == 0:
        os._exit(0 if right() else 1)
    results.append(right())
    worker.join()
    print(results, os.waitpid(child, 0)[1])
    """
    delays = [round(random.Random(number).uniform(0.001, 0.4), 4) for number in range(6)]
    rest = {"GATHERNEST_ALWAYS_COMPILE": always_compile, "NUMBA_NUM_THREADS": "2"}
    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda delay: python(SETUP + code, DELAY=str(delay), **rest), delays))
    assert got == ["[True, True] 0\n"] * len(delays)
