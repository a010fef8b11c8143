"""Shared by the tests of the run time: other processes, and a process that has forgotten its kernels."""

import itertools
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from gathernest.ir.semantics import Bounds
from gathernest.kernels.host.files import MOST_BYTES
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.host.timing import Timings
from gathernest.kernels.tuning.tuner import Tuner


@pytest.fixture
def cache_dir(tmp_path: Path, forget: Callable[[], None]):
    """A cache folder of the test's own, in a process that has forgotten its kernels."""
    gn.knobs.cache_dir = tmp_path / "cache"
    yield tmp_path / "cache"
    del gn.knobs.cache_dir


def _move_behind_a_link(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name("elsewhere")))


def _link_to_zeros(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _replace_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


# How a sound file becomes one that must not be read; of the last, only the size is wrong.
UNSOUND: dict[str, Callable[[Path], None]] = {
    "a link": _move_behind_a_link,
    "a link to endless zeros": _link_to_zeros,
    "a pipe": _replace_by_a_pipe,
    "writable by others": lambda path: path.chmod(0o666),
    "writable by others, and sticky": lambda path: path.chmod(0o1666),
    "too large": lambda path: os.truncate(path, MOST_BYTES + 1),
}


@pytest.fixture(params=UNSOUND)
def make_unsound(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    """Return a function that makes a sound file one that must not be read."""
    return UNSOUND[request.param]


@pytest.fixture
def serial():
    """Run every gather under the empty schedule: its kernels compile sooner than parallel ones."""
    with gn.knobs.scope(schedule=""):
        yield


_ACTIONS: dict[str, Callable[..., None]] = {}


def _call_action(event: str, arguments: tuple) -> None:
    if event in _ACTIONS:
        _ACTIONS[event](*arguments)


@pytest.fixture(scope="session")
def _audited() -> None:
    sys.addaudithook(_call_action)  # which lasts to the end of the process


@pytest.fixture
def at_event(_audited) -> Iterator[Callable[[str, Callable[..., None]], None]]:
    """Return a function that has Python call an action before a call of the system, such as `os.rename`.

    The call raises the errors of the action. Python's table of audit events has the names.
    """
    yield _ACTIONS.__setitem__
    _ACTIONS.clear()


class Python:
    """Runs pieces of code in processes of their own."""

    def __init__(self, folder: Path):
        self._folder = folder

    def start(self, code: str, **environment: str) -> subprocess.Popen:
        """Start a process; its working folder is the test's own."""
        return subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=os.environ | environment,
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen) -> str:
        """Wait for a process and return what it printed; one that fails or hangs fails the test."""
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail(f"the process hangs; it printed {process.communicate()}")
        assert process.returncode == 0, f"exit status {process.returncode}\n{out}\n{err}"
        return out

    def __call__(self, code: str, **environment: str) -> str:
        return self.finish(self.start(code, **environment))


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return Python(tmp_path)


@pytest.fixture
def timed(monkeypatch) -> Callable[[dict[str, float]], list[list[str]]]:
    """Give schedules made-up times; those that are not named take 1 s. Returns the heats that were timed."""

    def use(times_s: Mapping[str, float]) -> list[list[str]]:
        heats: list[list[str]] = []

        def timer(candidates: Mapping[str, Callable[[], object]], *, rounds: int) -> Timings:
            heats.append(list(candidates))
            for call in candidates.values():
                call()
            return Timings({name: [times_s.get(name, 1.0)] * rounds for name in candidates})

        idle = {"timer": timer, "busy_cores": lambda: 0.0}
        monkeypatch.setattr(Tuner.__init__, "__kwdefaults__", Tuner.__init__.__kwdefaults__ | idle)
        return heats

    return use


@pytest.fixture
def own_records(tmp_path, unnamed_machine):
    """Keep records in a file of the test's own; kernels are those of the test run."""
    gn.knobs.tuning = tmp_path / "records.json"
    RUNTIME.forget()
    yield
    del gn.knobs.tuning
    RUNTIME.forget()


@pytest.fixture
def gathers_of() -> Callable[[np.ndarray, np.random.Generator], Iterator[tuple[OperatorSpec, np.ndarray, Bounds]]]:
    """Return a function that draws gathers from an array of three dimensions: every operator, axis and bounds mode."""

    def draw(data: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[OperatorSpec, np.ndarray, Bounds]]:
        for axis, bounds in itertools.product(range(3), (Bounds.ERROR, Bounds.ZERO, Bounds.CLIP, Bounds.WRAP)):
            size = data.shape[axis]
            low, high = (-size, size) if bounds is Bounds.ERROR else (-2 * size, 2 * size)
            yield Gather(axis), rng.integers(low, high, (3, 4)), bounds
            yield GatherElements(axis), rng.integers(low, high, tuple(min(6, size) for size in data.shape)), bounds
            if axis:
                yield Gather(axis, 1), rng.integers(low, high, (data.shape[0], 5)), bounds
            least = min(data.shape[:2])
            yield GatherNd(), rng.integers(-least, least, (9, 2)).astype(np.int16), bounds

    return draw
