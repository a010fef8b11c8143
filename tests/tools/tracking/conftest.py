import subprocess
from pathlib import Path

import pytest

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
