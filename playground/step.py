"""`step`: one element of a gather's result through one stage, operation by operation."""

import math
import operator as operators
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    VectorType,
)
from xdsl.ir import Operation, SSAValue

from ..ir import reference
from ..ir.array_spec import ArraySpec
from ..ir.dialects.gather_dialect import (
    AccumulateOp,
    GradientOp,
    LoopOp,
    MaskedLoadOp,
    OperatorOp,
    ReductionOp,
    ResolveOp,
)
from ..ir.dialects.types import dense_array, numpy_dtype
from ..ir.dialects.upstream import PrefetchOp, is_nontemporal
from ..ir.element_types import number_scale
from ..ir.errors import BoundsError, GathernestError, InternalError, InvalidGatherError, did_you_mean
from ..ir.interpreters.argument_views import bind_arguments, index_argument, unwritten
from ..ir.interpreters.recorder import Event, Part, Recording, needs, record, touches_of, vector_width
from ..ir.interpreters.scalar import interpret
from ..ir.loop_name import LoopName
from ..ir.modules.context import find_function, make_context
from ..ir.modules.read_module import read_module, read_placed
from ..ir.operator_spec import Gather, GatherElements, GatherMax, GatherNd, GatherReduce, OperatorSpec
from ..ir.problem import Problem
from ..ir.semantics import Bounds
from ..kernels.problems.named_problem import problem_of
from ..kernels.runtime.array_checks import data_array, index_array
from ..kernels.runtime.compile import module_of
from ..kernels.runtime.launch import available_threads
from ..kernels.runtime.plan import make_plan
from ..lowering.pipeline import parse_passes, record_stages, stages_by_name
from ..lowering.registry import SCHEDULED_NEST
from ..lowering.schedule.machine_model import LINE_BYTES
from ..lowering.schedule.schedule import Schedule
from .stage import filled, rest_of
from .steps import ROLES, Access, Arrays, Shape, Step, Steps, Trip, decoded, elements_of, loop_names, said_of_thread


@dataclass(frozen=True, slots=True)
class Rule:
    """Where one element of a gather's result comes from.

    Attributes:
        place: of the element.
        tuple_place: of the index, or of the tuple of indices, in indices.
        places: of each component in indices.
        indices, sizes: the components, and the sizes of the axes that they point into.
        axes: those axes of data.
        positions: what the components mean; None where one means none.
        source: the position in data; None for a zero, and for an index that is not valid.
    """

    place: Shape
    tuple_place: Shape
    places: tuple[Shape, ...]
    indices: tuple[int, ...]
    sizes: tuple[int, ...]
    axes: range
    positions: tuple[int | None, ...]
    source: Shape | None


def rule_of(operator: OperatorSpec, data_shape: Shape, indices: np.ndarray, bounds: Bounds, place: Shape) -> Rule:
    """Return the rule for the element at `place` of a gather's result.

    Args:
        operator: normalised.
        data_shape: dimensions that are not indexed at its end are carried whole.
    """
    axes = operator.axes(indices.shape)
    assert isinstance(operator, Gather | GatherNd | GatherElements)
    is_elements, is_nd = isinstance(operator, GatherElements), isinstance(operator, GatherNd)
    shared = operator.axis if isinstance(operator, GatherElements) else operator.batch_dims
    outers = 0 if is_elements else axes.start - shared
    before, outer, rest = place[:shared], place[shared : shared + outers], place[shared + outers :]
    length = indices.ndim - shared - is_nd  # of the index's own dimensions
    own, after = rest[:length], rest[length:]
    tuple_place = (*before, *own)
    places = tuple((*tuple_place, part) for part in range(len(axes))) if is_nd else (tuple_place,)
    values = tuple(int(indices[where]) for where in places)
    sizes = tuple(data_shape[axis] for axis in axes)
    positions: list[int | None] = []
    for value, size in zip(values, sizes, strict=True):
        try:
            positions.append(reference.resolve(value, size, bounds))
        except BoundsError:
            positions.append(None)
    known = [position for position in positions if position is not None]
    tail = (*own[1:], *after) if is_elements else after
    source = (*before, *outer, *known, *tail) if len(known) == len(positions) else None
    if source is not None and not all(0 <= part < size for part, size in zip(source, data_shape, strict=True)):
        source = None
    return Rule(place, tuple_place, places, values, sizes, axes, tuple(positions), source)


