"""What the text of assembly and of LLVM IR says: instructions and their lines, blocks, loops and registers."""

import pytest

from gathernest.lowering.provenance.assembly import (
    Instruction,
    inferred_lines,
    kind_of,
    loop_around,
    loops_of,
    normal_form,
    read_assembly,
    read_llvm,
    short_names,
)

TEXT = """\
\t.file\t1 "/somewhere" "<gathernest kernel>"
\t.file\t2 "/somewhere" "other.py"
_ZN17gathernest_kernel9copy_tileB2v5B72c8tJTIeFIjxB2IKSgI4CrvQAAxxx:
.Lfunc_begin0:
\t.loc\t1 76 0
\t.cfi_startproc
\tpushq\t%rbx
.LBB0_1:                                # %loop
\t.loc\t1 82 1
\tmovq\t(%r9,%rbx,8), %rbx               # comment
\t.loc\t1 0 1
\tshlq\t$8, %rbx
\tmovq\t8(%rsp), %rcx
\t.loc\t2 90 1
\tvmovups\t%ymm0, 32(%r11,%rdx)
\tjne\t.LBB0_1
"""


def test_labels_and_instructions_are_read_with_their_lines_of_the_one_file():
    found = read_assembly(TEXT, "<gathernest kernel>")
    assert [(at.text, at.line, at.kind) for at in found] == [
        ("copy_tile:", None, ""),
        ("pushq %rbx", 76, "other"),
        (".LBB0_1:", None, ""),
        ("movq (%r9,%rbx,8), %rbx", 82, "load"),
        ("shlq $8, %rbx", None, "arithmetic"),
        ("movq 8(%rsp), %rcx", None, "spill"),
        ("vmovups %ymm0, 32(%r11,%rdx)", None, "store"),
        ("jne .LBB0_1", None, "branch"),
    ]


@pytest.mark.parametrize(
    ("mnemonic", "operands", "kind"),
    [
        ("vpgatherqd", "%ymm3, (%rax,%ymm1,4), %xmm2", "load"),
        ("vpinsrd", "$1, (%rax,%rbx,4), %xmm0, %xmm0", "load"),
        ("addq", "(%rax), %rbx", "load"),
        ("addq", "%rbx, (%rax)", "store"),
        ("cmpq", "%rbx, (%rax)", "load"),
        ("vmovntps", "%ymm0, (%rdx)", "store"),
        ("prefetcht0", "64(%rcx,%r15)", "prefetch"),
        ("leaq", "256(%r10), %r14", "arithmetic"),
        ("cmovlq", "%rcx, %r14", "arithmetic"),
        ("movq", "%rcx, %r14", "other"),
        ("callq", "*(%rax)", "call"),
        ("jmp", ".LBB0_1", "branch"),
        ("retq", "", "branch"),
    ],
)
def test_an_instruction_counts_by_what_it_does_to_memory(mnemonic, operands, kind):
    assert kind_of(mnemonic, operands) == kind


def test_functions_have_the_names_that_the_source_gives_them():
    assert short_names("movabsq $tile._ZN17gathernest_kernel9copy_tileB2v5xx, %rsi") == "movabsq $tile.copy_tile, %rsi"


MADE_TWICE = (
    """\
\t.file\t"<string>"
\t.section\t.rodata.cst8,"aM",@progbits,8
.LCPI0_0:
\t.quad\t4096
\t.section\t.ltext,"axl",@progbits
\t.type\t_ZN17gathernest_kernel6gatherB3v30B72c8tJTIeFIjxx,@function
_ZN17gathernest_kernel6gatherB3v30B72c8tJTIeFIjxx:
\tcallq\t_ZN5numba7runtime4freeB2v3B72c8tJTIeFIjxx
\t.p2align\t4
.LBB0_1:                                # Inner Loop Header
\tjne\t.LBB0_1
\t.size\t_ZN17gathernest_kernel6gatherB3v30B72c8tJTIeFIjxx, .Lfunc_end0
""",
    """\
\t.file\t"<string>"
\t.file\t1 "/a/folder" "<gathernest kernel>"
\t.section\t.rodata.cst8,"aM",@progbits,8
.LCPI0_0:
\t.quad\t4096
\t.section\t.ltext,"axl",@progbits
\t.type\t_ZN17gathernest_kernel6gatherB1v4B84c8tJTC_2fWwCx,@function
_ZN17gathernest_kernel6gatherB1v4B84c8tJTC_2fWwCx:
.Lfunc_begin0:
\t.loc\t1 7 0
\tcallq\t_ZN5numba7runtime4freeB1v9B84c8tJTC_2fWwCx
.Ltmp3:
\t.p2align\t4
.LBB0_1:
\tjne\t.LBB0_1
""",
)


