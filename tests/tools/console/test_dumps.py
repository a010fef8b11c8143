"""Tracebacks of `exec` and `show`, and files of a dump, which `exec` runs as they are."""

import pytest

ROWS = ("show", "--data", "9x4xf32", "--indices", "5xi64", "--schedule", "tile-loops{loops=indices sizes=4}")
WRONG = (*ROWS[:-1], "tile-loops{loops=rows sizes=4}")


@pytest.fixture
def stage(gathernest, tmp_path):
    file = tmp_path / "stage.mlir"
    file.write_text(gathernest(*ROWS, "--stage", "erase-sizes").out)
    return file


@pytest.mark.parametrize("tool", ["show", "exec"])
def test_traceback_comes_with_an_error_where_it_is_asked_for(gathernest, stage, tool):
    words = WRONG if tool == "show" else ("exec", str(stage), "-p", "tile-loops{loops=rows sizes=4}")
    plain, full = gathernest(*words), gathernest(*words, "--traceback")
    assert plain.status == full.status == 1
    assert plain.err.count("\n") == 1
    assert full.err.startswith("Traceback (most recent call last):\n")
    assert "split_loops.py" in full.err and full.err.endswith(plain.err)


def test_dump_of_show_runs_as_it_is(gathernest, tmp_path, monkeypatch):
    monkeypatch.setenv("GATHERNEST_DUMP_DIR", str(tmp_path))
    assert gathernest(*ROWS, "--stage", "list").status == 0
    files = sorted(tmp_path.glob("*/*.mlir"))
    assert len(files) > 10
    for file in (files[0], files[7], files[-1]):
        assert file.read_text().startswith("// gathernest exec: --operator gather --data 9x4xf32 --indices 5xi64")
        assert gathernest("exec", str(file)).status == 0


def test_dump_of_gathernest_opt_keeps_the_comment_of_its_input(gathernest, gathernest_opt, stage, tmp_path):
    words = ("-p", "tile-loops{loops=inner sizes=2}", "--dump-dir", str(tmp_path / "dump"))
    assert gathernest_opt(*words, stdin=stage.read_text()).status == 0
    assert gathernest("exec", str(tmp_path / "dump" / "01-tile-loops.mlir")).status == 0
