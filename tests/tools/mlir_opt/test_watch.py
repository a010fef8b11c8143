"""What is printed while passes run: modules around them, their times, and the file that repeats a failure."""

import re
import shlex

import pytest

TILE = "nest,tile-loops{loops=indices sizes=4}"
WRONG = "nest,tile-loops{loops=rows sizes=4}"


def heads(text: str) -> list[str]:
    return re.findall(r"^// -----// IR Dump (.*) //----- //$", text, flags=re.MULTILINE)


def test_modules_are_printed_after_every_pass(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", "canonical", "--print-ir-after-all", "-", stdin=operator_text)
    names = ["normalize-gather", "erase-element-type", "bufferize-gather", "collapse-dims"]
    assert heads(ended.err) == [f"After {name}" for name in names]


def test_module_after_a_pass_is_that_which_it_made(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", TILE, "--print-ir-after=tile-loops", stdin=operator_text)
    assert ended.err == f"// -----// IR Dump After tile-loops //----- //\n{ended.out.rstrip()}\n\n"


@pytest.mark.parametrize("option", ["--timing", "--time-passes"])
def test_timing_is_a_table_of_passes_on_standard_error(gathernest_opt, operator_text, option):
    ended = gathernest_opt("-p", TILE, option, stdin=operator_text)
    assert ended.out == gathernest_opt("-p", TILE, stdin=operator_text).out
    rule, title, _, total, _, columns, *rows = ended.err.splitlines()
    assert (rule, title.strip()) == (f"==={'-' * 73}===", "... Execution time report ...")
    assert re.fullmatch(r"  Total Execution Time: \d+\.\d{4} seconds", total)
    assert columns == "  ----Wall Time----  ----Name----"
    cells = [re.fullmatch(r"  +(\d+\.\d{4}) \( *(\d+\.\d)%\)  (.*)", row).groups() for row in rows]
    assert [name for *_, name in cells][-3:] == ["tile-loops{loops=indices sizes=4}", "Rest", "Total"]
    assert sum(float(share) for _, share, _ in cells[:-1]) == pytest.approx(100, abs=1)
    assert cells[-1][1] == "100.0"


def test_reproducer_repeats_the_failure(gathernest_opt, operator_text, tmp_path):
    path = tmp_path / "failure.mlir"
    ended = gathernest_opt("-p", WRONG, "--reproducer", str(path), stdin=operator_text)
    assert ended.status == 1
    run, module = path.read_text().split("\n", 1)
    words = shlex.split(run)
    assert words[:4] == ["//", "RUN:", "gathernest-opt", "%s"]
    assert module == gathernest_opt("-p", "nest", stdin=operator_text).out
    again = gathernest_opt(str(path), *words[4:])
    assert again.err == ended.err.replace("<stdin>", str(path))


def test_reproducer_is_not_written_without_a_failure(gathernest_opt, operator_text, tmp_path):
    assert gathernest_opt("-p", TILE, "--reproducer", str(tmp_path / "failure.mlir"), stdin=operator_text).status == 0
    assert not list(tmp_path.iterdir())
