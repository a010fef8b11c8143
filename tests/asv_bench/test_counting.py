"""What the exact counts of asv's benchmarks count, on things of known size."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import gathernest as gn
from gathernest.asv_bench.benchmarks import counts
from gathernest.asv_bench.benchmarks.cases import BY_NAME
from gathernest.asv_bench.benchmarks.counting import fresh, instructions, session
from gathernest.asv_bench.benchmarks.counting.client_requests import RUNNING_ON_VALGRIND, Requests
from gathernest.lowering.programs import PROGRAMS
from gathernest.lowering.registry import all_passes


@dataclass(frozen=True)
class CallsThree(ModulePass):
    name = "calls-three"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for _ in range(3):
            nothing()
        assert any(one for one in (0, 0, 1))


def nothing() -> None:
    pass


def test_calls_are_those_of_the_pass_that_makes_them():
    def run() -> str:
        nothing()
        CallsThree().apply(Context(), module)
        nothing()
        return "returned"

    module = ModuleOp([])
    calls, returned = session.by_pass(run)
    assert returned == "returned"
    assert calls["calls-three"] == 4
    assert session.by_pass(run)[0] == calls


@pytest.mark.thorough
def test_calls_of_a_kernel_are_those_of_one_run_of_its_passes(monkeypatch):
    monkeypatch.setattr(session, "KERNELS", ("rows-256B",))
    session.compiling(gn)
    found = session.compiling(gn)
    assert found == session.compiling(gn)
    with gn.knobs.scope(interpret=True):
        kernel = gn.compile("gather", "1000000x64xf32", "100000xi64")
    assert found["calls"].keys() - {session.OUTSIDE} == {step.partition("{")[0] for step in kernel.pipeline.split(",")}
    printed, _ = session.by_pass(lambda: dict(kernel.stages))
    assert found["calls"][session.OUTSIDE] < printed[session.OUTSIDE]  # no stage is printed or verified


@pytest.mark.thorough
def test_launch_on_two_threads_calls_no_python_function():
    assert session.launching(gn) == 0


def test_hidden_copy_doubles_the_traced_memory():
    table = np.zeros(1_000_000, np.float32)
    assert session.traced(lambda: table + 1) == 1.0
    assert session.traced(lambda: (table + 1).copy()) == 2.0


@pytest.mark.parametrize("copies", [1, 2])
def test_hidden_copy_doubles_the_resident_memory(copies):
    if math.isnan(session.resident(lambda: np.ones(1))):
        pytest.skip("this system does not tell the peak of resident memory")
    ones = np.ones(8_000_000, np.float32)
    assert session.resident(lambda: ones + 1 if copies == 1 else (ones + 1).copy()) == copies


def test_requests_do_nothing_outside_of_valgrind():
    if why := instructions.why_not():
        pytest.skip(why)
    called = []
    requests = Requests()
    requests.count(lambda: called.append(1))
    assert (requests.send(RUNNING_ON_VALGRIND), called) == (0, [1])


def test_operations_are_counted_in_the_text_of_a_stage():
    lines = (
        "builtin.module {",
        "  func.func @g(%a: index) {",
        "    %b, %c = gather.resolve %a : i64",
        '"x.y"() : () -> ()',
    )
    assert len(session.OPERATION.findall("\n".join([*lines, "  }", "}"]))) == 4


def test_names_of_passes_and_cases_exist():
    assert set(counts.PASSES) <= set(all_passes())
    assert set(session.KERNELS) <= set(BY_NAME)


def test_process_that_fails_says_why(temporary_folder):
    with fresh.place() as place, pytest.raises(fresh.CountError, match=r"No module named .*counting\.nothing"):
        place.ask("nothing")
    assert not place.folder.exists()


def test_the_oldest_valgrind_is_that_of_the_table():
    assert PROGRAMS["valgrind"].minimum == instructions.MIN_VERSION


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (None, "valgrind is not installed: no instruction counts (apt-get install valgrind)"),
        ("valgrind-3.14.0", "valgrind 3.14 is too old: no instruction counts (3.15 or newer is understood)"),
        ("nonsense", "valgrind prints no version: no instruction counts (apt-get install valgrind)"),
    ],
)
def test_valgrind_that_is_not_understood_is_one_line(install, version, reason):
    if version is not None:
        install("valgrind", "", version=version)
    assert instructions.why_not() == reason
    with pytest.raises(NotImplementedError, match=r"valgrind .*no instruction counts"):
        counts.Instructions().setup({"why not": instructions.why_not()}, "pipeline")
