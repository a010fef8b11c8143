"""The probes: small loops over memory whose times say how fast a machine is, as programs that Numba compiles.

They are written as the backend prints kernels, with the same operations, so that the measured code is the code that
runs. A calibration times all of them. The roofline bound times copies and reads in turn with a kernel. Each loop is a
program of its own, which is compiled once, and then comes from the disk cache.
"""

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...lowering.numba.program import Program
from ...lowering.schedule.machine_model import LINE_BYTES
from ..host.recycled_memory import empty_in_lines
from ..runtime.array_checks import address
from ..runtime.disk_cache import load_kernel
from ..runtime.launch import current_subteam

if TYPE_CHECKING:
    from ...lowering.native.kernel_code import KernelCode

# The block of the copies; a thread's share is a multiple of it.
BLOCK_BYTES = 4 * LINE_BYTES
# The unit of `size` of a copy: of this number of blocks that it writes it reads `size` different ones.
ALL_BLOCKS = 256
# The content of memory, as int64: not 0, since servers write halves of lines that are all zeros in about half of the
# time: a Zen 5 86 bytes in a ns and 40 of others, a Zen 4 60 and 27. A word of 4 bytes is 128: two lines, as the chain
# of the latencies needs.
FILL = 128 | 128 << 32
# The prefetch distance of the streaming copy: 48 GB/s against 42 without, on one core of a Zen 4.
COPY_DISTANCE_BYTES = 1024
# The largest prefetch distance of reads, in pieces: this many positions must follow the last one.
MAX_DISTANCE = 256
# The pieces whose prefetches have a loop of their own in front of their reads: of 4 lines from 256 MB one core of a
# Zen 4 reads 235 million a second, and 140 with prefetches between the reads.
FISSIONED = 32
# Whether the prefetches of rows of 256 bytes that are summed have a loop of their own, `SUMMED_AHEAD` rows ahead.
SUMMED_ROWS = {"summed rows, interleaved": False, "summed rows, fissioned": True}
SUMMED_AHEAD = 64
# How far ahead elements at random places are prefetched, with which locality, and whether stores are non-temporal.
ELEMENTS = {
    "elements alone": (0, 0, False),
    "elements near": (128, 3, False),
    "elements far": (256, 2, False),
    "elements near, streamed": (128, 3, True),
}
# The names of the copies, which are the names of the ways to copy, too.
STREAMED, CACHED = "non-temporal stores", "cached stores"
READS, FISSIONED_READS, FILLED = "reads", "fissioned reads", "fill"


@functools.cache
def load_probe(loop: str) -> "KernelCode":
    """Return the program of a loop, compiled; see `_source` for its arguments."""
    source = _source(loop)
    key = f"probe {hashlib.sha256(source.encode()).hexdigest()[:16]}"
    return load_kernel(key, "", lambda: Program(source, (), {})).entry


_PARAMETERS = "data, indices, out, first, last, size, lines, far, near"


def _indented(lines: Sequence[str]) -> str:
    return "".join(f"    {line}\n" for line in (*lines, "return 0"))


def _copy(*, streams: bool) -> str:
    """Return a copy of bytes, which are multiples of a block; of `ALL_BLOCKS` blocks that it writes it reads `size`."""
    store = "stream" if streams else "store"
    at = range(0, BLOCK_BYTES, LINE_BYTES)
    return _indented(
        [
            f"for at in range(first, last, {BLOCK_BYTES}):",
            f"    place = data + at // {BLOCK_BYTES} * size // {ALL_BLOCKS} * {BLOCK_BYTES}",
            *(f"    prefetch_0(place, {COPY_DISTANCE_BYTES + line})" for line in at if streams),
            *(f"    {store}_v16xi32(out, at + {line}, load_v16xi32(place, {line}))" for line in at),
        ]
    )


_FILL = f"""
    for at in range(first, last, 8):
        store_i64(out, at, {FILL})
    return 0
"""

# Reads of pieces of `lines` lines, whose numbers are int32, prefetched `far` and `near` pieces ahead into L2 and L1.
# The sum of one number of each line is returned, so that the reads are needed. Pieces of one line without a prefetch
# have a loop of their own, which is twice as fast where a table is near.
_READS = f"""
    piece_bytes = lines * {LINE_BYTES}
    total = 0
    if lines == 1 and far + near == 0:
        for number in range(first, last):
            total += load_i64(data, load_i32(indices, 4 * number) * {LINE_BYTES})
        return total
    for number in range(first, last):
        place = load_i32(indices, 4 * number) * piece_bytes
        later = load_i32(indices, 4 * (number + far)) * piece_bytes
        if near > 0:
            soon = load_i32(indices, 4 * (number + near)) * piece_bytes
            for line in range(lines):
                prefetch_1(data, later + line * {LINE_BYTES})
                prefetch_3(data, soon + line * {LINE_BYTES})
                total += load_i64(data, place + line * {LINE_BYTES})
        elif far > 0:
            for line in range(lines):
                prefetch_1(data, later + line * {LINE_BYTES})
                total += load_i64(data, place + line * {LINE_BYTES})
        else:
            for line in range(lines):
                total += load_i64(data, place + line * {LINE_BYTES})
    return total
"""

