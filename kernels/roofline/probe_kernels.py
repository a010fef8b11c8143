"""The probe kernels, compiled by Numba over base addresses: a copy, and reads of random lines.

`run_loop` takes a team last and returns 0, as a generated kernel does, so that `runtime.launch` runs it. Work is split
into equal shares, one a thread; a share is repeated within a launch where the launch would cost more than the work.
"""

import numpy as np
from numba import njit

from ...lowering.native.parallel_for import share
from ...lowering.numba.intrinsics import load_i32, load_i64, store_i64
from ...lowering.numba.vector_intrinsics import (
    load_v16xi32,
    prefetch_0,
    prefetch_1,
    prefetch_3,
    store_v16xi32,
    stream_v16xi32,
)
from ...lowering.schedule.machine_model import LINE_BYTES

STREAM_COPY, CACHED_COPY, READ_LINES, TOUCH, READ_FISSIONED = 0, 1, 2, 3, 4
# The block of the copies; a share is a multiple of it.
BLOCK_BYTES = 4 * LINE_BYTES
# A copy reads this many different blocks for as many that it writes; with fewer it reads blocks again.
ALL_BLOCKS = 256

# What memory is filled with, as int64: not 0, since servers write halves of lines that are all zeros in about half of
# the time: a Zen 5 86 bytes in a ns and 40 of others, a Zen 4 60 and 27. A word of 4 bytes is 128: two lines, as the
# chain of the latencies needs.
FILL = 128 | 128 << 32

# The prefetch distance of the streaming copy: 48 GB/s against 42 without, on one core of a Zen 4.
COPY_DISTANCE_BYTES = 1024

# The largest prefetch distance of `READ_LINES`, in pieces: as many positions must follow the last one.
MOST_DISTANCE = 256

# The pieces whose prefetches `READ_FISSIONED` has in front of the reads of as many: of 4 lines from 256 MB one core of
# a Zen 4 reads 235 million a second, and 140 with prefetches between the reads.
FISSIONED = 32


@njit
def _place_read(at, blocks_read):
    """Return the offset of the block of the source that is copied to an offset in the target."""
    return at // BLOCK_BYTES * blocks_read // ALL_BLOCKS * BLOCK_BYTES


@njit
def _stream_share(source, target, first, last, blocks_read):
    for at in range(first, last, BLOCK_BYTES):
        place = _place_read(at, blocks_read)
        prefetch_0(source, place + COPY_DISTANCE_BYTES)
        prefetch_0(source, place + COPY_DISTANCE_BYTES + 64)
        prefetch_0(source, place + COPY_DISTANCE_BYTES + 128)
        prefetch_0(source, place + COPY_DISTANCE_BYTES + 192)
        stream_v16xi32(target, at, load_v16xi32(source, place))
        stream_v16xi32(target, at + 64, load_v16xi32(source, place + 64))
        stream_v16xi32(target, at + 128, load_v16xi32(source, place + 128))
        stream_v16xi32(target, at + 192, load_v16xi32(source, place + 192))


@njit
def _copy_share(source, target, first, last, blocks_read):
    for at in range(first, last, BLOCK_BYTES):
        place = _place_read(at, blocks_read)
        store_v16xi32(target, at, load_v16xi32(source, place))
        store_v16xi32(target, at + 64, load_v16xi32(source, place + 64))
        store_v16xi32(target, at + 128, load_v16xi32(source, place + 128))
        store_v16xi32(target, at + 192, load_v16xi32(source, place + 192))


@njit
def _touch_share(target, first, last):
    for at in range(first, last, 8):
        store_i64(target, at, FILL)


@njit
def _read_share(table, positions, first, last, lines, far, near):
    """Return the sum of one number of each line, so that the reads are needed."""
    piece_bytes = lines * LINE_BYTES
    total = np.int64(0)
    for number in range(first, last):
        place = np.int64(load_i32(positions, 4 * number)) * piece_bytes
        later = np.int64(load_i32(positions, 4 * (number + far))) * piece_bytes
        if near > 0:
            soon = np.int64(load_i32(positions, 4 * (number + near))) * piece_bytes
            for line in range(lines):
                prefetch_1(table, later + line * LINE_BYTES)
                prefetch_3(table, soon + line * LINE_BYTES)
                total += load_i64(table, place + line * LINE_BYTES)
        elif far > 0:
            for line in range(lines):
                prefetch_1(table, later + line * LINE_BYTES)
                total += load_i64(table, place + line * LINE_BYTES)
        else:
            for line in range(lines):
                total += load_i64(table, place + line * LINE_BYTES)
    return total


