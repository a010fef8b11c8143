"""A nest and the steps applied to it: each step is a pass that runs at once on a copy of the module. Imports xDSL."""

import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.utils.arg_spec import ArgSpec

from ...ir.dialects.gather_dialect import LoopOp
from ...ir.dialects.types import element_size_bytes
from ...ir.errors import ScheduleError, did_you_mean, show
from ...ir.loop_name import LoopName
from ...ir.modules.context import make_context
from ...ir.modules.pseudocode import print_loop_nest
from ..nest.queries import chain, copying_store, enclosing_loops, functions, loops, sole_inner_loop, sum_of
from ..pipeline import run_passes, run_pipeline
from ..registry import PASSES
from ..schedule import steps
from ..schedule.schedule import Schedule, parse_specs, read_step
from ..schedule.steps import OtherStep, Step, read_options
from .transform_script import read_transform_script, transform_script

# How the part of a pass's reason begins that says what to do instead.
_ADVICE = re.compile(
    r"; ((?:give|hoist|interchange|leave|make|prefetch|run|tile|unroll|use|vectorize|where)\b.*)", re.DOTALL
)
# The steps that are about the innermost loop, which they do not name.
_OF_THE_INNERMOST = (steps.VectorizeInner, steps.GatherLanes, steps.StreamStores)


class StepError(ScheduleError):
    """A step of a schedule is not legal; the nest is as it was before it.

    Attributes:
        step: the call.
        reason: why it is not legal.
        way_out: what to do instead.
        loop: the loop that is marked; None where the step is about none.
        nest: the nest, with the loop marked.
    """

    step: str
    reason: str
    way_out: str
    loop: str | None
    nest: str


@dataclass(frozen=True)
class LoopHandle:
    """One loop of a schedule's nest, through all later steps, as Exo's cursors name one.

    Steps that move a loop, or change how it runs, keep its handle. A step that splits it consumes the handle; it then
    leads to the parts, and a later step that is given the handle says which step consumed it.

    Attributes:
        name: what the nest calls the loop.
    """

    script: "NestScript" = field(repr=False)
    name: LoopName

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<loop {self.name}{'' if self.is_live else f', {self.script.fate(self.name)}'}>"

    @property
    def is_live(self) -> bool:
        """Whether the nest has the loop."""
        return self.name in self.script.labels

    @property
    def parts(self) -> "tuple[LoopHandle, ...]":
        """The loops of the nest that it has become, outermost first: itself, or those that it was tiled into.

        Raises:
            ScheduleError: `undo` has taken back the step that made it.
        """
        if self.is_live:
            return (self,)
        return tuple(leaf for part in self.script.parts(self.name) for leaf in part.parts)

    @property
    def outer(self) -> "LoopHandle":
        """The loop over its tiles; raises ScheduleError where it is not tiled."""
        return self.script.part(self.name, self.name.outer_tile)

    @property
    def inner(self) -> "LoopHandle":
        """The loop within a tile of it; raises ScheduleError where it is not tiled."""
        return self.script.part(self.name, self.name.inner_tile)

    @property
    def remainder(self) -> "LoopHandle":
        """The loop over the iterations that fill no vector or unrolled step; raises ScheduleError where none is."""
        return self.script.part(self.name, self.name.remainder)


@dataclass(frozen=True)
class _State:
    """The nest after a step, which is None for the nest as it came."""

    module: ModuleOp
    step: Step | None = None
    call: str = ""

    @property
    def labels(self) -> tuple[LoopName, ...]:
        return tuple(loop.label for loop in loops(self.module))


