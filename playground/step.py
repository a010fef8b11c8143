"""`step`: one element of a gather's result through one stage, operation by operation, as a table."""

import math
import operator as operators
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, ModuleOp, VectorType
from xdsl.ir import Operation, SSAValue

from ..ir.array_spec import ArraySpec
from ..ir.dialects.gather_dialect import LoopOp, OperatorOp
from ..ir.dialects.types import numpy_dtype
from ..ir.errors import BoundsError, GathernestError, InternalError, InvalidGatherError, did_you_mean, show, show_words
from ..ir.interpreters.argument_views import bind_arguments, index_argument, unwritten
from ..ir.interpreters.recorder import Event, Part, Recording, needs, record, touches_of
from ..ir.loop_name import LoopName
from ..ir.modules.context import find_function, make_context
from ..ir.modules.read_module import read_module, read_placed
from ..ir.problem import Problem
from ..ir.semantics import Bounds, integer_argument
from ..kernels.runtime.compile import module_of
from ..kernels.runtime.launch import available_threads
from ..kernels.runtime.plan import make_plan
from ..lowering.pipeline import parse_passes, record_stages, stages_by_name
from ..lowering.registry import SCHEDULED_NEST
from ..lowering.schedule.schedule import Schedule
from .check import reference_result
from .stage import problem_with_arrays, rest_of, stage_text
from .trace import Access, Arrays, Shape, Step, Steps, Trip, decoded, elements_of, loop_names, thread_of_trips

# An operation takes some 15 microseconds, and an element some ten operations.
MOST_ELEMENTS = 300_000
# Sources that are written out; of more, the first ones and the last are.
MOST_SOURCES = 6
# The pass that makes a loop nest of an operator, which has no steps of its own.
NEST = "lower-to-nest"
_SILENT = (arith.ConstantOp, memref.GetGlobalOp, memref.CollapseShapeOp)


