"""`gathernest bench --static` as people type it. One small kernel is compiled, once."""

import json
import os
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gathernest.asv_bench.benchmarks.cases import SUITE
from gathernest.kernels.host.cpu import PACKAGE
from gathernest.tools.tracking import kernel_facts
from gathernest.tools.tracking import static_report as command
from gathernest.tools.tracking.kernel_facts import Conditions, read_report
from gathernest.tools.tracking.processes import WorkerError

CASES = [case for case in SUITE if case.family == "call"]
STATIC = ("bench", "--static", "--case", "call-*")
MACHINE = {"base": "avx2", "threads": 4}


@pytest.fixture(scope="module")
def collected():
    hashed_otherwise = os.environ | {"PYTHONHASHSEED": "17", "NUMBA_OPT": "0", "GATHERNEST_SCHEDULE": "no-such-pass"}
    return kernel_facts.collect(CASES, Conditions("x86-64-v3", MACHINE), environment=hashed_otherwise)


@pytest.fixture
def compiled(collected, monkeypatch):
    """Have the command find the kernels compiled, and return what it finds and the conditions that it asks for."""
    compiled = SimpleNamespace(found=collected, asked=[])

    def find(cases, conditions, **_):
        compiled.asked.append(conditions)
        return compiled.found

    monkeypatch.setattr(command, "collect", find)
    return compiled


@pytest.fixture
def committed(gathernest, compiled, tmp_path):
    """Return the file of a report."""
    file = tmp_path / "static.json"
    assert gathernest(*STATIC, "--json", str(file)).status == 0
    return file


@pytest.mark.thorough
def test_the_kernel_of_a_case_is_the_one_that_is_timed():
    given = replace(SUITE[0], name="given", data=(4000,), indices=(200000,))
    cases = [given, replace(given, name="new", into="new"), replace(given, name="again")]
    kernels = kernel_facts.collect(cases, Conditions("x86-64-v3", MACHINE)).kernels
    names = {name: [step for step, _ in kernels[name].stages] for name in kernels}
    assert (
        "check-indices{how=staged bits=16}" in names["given"]
        and "check-indices{how=staged bits=16}" not in names["new"]
    )
    assert any(step.startswith("check-indices{how=fused") for step in names["new"])
    assert kernels["given"].identity != kernels["new"].identity and kernels["again"] == kernels["given"]


@pytest.mark.thorough
def test_cases_of_one_kernel_have_the_same_facts_for_the_machine_asked_for(collected):
    function, kernel = collected.kernels["call-function"], collected.kernels["call-kernel"]
    assert function == kernel
    assert [name for name, _ in kernel.stages][:2] == ["operator", "normalize-gather"]
    assert "gather inner" in [loop.name for loop in kernel.loops]
    assert max(loop.vector_bytes for loop in kernel.loops) == 32
    assert set(collected.versions) == {"numba", "llvmlite", "xdsl", "python"}
    assert collected.failed == {}


def test_report_is_a_table_of_loops(gathernest, compiled, install):
    ended = gathernest(*STATIC)
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith("call-function  [")
    assert lines[1:3] == ["  also call-kernel", "  no schedule"]
    headings = ("loop", "vec", "ins", "ld", "st", "nt", "pref", "spill", "call", "jmp")
    assert tuple(lines[3].split()) == headings
    assert any(line.startswith("  gather inner ") for line in lines)
    assert max(len(line) for line in lines if line.startswith("  ")) <= 80
    assert compiled.asked == [Conditions("x86-64-v3", MACHINE)]


def test_json_is_the_report_as_it_is_committed(gathernest, compiled, committed):
    printed = gathernest(*STATIC, "--json", "-").out
    assert printed == committed.read_text()


def test_machine_and_target_are_those_of_the_options(gathernest, compiled, tmp_path):
    (tmp_path / "big.json").write_text('{"base": "zen4", "l3_bytes": 100663296}')
    options = ("--machine", str(tmp_path / "big.json"), "--target", "x86-64-v4", "--threads", "8", "--json", "-")
    assert gathernest(*STATIC, *options).status == 0
    assert compiled.asked == [Conditions("x86-64-v4", {"base": "zen4", "l3_bytes": 100663296, "threads": 8})]


def test_report_that_is_the_same_is_told_in_a_line(gathernest, committed):
    ended = gathernest(*STATIC, "--against", str(committed))
    assert (ended.status, ended.out, ended.err) == (0, f"the kernels of 2 cases are those of {committed}\n", "")


@pytest.fixture
def changed(committed):
    """Have the file say that another pass made one more instruction of the inner loop."""
    report = read_report(committed.read_text(), "")
    kernel = report.kernels["call-kernel"]
    stages = [(name, "other" if name == "lower-nest-to-loops" else text) for name, text in kernel.stages]
    loops = [
        replace(loop, loads=loop.loads + 1, code=(*loop.code, "movq (%rax), %rax"))
        if loop.name == "gather inner"
        else loop
        for loop in kernel.loops
    ]
    kernel = replace(kernel, stages=tuple(stages), assembly="other", loops=tuple(loops))
    committed.write_text(replace(report, kernels=dict.fromkeys(report.kernels, kernel)).text())
    return committed


