"""Transcripts: command lines, and what they print, as goldens in `tests/golden/texts/commands/`.

A line `$ COMMAND WORDS` is a command, perhaps behind variables of the environment, `NAME=VALUE`. `< operator` behind it
gives it the module OPERATOR of conftest.py, and another name a file of the working folder, which has the files of
`tests/golden/texts/commands/inputs`. The indented lines below are its answer, which `--update-golden` writes anew: its
exit status where that is not 0, what it prints, and, behind `!`, its errors. Measured times are left out.
"""

import re
import shlex
import shutil
from pathlib import Path

import pytest

TEXTS = Path(__file__).parents[1] / "golden" / "texts" / "commands"


def run(line: str, commands):
    """Run a command line, and return how it ended."""
    words, given = shlex.split(line), {}
    with pytest.MonkeyPatch.context() as patch:
        while re.match(r"[A-Z_]+=", words[0]):
            patch.setenv(*words.pop(0).split("=", 1))
        if words[-2:-1] == ["<"]:
            *words, _, file = words
            given = {"stdin": commands["operator"] if file == "operator" else Path(file).read_bytes()}
        return commands[words[0]](*words[1:], **given)


def answered(text: str, commands) -> str:
    """Return a transcript with the answers of now."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("    ") or not line:
            continue
        found += ["", line] if line.startswith("#") and found else [line]
        if line.startswith("$ "):
            ended = run(line[2:], commands)
            out = re.sub(r"\d+(\.\d+)?(?= (ms|µs|of them)\b)", "#", ended.out)
            said = [f"status {ended.status}"] if ended.status else []
            said += [*out.splitlines(), *(f"! {error}" for error in ended.err.splitlines())]
            found += [f"    {each}".rstrip() if each.strip() else "    ." for each in said]
        else:
            assert line.startswith("#"), f"{line} is no command"
    return "\n".join(found) + "\n"


@pytest.fixture
def commands(gathernest, gathernest_opt, operator_text, tmp_path, monkeypatch):
    """Return the commands and the module, with the file `stage.mlir` in a working folder of the test's own."""
    shown = gathernest("show", "--data", "5x4xf32", "--indices", "3xi64", "--stage", "fold-bounds")
    for file in (TEXTS / "inputs").iterdir():
        copied = shutil.copyfile(file, tmp_path / file.name)
        copied.chmod(0o644)  # a checkout may let a group write, and such files are not read
    (tmp_path / "stage.mlir").write_text(shown.out)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GATHERNEST_NUM_THREADS", "2")
    monkeypatch.setenv("GATHERNEST_TUNING", str(tmp_path / "records.json"))
    monkeypatch.setenv("COLUMNS", "120")
    return {"gathernest": gathernest, "gathernest-opt": gathernest_opt, "operator": operator_text}


# The texts of stages, which tests/filecheck and tests/golden have too.
THOROUGH = {"show"}
NAMES = sorted(path.stem for path in TEXTS.glob("*.txt"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in THOROUGH)) for name in NAMES]
)
def test_commands_print_what_was_reviewed(name, commands, program, tmp_path, golden):
    if name == "build_errors":
        program("cc")
    if name == "models":
        onnx = pytest.importorskip("onnx", reason="onnx is not installed")
        for model in tmp_path.glob("*.txt"):
            onnx.save(onnx.parser.parse_model(model.read_text()), model.with_suffix(".onnx"))
    files = sorted(tmp_path.iterdir())
    text = (TEXTS / f"{name}.txt").read_text()
    assert text.count("\n$ ") > 5
    golden(f"commands/{name}.txt", answered(text, commands).replace(str(tmp_path), "FOLDER"))
    assert sorted(tmp_path.iterdir()) == files
