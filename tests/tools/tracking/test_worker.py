"""The process of one side, without a process: the arrays of a smaller case, or those of its own sizes."""

import dataclasses

from gathernest.asv_bench.benchmarks import cases
from gathernest.tools.tracking.benchmarks import Benchmark
from gathernest.tools.tracking.processes import CASES
from gathernest.tools.tracking.worker import Worker

CASE = next(case for case in cases.SUITE if case.name == "rows-256B-small-table")


def test_a_kernel_runs_with_small_arrays_or_with_those_of_its_case():
    worker = Worker({"cases": str(CASES), "threads": 1})
    shapes = []
    for is_full in (False, True):
        benchmark = dataclasses.replace(Benchmark(CASE.name, CASE), is_full=is_full)
        answer = worker.answer({"ready": benchmark.question, "slot_ns": 1e5, "number": 0})
        assert answer["number"] >= 1 and answer["ns"] > 0, answer
        out = worker.calls[0]() if is_full else worker.calls[-1]()
        shapes.append(out.shape)
    assert shapes[0][0] < shapes[1][0] == CASE.gathered[0]