class NestScript:
    """A schedule that is written step by step.

    Each step is checked, applied at once, and shown by `nest`. A step that is not legal raises a `StepError` and
    changes nothing. Loops are named by text or by handle.
    """

    def __init__(self, module: ModuleOp, around: tuple[str, str], *, vector_bytes: int, row_bytes: int | None):
        """Begin with a nest.

        Args:
            module: the nest, at the level at which schedules are applied.
            around: the passes that led to it, and those that lead from it to loops.
            vector_bytes: of the vectors that `vectorize` makes when no lanes are given.
            row_bytes: bytes of a row, which `specialize` may make part of the code; None where there is no row.
        """
        self._states = [_State(module)]
        self._around, self._vector_bytes, self._row_bytes = around, vector_bytes, row_bytes
        self._context = make_context()

    # The steps

    if TYPE_CHECKING:  # the steps whose methods are not below: see `_method`

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def tile(
        self, loop: LoopHandle | str, size: int, *, tail: Literal["guard", "perfect"] = "guard"
    ) -> tuple[LoopHandle, LoopHandle]:
        """Split a loop `x` into `x_o` over tiles and `x_i` within one, and return both.

        Args:
            loop: any loop whose step is a constant, such as a tile of another or a loop over vectors.
            size: iterations a tile, each of the loop's step.
            tail: `guard` lets the last tile end early; `perfect` demands that the size is known to divide.
        """
        call = _call("tile", (loop, size), {} if str(tail) == "guard" else {"tail": tail})
        self._step(steps.TileLoops, {"loops": (loop,), "sizes": (size,), "tail": tail}, call)
        name = LoopName(str(loop))
        return LoopHandle(self, name.outer_tile), LoopHandle(self, name.inner_tile)

    def interchange(self, *order: LoopHandle | str) -> Self:
        """Put loops of one perfect nest in this order, outermost first; the others of the nest keep their places."""
        call = _call("interchange", order, {})
        names = [self._name(loop, call) for loop in order]
        return self._step(steps.InterchangeLoops, {"order": self._whole_order(names)}, call)

    def vectorize(self, loop: LoopHandle | str | None = None, lanes: int | None = None) -> Self:
        """Copy or add several elements at a time in the innermost loop.

        Args:
            loop: the innermost loop, for a check; omitted, it is that.
            lanes: elements a vector, a power of two; as many as fill a vector of this machine when omitted.
        """
        given = {"loop": loop, "lanes": lanes}
        call = _call("vectorize", [value for value in given.values() if value is not None], {})
        innermost, width_bytes = self._innermost()
        if loop is not None and innermost not in (None, name := self._name(loop, call)):
            reason = f"{name} is not the innermost loop of the copy, which is {innermost}"
            raise self._rejected(call, f"{reason}; vectorize {innermost}, or interchange the two", [name])
        lanes = max(self._vector_bytes // width_bytes, 2) if lanes is None else lanes
        return self._step(steps.VectorizeInner, {"lanes": lanes}, call)

    def specialize(self, row_bytes: int | None = None) -> Self:
        """Make the size of a row part of the code; that of the arrays at hand when omitted."""
        call = _call("specialize", () if row_bytes is None else (row_bytes,), {})
        known = self._row_bytes
        row_bytes = known if row_bytes is None else row_bytes
        if known is None or not isinstance(row_bytes, int) or row_bytes != known:
            has = "there is no row" if known is None else f"rows have {known} bytes, got {show(row_bytes)}"
            raise self._rejected(call, has, [])
        return self._step(steps.SpecializeInner, {"bytes": row_bytes}, call)

    def apply(self, passes: Schedule | str) -> Self:
        """Apply a `gn.Schedule` or passes as text, each as a step: all of them, or none where one is not legal.

        Passes of other packages are applied by their names.
        """
        return self._apply(parse_specs(str(passes) if isinstance(passes, Schedule) else passes))

    def from_transform(self, script: str) -> Self:
        """Apply the steps of a script of MLIR's `transform` dialect, as `to_transform` prints it: all, or none."""
        return self._apply(read_transform_script(script))

    def undo(self) -> Self:
        """Take back the last step; raises ScheduleError when there is none."""
        if len(self._states) == 1:
            raise ScheduleError("there is no step to undo; the nest is as it came")
        self._states.pop()
        return self

    # What it is now

    def __str__(self) -> str:
        return ",".join(text for text in (self._around[0], self.passes, self._around[1]) if text)

    def __repr__(self) -> str:
        return f"<schedule {self.passes or 'without steps'}>\n{self.nest}"

    @property
    def passes(self) -> str:
        """The steps as passes with options; `str` of a script has the passes around them, too."""
        return ",".join(map(str, self._steps))

    @property
    def calls(self) -> tuple[str, ...]:
        """The steps as calls in Python, such as `tile("indices", 64)`."""
        return tuple(state.call for state in self._states[1:])

    @property
    def nest(self) -> str:
        """The nest as pseudocode."""
        return print_loop_nest(self._module)

    @property
    def ir(self) -> str:
        """The nest as MLIR text."""
        return str(self._module) + "\n"

    @property
    def schedule(self) -> Schedule:
        """The frozen value that has these steps.

        Raises:
            ScheduleError: it has none, since a `gn.Schedule` has one order of the passes.
        """
        return Schedule.parse(",".join(map(str, _merged(self._steps))))

    @property
    def labels(self) -> tuple[LoopName, ...]:
        """The names of the nest's loops, in the order of the code."""
        return self._states[-1].labels

    @property
    def loops(self) -> tuple[LoopHandle, ...]:
        """The loops, in the order of the code."""
        return tuple(LoopHandle(self, name) for name in self.labels)

    def loop(self, name: str) -> LoopHandle:
        """Return the handle of a loop; raises StepError when the nest has none of that name."""
        return LoopHandle(self, self._name(name, _call("loop", (name,), {})))

    def to_transform(self) -> str:
        """Return the steps as a script of MLIR's `transform` dialect, which `from_transform` reads back."""
        return transform_script(self._steps)

    # What became of a loop

    def fate(self, name: str) -> str:
        """Return what became of a loop that the nest has no more."""
        consumed = self._consumed(name)
        if consumed is None:
            return "of a step that undo took back"
        number, parts = consumed
        into = f", into {' and '.join(parts)}" if parts else ""
        return f"consumed by step {number}, {self._states[number].call}{into}"

    def parts(self, name: str) -> tuple[LoopHandle, ...]:
        """Return the loops that a consumed loop was split into; raises ScheduleError where no step consumed it."""
        consumed = self._consumed(name)
        if consumed is None:
            raise ScheduleError(f"loop {name} is {self.fate(name)}; take a new handle with loop()")
        return tuple(LoopHandle(self, part) for part in consumed[1])

    def part(self, name: LoopName, wanted: LoopName) -> LoopHandle:
        """Return the handle of a part of a loop; raises ScheduleError where no step made it."""
        if not any(wanted in state.labels for state in self._states):
            raise ScheduleError(f"no step made {wanted} of {name}; the nest has {', '.join(self.labels)}")
        return LoopHandle(self, wanted)

    def _consumed(self, name: str) -> tuple[int, list[LoopName]] | None:
        """Return the number of the step after which the nest has a loop no more, and the loops that the step made."""
        labels = [state.labels for state in self._states]
        for number, (before, after) in enumerate(itertools.pairwise(labels), 1):
            if name in before and name not in after:
                return number, [label for label in after if label not in before]
        return None

    # How a step is applied

    @property
    def _module(self) -> ModuleOp:
        return self._states[-1].module

    @property
    def _steps(self) -> list[Step]:
        return [state.step for state in self._states if state.step is not None]

    def _name(self, loop: LoopHandle | str, call: str) -> LoopName:
        """Return the name of a loop that the nest has; raises StepError, or ScheduleError for what is no loop."""
        if isinstance(loop, LoopHandle) and loop.script is not self:
            raise ScheduleError(f"{loop!r} belongs to another schedule; take this one's with loop({loop.name!r})")
        if not isinstance(loop, LoopHandle | str):
            raise ScheduleError(f"a loop is named by text or by a handle, got {show(loop)}")
        name = LoopName(str(loop))
        if name in self.labels:
            return name
        if (consumed := self._consumed(name)) is not None or isinstance(loop, LoopHandle):
            parts = [] if consumed is None else [part.name for part in LoopHandle(self, name).parts]
            advice = f"use {' or '.join(parts)}" if parts else "use one of the loops above"
            raise self._rejected(call, f"loop {name} is {self.fate(name)}; {advice}", parts)
        known = f"it has {', '.join(self.labels)}{did_you_mean(name, self.labels)}; use one of these"
        raise self._rejected(call, f"the nest has no loop {str(name)!r}: {known}", [])

    def _step(self, kind: type[Step], options: Mapping[str, Any], call: str) -> Self:
        """Check the options of a step, and apply it."""
        given = {name: _values(value) for name, value in options.items() if value is not None}
        named: list[LoopName] = []
        for name in [name for name in given if kind.options[name].is_loop]:
            if not given[name]:
                raise self._rejected(call, f"name at least one loop; the nest has {', '.join(self.labels)}", [])
            given[name] = tuple([self._name(loop, call) for loop in given[name]])
            named += given[name]
        try:
            step = kind(**read_options(kind.name, kind.options, given))
        except ScheduleError as error:
            raise self._rejected(call, str(error), named, kind.name) from None
        return self._run(step, call)

    def _run(self, step: Step, call: str) -> Self:
        """Apply a step to a copy of the nest, and keep it when it is legal."""
        module, innermost = self._module.clone(), self._innermost()[0]
        try:
            if step.name in PASSES and isinstance(step, OtherStep):
                raise ScheduleError(f"{step.name} is no step of a schedule; leave it out")
            try:
                run_passes(module, str(step), self._context)
                module.verify()
            except ScheduleError:
                raise
            except Exception:  # again with the recorder, which saves what repeats it, and takes longer by a third
                run_pipeline(self._module.clone(), str(step), self._context)
                raise
        except ScheduleError as error:
            named = _loops_of(step) or ([innermost or ""] if isinstance(step, _OF_THE_INNERMOST) else [])
            raise self._rejected(call, str(error), named, step.name) from None
        self._states.append(_State(module, step, call_of(step, innermost)))
        return self

    def _apply(self, specs: Iterable[ArgSpec]) -> Self:
        kept = self._states.copy()
        try:
            for spec in specs:
                step = OtherStep(spec.name, spec.parameters)
                try:
                    step = read_step(spec) if spec.name in steps.STEPS else step
                except ScheduleError as error:
                    raise self._rejected(call_of(step), str(error), [], spec.name) from None
                if isinstance(step, steps.TileLoops) and len(step.loops) == len(step.sizes):  # a step for each loop
                    for loop, size in zip(step.loops, step.sizes, strict=True):
                        one = step.replace(loops=(loop,), sizes=(size,))
                        self._run(one, call_of(one))
                else:
                    self._run(step, call_of(step))
        except BaseException:
            self._states = kept
            raise
        return self

    def _rejected(self, call: str, reason: str, names: Sequence[str], kind: str = "") -> StepError:
        """Return the error of a step, in the words of the language unless it is a pass by its name.

        Args:
            call: the step.
            reason: why it is not legal; advice in it goes before the remedy of the step.
            names: the loops that the step is about; the one that the reason names first is marked, or else the first.
            kind: the name of the pass, which the reason begins with.
        """
        method = call.partition("(")[0]
        reason, remedy = reason.removeprefix("pass ").removeprefix(f"{kind}: "), Step.way_out
        for step in () if method == "apply" else steps.STEPS.values():
            reason, remedy = reason.replace(step.name, step.method), step.way_out if step.method == method else remedy
        if advice := _ADVICE.search(reason):
            reason, remedy = reason[: advice.start()], advice[1]
        present = [loop for loop in names if _head(loop).search(self.nest)]
        words = re.findall(r"\w+", reason)
        loop = min(present, key=lambda name: words.index(name) if name in words else len(words), default=None)
        marked = mark(self.nest, loop)
        number = len(self._states)
        error = StepError(f"step {number}, {call}, is not legal: {reason}\n\n{marked}\nWay out: {remedy}.")
        error.step, error.reason, error.way_out, error.loop, error.nest = call, reason, remedy, loop, marked
        return error

    def _innermost(self) -> tuple[LoopName | None, int]:
        """Return the innermost loop around the element that is copied or added, and the bytes of that."""
        for function in functions(self._module):
            access = sum_of(function) or copying_store(function)
            if access is not None and (loop := next(enclosing_loops(access), None)) is not None:
                kind = access.operands[0].type
                return loop.label, element_size_bytes(kind.element_type if isinstance(kind, VectorType) else kind)
        return None, 1

    def _whole_order(self, names: Sequence[LoopName]) -> list[LoopName]:
        """Return the order of all loops of a perfect nest that has the named ones in this order, in their places."""
        by_name = {loop.label: loop for loop in loops(self._module)}
        if not names or len(set(names)) < len(names):
            return list(names)
        top = by_name[names[0]]
        while isinstance(around := top.parent_op(), LoopOp) and sole_inner_loop(around) is top:
            top = around
        nest, places = [loop.label for loop in chain(top)], iter(names)
        if not set(names) <= set(nest) or len(set(nest)) < len(nest):
            return list(names)
        return [next(places) if name in names else name for name in nest]


def _method(kind: type[Step]) -> Callable[..., Any]:
    """Return the method of a step: its arguments are the options, those without a default first.

    The loops of a step that has nothing else are its positional arguments.
    """
    defaults = DEFAULTS.get(kind, {})
    (only,) = kind.options.values() if len(kind.options) == 1 else (None,)
    takes_loops = only is not None and only.kind == tuple[str, ...]
    known = {name: defaults.get(name, each.default) for name, each in kind.options.items()}
    named = sorted(known, key=lambda name: (known[name] is not steps.REQUIRED, name in defaults))
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.VAR_POSITIONAL if takes_loops else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if known[name] is steps.REQUIRED else known[name],
        )
        for name in named
    ]
    signature = inspect.Signature(parameters)

    def method(self: "NestScript", *positional: Any, **options: Any) -> "NestScript":
        try:
            bound = signature.bind(*positional, **options).arguments
        except TypeError as error:
            raise TypeError(f"{method.__name__}: {error}") from None
        none = {named[0]: ()} if takes_loops else {}
        return self._step(kind, {**defaults, **none, **bound}, _call(method.__name__, positional, options))

    method.__name__ = kind.method
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__dict__["__signature__"] = signature.replace(parameters=[own, *parameters])
    arguments = ["", "Args:", *(f"    {kind.options[name].described}" for name in named)] if named else []
    method.__doc__ = "\n".join([f"{(kind.__doc__ or '').rstrip('.')}; see the pass `{kind.name}`.", *arguments])
    return method


