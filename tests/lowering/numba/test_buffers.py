"""The memory that a kernel takes of the heap: of every size, and in huge pages where it is large."""

import ctypes
import re
import sys
from pathlib import Path

import pytest
from numba import njit

from gathernest.lowering.numba import vector_intrinsics
from gathernest.lowering.numba.intrinsics import HUGE_PAGE_BYTES


def flags_of(address: int) -> list[str]:
    """Return what the system was told of the memory at an address: `hg` where it is to have huge pages."""
    is_inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            is_inside = int(found[1], 16) <= address < int(found[2], 16)
        elif is_inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    return []


def taken(size: int) -> tuple[int, int]:
    """Return the address of memory that was taken, and how many bytes it has."""
    take, give_back = vector_intrinsics.take_memory, vector_intrinsics.give_back_memory
    address = njit("int64(int64)")(lambda size: take(size))(size)
    assert size < HUGE_PAGE_BYTES or not address or "hg" in flags_of(address)
    usable = ctypes.CDLL(None).malloc_usable_size
    usable.argtypes, usable.restype = [ctypes.c_void_p], ctypes.c_size_t
    length = usable(address) if address else 0
    if address:
        ctypes.memset(address, 7, size)
    njit("void(int64)")(lambda address: give_back(address))(address)
    return address, length


@pytest.mark.draw(3)
@pytest.mark.skipif(sys.platform != "linux", reason="only there C tells how many bytes memory has")
@pytest.mark.parametrize("size", [0, 1, 100, HUGE_PAGE_BYTES - 1, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1, 40 << 20])
def test_memory_of_any_size_is_taken_and_given_back_and_where_it_is_large_in_whole_huge_pages(size):
    for _ in range(3):
        address, length = taken(size)
        assert address and length >= size
        if size >= HUGE_PAGE_BYTES:
            assert address % HUGE_PAGE_BYTES == 0 and length >= -(-size // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES


def test_more_memory_than_there_is_has_no_address():
    assert taken(1 << 60) == (0, 0)
