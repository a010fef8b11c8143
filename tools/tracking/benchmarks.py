"""The benchmarks of a comparison: cases of the suite with small or full arrays, the pipeline, import and first call."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...asv_bench.benchmarks.cases import SUITE, Case
from ..console.terminal import select

# The benchmarks that show most changes come first, then a second of some families: a slow machine cannot compile all of
# them in time. A restart of all takes three seconds of CPU time. first-call takes another.
DEFAULT = (
    *("import", "pipeline", "call-function", "rows-256B", "scalars-256KB-table", "last-axis", "elements-last-axis"),
    *("batches-of-tokens", "gradient-rows-256B", "nd-pairs-rows", "int8-rows-3B", "rows-16B", "scalars-4MB-table"),
    *("rows-4KB", "call-kernel", "tiny-batches-rows", "rows-256B-small-table", "gradient-few-rows", "bags-32-256B"),
)
FORKS = ("import", "first-call")
OTHERS = (*FORKS, "pipeline")

# A call takes 20 us to 2 ms with such arrays: a restart has time for many pairs. The table exceeds L2 on every machine.
MOST_RESULT_BYTES, MOST_TABLE_BYTES = 512 << 10, 16 << 20
SETS = 4  # of indices in turn


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One thing that is timed.

    Attributes:
        name: of the case; or import, first-call (with a cached kernel), or pipeline (operator to source).
        case: the case; None for import, first-call and pipeline.
        is_full: whether the arrays have the sizes of the case.
    """

    name: str
    case: Case | None = None
    is_full: bool = False

    @property
    def family(self) -> str:
        """The family of the case; "start" for the first work of a fresh process."""
        return self.case.family if self.case is not None else "start" if self.forks else "pipeline"

    @property
    def is_kernel(self) -> bool:
        """Whether a compiled kernel takes nearly all of its time."""
        return self.case is not None and self.case.family != "call"

    @property
    def forks(self) -> bool:
        """Whether each timing is of a child process."""
        return self.name in FORKS

    @property
    def question(self) -> dict[str, Any]:
        """The question to the worker: a name, or the case, the smaller case and the sets of indices."""
        if self.case is None:
            return {"of": self.name}
        is_call = self.case.family == "call"
        cut = self.case if is_call or self.is_full else small(self.case)
        sets = None if self.is_full else 1 if is_call else SETS
        return {"of": asdict(self.case), "cut": asdict(cut), "sets": sets}


# Benchmarks of child processes come first: a child starts as the process is, which has not yet imported anything.
BENCHMARKS = {
    **{name: Benchmark(name) for name in FORKS},
    **{case.name: Benchmark(case.name, case) for case in SUITE},
    "pipeline": Benchmark("pipeline"),
}


def chosen(patterns: Sequence[str], *, full_size: bool = False) -> list[Benchmark]:
    """Return the benchmarks that patterns of names select; without one, a few of each kind, the most telling first.

    With `full_size` kernels are timed with arrays of the cases' own sizes.

    Raises:
        UsageError: there is none of a name.
    """
    missing = (
        "no benchmark is called {pattern}; `gathernest bench --list` prints the cases, "
        f"{', '.join(OTHERS)} are others, and * stands for anything"
    )
    found = [BENCHMARKS[name] for name in (select(BENCHMARKS, patterns, missing) if patterns else DEFAULT)]
    return [replace(one, is_full=full_size and one.is_kernel) for one in found]


def small(case: Case) -> Case:
    """Return the case with fewer slices and a smaller table, and slices as they are.

    Dimensions that the result has are halved, the largest first, until the result and the indices fit; then the indexed
    ones of the table.
    """
    while case.gathered_bytes + case.index_bytes > MOST_RESULT_BYTES:
        place = max(_slice_dimensions(case), key=lambda each: each[0])
        if place[0] < 2:
            break
        case = _halved(case, *place[1:])
    while case.table_bytes > MOST_TABLE_BYTES:
        axis = max(case.indexed, key=lambda axis: case.data[axis])
        if case.data[axis] < 2:
            break
        case = _halved(case, axis, None)
    return case


def _slice_dimensions(case: Case) -> list[tuple[int, int | None, int | None]]:
    """Return size, dimension of data and dimension of indices of every loop over slices."""
    data, indices, batch = case.data, case.indices, case.batch_dims
    if case.operator == "gather_elements":
        return [(size, None if dim == case.axis else dim, dim) for dim, size in enumerate(indices)]
    own = len(indices) - (case.operator == "gather_nd" or case.is_reduction)
    outer = [(data[dim], dim, None) for dim in range(batch, case.axis)]
    batches = [(data[dim], dim, dim) for dim in range(batch)]
    return [*batches, *outer, *((indices[dim], None, dim) for dim in range(batch, own))]


def _halved(case: Case, of_data: int | None, of_indices: int | None) -> Case:
    data, indices = list(case.data), list(case.indices)
    if of_data is not None:
        data[of_data] = -(-data[of_data] // 2)
    if of_indices is not None:
        indices[of_indices] = -(-indices[of_indices] // 2)
    return replace(case, data=tuple(data), indices=tuple(indices))
