"""Files of models, which are untrusted: only regular files inside the model's folder are read, up to a limit."""

import math
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ...ir.errors import ModelError

DEFAULT_MAX_BYTES = 2**31


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The limits of a model's memory, in bytes.

    Attributes:
        max_file_bytes: of each file that is read.
        max_tensor_bytes: of each tensor.
        max_total_bytes: of all tensors together.
    """

    max_file_bytes: int = DEFAULT_MAX_BYTES
    max_tensor_bytes: int = DEFAULT_MAX_BYTES
    max_total_bytes: int = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        for name in ("max_file_bytes", "max_tensor_bytes", "max_total_bytes"):
            limit = getattr(self, name)
            if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
                raise ModelError(f"{name}={limit!r} is no number of bytes; pass an integer from 0, such as 2**31")

    def check_tensor(self, what: str, shape: Sequence[int], dtype: np.dtype) -> int:
        """Return the bytes of a tensor; raises ModelError where sizes are no sizes, or over the limit."""
        if any(size < 0 or size >= 2**63 for size in shape):
            raise ModelError(f"{what} has shape {list(shape)}, and sizes are from 0 to 2**63 - 1")
        total = math.prod(filter(None, shape)) * max(dtype.itemsize, 1)
        self.check(f"{what} of shape {tuple(shape)} and {dtype}", total, "max_tensor_bytes")
        return total

    def check(self, what: str, size: int, limit: str) -> None:
        """Check a number of bytes by the limit of that name; raises ModelError."""
        if size > getattr(self, limit):
            raise ModelError(
                f"{what} has {size} bytes, over the limit {limit}={getattr(self, limit)}; raise it if the model is to "
                "be trusted"
            )


def read_file(path: Path, limits: FileLimits) -> bytes:
    """Return the bytes of a regular file; raises ModelError where there is none, or it is over the limit."""
    with _opened(path) as file:
        return _read(file, path, limits)


def read_beside(path: Path, what: str, limits: FileLimits) -> bytes:
    """Return the bytes of a file in a model's folder; raises ModelError for a link, also for a hard link."""
    if path.is_symlink():
        raise ModelError(f"{what} lie in {path.name!r}, which is a link, which may lead out of the folder")
    with _opened(path, os.O_NOFOLLOW) as file:
        if os.fstat(file.fileno()).st_nlink > 1:
            raise ModelError(f"{what} lie in {path.name!r}, which has other hard links, perhaps outside of the folder")
        return _read(file, path, limits)


def _read(file: BinaryIO, path: Path, limits: FileLimits) -> bytes:
    size = os.fstat(file.fileno()).st_size
    limits.check(str(path), size, "max_file_bytes")
    return file.read(size)


@contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[BinaryIO]:
    """Open a regular file for as long as the body runs; raises ModelError where there is none."""
    try:
        # A pipe without a writer is not waited for.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}; check the path") from None
    except ValueError as error:  # a null byte in the name
        raise ModelError(f"{str(path)!r} cannot be read: {error}; check the path") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise ModelError(f"{path} is not a file")
    with os.fdopen(number, "rb") as file:
        yield file