def contributions(
    operator: OperatorSpec, data_shape: Shape, indices: np.ndarray, bounds: Bounds, place: Shape
) -> Iterator[Rule]:
    """Yield the rule of each element of grad that is added to one element of a gradient, in their order.

    Raises:
        BoundsError: an index is not valid.
    """
    numbers = np.arange(1, math.prod(data_shape) + 1).reshape(data_shape)
    read = reference.run(operator, numbers, indices, bounds)
    for found in np.argwhere(read == numbers[place]):
        yield rule_of(operator, data_shape, indices, bounds, tuple(int(part) for part in found))


def bag_rules(data_shape: Shape, indices: np.ndarray, bounds: Bounds, place: Shape) -> Iterator[Rule]:
    """Yield the rule of each slice that one element of a reduction is made of, in the order of its bag."""
    bags = indices.ndim - 1
    for number in range(indices.shape[-1]):
        yield rule_of(Gather(), data_shape, indices, bounds, (*place[:bags], number, *place[bags:]))


def explained(index: int, size: int, bounds: Bounds) -> str:
    """Return in plain words what an index means on an axis, as `ir.reference.resolve` has it."""
    if size == 0:
        return f"{index} on an axis of size 0: {'a zero' if bounds is Bounds.ZERO else 'no index is valid'}"
    if 0 <= index < size:
        return f"{index} is in [0, {size})"
    if bounds is Bounds.CLIP:
        return f"min(max({index}, 0), {size - 1}) = {min(max(index, 0), size - 1)} (clip)"
    if bounds is Bounds.WRAP:
        return f"{index} mod {size} = {index % size} (wrap)"
    if bounds is Bounds.UNCHECKED:
        return f"{index} is outside [0, {size}), which unchecked leaves undefined"
    if -size <= index < 0:
        return f"{index} + {size} = {index + size} (wrap)"
    outcome = "a zero" if bounds is Bounds.ZERO else "an error"
    return f"{index} is outside [{-size}, {size - 1}]: {outcome}"


def said(rule: Rule, bounds: Bounds) -> str:
    """Return each component of an index with its place and what it means, such as `indices[2] = -1, -1 + 5 = 4`."""
    parts = zip(rule.places, rule.indices, rule.sizes, strict=True)
    return "; ".join(
        f"indices{list(place)} = {index}, {explained(index, size, bounds)}" for place, index, size in parts
    )


