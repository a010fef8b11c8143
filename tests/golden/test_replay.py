"""Replay: the schedules chosen on one machine, and the sources generated with many more, stay what they were.

`replay.jsonl` has an entry a line: the problem, perhaps into a `given` out, the threads, the schedule, and a digest of
the source without comments and imports. `--update-golden` writes the digests and the chosen schedules anew.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.compile import build_program
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.schedule import Schedule

GOLDEN = Path(__file__).parent / "replay.jsonl"
PARTS = 24


def plan_of(entry: dict[str, Any]) -> Plan:
    problem = problem_of(entry["operator"], entry["data"], entry["indices"], **entry["options"])
    problem = problem.into(problem.result) if entry.get("given") else problem
    return make_plan(problem, None if entry["chosen"] else Schedule.parse(entry["schedule"]))


def digest(source: str) -> str:
    """Return the digest of a source without comments, imports and blank lines."""
    lines = [line for line in source.splitlines() if line.strip() and not line.startswith(("#", "import ", "from "))]
    assert any(line.startswith("def ") for line in lines)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def replayed(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return an entry with the schedule and the source of now, on a machine with the threads of the entry."""
    machine = folder / f"threads{entry['threads']}.json"
    machine.write_text(json.dumps({"base": "zen4", "threads": entry["threads"]}))
    with knobs.scope(machine=machine):
        plan = plan_of(entry)
        source = digest(build_program(plan).source) if entry["source"] is not None else None
    return {**entry, "schedule": str(plan.schedule), "source": source}


@pytest.mark.draw(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_replay_schedules_and_sources_unchanged(
    part: int, update_golden: bool, tmp_path: Path
) -> None:
    entries = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    mine = range(part, len(entries), PARTS)
    got = {place: replayed(entries[place], tmp_path) for place in mine}
    if update_golden:
        entries = [got.get(place, entry) for place, entry in enumerate(entries)]
        GOLDEN.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert mine
    assert [got[place] for place in mine] == [entries[place] for place in mine]
