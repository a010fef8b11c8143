"""Smaller forms of what shows a defect: of its sizes, its passes and its indices."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.passes import ModulePass

from ...ir.errors import GathernestError
from ...ir.problem import Problem
from ...lowering.schedule.steps import STEPS

MOST_INDICES = 64


def smaller_problems(problem: Problem) -> Iterator[Problem]:
    """Yield the problem with one dimension smaller, or with two of one size where both must be."""
    table, indices = problem.table.shape, problem.indices.shape
    places = [*((0, dim) for dim in range(len(table))), *((1, dim) for dim in range(len(indices)))]
    pairs = [[place] for place in places]
    pairs += [
        [(0, dim), (1, other)] for dim, size in enumerate(table) for other, same in enumerate(indices) if same == size
    ]
    for pair in pairs:
        size = (table, indices)[pair[0][0]][pair[0][1]]
        for smaller in dict.fromkeys((1, size // 2, size - 1)):
            shapes = [list(table), list(indices)]
            for array, dim in pair:
                shapes[array][dim] = smaller
            if 0 < smaller < size:
                try:
                    yield problem.resized(tuple(shapes[0]), tuple(shapes[1]))
                except GathernestError:
                    continue


def fewer_passes(passes: Sequence[ModulePass]) -> Iterator[list[ModulePass]]:
    """Yield the passes without one of the schedule, the last of all excepted, and with smaller numbers in options."""
    for place, step in enumerate(passes):
        if place < len(passes) - 1 and step.name in STEPS:
            yield [*passes[:place], *passes[place + 1 :]]
    for place, step in enumerate(passes):
        for smaller in _smaller_options(step):
            yield [*passes[:place], smaller, *passes[place + 1 :]]


def _smaller_options(step: ModulePass) -> Iterator[ModulePass]:
    for field in dataclasses.fields(step):
        value: Any = getattr(step, field.name)
        numbers = value if isinstance(value, tuple) else (value,)
        for place, number in enumerate(numbers):
            if type(number) is int and number > 2:
                half = (*numbers[:place], number // 2, *numbers[place + 1 :])
                yield dataclasses.replace(step, **{field.name: half if isinstance(value, tuple) else half[0]})


def simpler_indices(indices: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the indices with one of them 0, or nearer to it; nothing of more than `MOST_INDICES`."""
    for place in range(indices.size if indices.size <= MOST_INDICES else 0):
        number = int(indices.flat[place])
        for simpler in dict.fromkeys((0, int(number / 2))):
            if simpler != number:
                changed = indices.copy()
                changed.flat[place] = simpler
                yield changed