@njit
def _read_fissioned_share(table, positions, first, last, lines, far):
    """Do what `_read_share` does with the prefetches in a loop of their own, in front of the reads of some pieces."""
    piece_bytes = lines * LINE_BYTES
    total = np.int64(0)
    for begin in range(first, last, FISSIONED):
        end = min(begin + FISSIONED, last)
        for number in range(begin, end):
            later = np.int64(load_i32(positions, 4 * (number + far))) * piece_bytes
            for line in range(lines):
                prefetch_1(table, later + line * LINE_BYTES)
        for number in range(begin, end):
            place = np.int64(load_i32(positions, 4 * number)) * piece_bytes
            for line in range(lines):
                total += load_i64(table, place + line * LINE_BYTES)
    return total


@njit
def _read_near_share(table, positions, first, last):
    """Do what `_read_share` does for pieces of one line without prefetching: twice as fast where a table is near."""
    total = np.int64(0)
    for number in range(first, last):
        total += load_i64(table, np.int64(load_i32(positions, 4 * number)) * LINE_BYTES)
    return total


@njit
def _share(number, loop, source, target, first, last, sums, shares, repeats, lines, far, near, blocks_read):
    """Do one share; one function calls all loops, so that Numba makes code for threads once."""
    grain = 1 if loop in (READ_LINES, READ_FISSIONED) else BLOCK_BYTES
    length = -(-(last - first) // (shares * grain)) * grain
    start = min(first + number * length, last)
    stop = min(start + length, last)
    for _ in range(repeats):
        if loop == STREAM_COPY:
            _stream_share(source, target, start, stop, blocks_read)
        elif loop == CACHED_COPY:
            _copy_share(source, target, start, stop, blocks_read)
        elif loop == TOUCH:
            _touch_share(target, start, stop)
        elif loop == READ_FISSIONED:
            store_i64(sums, number * LINE_BYTES, _read_fissioned_share(source, target, start, stop, lines, far))
        elif lines == 1 and far + near == 0:
            store_i64(sums, number * LINE_BYTES, _read_near_share(source, target, start, stop))
        else:
            store_i64(sums, number * LINE_BYTES, _read_share(source, target, start, stop, lines, far, near))


@njit(nogil=True)
def run_loop(loop, source, target, first, last, sums, shares, repeats, lines, far, near, blocks_read, team):
    """Copy, or read random lines, in equal shares; each is done `repeats` times.

    Args:
        loop: `STREAM_COPY` with non-temporal stores or `CACHED_COPY`, both from `source` to `target`, addresses that
            are multiples of 64; `TOUCH`, which fills `target`; or `READ_LINES` and `READ_FISSIONED`, of the table at
            `source`, in pieces whose numbers are the int32 at `target`, with `MOST_DISTANCE` more at the end.
        first, last: where the work begins and where it ends: offsets in bytes from `source` and `target`, multiples of
            `BLOCK_BYTES`, or positions in the numbers of the pieces.
        sums: address of 64 bytes for each share, for the sum of its loads, so that they are not optimised away.
        shares: how many; the last ones are shorter, or empty, where the work does not divide by them.
        lines: lines a piece.
        far, near: how many pieces ahead to prefetch into the second and into the first cache; 0 for no prefetch. With
            far alone, 256 MB are read at 415 million lines a second by two cores of a Zen 4, with both at 510, and with
            near alone at 250: L1 has some 24 outstanding misses, and L2 has more.
        blocks_read: of a copy, how many different blocks it reads for `ALL_BLOCKS` that it writes: 0 to `ALL_BLOCKS`.
    """
    if team:
        numbers = loop, source, target, first, last, sums, shares, repeats, lines, far, near, blocks_read
        share(team, shares, _share, numbers)
    else:
        for number in range(shares):
            _share(number, loop, source, target, first, last, sums, shares, repeats, lines, far, near, blocks_read)
    return 0
