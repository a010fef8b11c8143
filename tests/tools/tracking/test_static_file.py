"""The file of a static report."""

from dataclasses import replace

from gathernest.tools.tracking.kernel_facts import read_report


def test_a_file_holds_the_whole_report(reported, kernel):
    report = reported(one=kernel, two=kernel, three=replace(kernel, loops=()))
    assert read_report(report.text(), "static.json") == report


def test_a_stage_a_loop_and_an_instruction_have_a_line_each(reported, kernel):
    lines = reported(one=kernel, two=kernel).text().splitlines()
    assert lines.count(' "cases": ["one", "two"],') == 1
    assert '  ["vectorize-inner{lanes=8}", "2a"],' in lines
    assert '  "vmovups (%rax), %ymm0",' in lines
    inner = next(line for line in lines if "copy_tile inner" in line)
    assert inner == (
        '  {"name": "copy_tile inner", "depth": 2, "hot": true, "vector_bytes": 32, "instructions": 4, "loads": 1, '
        '"stores": 1, "prefetches": 1, "branches": 1, "code": ['
    )
