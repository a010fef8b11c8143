"""`show --upstream`: a stage compiled by both, its bytes, times and hot loops, and the command line that it prints."""

import argparse
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import gathernest as gn
from gathernest.ir.modules.context import parse_module
from gathernest.lowering.upstream.machine_code import find_tools, strict_module
from gathernest.playground import beside_upstream as beside
from gathernest.tools import cli
from gathernest.tools.commands import show
from gathernest.tools.console.terminal import Parser

pytestmark = pytest.mark.thorough

ROWS = ("show", "--data", "64x8xf32", "--indices", "9xi64")
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def test_text_has_the_command_bytes_times_and_loops(upstream, capsys):
    assert cli.main([*ROWS, "--upstream", "--rounds", "1"]) == 0
    out = capsys.readouterr().out
    for maker in ("gathernest", "upstream"):
        assert f"{maker:<10}  equal to the reference of the operator\n" in out
        assert re.search(rf"^{maker:<10}  \d+\.\d\d µs$", out, re.MULTILINE)
    assert out.startswith("Stage cse by upstream\ngathernest show --data 64x8xf32 --indices 9xi64 --schedule ")
    left, right = out.split("\n# ")[1].splitlines()[0].split(" | ")
    assert "load" in left and "# " in right and "load" in right


def test_the_command_that_is_printed_makes_the_assembly(upstream, capsys):
    assert cli.main([*ROWS, "--bounds", "wrap", "--upstream", "--rounds", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    folder = Path(sys.executable).parent
    command = found["command"].replace("gathernest-opt", f"{folder}/gathernest-opt", 1)
    command = re.sub(r"^gathernest ", f"{shlex.quote(str(folder))}/gathernest ", command)
    made = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    assert made == (found["assemblies"]["upstream"] if find_tools().llc is not None else made)
    assert "gather" in made


@pytest.mark.parametrize("name", ["gather", "gather_grad"])
def test_an_earlier_stage_of_loops_is_compared_too(upstream, name):
    kernel = gn.compile(name, "64x8xf32", "9xi64", scale=0.5 if name == "gather_grad" else 1.0)
    stage = "lower-nest-to-loops"
    found = beside.beside_upstream(kernel.plan, stage, kernel.stages[stage], 1)
    assert (found.stage, found.differences) == (stage, {})
    assert set(found.times_us) == {"gathernest", "upstream"} == set(found.assemblies)
    assert all(loop for maker in found.assemblies for loop in found.hot_loops(maker))


def test_the_loop_that_calls_the_function_of_a_tile_is_not_hot(upstream):
    schedule = "tile-loops{loops=indices sizes=256},parallelize-loops{loops=indices_o},vectorize-inner{lanes=8}"
    kernel = gn.compile("gather", "1000x64xf32", "100xi64", schedule=schedule)
    found = beside.beside_upstream(kernel.plan, "cse", kernel.stages["cse"], 1)
    assert "copy_tile" in found.assemblies["gathernest"]
    assert found.hot_loops("gathernest")
    assert not any("copy_tile" in line.text for loop in found.hot_loops("gathernest") for line in loop)


def test_bytes_that_differ_are_told(upstream):
    kernel = gn.compile("gather", "64x8xf32", "9xi64", bounds="clip")
    edited = kernel.stages["cse"].replace("arith.minsi", "arith.maxsi", 1)
    assert edited != kernel.stages["cse"]
    found = beside.beside_upstream(kernel.plan, "cse", edited, 1)
    assert set(found.differences) == {"gathernest", "upstream"}
    assert re.match(
        r"at \[\d+, \d+\] of the result it must give .*; \d+ of 72 elements differ", found.differences["upstream"]
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--stage", "fold-bounds"), "stage 'fold-bounds' still has gather.loop, gather.yield, which upstream MLIR"),
        (("--stage", "asm"), "--upstream compares one stage at loops level; leave out --stage asm"),
        (("--diff", "cse"), "--upstream compares one stage at loops level; leave out --diff"),
        (("--indices", "0xi64"), "nothing runs for these sizes, so there is nothing to compare; give larger ones"),
    ],
)
def test_what_cannot_be_compared_is_one_message(upstream, capsys, words, message):
    assert cli.main([*ROWS, "--upstream", *words]) == (2 if "leave out" in message else 1)
    ended = capsys.readouterr()
    assert (ended.out, ended.err.count("\n")) == ("", 1)
    assert ended.err.startswith(f"gathernest: error: {message}")


def test_missing_tools_are_one_message(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main([*ROWS, "--upstream"]) == 1
    assert capsys.readouterr().err.startswith("gathernest: error: mlir-opt and mlir-translate of LLVM ")


def gathers_shown() -> list[str]:
    """Return the gathers that the examples of `gathernest show` name, with their schedules."""
    return [
        line.strip()
        for line in show.EXAMPLES.splitlines()
        if line.startswith("  gathernest show") and "--model" not in line
    ]


def test_every_gather_of_the_examples_of_show_is_taken_by_a_plain_mlir_opt(upstream):
    parser = Parser()
    show.add_arguments(parser)
    texts: dict[str, str] = {}
    for command in gathers_shown():
        options: argparse.Namespace = parser.parse_args(shlex.split(command)[2:])
        names = ("data", "indices", "axis", "batch_dims", "bounds", "schedule")
        kernel = gn.compile(options.operator, **{name: getattr(options, name) for name in names})
        texts[command] = f"{strict_module(parse_module(kernel.stages['cse']))!s}\n"
    assert len(texts) > 8
    assert upstream.check(texts) == {}


def test_every_schedule_of_the_examples_is_taken_by_a_plain_mlir_opt(upstream):
    steps, _, _ = (EXAMPLES / "schedules.py").read_text().partition("kernels = {")
    made: dict = {}
    exec(steps, made)
    with gn.knobs.scope(interpret=True):  # the stages alone
        kernels = {name: script.compile() for name, script in made["schedules"].items()}
    texts = {name: f"{strict_module(parse_module(kernel.stages['cse']))!s}\n" for name, kernel in kernels.items()}
    assert len(texts) == 6
    assert upstream.check(texts) == {}


def test_commands_of_the_page_run(upstream, capsys):
    page = (ROOT / "docs" / "playground.md").read_text()
    ((piped, compared),) = [
        block.splitlines() for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "-t upstream" in block
    ]
    command = re.sub(r"\bgathernest", f"{Path(sys.executable).parent}/gathernest", piped)
    command = command.replace("mlir-opt-22", upstream.mlir_opt)
    assert subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout.startswith("module {")
    assert cli.main(shlex.split(compared)[1:]) == 0
    assert capsys.readouterr().out.count("equal to the reference of the operator") == 2
