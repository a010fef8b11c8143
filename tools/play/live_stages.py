"""From the settings to a script, its plan and its stages; and what is wrong with the settings, with the place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...ir.errors import SOURCE_HINT, GathernestError
from ...ir.modules.context import make_context, parse_module
from ...ir.modules.pseudocode import print_loop_nest
from ...ir.modules.read_module import InputError
from ...kernels.playground.scheduling import ScheduleScript, schedule
from ...kernels.runtime.compile import module_of
from ...kernels.runtime.plan import Plan, make_plan
from ...lowering.pipeline import Stage, parse_passes, read_edits, record_stages
from ...lowering.registry import SCHEDULED_NEST
from ...lowering.schedule_language.nest_script import StepError
from ...lowering.stage_files import StageFile
from .settings import Settings
from .step_lines import StepLineError, apply_lines


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with the settings.

    Attributes:
        title: which of them.
        message: why, and the way out.
        text: what the mistake is in, such as the nest before an illegal step; empty where there is none.
        line: the line of it to underline, from 1; None where none is.
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
