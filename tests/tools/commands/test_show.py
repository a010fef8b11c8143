import json
import os
import platform
import re
import subprocess
import sys

import pytest

DATA, INDICES = "2x64x128xf32", "2x32x21xi64"
LAYER = ("show", "--data", DATA, "--indices", INDICES, "--axis", "1", "--batch-dims", "1")
ROWS = ("show", "--data", "64x8xf32", "--indices", "9xi64")


@pytest.mark.draw(1)
@pytest.mark.parametrize("operator", ["gather", "gather_grad"])
def test_pipeline_of_a_kernel_makes_its_source_in_gathernest_opt(gathernest, gathernest_opt, operator):
    words = ("show", "--operator", operator, "--data", "1000x64xf32", "--indices", "5000xi64", "--stage")
    pipeline = gathernest(*words, "pipeline")
    assert pipeline.status == 0
    assert "vectorize-inner{lanes=" in pipeline.out
    ended = gathernest_opt("-p", pipeline.out.strip(), "-t", "numba", stdin=gathernest(*words, "operator").out)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.partition("\nfrom numba")[2] == gathernest(*words, "source").out.partition("\nfrom numba")[2]


def below_comment(text: str) -> str:
    """Return a printed stage without the comment that `gathernest exec` reads."""
    comment, _, module = text.partition("\n")
    assert comment.startswith("// gathernest exec: --operator gather --data ")
    return module


@pytest.mark.thorough
def test_every_stage_by_name_is_the_one_of_all(gathernest):
    everything = gathernest(*ROWS, "--stage", "all").out
    for name in json.loads(gathernest(*ROWS, "--json").out)["stages"]:
        assert below_comment(gathernest(*ROWS, "--stage", name["name"]).out) in everything


def test_all_stages_parse_again_as_pieces(gathernest, gathernest_opt):
    everything = gathernest(*LAYER, "--stage", "all").out
    ended = gathernest_opt("--split-input-file", stdin=everything)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.count("builtin.module") == everything.count("builtin.module")


def test_llvm_and_assembly_are_of_the_compiled_kernel(gathernest):
    llvm = gathernest(*ROWS, "--schedule", "", "--stage", "llvm")
    asm = gathernest(*ROWS, "--schedule", "", "--stage", "asm")
    assert (llvm.status, asm.status) == (0, 0)
    assert llvm.out.startswith("; ModuleID")
    assert "\n\t.globl\t" in asm.out


@pytest.mark.parametrize(
    ("words", "action", "remark"),
    [
        (["--data", "0x4xf32"], "reject", "the axis is empty, and a call is rejected"),
        (["--data", "0x4xf32", "--bounds", "zero"], "zeros", "the axis is empty, and the result is zeros"),
        (["--indices", "0xi64"], "nothing", "the result is empty"),
    ],
)
def test_sizes_for_which_nothing_runs_are_remarked(gathernest, words, action, remark):
    assert f"Nothing of this runs for these sizes: {remark}.\n" in gathernest(*ROWS, *words).out
    assert json.loads(gathernest(*ROWS, *words, "--json").out)["action"] == action


def test_json_of_a_stage_has_its_text(gathernest):
    plain = below_comment(gathernest(*ROWS, "--stage", "fold-bounds").out)
    (stage,) = json.loads(gathernest(*ROWS, "--stage", "fold-bounds", "--json").out)["stages"]
    assert stage["text"] == plain


def test_json_with_pictures_has_none_before_the_nest(gathernest):
    facts = json.loads(gathernest(*ROWS, "--stage", "all", "--picture", "--json").out)
    pictures = {stage["name"]: stage["picture"] for stage in facts["stages"]}
    assert pictures["operator"] is None
    assert "for indices" in pictures["lower-to-nest"]


def test_knob_schedule_is_shown(gathernest, monkeypatch):
    monkeypatch.setenv("GATHERNEST_SCHEDULE", "tile-loops{loops=indices sizes=3}")
    facts = json.loads(gathernest(*ROWS, "--json").out)
    assert facts["schedule"] == "tile-loops{loops=indices sizes=3}"


def test_nothing_is_compiled_for_a_stage(gathernest, tmp_path, monkeypatch):
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", str(tmp_path))
    assert gathernest(*ROWS, "--stage", "source").status == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("columns", [40, 60, 100])
def test_description_of_a_stage_is_whole_where_the_terminal_is_narrow(gathernest, monkeypatch, columns):
    wide = gathernest(*ROWS, "--stage", "list").out
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    narrow = re.sub(r"\x1b\[[\d;]*m", "", gathernest(*ROWS, "--stage", "list").out)
    assert narrow.split() == wide.split() and narrow != wide
    assert max(map(len, narrow.partition("\nThe schedule")[0].splitlines())) <= columns


def test_explain_prints_bytes_bound_time_and_what_passes_are_worth(gathernest):
    ended = gathernest(*ROWS, "--schedule", "tile-loops{loops=indices sizes=4}", "--explain", "--rounds", "2")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("gather 64x8xf32 by 9xi64 -> 9x8xf32, axis 0, batch_dims 0, bounds error\n")
    for part in (
        "\nThe fewest bytes\nindices ",
        "\nThe roofline bound, timed in turn with the kernel\ncopy ",
        "\nThe roofline by the machine model zen4\ncopy ",
        "fraction of the bound",
        "median of 2 rounds",
    ):
        assert part in ended.out
    assert ended.out.splitlines()[-1].startswith("tile-loops{loops=indices sizes=4} ")


def test_stage_that_was_edited_in_a_dump_is_shown_with_what_follows_from_it(gathernest, tmp_path, monkeypatch):
    words = ("show", "--data", "9x4xf32", "--indices", "5xi64", "--schedule", "", "--stage")
    monkeypatch.setenv("GATHERNEST_DUMP_DIR", str(tmp_path))
    assert gathernest(*words, "operator").status == 0
    monkeypatch.delenv("GATHERNEST_DUMP_DIR")
    (folder,) = tmp_path.iterdir()
    path = folder / "05-lower-to-nest.mlir"
    path.write_text(path.read_text().replace("bounds error", "bounds clip"))
    with monkeypatch.context() as edited:
        edited.setenv("GATHERNEST_OVERRIDE_DIR", str(tmp_path))
        nest = gathernest(*words, "fold-bounds")
    assert (nest.status, nest.err) == (0, "")
    assert "check_indices" not in nest.out
    assert "check_indices" in gathernest(*words, "fold-bounds").out


@pytest.mark.thorough
@pytest.mark.parametrize(("target", "widest"), [("x86-64-v2", "xmm"), ("x86-64-v3", "ymm"), ("znver4", "zmm")])
def test_assembly_is_made_for_another_cpu(target, widest):
    words = ["--data", "1000x64xf32", "--indices", "100xi64", "--schedule", "vectorize-inner{lanes=16}"]
    command = [sys.executable, "-m", "gathernest", "show", *words, "--stage", "asm", "--target", target]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert max(re.findall(r"%([xyz]mm)", text)) == widest


def test_another_cpu_is_not_timed_and_must_be_known(gathernest):
    rows = ("show", "--data", "1000x64xf32", "--indices", "100xi64", "--target")
    assert "leave it out where kernels are timed" in gathernest(*rows, "znver4", "--explain").err
    assert "--target: there is no CPU 'znver9' of this architecture" in gathernest(*rows, "znver9").err
    if platform.machine() == "x86_64":  # LLVM aborts a process that asks for code of such a CPU
        assert "LLVM makes no code of 64 bits for the CPU 'i386'" in gathernest(*rows, "i386").err
    assert "NUMBA_CPU_NAME" not in os.environ
