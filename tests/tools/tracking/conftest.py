import itertools
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gathernest.tools.tracking import compare
from gathernest.tools.tracking.kernel_facts import Conditions, KernelFacts, LoopFacts, StaticReport

PYPROJECT = '[project]\nname = "gathernest"\ndependencies = []\n'
# The public functions that the worker calls, by NumPy. `WAIT` is what a call does besides.
PACKAGE = """
import numpy as np

def wait(times):
    for _ in range(times):
        pass

IMPORT
class Kernel:
    schedule = "none"
    def __call__(self, data, indices, out):
        CALL
        return np.take(data, indices, axis=0, out=out, mode="clip")

def gather(data, indices, axis=0):
    return np.take(data, indices, axis)

def compile(operator, data, indices, axis=0, batch_dims=0, schedule=None):
    if operator != "gather":
        raise ValueError(f"there is no {operator}")
    return Kernel()
"""


class Repository:
    """A checkout of a tiny gathernest."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.git("init", "-q", "-b", "main")
        (folder / "kernels" / "host").mkdir(parents=True)
        (folder / "kernels" / "host" / "checkout.py").write_text("")
        (folder / "pyproject.toml").write_text(PYPROJECT)
        (folder / ".gitignore").write_text("ignored\n__pycache__\n")
        self.commit("plain")

    def git(self, *command: str) -> str:
        git = ["git", "-C", str(self.folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
        return subprocess.run([*git, *command], check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, name: str, *, at_import: str = "", at_call: str = "pass") -> None:
        """Commit the package with statements that an import and a call of a kernel run, as the tag `name`."""
        (self.folder / "__init__.py").write_text(PACKAGE.replace("IMPORT", at_import).replace("CALL", at_call))
        self.git("add", "-A")
        self.git("commit", "-qm", name, "--allow-empty")
        self.git("tag", name)


@pytest.fixture
def repository(program, temporary_folder, monkeypatch):
    program("git")
    folder = temporary_folder / "checkout"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Repository(folder)


@pytest.fixture
def eight_restarts(monkeypatch):
    """Have the time of `--budget 24s` pass with the questions for it, so that a busy machine has as many restarts."""
    passed = itertools.count()
    monkeypatch.setattr(compare, "clock", lambda: float(next(passed)))


INNER = LoopFacts(
    *("copy_tile inner", 2, True),
    vector_bytes=32,
    instructions=4,
    loads=1,
    stores=1,
    nontemporal_stores=0,
    prefetches=1,
    spills=0,
    calls=0,
    branches=1,
    code=(".L1:", "prefetcht0 (%rax)", "vmovups (%rax), %ymm0", "vmovups %ymm0, (%rdx)", "jne .L1"),
)
OUTER = replace(INNER, name="copy_tile indices_i", depth=1, is_hot=False, code=())
KERNEL = KernelFacts(
    "vectorize-inner{lanes=8},prefetch{what=rows loop=indices ahead=4}",
    (
        ("operator", "0a"),
        ("nest", "1a"),
        ("vectorize-inner{lanes=8}", "2a"),
        ("prefetch{what=rows loop=indices ahead=4}", "3a"),
    ),
    "5a",
    "6a",
    (OUTER, INNER),
)
VERSIONS = {"numba": "0.68.1", "llvmlite": "0.50.0"}


@pytest.fixture
def kernel() -> KernelFacts:
    return KERNEL


@pytest.fixture
def inner() -> LoopFacts:
    return INNER


@pytest.fixture
def reported():
    """Make a report of some cases, each with its kernel."""

    def report(versions=None, **kernels) -> StaticReport:
        conditions = Conditions("x86-64-v3", {"base": "avx2", "threads": 4})
        return StaticReport(conditions, versions or VERSIONS, kernels)

    return report
