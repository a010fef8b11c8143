"""Every code block of the pages runs, in order, and prints the text below it; one that cannot says why in a marker.

A page has one folder and one Python session. A `text` block right behind a program is what it prints, and a `console`
block has the commands behind `$ ` and what a terminal shows; `...` stands for anything. The marker is a comment right
above a block: `<!-- not checked: REASON -->`. A block below `<!-- file: PATH -->` becomes that file. Commands of
gathernest run in this process, others in a shell; so do all behind `pip install ./PATH`, as only they see the package.
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from gathernest.ir.modules.context import parse_module
from gathernest.tools import cli, opt

ROOT = Path(__file__).resolve().parents[2]
# Their blocks are docstrings of operators and passes, which have tests of their own.
FROM_DOCSTRINGS = {"api.md", "operators.md", "passes.md"}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "examples").glob("*/README.md"))
REASONS = {
    "an excerpt with comments by hand",
    "drawn by hand",
    "installs packages",
    "is what CI runs",
    "needs a quiet machine",
    "needs another runtime",
    "runs in tests/docs/test_contributing.py",
    "runs in tests/plugins, where the package is installed",
    "runs in tests/tools/commands/test_build.py, where there is a C compiler",
    "runs in tests/upstream, where mlir-opt is installed",
    "takes minutes",
    "times of one machine",
}
BLOCK = re.compile(r"(?:^<!-- (not checked|file): (.*?) -->\n+)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(! )?(gathernest|gathernest-opt)( (?:(?!\$\()[^|;&<>`#])*)((?: 2?> \S+)*)(?:\s*#.*)?")
INSTALL = "pip install -q --no-deps --no-build-isolation --no-index --disable-pip-version-check"
TOOLS = {"gathernest": cli.main, "gathernest-opt": opt.main}


@dataclass
class Block:
    """A block, with what it prints in the block behind it (None where nothing is said of it)."""

    place: str
    language: str
    text: str
    reason: str | None
    file: str | None = None
    output: str | None = None


def blocks(text: str, name: str) -> list[Block]:
    """Return the blocks of a page; a `text` right behind a program is its output and not a block of its own."""
    found: list[Block] = []
    end = -1
    for match in BLOCK.finditer(text):
        kind, words, language, code = match.groups()
        reason, file = (words if kind == each else None for each in ("not checked", "file"))
        line = text.count("\n", 0, match.start(3)) + 1
        is_output = language in ("text", "mlir") and found and not text[end : match.start()].strip()
        end = match.end()
        if not is_output:
            found.append(Block(f"{name}:{line}", language, code, reason, file))
        elif reason is None:
            found[-1].output = code
        else:
            assert reason in REASONS
    return found


class Session:
    """What the blocks of a page share: the names of its programs, and the folder that they run in."""

    def __init__(self) -> None:
        self.names: dict = {"__name__": "__main__"}

    def python(self, block: Block) -> str:
        printed = io.StringIO()
        path, _, line = block.place.partition(":")
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * int(line) + block.text, path, "exec"), self.names)
        return printed.getvalue()

    def sh(self, block: Block) -> str:
        printed = ""
        for command in block.text.replace("\\\n", "").splitlines():
            status, out, err = run(command)
            assert status == 0, f"{command}\n{err}"
            printed += out
        return printed

    def console(self, block: Block) -> str:
        """Return what a terminal shows: each command, and what it writes to either stream."""
        shown = ""
        for command in re.findall(r"^\$ (.*)\n", block.text, re.MULTILINE):
            _, out, err = run(command)
            shown += f"$ {command}\n{out}{err}"
        return shown

    def json(self, block: Block) -> str:
        json.loads(block.text)
        return ""

    def toml(self, block: Block) -> str:
        tomllib.loads(block.text)
        return ""

    def mlir(self, block: Block) -> str:
        parse_module(block.text)
        return ""


def run(command: str) -> tuple[int, str, str]:
    """Run a line of a shell; return its exit status and what it wrote to both streams."""
    if package := re.fullmatch(r"pip install (\./\S+)", command):
        command = f"{INSTALL} --target installed {package[1]}"
    match = COMMAND.fullmatch(command)
    if match is None or Path("installed").exists():
        words = ["bash", "-eu", "-o", "pipefail", "-c", command]
        environment = {**os.environ, "PYTHONPATH": str(Path("installed").resolve())}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr
    fails, tool, words, redirections = match.groups()
    streams = [io.StringIO(), io.StringIO()]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        status = TOOLS[tool](shlex.split(words))
    texts = [stream.getvalue() for stream in streams]
    for number, file in re.findall(r"(2?)> (\S+)", redirections):
        Path(file).write_text(texts[bool(number)])
        texts[bool(number)] = ""
    return (int(status == 0) if fails else status), *texts


def pattern(output: str, language: str) -> str:
    """Return a pattern of what a block must print. A console may break lines anywhere, as a terminal does."""
    pieces = [re.escape(piece) for piece in output.rstrip().split("...")]
    if language == "console":
        pieces = [r"\s+".join(re.escape(word) for word in piece.split()) for piece in output.split("...")]
        return r"\s*.*?\s*".join(pieces)
    return ".*?".join(pieces)


def check(text: str, name: str) -> None:
    """Run the blocks of a page in the present folder."""
    session = Session()
    for block in blocks(text, name):
        if block.file is not None:
            Path(block.file).parent.mkdir(exist_ok=True)
            Path(block.file).write_text(block.text)
            continue
        if block.reason is not None:
            assert block.reason in REASONS, f"{block.place}: {block.reason}"
            continue
        assert hasattr(Session, block.language or "-"), f"{block.place}: nothing runs {block.language or 'this'!r}"
        printed = getattr(session, block.language)(block)
        expected = block.text if block.language == "console" else block.output
        if expected is not None and not re.fullmatch(pattern(expected, block.language), printed.rstrip(), re.DOTALL):
            assert printed == expected, block.place


# Pages whose blocks take 1 to 12 s.
LONG = {"bisect", "larger_than_memory", "machine", "models", "plugins", "report", "tuning", "writing_passes"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.thorough] * (path.stem in LONG))
        for path in PAGES
        if path.name not in FROM_DOCSTRINGS
    ],
)
def test_every_block_runs_and_prints_what_stands_below_it(
    page: Path, tmp_path: Path, monkeypatch, unnamed_machine
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GATHERNEST_TUNING", str(tmp_path / "tuning.json"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    check(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix())


WRONG = {
    "another output": ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "page:1"),
    "a longer output": ("```python\nprint(1, 2)\n```\n\n```text\n1\n```\n", "page:1"),
    "a command that fails": ("```sh\ngathernest show --stage nothing\n```\n", "gathernest: error"),
    "another error": ("```console\n$ gathernest exec no.mlir\ngathernest: error: yes.mlir\n```\n", "page:1"),
    "a text of nothing": ("```text\nhello\n```\n", "nothing runs 'text'"),
    "a reason of one's own": ("<!-- not checked: too hard -->\n```sh\nmake\n```\n", "too hard"),
}


@pytest.mark.parametrize(("page", "reason"), WRONG.values(), ids=WRONG)
def test_a_wrong_block_is_found(page: str, reason: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match=reason):
        check(page, "page")
