"""The machine operations against Python's integers, at the edges of 64 bits."""

import platform

import numpy as np
import pytest
from numba import njit

from gathernest.lowering.numba import intrinsics

EDGES = [0, 1, 2, 7, 2**31, 2**63 - 1, -1, -2, -7, -(2**63)]
MASK = 2**64 - 1


@pytest.fixture(scope="module")
def compiled():
    minui, remui, remsi = intrinsics.minui, intrinsics.remui, intrinsics.remsi
    ult, ule, ugt, uge = intrinsics.ult, intrinsics.ule, intrinsics.ugt, intrinsics.uge

    @njit("UniTuple(int64, 3)(int64, int64)", error_model="numpy")
    def arithmetic(a, b):
        return minui(a, b), remui(a, b), remsi(a, b)

    @njit("UniTuple(boolean, 4)(int64, int64)")
    def compare(a, b):
        return ult(a, b), ule(a, b), ugt(a, b), uge(a, b)

    return arithmetic, compare


def test_a_valid_index_has_its_own_position_and_any_other_the_last():
    wrap, clamp = intrinsics.wrap, intrinsics.clamp

    @njit("int64(int64, int64)")
    def position(index, size):
        return clamp(wrap(index, size), size)

    for size in (1, 2, 7, 2**31, 2**63 - 1):
        for index in (*EDGES, size // 2, size - 1, -size):
            assert position(index, size) == (index % size if -size <= index < size else size - 1)


@pytest.mark.parametrize("left", EDGES)
@pytest.mark.parametrize("right", [edge for edge in EDGES if edge])
def test_arithmetic_is_that_of_the_machine(compiled, left, right):
    if (left, right) == (-(2**63), -1):
        return  # the one division that overflows; a size is never -1
    least, unsigned, signed = compiled[0](left, right)
    assert least & MASK == min(left & MASK, right & MASK)
    assert unsigned & MASK == (left & MASK) % (right & MASK)
    assert signed == (abs(left) % abs(right)) * (-1 if left < 0 else 1)


@pytest.mark.parametrize("left", EDGES)
@pytest.mark.parametrize("right", EDGES)
def test_comparisons_are_unsigned(compiled, left, right):
    a, b = left & MASK, right & MASK
    assert compiled[1](left, right) == (a < b, a <= b, a > b, a >= b)


@pytest.mark.parametrize(
    ("kind", "element"),
    [
        *[("store", element) for element in ("i8", "i16", "i32", "i64", "i128", "f32", "f64")],
        *[("stream", element) for element in ("i32", "i64", "i128", "f32", "f64")],
    ],
)
def test_load_and_store_move_their_width_at_any_alignment(kind, element):
    load, store, width = (*(getattr(intrinsics, f"{name}_{element}") for name in ("load", kind)), int(element[1:]) // 8)

    @njit("void(int64, int64, int64, int64)")
    def move(source, source_offset, target, target_offset):
        store(target, target_offset, load(source, source_offset))

    source, target = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    move(source.ctypes.data, 3, target.ctypes.data, 5)
    expected = np.zeros(64, np.uint8)
    expected[5 : 5 + width] = source[3 : 3 + width]
    assert target.tolist() == expected.tolist()
    if platform.machine() in ("x86_64", "AMD64"):
        assert ("movnt" in "".join(move.inspect_asm().values())) == (kind == "stream")


@pytest.mark.parametrize("width", [8, 16, 32])
def test_zext_keeps_the_bits_and_adds_zeros(width):
    zext = intrinsics.zext

    @njit(f"int64(int{width})")
    def extend(value):
        return zext(value)

    assert [extend(value) for value in (0, 1, -1, -(2 ** (width - 1)))] == [0, 1, 2**width - 1, 2 ** (width - 1)]
