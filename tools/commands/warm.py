"""`gathernest warm`: compile the usual kernels, or the kernels of a model, ahead of their first call."""

import argparse
import json
from dataclasses import asdict

import numpy as np

from ...kernels.host.cpu import usable_cores
from ...kernels.host.dependencies import require
from ...kernels.host.knobs import knobs
from ...kernels.host.machine import known_calibration
from ...kernels.warm import WarmResult, describe, usual_kernels, warm
from ..console.problem_options import add_problem_options, check_no_problem, parse_sizes, problem_arguments
from ..console.terminal import DONE, FAILED, Parser, add_option, answer, make_console, positive, progress

EXAMPLES = """examples:
  gathernest warm
  gathernest warm --jobs 4 --json
  gathernest warm --data 1000000x64xf32 --indices 100000xi64 --bounds zero
  gathernest warm --for model.onnx
  GATHERNEST_CACHE_DIR=/opt/kernels gathernest warm"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_problem_options(parser)
    add_option(parser, "--for MODEL", "a .onnx or .xml file: run once on random inputs")
    add_option(parser, "--size NAME=N ...")
    add_option(parser, "--allow-external-data")
    add_option(parser, "--list", "print the usual kernels and compile nothing")
    add_option(parser, "--jobs N", "processes that compile at once (default: one for each core)", type=positive)
    add_option(parser, "--json")
    parser.needs(("size", "allow_external_data"), "for")
    parser.alone("for", ("data", "indices", "list"), "takes the kernels of a model")


def run(options: argparse.Namespace) -> int:
    """Compile the selected kernels; the status is 1 when one failed."""
    names_one = options.data is not None or options.indices is not None
    if not names_one:
        check_no_problem(options, "one gather is named by --data and --indices, and these are missing")
    if options.list:
        check_no_problem(options, "--list prints the usual kernels")
        return _list(options.json)
    require("xdsl", "numba", "llvmlite")
    if getattr(options, "for") is not None:
        return _warm_model(options)
    kernels = [problem_arguments(options)] if names_one else list(usual_kernels())
    jobs = options.jobs or min(usable_cores(), len(kernels))
    with progress("compiling") as show:
        result = warm(kernels, jobs=jobs, progress=lambda done, total, said: show(done=done, total=total, said=said))
    return _report(result, options.json)


def _list(as_json: bool) -> int:
    kernels = list(usual_kernels())
    answer(as_json, {"kernels": kernels}, lambda: print("\n".join(map(describe, kernels))))
    return DONE


def _warm_model(options: argparse.Namespace) -> int:
    """Run a model once with all of its gathers here, which compiles their kernels for these sizes."""
    from ...interop.models.model import load
    from ...kernels.warm import kernels_of
    from ..console.model_inputs import random_inputs

    model = load(getattr(options, "for"), allow_external_data=options.allow_external_data)
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
                "this machine is not measured: gathernest doctor --calibrate lets its numbers choose schedules"
            )
    return FAILED if failed else DONE
