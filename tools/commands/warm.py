"""`gathernest warm`: compile the usual kernels, or those of a model, ahead of their first call."""

import argparse
import json
from dataclasses import asdict

import numpy as np

from ...kernels.host.cpu import usable_cores
from ...kernels.host.dependencies import require
from ...kernels.host.knobs import knobs
from ...kernels.host.machine import known_calibration
from ...kernels.warm import WarmResult, describe, usual_kernels, warm
from ..console.problem_options import (
    add_problem_options,
    add_size_option,
    check_no_problem,
    parse_sizes,
    problem_arguments,
)
from ..console.terminal import DONE, FAILED, Parser, UsageError, make_console, positive, progress
from ..machine.calibrate import measured

EXAMPLES = """examples:
  gathernest warm
  gathernest warm --jobs 4 --json
  gathernest warm --data 1000000x64xf32 --indices 100000xi64 --bounds zero
  gathernest warm --for model.onnx
  GATHERNEST_CACHE_DIR=/opt/kernels gathernest warm"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_problem_options(parser, required=False)
    parser.add_argument("--for", dest="model", metavar="MODEL", help="a .onnx or .xml file: run once on random inputs")
    add_size_option(parser)
    parser.add_argument(
        "--allow-external-data", action="store_true", help="read a model's weights from other files in its folder"
    )
    parser.add_argument("--list", action="store_true", help="print the usual kernels and compile nothing")
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="processes that compile at once (default: one for each core)"
    )
    parser.add_argument(
        "--calibrate", action="store_true", help="measure this machine first, as gathernest calibrate does"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Compile the selected kernels; the status is 1 when one failed."""
    names_one = options.data is not None or options.indices is not None
    if options.model is None and (options.size or options.allow_external_data):
        raise UsageError("--size and --allow-external-data are for a model; give one with --for MODEL")
    if options.model is not None and (names_one or options.list):
        raise UsageError("--for takes the kernels of a model; leave --data, --indices and --list out")
    if not names_one:
        check_no_problem(options, "one gather is named by --data and --indices, and these are missing")
    if options.list:
        check_no_problem(options, "--list prints the usual kernels")
        return _list(options.json)
    require("xdsl", "numba", "llvmlite")
    if options.calibrate:
        _calibrate()
    if options.model is not None:
        return _warm_model(options)
    kernels = [problem_arguments(options)] if names_one else list(usual_kernels())
    jobs = options.jobs or min(usable_cores(), len(kernels))
    with progress("compiling") as show:
        result = warm(kernels, jobs=jobs, progress=lambda done, total, said: show(done=done, total=total, said=said))
    return _report(result, options.json)


def _calibrate() -> None:
    """Measure this machine, since schedules follow from it."""
    from ...kernels.machine.calibrate import keep

    keep(measured())


def _list(as_json: bool) -> int:
    kernels = list(usual_kernels())
    if as_json:
        print(json.dumps({"kernels": kernels}))
    else:
        for arguments in kernels:
            print(describe(arguments))
    return DONE


def _warm_model(options: argparse.Namespace) -> int:
    """Run a model once with all of its gathers here, which compiles their kernels for these sizes."""
    from ...interop.models.model import load
    from ...kernels.warm import kernels_of
    from ..console.model_inputs import random_inputs

    model = load(options.model, allow_external_data=options.allow_external_data)
    with progress("compiling"):
        inputs = random_inputs(model, {}, np.random.default_rng(0), parse_sizes(options.size))
        result = kernels_of(lambda: model.runtime.cut(model.runtime.gathers)(inputs))
    return _report(result, options.json)


def _report(result: WarmResult, as_json: bool) -> int:
    failed = [kernel for kernel in result.kernels if kernel.outcome == "failed"]
    if as_json:
        kernels = [{**asdict(kernel), "seconds": round(kernel.seconds, 3)} for kernel in result.kernels]
        print(json.dumps({"folder": str(result.folder), "seconds": round(result.seconds, 3), "kernels": kernels}))
    else:
        console = make_console()
        for kernel in failed:
            console.print(f"failed: {describe(kernel.arguments)}: {kernel.reason}", style="red")
        counts = f"{result.count('compiled')} compiled, {result.count('cached')} there already, {len(failed)} failed"
        console.print(f"{counts}, in {result.seconds:.1f} s; the cache is {result.folder}")
        if knobs.machine is None and known_calibration() is None:
            console.print(
                "this machine is not measured: gathernest warm --calibrate chooses schedules by its own numbers"
            )
    return FAILED if failed else DONE
