"""Schedules by short names of their steps, for the modules that propose them. Plain Python."""

from typing import Any

from . import steps
from .schedule import Schedule

FIELDS: dict[str, type[steps.Step]] = {
    "specialize": steps.SpecializeInner,
    "row_range": steps.BoundInner,
    "grouped": steps.GroupIndices,
    "sort_parts": steps.ParallelizeSort,
    "owners": steps.OwnerComputes,
    "fuse_owned": steps.FuseIntoOwners,
    "tiles": steps.TileLoops,
    "order": steps.InterchangeLoops,
    "parallel": steps.ParallelizeLoops,
    "compact": steps.CompactIndices,
    "list_lanes": steps.VectorizeLists,
    "hoist": steps.HoistIndices,
    "lanes": steps.VectorizeInner,
    "gather": steps.GatherLanes,
    "unroll": steps.Unroll,
    "prefetch": steps.Prefetch,
    "stream": steps.StreamStores,
}


NAMES = {kind: name for name, kind in FIELDS.items()}
FLAGS, GROUPS = ("fuse_owned", "gather", "stream"), ("tiles", "order", "parallel", "prefetch")
NO_VALUES: dict[str, Any] = {name: False if name in FLAGS else () if name in GROUPS else None for name in FIELDS}


def make(tiles: Any = (), order: Any = (), parallel: Any = (), owners: Any = None, **fields: Any) -> Schedule:
    """Return the schedule that has these values; `FIELDS` has the steps in their order."""
    fields |= {"tiles": tiles, "order": order, "parallel": parallel, "owners": owners}
    return Schedule(step for name in FIELDS if name in fields for step in _steps(name, fields[name]))


def change(schedule: Schedule, **fields: Any) -> Schedule:
    """Return a schedule with other values for some names; a step goes where its value is None, False or empty."""
    kept = schedule.without(*(FIELDS[name] for name in fields))
    return kept.put(*(step for name, value in fields.items() for step in _steps(name, value)))


def value(schedule: Schedule, name: str) -> Any:
    """Return the value that a schedule has for a name, in the form that `change` takes."""
    if name == "prefetch":
        return schedule.prefetches()
    step = schedule.get(FIELDS[name])
    return NO_VALUES[name] if step is None else _value(name, step)


def values(schedule: Schedule) -> dict[str, Any]:
    """Return the values that a schedule has for all names."""
    found, prefetches = dict(NO_VALUES), list[steps.Prefetch]()
    for step in schedule:
        if isinstance(step, steps.Prefetch):
            prefetches.append(step)
        elif (name := NAMES.get(type(step))) is not None:
            found[name] = _value(name, step)
    found["prefetch"] = tuple(prefetches)
    return found


def _value(name: str, step: steps.Step) -> Any:
    if isinstance(step, steps.TileLoops):
        return tuple(zip(step.loops, step.sizes, strict=False))
    if isinstance(step, steps.OwnerComputes):
        return step.axis, step.owners
    options = tuple(getattr(step, option) for option in step.options)
    return True if name in FLAGS else options[0] if len(options) == 1 else options


def _steps(name: str, value: Any) -> tuple[steps.Step, ...]:
    if value is None or value is False or value == ():
        return ()
    if name == "prefetch":
        return value
    if name == "tiles":
        return (steps.TileLoops(tuple(loop for loop, _ in value), tuple(size for _, size in value)),)
    if name == "owners":
        return (steps.OwnerComputes(value[1], value[0]),)
    if name in ("unroll", "row_range"):
        return (FIELDS[name](*value),)
    return (FIELDS[name](*(() if value is True else (value,))),)