def test_normal_form_is_that_of_the_bytes_in_every_process():
    first, second = map(normal_form, MADE_TWICE)
    assert first == [
        *('.section .rodata.cst8,"aM",@progbits,8', ".LCPI0_0:", ".quad 4096", "gather:"),
        *("callq _ZN5numba7runtime4free", ".p2align 4", ".LBB0_1:", "jne .LBB0_1"),
    ]
    assert second == first


@pytest.mark.parametrize("change", [("p2align\t4", "p2align\t5"), ("quad\t4096", "quad\t2048"), ("jne", "je")])
def test_normal_form_has_alignment_constants_and_instructions(change):
    assert normal_form(MADE_TWICE[0].replace(*change)) != normal_form(MADE_TWICE[0])


MODULE = """\
target triple = "x86_64"
declare i64 @other(i64)
define i64 @_ZN17gathernest_kernel9copy_tileB2v5xx(i64 %0) !dbg !1 {
  %a = add i64 %0, 1, !dbg !5
  %b = add i64 %a, 1, !dbg !6
  %c = add i64 %b, 1, !dbg !7
  %d = add i64 %c, 1, !dbg !8
  %e = add i64 %d, 1
  ret i64 %e, !dbg !5
}
!1 = distinct !DISubprogram(name: "copy_tile", file: !2, line: 3)
!2 = !DIFile(filename: "<gathernest kernel>", directory: "")
!3 = !DIFile(filename: "other.py", directory: "")
!4 = distinct !DISubprogram(name: "helper", file: !3, line: 40)
!5 = !DILocation(line: 7, column: 1, scope: !1)
!6 = !DILocation(line: 41, column: 1, scope: !4, inlinedAt: !9)
!7 = !DILocation(line: 42, column: 1, scope: !4)
!8 = !DILocation(line: 0, column: 1, scope: !1)
!9 = distinct !DILocation(line: 8, column: 1, scope: !1)
"""


def test_functions_are_shown_with_the_lines_of_the_one_file_or_of_the_call_that_was_inlined():
    assert read_llvm(MODULE, "<gathernest kernel>") == [
        ("define i64 @copy_tile(i64 %0) {", 3),
        ("  %a = add i64 %0, 1", 7),
        ("  %b = add i64 %a, 1", 8),
        ("  %c = add i64 %b, 1", None),
        ("  %d = add i64 %c, 1", None),
        ("  %e = add i64 %d, 1", None),
        ("  ret i64 %e", 7),
        ("}", None),
        ("", None),
    ]


def instructions(text: str) -> list[Instruction]:
    found = []
    for line in text.strip().splitlines():
        shown = line.strip()
        mnemonic, _, operands = shown.partition(" ")
        found.append(Instruction(shown, None, "" if shown.endswith(":") else kind_of(mnemonic, operands)))
    return found


def loops(text: str) -> list[tuple[int, int, int, bool]]:
    return [(loop.first, loop.last, loop.depth, loop.is_hot) for loop in loops_of(instructions(text))]


def test_a_loop_in_a_loop_is_hot_and_the_outer_is_not():
    text = """
    f:
    .LBB0_1:
    xorl %eax, %eax
    .LBB0_2:
    movq (%rdi), %rbx
    jne .LBB0_2
    incq %rcx
    jne .LBB0_1
    retq
    """
    assert loops(text) == [(1, 7, 1, False), (3, 5, 2, True)]


def test_a_jump_back_to_a_shared_end_is_no_loop():
    text = """
    f:
    jne .LBB0_2
    .LBB0_1:
    movq (%rdi), %rbx
    retq
    .LBB0_2:
    movq (%rsi), %rbx
    jmp .LBB0_1
    """
    assert loops(text) == []


def test_blocks_of_another_place_between_those_of_a_loop_are_not_its_lines():
    text = """
    f:
    .LBB0_1:
    movq (%rdi), %rbx
    je .LBB0_3
    jmp .LBB0_4
    .LBB0_3:
    retq
    .LBB0_4:
    incq %rcx
    jne .LBB0_1
    retq
    """
    (loop,) = loops_of(instructions(text))
    assert loop.lines == (1, 2, 3, 4, 7, 8, 9)


def test_a_loop_without_memory_is_not_hot_and_functions_do_not_run_into_each_other():
    text = """
    f:
    .LBB0_1:
    decq %rcx
    jne .LBB0_1
    g:
    .LBB1_1:
    prefetcht0 (%rdi)
    movq %rax, (%rdi)
    jne .LBB1_1
    """
    assert loops(text) == [(1, 3, 1, False), (5, 8, 1, True)]


