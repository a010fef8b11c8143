"""Compiled kernels on disk: one folder an entry, written once and never changed.

    <cache folder>/<fingerprint>/<key>/kernel.py         the generated source
                                       kernel.json       its key, parameters, pipeline, and the digest of every file
                                       __pycache__/      Numba's machine code

`fingerprint` covers the versions, the CPU and the sources that make code; `key` the kernel. An entry is made under a
temporary name and renamed, so two processes may share a folder. An entry whose digests do not hold, or that another
user could have written, is never run: it is removed and made again. A folder that cannot be written, or a full disk,
means kernels in memory only, with one warning.
"""

import atexit
import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...lowering.numba.program import Program
from ...lowering.registry import passes_of_others
from ..host.cache_folder import WARNED, cache_folder, warn_unwritable
from ..host.cpu import code_fingerprint
from ..host.files import check_own_folder, publish_folder, read_own, remove_folder
from ..host.knobs import knobs

SOURCE, SIDECAR = "kernel.py", "kernel.json"
MEGABYTE = 1024**2
UNFINISHED_FOR_S = 86_400  # no kernel takes a day to compile
PRUNED_EVERY = 32  # kernels; to count the bytes of 1400 took 180 ms on a busy machine, to compile one more than that
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


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


Build = Callable[[], Program]


def cache_root() -> Path:
    """Return the folder of this machine's and these versions' entries."""
    return cache_folder() / code_fingerprint()


def entry_folder(key: str, pipeline: str) -> Path:
    """Return the folder of a kernel's entry, whether it is there or not."""
    return cache_root() / _entry_name(key, pipeline)


def _entry_name(key: str, pipeline: str) -> str:
    made_by = "\n".join([key, pipeline, *passes_of_others(pipeline)])
    return hashlib.sha256(made_by.encode()).hexdigest()[:24]


def load_kernel(key: str, pipeline: str, build: Build) -> Loaded:
    """Return the kernel of that key, from disk or made by `build`.

    Args:
        key: text that says everything that decides the kernel's code but for the passes.
        pipeline: the passes that make it; where other packages' are among them, it is known by their sources, too.
        build: gives the program; called only when the cache has no sound entry.

    Raises:
        CompileError: the backend rejects the program.
    """
    name, build = _entry_name(key, pipeline), functools.cache(build)
    if knobs.always_compile:
        return _in_memory(name, pipeline, build)
    root = cache_root()
    try:
        root.mkdir(0o755, parents=True, exist_ok=True)
        check_own_folder(root)
        found = _read(key, pipeline, root / name)
        if found is not None:
            return found
        if root not in WARNED:
            return _make(key, pipeline, root / name, build)
    except OSError as error:
        warn_unwritable(root, error)
    return _in_memory(name, pipeline, build)


def _in_memory(name: str, pipeline: str, build: Build) -> Loaded:
    from ...lowering.numba.compiler import load_text

    program = build()
    return Loaded(load_text(program, name), program, pipeline, from_cache=False)


def _make(key: str, pipeline: str, folder: Path, build: Build) -> Loaded:
    """Build and compile a kernel into an entry."""
    from ...lowering.numba.compiler import load_file

    program = build()
    with publish_folder(folder) as workplace:
        (workplace / SOURCE).write_text(program.source)
        entry = load_file(program, workplace / SOURCE, folder.name)
        sidecar = {"key": key, "pipeline": pipeline, **program.to_json(), "files": _digests(workplace)}
        (workplace / SIDECAR).write_text(json.dumps({**sidecar, "digest": _digest(sidecar)}, indent=1))
    if len(os.listdir(folder.parent)) % PRUNED_EVERY == 0:
        prune(knobs.cache_limit_mb * MEGABYTE)
    return Loaded(entry, program, pipeline, from_cache=False)


def _read(key: str, pipeline: str, folder: Path) -> Loaded | None:
    """Return the entry in `folder`, or None after removing one that is not sound.

    Raises:
        OSError: one that is not sound cannot be removed, or a sound one cannot be copied.
    """
    if not os.path.lexists(folder):
        return None
    from ...lowering.numba.compiler import load_file

    try:
        program = _checked(key, pipeline, folder)
    except Exception as error:  # whatever is wrong with an entry, the answer is to make it again
        remove_folder(folder, error)
        return None
    source = _writable_copy(folder) / SOURCE
    try:
        entry = load_file(program, source, folder.name)
    except OSError:  # of the disk or another process that removes it, not of the entry
        return None
    except Exception as error:
        remove_folder(folder, error)
        return None
    with contextlib.suppress(OSError):
        os.utime(folder)  # when it was last used
    return Loaded(entry, program, pipeline, from_cache=True)


