"""Choosing the schedule of a gradient from the sizes of its nest. Plain Python; imports no xDSL."""

from .cutting import MIN_SLICE_BYTES, TILE_BYTES, cut_checks, cut_innermost
from .nest_shape import MachineShape, NestShape, role, trips
from .schedule import Choice, Schedule

MIN_GRADIENT_BYTES = 64 * 1024
MIN_OWNED_ROW_BYTES = 32
MOST_CACHED_BYTES = 16 * 1024 * 1024
MIN_PIECE_BYTES = 64
PIECES = (4096, 1024, 256, 64, 16, 8)


def choose_gradient_schedule(nest: NestShape, machine: MachineShape) -> Choice:
    """Pick what threads share of a gradient, so that none of them adds to what another adds to.

    That is, in this order: batches and outer slices, when there are enough of them; the positions of the longest axis,
    when rows are worth the look at every index and the table is larger than a cache; pieces of 64 bytes or more of the
    rows. Otherwise one thread adds: scalars at random places cost less than deciding whose they are.

    Args:
        nest: its sizes; the loops that copy are those that add.
        machine: where it is to run.
    """
    threads = machine.threads
    adding = [loop for loop in nest.copied if loop[1] != 1]
    if threads == 1 or nest.width_bytes * trips(adding) < MIN_GRADIENT_BYTES:
        return Choice(Schedule(), ("one thread adds: there is little to add, or no other thread",))
    beside = _share_beside(nest)
    free = [loop for loop in adding if role(loop) in ("batch", "outer")]
    if trips(free) >= threads:
        schedule = Schedule(beside.tiles, parallel=(*(name for name, _ in free), *beside.parallel))
        return Choice(schedule, (f"threads share {' and '.join(name for name, _ in free)}, which add apart",))
    inner = [loop for loop in adding if role(loop) in ("inner", "unit")]
    row_bytes, table_bytes = (nest.width_bytes * trips(group) for group in (inner, nest.table))
    has_own_index = any(name.startswith("data_") for name, _ in nest.table)
    if row_bytes >= MIN_OWNED_ROW_BYTES and table_bytes > MOST_CACHED_BYTES and not has_own_index:
        axis = max((loop for loop in nest.table if role(loop) == "axis"), key=lambda loop: loop[1])[0]
        schedule = Schedule(beside.tiles, (), ("owners", *beside.parallel), (axis, threads))
        return Choice(schedule, (f"each of {threads} threads adds to its own part of {axis}: rows are worth the look",))
    size = next((size for size in PIECES if len(inner) == 1 and threads * size * nest.width_bytes <= row_bytes), 0)
    if size * nest.width_bytes < MIN_PIECE_BYTES:
        reason = "one thread adds: scalars at random places cost less than deciding whose they are"
        return Choice(Schedule(beside.tiles, (), beside.parallel), (reason,))
    name = inner[0][0]
    others = [label for label, _ in adding if label != name]
    order = (f"{name}_o", *others, f"{name}_i")
    schedule = Schedule((*beside.tiles, (name, size)), order, (f"{name}_o", *beside.parallel))
    return Choice(schedule, (f"threads share the rows, in pieces of {size * nest.width_bytes} B",))


def _share_beside(nest: NestShape) -> Schedule:
    """Pick what threads share of the nests beside the one that adds: those that check, clear and scale."""
    tiles, parallel = cut_checks(nest.checked)
    rows = 1 + max(place for place, loop in enumerate(nest.table) if role(loop) == "axis")
    outside = [loop for loop in nest.table[:rows] if loop[1] != 1]
    unit = nest.width_bytes * trips(nest.table[rows:])
    for prefix in ("clear_", *(["scale_"] if nest.scales else [])):
        loops = [(prefix + name, size) for name, size in outside]
        more_tiles, more_parallel = cut_innermost(loops, unit, MIN_SLICE_BYTES, TILE_BYTES)
        tiles, parallel = (*tiles, *more_tiles), (*parallel, *more_parallel)
    return Schedule(tiles, parallel=parallel)
