from gathernest.lowering.provenance.llvm_text import read_llvm

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
