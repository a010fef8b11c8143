"""The trace of one element of a result: which operations ran, with which values, on which bytes, by which thread.

`Steps` are frozen values, and print themselves as a table, as HTML and as JSON. `Arrays` finds the caller's element and
its bytes behind a load or a store of a stage.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

import numpy as np
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from ..ir.array_spec import contiguous_strides
from ..ir.dialects.attributes import LOOP_NAMES
from ..ir.dialects.gather_dialect import LoopOp
from ..ir.dialects.types import numpy_dtype
from ..ir.interpreters.recorder import Touch
from ..lowering import static_html as html
from ..lowering.nest.queries import argument_number, viewed
from ..lowering.schedule.machine_model import LINE_BYTES

Shape = tuple[int, ...]
# The names of the arrays of a gather and of a gradient.
ROLES = ("data", "grad", "indices", "out")
COLUMNS = ("step", "line", "thread", "operation", "operands", "value", "address")


@dataclass(frozen=True, slots=True)
class Access:
    """A load, a store or a prefetch of one element.

    Attributes:
        array: `data`, `indices`, `out` or `grad`, or the name of a buffer.
        position: where in the array, as the caller counts; of a buffer, its subscripts; None outside of the array,
            where only a prefetch may be.
        byte: offset of the element from the first byte of the array.
        cache_line: number of its cache line, from the array's first byte.
        is_store: whether it is written.
        value: the value that is read or written, as the caller's dtype has it; None of a prefetch.
        unit: which part of the element, where a stage moves it in several; else None.
    """

    array: str
    position: Shape | None
    byte: int
    cache_line: int
    is_store: bool
    value: Any
    unit: int | None = None

    def __str__(self) -> str:
        place = " outside" if self.position is None else str(list(self.position))
        return f"{self.array}{place}{'' if self.unit is None else f' part {self.unit}'}"

    @property
    def address(self) -> str:
        """The element with its byte and its cache line."""
        return f"{self} byte {self.byte} line {self.cache_line}"


@dataclass(frozen=True, slots=True)
class Trip:
    """The iteration of a loop that an operation ran in.

    Attributes:
        loop: the name of the loop, such as `indices_o`.
        variable: the name of its induction variable in the stage.
        value: of the induction variable.
        number, count: which iteration it is, from 0, and how many there are.
        lower, upper, step: the bounds that the loop was entered with; `upper` is behind the last value.
        is_parallel: whether threads share the iterations.
        is_tile: whether the loop runs over tiles.
    """

    loop: str
    variable: str
    value: int
    number: int
    count: int
    lower: int
    upper: int
    step: int
    is_parallel: bool = False
    is_tile: bool = False

    def __str__(self) -> str:
        kinds = ", ".join(["parallel"] * self.is_parallel + ["tiles"] * self.is_tile)
        return f"{self.loop} {self.number + 1} of {self.count}{f' ({kinds})' if kinds else ''}"


@dataclass(frozen=True, slots=True)
class Step:
    """One operation that the element depends on, as it ran.

    Attributes:
        op: name of the operation, such as `memref.load`; of an iteration that begins, with the names of its loops.
        text: its line in the stage.
        line: number of that line from 1.
        trips: the iterations around it, outermost first.
        operands, results: its values by name; of vectors, `name[lane]`.
        accesses: its loads, stores and prefetches.
        lane: of a vector, the lane that holds the element.
        thread: which thread of a team begins with its iteration; None outside of parallel loops.
        needs: numbers of the steps, from 0, that it directly depends on.
        error: why it failed; None where it did not.
    """

    op: str
    text: str
    line: int
    trips: tuple[Trip, ...]
    operands: Mapping[str, Any]
    results: Mapping[str, Any]
    accesses: tuple[Access, ...] = ()
    lane: int | None = None
    thread: int | None = None
    needs: tuple[int, ...] = ()
    error: str | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its row of the table: `COLUMNS` from `line` on."""
        values = _listed(self.results) or ", ".join(shown(each.value) for each in self.accesses if each.is_store)
        places = "; ".join(dict.fromkeys(access.address for access in self.accesses))
        thread = "" if self.thread is None else str(self.thread)
        return str(self.line), thread, self.op, _listed(self.operands), "fails" if self.error else values, places

    def __str__(self) -> str:
        *_, op, operands, value, address = self.cells
        arrow = f" -> {value}" if value else ""
        return f"{op} {operands}".rstrip() + arrow + (f"  {address}" if address else "")


