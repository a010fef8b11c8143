"""Schedules that are chosen for nests of many sizes, and the times that are predicted: each a line of a golden.

A golden is also the list of its cases: `tests/golden/texts/schedules/`. A line that begins with the name of one of
`QUESTIONS` is a case: the loops of a nest with their iterations, the dimensions of data, and the loops that indices
depend on; then what the nest and the machine have that is unusual. A line `under SCHEDULE` belongs to the case above
it. A line that begins with one of `OTHERS` is an operator and its arrays, or a machine. The indented lines below a case
are its answer, which `--update-golden` writes anew.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.schedule.checks import CountedCheck, FusedCheck, StagedCheck
from gathernest.lowering.schedule.choose import choose, choose_bag_loops, gradient_ways
from gathernest.lowering.schedule.machine_model import BUILT_IN, MachineModel
from gathernest.lowering.schedule.predict import Model
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.lowering.schedule.shape import NestShape

TEXTS = Path(__file__).parents[2] / "golden" / "texts" / "schedules"
NEST_FIELDS = {field.name for field in fields(NestShape)}


def loops_of(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((name, int(size)) for name, _, size in (loop.partition(":") for loop in text.split()))


def case_of(question: str, line: str) -> tuple[NestShape, MachineModel]:
    """Return the nest and the machine of a case: a Zen 4 with two threads where nothing else is said."""
    sizes, *rest = line.split("; ")
    copied, _, data = sizes.partition(" of ")
    table, _, looked_up = data.partition(" by ")
    facts: dict = {"width_bytes": 4, "checked": (), "machine": "zen4", "threads": 2}
    facts["is_gradient"] = "gradient" in question
    for name, _, value in (each.partition("=") for each in rest):
        facts[name] = loops_of(value) if name == "checked" else value if name == "machine" else eval(value)
    shape = {name: facts.pop(name) for name in list(facts) if name in NEST_FIELDS}
    nest = NestShape(loops_of(copied), table=loops_of(table), looked_up=frozenset(looked_up.split()), **shape)
    return nest, replace(BUILT_IN[facts.pop("machine")], **facts)


def say_choice(nest: NestShape, machine: MachineModel) -> list[str]:
    choice = choose(nest, machine)
    return [str(choice.schedule) or "none", *(f"- {reason}" for reason in choice.reasons)]


def say_ways(nest: NestShape, machine: MachineModel) -> list[str]:
    return [str(way) or "none" for way in gradient_ways(nest, machine)]


def say_time(**order) -> Callable[[NestShape, MachineModel, str], list[str]]:
    """Return a function to the terms of a predicted time in microseconds."""

    def say(nest: NestShape, machine: MachineModel, schedule: str) -> list[str]:
        return [str(Model(nest, machine).predict(Schedule.parse(schedule), **order))]

    return say


QUESTIONS: dict[str, Callable[..., list[str]]] = {
    "gather": say_choice,
    "gradient": say_choice,
    "ways of a gradient": say_ways,
    "bags": say_choice,
    "rules of bags": lambda nest, machine: [str(choose_bag_loops(nest, machine)) or "none"],
    "time of a gather": say_time(),
    "time of a gather by ascending indices": say_time(ascending=True),
    "time of a gradient": say_time(),
    "time of bags": say_time(),
}


def say_checks(problem: str) -> list[str]:
    """Return how indices are checked on two threads, for a new result and for a given one."""
    operator, data, indices, *options = problem.split("; ")
    given = {name: int(value) for name, value in (each.split("=") for each in options)}
    new = problem_of(operator, data, indices, **given)
    with knobs.scope(machine="zen4", num_threads=2):
        plans = {"new": make_plan(new), "given": make_plan(new.into(new.result))}
    for plan in plans.values():
        how = {FusedCheck: "how=fused", StagedCheck: "how=staged", CountedCheck: "how=counted", type(None): ""}
        assert ("check-indices{" in plan.pipeline) == (plan.check is not None)
        assert how[type(plan.check)] in plan.pipeline
    return [f"{name}: {plan.check or 'by a nest of its own, or not at all'}" for name, plan in plans.items()]


def say_thresholds(machine: str) -> list[str]:
    name, *changes = machine.split("; ")
    model = replace(BUILT_IN[name], **{key: eval(value) for key, value in (each.split("=") for each in changes)})
    return [f"{threshold}: {getattr(model, threshold)}" for threshold in THRESHOLDS]


THRESHOLDS = ("min_shared_bytes", "min_shared_checks", "tile_bytes", "large_tile_bytes", "staged_indices")
THRESHOLDS += ("near_rows", "far_rows", "far_bytes", "unrolled_row_bytes", "l3_room_bytes")
OTHERS = {"checks": say_checks, "thresholds": say_thresholds}


def answered(text: str) -> str:
    """Return a golden with the answers of now."""
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    found: list[str] = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        found.append(line)
        question, _, sizes = line.partition(": ")
        if question in QUESTIONS:
            given = [after.removeprefix("under ").replace("none", "")] if after.startswith("under ") else []
            answer = [f"    {said}" for said in QUESTIONS[question](*case_of(question, sizes), *given)]
            found += [after, *answer] if given else answer
        elif question in OTHERS:
            found += [f"    {said}" for said in OTHERS[question](sizes)]
        elif line.startswith("under "):
            found.pop()
        else:
            assert not line or line.startswith("#"), f"{line} is not a case"
    return "\n".join(found) + "\n"


@pytest.mark.parametrize("name", ["gathers", "prefetches", "gradients", "bags", "times", "checks", "thresholds"])
def test_choices_and_predictions_are_the_reviewed_ones(name, golden):
    text = (TEXTS / f"{name}.txt").read_text()
    assert sum(line.startswith("    ") for line in text.splitlines()) > 20
    golden(f"schedules/{name}.txt", answered(text))
