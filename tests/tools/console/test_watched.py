"""`exec` and `show` print what passes do as `gathernest-opt` does: modules, times, tracebacks, and files that run."""

import re

import pytest

ROWS = ("show", "--data", "9x4xf32", "--indices", "5xi64", "--schedule", "tile-loops{loops=indices sizes=4}")
WRONG = (*ROWS[:-1], "tile-loops{loops=rows sizes=4}")


def heads(text: str) -> list[str]:
    return re.findall(r"^// -----// IR Dump (.*) //----- //$", text, flags=re.MULTILINE)


@pytest.fixture
def stage(gathernest, tmp_path):
    file = tmp_path / "stage.mlir"
    file.write_text(gathernest(*ROWS, "--stage", "erase-sizes").out)
    return file


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--print-ir-after=tile-loops",), ["After tile-loops"]),
        (("--print-ir-before=fold-bounds,tile-loops",), ["Before fold-bounds", "Before tile-loops"]),
        (("--print-ir-after-change", "--print-ir-after=tile-loops,normalize-gather"), ["After tile-loops"]),
        (("--print-ir-after-failure",), []),
    ],
)
def test_show_prints_modules_around_the_passes_that_are_named(gathernest, words, wanted):
    ended = gathernest(*ROWS, "--stage", "list", *words)
    assert (ended.status, heads(ended.err)) == (0, wanted)
    assert ended.out == gathernest(*ROWS, "--stage", "list").out


@pytest.mark.parametrize("tool", ["show", "exec"])
def test_pass_that_does_not_run_cannot_be_watched(gathernest, stage, tool):
    words = ROWS if tool == "show" else ("exec", str(stage), "--engine", "numba")
    ended = gathernest(*words, "--print-ir-after=hoist-invariant")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == (
        "gathernest: error: --print-ir-after: pass 'hoist-invariant' does not run; did you mean 'hoist-invariants'?\n"
    )


def test_exec_prints_the_modules_and_times_of_the_passes_that_it_runs(gathernest, stage):
    ended = gathernest("exec", str(stage), "-p", "tile-loops{loops=inner sizes=2},cse", "--print-ir-after", "--timing")
    assert (ended.status, heads(ended.err)) == (0, ["After tile-loops", "After cse"])
    assert "  tile-loops{loops=inner sizes=2}\n" in ended.err
    assert "... Execution time report ..." in ended.err


@pytest.mark.parametrize("tool", ["show", "exec"])
def test_traceback_comes_with_an_error_where_it_is_asked_for(gathernest, stage, tool):
    words = WRONG if tool == "show" else ("exec", str(stage), "-p", "tile-loops{loops=rows sizes=4}")
    plain, full = gathernest(*words), gathernest(*words, "--traceback")
    assert plain.status == full.status == 1
    assert plain.err.count("\n") == 1
    assert full.err.startswith("Traceback (most recent call last):\n")
    assert "split_loops.py" in full.err and full.err.endswith(plain.err)


def test_files_of_a_dump_run_as_they_are(gathernest, stage, tmp_path):
    ended = gathernest("exec", str(stage), "--engine", "numba", "--dump-dir", str(tmp_path / "dump"))
    assert (ended.status, ended.err) == (0, "")
    files = sorted((tmp_path / "dump").iterdir())
    assert files[0].name == "00-input.mlir" and files[-1].name.endswith("-cse.mlir")
    for file in files:
        assert file.read_text().startswith("// gathernest exec: --operator gather --data '[[")
        assert gathernest("exec", str(file)).status == 0


def test_dump_of_show_runs_as_it_is(gathernest, tmp_path):
    assert gathernest(*ROWS, "--dump-dir", str(tmp_path), "--stage", "list").status == 0
    files = sorted(tmp_path.glob("*/*.mlir"))
    assert len(files) > 10
    for file in (files[0], files[7], files[-1]):
        assert file.read_text().startswith("// gathernest exec: --operator gather --data 9x4xf32 --indices 5xi64")
        assert gathernest("exec", str(file)).status == 0


def test_dump_of_gathernest_opt_keeps_the_comment_of_its_input(gathernest, gathernest_opt, stage, tmp_path):
    words = ("-p", "tile-loops{loops=inner sizes=2}", "--dump-dir", str(tmp_path / "dump"))
    assert gathernest_opt(*words, stdin=stage.read_text()).status == 0
    assert gathernest("exec", str(tmp_path / "dump" / "01-tile-loops.mlir")).status == 0


def test_large_arrays_are_not_written_into_a_comment(gathernest, tmp_path):
    file = tmp_path / "stage.mlir"
    file.write_text(gathernest("show", "--data", "300x4xf32", "--indices", "5xi64", "--stage", "operator").out)
    words = ("exec", str(file), "-p", "nest", "--dump-dir", str(tmp_path / "dump"))
    assert gathernest(*words).status == 0
    first, *_ = (tmp_path / "dump" / "00-input.mlir").read_text().splitlines()
    assert first == (
        "// gathernest exec: --operator gather --data 300x4xf32 --indices 5xi64 --axis 0 --batch-dims 0 --bounds error"
    )
