"""The memory layouts of a prepared call, of the known subteam, and of a thread team, which machine code reads.

Everything is a word of 64 bits in an int64 array: pointers to Python objects and machine code, sizes, strides in bytes.
"""

import ctypes
import struct
import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

WORD_BYTES = 8
# The number of neighbouring slots to probe.
PROBES = 4

# A bit of an ndarray's flags.
WRITEABLE = 0x0400


class Field(IntEnum):
    """Offsets in bytes of the fields of an ndarray, as NumPy 1 and 2 have them on machines of 64 bits."""

    OB_TYPE = 8
    DATA = 16
    RANK = 24
    SHAPE = 32
    STRIDES = 40
    BASE = 48
    DESCR = 56
    FLAGS = 64


class Tensor(IntEnum):
    """Offsets in bytes of the fields of a DLTensor; of `DTYPE` the code, bits and lanes are 8, 8 and 16 bits."""

    DATA = 0
    DEVICE = 8
    RANK = 16
    DTYPE = 20
    SHAPE = 24
    STRIDES = 32
    FIRST_BYTE = 40
    BYTES = 48


class Header(IntEnum):
    """The words before the first slot of a table."""

    MASK = 0  # the number of slots, a power of two, less one
    WORDS = 8


class Slot(IntEnum):
    """The words of a slot, 64 bytes as a cache line has."""

    HASH = 0
    KEYS = 1  # three objects, compared by identity
    HAS_OUT = 4
    GUARD = 5
    CALL = 6
    WORDS = 8


class Section(IntEnum):
    """The words of a guard that describe one array; its sizes follow, then its strides.

    A guard is three of them: data, indices, out.
    """

    DESCR = 0
    RANK = 1
    LOW = 2  # from the first element to the lowest byte
    HIGH = 3  # from the first element to the end of the highest
    SIZES = 4


class Call(IntEnum):
    """The words of a kernel with the numbers it takes; the numbers follow."""

    KERNEL = 0
    WAY = 1
    FINISH = 2  # the Python function that ends it where `serve` may not or cannot
    NUMBERS = 3


class Way(IntEnum):
    """The ways to run a call."""

    ALONE = 0  # on its caller's thread, which holds the GIL
    SHARED = 1  # among threads, when there are any
    HANDED_OVER = 2  # by `FINISH`, which runs it without the GIL


