"""The README's first example prints what the README says; its pictures and file names are real."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import gathernest as gn
from gathernest.ir.context import parse_module
from gathernest.ir.print_nest import print_loop_nest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def block(language: str, number: int) -> str:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)[number]


def test_first_example_prints_its_output() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block("python", 0), {})
    assert printed.getvalue() == block("text", 0)


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("stage", "column"), [("drop-unit-loops", slice(0, 56)), ("hoist-invariants", slice(56, None))]
)
def test_picture_is_the_nest_of_that_stage(stage: str, column: slice) -> None:
    kernel = gn.compile("gather", "1000000x64xf32", "100000xi64", bounds="zero")
    drawn = "\n".join(line[column] for line in block("text", 1).splitlines())
    assert words(drawn) == words(print_loop_nest(parse_module(kernel.stages[stage])))


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/ir.md",
        "docs/larger_than_memory.md",
        "docs/passes.md",
    ],
)
def test_links_lead_to_files(page: str) -> None:
    path = ROOT / page
    prose = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", prose)
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert not missing


def test_every_pass_is_in_the_table_of_levels() -> None:
    from gathernest.lowering.passes import NAMES

    assert [name for name in NAMES if f"{name.replace('-', '_')}.py" not in README] == []