class OperatorSteps:
    """Makes the steps of one operation of the operator level.

    Attributes:
        steps: the steps so far.
        sources: the positions in data, or in grad, that are read, in order.
    """

    def __init__(self, op: OperatorOp, arrays: Arrays, text: str, line: int):
        self.op, self.arrays, self.text, self.line = op, arrays, text, line
        self.spec, self.bounds = op.normalized(), op.bounds.data
        self.views, _ = bind_arguments(arrays.function, arrays.arrays)
        self.index_number = arrays.names.index("indices") if "indices" in arrays.names else None
        self.out_number = len(arrays.names) - 1
        self.steps: list[Step] = []
        self.sources: list[Shape] = []

    @property
    def indices(self) -> np.ndarray:
        """The indices as the operation is handed them."""
        if self.index_number is not None:
            found = self.views[self.index_number]
        else:
            owner = self.op.indices.owner
            assert isinstance(owner, arith.ConstantOp) and isinstance(owner.value, DenseIntOrFPElementsAttr)
            found = dense_array(owner.value)
        return found.view(f"u{found.dtype.itemsize}") if self.op.unsigned is not None else found

    def run(self, position: Shape) -> None:
        """Make the steps of the element at a position of the result.

        Raises:
            BoundsError: an index is not valid; the steps are those up to it.
        """
        place = self.arrays.view_place(self.out_number, position)
        if isinstance(self.op, GradientOp):
            return self._sum(position, place)
        if isinstance(self.op, ReductionOp):
            return self._reduce(position, place)
        rule = rule_of(self.spec, self.views[0].shape, self.indices, self.bounds, place)
        self._add(f"the rule for {list(position)}: {self._form()}")
        self._index(rule)
        data = self.arrays.arrays[0]
        value = np.zeros((), data.dtype)[()]
        if rule.source is not None:
            source = self.arrays.caller_position(0, rule.source)
            value = data[source]
            self._read(source, value)
        else:
            self._add("an index is outside: the element is a zero, and nothing is read")
        self._write(position, value, str(value))

    def _form(self) -> str:
        if isinstance(self.spec, GatherNd):
            return "out[before.., after..] = data[before.., positions..]"
        if isinstance(self.spec, GatherElements):
            return "out[before.., i, after..] = data[before.., position, after..]"
        return "out[before.., outer.., after..] = data[before.., outer.., position]"

    def _sum(self, position: Shape, place: Shape) -> None:
        """Add each element of grad to where the gather read it, in the order of the indices, and scale the sums."""
        grad = self.arrays.arrays[0]
        total = np.zeros((), grad.dtype)
        self._add(f"the sum at {list(position)} begins as {total[()]}")
        shape = self.arrays.view_shape(self.out_number)
        for rule in contributions(self.spec, shape, self.indices, self.bounds, place):
            self._index(rule)
            source = self.arrays.caller_position(0, rule.place)
            value, before = grad[source], total[()]
            self._read(source, value)
            with np.errstate(all="ignore"):
                total = np.asarray(total + value).astype(grad.dtype)
            self._add(f"sum = {before} + {value} = {total[()]}", {"sum": total[()]})
        assert isinstance(self.op, GradientOp)
        factor = np.array(number_scale(self.op.factor, grad.dtype)).astype(grad.dtype)
        said = str(total[()])
        if self.op.factor != 1:
            before, total = total[()], np.asarray(total * factor).astype(grad.dtype)
            said = f"{before} * {factor[()]} = {total[()]}"
        self._write(position, total[()], said)

    def _reduce(self, position: Shape, place: Shape) -> None:
        """Add the elements of a bag in its order, and divide the sum of a mean; or take the largest of them."""
        assert isinstance(self.spec, GatherReduce)
        data, is_largest = self.arrays.arrays[0], isinstance(self.spec, GatherMax)
        total, name = np.zeros((), data.dtype)[()], "largest" if is_largest else "sum"
        self._add(f"the {name} at {list(position)} begins as {total}")
        count = 0
        for number, rule in enumerate(bag_rules(self.views[0].shape, self.indices, self.bounds, place)):
            self._index(rule)
            if rule.source is None:
                self._add("an index is outside: nothing is read")
                continue
            count += 1
            source, before = self.arrays.caller_position(0, rule.source), total
            value = data[source]
            self._read(source, value)
            if is_largest:
                total = value if number == 0 or value > before else before
                made = f"{value}, the first" if number == 0 else f"the larger of {before} and {value} = {total}"
            else:
                with np.errstate(all="ignore"):
                    total = np.add(before, value, dtype=data.dtype)
                made = f"{before} + {value} = {total}"
            self._add(f"{name} = {made}", {name: total})
        said = str(total)
        if self.spec.divides:
            before, divisor = total, data.dtype.type(max(count, 1))
            with np.errstate(all="ignore"):
                total = np.divide(before, divisor, dtype=data.dtype)
            said = f"{before} / {divisor} = {total}"
        self._write(position, total, said)

    def _index(self, rule: Rule) -> None:
        """Load each component of an index, and resolve it."""
        for part, place in enumerate(rule.places):
            index, size, position = rule.indices[part], rule.sizes[part], rule.positions[part]
            access = None
            if self.index_number is not None:
                where = self.arrays.caller_position(self.index_number, place)
                access = self.arrays.whole(self.index_number, where, index)
            shown = f"indices{list(place)}" if access is None else str(access)
            where = "" if access is None else f": byte {access.byte}, cache line {access.cache_line}"
            self._add(f"index = {shown} = {index}{where}", {"index": index}, access)
            said = explained(index, size, self.bounds)
            self._add(said, {"index": index, "size": size, "position": position})
            if position is None and (size == 0 or self.bounds is Bounds.ERROR) and self.bounds is not Bounds.ZERO:
                raise BoundsError(said)

    def _read(self, position: Shape, value: Any) -> None:
        access = self.arrays.whole(0, position, value)
        self.sources.append(position)
        self._add(f"{access} = {value}: byte {access.byte}, cache line {access.cache_line}", {"element": value}, access)

    def _write(self, position: Shape, value: Any, said: str) -> None:
        access = self.arrays.whole(self.out_number, position, value, is_store=True)
        place = f"byte {access.byte}, cache line {access.cache_line}"
        self._add(f"{said} is stored to {access}: {place}", {"element": value}, access)

    def _add(self, note: str, values: dict[str, Any] | None = None, access: Access | None = None) -> None:
        accesses = () if access is None else (access,)
        needs = (len(self.steps) - 1,) if self.steps else ()
        self.steps.append(Step(self.op.name, self.text, self.line, (), values or {}, note, accesses, None, needs))


