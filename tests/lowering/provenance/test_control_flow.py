from gathernest.lowering.provenance.assembly import Instruction, kind_of
from gathernest.lowering.provenance.control_flow import loops_of


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
