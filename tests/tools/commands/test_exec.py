"""`gathernest exec`: stages from files, arrays in three forms, and what is said about an edited one."""

import json

import numpy as np
import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.exec_comment import array_text, header_options
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.playground.stage import filled, read_array
from gathernest.tools import opt
from gathernest.tools.cli import main

SHOW = ["show", "--data", "5x4xf32", "--indices", "3xi64", "--stage", "fold-bounds"]
DROPPED = ("%position = arith.index_cast %lowered", "%position = arith.index_cast %index_1")


@pytest.fixture
def stage(tmp_path, capsys):
    assert main(SHOW) == 0
    file = tmp_path / "stage.mlir"
    file.write_text(capsys.readouterr().out)
    return file


def outcome(capsys, *words: object) -> tuple[int, str, str]:
    status = main(["exec", *map(str, words)])
    printed = capsys.readouterr()
    return status, printed.out.strip(), printed.err.strip()


def edited(stage, before: str, after: str):
    text = stage.read_text()
    assert before in text
    other = stage.with_name("edited.mlir")
    other.write_text(text.replace(before, after))
    return other


def test_the_command_line_goes_before_the_comment_of_the_file(stage, capsys, tmp_path):
    np.save(tmp_path / "indices.npy", np.array([[4, -5], [0, 1]]))
    status, _, error = outcome(capsys, stage, "--indices", tmp_path / "indices.npy")
    assert status == 1
    assert "the stage is of other arrays: pass the arrays of its gather" in error
    assert outcome(capsys, stage, "--indices", "[4,-5,0]xi64", "--engine", "numba")[0] == 0


def test_a_large_stage_says_how_long_it_takes(stage, capsys):
    _, _, error = outcome(capsys, stage, "--indices", "30000xi64")
    assert error.replace("\n", " ").startswith(
        "interpreting 120,000 elements takes about 24 s, and Ctrl-C stops it; give smaller sizes, or --engine numba"
    )
    _, _, error = outcome(capsys, stage, "--indices", "30000xi64", "--step", "99999,0")  # which is no element
    assert error.replace("\n", " ").startswith(
        "interpreting 120,000 elements takes about 24 s, and Ctrl-C stops it; give"
    )
    assert "numba" not in error.partition("smaller sizes")[2]


def test_passes_run_first(capsys, tmp_path):
    assert main([*SHOW[:-1], "operator"]) == 0
    file = tmp_path / "operator.mlir"
    file.write_text(capsys.readouterr().out)
    assert outcome(capsys, file, "-p", "nest,tile-loops{loops=indices sizes=2}")[0] == 0


def test_an_edited_stage_is_reported_with_the_line_and_the_iteration(stage, capsys):
    wrong = edited(stage, *DROPPED)
    status, out, error = outcome(capsys, wrong, "--indices", "[0,-1,2]")
    line = next(number for number, text in enumerate(wrong.read_text().splitlines(), 1) if "%element =" in text)
    assert (status, out) == (1, "")
    assert error.startswith(f"{wrong}: interpreter differs from reference: access at (0, 0, -1, ")
    assert f"memref.load on line {line} at %b = 0, %o = 0, %i = 1, %j = " in error


def test_an_edited_stage_is_compared_with_another(stage, capsys):
    wrong = edited(stage, "%out[%b_1, %o, %i_1, %j]", "%out[%b_1, %o, %i_1, %c0_2]")
    status, out, _ = outcome(capsys, wrong, "--compare", stage, "--json")
    facts = json.loads(out)
    assert (status, facts["equal"], facts["compared_with"]) == (1, False, str(stage))
    assert "stored by memref.store on line" in facts["difference"]


def test_a_gradient_takes_grad_and_the_shape_of_data(capsys, tmp_path):
    show = ["show", "--operator", "gather_grad", "--data", "5x4xf32", "--indices", "3xi64", "--scale", "0.5"]
    assert main([*show, "--stage", "lower-to-nest"]) == 0
    file = tmp_path / "grad.mlir"
    file.write_text(capsys.readouterr().out)
    assert outcome(capsys, file, "--random", "7") == (
        0,
        f"{file}: interpreter gives the bytes of reference: 5x4xf32",
        "",
    )


