"""`gathernest bench --by-hand`: each case timed in turn with the fastest variant of C by hand, as Markdown.

`asv_bench/by_hand.c` is compiled for this CPU, kept in the cache folder under a digest of its source, the compiler and
its options, and called by ctypes. Each case has three pairs: checked indices into a given result, checked indices into
a new one, and unchecked indices into a given one. C allocates with `aligned_alloc`, and asks for huge pages as NumPy
does. An index out of range leaves a given result untouched, so C checks all indices before it writes there. A variant
that checks each index as it uses it breaks that promise, so a column of its own compares ours with it.
"""

import ctypes
import hashlib
import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.element_types import first_difference
from ...ir.errors import GathernestError
from ...kernels.gather import gather, gather_elements
from ...kernels.host.c_compiler import c_compiler, run_c_compiler
from ...kernels.host.cache_folder import cache_folder
from ...kernels.host.cpu import PACKAGE, cpu_model, usable_cores
from ...kernels.host.knobs import knobs
from ...kernels.host.timing import Timings, time_interleaved
from ...kernels.kernel import compile as compile_gather
from ...lowering.schedule.machine_model import LINE_BYTES
from .cases import SUITE, Case, Inputs, describe, expected
from .measure import geometric_mean, in_turn
from .report import markdown_table, ratio_text, time_text

SOURCE = PACKAGE / "asv_bench" / "by_hand.c"
OPTIONS = ("-O3", "-march=native", "-pthread", "-shared", "-fPIC")
# The names of the file's enumerations, in its order.
SCALAR_KERNELS: tuple[str, ...] = ("loop", "words", "8 lanes", "16 lanes")
ROW_KERNELS: tuple[str, ...] = ("memcpy", "16 B vectors", "32 B vectors", "64 B vectors")
KERNELS = SCALAR_KERNELS + ROW_KERNELS
CHECKS = UNCHECKED, SEPARATE, FUSED = "unchecked", "separate check", "fused check"
NEXT = -1
SCALAR_BYTES = (1, 2, 4, 8)
MOST_STAGED, MOST_POSITIONS = 2**18, 2**31


class Job(ctypes.Structure):
    """The file's `Job`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("data", "indices", "out")),
        *((name, ctypes.c_int64) for name in ("batches", "outer", "count", "axis", "row", "columns")),
        *((name, ctypes.c_int64) for name in ("kernel", "staged", "near", "far", "stream", "threads")),
        *((name, ctypes.c_int64) for name in ("check", "fresh")),
    )


@dataclass(frozen=True, slots=True)
class Sizes:
    """A gather as the file sees it: numbers of batches, outer slices, indices and positions, and bytes of a row.

    Attributes:
        columns: elements of a row of indices where each has an index of its own, otherwise 0.
    """

    batches: int
    outer: int
    count: int
    axis: int
    row: int
    columns: int


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to run a job.

    Attributes:
        kernel: one of `KERNELS`.
        staged: whether the indices of a batch are resolved once, to 32 bits.
        near, far: distances of prefetches into L1 and L2, in indices; 0 for none; `NEXT` for the next table, as is
            the next row of a gather along the last axis.
        stream: non-temporal stores.
        check: one of `CHECKS`.
        fresh: whether each call allocates its result.
    """

    kernel: str
    staged: bool = False
    near: int = 0
    far: int = 0
    stream: bool = False
    threads: int = 1
    check: str = UNCHECKED
    fresh: bool = False

    def __str__(self) -> str:
        parts = [self.kernel, "staged indices" if self.staged else ""]
        parts += ["next table prefetched" if self.near == NEXT else ""]
        parts += [f"{ahead} ahead" if ahead > 0 else "" for ahead in (self.near, self.far)]
        parts += ["streamed" if self.stream else "", self.check if self.check != UNCHECKED else ""]
        return ", ".join([*filter(None, parts), f"{self.threads} thread{'s' if self.threads > 1 else ''}"])


class Library:
    """The compiled file."""

    def __init__(self, path: Path):
        loaded = ctypes.CDLL(str(path))
        self._gather = loaded.gather
        self._gather.restype, self._gather.argtypes = ctypes.c_int64, [ctypes.POINTER(Job)]
        self._has_kernel = loaded.has_kernel
        self._has_kernel.argtypes = [ctypes.c_int64] * 3

    def has_kernel(self, kernel: str, sizes: Sizes) -> bool:
        """Return whether the file, as compiled, has a kernel for such rows."""
        return bool(self._has_kernel(KERNELS.index(kernel), sizes.row, sizes.columns))

    def job(self, sizes: Sizes, inputs: Inputs, number: int, variant: Variant) -> Job:
        """Return the job of a case's set of indices of that number; `inputs` must live as long."""
        arrays = (array.ctypes.data for array in (inputs.data, inputs.indices[number], inputs.out))
        kernel, staged, near, far, stream, threads, check, fresh = astuple(variant)
        way = KERNELS.index(kernel), staged, near, far, stream, threads, CHECKS.index(check), fresh
        return Job(*arrays, *astuple(sizes), *way)

    def call(self, job: Job) -> Callable[[], int]:
        """Return a call that runs a job, and returns how many indices are out of range."""
        return partial(self._gather, ctypes.byref(job))

    def result(self, job: Job, like: np.ndarray) -> np.ndarray:
        """Return the result of a job that was run, as a copy of the shape and dtype of an array."""
        return np.frombuffer(ctypes.string_at(job.out, like.nbytes), like.dtype).reshape(like.shape)


