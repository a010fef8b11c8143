import pytest

from gathernest.lowering.provenance.assembly import kind_of, normal_form, read_assembly, short_names

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
