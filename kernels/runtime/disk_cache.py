"""Compiled kernels on disk: one folder an entry, written once and never changed.

    <cache folder>/<fingerprint>/<key>/kernel.py      the generated source
                                       kernel.o       its object code
                                       kernel.json    its key, parameters, pipeline, and the digests of both

`fingerprint` covers the versions, the CPU and the sources that make code; `key` the kernel. An entry is made under a
temporary name and renamed, so two processes may share a folder. An entry whose digests do not hold, or that another
user could have written, is never run: it is removed and made again. A folder that cannot be written, or a full disk,
means kernels in memory only, with one warning.
"""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...ir.numbers import parse_json
from ...lowering.numba.program import Program
from ...lowering.registry import passes_of_others
from ..host.cache_folder import WARNED, cache_folder, warn_unwritable
from ..host.cpu import code_fingerprint
from ..host.files import check_own_folder, publish_folder, read_own, remove_folder
from ..host.knobs import knobs

if TYPE_CHECKING:
    from ...lowering.native.kernel_code import KernelCode

SOURCE, OBJECT, SIDECAR = "kernel.py", "kernel.o", "kernel.json"
LOCK = ".lock"  # a file of no bytes: processes that make the same entry lock one of its places
MEGABYTE = 1024**2
UNFINISHED_FOR_S = 86_400  # no kernel takes a day to compile
PRUNED_EVERY = 32  # kernels; counting the bytes of 1400 takes 180 ms on a busy machine, less than one compilation
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel ready to be called.

    Attributes:
        entry: its machine code.
        program: its source and parameters.
        pipeline: the pipeline that made it.
        from_cache: whether its machine code came from disk.
    """

    entry: "KernelCode"
    program: Program
    pipeline: str
    from_cache: bool


Build = Callable[[], Program]
# The type of loaded object code.
Code = TypeVar("Code")


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
        key: a text with everything that decides the kernel's code beside the passes.
        pipeline: the passes that make it; passes of other packages are identified by their sources, too.
        build: makes the program; called only when the cache has no sound entry.

    Raises:
        CompileError: the backend rejects the program.
    """

    def make(name: str) -> tuple[Program, bytes]:
        from ...lowering.numba.compiler import compile_program

        program = build()
        return program, compile_program(program, f"<gathernest kernel {name}>")

    program, entry, from_cache = _stored(key, pipeline, make, _kernel_code)
    return Loaded(entry, program, pipeline, from_cache)


def native_code(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the object code of that name, which is no kernel: from disk, or made by `make`.

    The name has everything that decides the code beside the sources and the machine.
    """
    _, code, _ = _stored(f"native code: {name}", "", lambda _: (Program("", (), {}), make()), bytes)
    return code


def _stored(
    key: str, pipeline: str, make: Callable[[str], tuple[Program, bytes]], load: Callable[[bytes], Code]
) -> tuple[Program, Code, bool]:
    """Return a program, its object code as loaded by `load`, and whether that came from disk.

    Args:
        key: as of `load_kernel`.
        pipeline: as of `load_kernel`.
        make: makes them for the entry of that name, where the cache has no sound one.
        load: raises where the object code is not sound.
    """
    root, name = cache_root(), _entry_name(key, pipeline)
    is_kept = False
    if not knobs.always_compile:
        try:
            root.mkdir(0o755, parents=True, exist_ok=True)
            check_own_folder(root)
            if (found := _read(key, pipeline, root / name, load)) is not None:
                return *found, True
            is_kept = root not in WARNED
        except OSError as error:
            warn_unwritable(root, error)
    program, code = make(name)
    if is_kept:
        try:
            _keep(key, pipeline, root / name, program, code)
        except OSError as error:
            warn_unwritable(root, error)
    return program, load(code), False


def _keep(key: str, pipeline: str, folder: Path, program: Program, code: bytes) -> None:
    """Make an entry of a compiled kernel; raises OSError."""
    files = {SOURCE: program.source.encode(), OBJECT: code}
    sidecar = {"key": key, "pipeline": pipeline, **program.to_json(), "files": _digests(files)}
    with publish_folder(folder) as workplace:
        for file, content in files.items():
            (workplace / file).write_bytes(content)
        (workplace / SIDECAR).write_text(json.dumps({**sidecar, "digest": _digest(sidecar)}, indent=1))
    if len(os.listdir(folder.parent)) % PRUNED_EVERY == 0:
        prune(knobs.cache_limit_mb * MEGABYTE)


def _read(key: str, pipeline: str, folder: Path, load: Callable[[bytes], Code]) -> tuple[Program, Code] | None:
    """Return the program and code of the entry in `folder`; remove an entry that is not sound, and return None.

    Raises:
        OSError: an entry that is not sound cannot be removed.
    """
    if not os.path.lexists(folder):
        return None
    try:
        program, code = _check(key, pipeline, folder)
        loaded = load(code)
    except Exception as error:  # whatever the fault of an entry is, it is made again
        remove_folder(folder, error)
        return None
    with contextlib.suppress(OSError):
        os.utime(folder)  # when it was last used
    return program, loaded


def _check(key: str, pipeline: str, folder: Path) -> tuple[Program, bytes]:
    """Return the program of an entry and its object code.

    Raises:
        Exception: the entry was not made for the key, or another user could have written it.
    """
    check_own_folder(folder)
    sidecar = parse_json(read_own(folder / SIDECAR))
    files = {name: read_own(folder / name) for name in (SOURCE, OBJECT)}
    wanted = {"key": key, "pipeline": pipeline, "files": _digests(files)}
    if sidecar.pop("digest") != _digest(sidecar) or not wanted.items() <= sidecar.items():
        raise ValueError("digests do not hold")
    return Program.from_json(files[SOURCE].decode(), sidecar), files[OBJECT]


def read_entry(folder: Path) -> dict[str, bytes]:
    """Return the files of an entry by name, as another process sends them; raises OSError."""
    return {name: read_own(folder / name) for name in (SOURCE, OBJECT, SIDECAR)}


def loaded_from(pipeline: str, files: dict[str, bytes]) -> Loaded:
    """Return the kernel of an entry's files, which are trusted; raises where they are not sound."""
    program = Program.from_json(files[SOURCE].decode(), parse_json(files[SIDECAR]))
    return Loaded(_kernel_code(files[OBJECT]), program, pipeline, from_cache=False)


def _kernel_code(code: bytes) -> "KernelCode":
    from ...lowering.native.kernel_code import KernelCode  # llvmlite, which a first call needs and an import does not

    return KernelCode(code)


def _digest(sidecar: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(sidecar, sort_keys=True).encode()).hexdigest()


def _digests(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel on disk, of these versions or others.

    Attributes:
        folder: its folder.
        size_bytes: the sum of the sizes of its files.
        last_used_s: the time when it was made or last loaded, in seconds since 1970.
    """

    folder: Path
    size_bytes: int
    last_used_s: float

    @property
    def is_finished(self) -> bool:
        """Whether it is whole; false while a process makes it, and where that process was killed."""
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
    """Return the number and the bytes of the kernels in the cache folder: of these versions, and of others."""
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
    """Remove the least recently used kernels until the others fit into a limit in bytes; return the removed ones.

    An entry that another process has not finished stays for a day, since that may be at work.
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
            if not _folders(str(root)):
                (root / LOCK).unlink(missing_ok=True)
            root.rmdir()
    return removed
