"""The commands and examples of docs/playground.md run, and the edit that it shows is found."""

import re
import shlex
from pathlib import Path

import pytest

from gathernest.tools.cli import main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "playground.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: str, capsys) -> int:
    words, _, file = command.removeprefix("gathernest ").partition(" > ")
    status = main(shlex.split(words))
    if file:
        Path(file).write_text(capsys.readouterr().out)
    return status


def test_commands_run(folder, capsys):
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) == 9
    for command in commands:
        assert run(command, capsys) == 0, command


def test_examples_run():
    known: dict = {}
    for code in blocks("python"):
        exec(code, known)


def test_the_edit_is_found_as_the_page_says(folder, capsys):
    run(blocks("sh")[0].splitlines()[0], capsys)
    before, after = re.search(r"change `(.*)` to `(.*)`,", PAGE).groups()
    stage = Path("stage.mlir")
    assert before in stage.read_text()
    stage.write_text(stage.read_text().replace(before, after))
    assert main(["exec", "stage.mlir"]) == 1
    (said,) = blocks("text")
    assert capsys.readouterr().err.split() == said.split()