# Defaults of methods that the options of their steps have not.
DEFAULTS: dict[type[Step], dict[str, Any]] = {steps.VectorizeLists: {"lanes": 8}, steps.Prefetch: {"what": "rows"}}


def call_of(step: Step, innermost: str | None = None) -> str:
    """Return a step as a call, such as `tile("indices", 64)`.

    Args:
        step: the step.
        innermost: the loop that `vectorize` is for, which the pass does not name; left out where it is not known.
    """
    if isinstance(step, OtherStep):
        return _call("apply", (str(step),), {})
    needed = [name for name, option in step.options.items() if option.default is steps.REQUIRED]
    named = {name: value for name, value in step.given.items() if name not in needed}
    values = [value for name in needed for value in _values(getattr(step, name))]
    if isinstance(step, steps.Prefetch):
        values, named = [step.loop], named | ({} if step.what == "rows" else {"what": step.what})
    elif isinstance(step, steps.VectorizeInner):
        values, named = [] if innermost is None else [innermost], {"lanes": step.lanes}
    return _call(step.method, values, named)


def mark(nest: str, loop: str | None) -> str:
    """Return a nest with `>` before the line of a loop and its name behind it."""
    head = None if loop is None else _head(loop)
    lines = [
        f"> {line}  <-- {loop}" if head is not None and head.search(line) else f"  {line}" for line in nest.splitlines()
    ]
    return "\n".join(lines) + "\n"


