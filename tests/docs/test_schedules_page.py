"""The table of docs/schedules.md has each step of a schedule with its pass."""

import re
from pathlib import Path

from gathernest.lowering.schedule.steps import STEPS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "schedules.md").read_text()


def test_table_has_each_step_with_its_pass() -> None:
    rows = dict(re.findall(r"^\| `(\w+)\(.*?\| \[`([\w-]+)`\]", PAGE, re.MULTILINE))
    assert {step.method: step.name for step in STEPS.values()} == rows
