"""Candidates: variations of the schedule that the rules propose, and the choice of the least predicted time.

A variation is the fields in which a candidate differs, so that the cost model can rank many of them before a schedule
is made of one. The terms of a prediction are sums over fields, so the choice takes one field after the other. Plain
Python.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .fields import change, value
from .gather_heuristic import choose_schedule, least_streamed_bytes
from .gradient_heuristic import choose_reduction_schedule, clears_in_vectors, gradient_ways
from .machine_model import GATHERED_BYTES, STREAM_BYTES, MachineModel
from .predict import Model
from .prefetch_heuristic import along_the_copy, elements_ahead, near_and_far_rows
from .schedule import Choice, Schedule
from .shape import NestShape
from .steps import Prefetch

# The fields of a schedule with their values, by name.
Variation = dict[str, Any]

Describe = Callable[[Schedule, Variation], str]
Options = Callable[[NestShape, MachineModel, Schedule], list[Variation]]

TRIED_LANE_BYTES = (STREAM_BYTES, 32, 64)
TILE_FACTOR = 4  # between the tiles of a candidate and those that are chosen


def variations(nest: NestShape, machine: MachineModel, chosen: Schedule) -> list[Variation]:
    """Return the variations of the schedule of a gather: those of the innermost loop first, then those of the loops."""
    bodies = product(_lanes(nest, chosen), (False, True), _prefetches(nest, machine, chosen))
    found = [
        _changes(
            chosen,
            {
                "lanes": lanes,
                "gather": value(chosen, "gather") and lanes is not None,
                "stream": stream,
                "prefetch": prefetch,
            },
        )
        for lanes, stream, prefetch in bodies
        if lanes is not None or not stream
    ]
    return [variation for variation in (*found, *_loops(nest, chosen)) if variation]


def candidates(nest: NestShape, machine: MachineModel, chosen: Schedule, *, is_gradient: bool) -> Iterator[Schedule]:
    """Yield the schedule that is chosen, that of the rules, and variations, those of one field first.

    Those of a gradient are the ways to share its additions, and the variations that tuning tries.
    """
    if is_gradient:
        from .search.search_space import Space, search  # planning a call does not need it

        space = Space(nest, chosen, machine.threads, is_gradient)
        ways = () if nest.sums_bags else gradient_candidates(nest, machine)
        yield from dict.fromkeys([chosen, *ways, *search(space, lambda schedules: [chosen])])
        return
    rules = choose_schedule(nest, machine).schedule
    found = sorted(variations(nest, machine, chosen), key=len) if chosen != Schedule() else []
    yield from dict.fromkeys([chosen, rules, *(change(chosen, **variation) for variation in found)])


def choose_candidate(nest: NestShape, machine: MachineModel, proposed: Choice) -> Choice:
    """Return the candidate with the least predicted time, with reasons.

    Prefetches, then vectors with their stores, then staged indices differ from what the rules propose where the
    prediction for others is clearly less. Lanes are gathered where loads may be far slower: the values of the indices
    are not known.
    """
    rules = proposed.schedule
    model, changes, reasons = Model(nest, machine), Variation(), list[str]()
    least_us = model.predict(rules).time_us
    for field, describe, options, gain in _STEPS:
        others = options(nest, machine, rules)
        times = [
            # where memory is the limit, many take as long but for how the terms round: the first of them counts
            (round(model.predict(rules, {**changes, **other}).time_us, 3), place)
            for place, other in enumerate(others)
        ]
        time_us, place = min(times, default=(math.inf, 0))
        drops = field == "prefetch" and bool(others) and not others[place]["prefetch"]
        if time_us * (fixed.LEAST_GAIN_OF_NO_PREFETCH if drops else gain) <= least_us:
            told = f"{_time(time_us)} predicted, {_time(least_us)} with {describe(rules, {})}"
            reasons.append(f"but {describe(rules, others[place])}: {told}")
            changes.update(others[place])
            least_us = time_us
            continue
        has = bool(value(rules, field))
        unlike = [each for each in times if bool(others[each[1]].get(field)) != has]
        time_us, place = min(unlike, default=(0.0, 0))
        if time_us >= fixed.TOLD_GAIN * least_us:
            told = f"{_time(least_us)} predicted, {_time(time_us)} with {describe(rules, others[place])}"
            reasons.append(f"{describe(rules, {})}: {told}")
    found, why = _gathered(nest, machine, model, change(rules, **changes) if changes else rules)
    return Choice(found, (*proposed.reasons, *reasons, *why))


def _gathered(
    nest: NestShape, machine: MachineModel, model: Model, loaded: Schedule
) -> tuple[Schedule, tuple[str, ...]]:
    """Return the schedule with the lanes loaded as the least regret asks for, and the reason where that is by gathers.

    The regret of a way is how many times as long as the other it takes, for random or for ascending indices, whichever
    is more: nothing is known of the indices but their number. Smaller tables than those whose elements are prefetched,
    or might be, have a rule of their own.
    """
    has_one_axis = sum(name.role == "axis" for name, _ in nest.table) == 1
    is_ahead = nest.innermost[0] in [LoopName(prefetch.loop).untiled for prefetch in loaded.prefetches()]
    is_ahead |= not loaded.prefetches() and nest.span_bytes > fixed.MOST_GATHERED_L2S * machine.l2_bytes
    is_loaded = (
        loaded.lanes is not None and not nest.is_row and not value(loaded, "gather") and loaded.row_bytes is None
    )
    if not (is_loaded and is_ahead and has_one_axis and nest.width_bytes in GATHERED_BYTES):
        return loaded, ()
    gathered = change(loaded, gather=True)
    at_random, ascending = (
        model.predict(gathered, ascending=order).time_us / model.predict(loaded, ascending=order).time_us
        for order in (False, True)
    )
    worst_of_gathers, worst_of_loads = max(at_random, ascending, 1.0), max(1 / at_random, 1 / ascending, 1.0)
    if worst_of_loads < fixed.LEAST_PREDICTED_GAIN * worst_of_gathers:
        return loaded, ()
    orders = f"{at_random:.2f} times as long for random indices, {ascending:.2f} times for ascending ones"
    return gathered, (f"but lanes are loaded by gather instructions: predicted to take {orders}",)


def _ahead(nest: NestShape, machine: MachineModel, rules: Schedule) -> list[Variation]:
    return [{"prefetch": tried} for tried in _prefetches(nest, machine, rules) if tried != rules.prefetches()]


def _bodies(nest: NestShape, machine: MachineModel, rules: Schedule) -> list[Variation]:
    """Return the vectors and stores to choose from: no fewer whole vectors in a run than those of the rules leave."""
    name, size = nest.innermost
    is_row, run_bytes = nest.is_row, nest.width_bytes * size
    is_fixed = not (nest.has_packed_rows and nest.is_packed) or (rules.lanes is None and name.role != "indices")
    is_known = not is_row and rules.row_bytes is not None
    is_fixed = is_fixed or is_known or (not is_row and bool(rules.prefetches()))  # so many vectors ahead
    found: list[Variation] = []
    for lanes in (rules.lanes,) if is_fixed else _lanes(nest, rules):
        if lanes is None or (lanes != rules.lanes and size % lanes):
            continue
        overlaps = rules.row_bytes is not None and size % lanes != 0
        can_stream = run_bytes >= least_streamed_bytes(nest, lanes, overlaps=overlaps, is_known=is_known)
        can_stream &= nest.out_bytes >= machine.l3_room_bytes  # who reads a smaller result finds it there
        streams = (False, True) if can_stream else (False,)
        found += [
            {"lanes": lanes, "stream": stream}
            for stream in streams
            if lanes != rules.lanes or stream != value(rules, "stream")
        ]
    return found


def _staging(nest: NestShape, machine: MachineModel, rules: Schedule) -> list[Variation]:
    return list(_hoists(nest, rules))


def _told_prefetch(rules: Schedule, changes: Variation) -> str:
    prefetches: tuple[Prefetch, ...] = changes.get("prefetch", rules.prefetches())
    distances = " and ".join(str(prefetch.ahead) for prefetch in prefetches)
    return f"prefetches {distances} steps ahead" if distances else "no prefetch"


def _told_stores(rules: Schedule, changes: Variation) -> str:
    how = "non-temporal" if changes.get("stream", value(rules, "stream")) else "cached"
    lanes = changes.get("lanes", rules.lanes) or 1
    return f"{how} stores of {lanes} element{'s' if lanes > 1 else ''}"


def _told_hoist(rules: Schedule, changes: Variation) -> str:
    return "staged indices" if changes.get("hoist", value(rules, "hoist")) else "indices resolved where they are used"


def _time(time_us: float) -> str:
    return f"{time_us / 1000:.2f} ms" if time_us >= 1000 else f"{time_us:.3g} µs"


# The field that candidates differ in, what it is called in reasons, the candidates, and what they must gain.
_STEPS: tuple[tuple[str, Describe, Options, float], ...] = (
    ("prefetch", _told_prefetch, _ahead, fixed.LEAST_PREDICTED_GAIN),
    ("stream", _told_stores, _bodies, fixed.LEAST_GAIN_OF_STORES),
    ("hoist", _told_hoist, _staging, fixed.LEAST_PREDICTED_GAIN),
)


def _changes(chosen: Schedule, fields: Variation) -> Variation:
    return {name: wanted for name, wanted in fields.items() if value(chosen, name) != wanted}


def _lanes(nest: NestShape, chosen: Schedule) -> Sequence[int | None]:
    """Return the lanes to try: vectors of 16, 32 and 64 bytes as far as the innermost loop fills them, or none."""
    if not nest.is_packed:
        return (chosen.lanes,)
    most = nest.innermost[1] if nest.is_row else min(nest.innermost[1], fixed.MOST_LANES)
    counts = (size // nest.width_bytes for size in TRIED_LANE_BYTES)
    return tuple(dict.fromkeys((chosen.lanes, *(count for count in counts if 2 <= count <= most), None)))


def _prefetches(nest: NestShape, machine: MachineModel, chosen: Schedule) -> Sequence[tuple[Prefetch, ...]]:
    """Return the prefetches to try: those chosen, those of rows or of elements near and far ahead, and none."""
    found: list[tuple[Prefetch, ...]] = [chosen.prefetches(), ()]
    counted = [(name, size) for name, size in nest.loops if name in nest.looked_up]
    if counted:
        (name, size), tiled = counted[-1], dict(chosen.tiles)
        loop = name.inner_tile if name in tiled else name
        around = [loop for loop in nest.loops if loop not in nest.row]
        if nest.is_row and around[-1][0] == name:
            near, far = near_and_far_rows(nest, machine, loop, size)
            tried: list[tuple[Prefetch, ...]] = [(near,), (far,), (far, near)]
            found += tried if chosen.row_bytes is not None else [along_the_copy(nest, each) for each in tried]
        elif not nest.is_row and chosen.lanes is not None:
            found.append(elements_ahead(nest, machine, loop, size, chosen.lanes))
    return tuple(dict.fromkeys(found))


def _loops(nest: NestShape, chosen: Schedule) -> Iterator[Variation]:
    """Yield other tiles, staged indices or none, gathered lanes or loads, code for rows of any size, and one thread."""
    copying = {name: size for name, size in chosen.tiles if not LoopName(name).nest}
    for factor in (1 / TILE_FACTOR, TILE_FACTOR) if copying else ():
        tiles = tuple((name, max(int(size * factor), 1) if name in copying else size) for name, size in chosen.tiles)
        if all(size > 1 for _, size in tiles):
            yield {"tiles": tiles}
    yield from _hoists(nest, chosen)
    if chosen.lanes is not None and not nest.is_row and nest.width_bytes in GATHERED_BYTES:
        yield {"gather": not value(chosen, "gather")}
    if chosen.row_bytes is not None:
        yield {"specialize": None}
    if chosen.parallel:
        yield {"parallel": ()}


def _hoists(nest: NestShape, chosen: Schedule) -> Iterator[Variation]:
    """Yield staged indices, or none."""
    name, _ = nest.innermost
    if value(chosen, "hoist") is not None:
        yield {"hoist": None}
    elif not nest.is_row and name in dict(chosen.tiles) and name in nest.looked_up:
        yield {"hoist": name.inner_tile}


def choose_gradient_schedule(nest: NestShape, machine: MachineModel) -> Choice:
    """Return the way of the least predicted time, with its reasons, and whether prefetches and such stores pay."""
    ways = gradient_ways(nest, machine)
    if ways == [Choice(Schedule(), ways[0].reasons)]:
        return ways[0]
    model = Model(nest, machine, is_gradient=True)
    timed = [(model.predict(way.schedule).time_us, place) for place, way in enumerate(ways)]
    most_us = fixed.LEAST_PREDICTED_GAIN * min(timed)[0]
    least_us, place = next(each for each in timed if each[0] <= most_us)  # the plainest of those that are as fast
    found, reasons = ways[place].schedule, ways[place].reasons
    others = sorted(each for each in timed if each[1] != place)
    if others:
        next_us, second = others[0]
        reasons = (*reasons, f"{least_us:.3g} µs predicted, {next_us:.3g} where {ways[second].reasons[0]}")
    for other, why in _gradient_bodies(nest, found):
        time_us = model.predict(other).time_us
        if time_us * fixed.LEAST_GAIN_OF_STORES <= least_us:
            reasons = (*reasons, f"{why}: {time_us:.3g} µs predicted, {least_us:.3g} otherwise")
            found, least_us = other, time_us
    return Choice(found, reasons)


def choose_reduction(nest: NestShape, machine: MachineModel) -> Choice:
    """Return what the rules propose, with non-temporal stores of whole rows where they are predicted to take less."""
    proposed = choose_reduction_schedule(nest, machine)
    cached = proposed.schedule
    name, size = nest.innermost
    if cached.row_bytes is None or name in dict(cached.tiles) or size % (cached.lanes or size + 1) != 0:
        return proposed
    model, streamed = Model(nest, machine), change(cached, stream=True)
    cached_us, streamed_us = (model.predict(schedule).time_us for schedule in (cached, streamed))
    is_separate = any(each.separate for each in cached.prefetches())
    least = fixed.LEAST_GAIN_OF_FISSIONED_STORES if is_separate else fixed.LEAST_GAIN_OF_STORES
    if streamed_us * least >= cached_us:
        return proposed
    told = f"{_time(streamed_us)} predicted, {_time(cached_us)} with cached ones"
    return Choice(streamed, (*proposed.reasons, f"sums are written with non-temporal stores: {told}"))


def gradient_candidates(nest: NestShape, machine: MachineModel) -> Iterator[Schedule]:
    """Yield every way to share the additions, and each with other stores or without prefetches."""
    ways = [way.schedule for way in gradient_ways(nest, machine)]
    yield from ways
    for way in ways:
        yield from (other for other, _ in _gradient_bodies(nest, way))


def _gradient_bodies(nest: NestShape, schedule: Schedule) -> Iterator[tuple[Schedule, str]]:
    """Yield a schedule with other stores, or without prefetches, and what it has then."""
    if not (value(schedule, "grouped") or value(schedule, "fuse_owned")) and clears_in_vectors(nest):
        yield change(schedule, stream=True), "zeros are written with non-temporal stores"
    if schedule.prefetches("rows"):
        yield change(schedule, prefetch=schedule.prefetches("slices", "tile")), "rows are not prefetched"
