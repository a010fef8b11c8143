"""The variants of C by hand for a case, the calls that they make, and the fastest of them."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ....ir.element_types import first_difference
from ....ir.errors import GathernestError
from ....kernels.host.timing import time_interleaved
from ....lowering.schedule.machine_model import LINE_BYTES
from ..cases.case import Case, Inputs, expected
from ..measure import in_turn
from .library import (
    CHECKS,
    FUSED,
    MOST_STAGED,
    NEXT,
    ROW_KERNELS,
    SCALAR_BYTES,
    SCALAR_KERNELS,
    SEPARATE,
    Library,
    Sizes,
    Variant,
)

VECTOR_BYTES = dict(zip(ROW_KERNELS, (1, 16, 32, 64), strict=True))
# Distances of prefetches: elements, and for rows the bytes that a distance spans and the most rows.
ELEMENTS_AHEAD = (0, 64, 256)
NEAR_BYTES, NEAR_ROWS, FAR_BYTES, FAR_ROWS = 4096, 16, 16_384, 256
STREAMED_FROM_BYTES = 2**20
# How the fastest is found: so many rounds, and how many are left after them.
HALVINGS = ((1, 10), (2, 3), (4, 1))


def unchecked_variants(
    library: Library, case: Case, sizes: Sizes, inputs: Inputs, threads: int, *, fresh: bool
) -> list[Variant]:
    """Return every unchecked variant that can run a case on so many threads, into its result or a fresh one."""
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
    """Whether non-temporal stores of a variant are aligned; those of scalars align themselves."""
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