def step(
    operator: str,
    data: ArrayLike | str | ArraySpec,
    indices: ArrayLike | str | ArraySpec,
    axis: Any = 0,
    *,
    batch_dims: int = 0,
    bounds: Any = "error",
    scale: float = 1.0,
    data_shape: tuple[int, ...] | None = None,
    element: int | Sequence[int] = 0,
    stage: str | None = None,
    schedule: Schedule | str | None = None,
    pipeline: str | None = None,
    module: str | Path | ModuleOp | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Steps:
    """Step through one element of a gather's result: the operations of a stage that it depends on, with their values.

    Args:
        operator, axis, batch_dims, bounds, scale: as for `gathernest.compile`.
        data, indices: arrays, or specs such as "5x4xf32" to fill at random; of a gradient, `data` is grad.
        data_shape: of a gradient, the shape of data.
        element: its position in the result, or its number in C order.
        stage: `operator` or the name of a pass; when omitted, the scheduled nest, or `module` as it is.
        schedule: a schedule; chosen by the sizes when this and `pipeline` are omitted.
        pipeline: the whole pipeline instead, as text; of a `module`, passes to run first.
        module: a stage to step through instead of one made here: MLIR text, the path of a file, or a module.
        seed: fills arrays of which only the spec is given.
        threads: how many share parallel loops, 1 or more; as many as a large gather uses here when omitted.

    Returns:
        The steps in the order in which they ran, loops in order; iterable, with `to_json()` and `to_html()`.

    Raises:
        InvalidGatherError: the element is outside of the result, there is no such stage, the result is too large to
            interpret, or the arrays and the attributes do not fit.
        InputError: the module does not parse or is not valid; the message has the place.
        ScheduleError: a pass rejects the gather.
    """
    attributes: dict[str, Any] = {"batch_dims": batch_dims, "bounds": bounds, "scale": scale}
    gather = problem_with_arrays(operator, data, indices, axis, data_shape=data_shape, seed=seed, **attributes)
    passes = None if schedule is None else Schedule.parse(schedule)
    given = None if module is None else stage_text(module)
    return step_problem(*gather, element, stage=stage, schedule=passes, pipeline=pipeline, given=given, threads=threads)


def step_problem(
    problem: Problem,
    data: np.ndarray,
    indices: np.ndarray,
    element: int | Sequence[int],
    *,
    stage: str | None,
    schedule: Schedule | None,
    pipeline: str | None,
    given: tuple[str, str] | None,
    threads: int | None,
) -> Steps:
    """Step through one element of a problem's result; see `step`. `given` is the name and the text of a stage."""
    if given is None:
        passes = make_plan(problem, schedule).pipeline if pipeline is None else pipeline
        name, text = _stage_of(
            module_of(problem), passes, SCHEDULED_NEST if stage is None else stage, falls_back=stage is None
        )
    else:
        name, text = given
        module = read_module(text, name, make_context())
        passes = ("" if stage is None else rest_of(module)) if pipeline is None else pipeline
        if passes or stage is not None:
            name, text = _stage_of(module, passes, stage)
    return step_stage(text, name, problem, data, indices, element, file=name, threads=threads)


def _stage_of(module: ModuleOp, pipeline: str, name: str | None, *, falls_back: bool = False) -> tuple[str, str]:
    """Run a pipeline on a module, and return the name and the text of a stage.

    Args:
        name: of the stage; the last one when omitted.
        falls_back: whether the last stage stands in for one that is not there.

    Raises:
        InvalidGatherError: there is no such stage.
    """
    stages = stages_by_name(record_stages(module, parse_passes(pipeline)))
    last = list(stages)[-1]
    name = last if name is None or (falls_back and name not in stages) else name
    if not isinstance(name, str) or name not in stages:
        raise InvalidGatherError(
            f"there is no stage {show(name)}; the stages are {', '.join(stages)}{did_you_mean(name, stages)}"
        )
    return name, stages[name].text


def step_stage(
    text: str,
    stage: str,
    problem: Problem,
    data: np.ndarray,
    indices: np.ndarray,
    element: int | Sequence[int] = 0,
    *,
    file: str = "<text>",
    threads: int | None = None,
) -> Steps:
    """Step through one element of a problem's result in the text of a stage.

    Args:
        text: MLIR of any level.
        stage: the name of the stage.
        problem, data, indices: the gather with its arrays; of a gradient, `data` is grad.
        element: its position in the result, or its number in C order.
        file: the name of the text in messages.
        threads: how many share parallel loops; as many as a large gather uses here when omitted.

    Raises:
        InputError: the text does not parse or is not valid.
        InvalidGatherError: the element is outside of the result, or the stage is too large or of other arrays.
    """
    position = element_position(element, problem.result.shape)
    read = problem.indices.size * math.prod(problem.table.shape[1:]) if problem.reduces else problem.slices.size
    work = max(problem.result.size, read)
    if work > MOST_ELEMENTS:
        raise InvalidGatherError(
            f"the gather has {work} elements, and a stage is interpreted one operation at a time: at most "
            f"{MOST_ELEMENTS}; give smaller sizes"
        )
    text, has_operator = _nest_text(text, file)
    threads = available_threads() if threads is None else integer_argument(threads, "threads", least=1)
    steps, error, value = _Run(text, file, problem, data, indices, position, threads).steps()
    read = [one for step in steps for one in step.accesses if one.array in ("data", "grad") and not one.is_store]
    read = [one for one in read if one.value is not None and one.position is not None]
    sources = tuple(one.position for one in read if one.position is not None)
    sizes = np.array(problem.axis_sizes, object)
    parts = indices.reshape(-1, len(sizes))
    undefined = problem.bounds is Bounds.UNCHECKED and bool(((parts < 0) | (parts >= sizes)).any())
    result = None if undefined else reference_result(problem, data, indices)
    must_fail = isinstance(result, BoundsError)
    expected = result[position] if isinstance(result, np.ndarray) else None
    same = value is not None and expected is not None and np.asarray(value).tobytes() == np.asarray(expected).tobytes()
    is_right = undefined or (isinstance(error, BoundsError) if must_fail else error is None and same)
    stored = " is not stored" if value is None else f" = {value}"
    outcome = f"element {list(position)}{stored if error is None else f': the call fails: {error}'}"
    wanted = "rejects the call" if must_fail else f"gives {expected}"
    wrong = "" if is_right else f"wrong: the operator's reference {wanted}"
    wrong = "an index is outside, which bounds unchecked leaves undefined" if undefined else wrong
    names = [str(one) for one in read] if problem.reduces else list(dict.fromkeys(map(str, read)))
    gather = f"{problem.name} {problem.source} by {problem.indices} -> {problem.result}, {problem.options}"
    stage = f"{stage}, as the loop nest that {NEST} makes of it" if has_operator else stage
    return Steps(
        gather,
        stage,
        text,
        position,
        value,
        expected,
        tuple(dict.fromkeys(sources)),
        _remarks(steps, outcome, wrong, names),
        None if error is None else str(error),
        is_right,
        steps,
    )


def _nest_text(text: str, file: str) -> tuple[str, bool]:
    """Return the text of a stage, lowered to its loop nest where it still has an operator, and whether it has one."""
    module = read_module(text, file, make_context())
    if not any(isinstance(op, OperatorOp) for op in module.walk()):
        return text, False
    return _stage_of(module, rest_of(module).partition(NEST)[0] + NEST, None)[1], True


def element_position(element: int | Sequence[int], shape: Shape) -> Shape:
    """Return the position of an element that is given by its position or its number in C order.

    Raises:
        InvalidGatherError: it is outside of the result, or the result is empty.
    """
    size = math.prod(shape)
    if not size:
        raise InvalidGatherError(f"the result of shape {shape} is empty; give sizes from 1 on")
    try:
        if isinstance(element, Sequence) and not isinstance(element, str):
            position = tuple(operators.index(part) for part in element)
            is_inside = len(position) == len(shape) and all(
                0 <= part < size for part, size in zip(position, shape, strict=True)
            )
        else:
            number = operators.index(element)  # type: ignore[arg-type]
            is_inside = 0 <= number < size
            position = tuple(int(part) for part in np.unravel_index(number, shape)) if is_inside else ()
    except TypeError:
        is_inside, position = False, ()
    if not is_inside:
        given = show_words(element) if isinstance(element, list | tuple) else show(element)
        last = ",".join(str(size - 1) for size in shape)
        position_form = f"a position up to {last}, or " if shape else ""
        raise InvalidGatherError(
            f"element {given} is outside of the result of shape {shape}; give {position_form}a number from 0 to "
            f"{size - 1}"
        )
    return position


def _remarks(steps: Sequence[Step], outcome: str, wrong: str, sources: Sequence[str]) -> tuple[str, ...]:
    """Return the outcome, its error, the sources, and the iterations of the last store, a line each."""
    lines = [outcome, *([wrong] if wrong else [])]
    if sources:
        named = sources if len(sources) <= MOST_SOURCES else [*sources[: MOST_SOURCES - 1], "...", sources[-1]]
        lines.append(f"read from {', '.join(named)}" + (f": {len(sources)} in this order" if len(sources) > 1 else ""))
    last = next((one for one in reversed(steps) if any(access.is_store for access in one.accesses)), None)
    if last is not None and last.trips:
        lines.append(f"stored in {', '.join(map(str, last.trips))}")
    return tuple(lines)


class _Run:
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
        self.problem, self.data, self.position, self.text, self.threads = problem, data, position, text, threads
        self.module, self.parser = read_placed(text, file, make_context())
        self.function = find_function(self.module, "gather")
        self.indices = index_argument(self.module, indices)
        self.out = unwritten(problem.result.shape, problem.result.dtype)
        first = "data" if problem.gradient is None else "grad"
        arrays = {first: data} | ({} if self.indices is None else {"indices": self.indices}) | {"out": self.out}
        self.arrays = Arrays(self.function, arrays)
        self.elements: set[SSAValue] = set()
        try:
            bind_arguments(self.function, list(arrays.values()))
        except InternalError as error:
            raise InvalidGatherError(f"{error}; the stage is of other arrays: pass the arrays of its gather") from None

    def steps(self) -> tuple[tuple[Step, ...], GathernestError | None, Any]:
        """Return the steps, why the run failed, and the element."""
        recording = record(self.module, self.data, self.indices, self.out, self.position)
        for part in recording.parts:  # stores of the result, of elements as they are
            op, last = part.event.op, len(self.arrays.names) - 1
            if not self.problem.adds and any(touch.is_store for touch in touches_of(part)) and len(op.operands) > 1:
                self.elements |= elements_of(op.operands[0]) if self.arrays.number_of(op.operands[1]) == last else set()
        parts = [part for part in recording.parts if not isinstance(part.event.op, _SILENT)]
        numbers = {(part.event.number, part.lane): number for number, part in enumerate(parts)}
        steps = tuple(self._step(part, numbers, recording) for part in parts)
        has_value = recording.error is None and recording.is_written
        return steps, recording.error, self.out[self.position] if has_value else None

    def _step(self, part: Part, numbers: dict[tuple[int, int | None], int], recording: Recording) -> Step:
        event, lane = part
        own = self._trips_of(event) if event.is_iteration else ()
        trips = (*self._trips(event.around), *own)
        name = " ".join([event.op.name, *(trip.loop for trip in own)])
        if isinstance(event.op, arith.CmpiOp):
            name = f"{name} {arith.CMPI_COMPARISON_OPERATIONS[event.op.predicate.value.data]}"
        accesses = self._accesses(part)
        is_last = recording.is_inside and recording.error is not None and part is recording.parts[-1]
        return Step(
            name,
            *self._line(event.op),
            trips,
            self._operands(part, own, is_access=bool(accesses)),
            self._results(part),
            accesses,
            lane,
            thread_of_trips(trips, self.threads),
            tuple(sorted({numbers[key] for need in needs(part) if (key := (need.event.number, need.lane)) in numbers})),
            str(recording.error) if is_last else None,
        )

    def _operands(self, part: Part, own: tuple[Trip, ...], *, is_access: bool) -> dict[str, Any]:
        """Return the operands by name: bounds of an iteration, and of an access no arrays and constant subscripts."""
        event, lane = part
        if own:
            names = ("lower", "upper", "step")
            ends = [f" {trip.variable}" if len(own) > 1 else "" for trip in own]
            return {f"{name}{end}": getattr(trip, name) for trip, end in zip(own, ends, strict=True) for name in names}
        return {
            self._name(value, lane): self._value(value, got, lane)
            for value, got in zip(event.op.operands, event.operands, strict=True)
            if not isinstance(value.type, MemRefType)
            and not (is_access and isinstance(value.owner, arith.ConstantOp) and isinstance(value.type, IndexType))
        }

    def _results(self, part: Part) -> dict[str, Any]:
        """Return the results by name; a branch has none when it begins, and an operation that failed has none."""
        event, lane = part
        results = event.op.regions[0].block.args if event.is_iteration and event.op.regions else event.op.results
        return {
            self._name(value, lane): self._value(value, got, lane)
            for value, got in zip(results, event.results, strict=False)
            if not isinstance(value.type, MemRefType)
        }

    def _accesses(self, part: Part) -> tuple[Access, ...]:
        memory = next((each for each in part.event.op.operands if isinstance(each.type, MemRefType)), None)
        if memory is None:
            return ()
        return tuple(self.arrays.access(memory, touch, self._name(memory)) for touch in touches_of(part))

    def _trips(self, iteration: Event | None) -> tuple[Trip, ...]:
        return () if iteration is None else (*self._trips(iteration.around), *self._trips_of(iteration))

    def _trips_of(self, event: Event) -> tuple[Trip, ...]:
        """Return the loops whose iteration an event begins: a branch has none, an `scf.parallel` may have several."""
        op = event.op
        if isinstance(op, scf.IfOp):
            return ()
        count = len(op.regions[0].block.args) if isinstance(op, scf.ParallelOp) else 1
        is_parallel = isinstance(op, scf.ParallelOp) or (isinstance(op, LoopOp) and op.parallel is not None)
        trips = []
        for number, name in enumerate(loop_names(op) or ("loop",) * count):
            lower, upper, step = event.operands[number : 3 * count : count]
            value, variable = event.results[number], self._name(op.regions[0].block.args[number])
            ordinal, total = (value - lower) // step, -(-(upper - lower) // step)
            is_tile = LoopName(name).is_outer_tile
            trips.append(Trip(name, variable, value, ordinal, total, lower, upper, step, is_parallel, is_tile))
        return tuple(trips)

    def _name(self, value: SSAValue, lane: int | None = None) -> str:
        """Return the name of a value in the text; of a vector with its lane."""
        name = self.parser.names.get(value) or value.name_hint or "value"
        name = f"%{name}" if name[0].isdigit() else name
        return f"{name}[{lane}]" if lane is not None and isinstance(value.type, VectorType) else name

    def _value(self, value: SSAValue, got: Any, lane: int | None = None) -> Any:
        """Return a value as a person reads it: true and false, elements as their dtype has them, one lane of many."""
        kind = value.type
        if isinstance(kind, VectorType):
            if lane is None:
                return [self._scalar(value, kind.element_type, one) for one in got]
            kind, got = kind.element_type, got[lane]
        return self._scalar(value, kind, got)

    def _scalar(self, value: SSAValue, kind: Any, got: Any) -> Any:
        if isinstance(kind, IntegerType) and kind.width.data == 1:
            return bool(got & 1)
        if value in self.elements and numpy_dtype(kind).itemsize == self.data.itemsize:
            return decoded(got, self.data.dtype)
        return decoded(got, numpy_dtype(kind)) if isinstance(got, np.void) else got

    def _line(self, op: Operation) -> tuple[str, int]:
        """Return an operation's line in the text, without a brace that its body begins with, and the line's number."""
        start = self.parser.places[op]
        text = self.text[start:].partition("\n")[0].strip()
        return text.removesuffix("{").rstrip(), self.text.count("\n", 0, start) + 1