INFIX = {
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.andi": "&",
    "arith.ori": "|",
    "arith.shrsi": ">>",
    "arith.divui": "//",
    "arith.remui": "mod",
    "arith.remsi": "rem",
    "arith.addf": "+",
    "arith.mulf": "*",
    "arith.divf": "/",
}
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
FUNCTIONS = {"arith.minsi": "min", "arith.minui": "unsigned min", "arith.maxsi": "max"}
CASTS = ("arith.index_cast", "arith.extsi", "arith.extui", "arith.trunci")
# What arithmetic is for that changes an index, by the name that bounds handling gives to its result.
PURPOSES = {"wrapped": "wrap", "remainder": "wrap", "lowered": "clip", "raised": "clip"}


class Words:
    """Says what the operations of one stage did.

    Attributes:
        names: what the stage's text calls its values.
        elements: the values that are elements of `dtype`, moved as integers.
        dtype: the caller's element type.
    """

    def __init__(self, names: dict[SSAValue, str], elements: set[SSAValue], dtype: np.dtype):
        self.names, self.elements, self.dtype = names, elements, dtype

    def name(self, value: SSAValue, lane: int | None = None) -> str:
        """Return what a value is called; of a vector with its lane."""
        name = self.names.get(value) or value.name_hint or "value"
        name = f"%{name}" if name[0].isdigit() else name
        return f"{name}[{lane}]" if lane is not None and isinstance(value.type, VectorType) else name

    def value(self, value: SSAValue, got: Any, lane: int | None = None) -> Any:
        """Return a value as a person reads it: true and false, elements as their dtype has them, one lane of many."""
        kind = value.type
        if isinstance(kind, VectorType):
            kind = kind.element_type
            if lane is None:
                return [self._scalar(value, kind, one) for one in got]
            got = got[lane]
        return self._scalar(value, kind, got)

    def _scalar(self, value: SSAValue, kind: Any, got: Any) -> Any:
        if isinstance(kind, MemRefType):
            return None
        if isinstance(kind, IntegerType) and kind.width.data == 1:
            return bool(got & 1)
        if value in self.elements:
            return decoded(got, self.dtype)
        return decoded(got, numpy_dtype(kind)) if isinstance(got, np.void) else got

    def values(self, part: Part) -> dict[str, Any]:
        """Return the operands and results of an operation by name, arrays left out."""
        event, lane = part
        found: dict[str, Any] = {}
        results = event.op.regions[0].block.args if event.is_iteration and event.op.regions else event.op.results
        # A branch has no results when it begins, and an operation that failed has none.
        pairs = [*zip(event.op.operands, event.operands, strict=True), *zip(results, event.results, strict=False)]
        for value, got in pairs:
            if not isinstance(value.type, MemRefType):
                found[self.name(value, lane)] = self.value(value, got, lane)
        return found

    def note(self, part: Part, accesses: tuple[Access, ...], trip: Trip | None) -> str:
        """Return what an operation did in a line."""
        event, lane = part
        if event.is_iteration:
            return self._begun(event, trip)
        text = self._said(event, lane, accesses)
        if lane is not None and (width := vector_width(event.op)) is not None:
            text += f" (lane {lane} of {width})"
        return text

    def _begun(self, event: Event, trip: Trip | None) -> str:
        if trip is None:
            condition = event.op.operands[0]
            said = str(bool(event.operands[0] & 1)).lower()
            return f"{self.name(condition)} is {said}: this branch runs"
        what = "tile" if trip.is_tile else "iteration"
        place = f"{trip.variable} = {trip.value} in {trip.lower}..{trip.upper} step {trip.step}"
        return f"{trip.loop}: {place}, {what} {trip.number + 1} of {trip.count}"

    def _said(self, event: Event, lane: int | None, accesses: tuple[Access, ...]) -> str:
        op = event.op
        if isinstance(op, AccumulateOp):
            return self._added(event, lane, accesses)
        if isinstance(op, memref.StoreOp | vector.StoreOp):
            how = "non-temporal store: " if is_nontemporal(op) else ""
            return how + self._moved(accesses, "is stored to")
        if isinstance(op, memref.LoadOp | vector.LoadOp | MaskedLoadOp):
            name = self.name(op.results[0], lane)
            if not accesses:
                return f"{name} = 0: {self._operand(event, len(op.operands) - 1)} is false, and nothing is read"
            return f"{name} = {self._moved(accesses, '')}"
        if isinstance(op, ResolveOp):
            return self._resolved(event, op)
        if isinstance(op, memref.DimOp):
            return f"{self._result(event, lane)}, the size of dimension {event.operands[1]} of {self.name(op.source)}"
        if isinstance(op, memref.AllocaOp | memref.AllocOp):
            kind = op.memref.type
            assert isinstance(kind, MemRefType)
            given = event.operands if isinstance(op, memref.AllocOp) else kind.get_shape()
            sizes = "x".join(map(str, given))
            return f"{self.name(op.memref)} is a new buffer of {sizes} {kind.element_type}"
        if isinstance(op, memref.DeallocOp):
            return f"{self.name(op.memref)} is given back"
        if isinstance(op, LoopOp | scf.ForOp | scf.ParallelOp | scf.IfOp):
            loop = ", ".join(loop_names(op)) or "the branch"
            what = "given by" if isinstance(op, scf.IfOp) else "the sum over"
            none = ": no index is outside" if op.results[0].name_hint == "n_outside" and not event.results[0] else ""
            return f"{self._result(event, lane)}, {what} {loop}{none}"
        if op.results:
            return self._computed(event, lane)
        return op.name

    def _computed(self, event: Event, lane: int | None) -> str:
        op = event.op
        name, got = self.name(op.results[0], lane), self._text(op.results[0], event.results[0], lane)
        names = [self._operand(event, number, lane, named=True) for number in range(len(op.operands))]
        values = [self._operand(event, number, lane) for number in range(len(op.operands))]

        def steps(form: str) -> str:
            called, known = form.format(*names), form.format(*values)
            said = f"{name} = {called} = {got}" if called == known else f"{name} = {called} = {known} = {got}"
            purpose = PURPOSES.get(op.results[0].name_hint or "")
            return said if purpose is None or event.results[0] == event.operands[0] else f"{said} ({purpose})"

        if op.name in INFIX:
            return steps(f"{{}} {INFIX[op.name]} {{}}")
        if op.name in FUNCTIONS:
            return steps(f"{FUNCTIONS[op.name]}({{}}, {{}})")
        if isinstance(op, arith.CmpiOp):
            predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
            unsigned = "unsigned " if predicate.startswith("u") else ""
            return steps(f"{{}} {unsigned}{COMPARED[predicate.lstrip('us')]} {{}}")
        if isinstance(op, arith.SelectOp):
            chosen, condition = names[1 if values[0] == "true" else 2], values[0]
            said = got if chosen == got else f"{chosen} = {got}"
            return f"{name} = {said}, since {names[0]} is {condition}"
        if op.name in CASTS:
            return f"{name} = {names[0]} = {got} as {op.results[0].type}"
        if lane is not None and op.name in ("vector.from_elements", "vector.broadcast"):
            source = names[0 if op.name == "vector.broadcast" else lane]
            return f"{name} = {got}" if source == got else f"{name} = {source} = {got}"
        if op.name == "memref.extract_aligned_pointer_as_index":
            return f"{name} = address of {names[0]} = {got}"
        return f"{name} = {op.name}({', '.join(values)}) = {got}"

    def _result(self, event: Event, lane: int | None) -> str:
        result = event.op.results[event.result]
        return f"{self.name(result, lane)} = {self._text(result, event.results[event.result], lane)}"

    def _operand(self, event: Event, number: int, lane: int | None = None, *, named: bool = False) -> str:
        """Return an operand's value as text, or its name; a constant is its value."""
        value = event.op.operands[number]
        if isinstance(value.type, MemRefType):
            return self.name(value)
        is_constant = isinstance(value.owner, arith.ConstantOp) and isinstance(
            value.owner.value, IntegerAttr | FloatAttr
        )
        if named and not is_constant:
            return self.name(value, lane)
        return self._text(value, event.operands[number], lane)

    def _text(self, value: SSAValue, got: Any, lane: int | None) -> str:
        shown = self.value(value, got, lane)
        return str(shown).lower() if isinstance(shown, bool) else str(shown)

    def _moved(self, accesses: tuple[Access, ...], is_stored: str) -> str:
        parts = []
        for access in accesses:
            said = f"{access.value} {is_stored} {access}" if is_stored else f"{access} = {access.value}"
            parts.append(f"{said}: byte {access.byte}, cache line {access.cache_line}")
        return "; ".join(parts)

    def _added(self, event: Event, lane: int | None, accesses: tuple[Access, ...]) -> str:
        assert isinstance(event.op, AccumulateOp)
        values = dict(zip(event.op.operands, event.operands, strict=True))
        if len(accesses) != 2:
            return f"nothing is added: {self.name(event.op.mask) if event.op.mask else 'its mask'} is false"
        before, after = accesses
        element = self._operand(event, 0, lane)
        place = f"byte {after.byte}, cache line {after.cache_line}"
        if event.op.first is not None:
            if values[event.op.first] & 1:
                return f"{after} = {element}, the first of its bag: {place}"
            return f"{after} = the larger of {before.value} and {element} = {after.value}: {place}"
        return f"{after} = {before.value} + {element} = {after.value}: {place}"

    def _resolved(self, event: Event, op: ResolveOp) -> str:
        index, size = event.operands
        if op.unsigned is not None:
            assert isinstance(op.index.type, IntegerType)
            index &= (1 << op.index.type.width.data) - 1
        said = explained(index, size, op.bounds.data)
        if not event.results:
            return said
        position, valid = event.results
        name = self.name(op.position)
        return f"{said}; {name} = {position}" if valid else f"{said}; {self.name(op.valid)} is false"


