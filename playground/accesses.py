"""The accesses of a small instance of a plan: the source, the tile and the thread of each element."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.arg_spec import ArgSpec

from ..ir.array_spec import ArraySpec
from ..ir.canonical import CanonicalGather
from ..ir.errors import InvalidGatherError, ScheduleError
from ..ir.interpreters.recorder import Access, record_accesses
from ..ir.loop_name import LoopName
from ..ir.modules.context import parse_module
from ..ir.operator_spec import GatherElements
from ..ir.problem import Problem
from ..ir.semantics import Bounds
from ..kernels.runtime.array_checks import index_array
from ..kernels.runtime.compile import module_of, run_stages
from ..kernels.runtime.layout import Layout
from ..kernels.runtime.plan import Plan, row_bytes
from ..kernels.tuning.sample_arrays import strided_array
from ..lowering.pipeline import Stage, run_pipeline
from ..lowering.schedule.machine_model import LINE_BYTES
from ..lowering.schedule.schedule import parse_specs
from .check import sources_of
from .trace import loop_names, thread_of

# Tiles of a loop and owners of an axis that a small instance has at most.
MOST_TILES = 4
# The sizes of dimensions in a small problem, tried in turn; the size of an indexed axis where that is not too large;
# and how many elements its slices have at most.
SIZES, SHORTEST_AXIS, MOST_SLICES = (96, 48, 24, 12, 8, 6, 4, 3, 2), 12, 384
# Passes that change how elements are moved, not by which thread or in which tile; small tiles are too small for them.
_LEFT_OUT = ("vectorize-inner", "gather-lanes", "unroll", "prefetch", "stream-stores")


@dataclass(frozen=True, slots=True)
class SmallInstance:
    """A problem to draw, with its pipeline.

    Attributes:
        problem: the problem, of sizes that can be drawn.
        pipelines: the passes from operator to loops; the first that is legal is meant.
        notes: the sizes that are smaller than in the plan, a sentence each.
    """

    problem: Problem
    pipelines: tuple[str, ...]
    notes: tuple[str, ...]

    def stages(self) -> list[Stage]:
        """Return every stage by the first pipeline that is legal; raises ScheduleError where none is."""
        *others, last = self.pipelines
        for pipeline in others:
            with suppress(ScheduleError):
                return run_pipeline(module_of(self.problem), pipeline)
        return run_pipeline(module_of(self.problem), last)


def small_instance(plan: Plan) -> SmallInstance:
    """Return a small instance of a plan: its operator, its loops and about its number of tiles.

    Sizes of 1 stay, and no other size becomes 1, so that the nest has the same loops.
    """
    problem = _small_problem(plan.problem)
    large, small = plan.layout.canonical, Layout.of(problem).canonical
    specs = parse_specs(plan.pipeline)
    sizes = _Sizes(_shape(large), _shape(small))
    own = row_bytes(small, Layout.of(problem).width_bytes)
    changed = [_smaller(spec, sizes, own) for spec in specs]
    notes = []
    if problem != plan.problem:
        notes.append(f"a smaller gather: data {problem.table} by indices {problem.indices}")
    notes += sizes.notes
    if plan.edits:
        notes.append("the stages that were edited by hand are left out here")
    kept = [spec for spec in changed if spec.name not in _LEFT_OUT]
    pipelines = [",".join(str(spec).replace('"', "") for spec in each) for each in (kept, changed)]
    return SmallInstance(problem, tuple(dict.fromkeys(pipelines)), tuple(notes))


class _Sizes:
    """The trip counts of loops, in the plan and in the small instance; tiling adds loops."""

    def __init__(self, large: dict[str, int], small: dict[str, int]):
        self.large, self.small, self.notes = large, small, []

    def tile(self, loop: str, size: int) -> int:
        """Return the size of the tiles of a loop in the small instance."""
        name = LoopName(loop.removeprefix(f"{LoopName(loop).nest}_"))
        large, small = self.large.get(name), self.small.get(name)
        if large is None or small is None:
            return size
        tiles = min(math.ceil(large / size), MOST_TILES)
        chosen = size if large == small else max(math.ceil(small / max(tiles, 1)), 1)
        self.large |= {name.outer_tile: math.ceil(large / size), name.inner_tile: size}
        self.small |= {name.outer_tile: math.ceil(small / chosen), name.inner_tile: chosen}
        if chosen != size and not LoopName(loop).nest:
            here = f"{chosen} iteration{'s' * (chosen != 1)}"
            self.notes.append(f"tiles of {loop} have {here} here, and {size} in the gather")
        return chosen


def _smaller(spec: ArgSpec, sizes: _Sizes, own_bytes: int | None) -> ArgSpec:
    """Return a pass with options for the small instance."""
    options: dict[str, Any] = dict(spec.parameters)
    if spec.name == "tile-loops":
        options["sizes"] = tuple(
            sizes.tile(str(loop), size) for loop, size in zip(options["loops"], options["sizes"], strict=False)
        )
    elif spec.name == "specialize-inner" and own_bytes is not None:
        options["bytes"] = (own_bytes,)
    elif spec.name == "bound-inner" and own_bytes is not None:
        options["least"] = (min(options["least"][0], own_bytes),)
    elif spec.name == "owner-computes":
        owners = min(options["owners"][0], MOST_TILES)
        if owners != options["owners"][0]:
            sizes.notes.append(f"the axis has {owners} owners here, and {options['owners'][0]} in the gather")
        options["owners"] = (owners,)
    return ArgSpec(spec.name, options)


def _shape(canonical: CanonicalGather) -> dict[str, int]:
    """Return the trip counts of loops by name: of the loops that copy, and of the loops over data."""
    return {
        str(dim): size
        for operand in (canonical.data, canonical.out)
        for dim, size in zip(operand.dims, operand.shape, strict=True)
    }


def _small_problem(problem: Problem) -> Problem:
    """Return a problem with the same operator and few elements, of the largest sizes in `SIZES` that are few enough.

    Rows have some lines. An indexed axis stays longer than the other dimensions, so that indices skip some of it.
    """
    operator, table, indices = problem.operator, problem.table, problem.indices
    row = max(4, min(32, 2 * LINE_BYTES // max(table.dtype.itemsize, 1)))
    has_rows = table.rank - 1 not in problem.axes and not isinstance(operator, GatherElements)
    small = problem
    for size, axis in [(cap, axis) for cap in SIZES for axis in (max(cap, SHORTEST_AXIS), cap)]:
        caps = [axis if dim in problem.axes else size for dim in range(table.rank)]
        caps[-1:] = [row if has_rows else cap for cap in caps[-1:]]
        small_table = _smaller_spec(table, [min(pair) for pair in zip(table.shape, caps, strict=True)])
        shape = [min(count, size) for count in indices.shape]
        if operator.name == "gather_nd" and shape:
            shape[-1] = indices.shape[-1]  # an index is a tuple
        small_indices = _smaller_spec(indices, shape)
        slices = _smaller_spec(problem.slices, operator.result_shape(small_table.shape, small_indices.shape))
        rest = problem.version, problem.gradient, problem.node
        small = Problem.checked(operator, small_table, small_indices, problem.bounds, slices, *rest)
        if _slices(small).size <= MOST_SLICES and small_table.size <= MOST_ELEMENTS:
            break
    return replace(small, is_fresh=problem.is_fresh)


def _smaller_spec(spec: ArraySpec, shape: Sequence[int]) -> ArraySpec:
    """Return the spec of a smaller array, its dimensions in the same order in memory, with gaps where there were."""
    if spec.is_contiguous or spec.rank != len(shape) or 0 in shape:
        return ArraySpec(shape, spec.dtype)
    itemsize = max(spec.dtype.itemsize, 1)
    strides = [0] * spec.rank
    order = sorted(range(spec.rank), key=lambda dim: abs(spec.strides[dim]))
    end = large_end = itemsize
    for dim in order:
        stride = abs(spec.strides[dim])
        gap = min(stride, 4 * itemsize) if end == itemsize else end + (itemsize if stride > large_end else 0)
        strides[dim] = 0 if stride == 0 else gap if spec.strides[dim] > 0 else -gap
        if stride and spec.shape[dim] > 1:
            end, large_end = gap * shape[dim], stride * spec.shape[dim]
    return ArraySpec(shape, spec.dtype, strides)


def spread_indices(problem: Problem) -> np.ndarray:
    """Return indices that lie all over the axis, the same on every machine; with bounds="zero" the last is outside."""
    limits = [min(size, int(np.iinfo(problem.indices.dtype).max) + 1) for size in problem.axis_sizes]
    count = math.prod(problem.indices.shape)
    values = [
        ((number + 1) * 2654435761 % 2**32 * limits[number % len(limits)]) >> 32 for number in range(count)
    ]  # Knuth's multiplicative hash
    if problem.bounds is Bounds.ZERO and count and limits[-1] <= int(np.iinfo(problem.indices.dtype).max):
        values[-1] = limits[-1]
    return np.array(values, np.int64).astype(problem.indices.dtype).reshape(problem.indices.shape)


# Elements that are interpreted at most: some 20 operations each, of 10 µs.
MOST_ELEMENTS = 4096

Tile = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ElementAccess:
    """An element of the slices, and the element of the table that it is read from or, of a gradient, added to.

    A reduction sums its slices, one for each index of a bag.

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
        problem: the gather that was interpreted.
        elements: the elements of the slices, in the order of their positions.
        line_count: the lines that the table lies in, from a line's first byte on.
        threads: how many threads there are; each has a range of the iterations of the parallel loop.
        notes: the differences from the gather of the plan, a sentence each.
    """

    problem: Problem
    elements: tuple[ElementAccess, ...]
    line_count: int
    threads: int
    notes: tuple[str, ...]

    @property
    def slices(self) -> ArraySpec:
        """The slices: the result of a gather, grad of a gradient, and the rows that a reduction sums."""
        return _slices(self.problem)


def accesses_of(plan: Plan, indices: np.ndarray | None = None, *, threads: int = 4) -> Accesses:
    """Return the accesses of each element of a plan's gather, or of a small one like it.

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
    for number, place in enumerate(sources_of(problem, given).reshape(-1).tolist()):
        source = None if place < 0 else tuple(map(int, np.unravel_index(place, problem.table.shape)))
        lines = () if place < 0 else _lines(starts[place] - lowest, problem.table.dtype.itemsize)
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
    found = record_accesses(module, data, indices, out)
    if problem.gradient is None:
        return [access for access in found if access.array == "out" and access.is_store]
    return [access for access in found if access.array == "data" and not access.is_store]


def _offsets(spec: ArraySpec) -> list[int]:
    """Return the bytes from the first element of an array to each of its elements."""
    return [sum(map(int.__mul__, position, spec.strides)) for position in np.ndindex(*spec.shape)]


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
