"""What is said of an element before its steps: its value, the operator's rule, addresses, tile and thread."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.errors import GathernestError
from ...ir.problem import Problem
from .arrays import ROLES
from .rule import rule_of, said
from .steps import Access, Shape, Step
from .thread_share import said_of_thread

# Places that are written out; of more, the first ones and the last are.
MOST_PLACES = 6


def remarks(
    problem: Problem,
    indices: np.ndarray,
    position: Shape,
    steps: Sequence[Step],
    value: Any,
    expected: Any,
    error: GathernestError | None,
    *,
    is_right: bool,
    undefined: bool,
    threads: int,
) -> tuple[str, ...]:
    """Return the lines: each says one thing in plain words; `threads` share parallel loops."""
    return (
        *_outcome(position, value, expected, error, is_right=is_right, undefined=undefined),
        *_rule(problem, indices, position, steps),
        *_addresses(steps),
        *_tiles(steps, threads),
    )


def _outcome(
    position: Shape, value: Any, expected: Any, error: GathernestError | None, *, is_right: bool, undefined: bool
) -> list[str]:
    where = f"element {list(position)}"
    if error is not None:
        lines = [f"{where}: the call fails: {error}"]
    elif value is None:
        lines = [f"{where}: the stage stores nothing there"]
    else:
        lines = [f"{where} = {value}"]
    if undefined:
        lines.append("an index is outside, which bounds unchecked leaves undefined")
    elif not is_right:
        wanted = "rejects the call" if expected is None else f"gives {expected}"
        lines.append(f"the stage is wrong here: the operator's reference {wanted}")
    return lines


def _rule(problem: Problem, indices: np.ndarray, position: Shape, steps: Sequence[Step]) -> list[str]:
    if problem.adds:
        source = "data" if problem.gradient is None else "grad"
        read = [str(access) for one in steps for access in one.accesses if access.array == source]
        read = read if problem.reduces else list(dict.fromkeys(read))  # a bag may have an index twice
        shown = ", ".join(read if len(read) <= MOST_PLACES else [*read[: MOST_PLACES - 1], "...", read[-1]])
        return [f"contributions: {len(read)}{f', in this order: {shown}' if read else ''}"]
    rule = rule_of(problem.operator, problem.table.shape, indices, problem.bounds, position)
    outcome = "" if rule.source is None else f"; out{list(position)} = data{list(rule.source)}"
    return [f"rule: {said(rule, problem.bounds)}{outcome}"]


def _addresses(steps: Sequence[Step]) -> list[str]:
    """Return where the arrays are read and written for the element, each place once."""
    found: dict[str, Access] = {}
    for one in steps:
        for access in one.accesses:
            if access.array in ROLES:
                found.setdefault(str(access), access)
    places = [f"{name} byte {access.byte}, cache line {access.cache_line}" for name, access in found.items()]
    if len(places) > MOST_PLACES:
        places = [*places[: MOST_PLACES - 1], f"{len(places) - MOST_PLACES} more", places[-1]]
    return [f"addresses: {'; '.join(places)}"] if places else []


def _tiles(steps: Sequence[Step], threads: int) -> list[str]:
    """Return the tile and the thread of a team that stored the element last."""
    trips = next((one.trips for one in reversed(steps) if any(access.is_store for access in one.accesses)), ())
    if not trips:
        return []
    tiles = [f"{trip.number + 1} of {trip.count} of {trip.loop}" for trip in trips if trip.is_tile]
    parallel = [trip for trip in trips if trip.is_parallel]
    thread = "thread: the calling one, since no loop is parallel"
    if parallel:
        named = ", ".join(f"{trip.loop} {trip.number + 1} of {trip.count}" for trip in parallel)
        thread = f"thread: {said_of_thread(parallel, threads)}; this is {named}"
    return [*([f"tile: {', '.join(tiles)}"] if tiles else []), thread]
