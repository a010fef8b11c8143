"""A process ends as it should whatever its threads, `atexit` functions and finalizers do meanwhile."""

import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from ...selection import examples

SETUP = """
    import atexit, os, sys, threading, numpy as np, gathernest as gn
    data, indices = np.arange(80_000, dtype=np.float32).reshape(-1, 4), np.arange(20_000) * 7 % 20_000
    few = np.array([3, -1, 4])
    long_grad, long_indices = np.broadcast_to(np.float32(1), 1 << 26), np.broadcast_to(np.int8(0), 1 << 26)
    begun = threading.Event()
    def repeat(work, *arguments):
        def run():
            while True:
                work(*arguments)
                begun.set()
        threading.Thread(target=run, daemon=True).start()
"""
# What a process does; it ends without an error after the last line.
EXITS = {
    "a first call at exit begins a long kernel in a daemon thread": """
    def end():
        gn.gather(data, few)
        for _ in range(2):
            repeat(gn.gather_grad, long_grad, long_indices, (1,))
        begun.wait()
    atexit.register(end)
    """,
    "finalizers gather while modules are cleared": """
    class Gathering:
        def __init__(self):
            kernel = gn.compile("gather", data, few)
            for _ in range(3):
                kernel(data, few)
            self.works = [kernel, gn.gather, lambda data, few, call=kernel.cfunc, out=np.empty((3, 4), np.float32): (
                call(data.ctypes, few.ctypes, out.ctypes))]
            self.arguments, self.write = (data, few), os.write
        def __del__(self):
            for work in self.works:
                try:
                    work(*self.arguments)
                except:  # modules may have lost their names
                    pass
            self.write(1, b"done\\n")
    late, cycle, sys.gathering = Gathering(), Gathering(), Gathering()
    cycle.cycle = cycle
    """,
    "a daemon thread compiles": """
    def compile_next(modes=[]):
        modes[:] = modes[1:] or ["clip", "wrap", "zero", "error"]
        with gn.knobs.scope(always_compile=True):
            gn.gather(data, few, bounds=modes[0])
    class Gathering:
        def __init__(self):
            self.gather, self.arguments = gn.gather, (data.astype(np.float64), few)
        def __del__(self):
            try:
                self.gather(*self.arguments)
            except RuntimeError:
                pass
    sys.gathering = Gathering()
    repeat(compile_next)
    """,
    "daemon threads do everything at once": """
    repeat(gn.gather, data, indices)
    repeat(gn.gather_grad, data, indices, data.shape)
    repeat(gn.gather_reduce, data, indices, np.arange(0, 20_000, 5))
    repeat(gn.gather_elements, data, indices[:, None])
    atexit.register(lambda: [gn.gather(data, few) for _ in range(50)])
    begun.wait()
    """,
    "a daemon thread makes the first calls": """
    for _ in range(3):
        repeat(lambda: gn.gather(data, np.arange(np.random.randint(20_000))))
    atexit.register(lambda: [gn.gather(data, few) for _ in range(10)])
    """,
    "daemon threads share the thread team": """
    large = np.arange(2_000_000) * 7 % 20_000
    for _ in range(3):
        repeat(gn.gather, data, large)
    atexit.register(lambda: [gn.gather(data, large) for _ in range(3)])
    begun.wait()
    """,
    "daemon threads make large results": """
    large = np.arange(4_000_000) * 7 % 20_000
    for _ in range(2):
        repeat(gn.gather, data, large)
    begun.wait()
    """,
    "a daemon thread calls C functions": """
    kernel, out = gn.compile("gather", data, indices), np.empty((20_000, 4), np.float32)
    repeat(kernel.cfunc, data.ctypes, indices.ctypes, out.ctypes)
    begun.wait()
    del kernel
    atexit.register(lambda: gn.compile("gather", data, few).cfunc)
    """,
    "a thread exits, and another gathers on": """
    gn.gather(data, few)
    threading.Thread(target=lambda: (gn.gather(data, indices), sys.exit(3))).start()
    threading.Thread(target=lambda: [gn.gather(data, few, bounds=mode) for mode in ("clip", "wrap", "zero")]).start()
    """,
    "a forked child ends beside its parent": """
    repeat(gn.gather, data, indices)
    begun.wait()
    child = os.fork()
    for _ in range(3):
        gn.gather(data, few)
    atexit.register(gn.gather, data, indices)
    if child:
        assert os.waitpid(child, 0)[1] == 0
    """,
}
QUICK = list(EXITS)[:3]


@pytest.mark.draw(1)
@pytest.mark.parametrize("name", QUICK)
def test_a_process_ends_well_when(python, name):
    assert python(SETUP + EXITS[name], NUMBA_NUM_THREADS="2") == ("done\n" * 3 if "finalizers" in name else "")


def test_a_call_that_was_made_once_is_repeated_while_modules_are_cleared(python):
    code = """
    class Repeating:
        def __init__(self):
            self.gather, self.arguments = gn.gather, (data, few)
            self.gather(*self.arguments)
        def __del__(self):
            for _ in range(4):
                result = self.gather(*self.arguments).tolist()
            print(result == data[few].tolist())
    late = Repeating()
    """
    assert [python(SETUP + code) for _ in range(2)] == ["True\n"] * 2  # the second has its kernel from the cache
    cycle = "late.late = late; gn.gather(*late.arguments); import gc; gc.disable()\n"
    assert python(SETUP + code + cycle, GATHERNEST_COMPILE="never") == "True\n"


def test_threads_that_functions_of_atexit_start_end_before_python_ends_them(python):
    code = """
    import atexit
    atexit.register(lambda: print(any(thread.is_alive() for thread in RUNTIME._threads)))
    import numpy as np, gathernest as gn
    from gathernest.kernels.host.runtime import RUNTIME
    atexit.register(lambda: [gn.gather(np.zeros((44, 7), np.int16), np.arange(20)) for _ in range(26)])
    """
    assert python(code) == "False\n"


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXITS)
def test_many_processes_end_well_when(python, name):
    """The daemon threads are at another step at the end of each process; 500 end with GATHERNEST_TEST_EXAMPLES=10."""
    code = textwrap.dedent(SETUP + EXITS[name])
    delays = [number * 0.003 for number in range(examples(5))]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda delay: python(f"{code}\nimport time; time.sleep({delay})", NUMBA_NUM_THREADS="2"), delays))
