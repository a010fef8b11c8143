"""How a command line names one gather: its operator, the arrays as text, and the attributes."""

import argparse
from typing import Any

from ...ir.array_spec import ArraySpec
from ...ir.element_types import UnknownSizeError
from ...ir.errors import GathernestError, InvalidGatherError
from ...kernels.problems.named_problem import FACTORS, OPERATORS, problem_of
from .terminal import UsageError, flag_of, integer

DEFAULTS: dict[str, Any] = {"operator": "gather", "axis": 0, "batch_dims": 0, "bounds": "error", "scale": 1.0}
DEFAULTS |= dict.fromkeys(FACTORS, False)


def add_problem_options(
    parser: argparse._ActionsContainer, *, required: bool = True, action: str | type[argparse.Action] = "store"
) -> None:
    """Declare the options; without `required`, the arrays may be left out. `action` is what argparse does with each."""

    def add(flag: str, **settings: Any) -> None:
        default = DEFAULTS.get(flag[2:].replace("-", "_"))
        parser.add_argument(flag, **{"action": action, "default": default, **settings})

    add("--operator", help=f"{', '.join(OPERATORS)} (default: gather)")
    add("--data", required=required, metavar="SPEC", help="sizes and element type, such as 2x64x128xf32")
    add("--indices", required=required, metavar="SPEC", help="the same of indices, such as 2x32x21xi64")
    add("--axis", type=integer, help="axis to gather from (default: 0)")
    add("--batch-dims", type=integer, help="leading dimensions that both share (default: 0)")
    add("--bounds", help="error, zero, clip, wrap or unchecked (default: error)")
    add("--scale", type=float, help="of a gradient: what its sums are multiplied by")
    for name, said in FACTORS.items():
        add(f"--{name}", **({"action": "store_true"} if action == "store" else {"nargs": 0}), help=said)


def given_options(options: argparse.Namespace) -> list[str]:
    """Return the options that name a gather and are given, such as `--batch-dims`."""
    given = [name for name in ("data", "indices", *DEFAULTS) if getattr(options, name) != DEFAULTS.get(name)]
    return [flag_of(name) for name in given]


def check_no_problem(options: argparse.Namespace, why: str) -> None:
    """Raise UsageError where an option names a gather that nothing would look at, `why`."""
    if flags := given_options(options):
        raise UsageError(f"{why}; leave out {', '.join(flags)}")


def problem_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `gathernest.compile` that the options name; both arrays must be given and readable.

    Of rows with weights or scales they name the operator of the kernel, with places for indices: "gather_weighted".
    """
    for name in ("data", "indices"):
        if getattr(options, name) is None:
            raise UsageError(f"--{name} is missing; name the gather with --data and --indices")
        try:
            ArraySpec.parse(getattr(options, name))
        except GathernestError as error:
            kind = type(error) if isinstance(error, UnknownSizeError) else InvalidGatherError
            raise kind(f"--{name}: {error}") from None
    names = ("operator", "data", "indices", "axis", "batch_dims", "bounds", "scale")
    arguments = {name: getattr(options, name) for name in names}
    if not any(getattr(options, name) for name in FACTORS):
        return arguments
    problem = problem_of(**arguments, **{name: getattr(options, name) for name in FACTORS})
    return arguments | {"operator": problem.name, "indices": str(problem.indices), "bounds": str(problem.bounds)}
