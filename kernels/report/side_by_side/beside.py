"""What stands beside a gather in a report: the same with other passes, or as another revision compiles it."""

from dataclasses import dataclass

from ....ir.errors import InvalidGatherError
from ....ir.problem import Problem
from ....lowering.registry import Pipeline
from ....lowering.schedule.schedule import Schedule
from ...host.knobs import knobs
from ...runtime.plan import make_plan

ONE_BESIDE = "a report takes one schedule, pipeline, machine, revision or kernel beside a gather"


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside a gather.

    Attributes:
        name: what the page calls it.
        given: its schedule or pipeline; None where the sizes choose.
        remarks: what else to know, a sentence each.
        revision: that compiles it; None for this one.
    """

    name: str
    given: Schedule | Pipeline | None
    remarks: tuple[str, ...] = ()
    revision: str | None = None


def beside(
    problem: Problem,
    given: Schedule | Pipeline | None,
    *,
    schedule: Schedule | str | None = None,
    pipeline: str | None = None,
    machine: str | None = None,
    revision: str | None = None,
) -> Beside:
    """Return what stands beside a gather; exactly one of the options is given.

    Args:
        problem, given: the gather, and its schedule or pipeline.
        schedule: another schedule.
        pipeline: another pipeline, as text.
        machine: the schedule for that machine.
        revision: the same schedule as that revision compiles it.

    Raises:
        InvalidGatherError: a revision beside a gather with a pipeline.
        ScheduleError: the schedule does not parse.
        KnobError: there is no such machine.
    """
    chosen = [option for option in (schedule, pipeline, machine, revision) if option is not None]
    if len(chosen) != 1:
        raise InvalidGatherError(f"{ONE_BESIDE}, got {len(chosen)}; leave out the others")
    if revision is not None:
        if isinstance(given, Pipeline):
            raise InvalidGatherError("another revision is given a schedule, and this gather has a pipeline; leave one")
        return Beside(f"B, at {revision}", given, revision=revision)
    if machine is not None:
        with knobs.scope_of_options(machine=("against_machine", machine)):
            chosen = make_plan(problem, takes_tuned=False).schedule
        remark = f"Its schedule is the one for {machine}; its code is compiled for this CPU, on which all times are."
        return Beside(f"B, the schedule for {machine}", chosen, (remark,))
    passes = Pipeline(pipeline) if pipeline is not None else None if schedule is None else Schedule.parse(str(schedule))
    return Beside(f"B, {said(passes)}", passes)


def said(given: Schedule | Pipeline | None) -> str:
    """Return where the passes of a gather come from."""
    if given is None:
        return "chosen by the sizes"
    if isinstance(given, Pipeline):
        return "the given pipeline"
    return "the given schedule" if str(given) else "without a schedule"