def _checked(key: str, pipeline: str, folder: Path) -> Program:
    """Return the program of an entry.

    Raises:
        Exception: the entry is not what was made for the key, or another user could have written it.
    """
    for part in (folder, folder / "__pycache__"):
        check_own_folder(part)
    sidecar = json.loads(read_own(folder / SIDECAR))
    wanted = {"key": key, "pipeline": pipeline, "files": _digests(folder, read_own)}
    if sidecar.pop("digest") != _digest(sidecar) or not wanted.items() <= sidecar.items():
        raise ValueError("digests do not hold")
    return Program.from_json(read_own(folder / SOURCE).decode(), sidecar)


def _writable_copy(folder: Path) -> Path:
    """Return an entry's folder, or a copy of one that cannot be written: Numba uses no other.

    So a cache that was made ahead of time, for an image or another user, serves from a read-only place.
    """
    if os.access(folder / "__pycache__", os.W_OK):
        return folder
    copy = Path(tempfile.mkdtemp(prefix="gathernest-")) / folder.name
    atexit.register(shutil.rmtree, copy.parent, ignore_errors=True)
    return Path(shutil.copytree(folder, copy))


def _digest(sidecar: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(sidecar, sort_keys=True).encode()).hexdigest()


def _digests(folder: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> dict[str, str]:
    """Return the digest of every file of an entry but its sidecar."""
    machine_code = folder / "__pycache__"
    files = [path for path in folder.iterdir() if path.name != SIDECAR and path != machine_code]
    files += machine_code.iterdir()
    return {str(path.relative_to(folder)): hashlib.sha256(read(path)).hexdigest() for path in sorted(files)}


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel on disk, of these versions or others.

    Attributes:
        folder: where it lies.
        size_bytes: the sizes of its files.
        last_used_s: when it was made or last loaded, in seconds since 1970.
    """

    folder: Path
    size_bytes: int
    last_used_s: float

    @property
    def is_finished(self) -> bool:
        """Whether it is whole; false while a process makes it, and where one was ended meanwhile."""
        return not self.folder.name.startswith(".")


def entries() -> list[Entry]:
    """Return every kernel in the cache folder, least recently used first."""
    found: list[Entry] = []
    for root in _folders(str(cache_folder())):
        for folder in _folders(root.path) if _FINGERPRINT.fullmatch(root.name) else ():
            with contextlib.suppress(OSError):  # removed meanwhile
                found.append(Entry(Path(folder.path), _size_bytes(folder.path), folder.stat().st_mtime))
    return sorted(found, key=lambda entry: entry.last_used_s)


def _folders(path: str) -> list[os.DirEntry[str]]:
    try:
        return [entry for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _size_bytes(folder: str) -> int:
    return sum(
        _size_bytes(entry.path) if entry.is_dir(follow_symlinks=False) else entry.stat(follow_symlinks=False).st_size
        for entry in os.scandir(folder)
    )


def usage() -> dict[str, int]:
    """Return how many kernels the cache folder holds, and of how many bytes: of these versions, and of others."""
    every, root = [entry for entry in entries() if entry.is_finished], cache_root()
    here = [entry.size_bytes for entry in every if entry.folder.parent == root]
    others = [entry.size_bytes for entry in every if entry.folder.parent != root]
    return {
        "entries": len(here),
        "size_bytes": sum(here),
        "entries_of_other_versions": len(others),
        "size_bytes_of_other_versions": sum(others),
    }


def prune(limit_bytes: int) -> list[Entry]:
    """Remove the least recently used kernels until the others take so many bytes at most; return the removed.

    What another process has not finished stays for a day, since it may be at work.
    """
    removed: list[Entry] = []
    kept, long_ago_s = entries(), time.time() - UNFINISHED_FOR_S
    total_bytes = sum(entry.size_bytes for entry in kept if entry.is_finished)
    for entry in kept:
        if total_bytes > limit_bytes if entry.is_finished else entry.last_used_s < long_ago_s:
            with contextlib.suppress(OSError):  # another user's, or another process removes it
                remove_folder(entry.folder, "it is least recently used")
                removed.append(entry)
                total_bytes -= entry.size_bytes if entry.is_finished else 0
    for root in {entry.folder.parent for entry in removed}:
        with contextlib.suppress(OSError):  # there are others in it
            root.rmdir()
    return removed
