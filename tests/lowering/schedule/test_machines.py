"""What is chosen on seven described machines, as goldens that were reviewed by hand; `--update-golden` writes them.

The machines are files as GATHERNEST_MACHINE takes them, in `machines/`. They differ as follows: vectors are as wide as
the machine moves in one instruction; results that exceed the cache, or meet strangers in it, have non-temporal stores;
rows are prefetched as far as the lines in flight and the latency of memory allow. A table and a result that the caches
of a core hold have neither.
"""

from pathlib import Path

import numpy as np
import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.tools.bench.cases import SUITE, problem_of_case

HERE = Path(__file__).parent / "machines"
MACHINES = sorted(path.stem for path in HERE.glob("*.json"))
CASES = (
    "rows-8B",
    "rows-64B",
    "rows-256B",
    "rows-4KB",
    "rows-256B-small-table",
    "rows-256B-tiny-table",
    "scalars-256MB-table",
    "scalars-4MB-table",
    "scalars-16KB-table",
    "last-axis",
    "middle-axis",
    "few-batches-rows",
    "elements-last-axis",
    "elements-first-axis",
    "bags-32-1KB",
    "bags-32-256B",
)


def chosen_on(machine: str) -> dict[str, Plan]:
    """Return the plan of each case on a machine."""
    plans: dict[str, Plan] = {}
    with knobs.scope(machine=HERE / f"{machine}.json"):
        for case in SUITE:
            if case.name in CASES:
                data, indices = ArraySpec(case.data, np.dtype(case.dtype)), ArraySpec(case.indices, np.dtype("int64"))
                plans[case.name] = make_plan(
                    Problem.checked(problem_of_case(case).operator, data, indices, Bounds.ERROR)
                )
    return plans


@pytest.mark.parametrize("machine", MACHINES)
def test_choices_are_the_reviewed_ones(machine, update_golden):
    file = HERE / f"{machine}.txt"
    plans = (f"{name}\n    {plan.schedule or 'none'}\n" for name, plan in chosen_on(machine).items())
    text = "".join(plans).replace("},", "},\n    ")
    if update_golden:
        file.write_text(text)
    assert text == file.read_text()
