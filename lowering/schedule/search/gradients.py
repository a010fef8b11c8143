"""The generators of gradients: who adds to which positions, sorted and listed indices, and prefetched slices."""

from collections.abc import Iterator

from .. import thresholds as fixed
from ..fields import change, make, value
from ..prefetch_heuristic import FAR
from ..schedule import Schedule
from ..steps import Prefetch
from .space import Space, loops_beside, loops_of_checks, vector_lanes, with_loops, without_owners


def owner_counts(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient: owners of the positions of its longest axis, as many as threads or twice that; or none."""
    if schedule != space.default or not space.is_gradient or space.nest.sums_bags:
        return
    tiles, shared = loops_beside(schedule)
    alone = without_owners(schedule)
    yield with_loops(space, alone, tiles, (), shared)
    axes = [(size, name) for name, size in space.nest.table if name.role == "axis"]
    for count in sorted({space.threads, 2 * space.threads} - {1}):
        if axes and max(axes)[0] >= count:
            owned = (max(axes)[1], count)
            yield change(with_loops(space, alone, tiles, (), ("owners", *shared)), owners=owned)
            if value(schedule, "compact") is not None:
                yield change(schedule, owners=owned)
            elif _has_plain_rows(space):
                yield _listing(space, alone, owned)


def _listing(space: Space, alone: Schedule, owned: tuple[str, int]) -> Schedule:
    """Return the schedule of owners that clear their positions themselves, and list the indices of rows to add."""
    tiles, shared = loops_of_checks(alone)
    return change(
        with_loops(space, alone, (*tiles, ("indices", fixed.TRIED_LISTED_TILES[-1])), (), ("owners", *shared)),
        owners=owned,
        fuse_owned=True,
        compact="indices_i",
        prefetch=(_slices(space, "indices_i"),),
        stream=False,
    )


def grouped_indices(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient of rows: the indices sorted by position, which threads share."""
    if schedule != space.default or value(schedule, "grouped") or not _has_plain_rows(space):
        return
    (indices, _), (inner, elements) = space.loops
    axis = next(name for name, _ in space.nest.table if name.role == "axis")
    tiles, shared = loops_of_checks(schedule)
    tiles = (*tiles, (axis, max(fixed.LEAST_TRIED_TILE_BYTES // space.row_bytes, 1)))
    order, most = (), fixed.GROUPED_PIECE_BYTES // space.nest.width_bytes
    if elements > most:
        tiles = (*tiles, (inner, most))
        order = (axis.outer_tile, axis.inner_tile, inner.outer_tile, "bag", inner.inner_tile)
    lanes = next((count for count in vector_lanes(space) if elements % count == 0), None)
    known = space.row_bytes if lanes and elements % min(elements, most) == 0 else None
    for stream in (True, False) if known else (False,):
        yield make(
            *(tiles, order, (axis.outer_tile, *shared)),
            specialize=known,
            grouped=indices,
            lanes=lanes if known else None,
            prefetch=(_slices(space, "bag"),),
            stream=stream,
        )


def sort_parts(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of sorted indices: the sort by one thread, or in as many parts as there are threads."""
    if value(schedule, "grouped"):
        counts = {None, space.threads if space.threads > 1 else None} - {value(schedule, "sort_parts")}
        yield from (change(schedule, sort_parts=count) for count in counts)


def listed_elements(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient of owners that list their indices: without lists, in vectors or not, with owners of one part."""
    if not value(schedule, "compact"):
        return
    if value(schedule, "list_lanes") is not None:
        yield change(schedule, list_lanes=None)
        yield change(schedule, unroll=None, prefetch=schedule.prefetches("rows", "slices"))
    if value(schedule, "owner_block") is not None:
        yield change(schedule, owner_block=None)
    for count in fixed.TRIED_LISTED_TILES:
        yield change(schedule, tiles=tuple((n, count if n == "indices" else size) for n, size in schedule.tiles))


def prefetched_slices(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient of rows: those to add prefetched, or farther ahead, or not."""
    others = schedule.prefetches("rows", "tile")
    if slices := schedule.prefetches("slices"):
        yield change(schedule, prefetch=others)
        yield change(schedule, prefetch=(*others, slices[0].replace(ahead=2 * slices[0].ahead)))
    elif _has_plain_rows(space):
        loop = "bag" if value(schedule, "grouped") else "indices_i" if "indices" in dict(schedule.tiles) else "indices"
        yield change(schedule, prefetch=(*others, _slices(space, loop)))


def _has_plain_rows(space: Space) -> bool:
    """Return whether it is a gradient that adds rows of one loop at the positions of one axis."""
    names = [name for name, _ in space.loops]
    axes = [name for name, _ in space.nest.table if name.role == "axis"]
    has_own_index = any(name.loop != name for name, _ in space.nest.table)
    return space.is_gradient and names == ["indices", "inner"] and len(axes) == 1 and not has_own_index


def _slices(space: Space, loop: str) -> Prefetch:
    """Return the prefetch of the slices that a loop adds."""
    return Prefetch("slices", loop, max(fixed.TRIED_SLICE_BYTES // space.row_bytes, 1), locality=FAR)