@dataclass(frozen=True, slots=True)
class Steps(Sequence[Step]):
    """The steps of one element of a gather's result through one stage, in the order in which they ran.

    Attributes:
        gather: the gather in a line.
        stage: the name of the stage.
        text: its MLIR; `Step.line` counts its lines.
        element: position of the element in the result.
        value: the value that the stage leaves there; None where the call fails, or nothing is written.
        expected: the value of the operator's reference; None where the call must be rejected.
        sources: positions in data, or in grad of a gradient, that the stage read for the element, in order.
        remarks: the outcome, the sources and the iterations of the last store, a line each.
        error: why the call fails; None where it does not.
        is_right: whether the bytes equal the reference's, or a call fails that must.
        steps: the steps.
    """

    gather: str
    stage: str
    text: str
    element: Shape
    value: Any
    expected: Any
    sources: tuple[Shape, ...]
    remarks: tuple[str, ...]
    error: str | None
    is_right: bool
    steps: tuple[Step, ...]

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        return self.steps[index]

    def head(self) -> str:
        """Return the lines before the table: the gather, the stage and the remarks."""
        return "\n".join([f"{self.gather}; stage {self.stage}", *self.remarks])

    def _rows(self) -> list[tuple[str, ...]]:
        return [COLUMNS, *((str(number), *step.cells) for number, step in enumerate(self.steps, 1))]

    def __str__(self) -> str:
        return "\n".join([self.head(), *aligned(self._rows(), str.ljust)])

    def to_json(self) -> dict[str, Any]:
        """Return the values as `json.dumps` takes them, under the names of their fields."""
        facts = asdict(self)
        facts["value"], facts["expected"] = plain(self.value), plain(self.expected)
        for step in facts["steps"]:
            for kind in ("operands", "results"):
                step[kind] = {name: plain(value) for name, value in step[kind].items()}
            for access in step["accesses"]:
                access["value"] = plain(access["value"])
        return facts

    def to_html(self) -> str:
        """Return the steps as a table in HTML, without scripts, and the stage's text behind it."""
        head, *remarks = self.head().splitlines()
        said = "".join(map(html.paragraph, remarks))
        return html.fragment(head, said, html.table(self._rows()), html.fold("The stage", html.code(self.text)))

    def _repr_html_(self) -> str:
        return self.to_html()


