"""llvm-mca's analysis of a loop: which instructions it is of, what its report says, and what happens without it."""

import json
import platform

import pytest

from gathernest.lowering.provenance.assembly import Instruction, kind_of, loops_of
from gathernest.lowering.provenance.trace import Line, MachineLoop
from gathernest.playground.machine_analysis import MachineAnalysis, MachineAnalysisError, machine_analysis
from gathernest.playground.sections import port_bars

SVG = "{http://www.w3.org/2000/svg}"
COPY = ["copy:", "xorl %eax, %eax", ".L1:", "vmovups (%rsi,%rax), %ymm0", "vmovups %ymm0, (%rdi,%rax)"]
COPY += ["addq $32, %rax", "cmpq %rdx, %rax", "jb .L1", "retq"]
# The way through .L3 is the longer.
BRANCHES = ["f:", ".L1:", "movq (%rsi), %rax", "testq %rax, %rax", "je .L3", "movq %rax, (%rdi)", "jmp .L4"]
BRANCHES += [".L3:", "movq %rcx, (%rdi)", "movq %rcx, 8(%rdi)", "addq $8, %rdi", ".L4:", "decq %rdx", "jne .L1", "retq"]
NAMES = ["Port0", "Port1.\x00", "Port1.\x01"]


def read(texts: list[str]) -> tuple[list[Line], MachineLoop]:
    """Return assembly as lines, and its one loop."""
    lines = [Line(text, (), "" if text.endswith(":") else kind_of(*f"{text} ".split(" ", 1))) for text in texts]
    (loop,) = loops_of([Instruction(line.text, None, line.kind) for line in lines])
    return lines, loop


def report(count: int) -> dict:
    """Return what llvm-mca prints of so many instructions."""
    row = [{"InstructionIndex": count, "ResourceIndex": port, "ResourceUsage": port + 0.5} for port in range(3)]
    row.append({"InstructionIndex": 0, "ResourceIndex": 0, "ResourceUsage": 99})
    edges = [{"FromID": 1, "ToID": 2, "Type": 1}, {"FromID": 2, "ToID": count + 1, "Type": 3}]
    limits = {"TotalCycles": 250, "ResourcePressureCycles": 50, "RegisterDependencyCycles": 125}
    region = {
        "SummaryView": {"TotalCycles": 250, "Iterations": 100, "IPC": 2.0, "BlockRThroughput": 1.5},
        "BottleneckAnalysis": {**limits, "DependencyEdge": edges},
        "ResourcePressureView": {"ResourcePressureInfo": row},
    }
    return {"CodeRegions": [region], "TargetInfo": {"CPUName": "", "Resources": NAMES}}


LLVM = "LLVM version 22.1.8"


def printed(count: int) -> str:
    """Return a script that prints the report of so many instructions."""
    return f"/bin/cat << 'END'\n{json.dumps(report(count))}\nEND"


def test_without_llvm_mca_there_is_no_analysis(install):
    assert machine_analysis(*read(COPY)) is None


@pytest.mark.parametrize(
    ("script", "version", "reason"),
    [
        (printed(5), "LLVM version 14.0.6", "llvm-mca is version 14.0.6, which is too old: 20 or newer is "),
        (printed(5), "nonsense", "llvm-mca prints no version; "),
        ("exit 3", None, "llvm-mca --version ends with status 3; "),
        ("kill -SEGV $$", None, "llvm-mca --version ends with status -11; "),
        ("echo nonsense", LLVM, "llvm-mca does not analyse the loop: status 0"),
        ("kill -SEGV $$", LLVM, "llvm-mca does not analyse the loop: status -11"),
        ("echo '<stdin>:1:1: error: what is it' >&2; exit 1", LLVM, "the loop: <stdin>:1:1: error: what is it"),
        ("printf '\\377\\376'", LLVM, "llvm-mca does not analyse the loop: status 0"),
        *(
            (f"echo '{text}'", LLVM, r"llvm-mca \(22.1.8\) prints a report of another form; versions from 20 on are")
            for text in ("{}", "[]", "7", "null", '{"CodeRegions": []}', '{"CodeRegions": [{"SummaryView": 1}]}')
        ),
    ],
)
def test_a_program_that_is_not_understood_is_one_error(install, script, version, reason):
    install("llvm-mca", script, version=version)
    with pytest.raises(MachineAnalysisError, match=reason):
        machine_analysis(*read(COPY), cpu="any")


def test_a_report_without_waits_is_none_of_another_form(install):
    said = report(5)
    said["CodeRegions"][0]["BottleneckAnalysis"] = {"PressureIncreaseCycles": 0}
    install("llvm-mca", f"echo '{json.dumps(said)}'", version=LLVM)
    assert {part for _, part in machine_analysis(*read(COPY), cpu="any").waits} == {0}


