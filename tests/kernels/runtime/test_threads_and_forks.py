"""Gathers from several Python threads at once, and forks at any moment of a gather, do no harm."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

import gathernest as gn

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


@pytest.mark.thorough
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
        others = tasks() - 1  # of libraries that start theirs in a child
        new = gn.gather(data.astype("f4"), indices, bounds="clip").tobytes() == data[::-1].astype("f4").tobytes()
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0 if right() else 1)
        status = os.waitpid(grandchild, 0)[1]
        is_right = right()
        while tasks() > others + threads.available_threads():
            pass  # a thread that has compiled takes a moment to end
        os._exit(0 if is_right and new and status == 0 and tasks() == others + threads.available_threads() else 2)
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


@pytest.mark.thorough
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


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="this machine gives Numba one thread only")
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux says how large the stack of a thread is")
def test_members_have_stacks_of_their_own_size_whatever_the_limit_is(python):
    code = """
    import ctypes, resource
    if resource.getrlimit(resource.RLIMIT_STACK)[0] != 256 << 10:
        resource.setrlimit(resource.RLIMIT_STACK, (256 << 10, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        os.execv(sys.executable, sys.orig_argv)
    from gathernest.kernels.host.runtime import RUNTIME
    from gathernest.kernels.runtime.launch import started_threads
    from gathernest.lowering.native.call_layout import At, Member
    from gathernest.lowering.native.threads.thread_team import libc
    os.sched_setaffinity(0, range(os.cpu_count()))
    assert (started_threads(), right()) == (2, True), os.sched_getaffinity(0)
    attributes, size = (ctypes.c_int64 * 16)(), ctypes.c_size_t()
    handle = ctypes.c_void_p(RUNTIME.team._words[At.MEMBERS + Member.WORDS + Member.HANDLE])
    libc().pthread_getattr_np(handle, attributes)
    libc().pthread_attr_getstacksize(attributes, ctypes.byref(size))
    print(size.value >= 1 << 20)
    """
    assert python(SETUP + code, NUMBA_NUM_THREADS="2", OMP_NUM_THREADS="").strip() == "True"


@pytest.mark.thorough
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


@pytest.mark.parametrize(
    ("module", "lock"), [("logging", "_lock"), ("concurrent.futures.thread", "_global_shutdown_lock")]
)
def test_a_fork_that_waits_while_a_module_with_hooks_is_imported_says_nothing(python, module, lock):
    code = """
    import importlib, os, sys, threading
    import gathernest as gn
    from gathernest.kernels.host.runtime import RUNTIME
    sys.setswitchinterval(5)  # a thread runs on until it waits
    taken, forking = threading.Event(), threading.Event()
    os.register_at_fork(before=forking.set)  # runs before the hook that waits for the lock
    complaints = []
    sys.unraisablehook = complaints.append
    def work():
        with RUNTIME.lock:
            taken.set()
            forking.wait()
            assert NAME not in sys.modules
            importlib.import_module(NAME)
    worker = threading.Thread(target=work)
    worker.start()
    taken.wait()
    child = os.fork()
    lock = getattr(importlib.import_module(NAME), LOCK)
    if is_free := lock.acquire(blocking=False):
        lock.release()
    if child == 0:
        os._exit(0 if is_free and not complaints else 1)
    worker.join()
    print(is_free, complaints, os.waitpid(child, 0)[1])
    """
    code = code.replace("NAME", repr(module)).replace("LOCK", repr(lock))
    assert python(code).strip() == "True [] 0"


@pytest.mark.thorough
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
