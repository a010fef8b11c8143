"""The page on proofs prints what it says."""

import contextlib
import io
import re
import shlex
from pathlib import Path

from gathernest.tools import cli
from gathernest.tools.mlir_opt import opt

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "proof.md").read_text()


def printed(run, words: list[str]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert run(words) == 0
    return output.getvalue()


def test_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch) -> None:
    (text,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    show, prove, *lines = text.splitlines()
    monkeypatch.chdir(tmp_path)
    _, _, *words = shlex.split(show.partition(" > ")[0])
    Path("gather.mlir").write_text(printed(cli.main, words))
    _, _, *words = shlex.split(prove)
    assert printed(opt.main, words).splitlines() == lines


def test_example_proves_every_pass_of_its_schedule() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, {})
    assert output.getvalue().splitlines()[-2:] == ["parallelize-loops proved", "vectorize-inner proved"]
