from dataclasses import replace

import pytest

from gathernest.tools.tracking.paired import why
from gathernest.tools.tracking.paired.processes import Side
from gathernest.tools.tracking.paired.why import UNCHANGED, Why, explain_kernels
from gathernest.tools.tracking.static_report.collect import Collected, StaticReportError
from gathernest.tools.tracking.static_report.kernel_facts import KernelFacts, LoopFacts

LOOP = LoopFacts("copy indices_i", 1, True, 32, 4, 1, 1, 0, 0, 0, 0, 1, ("vmovups (%rax), %ymm0", "jne 1"))
KERNEL = KernelFacts("tile", (("operator", "a"), ("tile-loops", "b")), "source", "assembly", (LOOP,))
VERSIONS = {"numba": "1"}


@pytest.fixture
def explain(monkeypatch, tmp_path):
    """Explain a case whose kernels at both sides, or the error of their process, are given."""

    def run(base, head):
        answers = iter((base, head))

        def collect(cases, conditions, **options):
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(why, "collect", collect)
        sides = [Side(name, name, "0" * 40, 0, tmp_path, "python") for name in ("base", "head")]
        return explain_kernels(sides, ["rows-16B"], 1, lambda done: None)["rows-16B"]

    return run


def collected(kernel):
    return Collected(VERSIONS, {"rows-16B": kernel}, {})


def test_same_code_is_not_the_cause(explain):
    moved = replace(KERNEL, stages=(("operator", "c"), ("tile-loops", "d")), source="other")
    assert explain(collected(KERNEL), collected(moved)) == Why(UNCHANGED, is_code=False)


def test_other_code_is_explained_by_the_pass_and_its_loop(explain):
    slower = replace(LOOP, vector_bytes=0, code=("mov (%rax), %ebx", "jne 1"))
    head = replace(KERNEL, stages=(("operator", "a"), ("tile-loops", "z")), source="s", assembly="t", loops=(slower,))
    found = explain(collected(KERNEL), collected(head))
    assert found.summary == "the first stage that differs is that of tile-loops"
    assert found.is_code
    assert any("copy indices_i" in line for line in found.lines)
    assert any("mov (%rax), %ebx" in line for line in found.lines)


def test_code_that_a_side_cannot_show_is_said(explain):
    failed = Collected(VERSIONS, {}, {"rows-16B": "AttributeError: no asm"})
    assert explain(failed, collected(KERNEL)) == Why("the code cannot be shown: AttributeError: no asm")


def test_process_that_ends_is_said(explain):
    assert explain(StaticReportError("it ended"), None) == Why("the code cannot be shown: it ended")
