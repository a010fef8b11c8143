"""The caches in a run of a stage: which lines each array and loop fetches, finds again and loses.

The interpreter's accesses of the arrays go, in order and by one thread, through a first, a second and a last cache.
Each is fully associative, keeps the lines that were used last, and is empty at first; lines are counted from the first
byte of each array. A non-temporal store goes past all of them. Buffers of the function are left out: they are small.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp

from ..ir.dialects.types import numpy_dtype
from ..ir.dialects.upstream import is_nontemporal
from ..ir.errors import GathernestError, InvalidGatherError
from ..ir.interpreters.argument_views import index_argument, unwritten
from ..ir.interpreters.recorder import Access, record_accesses
from ..ir.modules.context import parse_module
from ..ir.modules.pseudocode import has_loops
from ..ir.problem import Problem
from ..kernels.host.machine import machine_model
from ..kernels.machine.traffic import fewest_bytes
from ..kernels.runtime.plan import Plan
from ..kernels.tuning.sample_arrays import strided_array
from ..lowering.schedule.machine_model import LINE_BYTES
from .accesses import small_instance, spread_indices
from .trace import aligned, loop_names

LEVELS = ("L1", "L2", "last")
EXPLANATION = "of each cache the lines that are fetched/reused/evicted, in a simulation of one thread"
# The fewest lines that a cache of a small gather has: a row, its indices and its result have to fit.
MIN_LINES = (4, 8, 16)


@dataclass(frozen=True, slots=True)
class LineCounts:
    """The lines of an array that the operations directly in a loop touch.

    Attributes:
        array: `data` (of a gradient, `grad`), `indices` or `out`.
        loop: the name of the loop; empty outside of all loops.
        accesses: loads, stores and prefetches.
        distinct: different lines, which a cache of any size fetches once.
        fetched, reused: for each level, how often a line was not there, and was.
        evicted: for each level, how many lines that the loop fetched had to go for others.
        streamed: non-temporal stores.
    """

    array: str
    loop: str
    accesses: int
    distinct: int
    fetched: tuple[int, ...]
    reused: tuple[int, ...]
    evicted: tuple[int, ...]
    streamed: int = 0


@dataclass(frozen=True, slots=True)
class Caches:
    """The counts of a run.

    Attributes:
        gather: the gather in a line.
        capacities: the lines that each cache has room for, in the order of `LEVELS`.
        counts: by array and loop, in the order of their first access.
        predicted: the fewest lines of each stream, by which the roofline bound is computed.
    """

    gather: str
    capacities: tuple[int, ...]
    counts: tuple[LineCounts, ...]
    predicted: tuple[tuple[str, int], ...]

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table, its heading first; of each level the lines that are fetched, reused and evicted."""
        caches = [f"{level}, {room:,} lines" for level, room in zip(LEVELS, self.capacities, strict=True)]
        rows: list[tuple[str, ...]] = [("array", "loop", "accesses", "lines", *caches, "streamed")]
        for each in self.counts:
            levels = zip(each.fetched, each.reused, each.evicted, strict=True)
            numbers = each.accesses, each.distinct, *("/".join(map(str, level)) for level in levels), each.streamed
            rows.append((each.array, each.loop or "-", *map(str, numbers)))
        return rows

    def head(self) -> str:
        """Return the line before the table, and the prediction."""
        predicted = ", ".join(f"{name} {lines:,}" for name, lines in self.predicted)
        return f"{self.gather}\n{EXPLANATION}\npredicted, in lines: {predicted}"

    def __str__(self) -> str:
        return "\n".join([self.head(), *aligned(self.rows(), str.rjust)])

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON can hold them."""
        return asdict(self)


def simulate_caches(
    module: ModuleOp, problem: Problem, data: np.ndarray, indices: np.ndarray, capacities: Sequence[int] | None = None
) -> Caches:
    """Return the lines that a run of a stage at the level of nests or loops fetches, finds again and loses.

    Args:
        module, problem, data, indices: the stage and its gather; of a gradient, data is grad.
        capacities: the lines of the caches; the machine model's caches when omitted.

    Raises:
        InvalidGatherError: the stage has no loops.
        BoundsError, InternalError: as `interpret` does.
    """
    if not has_loops(module):
        raise InvalidGatherError("the stage has no loops yet; run it through passes first: -p nest")
    model, out = machine_model(), unwritten(problem.result.shape, problem.result.dtype)
    given = index_argument(module, indices)
    found = record_accesses(module, data, given, out)
    room = tuple(capacities or (size // LINE_BYTES for size in (model.l1_bytes, model.l2_bytes, model.l3_bytes)))
    counts = _count(found, room)
    predicted = tuple((name, math.ceil(count / LINE_BYTES)) for name, count in fewest_bytes(problem, indices).streams)
    gather = f"{problem.name} {problem.source} by {problem.indices}, {problem.options}"
    lines = []
    for (array, loop), count in counts.items():
        fetched, reused, evicted = (
            tuple(count[event, level] for level in range(len(room))) for event in ("fetched", "reused", "evicted")
        )
        distinct = sum(key[0] == array for key in count if isinstance(key, tuple))
        name = "grad" if array == "data" and problem.gradient is not None else array
        lines.append(LineCounts(name, loop, count["accesses"], distinct, fetched, reused, evicted, count["streamed"]))
    return Caches(gather, room, tuple(lines), predicted)


def _count(accesses: Sequence[Access], room: Sequence[int]) -> dict[tuple[str, str], Counter]:
    """Return by array and loop how often each thing happened: a word and the number of the level, or the line."""
    # Of each line the array and the loop that fetched it, the line that was used last behind the others.
    caches = [OrderedDict[tuple[str, int], tuple[str, str]]() for _ in room]
    counts: dict[tuple[str, str], Counter] = {}
    for access in accesses:
        loop = ",".join(loop_names(access.loops[-1][0])) if access.loops else ""
        key = access.array, loop
        count = counts.setdefault(key, Counter())
        count["accesses"] += 1
        (memory,) = [each.type for each in access.op.operands if isinstance(each.type, MemRefType)]
        last_byte = access.offset_bytes + max(numpy_dtype(memory.element_type).itemsize, 1) - 1
        is_streamed = isinstance(access.op, memref.StoreOp | vector.StoreOp) and is_nontemporal(access.op)
        count["streamed"] += is_streamed
        for number in range(access.offset_bytes // LINE_BYTES, last_byte // LINE_BYTES + 1):
            line = access.array, number
            count[line] += 1
            for level, cache in enumerate(caches):
                if is_streamed:
                    cache.pop(line, None)
                    continue
                is_there = line in cache
                count["reused" if is_there else "fetched", level] += 1
                cache[line] = cache.get(line, key)
                cache.move_to_end(line)
                if is_there:
                    break
                if len(cache) > room[level]:
                    counts[cache.popitem(last=False)[1]]["evicted", level] += 1
    return counts


def caches_of(plan: Plan) -> Caches | None:
    """Return the counts of a small gather with a plan's loops, with caches that are smaller in the same proportion.

    None where no small gather is like it, or nothing of it runs.
    """
    if plan.action != "run":
        return None
    instance = small_instance(plan)
    problem = instance.problem
    large, small = (
        sum(max(spec.size * spec.dtype.itemsize, 1) for spec in (each.table, each.indices, each.slices))
        for each in (plan.problem, problem)
    )
    model = machine_model()
    sizes = model.l1_bytes, model.l2_bytes, model.l3_bytes
    room = [max(size * small // large // LINE_BYTES, least) for size, least in zip(sizes, MIN_LINES, strict=True)]
    data, indices = strided_array(problem.source), strided_array(problem.indices)
    indices[...] = spread_indices(problem)
    try:
        return simulate_caches(parse_module(instance.stages()[-1].text), problem, data, indices, room)
    except GathernestError:
        return None
