"""One run of a stage, as the steps that one element of its result depends on."""

from typing import Any

import numpy as np
from xdsl.dialects import arith, memref
from xdsl.ir import Operation

from ...ir.dialects.gather_dialect import OperatorOp, ResolveOp
from ...ir.dialects.upstream import PrefetchOp
from ...ir.errors import BoundsError, GathernestError, InternalError, InvalidGatherError
from ...ir.interpreters.argument_views import bind_arguments, index_argument, unwritten
from ...ir.interpreters.interpreter import interpret
from ...ir.interpreters.recorder import Event, Part, Recording, needs, record, touches_of
from ...ir.modules.context import find_function, make_context
from ...ir.modules.read_module import read_placed
from ...ir.problem import Problem
from ...lowering.schedule.machine_model import LINE_BYTES
from .arrays import Arrays, elements_of
from .operator_steps import OperatorSteps
from .steps import Access, Shape, Step, Trip
from .thread_share import said_of_thread
from .words import Words, trips_of

_SILENT = (arith.ConstantOp, memref.GetGlobalOp, memref.CollapseShapeOp)
# The steps, the positions that were read, why the run failed, and the element.
Outcome = tuple[tuple[Step, ...], tuple[Shape, ...], GathernestError | None, Any]


class StageRun:
    """One interpretation of a stage, seen from one element of its result.

    Raises:
        InputError: the text does not parse or is not valid.
        InvalidGatherError: the stage is of other arrays.
    """

    def __init__(
        self,
        text: str,
        file: str,
        problem: Problem,
        data: np.ndarray,
        indices: np.ndarray,
        position: Shape,
        threads: int,
    ):
        self.threads = threads
        self.problem, self.data, self.position, self.text = problem, data, position, text
        self.module, self.parser = read_placed(text, file, make_context())
        self.function = find_function(self.module, "gather")
        self.indices = index_argument(self.module, indices)
        self.out = unwritten(problem.result.shape, problem.result.dtype)
        first = "data" if problem.gradient is None else "grad"
        arrays = {first: data} | ({} if self.indices is None else {"indices": self.indices}) | {"out": self.out}
        self.arrays = Arrays(self.function, arrays, LINE_BYTES)
        try:
            bind_arguments(self.function, list(arrays.values()))
        except InternalError as error:
            raise InvalidGatherError(f"{error}; the stage is of other arrays: pass those it was made for") from None

    def steps(self) -> Outcome:
        """Return the steps, the positions that were read, why the run failed, and the element."""
        operator = next((op for op in self.module.walk() if isinstance(op, OperatorOp)), None)
        if operator is not None:
            return self._of_operator(operator)
        recording = record(self.module, self.data, self.indices, self.out, self.position)
        steps = self._of_nest(recording)
        sources = tuple(
            access.position
            for one in steps
            for access in one.accesses
            if access.array == self.arrays.names[0] and not access.is_store
        )
        has_value = recording.error is None and recording.is_written
        return steps, tuple(dict.fromkeys(sources)), recording.error, self.out[self.position] if has_value else None

    def _of_operator(self, op: OperatorOp) -> Outcome:
        made = OperatorSteps(op, self.arrays, *self._line(op))
        error: GathernestError | None = None
        value = None
        try:
            interpret(self.module, self.data, self.indices, self.out)
            value = self.out[self.position]
        except GathernestError as raised:
            error = raised
        try:
            made.run(self.position)
        except BoundsError as raised:
            error = error or raised
        return tuple(made.steps), tuple(made.sources), error, value

    def _of_nest(self, recording: Recording) -> tuple[Step, ...]:
        stored = [part.event.op for part in recording.parts if any(touch.is_store for touch in touches_of(part))]
        elements = set().union(*(elements_of(op.operands[0]) for op in stored if self._is_copy(op)), set())
        self.words = Words(self.parser.names, elements, self.data.dtype)
        parts = [part for part in recording.parts if not isinstance(part.event.op, _SILENT)]
        numbers = {(part.event.number, part.lane): number for number, part in enumerate(parts)}
        return tuple(self._step(part, numbers, recording) for part in parts)

    def _is_copy(self, op: Operation) -> bool:
        """Return whether a store writes to the result, elements as they are."""
        is_out = len(op.operands) > 1 and self.arrays.number_of(op.operands[1]) == len(self.arrays.names) - 1
        return not self.problem.adds and is_out

    def _step(self, part: Part, numbers: dict[tuple[int, int | None], int], recording: Recording) -> Step:
        event, lane = part
        own = trips_of(event, self.words) if event.is_iteration else ()
        trips = (*self._trips(event.around), *own)
        text, line = self._line(event.op)
        accesses = self._accesses(part)
        if isinstance(event.op, PrefetchOp):
            note = self.arrays.prefetched(event.op.memref, event.touches[0], self.words.name(event.op.memref))
        else:
            note = "; ".join(self.words.note(part, accesses, trip) for trip in own or (None,))
        if any(trip.is_parallel for trip in own):
            shared = said_of_thread([trip for trip in trips if trip.is_parallel], self.threads)
            note = f"{note}; the loop is parallel: thread {shared}"
        if recording.error is not None and part is recording.parts[-1]:
            is_said = not recording.is_inside or isinstance(event.op, ResolveOp)
            note = f"{note}; the call fails" if is_said else f"this fails: {recording.error}"
        linked = [numbers[key] for need in needs(part) if (key := (need.event.number, need.lane)) in numbers]
        values = self.words.values(part)
        return Step(event.op.name, text, line, trips, values, note, accesses, lane, tuple(sorted(set(linked))))

    def _accesses(self, part: Part) -> tuple[Access, ...]:
        memory = None if isinstance(part.event.op, PrefetchOp) else _memory(part.event.op)
        if memory is None:
            return ()
        return tuple(self.arrays.access(memory, touch, self.words.name(memory)) for touch in touches_of(part))

    def _trips(self, iteration: Event | None) -> tuple[Trip, ...]:
        if iteration is None:
            return ()
        return (*self._trips(iteration.around), *trips_of(iteration, self.words))

    def _line(self, op: Operation) -> tuple[str, int]:
        """Return an operation's line in the text, without a brace that its body begins with, and the line's number."""
        start = self.parser.places[op]
        text = self.text[start:].partition("\n")[0].strip()
        return text.removesuffix("{").rstrip(), self.text.count("\n", 0, start) + 1


def _memory(op: Operation) -> Any:
    """Return the memref that an operation loads from or stores to."""
    return next((operand for operand in op.operands if hasattr(operand.type, "memory_space")), None)
