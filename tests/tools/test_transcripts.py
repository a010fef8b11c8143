"""Transcripts: command lines, and what they print, as goldens in `tests/golden/texts/commands/`.

A line `$ COMMAND WORDS` is a command, `< operator` behind it gives it the module OPERATOR of conftest.py. The indented
lines below are its answer, which `--update-golden` writes anew: its exit status where that is not 0, what it prints,
and, behind `!`, its errors. Measured times are left out.
"""

import re
import shlex
from pathlib import Path

import pytest

TEXTS = Path(__file__).parents[1] / "golden" / "texts" / "commands"


def answered(text: str, commands) -> str:
    """Return a transcript with the answers of now."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("    ") or not line:
            continue
        found += ["", line] if line.startswith("#") and found else [line]
        if line.startswith("$ "):
            command, *words = shlex.split(line[2:])
            given = words[-2:-1] == ["<"]
            ended = commands[command](
                *words[:-2] if given else words, **{"stdin": commands["operator"]} if given else {}
            )
            out = re.sub(r"\d+(\.\d+)?(?= (ms|µs)\b)", "#", ended.out)
            said = [f"status {ended.status}"] if ended.status else []
            said += [*out.splitlines(), *(f"! {error}" for error in ended.err.splitlines())]
            found += [f"    {each}".rstrip() if each.strip() else "    ." for each in said]
        else:
            assert line.startswith("#"), f"{line} is no command"
    return "\n".join(found) + "\n"


@pytest.mark.parametrize("name", ["show", "show_errors", "gathernest_opt", "gathernest_opt_errors"])
def test_commands_print_what_was_reviewed(name, gathernest, gathernest_opt, operator_text, monkeypatch, golden):
    monkeypatch.setenv("GATHERNEST_NUM_THREADS", "2")
    monkeypatch.setenv("COLUMNS", "120")
    text = (TEXTS / f"{name}.txt").read_text()
    assert text.count("\n$ ") > 10
    commands = {"gathernest": gathernest, "gathernest-opt": gathernest_opt, "operator": operator_text}
    golden(f"commands/{name}.txt", answered(text, commands))
