"""The suite: gathers of every kind, from five rows of a tiny table to a quarter of a gigabyte.

Names tell what is special: the bytes of a row, the distribution of the indices, the dtype. What is not said is float32,
int64 indices, uniform, into a result that is given.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from ....ir.errors import did_you_mean
from ...console.terminal import UsageError
from .case import Case

M = 1_000_000

ROWS = [
    Case("rows-8B", "rows", (8 * M, 2), (M,)),
    Case("rows-16B", "rows", (4 * M, 4), (M,)),
    Case("rows-64B", "rows", (M, 16), (400_000,)),
    Case("rows-100B", "rows", (500_000, 25), (200_000,)),
    Case("rows-256B", "rows", (M, 64), (100_000,)),
    Case("rows-1KB", "rows", (200_000, 256), (30_000,)),
    Case("rows-4KB", "rows", (32_000, 1024), (8000,)),
    Case("rows-64KB", "rows", (2000, 16_384), (1000,)),
    Case("rows-256B-small-table", "rows", (1000, 64), (4000,)),
    Case("rows-256B-tiny-table", "rows", (32, 64), (200_000,)),
]
SCALARS = [
    Case("scalars-256MB-table", "scalars", (64 * M,), (4 * M,)),
    Case("scalars-4MB-table", "scalars", (M,), (M,)),
    Case("scalars-256KB-table", "scalars", (65_536,), (M,)),
    Case("scalars-16KB-table", "scalars", (4096,), (100_000,)),
]
DISTRIBUTIONS = [
    Case("rows-256B-zipf", "distributions", (M, 64), (100_000,), distribution="zipf"),
    Case("rows-256B-sorted", "distributions", (M, 64), (100_000,), distribution="sorted"),
    Case("rows-64B-repeated", "distributions", (M, 16), (400_000,), distribution="repeated"),
    Case("scalars-zipf", "distributions", (64 * M,), (4 * M,), distribution="zipf"),
    Case("scalars-sorted", "distributions", (64 * M,), (4 * M,), distribution="sorted"),
]
AXES = [
    Case("last-axis", "axes", (8192, 1024), (512,), axis=1),
    Case("last-axis-in-cache", "axes", (512, 1024), (512,), axis=1),
    Case("last-axis-few", "axes", (500_000, 16), (4,), axis=1),
    Case("last-axis-long", "axes", (64, M), (100_000,), axis=1),
    Case("middle-axis", "axes", (64, 1000, 32), (500,), axis=1),
    Case("middle-axis-8B", "axes", (256, 4096, 2), (2048,), axis=1),
]
BATCHES = [
    Case("tiny-batches-rows", "batches", (8192, 32, 16), (8192, 8), axis=1, batch_dims=1),
    Case("tiny-batches-scalars", "batches", (16_384, 64), (16_384, 16), axis=1, batch_dims=1),
    Case("batches-of-tokens", "batches", (64, 512, 768), (64, 76), axis=1, batch_dims=1),
    Case("few-batches-rows", "batches", (4, 100_000, 32), (4, 50_000), axis=1, batch_dims=1),
    Case("few-batches-scalars", "batches", (4, 4 * M), (4, 500_000), axis=1, batch_dims=1),
    Case("batches-last-axis", "batches", (64, 128, 512), (64, 256), axis=2, batch_dims=1),
]
TUPLES = [
    Case("nd-pairs-rows", "gather_nd", (1000, 1000, 16), (300_000, 2), "gather_nd"),
    Case("nd-pairs-scalars", "gather_nd", (4096, 4096), (2 * M, 2), "gather_nd"),
    Case("nd-triples-rows", "gather_nd", (64, 64, 64, 8), (200_000, 3), "gather_nd"),
    Case("nd-batches", "gather_nd", (32, 4000, 64), (32, 2000, 1), "gather_nd", batch_dims=1),
]
ELEMENTS = [
    Case("elements-first-axis", "gather_elements", (8192, 1024), (2048, 1024), "gather_elements"),
    Case("elements-middle-axis", "gather_elements", (64, 512, 128), (64, 256, 128), "gather_elements", axis=1),
    Case("elements-last-axis", "gather_elements", (8192, 1024), (8192, 256), "gather_elements", axis=1),
]
DTYPES = [
    Case("int8-scalars", "dtypes", (16 * M,), (4 * M,), dtype="int8"),
    Case("int8-rows-3B", "dtypes", (4 * M, 3), (M,), dtype="int8"),
    Case("int16-last-axis", "dtypes", (4096, 2048), (1024,), dtype="int16", axis=1),
    Case("float64-scalars", "dtypes", (16 * M,), (2 * M,), dtype="float64"),
    Case("complex128-scalars", "dtypes", (8 * M,), (M,), dtype="complex128"),
    Case("rows-256B-int32-indices", "dtypes", (M, 64), (100_000,), index_dtype="int32"),
    Case("scalars-int32-indices", "dtypes", (16 * M,), (4 * M,), index_dtype="int32"),
]
GRADIENTS = [
    Case("gradient-rows-256B", "gradient", (100_000, 64), (100_000,), "gather_grad"),
    Case("gradient-rows-32B", "gradient", (M, 8), (400_000,), "gather_grad"),
    Case("gradient-rows-4KB", "gradient", (10_000, 1024), (40_000,), "gather_grad"),
    Case("gradient-few-rows", "gradient", (100, 64), (200_000,), "gather_grad"),
    Case("gradient-zipf", "gradient", (100_000, 64), (100_000,), "gather_grad", distribution="zipf"),
    Case("gradient-scalars", "gradient", (M,), (4 * M,), "gather_grad"),
]
CALLS = [Case("call-function", "call", (5, 4), (3,), into="new"), Case("call-kernel", "call", (5, 4), (3,))]
SUITE = (*(*ROWS, *SCALARS, *DISTRIBUTIONS, *AXES, *BATCHES, *TUPLES, *ELEMENTS, *DTYPES), *(*GRADIENTS, *CALLS))
FAMILIES = tuple(dict.fromkeys(case.family for case in SUITE))
# Families that the mean over all gathers leaves out: they are other questions.
APART = ("gradient", "call")


def chosen(patterns: Sequence[str], families: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases that a command line selects by patterns of names and by families, in the order of the suite.

    Empty ones select all. Raises UsageError where a name or family does not exist, or no case is left.
    """
    names = [case.name for case in SUITE]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(
                f"no case is called {pattern!r}; `gathernest bench --list` prints them, and * stands for anything"
                f"{did_you_mean(pattern, names)}"
            )
    for family in families:
        if family not in FAMILIES:
            raise UsageError(
                f"there is no family {family!r}; the families are {', '.join(FAMILIES)}{did_you_mean(family, FAMILIES)}"
            )
    left = tuple(
        case
        for case in SUITE
        if (not patterns or any(fnmatchcase(case.name, pattern) for pattern in patterns))
        and (not families or case.family in families)
    )
    if not left:
        raise UsageError(
            f"no case is left: none of --case {','.join(patterns)} is of --family {','.join(families)}; leave one out"
        )
    return left
