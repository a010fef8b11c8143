"""Files of models, read with a limit on their memory. Plain Python."""

import math
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..errors import ModelError
from ..semantics import DYNAMIC

DEFAULT_MAX_BYTES = 2**31
# NumPy's arrays have no more.
MOST_DIMENSIONS = 64


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The limits of a model's memory.

    Attributes:
        max_file_bytes: size of each file that is read.
        max_tensor_bytes: size of each tensor, as far as its sizes are known before the model runs.
        max_total_bytes: size of all constants, and of what passes compute from them.
    """

    max_file_bytes: int = DEFAULT_MAX_BYTES
    max_tensor_bytes: int = DEFAULT_MAX_BYTES
    max_total_bytes: int = DEFAULT_MAX_BYTES

    def check_shape(self, what: str, shape: Sequence[int], dtype: np.dtype, *, static: bool = False) -> None:
        """Check the sizes of a tensor before anything is allocated.

        Args:
            what: how messages call it.
            shape: its sizes, `DYNAMIC` where they are not known.
            dtype: of its elements.
            static: whether no number stands for a size that is not known, as in a file.

        Raises:
            ModelError: a size is negative, there are too many, or their product is over the limit.
        """
        sizes = [size for size in shape if static or size != DYNAMIC]
        if sizes and min(sizes) < 0:
            raise ModelError(f"{what} has shape {list(sizes)}, and sizes are 0 or more")
        if len(shape) > MOST_DIMENSIONS:
            raise ModelError(f"{what} has rank {len(shape)}, and arrays have at most {MOST_DIMENSIONS} dimensions")
        if sizes and max(sizes) >= 2**63:
            raise ModelError(f"{what} has shape {sizes}, and sizes are below 2**63")
        # Sizes of 0 are left out: the others are sizes of the arrays that it is made from or becomes.
        total = math.prod(filter(None, sizes)) * max(dtype.itemsize, 1)
        if total > self.max_tensor_bytes:
            raise ModelError(
                f"{what} of shape {tuple(sizes)} and {dtype} has {total} bytes, over the limit max_tensor_bytes="
                f"{self.max_tensor_bytes}; raise it if the model is to be trusted"
            )


def read_file(path: Path, limits: FileLimits, *, start: int = 0, length: int | None = None) -> bytes:
    """Return the bytes of a regular file, or `length` of them from `start` on.

    Raises:
        ModelError: there is none, it is over the limit, or the range is not within it.
    """
    with open_file(path, limits) as file:
        return file.read(start, length)


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file that is open, of which parts are read."""

    path: Path
    limits: FileLimits
    file: BinaryIO
    size: int

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        """Return its bytes from `start` on, or `length` of them; raises ModelError, see `read_file`."""
        wanted = self.size - start if length is None else length
        if start < 0 or wanted < 0 or start + wanted > self.size:
            raise ModelError(f"{self.path} has {self.size} bytes; bytes {start} to {start + wanted} are not in it")
        if wanted > self.limits.max_file_bytes:
            raise ModelError(
                f"{self.path} has {wanted} bytes to read, over the limit max_file_bytes={self.limits.max_file_bytes}; "
                "raise it if the model is to be trusted"
            )
        with naming_file(self.path):
            self.file.seek(start)
            return self.file.read(wanted)


@contextmanager
def open_file(path: Path, limits: FileLimits) -> Iterator[OpenFile]:
    """Open a regular file for as long as the body runs; raises ModelError where there is none."""
    with ExitStack() as stack:
        with naming_file(path):
            file = stack.enter_context(open(path, "rb", opener=_open_without_waiting))
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path} is not a file")
        yield OpenFile(path, limits, file, status.st_size)


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Raise ModelError with the name of a file that cannot be read."""
    try:
        yield
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}; check the path") from None
    except ValueError as error:  # a null byte in the name
        raise ModelError(f"{str(path)!r} cannot be read: {error}; check the path") from None


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
