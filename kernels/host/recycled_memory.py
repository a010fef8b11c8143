"""Memory for large results: it comes from a result that is gone, where the system would give new pages.

glibc gives blocks from 32 MiB on back to the system as soon as they are freed. The next result gets pages that were
never touched, and the system clears each at its first touch, which takes as long as the gather, or longer
(docs/performance.md).
"""

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ...lowering.schedule.machine_model import LINE_BYTES
from .knobs import knobs

# From this size on glibc gives blocks back at once: its largest M_MMAP_THRESHOLD on 64 bits (mallopt(3)).
LEAST_BYTES = 32 * 1024**2


def empty_in_lines(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an uninitialised contiguous array that begins a cache line, unlike NumPy's."""
    size_bytes = math.prod(shape) * dtype.itemsize
    room = np.empty(size_bytes + LINE_BYTES, np.uint8)
    return np.ndarray(shape, dtype, room, -room.__array_interface__["data"][0] % LINE_BYTES)


class _Block:
    """Memory that begins a cache line; blocks are equal only to themselves."""

    __slots__ = ("interface", "room", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.room = empty_in_lines((size_bytes,), np.dtype(np.uint8))
        self.interface = self.room.__array_interface__


class _Lease:
    """The base of an array: when the last view of the array dies, the block goes back."""

    __slots__ = ("__array_interface__", "_block", "_memory")

    def __init__(self, memory: "RecycledMemory", block: _Block) -> None:
        self._memory, self._block = memory, block
        self.__array_interface__ = block.interface

    @property
    def size_bytes(self) -> int:
        return self._block.size_bytes

    def __del__(self) -> None:
        self._memory.take_back(self._block)


class RecycledMemory:
    """Blocks that no array uses, the least recently used first; together at most `recycle_mb` of the knobs.

    An array can die in any thread and at any step, the last ones while Python ends. So each access to the list is an
    operation that Python does not interrupt, and `take_back` reads no setting.
    """

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._limit_bytes = 0
        self._is_child = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_child)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return an uninitialised C-contiguous array that begins a cache line; it does not own its memory."""
        size_bytes = math.prod(shape) * dtype.itemsize
        lease: Any = _Lease(self, self._take(size_bytes) or _Block(size_bytes))
        return np.ndarray(shape, dtype, np.asarray(lease))

    def new(
        self, shape: tuple[int, ...], dtype: np.dtype, otherwise: Callable[..., np.ndarray] = np.empty
    ) -> np.ndarray:
        """Return memory for a result: from here where it is large, or else made by `otherwise`."""
        return (self.empty if self.serves(math.prod(shape) * dtype.itemsize) else otherwise)(shape, dtype)

    def serves(self, size_bytes: int) -> bool:
        """Return whether a result of that size gets its memory here."""
        if size_bytes < LEAST_BYTES or self._is_child:
            return False
        self._limit_bytes = knobs.recycle_mb * 1024**2
        return size_bytes <= self._limit_bytes

    def take_back(self, block: _Block) -> None:
        """Hold a block that no array uses any more; free the least recently used blocks above the limit."""
        if self._is_child:
            return
        self._blocks.append(block)
        while sum(other.size_bytes for other in tuple(self._blocks)) > self._limit_bytes:
            try:
                del self._blocks[0]
            except IndexError:
                return

    def _take(self, size_bytes: int) -> _Block | None:
        """Return the block of that size that was used last."""
        for block in reversed(tuple(self._blocks)):
            if block.size_bytes == size_bytes:
                try:
                    self._blocks.remove(block)
                except ValueError:  # another thread took it
                    continue
                return block
        return None

    def _begin_child(self) -> None:
        """In a forked child nothing is recycled, since writing to a page of the parent copies it."""
        self._is_child = True
        self._blocks.clear()


RECYCLED = RecycledMemory()
