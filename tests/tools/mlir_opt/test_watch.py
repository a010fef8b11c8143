"""What is printed while passes run: their times, and the file that repeats a failure."""

import re
import shlex

TILE = "nest,tile-loops{loops=indices sizes=4}"
WRONG = "nest,tile-loops{loops=rows sizes=4}"


def test_times_of_passes_are_printed_on_standard_error(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", TILE, "--time-passes", stdin=operator_text)
    assert ended.out == gathernest_opt("-p", TILE, stdin=operator_text).out
    rows = [re.fullmatch(r" +\d+\.\d\d ms  (.*)", row)[1] for row in ended.err.splitlines()]
    assert (rows[0], rows[-1], len(rows)) == ("normalize-gather", "tile-loops{loops=indices sizes=4}", 7)


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
