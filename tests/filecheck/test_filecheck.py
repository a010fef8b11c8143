"""Every `.mlir` file here says how it is run and what the output must show.

`// RUN: gathernest-opt %s ...` gives the arguments. Files whose arguments have `--verify-diagnostics` check their own
`expected-error` comments; the others are matched against their CHECK lines.
"""

import shlex
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser

from gathernest.ir.modules.context import parse_module, print_generic
from gathernest.lowering.registry import PASSES
from gathernest.tools.opt import main

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.mlir"))


def run_line(path: Path) -> list[str]:
    line = next(line for line in path.read_text().splitlines() if line.startswith("// RUN: gathernest-opt"))
    return [str(path) if word == "%s" else word for word in shlex.split(line.removeprefix("// RUN: gathernest-opt"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_output_is_what_the_file_says(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = run_line(path)
    status = main(arguments)
    output = capsys.readouterr()
    assert status == 0, output.err
    if "--verify-diagnostics" in arguments:
        assert "expected-error" in path.read_text()
        return
    options = Options(str(path))
    matched = Matcher(options, FInput("<output>", output.out), Parser.from_opts(options)).run()
    assert matched == 0, f"{capsys.readouterr().err}\n{output.out}"


def test_operations_read_back_from_their_generic_text() -> None:
    module = parse_module((HERE / "ops" / "round_trip.mlir").read_text())
    assert str(parse_module(print_generic(module))) == str(module)


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_has_a_file_and_an_invalid_case(name: str) -> None:
    stem = name.replace("-", "_")
    folder = HERE / "passes" / stem
    invalid = sorted(folder.rglob(f"{stem}_invalid.mlir"))
    assert (folder / f"{stem}.mlir").exists()
    assert len(invalid) == (name not in TOTAL)
    assert all("expected-error" in path.read_text() for path in invalid)


# Passes that reject nothing.
TOTAL = {"drop-unit-loops", "hoist-invariants", "fold-constants", "promote-sums", "compose-gathers", "gather-to-slice"}