SOURCE = """\
def copy_tile(k, n_indices, data):
    i_o = k * 256
    for i in range(i_o, n_indices):  # indices_i
        index = load_i64(indices, 8 * i)
        for j in range(0, 64, 8):  # inner
            element = load_v8xi32(data, index + j)
            store_v8xi32(out, i + j, element)
        for j_1 in range(60, 64):  # inner_rest
            store_i32(out, i + j_1)
    return 0
""".splitlines()


def test_a_loop_is_the_outermost_whose_own_line_is_among_its_lines():
    assert loop_around(SOURCE, [6, 7, 6, 7, 5, 3]) == ("indices_i", 4)  # `inner` is unrolled
    assert loop_around(SOURCE, [6, 7, 5]) == ("inner", 8)
    assert loop_around(SOURCE, [8, 9, 9]) == ("inner_rest", 8)
    assert loop_around(SOURCE, [9, 4, 4, 4, 8]) == ("inner_rest", 8)  # instructions of the loop around moved inside


def test_a_loop_without_its_own_line_is_the_one_that_most_lines_stand_in():
    assert loop_around(SOURCE, [6, 7, 4]) == ("inner", 8)
    assert loop_around(SOURCE, [4]) == ("indices_i", 4)


def test_lines_in_no_loop_have_no_name():
    assert loop_around(SOURCE, [2, 10]) == ("", 0)
    assert loop_around(SOURCE, []) == ("", 0)


def inferred(*lines: tuple[str, int | None]) -> list[tuple[int, ...]]:
    found = []
    for text, line in lines:
        mnemonic, _, operands = text.partition(" ")
        found.append(Instruction(text, line, "" if text.endswith(":") else kind_of(mnemonic, operands)))
    return inferred_lines(found)


def test_an_instruction_without_a_line_has_those_of_the_users_of_its_result():
    assert inferred(
        ("f:", None),
        ("shlq $8, %rbx", None),
        ("movq (%rax,%rbx), %rcx", 7),
        ("vmovups %ymm0, 32(%rax,%rbx)", 9),
        ("movq (%rdx), %rbx", 11),
        ("addq %rbx, %rcx", 12),
        ("retq", 13),
    )[1] == (7, 9)


def test_a_part_of_a_register_is_the_register():
    assert inferred(("f:", None), ("movzbl (%rdi), %eax", None), ("addq %rax, %rcx", 4))[1] == (4,)
    assert inferred(("f:", None), ("vmovd (%rdi), %xmm1", None), ("vmovups %ymm1, (%rdx)", 5))[1] == (5,)
    assert inferred(("f:", None), ("movl (%rdi), %r9d", None), ("addq %r9, %rcx", 4))[1] == (4,)


def test_a_comparison_serves_the_next_that_asks_for_the_flags():
    assert inferred(
        ("f:", None),
        ("cmpq %rax, %rbx", None),
        ("movq %rax, %rcx", 3),
        ("cmovlq %rbx, %rcx", 4),
        ("testq %rax, %rax", 5),
    )[1] == (4,)


def test_a_chain_without_lines_has_the_line_of_its_end_and_a_loop_goes_round():
    assert inferred(
        ("f:", None),
        (".LBB0_1:", None),
        ("movq (%rdi,%rax), %rbx", 6),
        ("leaq 8(%rax), %rdx", None),
        ("movq %rdx, %rax", None),
        ("jne .LBB0_1", None),
        ("retq", None),
    )[3:5] == [(6,), (6,)]


def test_what_other_ways_read_counts_and_what_is_overwritten_on_all_does_not():
    lines = (
        ("f:", None),
        ("movq (%rdi), %rax", None),
        ("je .LBB0_2", 2),
        ("movq %rax, (%rsi)", 3),
        ("retq", 4),
        (".LBB0_2:", None),
        ("movq (%rdx), %rax", 5),
        ("movq %rax, (%rcx)", 6),
    )
    assert inferred(*lines)[1] == (3,)


def test_what_serves_the_next_iteration_has_the_lines_of_its_chain_there():
    assert inferred(
        ("f:", None),
        (".LBB0_1:", None),
        ("leaq (%rax,%rax), %rdx", None),
        ("movq (%rdx), %rbx", 6),
        ("addq $8, %rax", None),
        ("jne .LBB0_1", None),
    )[4] == (6,)


def test_what_another_function_reads_does_not_count():
    assert inferred(("f:", None), ("movq (%rdi), %rax", None), ("g:", None), ("addq %rax, %rcx", 3))[1] == ()
