import re

from gathernest.playground.play import page as panels
from gathernest.playground.play.work import BytesCheck, Mistake


def test_the_place_of_a_mistake_is_underlined_and_everything_escaped():
    shown = panels.mistake_panel(Mistake("<a>", "a < b", "one\n  <two> & three\n", 2, 3, 5))
    assert "<u>&lt;two&gt;</u> &amp; three" in shown
    assert "&lt;a&gt;" in shown and "a &lt; b" in shown


def test_stages_are_folded_with_what_changed_marked_and_unchanged_ones_in_a_line(made):
    shown = panels.stages_panel(made, edited=13)
    assert shown.count("<details>") + shown.count("nothing changed") == len(made)
    assert "01 normalize-gather: nothing changed" in shown
    assert shown.count(", edited</summary>") == 1
    tile = shown.split("09 tile-loops")[1].split("</details>")[0]
    assert "arith.constant 64" in "".join(re.findall("<mark>(.*?)</mark>", tile, re.DOTALL))
    assert "func.return" in tile and "func.return" not in "".join(re.findall("<mark>(.*?)</mark>", tile, re.DOTALL))


def test_the_bytes_are_right_wrong_or_not_checked(plan):
    assert "The bytes are right" in panels.bytes_panel(BytesCheck(None, plan.problem, 3))
    assert "The bytes are wrong" in panels.bytes_panel(BytesCheck("differs", plan.problem, 1))
    assert "The bytes are not checked" in panels.bytes_panel(BytesCheck(None, None))


def test_what_is_of_other_settings_is_grey():
    found = {"time_us": 12.5, "rounds": 9, "threads": 2, "difference": None, "is_compared": True}
    assert "play old" in panels.time_panel(found, is_current=False)
    assert "play old" not in panels.time_panel(found, is_current=True)
    assert "12.5 µs a call with random indices on 2 threads, the median of 9 rounds." in panels.time_panel(
        found, is_current=True
    )
    wrong = panels.time_panel({**found, "difference": "at [0]"}, is_current=True)
    assert "The kernel&#x27;s bytes are wrong: at [0]" in wrong and "play bad" in wrong


def test_the_explanation_has_the_bytes_and_the_rate(plan):
    shown = panels.explanation_panel(plan, 1000.0)
    assert "24.576 MB" in shown and "37.353 MB" in shown
    assert "1,000.0 µs, 37.4 GB/s of the bytes above" in shown
    assert "measured" not in panels.explanation_panel(plan, None)


def test_the_hot_loops_stand_before_the_whole_assembly():
    found = {
        "assembly": ["f:", "push %rbp", ".L1:", "vmovups (%rax), %ymm0", "jne .L1", "ret"],
        "hot_loops": [{"name": "inner", "lines": [2, 3, 4]}],
    }
    loops, _, whole = panels.assembly_panel(found, is_current=True).partition("The whole assembly: 6 lines")
    assert "inner: 2 instructions" in loops
    assert ".L1:\n    vmovups (%rax), %ymm0\n    jne .L1</pre>" in loops and "push" not in loops
    assert "f:\n    push %rbp" in whole
    many = panels.assembly_panel({**found, "hot_loops": found["hot_loops"] * 6}, is_current=True)
    assert many.partition("2 more loops")[0].count("inner: 2 instructions") == 4
    assert panels.WAIT in panels.assembly_panel({}, is_current=False)
