"""The memory that a kernel takes of the heap: of every size, and in huge pages where it is large."""

import sys

import numpy as np
import pytest
from numba import njit

from gathernest.lowering.numba import vector_intrinsics
from gathernest.lowering.numba.buffers import HUGE_PAGE_BYTES


def taken(size: int) -> tuple[int, int]:
    """Return the address of memory that was taken, and what its last byte was after it was set to 7."""
    take, give_back = vector_intrinsics.take_memory, vector_intrinsics.give_back_memory
    store, load = vector_intrinsics.store_v2xi8, vector_intrinsics.load_v2xi8
    add = vector_intrinsics.sum_v2xi8

    @njit("UniTuple(int64, 2)(int64, int64)")
    def use(size, sevens):
        address = take(size)
        if not address:
            return 0, 0
        total = 0
        if size >= 2:
            store(address, size - 2, load(sevens, 0))
            total = add(load(address, size - 2))
        give_back(address)
        return address, total

    return use(size, np.full(2, 7, np.int8).ctypes.data)


@pytest.mark.parametrize("size", [0, 1, 100, HUGE_PAGE_BYTES - 1, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1, 40 << 20])
def test_memory_of_any_size_is_taken_and_given_back(size):
    for _ in range(3):
        address, total = taken(size)
        assert address and total == (14 if size >= 2 else 0)
        if sys.platform == "linux" and size >= HUGE_PAGE_BYTES:
            assert address % HUGE_PAGE_BYTES == 0


def test_more_memory_than_there_is_has_no_address():
    assert taken(1 << 60) == (0, 0)
