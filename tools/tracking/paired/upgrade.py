"""`gathernest bench upgrade`: compare the code, counts and times that other versions of Numba, xDSL or NumPy give.

Base has the environment that gathernest runs in. Head has a virtual environment with the versions that are given, of
which pip installs the rest as the sources ask for; its sources are those of base.
"""

import argparse
import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ...console.terminal import Parser, UsageError, progress
from . import compare

if TYPE_CHECKING:
    from .sides import Side

PACKAGES = ("numba", "llvmlite", "xdsl", "numpy", "ml_dtypes")

EXAMPLES = """examples:
  gathernest bench upgrade numba==0.69.0 llvmlite==0.51.0
  gathernest bench upgrade xdsl==0.75.0 --case pipeline --markdown

The exit status is that of compare, of the times alone. Installing, compiling every kernel of the suite and counting
take some minutes besides the budget; --times-only leaves out all but the first."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument(
        "versions", nargs="+", metavar="PACKAGE==VERSION", help=f"of {', '.join(PACKAGES)}; others stay as they are"
    )
    compare.add_sampling_arguments(parser, "2m")
    parser.add_argument(
        "--times-only", action="store_true", help="compare neither the kernels of the suite nor the exact counts"
    )
    parser.add_argument("--json", metavar="FILE", help="write everything as one JSON object; - for standard output")
    parser.add_argument("--markdown", action="store_true", help="print a comment for a pull request")


def run(options: argparse.Namespace) -> int:
    """Compare the environments, print the result, and return the exit status."""
    from .benchmarks import chosen
    from .sides import two_sides

    for text in options.versions:
        _check(text)
    compare.check_outputs(options)
    benchmarks = chosen(options.case, full_size=options.full_size)
    with compare.wrong_revision_is_misuse(), ExitStack() as stack:
        with progress(f"installing {' '.join(options.versions)}"):
            sides = stack.enter_context(two_sides(None, None, options.versions))
        comparison = compare.compare_sides(sides, benchmarks, options)
        if not options.times_only:
            comparison.exact.update(_exact(sides))
    return compare.show(comparison, options)


def _exact(sides: "Sequence[Side]") -> dict[str, tuple[str, ...]]:
    from ....asv_bench.benchmarks.cases import SUITE
    from .exact import count_differences, kernel_differences

    with progress("compiling", 2 * len(SUITE)) as advance:
        kernels = kernel_differences(sides, advance)
    with progress("counting", 2) as advance:
        return {"kernels": kernels, "counts": count_differences(sides, advance)}


def _check(text: str) -> None:
    from ....ir.errors import did_you_mean

    match = re.fullmatch(r"([A-Za-z0-9_.-]+)==([A-Za-z0-9_.!+-]+)", text)
    if match is None:
        raise UsageError(f"expected PACKAGE==VERSION, got {text!r}, such as numba==0.68.1")
    name = match[1].lower().replace("-", "_")
    if name not in PACKAGES:
        raise UsageError(
            f"{match[1]} is not compared; the packages are {', '.join(PACKAGES)}{did_you_mean(name, PACKAGES)}"
        )
