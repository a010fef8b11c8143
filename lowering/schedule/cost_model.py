"""Predicting the time of a nest under a schedule, from sizes and rates of the machine. Plain Python, microseconds.

A gather waits for the lines of data that its indices point to, moves indices and out, and runs instructions. Lines and
bytes come one after the other from the same memory; instructions run beside them:

    time = max(lines / line rate + bytes / copy rate, instructions) + launches

It ranks schedules well enough to drop the hopeless ones before they are timed; it knows nothing of how the indices are
distributed, takes them for uniformly random, and is no substitute for a measurement.
"""

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .loop_sizes import NestShape, trips
from .machine_model import MachineModel
from .schedule import Schedule


def predict_us(nest: NestShape, schedule: Schedule, machine: MachineModel) -> float:
    """Return about how many microseconds a gather takes; the machine has the number of threads."""
    threads = machine.threads if schedule.parallel else 1
    memory = _lines_ns(nest, schedule, machine) + _bytes_ns(nest, schedule, machine)
    launches = len({LoopName(name).nest == "check" for name in schedule.parallel})
    serial_ns = max(memory, _instructions_ns(nest, schedule, machine))
    return (serial_ns / threads + machine.launch_ns * launches * (threads > 1)) / 1000


def _copied_rows(nest: NestShape) -> tuple[bool, int, int]:
    """Return whether rows are copied, their bytes (of an element, where there are none), and how many there are."""
    row = nest.row
    run_bytes = nest.width_bytes * trips(row)
    return bool(row), run_bytes, nest.out_bytes // max(run_bytes, 1)


def _lines_ns(nest: NestShape, schedule: Schedule, machine: MachineModel) -> float:
    _, run_bytes, places = _copied_rows(nest)
    farthest = min((prefetch.locality for prefetch in schedule.prefetch), default=None)
    times = fixed.UNPREFETCHED if farthest is None else fixed.NEAR_PREFETCHED if farthest == 3 else 1.0
    return places * -(-run_bytes // machine.line_bytes) * machine.random_line_ns(nest.table_bytes, times)


def _bytes_ns(nest: NestShape, schedule: Schedule, machine: MachineModel) -> float:
    exceeds = machine.exceeds_last_level_cache(nest.moved_bytes)
    stored = nest.out_bytes * (2 if exceeds != schedule.stream else 1)
    read = nest.all_index_bytes * (2 if nest.checked else 1)
    return (stored + read) / machine.copy_rate(nest.moved_bytes)


def _instructions_ns(nest: NestShape, schedule: Schedule, machine: MachineModel) -> float:
    is_row, run_bytes, places = _copied_rows(nest)
    lanes = schedule.lanes or 1
    if is_row:
        vectors = -(-run_bytes // (lanes * nest.width_bytes))
        each = fixed.VECTOR_NS * vectors + (fixed.ROW_NS if schedule.specialize is None else fixed.SPECIALIZED_ROW_NS)
    else:
        lane_ns = fixed.UNRESOLVED_LANE_NS if schedule.hoist is None else machine.lane_load_ns
        each = fixed.ELEMENT_NS if lanes == 1 else lane_ns
    resolved = nest.indices if schedule.hoist is not None else places
    checked = nest.indices if nest.checked else 0
    return each * places + fixed.RESOLVE_NS * (resolved + checked)
