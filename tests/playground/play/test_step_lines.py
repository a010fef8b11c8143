import re

import pytest

import gathernest as gn
from gathernest.playground.play.settings import StepLineError, apply_lines


@pytest.fixture
def script():
    return gn.schedule("gather", "16x4000x64xf32", "6000xi64", axis=1, bounds="wrap")


def calls(script):
    return ", ".join(script.calls)


def test_steps_are_applied_in_order(script):
    apply_lines(script, 'tile("indices", 64)\n\n# a comment\n  interchange("indices_o", "outer")\nvectorize(lanes=8)\n')
    assert calls(script).startswith('tile("indices", 64), interchange("indices_o", "outer", ')
    assert calls(script).endswith(", vectorize(lanes=8)") or calls(script).endswith('vectorize("inner", lanes=8)')


def test_a_trace_is_read_but_for_its_first_line(script):
    apply_lines(script, 'tile("indices", 64)\nparallel("outer")\nprefetch("indices_i", ahead=4)')
    again = gn.schedule("gather", "16x4000x64xf32", "6000xi64", axis=1, bounds="wrap")
    lines = script.trace.splitlines()
    apply_lines(again, "\n".join(line for line in lines if not line.startswith("s =")))
    assert again.nest == script.nest


def test_an_illegal_step_has_its_line_and_leaves_those_before(script):
    with pytest.raises(StepLineError, match="line 2 of the steps: step 2, ") as caught:
        apply_lines(script, 'tile("indices", 64)\nparallel("inner")\nvectorize(lanes=8)')
    assert caught.value.line == 2
    assert isinstance(caught.value.cause, gn.ScheduleError)
    assert calls(script) == 'tile("indices", 64)'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('tiles("indices", 64)', "there is no step 'tiles'; the steps are "),
        ("tile(indices, 64)", 'expected a text or a number, got indices; a loop is named by text: "indices"'),
        ('tile("indices", 2 ** 6)', "expected a text or a number, got 2 ** 6; write the value itself"),
        ('tile("indices")', "tile: missing a required argument: 'size'; it takes (loop, size, tail)"),
        ('tile("indices", 64', "write one step a line, with its quotation marks and parentheses closed"),
        ('s = gn.schedule("gather")', "the gather is set above, so leave this line out"),
        (f"tile({'x+' * 2000}x)", "expected a text or a number, got x+x+"),
        (f"tile({'-' * 900}1)", "expected a text or a number, got -----"),
        (f"s{'.tile()' * 2000}", "got 's.tile()"),
        (f"tile('indices', 0x{'f' * 5000})", 'tile("indices", an integer of 20000 bits), is not legal: expected whole'),
        ("1 + 1", "expected a step such as tile(\"indices\", 64), got '1 + 1'"),
        ("undo()", "there is no step 'undo'"),
        ("parallel(*loops)", "expected a text or a number"),
        ("parallel(**loops)", "** is not read here"),
        ("no-such-pass", "there is no pass 'no-such-pass'"),
        ("__import__('os').system('true')", "there is no step"),
    ],
)
def test_a_line_that_is_no_step_says_why(script, line, message):
    with pytest.raises(StepLineError, match=re.escape(message)) as caught:
        apply_lines(script, line)
    assert caught.value.line == 1
    assert not script.calls
