"""llvm-mca's report of a loop: which instructions it is of, and what happens without it."""

import platform
import re

import pytest

from gathernest.lowering.provenance.assembly import Instruction, kind_of, loops_of
from gathernest.lowering.provenance.trace import Line, MachineLoop
from gathernest.playground.machine_analysis import MachineAnalysisError, machine_analysis

COPY = ["copy:", "xorl %eax, %eax", ".L1:", "vmovups (%rsi,%rax), %ymm0", "vmovups %ymm0, (%rdi,%rax)"]
COPY += ["addq $32, %rax", "cmpq %rdx, %rax", "jb .L1", "retq"]
# The way through .L3 is the longer.
BRANCHES = ["f:", ".L1:", "movq (%rsi), %rax", "testq %rax, %rax", "je .L3", "movq %rax, (%rdi)", "jmp .L4"]
BRANCHES += [".L3:", "movq %rcx, (%rdi)", "movq %rcx, 8(%rdi)", "addq $8, %rdi", ".L4:", "decq %rdx", "jne .L1", "retq"]
LLVM = "LLVM version 22.1.8"
ECHO = "exec /bin/cat"  # the report is the instructions that llvm-mca was given
ASSUMED = "every load hits the first cache, and every branch is predicted\n"


def read(texts: list[str]) -> tuple[list[Line], MachineLoop]:
    """Return assembly as lines, and its one loop."""
    lines = [Line(text, (), "" if text.endswith(":") else kind_of(*f"{text} ".split(" ", 1))) for text in texts]
    (loop,) = loops_of([Instruction(line.text, None, line.kind) for line in lines])
    return lines, loop


def test_without_llvm_mca_there_is_no_analysis(install):
    assert machine_analysis(*read(COPY)) is None


@pytest.mark.parametrize(
    ("script", "version", "reason"),
    [
        (ECHO, "LLVM version 14.0.6", "llvm-mca is version 14.0.6, which is too old: 20 or newer is "),
        (ECHO, "nonsense", "llvm-mca prints no version; "),
        ("exit 3", None, "llvm-mca --version ends with status 3; "),
        ("kill -SEGV $$", None, "llvm-mca --version ends with status -11; "),
        ("exit 0", LLVM, "llvm-mca does not analyse the loop: status 0"),
        ("kill -SEGV $$", LLVM, "llvm-mca does not analyse the loop: status -11"),
        ("echo '<stdin>:1:1: error: what is it' >&2; exit 1", LLVM, "the loop: <stdin>:1:1: error: what is it"),
    ],
)
def test_a_program_that_is_not_understood_is_one_error(install, script, version, reason):
    install("llvm-mca", script, version=version)
    with pytest.raises(MachineAnalysisError, match=reason):
        machine_analysis(*read(COPY), cpu="any")


def test_the_instructions_of_the_loop_are_analysed(install):
    install("llvm-mca", ECHO, version=LLVM)
    assert (
        machine_analysis(*read(COPY), cpu="any") == "llvm-mca for any\n" + ASSUMED + "\n" + "\n".join(COPY[3:8]) + "\n"
    )


def test_the_longest_way_through_the_loop_is_analysed(install):
    install("llvm-mca", ECHO, version=LLVM)
    found = machine_analysis(*read(BRANCHES), cpu="any")
    assert "longest is analysed; 2 instructions are on others only\n\n" in found
    assert found.splitlines()[4:] == [BRANCHES[number] for number in (2, 3, 4, 8, 9, 10, 12, 13)]


def test_of_nested_loops_all_lines_are_analysed(install):
    install("llvm-mca", ECHO, version=LLVM)
    texts = [
        "f:",
        "nop",
        ".L1:",
        "movl $4, %ecx",
        ".L2:",
        "callq memcpy",
        "decq %rcx",
        "jne .L2",
        "decq %rdx",
        "jne .L1",
    ]
    lines = [Line(text, (), "branch" if text.startswith("j") else "call" if "call" in text else "") for text in texts]
    found = machine_analysis(lines, MachineLoop(tuple(range(2, 10)), 1, False), cpu="any")
    assert "the loop calls functions, which the analysis does not follow\n\n" in found
    assert found.splitlines()[4:] == [texts[number] for number in (3, 5, 6, 7, 8, 9)]


def test_a_tool_that_does_not_know_the_cpu_is_passed_over(install):
    install(
        "llvm-mca-40", "echo \"'new' is not a recognized processor for this target\" >&2", version="LLVM version 40.1"
    )
    assert machine_analysis(*read(COPY), cpu="new") is None
    install("llvm-mca-39", ECHO, version="LLVM version 39.1.0")
    assert machine_analysis(*read(COPY), cpu="new").startswith("llvm-mca-39 for new\n")


def test_the_tool_of_numbas_llvm_goes_first_and_then_the_newest(install):
    import llvmlite.binding as llvm

    own = llvm.llvm_version_info[0]
    for name, major in (("llvm-mca", 39), ("llvm-mca-40", 40), (f"llvm-mca-{own}", own)):
        install(name, ECHO, version=f"LLVM version {major}.1.0")
    assert machine_analysis(*read(COPY)).startswith(f"llvm-mca-{own} for ")
    install(f"llvm-mca-{own}", "", mode=0o644)
    assert machine_analysis(*read(COPY)).startswith("llvm-mca-40 for ")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the assembly is of x86-64")
def test_a_loop_that_waits_for_its_product_takes_the_latency_of_two(program):
    program("llvm-mca")
    texts = ["f:", ".L1:", "imulq %rax, %rax", "imulq %rax, %rax", "decq %rdx", "jne .L1", "retq"]
    found = machine_analysis(*read(texts), cpu="skylake")
    assert 590 < int(re.search(r"Total Cycles: +(\d+)", found)[1]) < 630  # of two multiplications, 3 cycles each
    assert re.search(r"Register Dependencies +\[ [4-9]\d", found)
