"""Shared by every test: a cache folder of the test run, the choice of tests, the garbage collector, and the options."""

import gc
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from .selection import rest, select

if list((Path(os.environ.get("GATHERNEST_CACHE_DIR", os.devnull)) / "machines").glob("*.json")):
    raise pytest.UsageError("GATHERNEST_CACHE_DIR has a calibration, and tests expect built-in schedules; unset it")
if "GATHERNEST_CACHE_DIR" not in os.environ:
    os.environ["GATHERNEST_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / f"gathernest-tests-{os.getuid()}")

# Schedules are chosen for one machine, so that a test sees the same kernels everywhere.
os.environ.setdefault("GATHERNEST_MACHINE", "zen4")

# Kernels are tested, and not what answers until they are compiled; what tests that asks for it.
os.environ.setdefault("GATHERNEST_COMPILE", "now")

# The share of the examples of random tests to draw. The processes of pytest-xdist inherit it.
os.environ.setdefault("GATHERNEST_TEST_EXAMPLES", "1" if {"--all", "--rest"} & set(sys.argv) else "0.15")

# Some images set it; then each process that tests start would compile what it imports of ours: 0.2 s of 2 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell lets commands in the background ignore SIGINT, and nohup SIGHUP; the processes that tests end inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A busy machine takes any time for an example.
settings.register_profile("gathernest", deadline=None)
settings.load_profile("gathernest")

# Where a run without `--all` keeps the names of the tests that passed, for `--rest`.
PASSED = "gathernest/passed"

GOLDEN_TEXTS = Path(__file__).parent / "golden" / "texts"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run every test with every combination of its parameters")
    parser.addoption("--rest", action="store_true", help="--all, but for what has passed in the last run without --all")
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden") and config.getoption("numprocesses", None):
        raise pytest.UsageError("--update-golden writes files that several tests share; run it without -n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the options do not ask for, unless tests were named; begin with the folder of the longest file."""
    runs_all = config.getoption("--all") or config.getoption("--update-golden")
    if not runs_all and not any("::" in argument for argument in config.args):
        passed = config.cache.get(PASSED, []) if config.getoption("--rest") else None
        chosen = select(items) if passed is None else rest(items, passed)
        kept = set(map(id, chosen))
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
        items[:] = chosen
    items.sort(key=lambda item: "upstream" not in item.path.parts)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    options = ("--all", "--rest", "--update-golden")
    if config.pluginmanager.has_plugin("cacheprovider") and not any(map(config.getoption, options)):
        config.cache.set(PASSED, [report.nodeid for report in terminalreporter.stats.get("passed", [])])


def pytest_collection_finish() -> None:
    """Take what lasts to the end of the run from the garbage collector, which walked through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


# By pytest for each test, and by polars and torch when they are imported.
SET_BY_OTHERS = ("PYTEST_CURRENT_TEST", "_RJEM_MALLOC_CONF", "TORCHINDUCTOR_CACHE_DIR")


@pytest.fixture(autouse=True)
def _environment_as_before() -> Iterator[None]:
    """Fail a test that leaves the variables of this process changed, for processes of later tests inherit them."""
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    names = sorted(name for name in before | after if before.get(name) != after.get(name))
    left = [name for name in names if name not in SET_BY_OTHERS]
    for name in left:
        os.environ.pop(name, None)
        os.environ.update({name: before[name]} if name in before else {})
    assert not left, f"the test leaves other variables of the environment behind: {', '.join(left)}"


@pytest.fixture(scope="session")
def program() -> Callable[..., str]:
    """Return a function from the name of a program to its path; it skips the test where none is understood.

    It takes the arguments of `lowering.programs.find`.
    """
    from gathernest.ir.errors import DependencyError
    from gathernest.lowering.programs import find

    def path_or_skip(name: str, **options) -> str:
        try:
            return find(name, **options).path
        except DependencyError as error:
            pytest.skip(str(error))

    return path_or_skip


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that puts a program, as a script of the shell, in the only folder of the PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def add(name: str, script: str, *, version: str | None = None, mode: int = 0o755) -> Path:
        answer = "" if version is None else f"[ \"$1\" = --version ] && {{ echo '{version}'; exit; }}\n"
        path = folder / name
        path.write_text(f"#!/bin/sh\n{answer}{script}\n")
        path.chmod(mode)
        return path

    return add


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that has a package look as if it were installed in a version that needs other packages.

    Only `importlib.metadata` takes it for that; its modules are those that were there before.
    """
    from gathernest.kernels.host.dependencies import require

    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def add(name: str, version: str, *needed: str) -> None:
        facts = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        facts.mkdir()
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {text}" for text in needed)]
        (facts / "METADATA").write_text("Metadata-Version: 2.1\n" + "".join(f"{line}\n" for line in lines))
        require.cache_clear()

    yield add
    require.cache_clear()


@pytest.fixture
def unnamed_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose schedules for the machine that runs the test, by its records and its calibration where it has some."""
    monkeypatch.delenv("GATHERNEST_MACHINE")


@pytest.fixture
def eager_threads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have threads share the work of the smallest gather, as on a machine where to wake them takes no time."""
    from gathernest.kernels.host.knobs import knobs

    file = tmp_path_factory.mktemp("machine") / "eager.json"
    file.write_text('{"base": "zen4", "wake_ns": 1e-6}')
    with knobs.scope(machine=file):
        yield


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def golden(update_golden: bool) -> Callable[[str, str], None]:
    """Return a function that compares a text with the file of that name in `tests/golden/texts`, or writes the file.

    What depends on the machine is left out of the text by `without_numbers`, or is given by the test.
    """

    def compare(name: str, text: str) -> None:
        path = GOLDEN_TEXTS / name
        text = text.rstrip("\n") + "\n"
        if update_golden:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        advice = f"look at the difference, and run pytest --update-golden where it is meant: {path}"
        assert text == (path.read_text() if path.exists() else ""), advice

    return compare


@pytest.fixture
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which temporary files are made during the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def forget() -> Iterator[Callable[[], None]]:
    """Return a function that makes this process forget its kernels, so that the next call looks on disk."""
    from gathernest.kernels.host.runtime import RUNTIME
    from gathernest.kernels.runtime import call_cache
    from gathernest.kernels.runtime.compile_service import KERNELS

    kept = [(known, dict(known)) for known in (RUNTIME.loaded, RUNTIME.prepared)]

    def forget_now() -> None:
        for known, _ in kept:
            known.clear()
        call_cache.CALLS.forget()
        KERNELS.forget()

    forget_now()
    yield forget_now
    for known, before in kept:
        known.clear()
        known.update(before)


@pytest.fixture(scope="session")
def without_numbers() -> Callable[[str], str]:
    """Return a function that replaces measured numbers of a text, and the spaces around them, by `#`."""
    number = r" *(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?= ?(?:[µmn]?s|%|x|[KMGT]i?B(?:/s)?|million a second)\b)"
    return lambda text: re.sub(r" *\b\d+\.\d+\b", " #", re.sub(number, " #", text))
