"""The file of a static report."""

from dataclasses import replace

from gathernest.tools.tracking.kernel_facts import read_report


def test_a_file_holds_the_whole_report(reported, kernel):
    report = reported(one=kernel, two=kernel, three=replace(kernel, loops=()))
    assert read_report(report.text(), "static.json") == report


def test_a_stage_a_count_and_an_instruction_have_a_line_each(reported, kernel):
    lines = [line.strip() for line in reported(one=kernel, two=kernel).text().splitlines()]
    assert lines.count('"two"') == 1
    assert '["vectorize-inner{lanes=8}", "2a"],' in lines
    assert '"vmovups (%rax), %ymm0",' in lines
    assert lines.count('"vector_bytes": 32,') == 2
    assert not any("spills" in line for line in lines)
