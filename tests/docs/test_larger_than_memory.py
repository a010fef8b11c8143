"""The page on arrays larger than memory prints what it says."""

import contextlib
import io
import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "larger_than_memory.md").read_text()


def test_every_program_prints_the_output_below_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(pairs) == PAGE.count("```python") == 4
    for program, output in pairs:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(program, names)
        assert printed.getvalue() == output
