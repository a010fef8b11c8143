from dataclasses import replace

from gathernest.tools.tracking.causes import UNCHANGED, Finding, compare_calls, explain_code
from gathernest.tools.tracking.kernel_facts import Conditions, KernelFacts, LoopFacts, StaticReport

LOOP = LoopFacts("copy indices_i", 1, True, 32, 4, 1, 1, 0, 0, 0, 0, 1, ("vmovups (%rax), %ymm0", "jne 1"))
KERNEL = KernelFacts("tile", (("operator", "a"), ("tile-loops", "b")), "source", "assembly", (LOOP,))
VERSIONS = {"numba": "1"}


def explain(base, head):
    return explain_code("rows-16B", base, head)


def collected(kernel):
    return StaticReport(Conditions(None, None), VERSIONS, {"rows-16B": kernel})


def test_same_code_is_not_the_cause():
    moved = replace(KERNEL, stages=(("operator", "c"), ("tile-loops", "d")), source="other")
    assert explain(collected(KERNEL), collected(moved)) == Finding(UNCHANGED, is_code=False)


def test_other_code_is_explained_by_the_pass_and_its_loop():
    slower = replace(LOOP, vector_bytes=0, code=("mov (%rax), %ebx", "jne 1"))
    head = replace(KERNEL, stages=(("operator", "a"), ("tile-loops", "z")), source="s", assembly="t", loops=(slower,))
    found = explain(collected(KERNEL), collected(head))
    assert found.summary == "the first stage that differs is that of tile-loops"
    assert found.is_code
    assert any("copy indices_i" in line for line in found.lines)
    assert any("mov (%rax), %ebx" in line for line in found.lines)


def test_code_that_a_side_cannot_show_is_said():
    failed = StaticReport(Conditions(None, None), VERSIONS, {}, failed={"rows-16B": "AttributeError: no asm"})
    assert explain(failed, collected(KERNEL)) == Finding("the code cannot be shown: AttributeError: no asm")


def test_calls_that_changed_are_listed_by_pass_and_file_the_largest_change_first():
    before = {"pass cse": 100, "kernels/gather.py": 40, "other packages": 10_000}
    found = compare_calls(before, before | {"pass cse": 200, "kernels/gather.py": 10, "other packages": 10_010})
    lines = ("pass cse: 100 → 200", "kernels/gather.py: 40 → 10")
    assert found == Finding("it calls 10140 → 10220 Python functions; by pass and file:", lines)


def test_equal_calls_are_not_the_cause():
    assert compare_calls({"pass cse": 5}, {"pass cse": 5}).summary == (
        "it calls as many Python functions as before, so they are not the cause"
    )
