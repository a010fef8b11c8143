"""Processes in which counts are exact: one thread, one hash seed, a generic CPU, a named machine model, a new cache."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

# valgrind 3 reads no AVX-512, and counts of one CPU are those of every other: all kernels are made for this target.
CPU_NAME, MACHINE = "x86-64-v3", "avx2"
LIMIT_S = 1700  # valgrind takes two minutes of a core, of which a busy machine gives a tenth; below the timeout of asv
BENCHMARKS = Path(__file__).resolve().parents[1]
SETTINGS = {
    "GATHERNEST_CACHE_DIR": "cache",
    "GATHERNEST_COMPILE": "now",  # kernels are counted, and not the answers of NumPy until they are compiled
    "GATHERNEST_MACHINE": MACHINE,
    "GATHERNEST_NUM_THREADS": "1",
    "GATHERNEST_TUNING": "off",
    "NUMBA_CPU_FEATURES": "",
    "NUMBA_CPU_NAME": CPU_NAME,
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONPYCACHEPREFIX": "bytecode",  # the session fills it, so that no other process compiles what it imports
    "PYTHONSAFEPATH": "1",
}


class CountError(RuntimeError):
    """A count could not be made; the message is what its process said last."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the processes of one set of counts run.

    Attributes:
        folder: their working folder, new, with the kernels that they compile in `cache`.
        env: their environment.
    """

    folder: Path
    env: dict[str, str]

    def ask(self, program: str, *words: str, before: tuple[str, ...] = ()) -> Any:
        """Run a module of this package and return the JSON that it prints last.

        Args:
            program: the name of the module.
            words: its arguments.
            before: what is put before the interpreter.

        Raises:
            CountError: it failed, or took longer than the limit.
        """
        command = [*before, sys.executable, "-m", f"{BENCHMARKS.name}.counting.{program}", *words]
        try:
            ended = subprocess.run(
                command, env=self.env, cwd=self.folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired as error:
            raise CountError(f"{program} took more than {LIMIT_S} s") from error
        if ended.returncode:
            raise CountError((ended.stderr.strip() or f"{program} ended with status {ended.returncode}")[-2000:])
        return json.loads(ended.stdout.splitlines()[-1])


@contextlib.contextmanager
def place() -> Iterator[Place]:
    """Give the one place of this user, emptied; who comes second waits.

    Its name is always the same: the order of a set, and so the number of instructions, depends on the letters of paths.
    """
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"gathernest-counts-{user}"
    with only_one(folder.with_suffix(".lock")):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        inherited = {name: os.environ[name] for name in ("HOME", "PATH", "LD_LIBRARY_PATH") if name in os.environ}
        packages = [str(BENCHMARKS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            yield Place(folder, inherited | SETTINGS | {"PYTHONPATH": os.pathsep.join(packages)})
        finally:
            shutil.rmtree(folder)


@contextlib.contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Wait until no other process has this lock, where the system has locks."""
    with lock.open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
