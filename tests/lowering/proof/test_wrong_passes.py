"""Deliberately wrong passes, each refuted with a small gather on which the interpreter goes wrong, too."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.context import parse_module
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import Gather, Gradient

from .conftest import Edit

FILE = Path(__file__).with_name("wrong_passes.txt")


@dataclass
class Wrong:
    """A wrong pass: the operation and the pipeline before it, the lines that it replaces, and the verdict."""

    operation: str
    pipeline: str
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    verdict: str = ""

    def module(self) -> ModuleOp:
        head, types = self.operation.split(" : ")
        sources, result = types.split(" -> ")
        data, indices = sources.split(", ", 1)
        _, source, index, *_ = head.replace(",", "").split(" ")
        plain = re.sub(r" \{.*?\}", "", sources)
        return parse_module(f"""func.func @gather({source}: {data}, {index}: {indices}) -> {result} {{
          %result = {head} : {plain} -> {result}
          func.return %result : {result}
        }}""")


def read_passes() -> dict[str, Wrong]:
    """Return the wrong passes of the file by their names."""
    found: dict[str, Wrong] = {}
    operation = pipeline = name = ""
    for line in FILE.read_text().partition("\n$")[2].splitlines():
        kind, text = line[:2], line[2:]
        if kind in ("$ ", " g"):
            operation = line.removeprefix("$").strip()
        elif kind == "| ":
            pipeline = text
        elif kind == "# ":
            assert text not in found
            name, found[text] = text, Wrong(operation, pipeline)
        elif kind in ("- ", "+ "):
            (found[name].old if kind == "- " else found[name].new).append(text)
        elif line:
            found[name].verdict = line
    return found


WRONG = read_passes()


@pytest.mark.draw(15)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_pass_has_the_verdict_that_was_reviewed(name: str, prove, verdict_of, update_golden) -> None:
    wrong = WRONG[name]
    how, _, _ = wrong.verdict.partition(": ")
    edit = "\n".join(wrong.old), "\n".join(wrong.new)
    if how == "refuted by samples":
        *_, found = prove(wrong.module(), wrong.pipeline, Edit(*edit))
    else:
        found = verdict_of(wrong.module(), wrong.pipeline, *edit)
    verdict = f"{how}: {found.reason}"
    if update_golden:
        FILE.write_text(re.sub(rf"(?m)(^# {re.escape(name)}\n(?:[-+] .*\n)+).*$", rf"\1{verdict}", FILE.read_text()))
        wrong.verdict = verdict
    assert (found.status, wrong.verdict) == (how.partition(" ")[0], verdict)
    if " by " in how:
        assert found.example is not None
        assert found.example.seen or not how.endswith("that goes wrong")


def test_wrong_pass_that_frees_sorted_indices_ahead_of_their_sums_is_refuted_by_samples(prove) -> None:
    arrays = ArraySpec.parse("9x6xf32"), ArraySpec.parse("7xi64")
    gradient = operator_module(Gather(0), *arrays, gradient=Gradient(2.0))
    edit = Edit("gather.loop axis(", "memref.dealloc %ends : memref<?xi64>\ngather.loop axis(")
    sorting = "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,group-indices{loop=indices}"
    *_, right, wrong = prove(gradient, sorting, edit)
    assert (right.status, wrong.status) == ("undecided", "refuted"), str(wrong)
    assert "memref.load uses memory that is freed" in str(wrong)
