"""The examples of docs/schedules.md print what the page says, and its table has each step."""

import contextlib
import io
import re
from pathlib import Path

from gathernest.lowering.schedule_language.calls import CALLS

PATH = Path(__file__).resolve().parents[2] / "docs" / "schedules.md"
PAGE = PATH.read_text()


def test_examples_print_their_outputs() -> None:
    known: dict = {}
    for code, text in re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, known)
        assert printed.getvalue().rstrip() == text.rstrip()


def test_table_has_each_step_with_its_pass() -> None:
    rows = dict(re.findall(r"^\| `(\w+)\(.*?\| \[`([\w-]+)`\]", PAGE, re.MULTILINE))
    assert {call.method: name for name, call in CALLS.items()} == rows