def trips_of(event: Event, words: Words) -> tuple[Trip, ...]:
    """Return the loops whose iteration an event begins: none of a branch, several of a `scf.parallel` of several."""
    op = event.op
    if isinstance(op, scf.IfOp):
        return ()
    count = len(op.regions[0].block.args) if isinstance(op, scf.ParallelOp) else 1
    names = loop_names(op) or ("loop",) * count
    is_parallel = isinstance(op, scf.ParallelOp) or (isinstance(op, LoopOp) and op.parallel is not None)
    trips = []
    for number, name in enumerate(names):
        lower, upper, step = event.operands[number : 3 * count : count]
        value = event.results[number]
        variable = words.name(op.regions[0].block.args[number])
        ordinal, total = (value - lower) // step, -(-(upper - lower) // step)
        is_tile = LoopName(name).is_outer_tile
        trips.append(Trip(name, variable, value, ordinal, total, lower, upper, step, is_parallel, is_tile))
    return tuple(trips)


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


# An operation takes some 15 microseconds, and an element some ten operations.
MOST_ELEMENTS = 300_000


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
        stage: what the stage is called.
        problem, data, indices: the gather with its arrays; of a gradient, `data` is grad.
        element: its position in the result, or its number in C order.
        file: what messages call the text.
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
    threads = available_threads() if threads is None else threads
    if threads < 1:
        raise InvalidGatherError(f"threads must be a whole number from 1, got {threads}")
    steps, sources, error, value = StageRun(text, file, problem, data, indices, position, threads).steps()
    undefined = problem.bounds is Bounds.UNCHECKED and _breaks_promise(problem, indices)
    expected: Any = None
    must_fail = False
    if not undefined:
        try:
            expected = reference.of_problem(problem, data, indices)[position]
        except BoundsError:
            must_fail = True
    same = value is not None and expected is not None and np.asarray(value).tobytes() == np.asarray(expected).tobytes()
    is_right = undefined or (isinstance(error, BoundsError) if must_fail else error is None and same)
    facts = {"is_right": is_right, "undefined": undefined, "threads": threads}
    said = remarks(problem, indices, position, steps, value, expected, error, **facts)
    failed = None if error is None else str(error)
    gather = gather_line(problem)
    return Steps(gather, stage, text, position, value, expected, sources, said, failed, is_right, steps)


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
        given = ",".join(map(str, element)) if isinstance(element, Sequence) else element
        last = ",".join(str(size - 1) for size in shape)
        position_form = f"a position up to {last}, or " if shape else ""
        raise InvalidGatherError(
            f"element {given} is outside of the result of shape {shape}; give {position_form}a number from 0 to "
            f"{size - 1}"
        )
    return position