@pytest.mark.parametrize("scale", ["-1e-30", "-.5", "1e+22"])
def test_a_stage_is_read_with_the_scale_that_it_came_from(capsys, tmp_path, scale):
    show = ["show", "--operator", "gather_grad", "--data", "5x4xf32", "--indices", "3xi64", "--scale", scale]
    assert main([*show, "--stage", "lower-to-nest"]) == 0
    file = tmp_path / "grad.mlir"
    file.write_text(capsys.readouterr().out)
    assert outcome(capsys, file)[0] == 0


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", b"\x93NUMPY\x01\x00\x02\x00((", None])
def test_a_damaged_file_of_an_array_is_one_error(stage, capsys, tmp_path, content):
    path = tmp_path / "data.npy"
    if content is None:
        with path.open("wb") as file:
            np.savez(file, a=np.zeros(3))
    else:
        path.write_bytes(content)
    status, _, error = outcome(capsys, stage, "--data", path)
    assert (status, f"gathernest: error: --data: {path}: " in error) == (2, True)


def test_an_endless_file_is_not_read_to_its_end(capsys):
    error = "gathernest: error: /dev/zero: it has more than 67108864 bytes"
    assert outcome(capsys, "/dev/zero") == (1, "", error)
    assert opt.main(["/dev/zero"]) == 1
    assert "/dev/zero: it has more than" in capsys.readouterr().err


def test_a_file_without_a_comment_needs_the_arrays(stage, capsys):
    bare = edited(stage, "// gathernest exec:", "//")
    assert "--data is missing: neither the command line nor a comment of a file gives it" in outcome(capsys, bare)[2]


def test_a_comment_with_an_unknown_option_is_named(stage, capsys):
    wrong = edited(stage, "--axis", "--axes")
    error = outcome(capsys, wrong)[2]
    assert f"the comment '// gathernest exec:' of {wrong}: there is no option --axes; did you mean '--axis'?" in error


def test_text_that_does_not_parse_has_its_place(stage, capsys):
    wrong = edited(stage, "%shifted = arith.addi", "%shifted = arith.addd")
    error = outcome(capsys, wrong)[2]
    assert error.startswith(f"gathernest: error: {wrong}:")
    assert "Operation arith.addd is not registered; did you mean 'arith.addi'?" in error


@pytest.mark.parametrize("dtype", ["i1", "u8", "i4", "f4", "f8"])
def test_an_array_written_as_text_is_read_again(dtype):
    array = np.array([[1, 2], [3, 4]], dtype)
    again = read_array(array_text(array))
    assert isinstance(again, np.ndarray)
    assert (again.dtype, again.tolist()) == (array.dtype, array.tolist())


def test_an_array_without_elements_is_written_as_its_sizes():
    assert read_array(array_text(np.zeros((0, 4), np.float32))) == ArraySpec((0, 4), "f4")


def test_indices_are_filled_within_their_axes():
    rng = np.random.default_rng(0)
    for dtype in ("i1", "u1", "i8", "u8"):
        spec = ArraySpec((500,), dtype)
        drawn = filled(spec, rng, problem_of("gather", "3xf32", spec))
        assert set(drawn.tolist()) == set(range(0 if dtype[0] == "u" else -3, 3))
    unchecked = filled(ArraySpec((500,), "i8"), rng, problem_of("gather", "3xf32", "500xi64", bounds="unchecked"))
    assert set(unchecked.tolist()) == {0, 1, 2}
    pairs = filled(ArraySpec((500, 2), "i8"), rng, problem_of("gather_nd", "2x5xf32", "500x2xi64"))
    assert [int(pairs[:, part].max()) for part in (0, 1)] == [1, 4]


def test_the_words_of_a_comment_are_those_of_a_shell():
    assert header_options('// gathernest exec: --data "4x3xf32 strided<[1, 4]>"\nmodule') == [
        "--data",
        "4x3xf32 strided<[1, 4]>",
    ]
