"""Calls whose kernels are missing: NumPy answers them alike, and a child process compiles, whatever befalls it."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.runtime import compile, compile_service
from gathernest.kernels.runtime.compile_service import KERNELS, compiling_processes

from ...oracles.cases import EXACT, draw_case
from ...oracles.conftest import Oracle
from ...selection import examples

DATA, INDICES = np.arange(40.0).reshape(10, 4), np.array([3, -1, 6])
ORACLE = Oracle()


@pytest.fixture
def mode(cache_dir):
    """Return a function that sets the knob `compile`, for a process that has no kernel and an empty cache."""

    def choose(name: str) -> None:
        gn.knobs.compile = name

    yield choose
    del gn.knobs.compile
    KERNELS.forget()


@pytest.fixture
def never(mode):
    mode("never")


def gather(times: int = 1) -> None:
    for _ in range(times):
        assert (gn.gather(DATA, INDICES) == DATA[INDICES]).all()


def kill_service(*, is_idle: bool = False) -> None:
    os.kill(int(KERNELS.status()["service"].split()[-1]), signal.SIGKILL)
    while is_idle and KERNELS.status()["service"] != "not started":
        pass


def is_running(process: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    return False


@pytest.mark.draw(3)
@pytest.mark.parametrize("operator", ["gather", "gather_nd", "gather_elements"])
@settings(EXACT, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_numpy_answers_as_kernels_do(never, operator, data):
    case = draw_case(data.draw, operator=operator)
    if case.bounds == "unchecked" and 0 in case.axis_sizes:
        return
    function, options = getattr(gn, operator), {**case.attributes(), "bounds": case.bounds}
    wanted = ORACLE.expected(case)
    arguments = case.data, case.indices
    assert ORACLE.agrees(case, wanted, lambda out: function(*arguments, **options, out=out), gn.BoundsError), case
    if wanted is not None:
        assert ORACLE.same_bytes(function(*arguments, **options), wanted), case
    assert not RUNTIME.loaded


SUMS = {
    "gradient": lambda: gn.gather_grad(np.float32([[1e8], [1.5], [-1e8], [0.1]]), [1, 1, 1, -1], (3, 1), scale=0.3),
    "gradient of narrow floats": lambda: gn.gather_grad(np.float16([[2048], [1], [1]]), [1, 1, 1], (2, 1)),
    "gradient of zeros": lambda: gn.gather_grad(np.float32([[1], [2]]), [9, 0], (2, 1), bounds="zero", scale=-1.0),
    "bags": lambda: gn.gather_reduce(np.float32([[1e8], [1.5], [-1e8]]), [[0, 1, 2], [1, -1, 0]]),
    "bags of narrow floats": lambda: gn.gather_reduce(np.float16([[2048], [1]]), [[0, 1, 1], [1, 1, 0]]),
    "means": lambda: gn.gather_reduce(np.float32([[1], [2], [4]]), [[0, 1, 9]], reduce="mean", bounds="zero"),
    "maxima": lambda: gn.gather_reduce(np.float32([[-0.0], [0.0], [-3]]), [[0, 1], [2, 2]], reduce="max"),
    "weighted bags": lambda: gn.gather_reduce(np.float32([[3], [0.1]]), [[0, 1]], weights=np.float32([[0.1, 7]])),
    "error": lambda: gn.gather(DATA, [3, 99, -99]),
    "error of tuples": lambda: gn.gather_nd(DATA, [[3, 3], [3, 4]]),
    "error of a version": lambda: gn.ops["openvino.Gather-7"](DATA, np.array([3, 99]), 0),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_and_errors_are_those_of_kernels(mode, name):
    outcomes = []
    for chosen in ("never", "now"):
        mode(chosen)
        try:
            outcomes.append((got := SUMS[name]()).tobytes() + str(got.dtype).encode())
        except gn.BoundsError as error:
            outcomes.append(str(error))
        assert bool(RUNTIME.loaded) == (chosen == "now")
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("function", ["gather", "gather_grad"])
def test_numpy_writes_to_a_subclass_itself_as_kernels_do(never, function):
    out = np.ma.MaskedArray(np.empty((10, 4)), mask=np.eye(10, 4))
    out.harden_mask()
    rows = np.arange(10)
    given = {"gather": (DATA, rows), "gather_grad": (DATA, rows, (10, 4))}[function]
    assert getattr(gn, function)(*given, out=out) is out
    assert out.data.tolist() == DATA.tolist()


def test_never_compiles_nothing(never):
    gather(5)
    gn.wait()
    status = KERNELS.status()
    assert not RUNTIME.loaded and status["service"] == "not started" and status["answered_by_numpy"] == 5
    KERNELS.close()
    gather()
    assert KERNELS.status()["answered_by_numpy"] == 6


def test_a_class_that_is_called_once_asks_for_no_kernel_until_it_is_waited_for(mode):
    mode("background")
    gather()
    assert KERNELS.status()["service"] == "not started"
    gn.wait()
    assert len(RUNTIME.loaded) == 1


def test_kernels_that_are_wished_for_are_compiled_at_once(never):
    kernel = gn.compile("gather", DATA, INDICES, schedule="")
    assert (kernel(DATA, INDICES) == DATA[INDICES]).all() and RUNTIME.loaded


def test_a_kernel_on_disk_is_taken_without_a_service(mode, forget):
    mode("now")
    gather()
    forget()
    mode("never")
    gather(2)
    assert len(RUNTIME.loaded) == 1 and KERNELS.answered == 0


@pytest.mark.thorough
def test_a_call_that_numpy_needs_long_for_compiles_at_once(mode):
    mode("background")
    rows = np.broadcast_to(np.zeros(1, np.int8), (4, 1 << 30))
    out = np.empty((1, 1 << 30), np.int8)
    gn.gather(rows, [1], out=out)
    assert len(RUNTIME.loaded) == 1 and KERNELS.answered == 0


@pytest.mark.parametrize("program", ["", "/opt/sheets/sheets", "/nowhere/python", "no modules for it"])
def test_without_a_service_a_repeated_call_compiles_here(mode, monkeypatch, program):
    if program == "no modules for it":
        monkeypatch.setitem(sys.modules, "subprocess", None)
    else:
        monkeypatch.setattr("sys.executable", program)
    mode("background")
    gather()
    assert not RUNTIME.loaded
    gather()
    if program == "no modules for it":  # which the thread that starts the service finds out
        KERNELS.status()  # waits for the thread
        gather()
    assert len(RUNTIME.loaded) == 1
    assert "the compile service does not start" in KERNELS.notes[0]


def interrupt(
    event: str, name: str, call: Callable[[], object], error: type[BaseException] = KeyboardInterrupt
) -> None:
    """Interrupt a call before or after it calls a builtin function of that name, as a signal handler would."""

    def profile(_: object, happens: str, function: object) -> None:
        if (happens, getattr(function, "__name__", "")) == (event, name):
            sys.setprofile(None)
            raise error

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        with pytest.raises(error):
            call()
    finally:
        sys.setprofile(before)


def test_a_call_that_is_interrupted_as_it_takes_the_lock_gives_it_back(never):
    gather()
    interrupt("c_return", "acquire", gather)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(KERNELS.status).result()


def test_the_service_compiles_what_is_called_twice_whatever_disturbs_it(mode, cache_dir, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("print('line'); print(42); print('no line', end='')")
    monkeypatch.setattr("sys.path", [str(tmp_path), b"/ignored", 7, *sys.path])
    mode("background")
    gather()
    interrupt("c_return", "dumps", gather)
    gather(2)
    assert not RUNTIME.loaded and KERNELS.status()["kernels_pending"] == 1
    interrupt("c_return", "readv", gn.wait)
    gn.wait()
    assert KERNELS.status()["kernels_pending"] == 0 and KERNELS.notes == []
    assert [loaded.from_cache for loaded in RUNTIME.loaded.values()] == [True]
    answered = KERNELS.answered
    gather(3)
    assert KERNELS.answered == answered


@pytest.mark.thorough
def test_a_kernel_arrives_where_the_cache_cannot_be_written(mode, cache_dir):
    cache_dir.write_text("no folder")
    mode("background")
    gather(2)
    gn.wait()
    assert [loaded.from_cache for loaded in RUNTIME.loaded.values()] == [False]
    assert KERNELS.notes == []
    gather(3)


@pytest.mark.thorough
def test_a_service_that_is_killed_has_the_kernel_compiled_here(mode):
    mode("background")
    gather(2)
    kill_service()
    gn.wait()
    assert len(RUNTIME.loaded) == 1 and "the compile service failed at gather" in KERNELS.notes[0]
    gather(3)


@pytest.mark.thorough
def test_a_program_that_forbids_sockets_has_a_service(mode, monkeypatch):
    def forbid(*_, **__):
        raise RuntimeError("a test may use no socket")

    monkeypatch.setattr("socket.socket", forbid)  # as pytest-socket does
    mode("background")
    gather(3)
    gn.wait()
    assert len(RUNTIME.loaded) == 1 and not KERNELS.notes


@pytest.mark.thorough
def test_a_service_that_idles_is_started_again(mode):
    mode("background")
    gather(2)
    gn.wait()
    kill_service(is_idle=True)
    gn.gather_nd(DATA, INDICES[:, np.newaxis])
    gn.gather_nd(DATA, INDICES[:, np.newaxis])
    gn.wait()
    assert len(RUNTIME.loaded) == 2 and KERNELS.notes == []


@pytest.mark.thorough
def test_functions_of_a_package_that_was_imported_anew_go_on(python, cache_dir):
    code = """
        import sys
        import numpy as np
        import gathernest as gn

        data, indices, old = np.arange(20.0).reshape(5, 4), np.array([4, 1]), gn.gather
        old(data, indices)
        for name in [name for name in sys.modules if name.startswith("gathernest")]:
            del sys.modules[name]
        import gathernest as again
        for _ in range(4):
            again.gather(data.astype("f4"), indices)
        again.wait()
        for _ in range(4):
            assert (old(data.astype("i2"), indices) == data[indices]).all()
    """
    python(code, GATHERNEST_COMPILE="background", GATHERNEST_CACHE_DIR=str(cache_dir))


@pytest.mark.thorough
def test_threads_and_forks_get_right_results_while_the_service_is_killed(mode, python, cache_dir):
    code = """
        import os, signal, threading, time
        import numpy as np
        import gathernest as gn
        from gathernest.kernels.runtime.compile_service import KERNELS

        table = np.arange(4000.0).reshape(1000, 4)
        killed_enough = threading.Event()

        def gather(seed, until=None):
            random, number = np.random.default_rng(seed), 0
            while number < 60 or not (until is None or until.is_set()):
                number += 1
                rows = random.integers(-1000, 1000, (3, 5)[: 1 + number % 2]).astype(random.choice(["i4", "i8", "i2"]))
                assert (gn.gather(table, rows) == table[rows]).all()

        while KERNELS._child is None:
            gather(0)
        threads = [threading.Thread(target=gather, args=(seed, killed_enough)) for seed in range(16)]
        for thread in threads:
            thread.start()
        children = []
        for seed in range(4):
            if (child := os.fork()) == 0:
                gather(100 + seed)
                os._exit(0)
            children.append(child)
        killed = set()
        deadline_s = time.monotonic() + 20
        while len(killed) < 3 and KERNELS._failures < 3 and time.monotonic() < deadline_s:
            if (child := KERNELS._child) is not None and child.process and child.process not in killed:
                os.kill(child.process, signal.SIGKILL)
                killed.add(child.process)
        killed_enough.set()
        for thread in threads:
            thread.join()
        assert killed, (KERNELS.notes, KERNELS.status())
        statuses = [os.waitpid(child, 0)[1] for child in children]
        assert statuses == [0] * 4, statuses
        gn.wait()
        assert KERNELS.status()["kernels_loaded"] and not KERNELS.status()["kernels_pending"]
        print("right", threading.active_count(), len(os.listdir("/proc/self/fd")) < 12)
    """
    printed = python(code, GATHERNEST_COMPILE="background", GATHERNEST_CACHE_DIR=str(cache_dir))
    assert printed.split() == ["right", "1", "True"]


@pytest.mark.thorough
@pytest.mark.parametrize("moment", range(8))
def test_a_process_that_ends_while_it_is_served_leaves_nothing(python, cache_dir, moment):
    code = f"""
        import atexit, threading
        import numpy as np
        import gathernest as gn

        table, rows = np.arange(40.0).reshape(10, 4), np.array([3, 1])

        def gather(times):
            for _ in range(times):
                assert (gn.gather(table, rows) == table[rows]).all()

        atexit.register(gather, 3)
        threading.Thread(target=gather, args=(1 << 30,), daemon=True).start()
        gather({4**moment})
    """
    python(code, GATHERNEST_COMPILE="background", GATHERNEST_CACHE_DIR=str(cache_dir))


@pytest.mark.thorough
@pytest.mark.parametrize("script", ["exit 1", "read line", "echo 9999999; exit 1"])
def test_a_python_that_ends_at_once_ends_no_process_with_sigpipe(python, tmp_path, cache_dir, script):
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    code = f"""
        import signal, sys
        import numpy as np
        import gathernest as gn
        from gathernest.kernels.runtime.compile_service import KERNELS

        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        sys.executable = {str(program)!r}
        signal.alarm(20)
        while not KERNELS.status()["kernels_loaded"]:
            assert gn.gather(np.arange(3), np.array([2])) == [2]
        print(KERNELS.notes[0])
    """
    printed = python(code, GATHERNEST_COMPILE="background", GATHERNEST_CACHE_DIR=str(cache_dir))
    assert printed.startswith(f"the compile service does not start: {program} has ended with status ")


@pytest.mark.thorough
def test_no_process_waits_for_the_service_as_its_child(python, cache_dir):
    code = """
        import os
        import numpy as np
        import gathernest as gn
        from gathernest.kernels.runtime.compile_service import KERNELS

        table, rows = np.arange(40.0).reshape(10, 4), np.array([3, 1])
        while KERNELS._child is None:
            gn.gather(table, rows)
        print(KERNELS.status()["kernels_pending"])
        try:
            print(os.wait())
        except ChildProcessError:
            print("none")
        gn.wait()
        print(KERNELS.status()["kernels_loaded"], KERNELS.notes)
    """
    printed = python(code, GATHERNEST_COMPILE="background", GATHERNEST_CACHE_DIR=str(cache_dir))
    assert printed.splitlines() == ["1", "none", "1 []"]


@pytest.mark.thorough
def test_an_exception_of_a_signal_handler_while_the_service_starts_or_works_leaves_the_call(mode):
    mode("background")
    gather()
    for error in (TimeoutError, LookupError):
        interrupt("c_return", "socketpair", gather, error)
    interrupt("c_return", "start_new_thread", gather)
    interrupt("c_return", "poll", gn.wait, TimeoutError)
    gn.wait()
    assert KERNELS.notes == [] and len(RUNTIME.loaded) == 1


def test_the_first_small_call_of_a_process_imports_no_planner(python, cache_dir):
    code = """
        import sys
        import numpy as np
        import gathernest as gn

        table, rows = np.arange(40.0).reshape(10, 4), np.array([3, 1])
        assert (gn.gather(table, rows) == table[rows]).all()
        print([name for name in ("numba", "xdsl", "llvmlite", "gathernest.lowering") if name in sys.modules])
        gn.gather(table, np.array([[3]]))
        gn.gather(table, np.array([[7]]))
        gn.wait()
        from gathernest.kernels.runtime.compile_service import KERNELS
        status = KERNELS.status()
        print(status["answered_by_numpy"], status["kernels_loaded"], status["kernels_pending"])
    """
    printed = python(code, GATHERNEST_COMPILE="background", GATHERNEST_CACHE_DIR=str(cache_dir))
    assert printed.splitlines() == ["[]", "3 2 0"]


@pytest.mark.thorough
def test_a_thread_that_ends_before_the_caller_goes_on_is_not_waited_for(python, cache_dir):
    code = """
        import sys, time, _thread
        import numpy as np
        import gathernest as gn

        def profile(frame, event, function):
            while (event, getattr(function, "__name__", "")) == ("c_return", "start_new_thread") and _thread._count():
                time.sleep(0.001)

        sys.setprofile(profile)
        table, rows = np.arange(40.0).reshape(10, 4), np.array([3, 1])
        for _ in range(4):
            assert (gn.gather(table, rows) == table[rows]).all()
        gn.wait()
        assert (gn.gather(table, rows) == table[rows]).all()
        print(gn.kernels.runtime.compile_service.KERNELS.status()["answered_by_numpy"])
    """
    for _ in range(2):  # the second time, the thread loads the kernel that the first has stored
        printed = python(code, GATHERNEST_COMPILE="background", GATHERNEST_CACHE_DIR=str(cache_dir))
        assert int(printed) <= 4


@pytest.mark.parametrize("waits", [False, True])
def test_a_fork_while_a_thread_imports_the_planner_leaves_both_processes_whole(python, cache_dir, waits):
    code = f"""
        import os, sys, time
        import numpy as np
        import gathernest as gn

        sys.unraisablehook = lambda error: print("a hook raised", error.exc_value, flush=True)
        table, rows, service = np.arange(40.0).reshape(10, 4), np.array([3, 1]), "{compile_service.__name__}"
        for _ in range(2):
            gn.gather(table, rows)
        while {waits} and not hasattr(sys.modules.get(service), "problem_with_service"):
            time.sleep(0)
        child = os.fork()
        assert (gn.gather(table, rows) == table[rows]).all()
        if child == 0:
            os._exit(0)
        print("whole", os.waitpid(child, 0)[1])
    """
    printed = python(code, GATHERNEST_COMPILE="background", GATHERNEST_CACHE_DIR=str(cache_dir))
    assert printed.split() == ["whole", "0"]


@pytest.mark.thorough
def test_a_signal_handler_that_forks_while_a_kernel_is_compiled_leaves_both_processes_whole(python, cache_dir):
    code = """
        import os, signal
        import numpy as np
        import gathernest as gn

        children = []
        signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
        table, rows = np.arange(40.0).reshape(10, 4), np.array([3, 1])
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        kernel = gn.compile("gather", table, rows)
        assert (kernel(table, rows) == table[rows]).all()
        if children == [0]:
            os._exit(0)
        print("whole", os.waitpid(children[0], 0)[1])
    """
    printed = python(code, GATHERNEST_COMPILE="now", GATHERNEST_CACHE_DIR=str(cache_dir))
    assert printed.split() == ["whole", "0"]


@pytest.mark.thorough
def test_numpy_answers_where_there_is_no_memory_to_load_the_compiler(python, cache_dir):
    code = """
        import resource, time, warnings
        import numpy as np
        import gathernest as gn

        table, rows = np.arange(4000.0).reshape(1000, 4), np.array([3, 1])
        with open("/proc/self/statm") as file:
            limit = int(file.read().split()[0]) * resource.getpagesize() + (120 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            end_s = time.monotonic() + 30
            while not caught and time.monotonic() < end_s:
                assert (gn.gather(table, rows) == table[rows]).all()
            for _ in range(10):
                assert (gn.gather(table, rows) == table[rows]).all()
        print(len(caught), caught[0].message)
    """
    printed = python(code, GATHERNEST_COMPILE="background", GATHERNEST_CACHE_DIR=str(cache_dir))
    assert printed.startswith("1 NumPy answers the calls of this process: the compiler cannot be loaded: ")


@pytest.mark.thorough
def test_a_relative_cache_folder_where_the_current_folder_is_gone_is_one_that_cannot_be_written(python):
    code = """
        import os, warnings
        import numpy as np
        import gathernest as gn

        warnings.filterwarnings("ignore", "the cache folder")
        gn.knobs.cache_dir = "relative"
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")
        table, rows = np.arange(40.0).reshape(10, 4), np.array([3, 1])
        for _ in range(3):
            assert (gn.gather(table, rows) == table[rows]).all()
        gn.wait()
        assert (gn.gather(table, rows) == table[rows]).all()
        print(gn.kernels.runtime.compile_service.KERNELS.status()["kernels_loaded"])
    """
    assert python(code, GATHERNEST_COMPILE="background").strip() == "1"


@pytest.mark.thorough
def test_a_process_that_traces_its_memory_waits_for_no_traced_service(python, cache_dir):
    code = """
        import numpy as np
        import gathernest as gn

        for _ in range(3):
            gn.gather(np.arange(40.0).reshape(10, 4), np.array([3, 1]))
        gn.wait()
        print(gn.kernels.runtime.compile_service.KERNELS.notes)
    """
    assert python(code, GATHERNEST_COMPILE="background", PYTHONTRACEMALLOC="10") == "[]\n"


@pytest.mark.thorough
def test_a_service_that_is_killed_leaves_no_temporary_folder(python, tmp_path):
    code = """
        import os, signal
        from pathlib import Path
        import numpy as np
        import gathernest as gn
        from gathernest.kernels.runtime.compile_service import KERNELS

        table, rows, folder = np.arange(40.0).reshape(10, 4), np.array([3, 1]), Path(os.environ["TMPDIR"])
        while not [*folder.glob("gathernest-*")]:
            gn.gather(table, rows)
        os.kill(int(KERNELS.status()["service"].split()[-1]), signal.SIGKILL)
        while [*folder.glob("gathernest-*")]:  # a process ends a moment after the signal
            gn.wait()
        assert (gn.gather(table, rows) == table[rows]).all()
    """
    folder = tmp_path / "temporary"
    folder.mkdir()
    variables = {"GATHERNEST_COMPILE": "background", "GATHERNEST_CACHE_DIR": "/proc/nothing", "TMPDIR": str(folder)}
    assert python(code, **variables) == ""


@pytest.mark.thorough
def test_a_service_that_hangs_is_killed_and_the_kernel_compiled_here(mode, monkeypatch):
    monkeypatch.setattr(compile_service, "LIMIT_S", -0.5)  # half a second
    mode("background")
    gather(2)
    process = int(KERNELS.status()["service"].split()[-1])
    os.kill(process, signal.SIGSTOP)
    gn.wait()
    assert len(RUNTIME.loaded) == 1 and "it hangs" in KERNELS.notes[0]
    while is_running(process):  # until the system has ended it
        pass
    gather(3)


def test_an_idle_service_ends():
    code = f"import {compile_service.__name__} as service; service.IDLE_S = 0.1; service._serve()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.wait(20) == 0


@pytest.mark.thorough
def test_kernels_arrive_after_the_cache_folder_has_vanished(mode, cache_dir):
    mode("background")
    gather(2)
    shutil.rmtree(cache_dir, ignore_errors=True)
    gn.wait()
    gather(3)
    assert len(RUNTIME.loaded) == 1


@pytest.mark.thorough
def test_on_a_full_disk_the_kernel_is_compiled_here(mode, cache_dir):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))  # of the service, too: no file has room
    try:
        mode("background")
        gather(2)
        with pytest.warns(UserWarning, match="cannot be (written|kept)"):
            gn.wait()
        gather(3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(RUNTIME.loaded) == 1 and not any(path.is_file() and path.stat().st_size for path in cache_dir.rglob("*"))


@pytest.mark.thorough
def test_processes_that_want_the_same_kernel_compile_it_once(never, cache_dir, monkeypatch):
    reader, writer = os.pipe()
    build = compile.build_program

    def build_and_tell(plan):
        os.write(writer, b"%8d" % os.getpid())
        return build(plan)

    monkeypatch.setattr(compile, "build_program", build_and_tell)
    gather()
    (missing,) = KERNELS._missing.values()
    children = []
    for _ in range(4):
        if (child := os.fork()) == 0:
            os._exit(not compile_service._make(missing.plan))
        children.append(child)
    compiling = int(os.read(reader, 8))
    assert compiling in children and compiling_processes() == [compiling]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    os.close(writer)
    assert os.read(reader, 8) == b"" and compiling_processes() == []
    os.close(reader)
