"""The traffic of a gather: its fewest bytes by stream, and the cache lines of data in the order of its indices.

Indices are read once, every cache line of data that holds a byte of the result is read once, and the output is written
once. With the values of the indices the lines are counted from addresses; without them their number is the expected
one for uniformly random indices. NumPy alone.

An index reads pieces of data: byte ranges without an unread line inside. Slices with larger holes have several pieces.
A window is the set of positions that one index can have.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.array_spec import contiguous_strides
from ...ir.canonical import CanonicalGather, Operand
from ...ir.errors import InvalidGatherError
from ...ir.loop_name import LoopName
from ...ir.positions import NOWHERE, resolve
from ...ir.problem import Problem
from ...ir.semantics import Bounds
from ...lowering.schedule.machine_model import LINE_BYTES
from ..runtime.array_checks import address
from ..runtime.plan import Plan, make_plan

# A window of at most this size stays in the caches while all of its indices read it.
WHOLE_WINDOW_BYTES = 256 * 1024

# Do not count more lines: to sort them takes seconds.
MAX_LINES = 2**24

# (size, byte stride) of some dimensions.
Dims = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Traffic:
    """The fewest bytes of a gather or a gradient.

    Attributes:
        streams: (name, bytes) of indices, data and output; of a gradient indices, grad and output. Arrays that do not
            fill their lines count by whole lines.
        lines: distinct lines that indices point to; of a gradient the lines that it adds to.
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


def fewest_bytes(problem: Problem, indices: np.ndarray | None = None, data: np.ndarray | None = None) -> Traffic:
    """Return the fewest bytes of a gather or a gradient, and its lines.

    Args:
        problem: the gather.
        indices: of the problem's shape, whose lines of data are counted; without them the number is the expected one of
            uniformly random indices.
        data: the array that is read, or that a gradient writes; it says where in a line of 64 bytes data begins, at the
            start if omitted.

    Raises:
        InvalidGatherError: indices have another shape than the problem's.
    """
    if indices is not None and indices.shape != problem.indices.shape:
        raise InvalidGatherError(
            f"indices must have the shape {problem.indices.shape} of the problem, got {indices.shape}; compile a "
            "kernel for these arrays first"
        )
    offset_bytes, plan = _offset_bytes(data), make_plan(problem)
    canonical, width = plan.layout.canonical, plan.layout.width_bytes
    lines, piece_lines = expected_lines(canonical, width, offset_bytes)
    reads = None if indices is None else read_lines(plan, indices, offset_bytes)
    if reads is not None:
        lines, piece_lines = float(len(np.unique(reads))), max(_adjacent(reads), piece_lines)
    streams = _streams(canonical, width, problem.indices.dtype.itemsize, lines, problem.gradient is not None)
    return Traffic(streams, lines, piece_lines, is_counted=reads is not None)


def _offset_bytes(data: np.ndarray | None) -> int:
    return 0 if data is None else address(data) % LINE_BYTES


# the expected lines of uniformly random indices


def expected_lines(canonical: CanonicalGather, width_bytes: int, offset_bytes: int = 0) -> tuple[float, float]:
    """Return (expected lines of data for uniformly random indices, adjacent lines at each place).

    Each read finds every line of its window with the same probability. Elements have `width_bytes`, and data begins
    `offset_bytes` into a line.
    """
    trips, indexed = canonical.loops(), canonical.indices.dims
    axes, free, own = list[tuple[int, int]](), list[tuple[int, int]](), list[tuple[int, int]]()
    dims = zip(canonical.data.dims, canonical.data.shape, _byte_strides(canonical.data, width_bytes), strict=True)
    for dim, size, stride in dims:
        group = axes if dim.loop.role == "axis" else own if dim.loop in indexed else free
        group.append((size if group is axes else trips[dim.loop], stride))
    piece_bytes, spread = _merged(width_bytes, free)
    reads = math.prod(trips[dim] for dim in indexed if dim in trips) * math.prod(size for size, _ in spread)
    if reads == 0 or any(size == 0 for size, _ in (*axes, *free)):
        return 0.0, 1.0
    steps = [stride for size, stride in (*spread, *own, *axes) if size > 1 and stride]
    piece = _mean_lines(piece_bytes, steps, offset_bytes)
    window, holes = _lines_within(piece_bytes, axes, [stride for _, stride in (*spread, *own)], offset_bytes)
    lines, _ = _lines_within(width_bytes, [*axes, *own, *free], [], offset_bytes)
    missed = math.exp(reads * window / lines * math.log1p(-piece / window)) if piece < window else 0.0
    found = window * (1 - missed)
    is_whole = window * LINE_BYTES <= WHOLE_WINDOW_BYTES and 2 * found > window and not holes
    return lines * (1 - missed), max(found if is_whole else piece, 1.0)


def _lines_within(piece_bytes: int, dims: Dims, steps: Sequence[int], offset_bytes: int) -> tuple[float, Dims]:
    """Return the lines of pieces at all places of some dimensions, and the dimensions whose holes skip a whole line."""
    extent, holes = _merged(piece_bytes, dims)
    steps = [*steps, *(stride for _, stride in holes)]
    return math.prod(size for size, _ in holes) * _mean_lines(extent, steps, offset_bytes), holes


def _merged(piece_bytes: int, dims: Dims) -> tuple[int, Dims]:
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
    return piece_bytes, left


def _mean_lines(piece_bytes: int, steps: list[int], offset_bytes: int = 0) -> float:
    """Return the mean number of lines of a piece, over the places that the steps lead to from an offset in a line.

    The steps lead to all multiples of their greatest common divisor with 64, and the sum over them of the rounded
    down (offset + multiple + piece - 1) / 64 is Hermite's identity.
    """
    grain = math.gcd(LINE_BYTES, *steps)
    return 1 + (offset_bytes % grain + piece_bytes - 1) // grain * grain / LINE_BYTES


