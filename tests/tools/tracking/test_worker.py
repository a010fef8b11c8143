"""The process of one side, without a process: the arrays of a case, small ones from files or those of its own sizes."""

import dataclasses
from pathlib import Path

from gathernest.asv_bench.benchmarks import cases
from gathernest.tools.tracking.benchmarks import Benchmark
from gathernest.tools.tracking.processes import CASES, _ready
from gathernest.tools.tracking.worker import Worker

CASE = next(case for case in cases.SUITE if case.name == "rows-256B-small-table")


def test_a_kernel_runs_with_small_arrays_or_with_those_of_its_case(tmp_path, monkeypatch):
    worker = Worker({"cases": str(CASES), "threads": 1})
    shapes = []
    for is_full in (False, True):
        benchmark = dataclasses.replace(Benchmark(CASE.name, CASE), is_full=is_full)
        benchmark.write_arrays(tmp_path)
        answer = worker.answer(_ready(benchmark, tmp_path))
        assert answer["number"] >= 1 and answer["ns"] > 0, answer
        out = worker.calls[0]() if is_full else worker.calls[-1]()
        shapes.append(out.shape)
    assert [Path(folder).name for folder in tmp_path.iterdir()] == [CASE.name]
    assert shapes[0][0] < shapes[1][0] == CASE.gathered[0]
