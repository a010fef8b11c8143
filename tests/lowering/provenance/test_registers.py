from gathernest.lowering.provenance.assembly import Instruction, kind_of
from gathernest.lowering.provenance.registers import inferred_lines


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
