"""Two gathers side by side: which levels are paired, and which lines differ."""

import dataclasses

import gathernest as gn
from gathernest.lowering.provenance.trace import Level, Line, Trace
from gathernest.playground import levels as comparison
from gathernest.playground.levels import compare_levels, hot_loop_facts
from gathernest.playground.report import page
from gathernest.playground.sections import InTurn, timed_in_turn

from .test_page import HOSTILE, Page


def stage(name: str, *texts: str) -> Level:
    return Level(name, "stage", tuple(map(Line, texts)), None)


def compared(left: list[Level], right: list[Level], most_rows: int | None = None) -> list[comparison.LevelDiff]:
    plain = lambda lines, kind: list(lines)  # noqa: E731
    return compare_levels(Trace(tuple(left), True), Trace(tuple(right), True), plain, most_rows)


def shown(diff: comparison.LevelDiff) -> list[tuple[str, str | None, str | None]]:
    return [(row.kind, row.left and row.left.html, row.right and row.right.html) for row in diff.rows]


def test_levels_of_one_pass_are_paired_and_others_named():
    diffs = compared(
        [stage("operator", "a"), stage("tile-loops{sizes=4}", "b"), stage("unroll", "c"), stage("cse", "d")],
        [stage("operator", "a"), stage("tile-loops{sizes=8}", "e"), stage("cse", "d")],
    )
    assert [(diff.title, diff.left, diff.right) for diff in diffs] == [
        ("operator", (0, "operator"), (0, "operator")),
        ("tile-loops", (1, "tile-loops{sizes=4}"), (1, "tile-loops{sizes=8}")),
        ("unroll", (2, "unroll"), None),
        ("cse", (3, "cse"), (2, "cse")),
    ]
    assert [len(diff.rows) for diff in diffs] == [0, 1, 0, 0]


def test_lines_that_differ_stand_side_by_side():
    (diff,) = compared([stage("cse", "a", "b", "c", "%0 = d")], [stage("cse", "a", "x", "%7 = d", "new")])
    assert shown(diff) == [
        ("same", "a", "a"),
        ("changed", "b", "x"),
        ("changed", "c", None),
        ("same", "%0 = d", "%7 = d"),
        ("changed", None, "new"),
    ]
    assert (diff.added, diff.removed) == (2, 2)


def test_results_that_are_only_numbered_anew_are_no_difference():
    (diff,) = compared([stage("cse", "%0 = a")], [stage("cse", "%1 = a")])
    assert diff.rows == ()


def test_equal_lines_far_from_a_difference_are_left_out():
    many = [str(number) for number in range(20)]
    (diff,) = compared([stage("cse", *many, "a", *many)], [stage("cse", *many, "b", *many)])
    kinds = [(row.kind, row.count) for row in diff.rows]
    near = [("same", 0)] * 3
    assert kinds == [("equal", 17), *near, ("changed", 0), *near, ("equal", 17)]


def test_a_level_is_cut_where_the_page_is_too_large_and_says_how_many_rows_are_left_out():
    (diff,) = compared([stage("cse", *"abcdefgh")], [stage("cse", *"ABCDEFGH")], 5)
    assert [row.kind for row in diff.rows] == ["changed"] * 5 + ["more"]
    assert diff.rows[-1].count == 3
    assert diff.added == 8


def test_llvm_names_that_are_only_numbered_anew_are_no_difference():
    def llvm(*texts: str) -> Level:
        return Level("LLVM IR", "llvm", tuple(map(Line, texts)), None)

    (diff,) = compared(
        [llvm("body:   ; preds = %a", "  %wide.load10 = load i64, ptr %p.3, !tbaa !45", "  ret i64 10")],
        [llvm("body7:  ; preds = %b", "  %wide.load = load i64, ptr %p., !tbaa !7", "  ret i64 12")],
    )
    assert shown(diff)[2] == ("changed", "  ret i64 10", "  ret i64 12") and diff.added == diff.removed == 1


def test_two_kernels_are_timed_in_turn(section):
    a, b = (gn.compile("gather", "40x8xf32", "9xi64", schedule=text) for text in ("", "vectorize-inner{lanes=8}"))
    found = timed_in_turn((a, b), ("A", "B"), 3)
    assert min(*found.times_us, *found.ratios) > 0
    text = page(
        [section, dataclasses.replace(section, name="B")],
        compare=True,
        in_turn=InTurn(("A", "B, own"), (3.0, 2.0), (1.5,), 9),
    )
    said = (
        "They were timed in turn, 9 rounds: B is 1.50 times as fast as A, the median of the ratios within each round."
    )
    assert said in text and "<td class=differs>3.0 µs</td><td class=differs>2.0 µs</td>" in text


def test_the_hottest_loop_is_counted_by_kind(trace):
    assert dict(hot_loop_facts(trace)) == {"load": 1, "store": 1, "prefetch": 0, "arithmetic": 0}


def test_the_page_of_two_leads_to_the_lines_of_both_and_escapes_their_text(section, trace):
    other = dataclasses.replace(trace, levels=(stage("operator", HOSTILE), *trace.levels[1:]))
    text = page([section, dataclasses.replace(section, name="B", trace=other)], compare=True)
    links = {each["href"] for each in Page(text).all("a")}
    assert {"#comparison", "#gather-0", "#gather-1", "#L0.1", "#G1L0.0"} <= links
    assert {name.partition(".")[0] for name in Page(text).ids()} >= {"comparison", "l0", "G1l0"}
    assert "<script>alert" not in text
    assert "Both are the same code" in text


def test_each_of_several_stands_beside_the_first(section, trace):
    other = dataclasses.replace(trace, levels=(stage("operator", "x"), *trace.levels[1:]))
    others = [dataclasses.replace(section, name=name, trace=each) for name, each in (("B", trace), ("C", other))]
    text = page([section, *others], compare=True)
    assert "Both are the same code" in text and "#G2L0.0" in text
    assert {name.partition(".")[0] for name in Page(text).ids()} >= {"comparison", "l0", "G1l0", "G2l0"}


def test_a_page_of_one_has_no_comparison(section):
    assert 'id="comparison"' not in page([section])
