"""Compiled kernels on disk: one folder an entry, written once and never changed.

    <cache folder>/<fingerprint>/<key>/kernel.py         the generated source
                                       kernel.json       its key, parameters, pipeline, and the digest of every file
                                       __pycache__/      Numba's machine code

`fingerprint` covers the versions, the CPU and the sources that make code; `key` the kernel. An entry is made under a
temporary name and renamed, so two processes may share a folder. An entry whose digests do not hold is removed and made
again. A folder that cannot be written means kernels in memory only, with one warning.
"""

import atexit
import hashlib
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..lowering.numba.program import Program
from .knobs import knobs
from .machine import PACKAGE, code_fingerprint

SOURCE, SIDECAR = "kernel.py", "kernel.json"


class CacheWarning(UserWarning):
    """The cache on disk cannot be used; kernels are compiled again in every process."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel ready to be called.

    Attributes:
        entry: the Numba dispatcher.
        program: its source and parameters.
        pipeline: the pipeline that made it.
        from_cache: whether its machine code came from disk.
    """

    entry: Any
    program: Program
    pipeline: str
    from_cache: bool


Build = Callable[[], tuple[Program, str]]


def cache_folder() -> Path:
    """Return the folder of everything that is kept on disk."""
    if knobs.cache_dir is not None:
        return Path(knobs.cache_dir)
    import platformdirs

    return Path(platformdirs.user_cache_dir("gathernest"))


def cache_root() -> Path:
    """Return the folder of this machine's and these versions' entries."""
    return cache_folder() / code_fingerprint()


def entry_folder(key: str) -> Path:
    """Return the folder of a kernel's entry, whether it is there or not."""
    return cache_root() / _entry_name(key)


def _entry_name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def load_kernel(key: str, build: Build) -> Loaded:
    """Return the kernel of that key, from disk or made by `build`.

    Args:
        key: text that says everything that decides the kernel's code.
        build: gives the program and the pipeline that made it; called only when the cache has no sound entry.

    Raises:
        CompileError: the backend refuses the program.
    """
    name = _entry_name(key)
    if knobs.always_compile:
        return _in_memory(name, build)
    folder = cache_root() / name
    try:
        found = _read(folder, name)
        if found is not None:
            return found
        folder.parent.mkdir(parents=True, exist_ok=True)
        workplace = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    except OSError as error:
        warn_unwritable(folder.parent, error)
        return _in_memory(name, build)
    try:
        return _make(key, name, folder, workplace, build)
    except OSError as error:
        warn_unwritable(folder.parent, error)
        return _in_memory(name, build)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _in_memory(name: str, build: Build) -> Loaded:
    from ..lowering.numba.compiler import load_text

    program, pipeline = build()
    return Loaded(load_text(program, name), program, pipeline, from_cache=False)


def _make(key: str, name: str, folder: Path, workplace: Path, build: Build) -> Loaded:
    """Build and compile in `workplace`, then put it in place under its own name."""
    from ..lowering.numba.compiler import load_file

    program, pipeline = build()
    (workplace / SOURCE).write_text(program.source)
    entry = load_file(program, workplace / SOURCE, name)
    sidecar = {"key": key, "pipeline": pipeline, **program.to_json(), "files": _digests(workplace)}
    (workplace / SIDECAR).write_text(json.dumps(sidecar, indent=1))
    try:
        os.rename(workplace, folder)
    except OSError:
        if not folder.is_dir():
            raise
    return Loaded(entry, program, pipeline, from_cache=False)


def _read(folder: Path, name: str) -> Loaded | None:
    """Return the entry in `folder`, or None after removing one that is not sound."""
    if not folder.is_dir():
        folder.unlink(missing_ok=True)
        return None
    from ..lowering.numba.compiler import load_file

    try:
        sidecar = json.loads((folder / SIDECAR).read_text())
        if not sidecar["files"] or sidecar["files"] != _digests(folder):
            raise ValueError("digests do not hold")
        program = Program.from_json((folder / SOURCE).read_text(), sidecar)
        entry = load_file(program, _writable_copy(folder) / SOURCE, name)
        return Loaded(entry, program, sidecar["pipeline"], from_cache=True)
    except Exception:  # whatever is wrong with an entry, the answer is to make it again
        _remove(folder)
        return None


def _writable_copy(folder: Path) -> Path:
    """Return an entry's folder, or a copy of one that cannot be written: Numba uses no other.

    So a cache that was made ahead of time, for an image or another user, serves from a read-only place.
    """
    if os.access(folder / "__pycache__", os.W_OK):
        return folder
    copy = Path(tempfile.mkdtemp(prefix="gathernest-")) / folder.name
    atexit.register(shutil.rmtree, copy.parent, ignore_errors=True)
    return Path(shutil.copytree(folder, copy))


def _digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file of an entry but its sidecar."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SIDECAR)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _remove(folder: Path) -> None:
    """Move an entry aside, so that nobody sees half of it, and delete it."""
    try:
        aside = Path(tempfile.mkdtemp(prefix=".removed-", dir=folder.parent))
        os.rename(folder, aside / "entry")
        shutil.rmtree(aside, ignore_errors=True)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


_warned: set[Path] = set()


def warn_unwritable(
    folder: Path, error: OSError, consequence: str = "kernels are compiled anew in every process"
) -> None:
    """Warn, once a folder, that what is kept there is not kept, and what follows from it."""
    if folder in _warned:
        return
    _warned.add(folder)
    warnings.warn(
        f"the cache folder {folder} cannot be written ({error.strerror or error}); {consequence}. "
        "Set GATHERNEST_CACHE_DIR to a folder that can be written",
        CacheWarning,
        stacklevel=levels_to_caller(),
    )


def levels_to_caller() -> int:
    """Return how far up the stack the first line outside this package is."""
    level, frame = 1, sys._getframe(1)
    while frame is not None and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