_FISSIONED_READS = f"""
    piece_bytes = lines * {LINE_BYTES}
    total = 0
    for begin in range(first, last, {FISSIONED}):
        end = minsi(begin + {FISSIONED}, last)
        for number in range(begin, end):
            later = load_i32(indices, 4 * (number + far)) * piece_bytes
            for line in range(lines):
                prefetch_1(data, later + line * {LINE_BYTES})
        for number in range(begin, end):
            place = load_i32(indices, 4 * number) * piece_bytes
            for line in range(lines):
                total += load_i64(data, place + line * {LINE_BYTES})
    return total
"""

# Each place follows from the one before and from its content, a multiple of two lines, so that a load waits for the
# load before. With an odd constant and a factor of 4 k + 1 every line of a table, a power of two of them, has its turn.
# `size` is the table's; `indices` is the first place, and the next one is returned.
_LATENCY = """
    place = indices
    for at in range(first, last):
        place = (place * 2862933555777941757 + 64 * 3037000493 + load_i64(data, place)) & (size - 64)
    return place
"""

_CHECK = """
    outside = 0
    for at in range(first, last):
        index = load_i64(indices, 8 * at)
        outside += zext(uge(index + (size & (index >> 63)), size))
    return outside
"""


def _scalars(ahead: int, locality: int, streams: bool) -> str:
    """Return a gather of elements of 4 bytes, 8 at a time, by indices of 8 bytes that may be negative."""
    lines = ["for at in range(first, last, 8):"]
    for lane in range(8):
        if ahead:
            lines.append(f"    prefetch_{locality}(data, 4 * load_i64(indices, 8 * at + {8 * (lane + ahead)}))")
        lines.append(f"    i{lane} = load_i64(indices, 8 * at + {8 * lane})")
        lines.append(f"    e{lane} = load_i32(data, 4 * clamp(wrap(i{lane}, size), size))")
    store = "stream" if streams else "store"
    lines.append(f"    {store}_v8xi32(out, 4 * at, join_v8xi32(e0, e1, e2, e3, e4, e5, e6, e7))")
    return _indented(lines)


# The same by gather instructions, as `gather-lanes` has it printed.
_GATHERED_SCALARS = """
    for at in range(first, last, 8):
        lanes = load_v8xi64(indices, 8 * at)
        wrapped = wrap_v8xi64(lanes, broadcast_v8xi64(size))
        inside = ult_v8xi64(wrapped, broadcast_v8xi64(size))
        store_v8xi32(out, 4 * at, gather_inside_v8xi32(data, wrapped, inside))
    return 0
"""


def _summed(fissions: bool) -> str:
    """Return a sum of rows of 256 bytes, `FISSIONED` by `FISSIONED`; each of these sums is written."""
    ahead = f"256 * load_i64(indices, 8 * at + {8 * SUMMED_AHEAD})"
    prefetches = [f"prefetch_2(data, {ahead} + {line})" for line in range(0, 256, LINE_BYTES)]
    adds = [
        "place = 256 * load_i64(indices, 8 * at)",
        *(f"s{at} = addi_v8xi64(s{at}, load_v8xi64(data, place + {64 * at}))" for at in range(4)),
    ]
    lines = [f"for begin in range(first, last, {FISSIONED}):"]
    lines += [f"    s{at} = broadcast_v8xi64(0)" for at in range(4)]
    for body in [prefetches, adds] if fissions else [prefetches + adds]:
        lines += [f"    for at in range(begin, begin + {FISSIONED}):", *(f"        {line}" for line in body)]
    return _indented([*lines, *(f"    store_v8xi64(out, {64 * at}, s{at})" for at in range(4))])


# The body of each loop, a function of `_PARAMETERS`, by name.
LOOPS = {
    STREAMED: _copy(streams=True),
    CACHED: _copy(streams=False),
    FILLED: _FILL,
    READS: _READS,
    FISSIONED_READS: _FISSIONED_READS,
    "latency": _LATENCY,
    "check": _CHECK,
    "scalars": _scalars(0, 0, False),
    "gathered scalars": _GATHERED_SCALARS,
    **{name: _summed(fissions) for name, fissions in SUMMED_ROWS.items()},
    **{name: _scalars(*how) for name, how in ELEMENTS.items()},
}


