"""Inputs of a model for the command line: arrays from files, and the others at random with indices in range."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...interop.models.model import Model
from ...interop.models.runtime import TensorSpec
from ...ir.errors import InvalidGatherError, ModelError, did_you_mean
from ...ir.problem import Problem
from .terminal import UsageError

Arrays = dict[str, np.ndarray]
MAX_RANDOM_BYTES = 2**31


def describe_problem(problem: Problem) -> str:
    """Return a gather of a model in one line."""
    return f"{problem.name} {problem.table} by {problem.indices}, bounds {problem.bounds}"


def named_files(entries: list[str]) -> dict[str, Path]:
    """Read `NAME=FILE` entries, and `FILE.npz`, which is an entry for each array in it.

    A name may have `=` in it when the file's name has none. An array of a `.npz` has the path FILE.npz/NAME.
    """
    found: dict[str, Path] = {}
    for entry in entries:
        name, separator, file = entry.rpartition("=")
        pairs = {name: Path(file)}
        if not separator and entry.endswith(".npz"):
            pairs = {key: Path(entry, key) for key in _open_arrays(Path(entry), entry).files}
        elif not separator or not name or not file:
            raise UsageError(f"--input {entry!r} is not NAME=FILE, as in --input tokens=tokens.npy, and no FILE.npz")
        for key, path in pairs.items():
            if key in found:
                raise UsageError(f"--input {key!r} is given twice")
            found[key] = path
    return found


def read_inputs(model: Model, files: Mapping[str, Path]) -> Arrays:
    """Return the arrays of files; elements that NumPy saves as bytes get the model's dtype."""
    model.check_names(files)
    return {name: _read_input(name, model.inputs.get(name), path) for name, path in files.items()}


def _read_input(name: str, spec: TensorSpec | None, path: Path) -> np.ndarray:
    if path.parent.suffix == ".npz":
        array = _read(lambda: _open_arrays(path.parent, name)[path.name], path, name)
    else:
        array = _open_arrays(path, name)
    if not isinstance(array, np.ndarray):
        raise ModelError(f"--input {name}: {path} holds several arrays; give --input {path} for all of them")
    if spec is None or spec.dtype is None or spec.dtype.hasobject or array.dtype.kind != "V" or array.dtype.names:
        return array
    return array.view(spec.dtype) if array.dtype.itemsize == spec.dtype.itemsize else array


def _open_arrays(path: Path, name: str) -> Any:
    """Return the array of a `.npy` file, or the arrays of a `.npz`."""
    return _read(lambda: np.load(path, allow_pickle=False), path, name)


def _read(read: Any, path: Path, name: str) -> Any:
    try:
        return read()
    except OSError as error:
        raise ModelError(f"--input {name}: {path}: {error.strerror or error}") from None
    except MemoryError:
        raise
    except Exception as error:  # of NumPy, zipfile or Python's tokenizer, which reads headers
        reason = str(error).partition("\n")[0]
        if "pickle" in reason:  # NumPy says so of every other file, too, and advises to load it unsafely
            reason = "it has no header of NumPy, or Python objects"
        raise ModelError(f"--input {name}: {path} is not a .npy file of plain elements: {reason}") from None


def random_inputs(
    model: Model, given: Mapping[str, np.ndarray], rng: np.random.Generator, sizes: Mapping[str, int] | None = None
) -> Arrays:
    """Return an array for each input that is not given; integers are indices in range of every gather.

    Args:
        model: whose inputs they are.
        given: the arrays of other inputs, by name; their sizes hold for all inputs.
        rng: fills the arrays.
        sizes: sizes that are not known before the model runs, by their names or as `INPUT.AXIS`.

    Raises:
        ModelError: an input has a size that is not known, a size contradicts an array, or there is none of that name.
    """
    known = {dim for name, spec in model.inputs.items() for dim in spec.size_names(name) if dim is not None}
    bound = dict(sizes or {})
    for dim in bound:
        if dim not in known:
            there = ", ".join(sorted(known)) or "none that are not known"
            raise ModelError(f"--size {dim!r} is no size of the model; it has {there}{did_you_mean(dim, known)}")
    for name, array in given.items():
        names = model.inputs[name].size_names(name) if name in model.inputs else []
        for dim, size in zip(names, array.shape, strict=False):
            if dim is not None and bound.setdefault(dim, size) != size:
                raise ModelError(f"--size {dim}={bound[dim]} contradicts the arrays, whose size is {size}")
    missing = {name: spec for name, spec in model.inputs.items() if name not in given}
    limit = index_limit(model)
    shapes = {name: _shape(spec, name, bound) for name, spec in missing.items()}
    return {name: _filled(spec, shapes[name], limit, rng) for name, spec in missing.items()}


def _shape(spec: TensorSpec, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the sizes of an input; raises ModelError where one is not known, or they are too large to fill."""
    remedy = f"give it with --input {name}=FILE.npy"
    if spec.dtype is None or spec.shape is None:
        raise ModelError(f"input {name!r} ({spec}) cannot be filled at random; {remedy}")
    dims = spec.size_names(name)
    unknown = [dim for dim in dims if dim is not None and dim not in sizes]
    if unknown:
        wanted = " ".join(f"--size {dim}=N" for dim in dict.fromkeys(unknown))
        raise ModelError(f"input {name!r} ({spec}) has sizes that are not known; give them with {wanted}, or {remedy}")
    shape = tuple(
        size if isinstance(size, int) else sizes[dim or ""] for size, dim in zip(spec.shape, dims, strict=True)
    )
    if math.prod(shape) * spec.dtype.itemsize > MAX_RANDOM_BYTES:
        raise ModelError(f"input {name!r} ({spec}) is too large to fill; {remedy}")
    return shape


def _filled(spec: TensorSpec, shape: tuple[int, ...], limit: int, rng: np.random.Generator) -> np.ndarray:
    dtype = spec.dtype
    assert dtype is not None
    if dtype.kind in "iu":
        return rng.integers(0, max(min(limit, int(np.iinfo(dtype).max) + 1), 1), shape).astype(dtype)
    if dtype.kind in "fc" or "float" in dtype.name:
        return rng.standard_normal(shape).astype(dtype)
    if dtype.hasobject:
        return np.array([f"s{number}" for number in range(math.prod(shape))], object).reshape(shape)
    return rng.integers(0, 2, shape).astype(dtype)


def index_limit(model: Model) -> int:
    """Return a number that random integers are below: the least size of an axis that indices select from, at most 100.

    Axes whose size is not known do not count, and neither do gathers with constant indices.
    """
    limit = 100
    for found in model.runtime.gathers:
        table, indices = found.operands[:2]
        shape = found.specs[table].shape
        if indices in found.tables or shape is None:
            continue
        try:
            axes = found.problem({}, 1).axes
        except InvalidGatherError:  # the sizes that are known do not fit size 1
            continue
        limit = min([limit, *(size for axis in axes if isinstance(size := shape[axis], int))])
    return limit
