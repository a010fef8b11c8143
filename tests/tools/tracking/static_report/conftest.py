from dataclasses import replace

import pytest

from gathernest.tools.tracking.static_report.kernel_facts import Conditions, KernelFacts, LoopFacts
from gathernest.tools.tracking.static_report.report import StaticReport

INNER = LoopFacts(
    *("copy_tile inner", 2, True),
    vector_bytes=32,
    instructions=4,
    loads=1,
    stores=1,
    nontemporal_stores=0,
    prefetches=1,
    spills=0,
    calls=0,
    branches=1,
    code=(".L1:", "prefetcht0 (%rax)", "vmovups (%rax), %ymm0", "vmovups %ymm0, (%rdx)", "jne .L1"),
)
OUTER = replace(INNER, name="copy_tile indices_i", depth=1, is_hot=False, code=())
KERNEL = KernelFacts(
    "vectorize-inner{lanes=8},prefetch{what=rows loop=indices ahead=4}",
    (
        ("operator", "0a"),
        ("nest", "1a"),
        ("vectorize-inner{lanes=8}", "2a"),
        ("prefetch{what=rows loop=indices ahead=4}", "3a"),
    ),
    "5a",
    "6a",
    (OUTER, INNER),
)
VERSIONS = {"numba": "0.68.1", "llvmlite": "0.50.0"}


@pytest.fixture
def kernel() -> KernelFacts:
    return KERNEL


@pytest.fixture
def inner() -> LoopFacts:
    return INNER


@pytest.fixture
def reported():
    """Make a report of some cases, each with its kernel."""

    def report(versions=None, **kernels) -> StaticReport:
        conditions = Conditions("x86-64-v3", {"base": "avx2", "threads": 4})
        return StaticReport(
            conditions, versions or VERSIONS, kernels, {case: {"indices": 8, "output": 16} for case in kernels}
        )

    return report
