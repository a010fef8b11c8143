"""Whether `out`, an array in a file or a store (h5py, zarr), is one that data or the tasks of dask read from."""

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ...ir.errors import InvalidGatherError
from ..runtime.array_checks import is_stored_array

# What refers to no array: of frozensets, dask makes one for each task, of keys.
_LEAVES = (int, float, bytes, type(None), frozenset, np.ndarray, np.dtype, type, ModuleType)


def check_apart(source: Any, out: Any, what: str = "data itself") -> None:
    """Check that two stored arrays are not one, also where each was opened by itself; raises InvalidGatherError."""
    if type(source) is not type(out):
        return
    if hasattr(out, "file"):
        written = list(_datasets(out))
        is_one = any(read == dataset for read in _datasets(source) for dataset in written)
    else:
        is_one = os.path.join(*_place(source)) == os.path.join(*_place(out))
    if is_one:
        raise _is_read(what)


def check_not_read(lazy: Any, out: Any) -> None:
    """Check that nothing that a dask array is made of names `out`: as an array, or its path as a text.

    Args:
        lazy: its own tasks gather, and read no array by themselves.

    Raises:
        InvalidGatherError: a task does, or the function of one.
    """
    what, (folder, name), texts = "what dask reads from", _place(out), set()
    for part in named_in([layer for key, layer in lazy.__dask_graph__().layers.items() if key != lazy.name]):
        if isinstance(part, str | os.PathLike):
            texts.add(os.fsdecode(part))
        else:
            check_apart(part, out, what)
    whole = os.path.join(folder, name).rstrip("/")
    ends = {os.path.basename(folder), os.path.basename(whole)}
    paths = {os.path.realpath(path) for text in texts if os.path.basename(path := _path(text)) in ends}
    if whole in paths or (folder in paths and name in {text.strip("/") for text in texts}):
        raise _is_read(what)


def _is_read(what: str) -> InvalidGatherError:
    return InvalidGatherError(
        f"out is {what}, whose slices would be read after others were written; pass another array of the file"
    )


def named_in(parts: list[Any]) -> Iterator[Any]:
    """Return the stored arrays and the texts that objects and their functions refer to, however deep."""
    parts, seen, is_named, is_leaf = [*parts], set(), {}, {}
    while parts:
        part: Any = parts.pop()
        kind = type(part)
        if kind not in is_named:
            is_named[kind] = is_stored_array(part) or isinstance(part, str | os.PathLike)
            # A future of distributed refers to all that its client has.
            is_leaf[kind] = isinstance(part, _LEAVES) or str(kind.__module__).startswith("distributed.")
        if is_leaf[kind] or id(part) in seen:
            continue
        seen.add(id(part))
        if is_named[kind]:
            yield part
        elif kind is FunctionType:
            parts += _of_function(part)
        else:
            parts += gc.get_referents(part)


def _of_function(function: Any) -> list[Any]:
    """Return what a function refers to; of global names only stored arrays: others lead to all that is imported."""
    code = function.__code__
    named = filter(is_stored_array, map(function.__globals__.get, code.co_names))
    return [function.__defaults__, function.__kwdefaults__, function.__closure__, code.co_consts, *named]


def _place(stored: Any) -> tuple[str, str]:
    """Return the file, folder or address that a stored array is in, and its name there."""
    if hasattr(stored, "file"):
        return os.path.realpath(stored.file.filename), stored.name.strip("/")
    store = stored.store
    while hasattr(store, "_store"):  # a wrapper's
        store = store._store
    if hasattr(store, "fs"):
        files, path = getattr(store.fs, "sync_fs", store.fs), store.path
        if files.protocol == "dir":
            files, path = files.fs, os.path.join(files.path, path)
        address = files.unstrip_protocol(path)
    elif isinstance(getattr(store, "root", None), Path) or type(store).__name__ == "DirectoryStore":
        address = f"file://{getattr(store, 'root', None) or store.path}"
    else:
        address = str(store)
    return os.path.realpath(_path(address)) if address.startswith("file://") else address, stored.path


def _datasets(dataset: Any) -> Iterator[Any]:
    """Return a dataset of HDF5, and those whose elements a virtual one has."""
    yield dataset
    for source in dataset.virtual_sources() if dataset.is_virtual else ():
        with suppress(OSError, KeyError):  # of a source that is missing, a virtual dataset has the fill value
            file = dataset.file
            if source.file_name != ".":
                folder = os.path.dirname(file.filename)
                file = type(file)(os.path.join(folder, source.file_name), "r")
            yield from _datasets(file[source.dset_name])


def _path(text: str) -> str:
    """Return a text as a path, if it is one."""
    return text.removeprefix("file://").rstrip("/")
