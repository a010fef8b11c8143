"""`--dump-dir` and `--override-dir`: stages as files, and edited ones in the place of those that passes make."""

import pytest

TILE = "nest,tile-loops{loops=indices sizes=4}"
FILE = "07-tile-loops.mlir"


@pytest.fixture
def dump(gathernest_opt, operator_text, tmp_path):
    """A folder with the stages of a pipeline."""
    assert gathernest_opt("-p", TILE, "--dump-dir", str(tmp_path), stdin=operator_text).status == 0
    return tmp_path


@pytest.fixture
def overridden(gathernest_opt, operator_text, dump):
    """Run the pipeline, or a longer one, with the folder's edits."""
    return lambda *words, more="": gathernest_opt(
        "-p", TILE + more, "--override-dir", str(dump), *words, stdin=operator_text
    )


def edit(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_dump_has_a_numbered_file_for_each_stage(gathernest_opt, operator_text, dump):
    assert [path.name for path in sorted(dump.iterdir())] == [
        *("00-input.mlir", "01-normalize-gather.mlir", "02-erase-element-type.mlir", "03-bufferize-gather.mlir"),
        *("04-collapse-dims.mlir", "05-lower-to-nest.mlir", "06-fold-bounds.mlir", FILE),
    ]
    first, rest = (dump / FILE).read_text().split("\n", 1)
    assert first.startswith("// tile-loops{loops=indices sizes=4} (as made: ")
    assert rest == gathernest_opt("-p", TILE, stdin=operator_text).out


def test_dump_has_the_stages_before_a_failure(gathernest_opt, operator_text, tmp_path):
    gathernest_opt("-p", "canonical,tile-loops{loops=a sizes=4}", "--dump-dir", str(tmp_path), stdin=operator_text)
    assert sorted(tmp_path.iterdir())[-1].name == "04-collapse-dims.mlir"


def test_dump_that_nobody_edited_replaces_nothing(gathernest_opt, overridden, operator_text, dump):
    other = operator_text.replace("9x4", "8x4")
    assert gathernest_opt("-p", TILE, "--override-dir", str(dump), stdin=other) == gathernest_opt(
        "-p", TILE, stdin=other
    )


def test_edited_stage_replaces_that_of_the_pass_and_the_next_passes_run_on_it(overridden, dump):
    edit(dump / "05-lower-to-nest.mlir", "bounds error", "bounds clip")
    ended = overridden(more=",tile-loops{loops=outer sizes=2}")
    assert (ended.status, ended.err) == (0, "")
    assert "check_indices" not in ended.out  # which the nest has with bounds error
    assert "gather.loop outer_o" in ended.out


def test_last_of_several_edited_stages_decides(overridden, dump):
    edit(dump / "05-lower-to-nest.mlir", "bounds error", "bounds clip")
    edit(dump / FILE, "constant 4 : index", "constant 3 : index")
    assert "check_indices" in overridden().out
    assert "constant 3 : index" in overridden().out


def test_stage_written_by_hand_needs_no_first_line(overridden, operator_text, dump):
    (dump / "00-operator.mlir").write_text(operator_text.replace("bounds error", "bounds zero"))
    assert "check_indices" not in overridden().out


def test_edited_stage_is_printed_and_dumped_as_it_was_edited(overridden, dump, tmp_path_factory):
    edit(dump / FILE, "constant 4 : index", "constant 3 : index")
    again = tmp_path_factory.mktemp("again")
    ended = overridden("--print-between-passes", "--dump-dir", str(again))
    assert "constant 3 : index" in ended.out
    assert "constant 3 : index" in (again / FILE).read_text()


def test_edited_stage_that_does_not_parse_names_its_place(overridden, dump):
    edit(dump / FILE, "step %c4 {", "stpe %c4 {")
    ended = overridden()
    assert (ended.status, ended.out) == (1, "")
    message, line, caret = ended.err.splitlines()
    assert message == f"gathernest-opt: error: {dump / FILE}:35:61: Expected 'step'"
    assert (line.strip()[-10:], caret.strip()) == ("stpe %c4 {", "^^^^")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("07-tile-lops", "the pipeline has no stage '07-tile-lops'; did you mean '07-tile-loops'?"),
        ("notes", "the pipeline has no stage 'notes'; a dump of the pipeline has the names"),
    ],
)
def test_file_that_is_no_stage_is_rejected(overridden, dump, name, message):
    (dump / f"{name}.mlir").write_text("builtin.module {}")
    ended = overridden()
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == f"gathernest-opt: error: {dump / name}.mlir: {message}\n"
