"""The traffic of a gather: the fewest bytes that it moves, by stream, from its sizes alone. Plain Python, microseconds.

Indices are read once, every cache line of data that holds a byte of the result is read once, and the output is written
once. Without the values of the indices the number of lines is the expected one for uniformly random indices.

An index reads pieces of data: byte ranges without an unread line inside. Slices with larger holes have several pieces.
A window is the set of positions that one index can have.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.array_spec import contiguous_strides
from ...ir.canonical import CanonicalGather, Operand
from ...lowering.schedule.machine_model import LINE_BYTES

# A window of at most so many bytes stays in the caches while all of its indices read it.
WHOLE_WINDOW_BYTES = 256 * 1024

# (size, byte stride) of some dimensions.
Dims = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """The fewest bytes of a gather or a gradient.

    Attributes:
        streams: (name, bytes) of indices, data and output; of a gradient indices, grad and output. Arrays that do not
            fill their lines count by whole lines.
        lines: distinct lines that indices point to; of a gradient those that it adds to.
        piece_lines: the adjacent lines that one index, or one small window, reads; 1 or more.
        is_counted: whether `lines` was counted from the values of the indices, or is the expected number.
    """

    streams: tuple[tuple[str, float], ...]
    lines: float
    piece_lines: float
    is_counted: bool = False

    @property
    def total_bytes(self) -> float:
        """The bytes of all streams."""
        return sum(count for _, count in self.streams)


@dataclass(frozen=True, slots=True)
class ReadPattern:
    """Where a gather reads data: pieces, at positions that indices choose.

    Attributes:
        piece_bytes: bytes of a piece, holes of less than a line included.
        lowest_bytes: where a piece begins, from its first element; below 0 for negative strides.
        spread: the dimensions along which an index reads more than one piece.
        axes: the dimensions that are indexed.
        own: (name, size, byte stride) of the loops that choose both an index and a place in data, such as a batch.
        draws: indices for each step of `own`.
    """

    piece_bytes: int
    lowest_bytes: int
    spread: Dims
    axes: Dims
    own: tuple[tuple[str, int, int], ...]
    draws: int


def read_pattern(canonical: CanonicalGather, width_bytes: int) -> ReadPattern:
    """Return where a gather of known sizes, with elements of so many bytes, reads data."""
    trips = canonical.loops()
    axes: list[tuple[int, int]] = []
    own: list[tuple[str, int, int]] = []
    free: list[tuple[int, int]] = []
    dims = zip(canonical.data.dims, canonical.data.shape, byte_strides(canonical.data, width_bytes), strict=True)
    for dim, size, stride in dims:
        loop = dim.loop
        if loop.role == "axis":
            axes.append((size, stride))
        elif loop in canonical.indices.dims:
            own.append((loop, trips[loop], stride))
        else:
            free.append((trips[loop], stride))
    piece_bytes, spread = merged(width_bytes, free)
    lowest = sum((size - 1) * min(stride, 0) for size, stride in free if (size, stride) not in spread)
    chosen = {loop for loop, _, _ in own}
    draws = math.prod(trips[dim] for dim in canonical.indices.dims if dim in trips and dim not in chosen)
    draws = 0 if any(size == 0 for size, _ in free) else draws
    return ReadPattern(piece_bytes, lowest, spread, tuple(axes), tuple(own), draws)


def traffic_streams(
    canonical: CanonicalGather, width_bytes: int, index_bytes: int, lines: float, *, is_gradient: bool
) -> tuple[tuple[str, float], ...]:
    """Return (name, bytes) of every stream of a gather that reads so many distinct lines of data, or of a gradient.

    A gradient reverses the direction: `out` is read, and `data` is written whole.
    """
    slices = ("grad" if is_gradient else "output", stored_bytes(canonical.out, width_bytes))
    table = ("output", stored_bytes(canonical.data, width_bytes)) if is_gradient else ("data", lines * LINE_BYTES)
    streams = [("indices", stored_bytes(canonical.indices, index_bytes))]
    streams += [slices, table] if is_gradient else [table, slices]
    return tuple((name, float(count)) for name, count in streams)


def expected_lines(pattern: ReadPattern, offset_bytes: int = 0) -> tuple[float, float]:
    """Return (expected lines of data for uniformly random indices, adjacent lines at each place).

    Every line of a window is equally likely. Windows that share lines, since they begin less than a line apart, count
    as one with the indices of all of them. Data begins at an offset in a line.
    """
    windows, draws = float(math.prod(size for size, _ in pattern.spread)), float(pattern.draws)
    steps = [stride for _, stride in pattern.spread]
    together = 1.0
    for _, size, stride in pattern.own:
        windows, draws = (windows, draws * size) if stride == 0 else (windows * size, draws)
        if size > 1 and stride:
            steps.append(stride)
            together *= max(1.0, min(size, LINE_BYTES / abs(stride)))
    if windows * draws == 0 or any(size == 0 for size, _ in pattern.axes):
        return 0.0, 1.0
    axis_steps = [stride for size, stride in pattern.axes if size > 1]
    piece = mean_lines(pattern.piece_bytes, [*steps, *axis_steps], offset_bytes)
    if together > 1:
        piece, window, holes = 1.0, _lines_together(pattern.axes), ()
    else:
        extent, holes = merged(pattern.piece_bytes, pattern.axes)
        beside = [*steps, *(stride for _, stride in holes)]
        window = math.prod(size for size, _ in holes) * mean_lines(extent, beside, offset_bytes)
    missed = math.exp(draws * together * math.log1p(-piece / window)) if piece < window else 0.0
    found = window * (1 - missed)
    is_whole = window * LINE_BYTES <= WHOLE_WINDOW_BYTES and 2 * found > window and not holes
    return windows / together * found, max(found if is_whole else piece, 1.0)


def _lines_together(axes: Dims) -> float:
    """Return the lines of windows that share lines: one for each position a line or more from the next."""
    span_bytes = sum((size - 1) * abs(stride) for size, stride in axes if abs(stride) < LINE_BYTES)
    return math.prod(size for size, stride in axes if abs(stride) >= LINE_BYTES) * max(1.0, span_bytes / LINE_BYTES)


def merged(piece_bytes: int, dims: Sequence[tuple[int, int]]) -> tuple[int, Dims]:
    """Return the size of a piece merged along dimensions, and the dimensions whose holes skip a whole line.

    A hole of less than 64 bytes skips no line at any alignment.
    """
    left: list[tuple[int, int]] = []
    for size, stride in sorted(dims, key=lambda dim: abs(dim[1])):
        if size == 1 or stride == 0:
            continue
        if not left and abs(stride) - piece_bytes < LINE_BYTES:
            piece_bytes += (size - 1) * abs(stride)
        else:
            left.append((size, stride))
    return piece_bytes, tuple(left)


def mean_lines(piece_bytes: int, steps: list[int], offset_bytes: int = 0) -> float:
    """Return how many lines a piece lies in, on average over where the steps lead from an offset in a line.

    The steps lead to all multiples of their greatest common divisor with 64, and the sum over them of the rounded
    down (offset + multiple + piece - 1) / 64 is Hermite's identity.
    """
    grain = math.gcd(LINE_BYTES, *steps)
    return 1 + (offset_bytes % grain + piece_bytes - 1) // grain * grain / LINE_BYTES


def stored_bytes(operand: Operand, width_bytes: int) -> float:
    """Return the bytes of an array's lines; those of its elements alone where they leave none between them unused."""
    dims = list(zip(operand.shape, byte_strides(operand, width_bytes), strict=True))
    if any(size == 0 for size, _ in dims):
        return 0.0
    distinct = width_bytes * math.prod(size for size, stride in dims if stride)
    extent, holes = merged(width_bytes, dims)
    if not holes and extent <= distinct:
        return float(extent)
    count = math.prod(size for size, _ in holes)
    return count * mean_lines(extent, [stride for _, stride in holes]) * LINE_BYTES


def byte_strides(operand: Operand, width_bytes: int) -> tuple[int, ...]:
    """Return the strides of an array in bytes."""
    if operand.strides is None:
        return contiguous_strides(operand.shape, width_bytes)
    return tuple((stride or 0) * width_bytes for stride in operand.strides)
