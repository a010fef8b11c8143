"""The known subteam: known while all that decides how many threads a launch may use is what it was."""

import ctypes
import gc
import os
import sys
import types
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from gathernest.lowering.native.call_layout import NO_SUBTEAM
from gathernest.lowering.native.fast_call_ir import build_known_subteam
from gathernest.lowering.native.llvm_jit import keep_for_ever, load_object
from gathernest.lowering.native.threads.known_subteam import KnownSubteam, ThreadSettings, known_words
from gathernest.lowering.native.word_code import Code, WordModule, object_of

SUBTEAM = 640
FIRST, OTHER = {"num_threads": 2}, {"num_threads": 2}
POOL, CONFIG = "numba.np.ufunc.parallel", "numba.core.config"


class Asked:
    """A known subteam of two settings and a scope, and the machine code that compares."""

    def __init__(self) -> None:
        self.scope = ContextVar("scope", default=FIRST)
        self.settings: dict[str, Any] = {"wanted": 1000}
        self.known = KnownSubteam(ThreadSettings(self.scope, ((self.settings, "wanted"), (self.settings, "absent"))))
        keep_for_ever(self)
        words = known_words(self.known)
        module = WordModule("known", list(words))
        build_known_subteam(module)
        code = Code(module, "ask", 0, "external")
        code.ret(code.call_function("known_subteam"))
        self.ask: Callable[[], int] = ctypes.PYFUNCTYPE(ctypes.c_int64)(load_object(object_of(module), words)("ask"))

    def remember(self, subteam: int = SUBTEAM) -> None:
        for _ in range(2):
            self.known.remember(subteam, self.known.settings.now())


@pytest.fixture
def asked(monkeypatch) -> Asked:
    """Where Numba is not imported."""
    for name in (POOL, CONFIG):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)
    return Asked()


def test_nothing_is_known_before_the_second_launch(asked):
    assert asked.ask() == 0
    asked.known.remember(SUBTEAM, asked.known.settings.now())
    assert asked.ask() == 0
    asked.known.remember(SUBTEAM, asked.known.settings.now())
    assert asked.ask() == SUBTEAM


def module_with(**values: object) -> types.ModuleType:
    module = types.ModuleType("module")
    vars(module).update(values)
    return module


CHANGES: dict[str, Callable[[Asked, pytest.MonkeyPatch], object]] = {
    "another scope": lambda asked, patch: asked.scope.set(OTHER),
    "another value": lambda asked, patch: asked.settings.update(wanted=2000),
    "no value": lambda asked, patch: asked.settings.update(wanted=None),
    "a value that was absent": lambda asked, patch: asked.settings.update(absent=3),
    "a value that is gone": lambda asked, patch: asked.settings.pop("wanted"),
    "a pool that is imported": lambda asked, patch: patch.setitem(
        sys.modules, POOL, module_with(_is_initialized=False)
    ),
    "threads that Numba has": lambda asked, patch: patch.setitem(sys.modules, CONFIG, module_with(NUMBA_NUM_THREADS=5)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_has_changed_is_not_known_until_it_is_remembered(asked, monkeypatch, change):
    asked.remember()
    assert asked.ask() == SUBTEAM
    change(asked, monkeypatch)
    assert asked.ask() == 0
    asked.remember()
    assert asked.ask() == SUBTEAM


@pytest.mark.parametrize(
    "pool",
    [None, object(), module_with(), module_with(_is_initialized=True)],
    ids=["blocked", "object", "half imported", "started"],
)
def test_a_pool_that_runs_or_tells_nothing_is_not_known(asked, monkeypatch, pool):
    monkeypatch.setitem(sys.modules, POOL, pool)
    asked.remember()
    assert asked.ask() == 0


def test_a_launch_without_a_subteam_is_known_too(asked):
    asked.remember(0)
    assert asked.ask() == NO_SUBTEAM


def test_nothing_is_known_once_it_is_forgotten(asked):
    asked.remember()
    asked.known.forget()
    assert asked.ask() == 0


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no threads to cores")
def test_other_cores_are_not_known(asked):
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("one core leaves no choice")
    asked.remember()
    os.sched_setaffinity(0, {max(before)})
    try:
        assert asked.ask() == 0
        asked.remember()
        assert asked.ask() == SUBTEAM
    finally:
        os.sched_setaffinity(0, before)
    assert asked.ask() == 0


def test_settings_that_changed_meanwhile_are_not_noted(asked):
    before = asked.known.settings.now()
    for _ in range(2):
        asked.settings["wanted"] = 2000
        asked.known.remember(SUBTEAM, before)
        asked.settings["wanted"] = before[1]
    assert asked.ask() == 0


def test_what_was_being_found_when_it_was_forgotten_is_not_noted(asked):
    settings = asked.known.settings.now()
    asked.known.remember(SUBTEAM, settings)
    asked.known.forget()
    asked.known.remember(SUBTEAM, settings)
    assert asked.ask() == 0


def test_noted_settings_live_as_long_as_they_are_noted(asked):
    """Another mapping at the address of one that is gone would be taken for it."""

    class Mapping(dict):
        pass

    asked.scope.set(Mapping(num_threads=2))
    asked.remember()
    noted = weakref.ref(asked.scope.get())
    asked.scope.set(FIRST)
    asked.known.remember(SUBTEAM, asked.known.settings.now())
    gc.collect()
    assert noted() is not None
