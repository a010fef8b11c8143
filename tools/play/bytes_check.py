"""Whether the bytes are right: the last stage, interpreted on small arrays and compared with the operator."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ...ir.errors import GathernestError, InvalidGatherError, ScheduleError
from ...ir.modules.context import make_context
from ...ir.problem import Problem
from ...kernels.playground.check_stage import check_stage
from ...kernels.playground.interpretable import samples_of
from ...kernels.runtime.compile import module_of
from ...kernels.runtime.plan import Plan
from ...lowering.pipeline import parse_passes, read_edits, run_passes

# Elements of data and the result that are interpreted in all: one takes some 30 microseconds.
MOST_ELEMENTS = 12_000
# Of a row: more than a vector of 8 lanes, and a remainder.
ROW = 11
# Of other dimensions; of those of the indices at least, and how many behind the border of a tile.
OTHER, LEAST_INDICES, BEHIND = 3, 7, 3


@dataclass(frozen=True, slots=True)
class BytesCheck:
    """What the check found.

    Attributes:
        difference: what differs; None where the bytes are equal, or nothing could be interpreted.
        tried: the gather that was interpreted last; None where none could be.
        cases: how many pairs of arrays were interpreted.
        crossed: whether its indices fill the largest tile.
    """

    difference: str | None
    tried: Problem | None
    cases: int = 0
    crossed: bool = True

    def __str__(self) -> str:
        if self.tried is None:
            return (
                "Nothing is interpreted, as no smaller arrays fit: the edited stage has large sizes in its text, "
                "or the axis is empty. The kernel's own bytes are compared below."
            )
        where = f"{self.tried.name} of {self.tried.source} by {self.tried.indices}"
        if self.difference is not None:
            return f"{where}: {self.difference}"
        note = "" if self.crossed else " No tile is full at these sizes."
        cases = "1 pair of arrays" if self.cases == 1 else f"{self.cases} pairs of arrays"
        return f"{where}: the bytes of the reference, for {cases} with indices at both ends and outside.{note}"


def check_bytes(plan: Plan) -> BytesCheck:
    """Interpret what a plan makes of a small gather, or of its own where it is small, and compare the bytes.

    An edited stage stands in the place of what the passes make, so it must not have the sizes in its text.
    """
    tile = max(_numbers(plan.pipeline), default=0)
    left = MOST_ELEMENTS
    for problem in _small(plan.problem, tile):
        size = problem.result.size + problem.source.size
        if size > left or 0 in problem.axis_sizes:
            continue
        try:
            module = _lowered(plan, problem)
        except (InvalidGatherError, ScheduleError):  # the passes are for other sizes
            continue
        cases = 0
        try:
            for data, indices in samples_of(problem):
                if cases and size > left:
                    break
                found = check_stage(module, problem, data, indices, "interpreter")
                cases, left = cases + 1, left - size
                if found is not None:
                    return BytesCheck(str(found), problem, cases)
        except InvalidGatherError:  # the edited stage is of other arrays
            continue
        return BytesCheck(None, problem, cases, crossed=problem.indices.size > tile)
    return BytesCheck(None, None)


def _lowered(plan: Plan, problem: Problem) -> ModuleOp:
    """Return the last stage of a plan for a problem of other sizes; what is edited stays as it is."""
    passes, context = parse_passes(plan.pipeline), make_context()
    edits = read_edits(plan.edits, passes, context)
    number, module = max(edits.items(), default=(0, None), key=lambda item: item[0])
    module = module_of(problem) if module is None else module
    run_passes(module, ",".join(map(str, passes[number:])), context)
    return module


def _numbers(pipeline: str) -> list[int]:
    """Return the sizes of the tiles over indices."""
    tiles = re.findall(r"tile-loops\{loops=([^ }]*) sizes=([^ }]*)", pipeline)
    pairs = [pair for loops, sizes in tiles for pair in zip(loops.split(","), sizes.split(","), strict=False)]
    return [int(size) for loop, size in pairs if "inner" not in loop and size.isdecimal()]


def _small(problem: Problem, tile: int) -> Iterator[Problem]:
    """Yield the problem where it is small, and then smaller forms of it, those that cross a tile first."""
    if problem.result.size + problem.source.size <= MOST_ELEMENTS // 4:
        yield problem
    table, indices = problem.table.shape, problem.indices.shape
    for many in dict.fromkeys((max(tile + BEHIND, LEAST_INDICES), LEAST_INDICES)):
        for row in dict.fromkeys((ROW, *table[-1:])):
            for other in (OTHER, many, row):
                shape = tuple(min(size, OTHER) for size in table[:-1]) + tuple(min(size, row) for size in table[-1:])
                last = tuple(min(size, other if at < len(indices) - 1 else many) for at, size in enumerate(indices))
                with contextlib.suppress(GathernestError):
                    yield problem.resized(shape, last)
        same = [tuple(min(size, many) for size in shape) for shape in (table, indices)]
        with contextlib.suppress(GathernestError):
            yield problem.resized(*same)
