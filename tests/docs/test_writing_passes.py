"""The page on writing passes: its commands run, and print what it says."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "writing_passes.md").read_text()


def test_every_command_and_program_prints_the_output_below_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    blocks = re.findall(r"```(sh|python)\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)
    assert len(blocks) == PAGE.count("```sh") + PAGE.count("```python") == 6
    for language, text, output in blocks:
        printed = io.StringIO()
        if language == "sh":
            done = subprocess.run(["bash", "-euc", text], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            printed.write(done.stdout)
        else:
            with contextlib.redirect_stdout(printed):
                exec(text, {})
        assert not output or printed.getvalue() == output
