"""Rows of bags in machine code are those that NumPy makes."""

import ctypes
import mmap
import subprocess
import sys

import numpy as np
import pytest

from gathernest.ir.semantics import Bounds
from gathernest.kernels.reduction.bags import MOST_PLACES_AN_INDEX, make_bags, read_ends
from gathernest.lowering.native.bag_rows import bag_rows

INDICES, OFFSETS = np.array([5, 1, 2, 3, 9, 9, 0]), np.array([0, 2, 2, 6])


def rows(
    indices=INDICES, offsets=OFFSETS, size=10, *, has_last=False, padding=-1, is_largest=False, most=4, weights=None
):
    return bag_rows()(indices, offsets, has_last, size, padding, is_largest, most, weights)


@pytest.mark.parametrize("dtype", ["i8", "i4"])
def test_nothing_is_read_behind_the_offsets(dtype):
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    first = np.frombuffer(memory, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    offsets = first[:page].view(dtype)[-3:]
    for last, has_last in ((5, False), (7, True)):
        offsets[:] = [0, 2, last]
        assert protect(first.ctypes.data + page, page, 0) == 0
        found = rows(offsets=offsets, has_last=has_last)
        assert found.tolist() == rows(offsets=offsets.copy(), has_last=has_last).tolist()
        assert protect(first.ctypes.data + page, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


def test_rows_are_those_of_bags_of_random_lengths():
    random = np.random.default_rng(0)
    made = 0
    for _ in range(300):
        lengths = random.integers(0, 6, random.integers(1, 9))
        indices = random.integers(0, 10, lengths.sum()).astype(random.choice(["i8", "u8", "i4"]))
        offsets = (np.cumsum(lengths) - lengths).astype(random.choice(["i8", "u8", "i4"]))
        padding = int(random.integers(-1, 10))
        is_largest = bool(random.integers(2)) and padding < 0
        bags = make_bags(indices, 10, Bounds.ERROR, None if padding < 0 else padding, read_ends(indices, offsets, None))
        found = rows(indices, offsets, padding=padding, is_largest=is_largest, most=MOST_PLACES_AN_INDEX)
        with_last = rows(
            indices,
            np.append(offsets, len(indices)).astype(offsets.dtype),
            padding=padding,
            is_largest=is_largest,
            has_last=True,
        )
        assert (found is not None) == bags.is_even()
        if found is not None:
            made += 1
            expected = (bags.of_largest() if is_largest else bags).rows()
            assert found.dtype == np.int64
            assert np.array_equal(found, expected)
            assert np.array_equal(with_last, expected)
    assert made > 200


@pytest.mark.parametrize(("dtype", "pair_dtype"), [("f4", "i4"), ("f8", "i8")])
def test_weights_lie_beside_their_positions(dtype, pair_dtype):
    weights = np.arange(7, dtype=dtype) - 3
    halves = rows(weights=weights, padding=9)
    assert halves.dtype == pair_dtype
    assert halves[..., 0].tolist() == rows(padding=9).tolist()
    expected = [[-3, -2, 0, 0], [0, 0, 0, 0], [-1, 0, 1, 2], [3, 0, 0, 0]]
    assert halves[..., 1].copy().view(dtype).tolist() == expected


def test_the_last_offset_may_leave_indices_out():
    assert rows(has_last=True).tolist() == [[5, 1, 10, 10], [10] * 4, [2, 3, 9, 9]]


@pytest.mark.parametrize(
    "given",
    [
        {"size": 9},
        {"indices": -INDICES},
        {"indices": INDICES[::2]},
        {"indices": INDICES.astype(np.int16)},
        {"indices": -INDICES.astype(np.int32)},
        {"indices": np.repeat(INDICES.astype(np.int32), 2)[::2]},
        {"indices": INDICES.reshape(1, -1)},
        {"indices": INDICES.tolist()},
        {"offsets": OFFSETS[1:]},
        {"offsets": OFFSETS[::-1]},
        {"offsets": np.array([0, 3, 2])},
        {"offsets": np.array([0, 8])},
        {"offsets": np.array([0, 8]), "has_last": True},
        {"offsets": np.array([0, -1]), "has_last": True},
        {"offsets": OFFSETS[:0]},
        {"offsets": OFFSETS[:1], "has_last": True},
        {"offsets": OFFSETS.astype(np.int16)},
        {"offsets": np.array([0, 3, -1], np.int32)},
        {"most": 1},
        {"weights": np.ones(6, np.float32)},
        {"weights": np.ones(7, np.float16)},
        {"weights": np.ones(14)[::2]},
        {"weights": np.ones(14, np.float32)[::2]},
    ],
    ids=str,
)
def test_what_is_not_such_bags_has_no_rows(given):
    assert rows() is not None
    assert rows(**given) is None


WRITTEN = """
import multiprocessing

import numpy as np

from gathernest.lowering.native.bag_rows import bag_rows

def write(raw, is_over):
    last = np.frombuffer(raw, np.int64)[-2:]
    while not is_over.value:
        for _ in range(1000):
            last[0] = 1 << 45
            last[0] = 2040

raw, is_over = multiprocessing.RawArray("q", 512), multiprocessing.RawValue("b", 0)
offsets = np.frombuffer(raw, np.int64)
offsets[:] = np.arange(0, 2048, 4)
indices, rows = np.zeros(2048, np.int64), bag_rows()
writer = multiprocessing.get_context("fork").Process(target=write, args=(raw, is_over))
writer.start()
made = [rows(indices, offsets, False, 10, -1, False, 1000, None) for _ in range(20_000)]
is_over.value = 1
writer.join()
assert all(array is None or array.max() <= 10 for array in made[::100])
"""


def test_offsets_that_another_process_writes_meanwhile_lead_nowhere_outside():
    assert subprocess.run([sys.executable, "-c", WRITTEN], timeout=120).returncode == 0
