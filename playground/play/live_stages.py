"""From the settings of the page to a script, its plan, its stages and a check of bytes; mistakes with places."""

import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp

from ...ir.errors import SOURCE_HINT, GathernestError, InvalidGatherError, ScheduleError
from ...ir.modules.context import make_context, parse_module
from ...ir.modules.pseudocode import print_loop_nest
from ...ir.modules.read_module import InputError
from ...ir.problem import Problem
from ...kernels.runtime.compile import module_of
from ...kernels.runtime.plan import Plan, make_plan
from ...lowering.pipeline import Stage, parse_passes, read_edits, record_stages, run_passes
from ...lowering.registry import SCHEDULED_NEST
from ...lowering.schedule_language.nest_script import StepError
from ...lowering.stage_files import StageFile
from ..accesses import small_instance
from ..check import check_stage, samples_of
from ..script import ScheduleScript, schedule
from .settings import Settings, StepLineError, apply_lines


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in the settings.

    Attributes:
        title: which of them.
        message: why, and the way out.
        text: what the mistake is in, such as the nest before an illegal step; empty where there is none.
        line: the line of the text to underline, from 1; None for none.
        column, length: the part of the line, from 1; the whole line where column is None.
    """

    title: str
    message: str
    text: str = ""
    line: int | None = None
    column: int | None = None
    length: int = 1


@dataclass(frozen=True, slots=True)
class Scripted:
    """A script with the steps up to the first that is not legal, and what is wrong with that."""

    script: ScheduleScript
    mistake: Mistake | None = None


def begin(settings: Settings) -> Scripted | Mistake:
    """Return the script of the settings' gather with their steps; a mistake where there is no such gather."""
    try:
        script = schedule(**settings.gather)
        if settings.steps is None:
            script.apply(make_plan(script.problem).schedule)
            return Scripted(script)
    except GathernestError as error:
        return Mistake("The gather", str(error))
    try:
        apply_lines(script, settings.steps)
        script.plan  # noqa: B018  # rejects rows of other sizes than the steps say
    except StepLineError as error:
        return Scripted(script, _of_step(error))
    except GathernestError as error:
        return Scripted(script, Mistake("The schedule", str(error)))
    return Scripted(script)


def chosen_steps(script: ScheduleScript) -> str:
    """Return the steps of a script, one in a line."""
    return "".join(f"{call}\n" for call in script.calls)


def _of_step(error: StepLineError) -> Mistake:
    title = f"Line {error.line} of the steps: {error.text.strip()}"
    if not isinstance(error.cause, StepError):
        return Mistake(title, str(error.cause or error).removeprefix(f"line {error.line} of the steps: "))
    step = error.cause
    lines, marked = [], None
    for number, line in enumerate(step.nest.splitlines(), 1):
        if line.startswith(">"):
            marked = number
            line = line.removesuffix(f"  <-- {step.loop}")
        lines.append(line[2:])
    return Mistake(title, f"{step.reason}. Way out: {step.way_out}.", "\n".join(lines) + "\n", marked)


def stage_names(stages: Sequence[Stage]) -> list[str]:
    """Return the names of stages' files in a dump: `00-operator` first."""
    return [f"{number:02}-{stage.pass_name}" for number, stage in enumerate(stages)]


def with_edit(plan: Plan, name: str, text: str) -> Plan:
    """Return a plan in which a text stands in the place of a stage; for its stages only, not for its kernel."""
    return replace(plan, edits=(StageFile(f"{name}.mlir", text),))


def stages(plan: Plan) -> list[Stage] | Mistake:
    """Return every stage of a plan, or what is wrong with the stage that is edited."""
    passes, context = parse_passes(plan.pipeline), make_context()
    try:
        edits = read_edits(plan.edits, passes, context)
        # Without an edit the steps were verified when they were applied, and the worker verifies every stage.
        return list(record_stages(module_of(plan.problem), passes, context, edits=edits, verify=bool(edits)))
    except InputError as error:
        return Mistake(
            f"The stage {plan.edits[0].path.removesuffix('.mlir')}",
            f"line {error.line}, column {error.column}: {error.message}" if error.line else error.message,
            plan.edits[0].text,
            error.line,
            error.column,
            error.length,
        )
    except GathernestError as error:
        message = str(error).replace(SOURCE_HINT, "the text below")
        return Mistake("A pass behind the edited stage" if plan.edits else "The schedule", message, error.source)


def nest_of(stages: Sequence[Stage], edited: int | None = None) -> str:
    """Return the scheduled nest as pseudocode, or the edited stage where that is behind it."""
    names = [stage.pass_name for stage in stages]
    number = names.index(SCHEDULED_NEST) - 1 if SCHEDULED_NEST in names else len(names) - 1
    return print_loop_nest(parse_module(stages[max(number, edited or 0)].text))


