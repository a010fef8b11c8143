"""What each element of a small gather reads, in which tile and by which thread: by interpreting its loops."""

import math
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp

from ...ir import reference
from ...ir.array_spec import ArraySpec
from ...ir.errors import InvalidGatherError
from ...ir.interpreters.recorder import Access, record_accesses
from ...ir.loop_name import LoopName
from ...ir.modules.context import parse_module
from ...ir.operator_spec import Gather
from ...ir.problem import Problem
from ...lowering.drawings.nest_boxes import loop_names
from ...lowering.schedule.machine_model import LINE_BYTES
from ..runtime.array_checks import index_array
from ..runtime.compile import run_stages
from ..runtime.plan import Plan
from ..stepping.thread_share import thread_of
from ..tuning.sample_arrays import strided_array
from .small_instance import SmallInstance, small_instance, spread_indices

# Elements that are interpreted at most: some 20 operations each, of 10 µs.
MOST_ELEMENTS = 4096

Tile = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ElementAccess:
    """An element of the slices, and the element of the table that it is read from or, of a gradient, added to.

    The slices of a reduction are those that it sums, one for each index of a bag.

    Attributes:
        position: of the element in the slices.
        source: the position in the table; None for a zero.
        lines: the numbers of the 64-byte lines that hold that element; none for a zero.
        tile: the loops around the access that are parallel or run over tiles, with their induction variables.
        thread: which thread runs it, if none takes tiles from another; None where nothing wrote the element.
    """

    position: tuple[int, ...]
    source: tuple[int, ...] | None
    lines: tuple[int, ...]
    tile: Tile = ()
    thread: int | None = None


@dataclass(frozen=True, slots=True)
class Accesses:
    """The accesses of a small gather.

    Attributes:
        problem: the gather that was interpreted, of all of these sizes.
        elements: those of the slices, in the order of their positions.
        line_count: the lines that the table lies in, from a line's first byte on.
        threads: how many threads there are; each has a range of the iterations of the parallel loop.
        notes: what differs from the gather of the plan, a sentence each.
    """

    problem: Problem
    elements: tuple[ElementAccess, ...]
    line_count: int
    threads: int
    notes: tuple[str, ...]

    @property
    def slices(self) -> ArraySpec:
        """The slices: what a gather gives, what a gradient reads, and what a reduction sums without storing it."""
        return _slices(self.problem)


def accesses_of(plan: Plan, indices: np.ndarray | None = None, *, threads: int = 4) -> Accesses:
    """Return what each element of a plan's gather, or of a small one like it, reads.

    Positions come from the plain reference; tiles and threads from interpreting the loops that the pipeline makes.

    Args:
        plan: the gather; with the indices omitted, a small instance of it is taken when it has many elements, with
            smaller tiles, and without vectors, unrolling, prefetches and non-temporal stores.
        indices: values, for a plan whose gather has few elements.
        threads: how many share the parallel loop.

    Raises:
        InvalidGatherError: indices are given and have another shape than the plan's, or the gather has many elements.
        IndexTypeError: they are no integers.
        BoundsError: an index is not valid.
        ScheduleError: the schedule is not legal for the small sizes.
    """
    if indices is None:
        instance = small_instance(plan)
        values = spread_indices(instance.problem)
    else:
        instance, values = SmallInstance(plan.problem, (plan.pipeline,), ()), index_array(indices)
        if values.shape != plan.problem.indices.shape:
            raise InvalidGatherError(f"expected indices of shape {plan.problem.indices.shape}, got {values.shape}")
    problem = instance.problem
    slices = _slices(problem)
    if slices.size > MOST_ELEMENTS:
        raise InvalidGatherError(
            f"a gather of {slices.size} elements is too large to interpret (at most {MOST_ELEMENTS}); "
            "give smaller arrays, or leave the indices out"
        )
    given = strided_array(problem.indices)
    given[...] = values
    if (given != values).any():
        raise InvalidGatherError(f"expected indices that {given.dtype} holds, got {values.min()} to {values.max()}")
    stages = instance.stages() if indices is None else run_stages(plan)
    recorded = _recorded(parse_module(stages[-1].text), problem, given)
    offsets = {offset: number for number, offset in enumerate(_offsets(problem.slices))}
    found = {offsets[access.offset_bytes]: access for access in recorded if access.offset_bytes in offsets}
    starts = _offsets(problem.table)
    lowest = min(starts, default=0)
    elements: list[ElementAccess] = []
    for number, place in enumerate(_sources(problem, given)):
        source = None if place is None else tuple(map(int, np.unravel_index(place, problem.table.shape)))
        lines = () if place is None else _lines(starts[place] - lowest, problem.table.dtype.itemsize)
        position = tuple(map(int, np.unravel_index(number, slices.shape)))
        access = found.get(_written_by(problem, position, number))
        thread = None if access is None else thread_of(access.iteration, access.iterations, threads)
        elements.append(ElementAccess(position, source, lines, () if access is None else _tile(access), thread))
    last = max(starts, default=0) - lowest + problem.table.dtype.itemsize
    return Accesses(problem, tuple(elements), math.ceil(last / LINE_BYTES), threads, instance.notes)


def _slices(problem: Problem) -> ArraySpec:
    if not problem.reduces:
        return problem.slices
    return ArraySpec((*problem.indices.shape, *problem.table.shape[1:]), problem.table.dtype)


def _written_by(problem: Problem, position: tuple[int, ...], number: int) -> int:
    """Return the number of the element of `problem.slices` that an element of the slices is, or is summed to."""
    if not problem.reduces:
        return number
    bag = problem.indices.rank - 1
    return int(np.ravel_multi_index((*position[:bag], *position[bag + 1 :]), problem.slices.shape))


def _recorded(module: ModuleOp, problem: Problem, indices: np.ndarray) -> list[Access]:
    """Return the stores of loops to the result or, of a gradient, their loads of the slices."""
    data, out = strided_array(problem.source), strided_array(problem.result)
    of = "out" if problem.gradient is None else "data"
    return record_accesses(module, data, indices, out, of=of)


def _offsets(spec: ArraySpec) -> list[int]:
    """Return the bytes from the first element of an array to each of its elements."""
    return [sum(map(int.__mul__, position, spec.strides)) for position in np.ndindex(*spec.shape)]


def _sources(problem: Problem, indices: np.ndarray) -> list[int | None]:
    """Return the number of the element of the table for each element of the slices; None for a zero."""
    numbers = np.arange(1, problem.table.size + 1).reshape(problem.table.shape)
    operator = Gather() if problem.reduces else problem.operator
    read = reference.run(operator, numbers, indices, problem.bounds).reshape(-1)
    return [int(number) - 1 if number else None for number in read]


def _lines(offset_bytes: int, itemsize: int) -> tuple[int, ...]:
    return tuple(range(offset_bytes // LINE_BYTES, (offset_bytes + max(itemsize, 1) - 1) // LINE_BYTES + 1))


def _tile(access: Access) -> Tile:
    """Return the loops around an access that share or tile the work, with their induction variables."""
    return tuple(
        (name, value)
        for op, values in access.loops
        for name, value in zip(loop_names(op), values, strict=False)
        if isinstance(op, scf.ParallelOp) or LoopName(name).is_outer_tile or name == "owners"
    )
