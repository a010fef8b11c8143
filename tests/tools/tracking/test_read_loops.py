"""The facts of loops, read from assembly as text."""

import pytest

from gathernest.lowering.provenance.assembly import read_assembly
from gathernest.tools.tracking.kernel_facts import read_loops

FILE = "<gathernest kernel>"
SOURCE = """\
def copy_tile(k, n_indices, indices, data, out):
    for i in range(k, n_indices):  # indices_i
        index = load_i64(indices, 8 * i)
        for j in range(0, n, 8):  # inner
            store_v8xi32(out, j, load_v8xi32(data, index + j))
"""
ASSEMBLY = """\
\t.file\t1 "/somewhere" "<gathernest kernel>"
tile._ZN17gathernest_kernel9copy_tileB2v5B72c8tJTIeFIjxx:
.LBB2_1:
\t.loc\t1 3 1
\tmovq\t(%rdi,%rax,8), %rcx
\tmovq\t%rcx, 24(%rsp)
\tcallq\t*%r11
.LBB2_2:
\t.loc\t1 5 1
\tvmovups\t(%rcx,%rdx), %ymm0
\tvmovss\t(%rcx), %xmm1
\tvpbroadcastd\t.LCPI2_1(%rip), %ymm2
\tprefetcht0\t256(%rcx,%rdx)
\tvmovntps\t%ymm0, (%rsi,%rdx)
\tmovl\t%ecx, 192(%rsp,%rdx,2)
\t.loc\t1 4 1
\tcmpq\t%rdx, %r8
\tjl\t.LBB2_9
\tjne\t.LBB2_2
\t.loc\t1 2 1
\tincq\t%rax
\tmovq\t24(%rsp), %rbx
\tjne\t.LBB2_1
.LBB2_9:
\tretq
"""


@pytest.fixture(scope="module")
def loops():
    return read_loops(read_assembly(ASSEMBLY, FILE), SOURCE)


def test_counts_are_of_the_loop_without_those_inside(loops):
    outer, inner = (loop.counts for loop in loops)
    assert outer == {**dict.fromkeys(outer, 0), "instructions": 6, "loads": 1, "spills": 2, "calls": 1, "branches": 1}
    assert inner == {
        "vector_bytes": 32,
        "instructions": 9,
        "loads": 3,
        "stores": 2,
        "nontemporal_stores": 1,
        "prefetches": 1,
        "spills": 0,
        "calls": 0,
        "branches": 2,
    }


def test_code_is_that_of_innermost_loops_with_labels_of_its_own(loops):
    outer, inner = loops
    assert outer.code == ()
    assert (inner.code[0], inner.code[3], inner.code[-2:]) == (
        ".L1:",
        "vpbroadcastd .C1(%rip), %ymm2",
        ("jl .L2", "jne .L1"),
    )


@pytest.mark.parametrize(
    ("instruction", "width"),
    [
        ("vmovntps\t%xmm0, (%rsi)", 16),
        ("vmovdqu64\t%zmm0, (%rsi)", 64),
        ("vmovd\t%xmm0, (%rsi)", 0),
        ("vaddss\t(%rsi), %xmm0, %xmm0", 0),
        ("vpinsrd\t$1, (%rsi), %xmm0, %xmm0", 16),
    ],
)
def test_vector_width_is_that_of_the_widest_register_but_for_scalars(instruction, width):
    text = f"gather:\n.LBB0_1:\n\t{instruction}\n\tjne\t.LBB0_1\n"
    (facts,) = read_loops(read_assembly(text, ""), "")
    assert (facts.name, facts.vector_bytes) == ("gather loop", width)


def test_loops_of_one_name_are_numbered():
    text = "gather:\n.LBB0_1:\n\tjne\t.LBB0_1\n.LBB0_2:\n\tjne\t.LBB0_2\n"
    assert [facts.name for facts in read_loops(read_assembly(text, ""), "")] == ["gather loop", "gather loop#2"]
