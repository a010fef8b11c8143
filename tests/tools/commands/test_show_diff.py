"""`show --diff`: what a pass changed, what lies between two stages, and names that are wrong."""

import json
import subprocess

import pytest

ROWS = ("show", "--data", "64x8xf32", "--indices", "9xi64")
TWICE = ",".join(f"prefetch{{what=rows loop=indices ahead={far} locality=3}}" for far in (2, 8))


def stage(gathernest, name: str, *words: str) -> str:
    """Return a stage as it is printed, without its comment."""
    return gathernest(*ROWS, *words, "--stage", name).out.partition("\n")[2]


@pytest.fixture
def patched(program, tmp_path):
    """Return a function that returns a text with a diff applied by `patch`."""
    return lambda before, diff: _patched(program("patch"), before, diff, tmp_path)


def _patched(command: str, before: str, diff: str, tmp_path) -> str:
    file = tmp_path / "stage.mlir"
    file.write_text(before)
    subprocess.run([command, "--quiet", str(file)], input=diff, text=True, check=True)
    return file.read_text()


@pytest.mark.parametrize(
    ("asked", "before", "after"),
    [
        ("erase-sizes", "fold-bounds", "erase-sizes"),
        ("operator..fold-bounds", "operator", "fold-bounds"),
        ("..fold-bounds", "operator", "fold-bounds"),
        ("collapse-dims..", "collapse-dims", "cse"),
        ("cse..collapse-dims", "cse", "collapse-dims"),
    ],
)
def test_diff_makes_one_stage_of_the_other(gathernest, patched, asked, before, after):
    ended = gathernest(*ROWS, "--diff", asked)
    assert (ended.status, ended.err) == (0, "")
    assert patched(stage(gathernest, before), ended.out) == stage(gathernest, after)


def test_json_has_the_two_names_and_the_diff(gathernest):
    found = json.loads(gathernest(*ROWS, "--diff", "erase-sizes", "--json").out)
    assert (found["before"], found["after"]) == ("fold-bounds", "erase-sizes")
    assert found["diff"] == gathernest(*ROWS, "--diff", "erase-sizes").out


def test_pass_that_occurs_twice_is_named_by_its_number(gathernest, patched):
    words = ("--schedule", TWICE)
    names = [line.split()[0] for line in gathernest(*ROWS, *words, "--stage", "list").out.splitlines() if line]
    assert [name for name in names if name.startswith("prefetch")][:2] == ["prefetch", "prefetch#2"]
    first, second = (stage(gathernest, name, *words) for name in ("prefetch", "prefetch#2"))
    assert second.count("memref.prefetch") > first.count("memref.prefetch") > 0
    diff = gathernest(*ROWS, *words, "--diff", "prefetch#2").out
    assert patched(first, diff) == second
