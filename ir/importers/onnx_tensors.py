"""Tensors of an ONNX model as arrays: stored in the model, or in files beside it when that is allowed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from ..errors import ModelError
from .file_limits import FileLimits, read_file


@dataclass(frozen=True, slots=True)
class TensorReader:
    """Reads the tensors of one model.

    Attributes:
        limits: of a tensor's memory.
        folder: where the model lies; None for a model that lies in no file.
        allow_external_data: whether files in that folder may be read.
    """

    limits: FileLimits
    folder: Path | None
    allow_external_data: bool

    def array(self, tensor: onnx.TensorProto, what: str) -> np.ndarray:
        """Return the values of a tensor.

        Args:
            tensor: as the model has it.
            what: how messages call it.

        Raises:
            ModelError: its type is not known, its values do not fit its sizes, or they lie where it may not read.
        """
        dtype = element_dtype(tensor.data_type, what)
        self.limits.check_shape(what, list(tensor.dims), dtype, static=True)
        if tensor.HasField("segment"):
            raise ModelError(f"{what} is stored in segments, which ONNX has given up and nothing writes")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor = self._loaded(tensor, what, dtype)
        try:
            array = onnx.numpy_helper.to_array(tensor)
        except (ValueError, TypeError, OverflowError) as error:
            reason = str(error).partition("\n")[0]
            raise ModelError(f"{what} of shape {tuple(tensor.dims)} and {dtype} cannot be read: {reason}") from None
        if array.shape != tuple(tensor.dims) or array.dtype != dtype:
            raise ModelError(f"{what} of shape {tuple(tensor.dims)} and {dtype} holds {array.dtype} of {array.shape}")
        return array

    def path(self, tensor: onnx.TensorProto, what: str) -> Path:
        """Return the path of the file that holds a tensor; raises ModelError where it may not be read."""
        location = _entries(tensor).get("location", "")
        if self.folder is None:
            raise ModelError(
                f"{what} lies in another file, {location!r}, and this model has no folder; load it by its path, or "
                "onnx.load it with its data"
            )
        if not self.allow_external_data:
            raise ModelError(
                f"{what} lies in another file, {location!r}; allow_external_data=True (--allow-external-data) reads "
                "it, from the model's own folder only"
            )
        return inside(self.folder, location, what)

    def _loaded(self, tensor: onnx.TensorProto, what: str, dtype: np.dtype) -> onnx.TensorProto:
        """Return a tensor with the values that a file beside the model holds."""
        path, entries = self.path(tensor, what), _entries(tensor)
        if dtype.hasobject:
            raise ModelError(f"{what} is of strings, which cannot lie in another file")
        start, length = _number(entries, "offset", what), _number(entries, "length", what)
        loaded = onnx.TensorProto()
        loaded.CopyFrom(tensor)
        loaded.data_location = onnx.TensorProto.DEFAULT
        del loaded.external_data[:]
        loaded.raw_data = read_file(path, self.limits, start=start or 0, length=length)
        return loaded


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def inside(folder: Path, location: str, what: str) -> Path:
    """Return the path of a file in a folder or below it.

    Raises:
        ModelError: the location is absolute, has `..`, or leads out through a link.
    """
    given = Path(location)
    is_plain = bool(location) and "\0" not in location and "\\" not in location and ":" not in location
    if not is_plain or given.is_absolute() or ".." in given.parts:
        raise ModelError(f"{what} lies in {location!r}, which is not a path inside the model's folder")
    root = folder.resolve()
    path = (root / given).resolve()
    if not path.is_relative_to(root):
        raise ModelError(f"{what} lies in {location!r}, which a link leads out of the model's folder")
    return path


def _number(entries: Mapping[str, str], key: str, what: str) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise ModelError(f"{what} has {key} {text!r} in its file, which is no number from 0")
    return int(text)


def element_dtype(data_type: int, what: str) -> np.dtype:
    """Return the dtype of an ONNX element type; strings are objects. An unknown one is a ModelError."""
    try:
        return _dtype(data_type)
    except (KeyError, ValueError, TypeError):
        raise ModelError(f"{what} has element type {data_type}, which this onnx does not know") from None


@lru_cache
def _dtype(data_type: int) -> np.dtype:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(data_type))


def strings(values: Sequence[Any]) -> np.ndarray:
    """Return byte strings of a model as an object array of str."""
    return np.array([value.decode("utf-8") for value in values], object)
