"""What one element of a result went through in a stage, as frozen values: text, HTML and JSON of it. Plain Python."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

from ...lowering import static_html as html

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """A load or a store of one element.

    Attributes:
        array: `data`, `indices`, `out` or `grad`, or the name of a buffer.
        position: where in the array, as the caller counts; of a buffer, its subscripts.
        byte: offset of the element from the first byte of the array.
        cache_line: number of its cache line, from the array's first byte.
        is_store: whether it is written.
        value: what is read or written, as the caller's dtype has it.
        unit: which part of the element, where a stage moves it in several; else None.
    """

    array: str
    position: Shape
    byte: int
    cache_line: int
    is_store: bool
    value: Any
    unit: int | None = None

    def __str__(self) -> str:
        unit = "" if self.unit is None else f" part {self.unit}"
        return f"{self.array}{list(self.position)}{unit}"


@dataclass(frozen=True, slots=True)
class Trip:
    """The iteration of a loop that an operation ran in.

    Attributes:
        loop: the name of the loop, such as `indices_o`.
        variable: what the stage calls its induction variable.
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


@dataclass(frozen=True, slots=True)
class Step:
    """One operation that the element depends on, as it ran.

    Attributes:
        op: name of the operation, such as `memref.load`; of an iteration that begins, of its loop.
        text: its line in the stage.
        line: number of that line from 1; None where the step is a rule and no line.
        trips: the iterations around it, outermost first.
        values: its operands and results by name; of vectors, `name[lane]`.
        note: what happened, in plain words.
        accesses: what it loads and stores.
        lane: of a vector, the lane that holds the element.
        needs: numbers of the steps, from 0, that it directly depends on.
    """

    op: str
    text: str
    line: int | None
    trips: tuple[Trip, ...]
    values: dict[str, Any]
    note: str
    accesses: tuple[Access, ...] = ()
    lane: int | None = None
    needs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Steps(Sequence[Step]):
    """The steps of one element of a gather's result through one stage, in the order in which they ran.

    Attributes:
        gather: the gather in a line.
        stage: the name of the stage.
        text: its MLIR; `Step.line` counts its lines.
        element: position of the element in the result.
        value: what the stage leaves there; None where the call fails, or nothing is written.
        expected: what the operator's reference gives; None where the call must be rejected.
        sources: positions in data, or in grad of a gradient, of what the stage read for the element, in order.
        remarks: in plain words: what the operator's rule says, addresses, tile and thread.
        error: why the call fails; None where it does not.
        is_right: whether the bytes are those of the reference, or a call fails that must.
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
        """Return what stands before the steps: the gather, the element and the remarks."""
        return "\n".join([f"{self.gather}; stage {self.stage}", *self.remarks])

    def show(self, number: int) -> str:
        """Return one step as lines of text: its number and place, its line of the stage, and what happened."""
        step = self.steps[number]
        return f"{self._place(number)}\n    {step.text}\n    {step.note}"

    def _place(self, number: int) -> str:
        step = self.steps[number]
        trips = " ".join(f"{trip.variable}={trip.value}" for trip in step.trips)
        line = "" if step.line is None else f" line {step.line}"
        return f"[{number + 1}/{len(self)}]{line}{f'  {trips}' if trips else ''}"

    def __str__(self) -> str:
        lines, before = [self.head()], None
        for number, step in enumerate(self.steps):
            is_same = before is not None and (step.text, step.line, step.trips) == before
            lines.append(f"{self._place(number)}\n    {step.note}" if is_same else self.show(number))
            before = step.text, step.line, step.trips
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return all of it as what `json.dumps` takes; the fields are those of the values."""
        facts = asdict(self)
        facts["value"], facts["expected"] = plain(self.value), plain(self.expected)
        for step in facts["steps"]:
            step["values"] = {name: plain(value) for name, value in step["values"].items()}
            for access in step["accesses"]:
                access["value"] = plain(access["value"])
        return facts

    def to_html(self) -> str:
        """Return the steps as a table in HTML, without scripts, and the stage's text behind it."""
        head, *remarks = self.head().splitlines()
        rows = [(f"{number + 1}", *self._cells(step)) for number, step in enumerate(self.steps)]
        titles = ("step", "line", "iteration", "operation", "what happened")
        said = "".join(map(html.paragraph, remarks))
        return html.fragment(head, said, html.table([titles, *rows]), html.fold("The stage", html.code(self.text)))

    def _cells(self, step: Step) -> tuple[str, str, str, str]:
        trips = ", ".join(f"{trip.variable} = {trip.value}" for trip in step.trips)
        return "" if step.line is None else str(step.line), trips, step.text, step.note

    def _repr_html_(self) -> str:
        return self.to_html()


def plain(value: Any) -> Any:
    """Return a value of an element as JSON has it: a number where it is finite, or else text."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