def _head(loop: str) -> re.Pattern[str]:
    return re.compile(rf"\bfor (?:.*, )?{re.escape(loop)}\(.*:$", re.MULTILINE)


def _call(method: str, values: Iterable[Any], named: Mapping[str, Any]) -> str:
    return f"{method}({', '.join([*map(_shown, values), *(f'{name}={_shown(v)}' for name, v in named.items())])})"


def _shown(value: Any) -> str:
    return json.dumps(str(value)) if isinstance(value, LoopHandle | str) else show(value)


def _values(value: Any) -> tuple[Any, ...]:
    """Return the values of an option; numbers of NumPy become numbers of Python."""
    values = value if isinstance(value, list | tuple) else (value,)
    is_number = lambda each: isinstance(each, Integral) and not isinstance(each, bool)  # noqa: E731
    return tuple(int(each) if is_number(each) else each for each in values)


def _loops_of(step: Step) -> list[str]:
    """Return the loops that a step names; of a pass of another package, each of its values may be one."""
    names = [name for name in step.given if isinstance(step, OtherStep) or step.options[name].is_loop]
    return [str(value) for name in names for value in _values(step.given[name])]


def _merged(single: Sequence[Step]) -> list[Step]:
    """Return steps with those that follow each other as one pass with lists of loops, as a `gn.Schedule` has them."""
    merged: list[Step] = []
    for step in single:
        last = merged[-1] if merged else None
        if isinstance(step, steps.TileLoops) and isinstance(last, steps.TileLoops) and step.tail == last.tail:
            merged[-1] = step.replace(loops=last.loops + step.loops, sizes=last.sizes + step.sizes)
        elif isinstance(step, steps.ParallelizeLoops) and isinstance(last, steps.ParallelizeLoops):
            merged[-1] = step.replace(loops=last.loops + step.loops)
        else:
            merged.append(step)
    return merged


for _kind in steps.STEPS.values():
    if _kind.method not in vars(NestScript):
        setattr(NestScript, _kind.method, _method(_kind))
