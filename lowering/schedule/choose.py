"""The choice of a schedule: what the rules propose, or a variation of it that takes clearly less predicted time.

The terms of a prediction are sums over steps, so the choice takes one kind of step after the other. Plain Python.
"""

from collections.abc import Iterator
from operator import itemgetter

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .gather_heuristic import least_streamed_bytes
from .gradient_heuristic import choose_reduction_schedule, clears_in_vectors, gradient_ways
from .machine_model import GATHERED_BYTES, MachineModel
from .predict import Model
from .prefetch_heuristic import prefetches_ahead
from .schedule import Choice, Schedule
from .shape import NestShape
from .steps import FuseIntoOwners, GatherLanes, GroupIndices, Prefetch, StreamStores


def choose_candidate(nest: NestShape, machine: MachineModel, proposed: Choice) -> Choice:
    """Return the candidate with the least predicted time, with reasons.

    Prefetches, then stores differ from what the rules propose where the prediction for others is clearly less. Lanes
    are gathered where loads may be far slower: the values of the indices are not known.
    """
    found = proposed.schedule
    model, reasons = Model(nest, machine), list[str]()
    least_us = model.predict(found).time_us
    for describe, vary, gain in (
        (_tell_prefetches, _other_prefetches, fixed.LEAST_PREDICTED_GAIN),
        (_tell_stores, _other_stores, fixed.LEAST_GAIN_OF_STORES),
    ):
        # where memory is the limit, many take as long but for how the terms round: the first of them counts
        others = [(round(model.predict(other).time_us, 3), other) for other in vary(nest, machine, found)]
        if not others:
            continue
        time_us, other = min(others, key=itemgetter(0))
        if found.has(Prefetch) and not other.has(Prefetch):
            gain = fixed.LEAST_GAIN_OF_NO_PREFETCH
        if time_us * gain <= least_us:
            told = f"{_time(time_us)} predicted, {_time(least_us)} with {describe(found)}"
            reasons.append(f"but {describe(other)}: {told}")
            found, least_us = other, time_us
        elif time_us >= fixed.LEAST_GAIN_OF_STORES * least_us:
            told = f"{_time(least_us)} predicted, {_time(time_us)} with {describe(other)}"
            reasons.append(f"{describe(found)}: {told}")
    found, why = _gathered(nest, machine, model, found)
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
    is_ahead |= not loaded.prefetches() and nest.span_bytes > machine.l2_bytes
    is_loaded = (
        loaded.lanes is not None and not nest.is_row and not loaded.has(GatherLanes) and loaded.row_bytes is None
    )
    if not (is_loaded and is_ahead and has_one_axis and nest.width_bytes in GATHERED_BYTES):
        return loaded, ()
    gathered = loaded.put(GatherLanes())
    at_random, ascending = (
        model.predict(gathered, ascending=order).time_us / model.predict(loaded, ascending=order).time_us
        for order in (False, True)
    )
    worst_of_gathers, worst_of_loads = max(at_random, ascending, 1.0), max(1 / at_random, 1 / ascending, 1.0)
    if worst_of_loads < fixed.LEAST_PREDICTED_GAIN * worst_of_gathers:
        return loaded, ()
    orders = f"{at_random:.2f} times as long for random indices, {ascending:.2f} times for ascending ones"
    return gathered, (f"but lanes are loaded by gather instructions: predicted to take {orders}",)


def _other_prefetches(nest: NestShape, machine: MachineModel, rules: Schedule) -> list[Schedule]:
    """Return a schedule without its prefetches; and with others, unless it has those into both caches already."""
    found = rules.prefetches()
    others = [] if len(found) > 1 else prefetches_ahead(nest, machine, rules)
    return [rules.with_prefetches(each) for each in ((), *others) if each != found]


def _other_stores(nest: NestShape, machine: MachineModel, rules: Schedule) -> list[Schedule]:
    """Return a schedule with the other kind of stores, where non-temporal ones are worth a thought."""
    (_, size), lanes = nest.innermost, rules.lanes
    if lanes is None:
        return []
    if rules.has(StreamStores):
        return [rules.without(StreamStores)]
    is_odd, is_known = size % lanes != 0, rules.row_bytes is not None
    least = least_streamed_bytes(nest, lanes, overlaps=is_known and is_odd, is_known=is_known and not nest.is_row)
    is_long = nest.run_bytes >= least and nest.out_bytes >= machine.l3_room_bytes  # a smaller result is read from there
    return [rules.put(StreamStores())] if is_long else []


def _tell_prefetches(schedule: Schedule) -> str:
    distances = " and ".join(str(prefetch.ahead) for prefetch in schedule.prefetches())
    return f"prefetches {distances} steps ahead" if distances else "no prefetch"


def _tell_stores(schedule: Schedule) -> str:
    how, lanes = "non-temporal" if schedule.has(StreamStores) else "cached", schedule.lanes or 1
    return f"{how} stores of {lanes} element{'s' if lanes > 1 else ''}"


def _time(time_us: float) -> str:
    return f"{time_us / 1000:.2f} ms" if time_us >= 1000 else f"{time_us:.3g} µs"


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
    """Return the proposal of the rules, with non-temporal stores of whole rows where these are predicted to gain."""
    proposed = choose_reduction_schedule(nest, machine)
    cached = proposed.schedule
    name, size = nest.innermost
    if cached.row_bytes is None or name in dict(cached.tiles) or size % (cached.lanes or size + 1) != 0:
        return proposed
    model, streamed = Model(nest, machine), cached.put(StreamStores())
    cached_us, streamed_us = (model.predict(schedule).time_us for schedule in (cached, streamed))
    is_separate = any(each.separate for each in cached.prefetches())
    least = fixed.LEAST_GAIN_OF_FISSIONED_STORES if is_separate else fixed.LEAST_GAIN_OF_STORES
    if streamed_us * least >= cached_us:
        return proposed
    told = f"{_time(streamed_us)} predicted, {_time(cached_us)} with cached ones"
    return Choice(streamed, (*proposed.reasons, f"sums are written with non-temporal stores: {told}"))


def _gradient_bodies(nest: NestShape, schedule: Schedule) -> Iterator[tuple[Schedule, str]]:
    """Yield a schedule with other stores, or without prefetches, and what it has then."""
    if not (schedule.has(GroupIndices) or schedule.has(FuseIntoOwners)) and clears_in_vectors(nest):
        yield schedule.put(StreamStores()), "zeros are written with non-temporal stores"
    if schedule.prefetches("rows"):
        yield schedule.with_prefetches(schedule.prefetches("slices", "tile")), "rows are not prefetched"
