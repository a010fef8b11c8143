"""The reference interpreter with records: the accesses to an array, and the operations that an element came from.

`record_accesses` keeps the loads, stores and prefetches of the arrays, and the loops around each.

`record` is a debugger: it lists the operations that one element of a result came from. It runs a whole module in order,
and keeps the events on which the watched element can depend: each knows the events that its operands came from, the
iteration that it ran in, and its loads and stores. `slice_of` then follows the last store to the element back; in
vectors it follows the lane that holds the element.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import Block, Operation, SSAValue

from ..dialects.gather_dialect import AccumulateOp, LoopOp
from ..dialects.upstream import FromElementsOp, PrefetchOp
from ..errors import GathernestError
from .interpreter import Machine, Step


@dataclass(frozen=True, slots=True)
class Access:
    """A load, a store or a prefetch of an element of an array; accesses to buffers are left out.

    Attributes:
        array: `data` (of a gradient, grad), `indices` or `out`.
        offset_bytes: from the first element of the array, as its strides count.
        op: the operation.
        is_store: whether the element is written.
        loops: the loops around it, outermost first, each with the values of its induction variables.
        iteration, iterations: the number of the iteration of the `scf.parallel` around it, whose last variable varies
            fastest, and the number of its iterations; 0 and 1 outside of such a loop.
    """

    array: Literal["data", "indices", "out"]
    offset_bytes: int
    op: Operation
    is_store: bool
    loops: tuple[tuple[Operation, tuple[int, ...]], ...]
    iteration: int = 0
    iterations: int = 1


def record_accesses(
    module: ModuleOp, data: np.ndarray, indices: np.ndarray | None, out: np.ndarray, *, seed: int | None = None
) -> list[Access]:
    """Run the function `@gather` of a module at the level of nests or loops, and return its accesses of arrays.

    Args:
        data, indices, out: as for `interpret`.
        seed: picks the order of parallel iterations; they run in order when it is None.

    Raises:
        BoundsError, InternalError: as `interpret` does.
    """
    arrays = {"data": data, "out": out} if indices is None else {"data": data, "indices": indices, "out": out}
    machine = _AccessRecorder(module, _InOrder() if seed is None else random.Random(seed), arrays)
    machine.run(data, indices, out)
    return machine.accesses


class _InOrder(random.Random):
    """Leaves the iterations of parallel loops in their order."""

    def shuffle(self, x: Any) -> None:
        pass


class _AccessRecorder(Machine):
    def __init__(self, module: ModuleOp, rng: random.Random, arrays: dict[Any, np.ndarray]):
        super().__init__(module, rng, None)
        self.arrays = [
            (name, array.ctypes.data, *np.lib.array_utils.byte_bounds(array)) for name, array in arrays.items()
        ]
        self.ops: list[Operation] = []
        self.accesses: list[Access] = []

    def run_op(self, step: Step, operands: list[Any]) -> tuple[Any, ...]:
        self.ops.append(step.op)
        results = super().run_op(step, operands)
        self.ops.pop()
        return results

    def load(self, memory: np.ndarray, subscripts: Sequence[int]) -> Any:
        value = super().load(memory, subscripts)
        self.note(memory, subscripts)
        return value

    def store(self, memory: np.ndarray, subscripts: Sequence[int], value: Any) -> None:
        super().store(memory, subscripts, value)
        self.note(memory, subscripts, is_store=True)

    def run_memref_prefetch(self, op: PrefetchOp, memory: np.ndarray, *subscripts: int) -> tuple[()]:
        self.note(memory, subscripts)
        return ()

    def note(self, memory: np.ndarray, subscripts: Sequence[int], *, is_store: bool = False) -> None:
        """Record an access where it is of an array."""
        address = _address(memory, subscripts)
        for name, start, first, last in self.arrays:
            if first <= address < last:
                share = self.loops(), *self.share()
                self.accesses.append(Access(name, address - start, self.ops[-1], is_store, *share))
                return

    def loops(self) -> tuple[tuple[Operation, tuple[int, ...]], ...]:
        """Return the loops that run, outermost first, with their induction variables."""
        found: list[tuple[Operation, tuple[int, ...]]] = []
        for block, values in self.around:
            op = block.parent_op()
            if isinstance(op, LoopOp | scf.ForOp):
                found.append((op, (int(values[0]),)))
            elif isinstance(op, scf.ParallelOp):
                found.append((op, tuple(map(int, values))))
        return tuple(found)

    def share(self) -> tuple[int, int]:
        """Return the number of the iteration of the parallel loop that runs, and the number of its iterations."""
        number, count = 0, 1
        for op, point in self.loops():
            if isinstance(op, scf.ParallelOp):
                bounds = zip(op.lowerBound, op.upperBound, op.step, point, strict=True)
                for lower, upper, step, value in bounds:
                    trips = range(*(self.values[id(bound)] for bound in (lower, upper, step)))
                    number, count = number * len(trips) + trips.index(value), count * len(trips)
                break
        return number, count


class Part(NamedTuple):
    """An event, or one lane of it where its operation has vectors."""

    event: "Event"
    lane: int | None = None


@dataclass(slots=True)
class Touch:
    """A load or a store of one element of memory.

    Attributes:
        place: the subscripts in the memory that the operation names.
        address: of the element.
        is_store: whether it changed the element.
        value: the value that was read or written.
        before: for a load from the watched element or from a buffer, the part that stored the value, if one did.
    """

    place: tuple[int, ...]
    address: int
    is_store: bool
    value: Any
    before: Part | None = None


@dataclass(slots=True, eq=False)
class Event:
    """An operation that ran once, or an iteration of a loop that began.

    Attributes:
        number: the order in which it ran.
        op: the operation; of an iteration the loop, or the `scf.if` whose body runs.
        operands: the values of its operands; for an iteration, of the loop's operands.
        sources: the event that each operand came from; None for an argument of the function.
        around: the iteration that it ran in; None outside of every loop.
        results: the values of its results; for an iteration, its induction variables.
        touches: its loads and stores, by lane.
        is_iteration: whether it is an iteration.
        result: the number of the result that it stands for, where a loop or a branch has several.
        prefetches: for an iteration, the prefetches that it ran itself; no value depends on them.
    """

    number: int
    op: Operation
    operands: Sequence[Any]
    sources: "list[Event | None]"
    around: "Event | None"
    results: tuple[Any, ...] = ()
    touches: list[Touch] = field(default_factory=list)
    is_iteration: bool = False
    result: int = 0
    prefetches: "list[Event]" = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Recording:
    """A run of a module, seen from one element of its result.

    Attributes:
        parts: the parts on which the element, or the failure of the run, depends, in the order in which they ran.
        error: why the run failed; None where it did not.
        is_inside: whether the last of the parts failed; otherwise the end of the function did.
        is_written: whether the element was stored to.
    """

    parts: tuple[Part, ...]
    error: GathernestError | None
    is_inside: bool
    is_written: bool


def record(
    module: ModuleOp, data: np.ndarray, indices: np.ndarray | None, out: np.ndarray, position: tuple[int, ...]
) -> Recording:
    """Run the function `@gather` of a module below the operator level, and record what one element depends on.

    Args:
        data, indices, out: as for `interpret`; `out` is written.
        position: of the element in `out`.
    """
    start = out.ctypes.data + sum(part * step for part, step in zip(position, out.strides, strict=True))
    machine = _Recorder(module, range(start, start + out.itemsize))
    error = None
    try:
        machine.run(data, indices, out)
    except GathernestError as raised:
        error = raised
    stores = [part for address, part in sorted(machine.stored.items()) if address in machine.watched_bytes]
    roots = stores
    if error is not None:
        roots = [Part(event) for event in (machine.failed or machine.returned) if event is not None]
    return Recording(tuple(_with_prefetches(slice_of(roots))), error, bool(machine.failed), bool(stores))


def _with_prefetches(parts: list[Part]) -> list[Part]:
    """Return parts with the prefetches of their iterations, in the order in which they ran."""
    found = [*parts, *(Part(event) for part in parts for event in part.event.prefetches)]
    return sorted(found, key=lambda part: part.event.number)


def slice_of(roots: Iterable[Part]) -> list[Part]:
    """Return the given parts and all parts that they depend on, in the order in which they ran."""
    found: dict[tuple[int, int | None], Part] = {}
    pending = list(roots)
    while pending:
        part = pending.pop()
        if (key := (part.event.number, part.lane)) not in found:
            found[key] = part
            pending += needs(part)
    return [found[key] for key in sorted(found, key=lambda key: (key[0], -1 if key[1] is None else key[1]))]


def needs(part: Part) -> list[Part]:
    """Return the direct dependences of a part: its operands, its loads, and its iteration."""
    event, lane = part
    found = [Part(event.around)] if event.around is not None else []
    found += [touch.before for touch in touches_of(part) if touch.before is not None]
    operands: list[SSAValue | None] = [*event.op.operands]
    if event.is_iteration or event.op.regions:  # sources have no bounds, only the condition and carried values
        decided = int(isinstance(event.op, scf.IfOp))
        return [
            *found,
            *(
                Part(one, lane if place >= decided else None)
                for place, one in enumerate(event.sources)
                if one is not None
            ),
        ]
    chosen = list(range(len(operands)))
    if isinstance(event.op, arith.SelectOp):
        condition = event.operands[0]
        is_true = (
            condition if lane is None or not isinstance(event.op.operands[0].type, VectorType) else condition[lane]
        )
        chosen = [0, 1 if is_true & 1 else 2]
    elif isinstance(event.op, FromElementsOp) and lane is not None:
        chosen = [lane]
    elif isinstance(event.op, arith.AndIOp) and lane is not None and event.operands[1][lane] == 0:
        chosen = [1]  # a mask that lets nothing through
    for number in chosen:
        source = event.sources[number]
        if source is not None:
            found.append(Part(source, lane if isinstance(event.op.operands[number].type, VectorType) else None))
    return found


def touches_of(part: Part) -> list[Touch]:
    """Return the loads and stores of a part."""
    event, lane = part
    width = vector_width(event.op)
    if lane is None or width is None or not event.touches:
        return event.touches
    count = len(event.touches) // width
    return event.touches[count * lane : count * (lane + 1)]


def vector_width(op: Operation) -> int | None:
    """Return the number of lanes of an operation; None where it works on scalars."""
    values = [op.vector] if isinstance(op, vector.StoreOp) else [op.element] if isinstance(op, AccumulateOp) else []
    for value in [*values, *op.results]:
        if isinstance(value.type, VectorType):
            return value.type.get_shape()[0]
    return None


class _Recorder(Machine):
    """Runs a module and keeps the event that each value came from; events that nothing depends on are freed."""

    def __init__(self, module: ModuleOp, watched_bytes: range):
        super().__init__(module, _InOrder(), None)
        self.watched_bytes = watched_bytes
        self.count = 0
        self.sources: dict[SSAValue, Event | None] = {}
        self.stored: dict[int, Part] = {}
        self.own: set[int] = set()
        self.running: list[Event] = []
        self.iteration: Event | None = None
        self.carried: dict[Operation, list[Event | None]] = {}
        self.failed: list[Event] = []
        self.returned: list[Event | None] = []

    def _event(self, op: Operation, operands: Sequence[Any], sources: list[Event | None]) -> Event:
        self.count += 1
        return Event(self.count, op, operands, sources, self.iteration)

    def run_op(self, step: Step, operands: list[Any]) -> tuple[Any, ...]:
        """Run an operation as an event."""
        op = step.op
        sources = [self.sources.get(operand) for operand in op.operands]
        if op.regions:
            first = 3 if isinstance(op, scf.ForOp) else len(sources)
            self.carried[op] = sources[first:]
        event = self._event(op, operands, sources)
        self.running.append(event)
        try:
            event.results = super().run_op(step, operands)
        except GathernestError:
            self.failed = self.failed or [event]
            raise
        self.running.pop()
        if op.regions:
            self.count += 1
            event.number = self.count  # its results come after its iterations
            event.sources = [*(sources[:1] if isinstance(op, scf.IfOp) else []), *self.carried.pop(op)]
        for number, result in enumerate(op.results):
            self.sources[result] = event if len(op.results) == 1 else self._of_result(event, number)
        return event.results

    def _of_result(self, event: Event, number: int) -> Event:
        """Return the event of one of several results; a result of a loop or a branch comes from its carried value."""
        if not isinstance(event.op, scf.ForOp | scf.IfOp):
            return event
        self.count += 1
        decided = int(isinstance(event.op, scf.IfOp))
        sources = [*event.sources[:decided], event.sources[decided + number]]
        return replace(event, number=self.count, sources=sources, result=number)

    def run_block(self, block: Block, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Run the body of a loop or a branch as an iteration."""
        op = block.parent_op()
        assert op is not None
        self.sources |= dict.fromkeys(block.args)
        if isinstance(op, func.FuncOp | scf.ReduceOp):
            returned = super().run_block(block, arguments)
            self._carry(op, block, arguments, returned)
            return returned
        around, outer = self.iteration, self.running[-1]
        decided = outer.sources[:1] if isinstance(op, scf.IfOp) else []
        iteration = self._event(op, outer.operands, decided)
        iteration.is_iteration, iteration.results = True, tuple(arguments)
        self.iteration = iteration
        carried = self.carried[op] if isinstance(op, scf.ForOp) else []
        for number, argument in enumerate(block.args):
            is_carried = isinstance(op, scf.ForOp) and number > 0
            self.sources[argument] = carried[number - 1] if is_carried else iteration
        returned = super().run_block(block, arguments)
        self._carry(op, block, arguments, returned)
        self.iteration = around
        return returned

    def _carry(self, op: Operation, block: Block, arguments: Sequence[Any], returned: tuple[Any, ...]) -> None:
        """Record the sources of the values at the end of a block; a sum that did not change keeps its source."""
        assert block.last_op is not None
        ends = [self.sources.get(operand) for operand in block.last_op.operands]
        if isinstance(op, func.FuncOp):
            self.returned = ends
        elif isinstance(op, scf.ForOp):
            changes = [new != old for new, old in zip(returned, arguments[1:], strict=True)]
            before = self.carried[op]
            self.carried[op] = [end if new else old for end, new, old in zip(ends, changes, before, strict=True)]
        elif isinstance(op, LoopOp | scf.ParallelOp):
            self.carried[op] += [end for end, value in zip(ends, returned, strict=True) if value]
        elif isinstance(op, scf.IfOp):
            self.carried[op] = ends

    def run_memref_prefetch(self, op: PrefetchOp, memory: np.ndarray, *subscripts: int) -> tuple[()]:
        event = self.running[-1]
        event.touches.append(Touch(tuple(subscripts), _address(memory, subscripts), False, None))
        if self.iteration is not None:
            self.iteration.prefetches.append(event)
        return ()

    def run_memref_alloca(self, op: memref.AllocaOp | memref.AllocOp, *sizes: int) -> tuple[np.ndarray]:
        (buffer,) = super().run_memref_alloca(op, *sizes)
        self.own.add(id(buffer))
        return (buffer,)

    def load(self, memory: np.ndarray, subscripts: Sequence[int]) -> Any:
        value = super().load(memory, subscripts)
        address = _address(memory, subscripts)
        self.running[-1].touches.append(Touch(tuple(subscripts), address, False, value, self.stored.get(address)))
        return value

    def store(self, memory: np.ndarray, subscripts: Sequence[int], value: Any) -> None:
        super().store(memory, subscripts, value)
        event, address = self.running[-1], _address(memory, subscripts)
        event.touches.append(Touch(tuple(subscripts), address, True, value))
        if id(memory) in self.own or address in self.watched_bytes:
            lane = sum(touch.is_store for touch in event.touches) - 1
            self.stored[address] = Part(event, None if vector_width(event.op) is None else lane)


def _address(memory: np.ndarray, subscripts: Sequence[int]) -> int:
    return memory.ctypes.data + sum(part * step for part, step in zip(subscripts, memory.strides, strict=True))