def gather_line(problem: Problem) -> str:
    """Return a problem in a line."""
    return f"{problem.name} {problem.source} by {problem.indices} -> {problem.result}, {problem.options}"


def _breaks_promise(problem: Problem, indices: np.ndarray) -> bool:
    sizes = np.array(problem.axis_sizes, object)
    parts = indices.reshape(-1, len(sizes)) if len(sizes) > 1 else indices.reshape(-1, 1)
    return bool(((parts < 0) | (parts >= sizes)).any())


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
        module: a stage to step through instead of one made here: MLIR text, a file of it, or a module.
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
    source, index = _array(data, data_array), _array(indices, index_array)
    if isinstance(operator, str) and operator.endswith("_grad") and data_shape is None:
        raise InvalidGatherError(f"{operator} needs the shape of data, got none; pass data_shape=(...)")
    table = source if data_shape is None else ArraySpec(data_shape, source.dtype)
    problem = problem_of(operator, table, index, axis, batch_dims=batch_dims, bounds=bounds, scale=scale)
    if seed < 0:
        raise InvalidGatherError(f"seed must be 0 or more, got {seed}")
    rng = np.random.default_rng(seed)
    source, index = filled(source, rng), filled(index, rng, problem)
    if module is None:
        chosen = None if schedule is None else Schedule.parse(schedule)
        passes = make_plan(problem, chosen).pipeline if pipeline is None else pipeline
        name, text = stage_of(module_of(problem), passes, stage or SCHEDULED_NEST, falls_back=stage is None)
    else:
        name = str(module) if isinstance(module, Path) else "<text>"
        text = module.read_text(encoding="utf-8-sig") if isinstance(module, Path) else str(module)
        name, text = stage_of_text(text, name, pipeline, stage)
    return step_stage(text, name, problem, source, index, element, file=name, threads=threads)


