"""What the text of assembly and of LLVM IR says: instructions and their lines, blocks, loops and registers."""

from pathlib import Path

import pytest

from gathernest.lowering.provenance.assembly import (
    inferred_lines,
    loop_around,
    loops_of,
    normal_form,
    read_assembly,
    read_llvm,
)

TEXTS = Path(__file__).parents[2] / "golden" / "texts"


def test_instructions_lines_and_loops_are_the_reviewed_ones(golden):
    """The golden has each instruction with its kind, its line or those of the users of its result, and the loops."""
    found = read_assembly((TEXTS / "assembly.s").read_text(), "<gathernest kernel>")
    lines = [
        f"{number:3} {at.text:45} {at.kind:10} {at.line or '':2} {', '.join(map(str, inferred))}".rstrip()
        for number, (at, inferred) in enumerate(zip(found, inferred_lines(found), strict=True))
    ]
    lines += [
        f"loop {loop.first} to {loop.last}, depth {loop.depth}{', hot' * loop.is_hot}: lines {loop.lines}"
        for loop in loops_of(found)
    ]
    golden("assembly.txt", "\n".join(lines))


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