def test_what_the_report_says(install):
    install("llvm-mca", printed(5), version=LLVM)
    found = machine_analysis(*read(COPY), element_bytes=4, cpu="any")
    assert found == MachineAnalysis(
        tool="llvm-mca",
        cpu="any",
        lines=(3, 4, 5, 6, 7),
        cycles=2.5,
        instructions_per_cycle=2.0,
        least_cycles=1.5,
        stored_bytes=32,
        element_bytes=4,
        ports=(("Port1.1", 2.5), ("Port1.0", 1.5), ("Port0", 0.5)),
        waits=(("ports", 0.2), ("registers", 0.5), ("memory", 0.0)),
        critical=(4, 5),
        notes=(),
    )
    assert found.cycles_per_element == 2.5 / 8
    assert dict(found.ports) == {"Port1.1": 2.5, "Port1.0": 1.5, "Port0": 0.5}
    assert str(found) == (
        "2.5 cycles an iteration, 0.31 an element, 2.0 instructions a cycle; 1.5 cycles by the ports alone\n"
        "waits, in parts of the cycles: ports 20%, registers 50%\n"
        "busiest ports, in cycles: Port1.1 2.5, Port1.0 1.5, Port0 0.5\n"
        "by llvm-mca for any: every load hits the first cache, and every branch is predicted\n"
    )


def test_the_longest_way_through_the_loop_is_analysed(install):
    install("llvm-mca", printed(8), version=LLVM)
    found = machine_analysis(*read(BRANCHES))
    assert found.lines == (2, 3, 4, 8, 9, 10, 12, 13)
    assert found.stored_bytes == 16
    assert found.notes == ("of the ways through the loop the longest is analysed; 2 instructions are on others only",)


def test_of_nested_loops_all_lines_are_analysed(install):
    install("llvm-mca", printed(6), version=LLVM)
    texts = ["f:", "nop", ".L1:", "movl $4, %ecx", ".L2:", "movb %al, (%rdi)", "decq %rcx", "jne .L2", "decq %rdx"]
    lines = [Line(text, (), "branch" if text.startswith("j") else "") for text in [*texts, "jne .L1"]]
    assert machine_analysis(lines, MachineLoop(tuple(range(2, 10)), 1, False)).lines == (3, 5, 6, 7, 8, 9)


@pytest.mark.parametrize(
    ("store", "count"),
    [
        ("vmovups %zmm1, (%rdi)", 64),
        ("vmovntps %ymm1, (%rdi)", 32),
        ("movaps %xmm1, (%rdi)", 16),
        ("vmovsd %xmm1, (%rdi)", 8),
        ("vmovd %xmm1, (%rdi)", 4),
        ("movntil %eax, (%rdi)", 4),
        ("movw %ax, (%rdi)", 2),
        ("movb $0, (%rdi)", 1),
        ("vmovups %zmm1, (%rdi) {%k1}", None),
        ("vpmovqd %zmm1, (%rdi)", None),
        ("callq memcpy", None),
    ],
)
def test_the_bytes_of_a_store_are_those_of_its_register(install, store, count):
    install("llvm-mca", printed(3), version=LLVM)
    found = machine_analysis(*read(["f:", ".L1:", store, "decq %rdx", "jne .L1", "retq"]), element_bytes=4)
    assert found.stored_bytes == count
    assert (found.cycles_per_element is None) == (count is None)
    assert any("calls functions" in note for note in found.notes) == store.startswith("call")


def test_a_tool_that_does_not_know_the_cpu_is_passed_over(install):
    unknown = "echo \"'new' is not a recognized processor for this target\" >&2; echo '{}'"
    install("llvm-mca-40", unknown, version="LLVM version 40.1.0")
    assert machine_analysis(*read(COPY), cpu="new") is None
    install("llvm-mca-39", printed(5), version="LLVM version 39.1.0")
    assert machine_analysis(*read(COPY), cpu="new").tool == "llvm-mca-39"


def test_the_tool_of_numbas_llvm_goes_first_and_then_the_newest(install):
    import llvmlite.binding as llvm

    own = llvm.llvm_version_info[0]
    for name, major in (("llvm-mca", 39), ("llvm-mca-40", 40), (f"llvm-mca-{own}", own)):
        install(name, printed(5), version=f"LLVM version {major}.1.0")
    assert machine_analysis(*read(COPY)).tool == f"llvm-mca-{own}"
    install(f"llvm-mca-{own}", "", mode=0o644)
    assert machine_analysis(*read(COPY)).tool == "llvm-mca-40"


def test_bars_of_ports_stand_beside_the_cycles_of_an_iteration(install):
    install("llvm-mca", printed(5), version=LLVM)
    bars = port_bars(machine_analysis(*read(COPY), element_bytes=4, cpu="any"))
    assert bars.heading.startswith("2.5 cycles an iteration, 0.31 an element, on any if every load hits")
    cycles = [value for _, value, *_ in bars.rows]
    assert cycles == sorted(cycles, reverse=True) and len(cycles) == 3
    assert bars.marked == (2.5, "an iteration: 2.5 cycles") and bars.longest == 2.5


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the assembly is of x86-64")
def test_a_loop_that_waits_for_its_sum_takes_the_latency_of_an_addition(program):
    program("llvm-mca")
    texts = ["f:", ".L1:", "imulq %rax, %rax", "imulq %rax, %rax", "decq %rdx", "jne .L1", "retq"]
    found = machine_analysis(*read(texts), cpu="skylake")
    assert 5.9 < found.cycles < 6.3  # two multiplications of three cycles, one after the other
    assert dict(found.waits)["registers"] > 0.4 > dict(found.waits)["memory"]
    assert set(found.critical) >= {2, 3}
