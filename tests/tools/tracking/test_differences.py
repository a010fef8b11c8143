"""What differs between two static reports, and what explains it."""

from dataclasses import replace

import pytest

from gathernest.tools.tracking.differences import differences, explained


def changed(reported, before, after, **options):
    (change,) = differences(reported(case=before), reported(case=after), **options)
    return change


def with_stages(kernel, **digests):
    """Return a kernel with other digests of stages, and of all that is made from them."""
    stages = tuple((name, digests.get(name.partition("{")[0].partition("-")[0], text)) for name, text in kernel.stages)
    return replace(kernel, stages=stages, source="5b", assembly="6b")


def test_equal_reports_do_not_differ(reported, kernel):
    assert differences(reported(one=kernel, two=kernel), reported(one=kernel, two=kernel)) == []


def test_first_stage_that_differs_names_the_pass(reported, kernel):
    change = changed(reported, kernel, with_stages(kernel, vectorize="2b", prefetch="3b"))
    assert (change.kind, change.what, change.same_code) == ("pass", "vectorize-inner{lanes=8}", False)


def test_operator_that_differs_is_no_pass(reported, kernel):
    assert changed(reported, kernel, with_stages(kernel, operator="0b", nest="1b")).kind == "operator"


def test_another_step_of_the_schedule_is_told_before_stages(reported, kernel):
    stages = (*kernel.stages[:2], ("vectorize-inner{lanes=4}", "2b"), *kernel.stages[3:])
    change = changed(reported, kernel, replace(kernel, stages=stages, schedule="other"))
    assert (change.kind, change.what) == ("schedule", "vectorize-inner{lanes=8} → vectorize-inner{lanes=4}")
    shorter = changed(reported, kernel, replace(kernel, stages=kernel.stages[:3], schedule="shorter"))
    assert shorter.what == "prefetch{what=rows loop=indices ahead=4} → nothing"


@pytest.mark.parametrize(
    ("made", "kind"),
    [({"source": "5b", "assembly": "6b"}, "source"), ({"assembly": "6b"}, "assembly"), ({"loops": ()}, "loops")],
)
def test_what_is_made_from_equal_stages_is_told(reported, kernel, made, kind):
    change = changed(reported, kernel, replace(kernel, **made))
    assert (change.kind, change.same_code) == (kind, kind == "loops")


def test_pass_that_changes_text_alone_leaves_the_code(reported, kernel):
    stages = (*kernel.stages[:1], ("nest", "1b"), *kernel.stages[2:])
    change = changed(reported, kernel, replace(kernel, stages=stages))
    assert (change.kind, change.what, change.same_code) == ("pass", "nest", True)
    lines = list(explained([change], {}, {}))
    assert lines[-1] == "  schedule and machine code are the same, so it runs as before"


def test_cases_of_one_side_are_new_or_gone(reported, kernel):
    before, after = reported(old=kernel, same=kernel), reported(same=kernel, new=kernel)
    assert [(change.kind, change.cases) for change in differences(before, after)] == [
        ("new", ("new",)),
        ("gone", ("old",)),
    ]
    assert [change.kind for change in differences(before, after, whole=False)] == ["new"]


def test_loop_that_differs_has_its_counts_and_its_diff(reported, kernel, inner):
    lost = replace(inner, prefetches=0, instructions=3, code=(inner.code[0], *inner.code[2:]))
    change = changed(reported, kernel, replace(with_stages(kernel, prefetch="3b"), loops=(kernel.loops[0], lost)))
    (loop,) = change.loops
    assert loop.name == "copy_tile inner"
    assert loop.counts == {"instructions": (4, 3), "prefetches": (1, 0)}
    assert loop.diff() == [" .L1:", "-prefetcht0 (%rax)", " vmovups (%rax), %ymm0", " vmovups %ymm0, (%rdx)"]
    assert list(explained([change], {}, {})) == [
        "the first stage that differs is that of prefetch: case",
        "",
        "case: the first stage that differs is that of prefetch (prefetch{what=rows loop=indices ahead=4})",
        "  loop copy_tile inner (innermost): instructions 4 → 3, prefetches 1 → 0",
        *(f"    {line}" for line in loop.diff()),
    ]


def test_other_registers_are_told_without_the_instructions(reported, kernel, inner):
    moved = replace(inner, code=tuple(line.replace("%rax", "%r12") for line in inner.code))
    change = changed(reported, kernel, replace(kernel, assembly="6b", loops=(kernel.loops[0], moved)))
    assert list(explained([change], {}, {}))[-1] == (
        "  loop copy_tile inner (innermost): the same instructions with other registers"
    )


def test_of_many_kernels_with_one_cause_the_first_is_shown(reported, kernel, inner):
    lost = replace(with_stages(kernel, prefetch="3b"), loops=(replace(inner, code=(".L1:", "jne .L1")),))
    names = [f"case-{number}" for number in range(9)]
    after = {name: replace(lost, source=name) for name in names}
    changes = differences(reported(**dict.fromkeys(names, kernel)), reported(**after))
    lines = list(explained(changes, {}, {}))
    assert lines[0].endswith("case-0, case-1, case-2, case-3, case-4, case-5 and 3 more")
    assert [line for line in lines if line.startswith("case-")] == [
        "case-0: the first stage that differs is that of prefetch (prefetch{what=rows loop=indices ahead=4})"
    ]
    assert len([line for line in explained(changes, {}, {}, in_full=True) if line.startswith("case-")]) == 9
