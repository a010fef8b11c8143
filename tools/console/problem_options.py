"""Options that commands share: a gather, the node of a model, sizes of its inputs, a schedule, a machine."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...ir.array_spec import ArraySpec
from ...ir.element_types import UnknownSizeError
from ...ir.errors import GathernestError, InvalidGatherError, ScheduleError
from ...kernels.host.knobs import KnobError, knobs
from ...kernels.host.machine import machine_model
from ...kernels.problems.named_problem import FACTORS, OPERATORS, problem_of
from ...lowering.schedule.schedule import Schedule
from .terminal import Parser, UsageError, add_option, flag_of, integer, real

DEFAULTS: dict[str, Any] = {"operator": "gather", "axis": 0, "batch_dims": 0, "bounds": "error", "scale": 1.0}
DEFAULTS |= dict.fromkeys(FACTORS, False)
# Commands take this size where only a run of the model knows it.
ASSUMED_SIZE = 128


def add_model_options(parser: Parser) -> None:
    """Declare the options by which a gather inside a model is named, in the place of arrays; see `take_model`."""
    add_option(parser, "--model MODEL", "a .onnx file, or the .xml of an OpenVINO IR: its gather --node")
    add_option(parser, "--node NAME", "of a model: the node of the gather; may be left out of a single one")
    add_option(parser, "--allow-external-data")
    parser.needs(("node", "allow_external_data"), "model")


def take_model(options: argparse.Namespace) -> None:
    """Set the options that name a gather to the gather of a node, where a model is given.

    Raises:
        ModelError: the model cannot be loaded, or has no gather of that name.
        UsageError: the gather is named by other options, too, or not at all.
    """
    if options.model is None:
        return
    check_no_problem(options, "--model names the gather by its node")
    from ...interop.models.model import load

    model = load(options.model, allow_external_data=options.allow_external_data)
    if options.node is None:
        found = model.gathers(ASSUMED_SIZE)
        if len(found) != 1:
            there = ", ".join(found) or "none"
            raise UsageError(f"--node is missing; name one of the gathers of {Path(options.model).name}: {there}")
        options.node = next(iter(found))
    problem = model.gather(options.node, ASSUMED_SIZE)
    options.operator, options.data, options.indices = problem.name, str(problem.table), str(problem.indices)
    options.bounds = str(problem.bounds)
    for name, value in problem.operator.attributes().items():
        setattr(options, name, value)


def add_problem_options(
    parser: argparse._ActionsContainer, *, required: bool = False, action: str | type[argparse.Action] = "store"
) -> None:
    """Declare the options that name a gather; `action` is argparse's action for each."""

    def add(usage: str, text: str, **settings: Any) -> None:
        default = DEFAULTS.get(usage.split()[0][2:].replace("-", "_"))
        add_option(parser, usage, text, **{"action": action, "default": default, **settings})

    add("--operator NAME", f"{', '.join(OPERATORS)} (default: gather)")
    add("--data SPEC", "sizes and element type, such as 2x64x128xf32", required=required)
    add("--indices SPEC", "sizes and integer type of indices, such as 2x32x21xi64", required=required)
    add("--axis N", "axis to gather from (default: 0)", type=integer)
    add("--batch-dims N", "leading dimensions that both share (default: 0)", type=integer)
    add("--bounds MODE", "error, zero, clip, wrap or unchecked (default: error)")
    add("--scale X", "of a gradient: the factor of its sums", type=real)
    for name, text in FACTORS.items():
        add(f"--{name}", text, **({"action": "store_true"} if action == "store" else {"nargs": 0}))


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


def parse_sizes(entries: Sequence[str]) -> dict[str, int]:
    """Return sizes by their names, for entries as `batch=4`; raises UsageError for others, or a size given twice."""
    sizes: dict[str, int] = {}
    for entry in entries:
        name, _, text = entry.rpartition("=")
        if not name or not text.isascii() or not text.isdigit() or len(text) > 18:
            raise UsageError(f"--size {entry!r} is not NAME=N, as in --size batch=4 (or, without a name, tokens.0=4)")
        if name in sizes:
            raise UsageError(f"--size {name!r} is given twice")
        sizes[name] = int(text)
    return sizes


def read_schedule(text: str | None, option: str = "--schedule") -> Schedule | None:
    """Return the schedule that an option names, None where it is not given; raises ScheduleError."""
    if text is None:
        return None
    try:
        return Schedule.parse(text)
    except ScheduleError as error:
        raise ScheduleError(f"{option}: {error}") from None


def check_machine(option: str, said: str) -> None:
    """Check that an option names a machine model; raises UsageError."""
    try:
        with knobs.scope_of_options(machine=(option, said)):
            machine_model()
    except KnobError as error:
        raise UsageError(str(error)) from None


def add_target_option(parser: Parser) -> None:
    """Declare `--target`; see `take_target`."""
    parser.add_argument(
        "--target",
        metavar="CPU",
        help="LLVM's name of another CPU to make LLVM IR and assembly for; GATHERNEST_MACHINE names the machine that "
        "schedules are chosen for",
    )


def take_target(options: argparse.Namespace, *, is_timed: bool) -> None:
    """Have Numba, which this process has not imported, compile for the CPU of `--target`; raises UsageError."""
    if options.target is None:
        return
    if is_timed:
        raise UsageError("--target is another CPU, whose code may not run here; leave it out where kernels are timed")
    variables = {"NUMBA_CPU_NAME": options.target, "NUMBA_CPU_FEATURES": ""}
    os.environ |= variables  # before the check, which imports Numba
    try:
        check_target(options.target)
    except UsageError:
        for name in variables:
            del os.environ[name]
        raise


def check_target(target: str) -> None:
    """Raise UsageError where LLVM knows no CPU of that name."""
    from ...kernels.c_functions.library import UnknownCpuError, target_named

    try:
        target_named(target)
    except UnknownCpuError as error:
        raise UsageError(f"--target: {error}") from None
