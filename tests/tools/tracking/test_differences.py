"""What differs between two static reports, and what explains it."""

from dataclasses import replace

from gathernest.tools.tracking.differences import differences, explained


def with_stages(kernel, **digests):
    """Return a kernel with other digests of stages, and of all that is made from them."""
    stages = tuple((name, digests.get(name.partition("{")[0].partition("-")[0], text)) for name, text in kernel.stages)
    return replace(kernel, stages=stages, source="5b", assembly="6b")


def test_equal_reports_do_not_differ(reported, kernel):
    assert differences(reported(one=kernel, two=kernel), reported(one=kernel, two=kernel)) == []


def test_what_differs_is_told_as_reviewed(reported, kernel, inner, golden):
    """Each part of the golden is a changed kernel, with what is found first and the lines that explain it."""
    operator, nest, vectorize, *rest = kernel.stages
    lost = replace(inner, prefetches=0, instructions=3, code=(inner.code[0], *inner.code[2:]))
    moved = replace(inner, code=tuple(line.replace("%rax", "%r12") for line in inner.code))
    steps = (operator, nest, ("vectorize-inner{lanes=4}", "2b"), *rest)
    after = {
        "two passes": with_stages(kernel, vectorize="2b", prefetch="3b"),
        "the operator": with_stages(kernel, operator="0b", nest="1b"),
        "a step of the schedule": replace(kernel, stages=steps, schedule="other"),
        "a step less": replace(kernel, stages=kernel.stages[:3], schedule="shorter"),
        "the source": replace(kernel, source="5b", assembly="6b"),
        "the assembly": replace(kernel, assembly="6b"),
        "the loops alone": replace(kernel, loops=()),
        "the text of a stage alone": replace(kernel, stages=(operator, ("nest", "1b"), vectorize, *rest)),
        "a loop": replace(with_stages(kernel, prefetch="3b"), loops=(kernel.loops[0], lost)),
        "registers": replace(kernel, assembly="6b", loops=(kernel.loops[0], moved)),
    }
    parts = []
    for name, changed in after.items():
        (change,) = differences(reported(case=kernel), reported(case=changed))
        code = "the same code" if change.same_code else "other code"
        parts.append("\n".join([f"# {name}: {change.kind}, {change.what!r}, {code}", *explained([change], {}, {})]))
    golden("tracking/differences.txt", "\n\n".join(parts))


def test_cases_of_one_side_are_new_or_gone(reported, kernel):
    before, after = reported(old=kernel, same=kernel), reported(same=kernel, new=kernel)
    assert [(change.kind, change.cases) for change in differences(before, after)] == [
        ("new", ("new",)),
        ("gone", ("old",)),
    ]
    assert [change.kind for change in differences(before, after, whole=False)] == ["new"]


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
