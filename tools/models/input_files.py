"""Arrays of a model's inputs from files that the command line names."""

import zipfile
from pathlib import Path

import numpy as np

from ...interop.models.runtime import TensorSpec
from ...ir.errors import ModelError
from ..console.terminal import UsageError


def named_files(entries: list[str]) -> dict[str, Path]:
    """Read `NAME=FILE` entries; a name may have `=` in it when the file's name has none."""
    found: dict[str, Path] = {}
    for entry in entries:
        name, separator, file = entry.rpartition("=")
        if not separator or not name or not file:
            raise UsageError(f"--input {entry!r} is not NAME=FILE, as in --input tokens=tokens.npy")
        if name in found:
            raise UsageError(f"--input {name!r} is given twice")
        found[name] = Path(file)
    return found


def read_input(name: str, spec: TensorSpec, path: Path) -> np.ndarray:
    """Return the array of a `.npy` file; elements that NumPy saves as bytes get the model's dtype."""
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ModelError(f"--input {name}: {path}: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = str(error).partition("\n")[0]
        if "pickle" in reason:  # NumPy says so of every other file, too, and advises to load it unsafely
            reason = "it has no header of NumPy, or Python objects"
        raise ModelError(f"--input {name}: {path} is not a .npy file of plain elements: {reason}") from None
    if not isinstance(array, np.ndarray):
        raise ModelError(f"--input {name}: {path} holds several arrays; give a .npy file, which holds one")
    is_bytes = (
        spec.dtype is not None and array.dtype.kind == "V" and array.dtype.names is None and not spec.dtype.hasobject
    )
    return array.view(spec.dtype) if is_bytes and array.dtype.itemsize == spec.dtype.itemsize else array