# Elements of data and the result that are interpreted in all: one takes some 30 microseconds.
MOST_ELEMENTS = 12_000
# Of a row: more than a vector of 8 lanes, and a remainder.
ROW = 11
# Sizes of other dimensions, tried in turn; the least size of indices, and how many lie behind the border of a tile.
OUTER, LEAST_INDICES, BEHIND = (3, 2), 7, 3


@dataclass(frozen=True, slots=True)
class BytesCheck:
    """The result of the check.

    Attributes:
        difference: what differs; None where the bytes are equal, or nothing could be interpreted.
        tried: the gather that was interpreted last; None where none could be.
        cases: how many pairs of arrays were interpreted.
        crossed: whether its indices fill the largest tile.
    """

    difference: str | None
    tried: Problem | None
    cases: int = 0
    crossed: bool = True

    def __str__(self) -> str:
        if self.tried is None:
            return (
                "Nothing is interpreted, as no smaller arrays fit: the edited stage has large sizes in its text, "
                "or the axis is empty. The kernel's own bytes are compared below."
            )
        where = f"{self.tried.name} of {self.tried.source} by {self.tried.indices}"
        if self.difference is not None:
            return f"{where}: {self.difference}"
        note = "" if self.crossed else " No tile is full at these sizes."
        cases = "1 pair of arrays" if self.cases == 1 else f"{self.cases} pairs of arrays"
        return f"{where}: the bytes of the reference, for {cases} with indices at both ends and outside.{note}"


def check_bytes(plan: Plan) -> BytesCheck:
    """Interpret what a plan makes of a small gather, or of its own where it is small, and compare the bytes.

    An edited stage stands in the place of what the passes make, so it must not have the sizes in its text.
    """
    left = MOST_ELEMENTS
    for problem, pipeline in _smaller(plan):
        size = problem.result.size + problem.source.size
        if size > left or 0 in problem.axis_sizes:
            continue
        try:
            module = _lowered(plan, problem, pipeline)
        except (InvalidGatherError, ScheduleError):  # the passes are for other sizes
            continue
        cases = 0
        try:
            for data, indices in samples_of(problem):
                if cases and size > left:
                    break
                found = check_stage(module, problem, data, indices, "interpreter")
                cases, left = cases + 1, left - size
                if found is not None:
                    return BytesCheck(str(found), problem, cases)
        except InvalidGatherError:  # the edited stage is of other arrays
            continue
        return BytesCheck(None, problem, cases, crossed=problem.indices.size > _largest_tile(pipeline))
    return BytesCheck(None, None)


def _lowered(plan: Plan, problem: Problem, pipeline: str) -> ModuleOp:
    """Return the last stage of a pipeline for a problem of other sizes; an edited stage stays as it is."""
    passes, context = parse_passes(pipeline), make_context()
    edits = read_edits(plan.edits, passes, context)
    number, module = max(edits.items(), default=(0, None), key=lambda item: item[0])
    module = module_of(problem) if module is None else module
    run_passes(module, ",".join(map(str, passes[number:])), context)
    return module


def _largest_tile(pipeline: str) -> int:
    """Return the size of the largest tile over indices; 0 for none."""
    tiles = re.findall(r"tile-loops\{loops=([^ }]*) sizes=([^ }]*)", pipeline)
    pairs = [pair for loops, sizes in tiles for pair in zip(loops.split(","), sizes.split(","), strict=False)]
    return max((int(size) for loop, size in pairs if "inner" not in loop and size.isdecimal()), default=0)


def _smaller(plan: Plan) -> Iterator[tuple[Problem, str]]:
    """Yield smaller forms of a plan with their pipelines: first forms that cross a tile, then smaller tiles."""
    tile = _largest_tile(plan.pipeline)
    problems = list(_small(plan.problem, tile))
    yield from ((problem, plan.pipeline) for problem in problems if problem.indices.size > tile)
    if not plan.edits:
        instance = small_instance(plan)
        yield from ((instance.problem, pipeline) for pipeline in reversed(instance.pipelines))
    yield from ((problem, plan.pipeline) for problem in problems if problem.indices.size <= tile)


def _small(problem: Problem, tile: int) -> Iterator[Problem]:
    """Yield the problem where it is small, and then smaller forms of it, first forms that cross a tile."""
    if problem.result.size + problem.source.size <= MOST_ELEMENTS // 4:
        yield problem
    table, indices = problem.table.shape, problem.indices.shape
    for many in dict.fromkeys((max(tile + BEHIND, LEAST_INDICES), LEAST_INDICES)):
        for row, outer in itertools.product(dict.fromkeys((ROW, *table[-1:])), OUTER):
            for other in dict.fromkeys((outer, many, row)):
                shape = *(min(size, outer) for size in table[:-1]), *(min(size, row) for size in table[-1:])
                last = *(min(size, other) for size in indices[:-1]), *(min(size, many) for size in indices[-1:])
                with contextlib.suppress(GathernestError):
                    yield problem.resized(shape, last)
        same = [tuple(min(size, many) for size in shape) for shape in (table, indices)]
        with contextlib.suppress(GathernestError):
            yield problem.resized(*same)
