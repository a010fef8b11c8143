"""An exception of a signal handler ends a first call at any moment, and the next call works."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from ...selection import examples

CODE = """
    import os, signal, sys, threading, numpy as np, gathernest as gn
    data, few = np.arange(80.0).reshape(20, 4), np.array([3, -1, 4])
    gn.knobs.always_compile = True
    def call():
        assert (gn.gather(data, few) == data[few]).all()
    def call_all():
        for _ in range(2):
            call()
            assert gn.gather_grad(data[few], few, data.shape).sum() == data[few].sum()
            assert (gn.gather_reduce(data, few, np.array([0, 1])) == [data[3], data[-1] + data[4]]).all()
    def interrupt(call):
        try:
            call()
        except KeyboardInterrupt:
            return True
        return False
"""
# Interrupts the import of a module that the first call needs.
DURING_IMPORT = """
    class Interrupting:
        def find_spec(self, name, path, target=None):
            if name == NAME:
                sys.meta_path.remove(self)
                os.kill(os.getpid(), signal.SIGINT)
    sys.meta_path.insert(0, Interrupting())
    print(interrupt(call))
    call()
    print(NAME in sys.modules, threading.stack_size())
"""
# Does something in the main thread before or after it calls a builtin function, as a signal handler would.
AT_A_CALL = """
    from gathernest.kernels.runtime.first_calls import FIRST_CALLS
    def at(event, name, act):
        def profile(_, happens, function):
            if (happens, getattr(function, "__name__", "")) == (event, name):
                sys.setprofile(None)
                act()
        sys.setprofile(profile)
    def check(event, act):
        call()
        at(event, "start_new_thread", act)
        interrupt(call)  # begins to import the planner
        sys.setprofile(None)
        gn.wait()
        for _ in range(100_000):  # until its thread has ended
            unplanned = len(FIRST_CALLS.problems)
            call()
            if len(FIRST_CALLS.problems) == unplanned:
                return
        os._exit(3)
    def fork():
        if child := os.fork():
            children.append(child)
    gn.knobs.always_compile = False
    for event in "c_call", "c_return":
        for act in signal.raise_signal, fork:
            children, parent = [], os.getpid()
            fork()
            if os.getpid() != parent:
                children, parent = [], os.getpid()
                check(event, (lambda: act(signal.SIGINT)) if act is not fork else fork)
                os._exit(any(os.waitpid(child, 0)[1] for child in children))
            print(event, act.__name__, os.waitpid(*children, 0)[1])
"""
AFTER_A_DELAY = """
    def handler(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, DELAY)
    if interrupt(call_all):
        print("interrupted")
    signal.setitimer(signal.ITIMER_REAL, 0)
    gn.knobs.always_compile = False
    call_all()
    print("right")
"""


# An exception that the package takes for one of the system's elsewhere.
OF_THE_SYSTEM = """
    def raise_at(function, work):
        def profile(_, happens, called):
            if (happens, getattr(called, "__name__", "")) == ("c_return", function):
                sys.setprofile(None)
                raise TimeoutError("of a handler")
        sys.setprofile(profile)
        try:
            work()
        except BaseException as error:
            print(repr(error))
    call()
    kernels = [{"operator": "gather", "data": "100x4xf32", "indices": "9xi64", "axis": axis} for axis in (0, 1)]
    raise_at("start_new_thread", lambda: gn.gather(data.astype("i2"), few))
    raise_at("start_new_thread", lambda: gn.compile("gather", data.astype("f4"), few))
    gn.knobs.always_compile = False
    raise_at("poll", lambda: gn.warm(kernels, jobs=2))
    call()
"""


MODULES = "numba.core.types", "numba.core.typeconv", "numba.core.runtime", "numba.misc.special", "numba.core.typing"


@pytest.mark.parametrize(
    "name", [MODULES[0], *(pytest.param(name, marks=pytest.mark.thorough) for name in MODULES[1:])]
)
def test_a_call_works_after_one_that_was_interrupted_while_it_imported(python, name):
    assert python(CODE + DURING_IMPORT.replace("NAME", repr(name))) == "True\nTrue 0\n"


def test_a_signal_handler_may_raise_or_fork_while_a_thread_starts(python):
    printed = python(CODE + AT_A_CALL, GATHERNEST_COMPILE="never").split("\n")
    assert printed[:-1] == [f"{event} {act} 0" for event in ("c_call", "c_return") for act in ("raise_signal", "fork")]


@pytest.mark.thorough
def test_a_timeout_of_a_signal_handler_is_no_error_of_the_compiler(python, tmp_path):
    printed = python(CODE + OF_THE_SYSTEM, GATHERNEST_CACHE_DIR=str(tmp_path))
    assert printed == "TimeoutError('of a handler')\n" * 3


@pytest.mark.thorough
def test_a_call_works_after_one_that_was_interrupted_at_any_moment(python):
    """200 calls are interrupted with GATHERNEST_TEST_EXAMPLES=10."""
    draw = random.Random(0)
    delays = [draw.uniform(0.05, 1.5) for _ in range(examples(12))]
    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda delay: python(CODE + AFTER_A_DELAY.replace("DELAY", str(delay))), delays))
    assert {text.splitlines()[-1] for text in got} == {"right"}
    assert sum(text != "right\n" for text in got) > 0