def section(dtype: np.dtype, shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the words that describe an array; the caller keeps `dtype` alive."""
    reach = [stride * (size - 1) for stride, size in zip(strides, shape, strict=True)]
    low = sum(step for step in reach if step < 0)
    high = sum(step for step in reach if step > 0) + dtype.itemsize
    return [id(dtype), len(shape), low, high, *shape, *strides]


def call_words(kernel: int, way: Way, finish: Any, numbers: Sequence[float]) -> np.ndarray:
    """Return the words of a call: the address of its machine code, the way to run it, and the kernel's numbers."""
    return np.frombuffer(struct.pack("qqq", kernel, way, id(finish)) + packed(numbers), np.int64)


def packed(numbers: Sequence[float]) -> bytes:
    """Return a kernel's numbers as words: an int as itself, a float as its bits."""
    try:
        return struct.pack(f"{len(numbers)}q", *numbers)  # in a fifth of the time of a format made for each number
    except struct.error:
        return struct.pack("".join("d" if isinstance(number, float) else "q" for number in numbers), *numbers)


def slot_words(hash_: int, keys: tuple[Any, Any, Any], has_out: bool, guard: np.ndarray, call: np.ndarray) -> list[int]:
    """Return the words of a slot; the caller keeps everything alive that they point to."""
    return [hash_, *map(id, keys), int(has_out), guard.ctypes.data, call.ctypes.data]


def table_words(slots: int) -> np.ndarray:
    """Return an empty table; `slots` is a power of two."""
    table = np.zeros(Header.WORDS + Slot.WORDS * slots, np.int64)
    table[Header.MASK] = slots - 1
    return table


def place_in_table(table: np.ndarray, slot: Sequence[int]) -> int:
    """Return the place for a slot: the first word of an empty one, or of the one to evict."""
    mask = int(table[Header.MASK])
    places = [Header.WORDS + Slot.WORDS * (slot[Slot.HASH] + step & mask) for step in range(PROBES)]
    same = (place for place in places if table[place] == slot[Slot.HASH])
    empty = (place for place in places if not table[place + Slot.CALL])
    return next(same, next(empty, places[0]))


def fields_hold() -> bool:
    """Return whether ndarrays have their fields at the offsets of `Field`, tried on a strided one."""
    if ctypes.sizeof(ctypes.c_void_p) != WORD_BYTES:
        return False
    probe = np.zeros((6, 8), np.float32)[::2, ::-2]
    probe.flags.writeable = False
    interface = probe.__array_interface__

    def word(address: int) -> int:
        return ctypes.c_int64.from_address(address).value

    def at(field: Field) -> int:
        return word(id(probe) + field)

    return (
        type(probe).__basicsize__ > Field.FLAGS
        and at(Field.OB_TYPE) == id(np.ndarray)
        and at(Field.DATA) == interface["data"][0]
        and at(Field.RANK) & 0xFFFFFFFF == probe.ndim
        and at(Field.BASE) == id(probe.base)
        and at(Field.DESCR) == id(probe.dtype)
        and at(Field.FLAGS) & 0xFFFFFFFF == probe.flags.num
        and [word(at(Field.SHAPE) + WORD_BYTES * dim) for dim in range(2)] == list(probe.shape)
        and [word(at(Field.STRIDES) + WORD_BYTES * dim) for dim in range(2)] == list(probe.strides)
    )


# Threads

IS_DARWIN = sys.platform == "darwin"
# A bit for each of 1024 cores.
MASK_BYTES = 128
MASK_WORDS = MASK_BYTES // WORD_BYTES
# The functions of the C library that bind members of a team to cores, which not all systems have.
PLACING = ("sched_getcpu", "sched_getaffinity", "pthread_setaffinity_np")
# This word says that a caller runs all tiles alone, without a subteam; 0 says that nothing is known.
NO_SUBTEAM = 1
# The most settings, and the number of modules of Numba, that decide the number of threads.
MOST_VALUES, MODULE_COUNT = 4, 2


class Known(IntEnum):
    """The words of a `KnownSubteam`; objects are stored as their addresses."""

    SUBTEAM = 0
    SCOPE = 1  # the value of the context variable
    VALUES = 2  # the values of dictionaries; 0 for a key that is not there
    MODULES = VALUES + MOST_VALUES  # three words each: the module, its dictionary and the value of its attribute
    MASK = MODULES + 3 * MODULE_COUNT  # the cores that the caller may use, a bit each
    WORDS = MASK + MASK_WORDS


class Subteam(IntEnum):
    """The words of a subteam, the first members of a team. They fill a cache line and never change."""

    RUN = 0  # the address of `run`
    TEAM = 1
    WANTED = 2  # the number of members that share a kernel, the caller included
    WORDS = 8


class At(IntEnum):
    """The words of a team; words that different threads write lie in different cache lines."""

    WANTED = 1  # the number of members that share the loop, the caller included
    SIZE = 2  # the number of all members
    PLACED = 3  # a hash of the cores that the members may run on
    GENERATION = 8  # odd while there are tiles to take
    FUNCTION = 9  # function(arguments, tile) does a tile
    ARGUMENTS = 10
    PARTS = 11  # the number of members that share the tiles
    MODES = 12  # of the caller's floating-point unit, such as whether denormals are flushed
    ACTIVE = 16  # the number of members but the caller that may read the words above and the ranges
    TOTAL = 17  # the sum of the results of their tiles
    SLEEPERS = 24
    BUSY = 40  # not 0 while a loop runs
    MASK = 48
    MEMBERS = 64


class Member(IntEnum):
    """The words of a member, a line."""

    NEXT = 0  # the next tile of its range
    END = 1
    TEAM = 2
    NUMBER = 3
    HANDLE = 4  # of its thread
    ASLEEP = 8  # 1 when it is to be woken by its semaphore
    SEMAPHORE = 9  # 32 bytes at most; on macOS its address
    WORDS = 16