def _streams(
    canonical: CanonicalGather, width_bytes: int, index_bytes: int, lines: float, is_gradient: bool
) -> tuple[tuple[str, float], ...]:
    """Return (name, bytes) of every stream of a gather that reads `lines` distinct lines of data, or of a gradient.

    A gradient reverses the direction: `out` is read, and `data` is written whole.
    """
    slices = ("grad" if is_gradient else "output", _stored_bytes(canonical.out, width_bytes))
    table = ("output", _stored_bytes(canonical.data, width_bytes)) if is_gradient else ("data", lines * LINE_BYTES)
    streams = [("indices", _stored_bytes(canonical.indices, index_bytes))]
    streams += [slices, table] if is_gradient else [table, slices]
    return tuple((name, float(count)) for name, count in streams)


def _stored_bytes(operand: Operand, width_bytes: int) -> float:
    """Return the bytes of an array's lines, or of its elements where no bytes between them are unused."""
    dims = list(zip(operand.shape, _byte_strides(operand, width_bytes), strict=True))
    if any(size == 0 for size, _ in dims):
        return 0.0
    distinct = width_bytes * math.prod(size for size, stride in dims if stride)
    extent, holes = _merged(width_bytes, dims)
    if not holes and extent <= distinct:
        return float(extent)
    count = math.prod(size for size, _ in holes)
    return count * _mean_lines(extent, [stride for _, stride in holes]) * LINE_BYTES


def _byte_strides(operand: Operand, width_bytes: int) -> tuple[int, ...]:
    """Return the strides of an array in bytes."""
    if operand.strides is None:
        return contiguous_strides(operand.shape, width_bytes)
    return tuple((stride or 0) * width_bytes for stride in operand.strides)


# the lines of given indices


def read_lines(plan: Plan, indices: np.ndarray, offset_bytes: int = 0) -> np.ndarray | None:
    """Return the numbers of the lines that are read, in the order of the loops; None of too many.

    Indices outside read nothing; data begins `offset_bytes` into a line.
    """
    dims, piece_bytes = _pieces(plan)
    trips = plan.layout.canonical.loops()
    if math.prod(trips[dim] for dim in dims) * (1 + (piece_bytes - 1) // LINE_BYTES) > MAX_LINES:
        return None
    strides = _byte_strides(plan.layout.canonical.data, plan.layout.width_bytes)
    offsets, inside = _read_offsets(plan.layout.canonical, strides, indices, plan.problem.bounds, dims)
    return _lines_of(offsets[inside] + offset_bytes, piece_bytes)


def _adjacent(lines: np.ndarray) -> float:
    """Return the mean length of runs of adjacent lines."""
    steps = np.diff(lines)
    return (1 + np.count_nonzero(steps)) / (1 + np.count_nonzero(steps[steps != 1])) if len(lines) else 1.0


def _read_offsets(
    gather: CanonicalGather, strides: Sequence[int], indices: np.ndarray, bounds: Bounds, loops: Sequence[LoopName]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the offset in data of each iteration of some loops, in the unit of the strides, and whether it reads.

    Args:
        strides: of the dimensions of data, in any unit.
        indices: of the shape that the gather was made for, in any rank.
        loops: of the nest, in its order, all that have indices among them.
    """
    operand = gather.indices
    trips = gather.loops()
    shaped = np.ascontiguousarray(indices).reshape(operand.shape)
    components = iter(np.moveaxis(shaped, operand.place_of("tuple"), 0) if operand.count_of("tuple") else [shaped])
    offsets, inside = np.zeros((), np.int64), np.ones((), bool)
    for dim, size, stride in zip(gather.data.dims, gather.data.shape, strides, strict=True):
        loop = dim.loop
        if loop.role == "axis":
            steps = resolve(next(components), size, bounds)
            steps = steps.reshape([trips[other] if other in operand.dims else 1 for other in loops])
            inside = inside & (steps != NOWHERE)
        elif loop in loops:
            steps = np.arange(trips[loop]).reshape([trips[loop] if other == loop else 1 for other in loops])
        else:
            continue
        offsets = offsets + steps * stride
    shape = [trips[loop] for loop in loops]
    return np.broadcast_to(offsets, shape), np.broadcast_to(inside, shape)


def _pieces(plan: Plan) -> tuple[list[LoopName], int]:
    """Return the loops that lead from piece to piece of data, and the bytes that are read in order at each."""
    data, trips = plan.layout.canonical.data, plan.layout.canonical.loops()
    loops = [dim.loop for dim in data.dims]
    strides = dict(zip(loops, _byte_strides(data, plan.layout.width_bytes), strict=True))
    dims, piece_bytes = list(trips), plan.layout.width_bytes
    while dims and dims[-1] not in plan.layout.canonical.indices.dims:
        size, stride = trips[dims[-1]], strides[dims[-1]]
        if size == 0 or (size > 1 and stride and not 0 <= stride - piece_bytes < LINE_BYTES):
            break
        piece_bytes += (size - 1) * stride
        dims.pop()
    return dims, piece_bytes


def _lines_of(places: np.ndarray, piece_bytes: int) -> np.ndarray:
    """Return the lines of pieces at some places, in ascending order within a piece."""
    first = places // LINE_BYTES
    counts = (places + (piece_bytes - 1)) // LINE_BYTES - first + 1
    if piece_bytes == 1 or not len(places) or counts.max() == 1:
        return first
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(counts.sum())
