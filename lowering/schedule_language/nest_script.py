"""A nest and the steps applied to it: each step is a pass that runs at once on a copy of the module. Imports xDSL."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.utils.arg_spec import ArgSpec

from ...ir.dialects.gather_dialect import LoopOp
from ...ir.dialects.types import element_size_bytes
from ...ir.errors import ScheduleError, did_you_mean, show
from ...ir.loop_name import LoopName
from ...ir.modules.context import make_context
from ...ir.modules.pseudocode import print_loop_nest
from ..nest.queries import chain, copying_store, enclosing_loops, functions, loops, sole_inner_loop
from ..nest.vector_sums import sum_of
from ..pipeline import run_passes, run_pipeline
from ..registry import PASSES
from ..schedule.schedule import STEPS, Prefetch, Schedule, parse_specs
from .calls import CALLS, call_of, in_words_of_the_language, text_of
from .loop_handle import LoopHandle
from .owner_steps import OwnerSteps
from .rejection import StepError, step_error
from .transform_script import read_transform_script, transform_script

# The options of passes that hold a list of loops.
SEVERAL = {"tile-loops": ("loops", "sizes"), "parallelize-loops": ("loops",)}

REMEDY = "mend the pass, or name one that `gathernest-opt --list-passes` lists, with its options"


@dataclass(frozen=True)
class _State:
    """The nest after a step, which is None for the nest as it came."""

    module: ModuleOp
    spec: ArgSpec | None = None
    call: str = ""

    @property
    def labels(self) -> tuple[LoopName, ...]:
        return tuple(loop.label for loop in loops(self.module))


class NestScript(OwnerSteps):
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

    def tile(
        self, loop: LoopHandle | str, size: int, *, tail: Literal["guard", "perfect"] = "guard"
    ) -> tuple[LoopHandle, LoopHandle]:
        """Split a loop `x` into `x_o` over tiles and `x_i` within one, and return both.

        Args:
            loop: any loop whose step is a constant, such as a tile of another or a loop over vectors.
            size: iterations a tile, each of the loop's step.
            tail: `guard` lets the last tile end early; `perfect` demands that the size is known to divide.
        """
        call = f"tile({_shown(loop)}, {size!r})"
        name = self._name(loop, call)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise self._rejected(call, f"expected a whole number of iterations from 1, got {show(size)}", [name])
        options = {} if tail == "guard" else {"tail": (tail,)}
        self._step("tile-loops", call, ((name, size),), [name], options)
        return LoopHandle(self, name.outer_tile), LoopHandle(self, name.inner_tile)

    def interchange(self, *order: LoopHandle | str) -> Self:
        """Put loops of one perfect nest in this order, outermost first; the others of the nest keep their places."""
        call, names = self._named("interchange", order)
        return self._step("interchange-loops", call, self._whole_order(names), names)

    def parallel(self, *loops: LoopHandle | str) -> Self:
        """Let threads share the iterations of loops, outermost first."""
        call, names = self._named("parallel", loops)
        return self._step("parallelize-loops", call, names, names)

    def stage_indices(self, before: LoopHandle | str) -> Self:
        """Resolve the indices of a tile before a loop, and stage their positions in a buffer."""
        call = f"stage_indices({_shown(before)})"
        name = self._name(before, call)
        return self._step("hoist-indices", call, name, [name])

    def vectorize(self, loop: LoopHandle | str | None = None, lanes: int | None = None) -> Self:
        """Copy or add several elements at a time in the innermost loop.

        Args:
            loop: the innermost loop, for a check; omitted, it is that.
            lanes: elements a vector, a power of two; as many as fill a vector of this machine when omitted.
        """
        given = ([] if loop is None else [_shown(loop)]) + ([] if lanes is None else [repr(lanes)])
        call = f"vectorize({', '.join(given)})"
        innermost, width_bytes = self._innermost()
        names = [innermost or ""] if loop is None else [self._name(loop, call)]
        if innermost is not None and names != [innermost]:
            reason = f"{names[0]} is not the innermost loop of the copy, which is {innermost}"
            raise self._rejected(call, f"{reason}; vectorize {innermost}, or interchange the two", names)
        lanes = max(self._vector_bytes // width_bytes, 2) if lanes is None else lanes
        return self._step("vectorize-inner", call, lanes, names)

    def gather(self) -> Self:
        """Load the lanes of a vector by one gather instruction."""
        return self._step("gather-lanes", "gather()", True, [self._innermost()[0] or ""])

    def unroll(self, loop: LoopHandle | str, factor: int) -> Self:
        """Run several iterations of a loop in one."""
        call = f"unroll({_shown(loop)}, {factor!r})"
        name = self._name(loop, call)
        return self._step("unroll", call, (name, factor), [name])

    def prefetch(
        self,
        loop: LoopHandle | str,
        *,
        ahead: int = 16,
        lines: int = 1,
        locality: int = 3,
        what: str = "rows",
        separate: LoopHandle | str | None = None,
    ) -> Self:
        """Prefetch what a loop reads or adds `ahead` iterations later; see the pass `prefetch`.

        Args:
            loop: the loop that it is for.
            ahead: iterations ahead; of a tile, indices for each addition.
            lines: of rows: lines of 64 bytes, a row or a step; 0 for the whole row.
            locality: 3 keeps a line in every cache, 2 in those from the second on, 0 in none.
            what: `rows` of data, `slices` of grad that a gradient adds, or the next `tile` of listed elements.
            separate: the loop in front of which the prefetches have a loop of their own.
        """
        options = f"ahead={ahead!r}, lines={lines!r}, locality={locality!r}"
        options += "" if what == "rows" else f", what={what!r}"
        options += "" if separate is None else f", separate={_shown(separate)}"
        call = f"prefetch({_shown(loop)}, {options})"
        name = self._name(loop, call)
        before = None if separate is None else self._name(separate, call)
        names = [name] if before is None else [name, before]
        return self._step("prefetch", call, lambda: (Prefetch(what, name, ahead, lines, locality, before),), names)

    def stream(self) -> Self:
        """Write vectors with non-temporal stores, which bypass the caches."""
        return self._step("stream-stores", "stream()", True, [self._innermost()[0] or ""])

    def specialize(self, row_bytes: int | None = None) -> Self:
        """Make the size of a row part of the code; that of the arrays at hand when omitted."""
        call = f"specialize({'' if row_bytes is None else repr(row_bytes)})"
        known = self._row_bytes
        row_bytes = known if row_bytes is None else row_bytes
        if known is None or row_bytes != known:
            has = "there is no row" if known is None else f"rows have {known} bytes, got {show(row_bytes)}"
            raise self._rejected(call, has, [])
        return self._step("specialize-inner", call, row_bytes, [])

    def apply(self, passes: Schedule | str) -> Self:
        """Apply a `gn.Schedule` or passes as text, each as a step: all of them, or none where one is not legal.

        Passes of other packages are applied by their names.
        """
        return self._apply(parse_specs(str(passes)))

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
        return ",".join(text_of(spec) for spec in self._specs)

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
        return Schedule.parse(",".join(map(text_of, _merged(self._specs))))

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
        return LoopHandle(self, self._name(name, f"loop({json.dumps(name)})"))

    def to_transform(self) -> str:
        """Return the steps as a script of MLIR's `transform` dialect, which `from_transform` reads back."""
        return transform_script(self._specs)

    # What became of a loop

    def fate(self, name: str) -> str:
        """Return what became of a loop that the nest has no more."""
        number = self._consumer(name)
        if number is None:
            return "of a step that undo took back"
        parts = self._made(number)
        into = f", into {' and '.join(parts)}" if parts else ""
        return f"consumed by step {number}, {self._states[number].call}{into}"

    def parts(self, name: str) -> tuple[LoopHandle, ...]:
        """Return the loops that a consumed loop was split into; raises ScheduleError where no step consumed it."""
        number = self._consumer(name)
        if number is None:
            raise ScheduleError(f"loop {name} is {self.fate(name)}; take a new handle with loop()")
        return tuple(LoopHandle(self, part) for part in self._made(number))

    def part(self, name: LoopName, wanted: LoopName) -> LoopHandle:
        """Return the handle of a part of a loop; raises ScheduleError where no step made it."""
        if not any(wanted in state.labels for state in self._states):
            raise ScheduleError(f"no step made {wanted} of {name}; the nest has {', '.join(self.labels)}")
        return LoopHandle(self, wanted)

    def _consumer(self, name: str) -> int | None:
        """Return the number of the step after which the nest has a loop no more."""
        has = [name in state.labels for state in self._states]
        return next((number for number, now in enumerate(has) if number and has[number - 1] and not now), None)

    def _made(self, number: int) -> list[LoopName]:
        before = self._states[number - 1].labels
        return [name for name in self._states[number].labels if name not in before]

    # How a step is applied

    @property
    def _module(self) -> ModuleOp:
        return self._states[-1].module

    @property
    def _specs(self) -> list[ArgSpec]:
        return [state.spec for state in self._states if state.spec is not None]

    def _named(self, method: str, loops: Sequence[LoopHandle | str]) -> tuple[str, list[LoopName]]:
        """Return the call of a method with several loops, and their names."""
        call = f"{method}({', '.join(map(_shown, loops))})"
        if not loops:
            raise self._rejected(call, f"name at least one loop; the nest has {', '.join(self.labels)}", [])
        return call, [self._name(loop, call) for loop in loops]

    def _name(self, loop: LoopHandle | str, call: str) -> LoopName:
        """Return the name of a loop that the nest has; raises StepError, or ScheduleError for what is no loop."""
        if isinstance(loop, LoopHandle) and loop.script is not self:
            raise ScheduleError(f"{loop!r} belongs to another schedule; take this one's with loop({loop.name!r})")
        if not isinstance(loop, LoopHandle | str):
            raise ScheduleError(f"a loop is named by text or by a handle, got {show(loop)}")
        name = LoopName(loop)
        if name in self.labels:
            return name
        if isinstance(loop, LoopHandle) or self._consumer(name) is not None:
            parts = [] if self._consumer(name) is None else [part.name for part in LoopHandle(self, name).parts]
            advice = f"use {' or '.join(parts)}" if parts else "use one of the loops above"
            raise self._rejected(call, f"loop {name} is {self.fate(name)}; {advice}", parts)
        known = f"it has {', '.join(self.labels)}{did_you_mean(name, self.labels)}; use one of these"
        raise self._rejected(call, f"the nest has no loop {str(name)!r}: {known}", [])

    def _step(
        self, kind: str, call: str, value: Any, names: Sequence[str], options: dict[str, Any] | None = None
    ) -> Self:
        """Check the options of a pass of a schedule, and apply it."""
        try:
            checked = STEPS[kind].check(value() if callable(value) else value, kind)
        except ScheduleError as error:
            raise self._rejected(call, str(error), names, kind) from None
        (spec,) = parse_specs(STEPS[kind].texts(kind, checked)[0])
        spec.parameters.update(options or {})
        self._run(spec, call, names)
        return self

    def _run(self, spec: ArgSpec, call: str, names: Sequence[str]) -> None:
        """Apply a pass to a copy of the nest, and keep it when it is legal."""
        module = self._module.clone()
        try:
            if spec.name in PASSES and spec.name not in STEPS:
                raise ScheduleError(f"{spec.name} is no step of a schedule; leave it out")
            self._applied(module, text_of(spec))
        except ScheduleError as error:
            raise self._rejected(call, str(error), names, spec.name) from None
        self._states.append(_State(module, spec, call_of(spec, self._innermost()[0])))

    def _applied(self, module: ModuleOp, text: str) -> None:
        """Run a pass on a module; where it fails, again with the recorder of stages, which saves what repeats it.

        The recorder prints the module twice, and that takes a third of the time of a step.
        """
        try:
            run_passes(module, text, self._context)
            module.verify()
        except ScheduleError:
            raise
        except Exception:
            run_pipeline(self._module.clone(), text, self._context)
            raise

    def _apply(self, specs: Sequence[ArgSpec]) -> Self:
        kept = self._states.copy()
        try:
            for spec in (one for several in specs for one in _single(several)):
                names = [str(value) for values in spec.parameters.values() for value in values]
                self._run(spec, call_of(spec), names)
        except BaseException:
            self._states = kept
            raise
        return self

    def _rejected(self, call: str, reason: str, names: Sequence[str], kind: str = "") -> StepError:
        """Return the error of a step, in the words of the language unless it is a pass by its name."""
        method, reason = call.partition("(")[0], reason.removeprefix(f"{kind}: ")
        reason = reason if method == "apply" else in_words_of_the_language(reason)
        remedy = next((each.remedy for each in CALLS.values() if each.method == method), REMEDY)
        return step_error(len(self._states), call, reason, remedy, self.nest, names)

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


def _shown(loop: LoopHandle | str) -> str:
    return json.dumps(str(loop)) if isinstance(loop, LoopHandle | str) else repr(loop)


def _single(spec: ArgSpec) -> list[ArgSpec]:
    """Return the steps that a pass stands for: one for each loop that is tiled."""
    loops, sizes = (spec.parameters.get(option, ()) for option in SEVERAL["tile-loops"])
    if spec.name != "tile-loops" or not loops or len(loops) != len(sizes):
        return [spec]
    return [
        ArgSpec(spec.name, spec.parameters | {"loops": (loop,), "sizes": (size,)})
        for loop, size in zip(loops, sizes, strict=True)
    ]


def _merged(specs: Sequence[ArgSpec]) -> list[ArgSpec]:
    """Return steps with those that follow each other as one pass with lists of loops, as a `gn.Schedule` has them."""
    merged: list[ArgSpec] = []
    for spec in specs:
        options = {*SEVERAL.get(spec.name, ())}
        if merged and merged[-1].name == spec.name and spec.parameters.keys() == options:
            both = {name: merged[-1].parameters[name] + spec.parameters[name] for name in options}
            merged[-1] = ArgSpec(spec.name, both)
        else:
            merged.append(spec)
    return merged
