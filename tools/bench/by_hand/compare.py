"""`gathernest bench --by-hand`: each case timed in turn with the fastest variant of C by hand, as Markdown.

Three pairs a case: checked indices into a result that is given, checked indices into a new one, and unchecked indices
into a given one. C allocates with `aligned_alloc` and asks for huge pages as NumPy does.

An index out of range leaves a given result untouched, so C checks all indices before it writes there. A variant that
checks each index as it uses it breaks that promise: ours is compared with the fastest of them in a column of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ....ir.array_spec import ArraySpec
from ....kernels.gather import gather, gather_elements
from ....kernels.host.cpu import cpu_model, usable_cores
from ....kernels.host.knobs import knobs
from ....kernels.host.timing import Timings, time_interleaved
from ....kernels.kernel import compile as compile_gather
from ..cases.case import Case, Inputs, describe
from ..cases.suite import SUITE
from ..measure import geometric_mean, in_turn
from ..table import markdown_table, ratio_text, time_text
from .library import FUSED, SEPARATE, Library, Sizes, Variant, built, sizes_of
from .library import UNCHECKED as WITHOUT
from .variants import best_variants, calls_of, fastest

M = 1_000_000
NAMES = (
    *("scalars-256MB-table", "scalars-256KB-table", "scalars-16KB-table", "float64-scalars", "int8-scalars"),
    *("tiny-batches-scalars", "rows-64B", "rows-256B", "rows-4KB", "rows-256B-small-table", "tiny-batches-rows"),
    *("last-axis", "last-axis-in-cache", "int16-last-axis", "middle-axis"),
    *("elements-first-axis", "elements-last-axis"),
)
MORE = (
    Case("scalars-160KB-table", "scalars", (40_000,), (3 * M,)),
    Case("batches-of-scalars", "batches", (512, 4096), (512, 900), axis=1, batch_dims=1),
    Case("rows-64B-in-cache", "rows", (4096, 16), (100_000,)),
)
CASES = (*MORE, *(next(case for case in SUITE if case.name == name) for name in NAMES))
MODES = OUT, NEW, UNCHECKED = "out=", "new", "unchecked"
EARLY = "out=, written before all is checked"


@dataclass(frozen=True, slots=True)
class Beside:
    """A case beside C by hand.

    Attributes:
        fastest: C's fastest variant, by mode.
        ours_us, by_hand_us: medians of the rounds, microseconds a call, by mode.
        ratios: how many times as fast as C's gathernest is, by mode; the median over the rounds.
        of_early: the same for checked indices of ours into a given result beside C that writes before it has checked.
        of_unchecked: the same beside unchecked indices of C's.
    """

    case: Case
    fastest: dict[str, Variant]
    ours_us: dict[str, float]
    by_hand_us: dict[str, float]
    ratios: dict[str, float]
    of_early: float
    of_unchecked: float


def compare(cases: Sequence[Case], *, rounds: int, threads: int, advance: Callable[[int], None]) -> list[Beside]:
    """Time cases beside C by hand; those that the C file has no loop for are left out.

    Raises:
        DependencyError: there is no C compiler.
        GathernestError: the compiler fails, or C gives other bytes.
    """
    library = built()
    found: list[Beside] = []
    for case in cases:
        sizes = sizes_of(case)
        if sizes is not None:
            found.append(_beside(library, case, sizes, rounds, threads))
        advance(1)
    return found


def _beside(library: Library, case: Case, sizes: Sizes, rounds: int, threads: int) -> Beside:
    inputs = case.make()
    given = best_variants(library, case, sizes, inputs, threads, fresh=False)
    fresh = best_variants(library, case, sizes, inputs, threads, fresh=True)
    (new,) = fastest(library, sizes, inputs, [fresh[SEPARATE], fresh[FUSED]])
    chosen = {OUT: given[SEPARATE], NEW: new, UNCHECKED: given[WITHOUT], EARLY: given[FUSED]}
    with knobs.scope(num_threads=threads):
        ours = {f"ours {mode}": in_turn(calls) for mode, calls in _ours(case, inputs).items()}
        c = {f"c {mode}": in_turn(calls_of(library, sizes, inputs, variant)) for mode, variant in chosen.items()}
        timings = time_interleaved(ours | c, rounds=rounds, settle_s=0.0)
    return _result(case, chosen, timings)


def _result(case: Case, chosen: dict[str, Variant], timings: Timings) -> Beside:
    ours, c = ({mode: 1e6 * timings.median_s(f"{who} {mode}") for mode in MODES} for who in ("ours", "c"))
    ratios = {mode: timings.ratio(f"ours {mode}", f"c {mode}") for mode in MODES}
    others = (timings.ratio(f"ours {OUT}", f"c {mode}") for mode in (EARLY, UNCHECKED))
    return Beside(case, chosen, ours, c, ratios, *others)


def _ours(case: Case, inputs: Inputs) -> dict[str, list[Callable[[], object]]]:
    """Return calls of the kernels and functions that a user calls, by mode: one for each set of indices."""
    data, first = inputs.data, inputs.indices[0]
    axis, batch_dims = case.axis, case.batch_dims
    compiled = partial(compile_gather, case.operator, ArraySpec.of(data), first, axis=axis, batch_dims=batch_dims)
    kernel, promised = compiled(), compiled(bounds="unchecked")
    is_gather = case.operator == "gather"
    new = partial(gather, axis=axis, batch_dims=batch_dims) if is_gather else partial(gather_elements, axis=axis)
    return {
        OUT: [partial(kernel, data, picks, inputs.out) for picks in inputs.indices],
        NEW: [partial(new, data, picks) for picks in inputs.indices],
        UNCHECKED: [partial(promised, data, picks, inputs.out) for picks in inputs.indices],
    }


def as_markdown(compared: Sequence[Beside], threads: int, rounds: int) -> str:
    """Return the table, with the means and the worst case of each mode, and the machine."""
    rows = [_row(one) for one in compared]
    columns = list(zip(*map(_ratios, compared), strict=True))
    if compared:
        for name, reduced in (("geometric mean", geometric_mean), ("worst", min)):
            rows.append([name, "", "", "", "", *(ratio_text(reduced(column)) for column in columns)])
    headings = ("case", "shapes", "ours", "C", "fastest variant of C", "checked, out=", "checked, new", "unchecked")
    headings += ("out=, C writes before it has checked", "out=, C does not check")
    table = markdown_table(headings, ["---", "---", "--:", "--:", "---", *["--:"] * 5], rows)
    conditions = f"{cpu_model()}, {usable_cores()} cores; at most {threads} threads; medians of {rounds} interleaved"
    return f"{table}\n\n{conditions} rounds in one process, the bytes of every variant compared first."


def _ratios(one: Beside) -> list[float]:
    return [*(one.ratios[mode] for mode in MODES), one.of_early, one.of_unchecked]


def _row(one: Beside) -> list[str]:
    marked = [ratio_text(ratio) if ratio >= 1 else f"**{ratio_text(ratio)}**" for ratio in _ratios(one)]
    times = time_text(one.ours_us[OUT]), time_text(one.by_hand_us[OUT])
    return [one.case.name, describe(one.case), *times, str(one.fastest[OUT]), *marked]
