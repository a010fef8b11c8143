"""The README's first example prints what the README says; its pictures are real."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gathernest as gn
from gathernest.ir.modules.context import parse_module
from gathernest.ir.modules.pseudocode import print_loop_nest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def block(language: str, number: int) -> str:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)[number]


def test_first_example_prints_its_output() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block("python", 0), {})
    assert printed.getvalue() == block("text", 0)


# Of the picture: which one is chosen depends on the machine's caches.
SCHEDULE = (
    "tile-loops{loops=indices sizes=1024},parallelize-loops{loops=indices_o},hoist-indices{before=indices_i},"
    "vectorize-inner{lanes=8},prefetch-indices{loop=indices_i distance=64 lines=2 locality=2}"
)


@pytest.mark.parametrize(("stage", "number"), [("lower-gather-to-nest", 1), ("hoist-invariants", 2)])
def test_picture_is_the_nest_of_that_stage(stage: str, number: int) -> None:
    kernel = gn.compile("gather", "1000000x16xf32", "400000xi64", bounds="zero", schedule=SCHEDULE)
    assert block("text", number) == print_loop_nest(parse_module(kernel.stages[stage]))


def test_commands_run(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    commands = re.search(r"## Read every stage\n\n```sh\n(.*?)```", README, re.DOTALL)
    assert commands is not None
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands[1]],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "def gather(" in done.stdout


def test_every_folder_of_passes_is_in_the_table_of_levels() -> None:
    folders = {path.parent.name for path in (ROOT / "lowering" / "passes").glob("*/__init__.py")}
    assert {name for name in folders if f"](lowering/passes/{name})" not in README} == {"graph"}