def aligned(rows: Sequence[Sequence[str]], align: Callable[[str, int], str]) -> list[str]:
    """Return the rows of a table as lines; `align` is `str.ljust` or `str.rjust`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(align, row, widths)).rstrip() for row in rows]


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in values.items())


def shown(value: Any) -> str:
    """Return a value of a step as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def plain(value: Any) -> Any:
    """Return a value of an element as JSON has it: a number where it is finite, or else text."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def thread_of(iteration: int, iterations: int, threads: int) -> int:
    """Return the number of the thread that has an iteration of a parallel loop in its range; 0 is the caller.

    Each of the threads, or of as many as there are iterations, begins with an equal and contiguous range, and takes
    iterations of others when it is done.
    """
    parts = max(min(threads, iterations), 1)
    return ((iteration + 1) * parts - 1) // max(iterations, 1)


def thread_of_trips(trips: Iterable[Trip], threads: int) -> int | None:
    """Return the number of the thread that begins with an iteration; None where no loop around it is parallel."""
    iteration, iterations, is_shared = 0, 1, False
    for trip in trips:
        if trip.is_parallel:
            iteration, iterations, is_shared = iteration * trip.count + trip.number, iterations * trip.count, True
    return thread_of(iteration, iterations, threads) if is_shared else None


class Arrays:
    """The caller's arrays behind the arguments of a stage's function.

    Attributes:
        names: the names: of a gather data, indices and out; of a gradient grad, indices and out.
        arrays: the arrays, in the order of the arguments; without indices where the module holds them.
    """

    def __init__(self, function: func.FuncOp, arrays: dict[str, np.ndarray]):
        self.names, self.arrays = list(arrays), list(arrays.values())
        self.function = function

    def number_of(self, memory: SSAValue) -> int | None:
        """Return the number of the array that a memref is a view of; None for a buffer or a constant."""
        number = argument_number(viewed(memory), self.function)
        return number if number is not None and number < len(self.arrays) else None

    def access(self, memory: SSAValue, touch: Touch, name: str) -> Access:
        """Return a load, a store or a prefetch through a memref, `name` where it is no view of an array."""
        number, kind, root = self.number_of(memory), memory.type, viewed(memory).type
        assert isinstance(kind, MemRefType) and isinstance(root, MemRefType)
        moved = numpy_dtype(root.element_type)
        if number is None:
            strides = contiguous_strides(kind.get_shape(), moved.itemsize)
            byte = sum(part * step for part, step in zip(touch.place, strides, strict=True))
            name = f"constant {name}" if name in ROLES else name  # the stage's own, and not the caller's
            return Access(name, touch.place, byte, byte // LINE_BYTES, touch.is_store, decoded(touch.value, moved))
        array = self.arrays[number]
        byte = touch.address - first_byte(array)
        position, rest = element_at(array, byte)
        is_part = array.itemsize >= 2 * max(moved.itemsize, 1)
        unit = rest // moved.itemsize if is_part and position is not None else None
        value = touch.value if is_part else decoded(touch.value, array.dtype)
        return Access(self.names[number], position, byte, byte // LINE_BYTES, touch.is_store, value, unit)


def element_at(array: np.ndarray, byte: int) -> tuple[Shape | None, int]:
    """Return the position of the element that holds a byte, counted from the first one, and the byte's place in it.

    The position is None outside of all elements. Of elements that share their bytes it is one of theirs.
    """
    position = [0] * array.ndim
    for dim in sorted(range(array.ndim), key=lambda dim: -abs(array.strides[dim])):
        size, stride = array.shape[dim], array.strides[dim]
        count = min(byte // abs(stride), size - 1) if stride else 0
        position[dim] = size - 1 - count if stride < 0 else count
        byte -= count * abs(stride)
        if count < 0:
            return None, byte
    return tuple(position) if 0 <= byte < max(array.itemsize, 1) else None, byte


def decoded(value: Any, dtype: np.dtype) -> Any:
    """Return an element that a stage moves as an integer or as bytes, as a value of a dtype of the same size."""
    if isinstance(value, np.void):
        stored = value.tobytes()
    elif isinstance(value, int) and not dtype.hasobject and dtype.itemsize:
        stored = (value & ((1 << 8 * dtype.itemsize) - 1)).to_bytes(dtype.itemsize, "little")
    else:
        return value
    return np.frombuffer(stored, dtype)[0] if len(stored) == dtype.itemsize else value


def first_byte(array: np.ndarray) -> int:
    """Return the address of the first byte of an array, which strides below 0 put before its first element."""
    steps = zip(array.shape, array.strides, strict=True)
    return array.ctypes.data + sum(min(step, 0) * (size - 1) for size, step in steps if size)


def elements_of(stored: SSAValue) -> set[SSAValue]:
    """Return the values that are an element on its way to a store, from the loads on: not masks, not positions."""
    found: set[SSAValue] = set()
    pending = [stored]
    while pending:
        value = pending.pop()
        owner = value.owner
        if value in found or isinstance(value, BlockArgument):
            continue
        found.add(value)
        if isinstance(owner, arith.SelectOp):
            pending += [owner.lhs, owner.rhs]
        elif isinstance(owner, arith.AndIOp):
            pending.append(owner.lhs)
        elif getattr(owner, "name", "") == "vector.from_elements":
            pending += owner.operands  # type: ignore[union-attr]
    return found


def loop_names(op: Operation) -> tuple[str, ...]:
    """Return the names of a loop: an `scf.parallel` has one for each dimension; a loop may have none."""
    if isinstance(op, LoopOp):
        return (str(op.label),)
    names = op.attributes.get(LOOP_NAMES)
    return tuple(names.data.split(",")) if isinstance(names, StringAttr) else ()