def sizes_of(case: Case) -> Sizes | None:
    """Return a case as the file sees it, or None where it has no loop for it."""
    if not case.is_plain or case.operator == "gather_nd" or case.index_dtype != "int64":
        return None
    width, axis = np.dtype(case.dtype).itemsize, case.axis
    if case.operator == "gather":
        batches, outer = math.prod(case.data[: case.batch_dims]), math.prod(case.data[case.batch_dims : axis])
        count, row = math.prod(case.indices[case.batch_dims :]), width * math.prod(case.data[axis + 1 :])
        return Sizes(batches, outer, count, case.data[axis], row, 0)
    others = [(*shape[:axis], *shape[axis + 1 :]) for shape in (case.data, case.indices)]
    columns, batches = math.prod(case.data[axis + 1 :]), math.prod(case.data[:axis])
    if others[0] != others[1] or width not in SCALAR_BYTES or case.data[axis] * columns >= MOST_POSITIONS:
        return None
    return Sizes(batches, 1, case.indices[axis], case.data[axis], width, columns if columns > 1 else 0)


def built(options: tuple[str, ...] = OPTIONS) -> Library:
    """Compile the file, or find it in the cache folder, and load it.

    Raises:
        DependencyError: there is no C compiler.
        GathernestError: the compiler fails; its first line is in the message.
    """
    compiler = c_compiler("C by hand")
    facts = "\n".join([compiler, str(os.stat(compiler).st_mtime_ns), cpu_model(), *options]).encode()
    folder = cache_folder() / "by_hand"
    path = folder / f"{hashlib.sha256(SOURCE.read_bytes() + facts).hexdigest()[:16]}.so"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as making:
            made = Path(making) / path.name
            run_c_compiler(compiler, [*options, str(SOURCE)], made, f"compile {SOURCE}")
            try:
                Library(made)
            except (OSError, AttributeError) as error:
                raise GathernestError(f"{compiler} makes a library that cannot be loaded ({error}); set CC") from None
            made.replace(path)
    return Library(path)


VECTOR_BYTES: dict[str, int] = dict(zip(ROW_KERNELS, (1, 16, 32, 64), strict=True))
# Distances of prefetches: elements, and for rows the bytes that a distance spans and the most rows.
ELEMENTS_AHEAD = (0, 64, 256)
NEAR_BYTES, NEAR_ROWS, FAR_BYTES, FAR_ROWS = 4096, 16, 16_384, 256
STREAMED_FROM_BYTES = 2**20
# The search for the fastest variant: the number of rounds, and of variants that are left after them.
HALVINGS = ((1, 10), (2, 3), (4, 1))


def unchecked_variants(
    library: Library, case: Case, sizes: Sizes, inputs: Inputs, threads: int, *, fresh: bool
) -> list[Variant]:
    """Return every unchecked variant that can run a case on `threads` threads, into its result or a fresh one."""
    alignment = LINE_BYTES if fresh else inputs.out.ctypes.data & -inputs.out.ctypes.data
    streams = (False, True) if case.gathered_bytes >= STREAMED_FROM_BYTES else (False,)
    found = _scalar_variants(sizes) if sizes.row in SCALAR_BYTES else _row_variants(sizes)
    return [
        replace(variant, stream=stream, threads=threads, fresh=fresh)
        for variant, stream in itertools.product(found, streams)
        if library.has_kernel(variant.kernel, sizes) and (not stream or _may_stream(variant, sizes, alignment))
    ]


def _scalar_variants(sizes: Sizes) -> Iterator[Variant]:
    for kernel in SCALAR_KERNELS:
        has_next = sizes.batches * sizes.outer > 1 and not sizes.columns and kernel != "loop"
        yield from (Variant(kernel, near=near) for near in (*ELEMENTS_AHEAD, *((NEXT,) if has_next else ())))
        if sizes.outer > 1 and sizes.count <= MOST_STAGED:
            yield from (Variant(kernel, staged=True, near=near) for near in ((0, NEXT) if has_next else (0,)))


