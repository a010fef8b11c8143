"""Predicting the time of a nest under a schedule, from sizes and rates of the machine. Plain Python, microseconds.

A gather waits for the lines of data that its indices point to, moves indices and out, and runs instructions. Lines and
bytes come one after the other from the same memory; instructions run beside them:

    time = max(lines / line rate + bytes / copy rate, instructions) + launches

It ranks schedules well enough to drop the hopeless ones before they are timed; it knows nothing of how the indices are
distributed, takes them for uniformly random, and is no substitute for a measurement.
"""

from dataclasses import dataclass

from .loop_sizes import LINE_BYTES, MachineShape, NestShape, trips
from .schedule import Schedule

LAUNCH_US = 1.0
RESOLVE_NS = 0.35
ELEMENT_NS = 0.5
LANE_NS, HELD_LANE_NS = 0.25, 0.15
VECTOR_NS = 0.3
ROW_NS, SPECIALIZED_ROW_NS = 4.0, 1.5
"""Instructions of one thread on a Zen 4: for an index; for an element alone, in a lane, in a lane whose index is
resolved; for a vector of a row; and for a row besides its vectors, of any size and of a known one."""
UNASKED, NEAR_ASKED = 0.5, 0.65
"""What part of the line rate is reached without a prefetch, and with one into the first cache."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What the machine does at best, all threads together.

    Attributes:
        copy_bytes_per_us: bytes read and written by a copy as large as the gather.
        lines_per_us: lines of 64 bytes at random places of a table as large as data, asked for far ahead.
    """

    copy_bytes_per_us: float
    lines_per_us: float


def typical_rates(nest: NestShape, machine: MachineShape) -> Rates:
    """Return the rates of a Zen 4 for each thread, for when this machine's are not measured."""
    moved, table = nest.moved_bytes, nest.table_bytes
    copy = 110e3 if moved <= machine.l2_bytes else 85e3 if moved <= machine.l3_bytes else 48e3
    lines = 1600.0 if table <= machine.l2_bytes else 900.0 if table <= machine.l3_bytes else 250.0
    return Rates(copy * machine.threads, lines * machine.threads)


def predict_us(nest: NestShape, schedule: Schedule, machine: MachineShape, rates: Rates | None = None) -> float:
    """Return about how long a gather takes.

    Args:
        nest: its sizes.
        schedule: how it is run.
        machine: caches, and the threads that a parallel schedule is shared by.
        rates: of this machine, as measured; typical ones when omitted.

    Returns:
        Microseconds.
    """
    rates = rates or typical_rates(nest, machine)
    threads = machine.threads if schedule.parallel else 1
    share = threads / machine.threads
    memory = _lines_us(nest, schedule, machine, rates) + _bytes_us(nest, schedule, machine, rates)
    launches = len({name.partition("_")[0] == "check" for name in schedule.parallel})
    return max(memory / share, _instructions_us(nest, schedule) / threads) + LAUNCH_US * launches * (threads > 1)


def _copied_rows(nest: NestShape) -> tuple[bool, int, int]:
    """Return whether rows are copied, their bytes (of an element, where there are none), and how many there are."""
    row = nest.row
    run_bytes = nest.width_bytes * trips(row)
    return bool(row), run_bytes, nest.out_bytes // max(run_bytes, 1)


def _lines_us(nest: NestShape, schedule: Schedule, machine: MachineShape, rates: Rates) -> float:
    _, run_bytes, places = _copied_rows(nest)
    lines = places * -(-run_bytes // LINE_BYTES)
    asked = 1.0
    if nest.table_bytes > machine.l2_bytes:
        farthest = min((prefetch.locality for prefetch in schedule.prefetch), default=None)
        asked = UNASKED if farthest is None else NEAR_ASKED if farthest == 3 else 1.0
    return lines / (rates.lines_per_us * asked)


def _bytes_us(nest: NestShape, schedule: Schedule, machine: MachineShape, rates: Rates) -> float:
    exceeds = nest.moved_bytes > machine.l3_bytes
    stored = nest.out_bytes * (2 if exceeds != schedule.stream else 1)
    read = nest.index_bytes * nest.indices * (2 if nest.checked else 1)
    return (stored + read) / rates.copy_bytes_per_us


def _instructions_us(nest: NestShape, schedule: Schedule) -> float:
    is_row, run_bytes, places = _copied_rows(nest)
    lanes = schedule.lanes or 1
    if is_row:
        vectors = -(-run_bytes // (lanes * nest.width_bytes))
        each = VECTOR_NS * vectors + (ROW_NS if schedule.specialize is None else SPECIALIZED_ROW_NS)
    else:
        each = ELEMENT_NS if lanes == 1 else LANE_NS if schedule.hoist is None else HELD_LANE_NS
    resolved = nest.indices if schedule.hoist is not None else places
    checked = nest.indices if nest.checked else 0
    return (each * places + RESOLVE_NS * (resolved + checked)) / 1000
