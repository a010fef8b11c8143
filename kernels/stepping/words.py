"""What an operation did, in plain words with its values."""

from typing import Any

import numpy as np
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, MemRefType, VectorType
from xdsl.ir import Operation, SSAValue

from ...ir.dialects.attributes import LOOP_NAMES
from ...ir.dialects.gather_dialect import AccumulateOp, LoopOp, MaskedLoadOp, ResolveOp
from ...ir.dialects.types import numpy_dtype
from ...ir.dialects.upstream import is_nontemporal
from ...ir.interpreters.recorder import Event, Part, vector_width
from ...ir.loop_name import LoopName
from .arrays import decoded
from .rule import explained
from .steps import Access, Trip

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


def loop_names(op: Operation) -> list[str]:
    """Return the names of the loops that an operation is."""
    if isinstance(op, LoopOp):
        return [op.label]
    names = getattr(op.attributes.get(LOOP_NAMES), "data", "")
    count = len(op.regions[0].block.args) if isinstance(op, scf.ParallelOp) else int(isinstance(op, scf.ForOp))
    return names.split(",") if names else ["loop"] * count


def trips_of(event: Event, words: Words) -> tuple[Trip, ...]:
    """Return the loops whose iteration an event begins: none of a branch, several of a `scf.parallel` of several."""
    op = event.op
    if isinstance(op, scf.IfOp):
        return ()
    names = loop_names(op)
    count = len(names)
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