def _row_variants(sizes: Sizes) -> Iterator[Variant]:
    near = min(NEAR_ROWS, max(1, NEAR_BYTES // sizes.row))
    far = min(FAR_ROWS, max(2, FAR_BYTES // sizes.row))
    for kernel in ROW_KERNELS:
        yield from (Variant(kernel, near=one, far=other) for one in (0, near) for other in (0, far))
        if sizes.batches * sizes.outer > 1:
            yield Variant(kernel, near=NEXT)


def _may_stream(variant: Variant, sizes: Sizes, alignment: int) -> bool:
    """Whether non-temporal stores of a variant are aligned; stores of scalars align themselves."""
    if sizes.row in SCALAR_BYTES:
        return variant.kernel != "loop" and not sizes.columns
    vector = VECTOR_BYTES[variant.kernel]
    return vector > 1 and sizes.row % vector == 0 and alignment % vector == 0


def checked_variants(variant: Variant) -> list[Variant]:
    """Return an unchecked variant with each way to check."""
    return [replace(variant, check=check) for check in (SEPARATE, FUSED)]


def calls_of(library: Library, sizes: Sizes, inputs: Inputs, variant: Variant) -> list[Callable[[], int]]:
    """Return the calls of a variant, one for each set of indices."""
    sets = range(len(inputs.indices))
    return [library.call(library.job(sizes, inputs, number, variant)) for number in sets]


def check_bytes(library: Library, case: Case, sizes: Sizes, inputs: Inputs, variants: Sequence[Variant]) -> None:
    """Compare the result of every variant with the plain one; raises GathernestError where one differs."""
    for number in range(len(inputs.indices)):
        wanted = expected(case, inputs, number)
        for variant in variants:
            job = library.job(sizes, inputs, number, variant)
            inputs.out.fill(1)
            missed = library.call(job)()
            got = library.result(job, wanted)
            if missed or first_difference(got, wanted) is not None:
                raise GathernestError(f"C by hand gives other bytes: {case.name}, {variant}; mend asv_bench/by_hand.c")


def fastest(
    library: Library, sizes: Sizes, inputs: Inputs, variants: Sequence[Variant], most: int = 1
) -> list[Variant]:
    """Return the fastest variants, at most so many, the fastest first: the slower ones are left out round by round."""
    left = list(variants)
    for rounds, stay in HALVINGS:
        if len(left) <= stay or len(left) <= most:
            continue
        calls = {str(variant): in_turn(calls_of(library, sizes, inputs, variant)) for variant in left}
        timings = time_interleaved(calls, rounds=rounds)
        left.sort(key=lambda variant: min(timings.rounds_s[str(variant)]))
        left = left[: max(stay, most)]
    return left


def best_variants(
    library: Library, case: Case, sizes: Sizes, inputs: Inputs, threads: int, *, fresh: bool
) -> dict[str, Variant]:
    """Return the fastest variant of each of `CHECKS`, after comparing the bytes of all that are tried."""
    candidates = unchecked_variants(library, case, sizes, inputs, threads, fresh=fresh)
    check_bytes(library, case, sizes, inputs, candidates)
    best = fastest(library, sizes, inputs, candidates, most=3)
    if threads > 1:
        best = fastest(library, sizes, inputs, [replace(one, threads=n) for one in best for n in (1, threads)], most=3)
    checked = [variant for one in best for variant in checked_variants(one)]
    check_bytes(library, case, sizes, inputs, checked)
    by_check = {check: [one for one in (*best, *checked) if one.check == check] for check in CHECKS}
    return {check: fastest(library, sizes, inputs, variants)[0] for check, variants in by_check.items()}


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
MODES = OUT, NEW, PROMISED = "out=", "new", "unchecked"
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
    chosen = {OUT: given[SEPARATE], NEW: new, PROMISED: given[UNCHECKED], EARLY: given[FUSED]}
    with knobs.scope(num_threads=threads):
        ours = {f"ours {mode}": in_turn(calls) for mode, calls in _ours(case, inputs).items()}
        c = {f"c {mode}": in_turn(calls_of(library, sizes, inputs, variant)) for mode, variant in chosen.items()}
        timings = time_interleaved(ours | c, rounds=rounds, settle_s=0.0)
    return _result(case, chosen, timings)


def _result(case: Case, chosen: dict[str, Variant], timings: Timings) -> Beside:
    ours, c = ({mode: 1e6 * timings.median_s(f"{who} {mode}") for mode in MODES} for who in ("ours", "c"))
    ratios = {mode: timings.ratio(f"ours {mode}", f"c {mode}") for mode in MODES}
    others = (timings.ratio(f"ours {OUT}", f"c {mode}") for mode in (EARLY, PROMISED))
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
        PROMISED: [partial(promised, data, picks, inputs.out) for picks in inputs.indices],
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
