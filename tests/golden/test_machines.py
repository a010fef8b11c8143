"""Whatever built-in machine schedules are chosen for, they are legal: the problems of the replay on all of them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gathernest.ir.modules.context import make_context
from gathernest.ir.modules.operator_module import operator_module
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.schedule.machine_model import BUILT_IN

ENTRIES = [json.loads(line) for line in (Path(__file__).parent / "replay.jsonl").read_text().splitlines()]
PROBLEMS = {json.dumps([entry[key] for key in ("operator", "data", "indices", "options")]): entry for entry in ENTRIES}


def plans_on(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Plan]:
    """Return the plans on a machine of 8 cores, one of each kind: distances and sizes of tiles make no other."""
    monkeypatch.setenv("GATHERNEST_MACHINE", name)
    monkeypatch.setenv("GATHERNEST_NUM_THREADS", "8")
    plans: dict[str, Plan] = {}
    for entry in PROBLEMS.values():
        plan = make_plan(problem_of(entry["operator"], entry["data"], entry["indices"], **entry["options"]))
        plans[re.sub(r"(distance|sizes)=[\d,]+", r"\1", plan.key)] = plan
    return plans


def schedule(plan: Plan) -> None:
    """Run the passes up to the schedule's last, which raises ScheduleError where that is not legal."""
    problem, context = plan.problem, make_context()
    module = operator_module(
        problem.operator,
        problem.table,
        problem.indices,
        bounds=problem.bounds,
        version=problem.version,
        out=problem.slices,
        gradient=problem.gradient,
        node=problem.node,
    )
    for step in parse_passes(plan.pipeline):
        if step.name == "hoist-invariants":
            break
        step.apply(context, module)
    module.verify()


@pytest.mark.thorough
def test_schedules_on_every_built_in_machine_legal(monkeypatch: pytest.MonkeyPatch) -> None:
    known = plans_on("zen4", monkeypatch).keys()
    seen: dict[str, Plan] = {}
    for name in BUILT_IN:
        seen |= plans_on(name, monkeypatch)
    others = [plan for kind, plan in seen.items() if kind not in known]
    assert len(PROBLEMS) > 200 and len(others) > 100
    for plan in others:
        schedule(plan)