def stage_of(module: ModuleOp, pipeline: str, name: str | None, *, falls_back: bool = False) -> tuple[str, str]:
    """Run a pipeline on a module, and return the name and the text of a stage.

    Args:
        name: of the stage; the last one when omitted.
        falls_back: whether the last stage stands in for one that is not there.

    Raises:
        InvalidGatherError: there is no such stage.
    """
    stages = stages_by_name(record_stages(module, parse_passes(pipeline) if pipeline else []))
    last = list(stages)[-1]
    name = last if name is None or (falls_back and name not in stages) else name
    if name not in stages:
        raise InvalidGatherError(
            f"there is no stage {name!r}; the stages are {', '.join(stages)}{did_you_mean(name, stages)}"
        )
    return name, stages[name].text


def stage_of_text(text: str, file: str, pipeline: str | None, name: str | None) -> tuple[str, str]:
    """Return the name and the text of a stage of a module that is given as text: as it is where nothing is to run.

    Args:
        pipeline: passes to run; where omitted and a stage is named, those that are left.
        name: of the stage; the last one when omitted.

    Raises:
        InputError: the text does not parse or is not valid.
        InvalidGatherError: there is no such stage.
    """
    module = read_module(text, file, make_context())
    passes = ("" if name is None else rest_of(module)) if pipeline is None else pipeline
    return stage_of(module, passes, name) if passes or name is not None else (file, text)


def _array(given: Any, check: Any) -> Any:
    if isinstance(given, ArraySpec):
        return given
    return ArraySpec.parse(given) if isinstance(given, str) else check(given)