def test_difference_names_the_pass_the_loop_and_the_instruction(gathernest, changed):
    ended = gathernest(*STATIC, "--against", str(changed))
    assert ended.status == 1
    assert ended.out.startswith(
        f"1 of 1 kernels are not those of {changed}:\n\n"
        "the first stage that differs is that of lower-nest-to-loops: call-function\n"
    )
    assert "  loop gather inner (innermost): loads " in ended.out
    assert "    -movq (%rax), %rax\n" in ended.out
    assert ended.err == (
        "gathernest: if that is meant, `make static WRITE=--write` writes it anew: commit it with what changed it\n"
    )


def test_difference_as_json(gathernest, changed):
    ended = gathernest(*STATIC, "--against", str(changed), "--json", "-")
    found = json.loads(ended.out)
    (change,) = found["changes"]
    assert (ended.status, change["kind"], change["what"]) == (1, "pass", "lower-nest-to-loops")
    assert [loop["name"] for loop in change["loops"]] == ["gather inner"]


def test_write_makes_the_file_that_of_the_whole_suite(gathernest, compiled, tmp_path):
    file = tmp_path / "static.json"
    for _ in range(2):
        ended = gathernest("bench", "--static", "--against", str(file), "--write")
        assert (ended.status, ended.err) == (0, f"{file}: written\n")
    assert set(read_report(file.read_text(), "").kernels) == {"call-function", "call-kernel"}


def test_case_that_does_not_compile_is_told_and_the_rest_goes_on(gathernest, collected, compiled):
    compiled.found = replace(
        collected,
        kernels={"call-kernel": collected.kernels["call-kernel"]},
        failed={"call-function": "ScheduleError: no such loop"},
    )
    ended = gathernest(*STATIC)
    assert (ended.status, ended.err) == (1, "gathernest: failed: call-function: ScheduleError: no such loop\n")
    assert ended.out.startswith("call-kernel")


def test_report_for_another_machine_is_not_compared(gathernest, committed):
    ended = gathernest(*STATIC, "--against", str(committed), "--target", "x86-64-v4")
    assert ended.status == 2
    assert ended.err.startswith(f"gathernest: error: {committed} is for --target x86-64-v3 and the machine")


def test_revision_has_the_report_of_its_own_file_or_is_told_what_to_do(gathernest, repository, committed):
    ended = gathernest(*STATIC, "--against", "no-such")
    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert "--against: there is no file 'no-such'; there is no revision 'no-such' in " in ended.err
    ended = gathernest(*STATIC, "--against", "plain")
    assert (ended.status, ended.err) == (
        2,
        "gathernest: error: revision plain has no asv_bench/static.json, as it is older than the static report; "
        "`gathernest bench compare plain` compiles its kernels and compares them with these\n",
    )
    (repository.folder / "asv_bench").mkdir()
    committed.rename(repository.folder / command.COMMITTED)
    repository.commit("reported")
    ended = gathernest(*STATIC, "--against", "reported")
    assert (ended.status, ended.out) == (0, "the kernels of 2 cases are those of asv_bench/static.json of reported\n")


def test_another_system_is_told(gathernest, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    ended = gathernest(*STATIC)
    assert ended.status == 1
    assert "the static report is of x86-64 assembly as Linux has it, and this is arm64 with" in ended.err


OLD = """
class Kernel:
    def __init__(self, data):
        self.key, self.schedule, self.pipeline = str(data.dtype), "tile-loops", "nest,tile-loops{sizes=4,8}"
        self.stages, self.source = {"operator": "a", "nest": "b", "tile-loops": "c"}, "def gather(): ..."

    def asm(self):
        return "gather:\\n.LBB0_1:\\n\\tmovq\\t(%rax), %rbx\\n\\tjne\\t.LBB0_1\\n"

def compile(operator, data, indices, axis, batch_dims):
    if operator == "gather_nd":
        raise ValueError("no such operator")
    return Kernel(data)
"""


def test_revision_is_asked_by_its_public_functions(tmp_path):
    (tmp_path / "gathernest.py").write_text(OLD)
    cases = [case for case in SUITE if case.name in ("rows-8B", "rows-16B", "nd-batches")]
    found = kernel_facts.collect(cases, Conditions(None, None), environment=os.environ | {"PYTHONPATH": str(tmp_path)})
    kernel = found.kernels["rows-8B"]
    assert [name for name, _ in kernel.stages] == ["operator", "nest", "tile-loops{sizes=4,8}"]
    assert [(loop.name, loop.loads) for loop in kernel.loops] == [("gather loop", 1)]
    assert found.kernels["rows-16B"] == kernel
    assert found.failed == {"nd-batches": "ValueError: no such operator"}


def test_process_that_ends_early_is_told(tmp_path):
    (tmp_path / "gathernest.py").write_text("raise RuntimeError('broken')")
    with pytest.raises(WorkerError) as raised:
        kernel_facts.collect(CASES, Conditions(None, None), environment=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert str(raised.value) == "the kernels cannot be compiled: RuntimeError: broken; see gathernest doctor"


def test_make_knows_the_committed_report():
    assert (PACKAGE / command.COMMITTED).is_file()
    said = subprocess.run(["make", "-n", "static"], cwd=PACKAGE, capture_output=True, text=True, check=True).stdout
    assert f"bench --static --against {command.COMMITTED}" in said