def _source(loop: str) -> str:
    """Return the text of the program of a loop.

    Its function `gather(data, indices, out, first, last, size, lines, far, near, shares, repeats, team)` runs the loop
    in equal shares, one a thread, each `repeats` times, and returns the sum of their results:

    * data, indices, out: addresses;
    * first, last: the range of its work: offsets in bytes of copies, places in the indices of the others;
    * size, lines, far, near: numbers whose meaning is the loop's.

    The last shares are shorter, or empty, where the work does not divide by them.
    """
    vectors = [f"{operation}_{kind}" for operation in ("load", "store", "stream") for kind in ("v8xi32", "v16xi32")]
    vectors += [f"{operation}_v8xi64" for operation in ("addi", "broadcast", "load", "store", "ult", "wrap")]
    vectors += [f"prefetch_{locality}" for locality in range(4)]
    return f"""from numba import int64, njit

from gathernest.lowering.native.parallel_for import call, share
from gathernest.lowering.numba.intrinsics import clamp, load_i32, load_i64, minsi, store_i64, uge, wrap, zext
from gathernest.lowering.numba.vector_intrinsics import {", ".join(vectors)}, gather_inside_v8xi32, join_v8xi32


@njit(nogil=True, error_model="numpy")
def loop({_PARAMETERS}):
{LOOPS[loop]}

@njit(nogil=True, error_model="numpy")
def part(number, {_PARAMETERS}, shares, repeats):
    grain = {BLOCK_BYTES if loop in (STREAMED, CACHED, FILLED) else 1}
    length = -(-(last - first) // (shares * grain)) * grain
    start = minsi(first + number * length, last)
    stop = minsi(start + length, last)
    found = 0
    for _ in range(repeats):
        found += call(loop, (data, indices, out, start, stop, size, lines, far, near))
    return found


signature = int64({", ".join(["int64"] * 12)})


@njit(nogil=True, error_model="numpy")
def gather({_PARAMETERS}, shares, repeats, team):
    return share(team, shares, part, ({_PARAMETERS}, shares, repeats))
"""


# Data, indices, out, first and last, as the program takes them.
Window = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Probe:
    """Runs a loop over the next of some windows each time that it is called.

    Attributes:
        loop: its name in `LOOPS`.
        windows: where; an iterator may be shared with other probes, which then go on where this one ended.
        memory: the arrays that the windows lie in.
        size: of a copy, the different blocks that it reads for `ALL_BLOCKS` that it writes; else as the loop takes it.
        lines, far, near: lines a piece, and the prefetch distances in pieces.
        shares: the number of equal parts that the work has.
        repeats: the number of times that a call does it.
        in_parallel: whether each share has a thread, where there are several threads.
    """

    loop: str
    windows: Iterator[Window]
    memory: tuple[np.ndarray, ...]
    size: int = ALL_BLOCKS
    lines: int = 1
    far: int = 0
    near: int = 0
    shares: int = 1
    repeats: int = 1
    in_parallel: bool = True

    def __call__(self) -> int:
        return self.prepared()()

    def prepared(self) -> Callable[[], int]:
        """Return a call that costs no more than the machine code and a few tuples: calls may take a microsecond."""
        entry = load_probe(self.loop)
        numbers = self.size, self.lines, self.far, self.near, self.shares, self.repeats
        team = current_subteam() if self.in_parallel and self.shares > 1 else 0
        return lambda: entry(*next(self.windows), *numbers, team)


def random_places(pieces: int, least: int = 1) -> np.ndarray:
    """Return the numbers of a table's pieces in a random order, seeded and repeated until there are `least`.

    `MAX_DISTANCE` more follow at the end, as the loops need them: int32 of shape (pieces or more,).
    """
    order = np.random.default_rng(pieces).permutation(np.arange(pieces, dtype=np.int32))
    return np.resize(order, max(pieces, least) + MAX_DISTANCE)


def aligned(size_bytes: int) -> np.ndarray:
    """Return memory that begins with a line: uint8 of shape (size_bytes,)."""
    return empty_in_lines((size_bytes,), np.dtype(np.uint8))


def touch(memory: np.ndarray, shares: int) -> None:
    """Fill memory with `FILL`, each part by the thread that will use it, so that it lies near that thread.

    Nothing is read before: where a page of zeros has been read, Linux makes small pages of a huge one.
    """
    size = len(memory) // BLOCK_BYTES * BLOCK_BYTES
    Probe(FILLED, iter([(0, 0, address(memory), 0, size)]), (memory,), shares=shares)()
    memory[size:] = 0
