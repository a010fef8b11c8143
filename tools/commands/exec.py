"""`gathernest exec`: run a stage, edited or not: compare its bytes, step through an element, or find the wrong pass."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.errors import GathernestError, did_you_mean, show
from ...ir.numbers import parse_whole
from ...kernels.host.dependencies import require
from ...kernels.host.files import read_text, text_of, write_file
from ..console.problem_options import read_schedule
from ..console.terminal import (
    DONE,
    FAILED,
    Parser,
    UsageError,
    add_option,
    answer,
    check_file,
    flag_of,
    integer,
    make_console,
    positive,
    progress,
    real,
    seed,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ...ir.problem import Problem
    from ...lowering.proof.prover import Verdict

# The time of the interpreter for an element in seconds, and the number of elements from which `run` announces it.
ELEMENT_S, MANY_ELEMENTS = 2e-4, 50_000
EXAMPLES = """examples:
  gathernest show --data 5x4xf32 --indices 3xi64 --stage fold-bounds > stage.mlir
  gathernest exec stage.mlir
  gathernest exec stage.mlir --engine numba --indices "[4,-1,0]xi64"
  gathernest exec edited.mlir --compare stage.mlir
  gathernest exec operator.mlir -p nest --data table.npy --indices indices.npy
  gathernest exec --step 1,2 --data 5x4xf32 --indices "[4,-1,0]xi64"
  gathernest exec stage.mlir --step 1,2 --json
  gathernest exec --bisect --data 1000x64xf32 --indices 100xi64
  gathernest exec stage.mlir --bisect -p "static,my-pass" -o wrong.mlir
  gathernest exec --bisect --prove --data 50x8xf32 --indices 9xi64

A stage that `gathernest show --stage` prints begins with a comment of the
options that it came from. They are read from there; options on the command
line go first. With --step and --bisect the FILE may be left out: the stages are
made here. The exit status is 1 where a stage gives other bytes than the
reference.

--step prints the operations that an element depends on. Bytes and cache lines
are counted from the first byte of each array. --bisect interprets every stage
on small arrays; -o writes a file that `gathernest exec` runs again."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_option(parser, "[FILE]", "MLIR text of any level; - for standard input")
    add_option(parser, "--operator NAME", "the operator of the stage, such as gather or gather_nd_grad")
    add_option(parser, "--data ARRAY", "data, or grad of a gradient: 5x4xf32, a.npy or [1,2]xf32")
    add_option(parser, "--indices ARRAY", "indices, in one of these forms")
    add_option(parser, "--axis N", "axis to gather from", type=integer)
    add_option(parser, "--batch-dims N", "leading dimensions that both share", type=integer)
    add_option(parser, "--bounds MODE", "error, zero, clip, wrap or unchecked")
    add_option(parser, "--scale X", "of a gradient: the factor of its sums", type=real)
    add_option(parser, "--data-shape SIZES", "of a gradient: the shape of data, such as 5x4")
    add_option(parser, "-p --passes PASSES", "passes to run; where omitted, the passes that are left")
    add_option(parser, "--random SEED", type=seed)
    add_option(parser, "--json")
    add_option(parser, "--engine NAME", "interpreter (the default), numba or upstream")
    add_option(parser, "--compare WITH", "reference (the default) or another stage of the same gather")
    add_option(parser, "--caches", "simulate the caches: lines fetched, reused and evicted by each array and loop")
    group = parser.add_argument_group("one element")
    add_option(group, "--step PLACE", "step through an element of the result: its position, as 3,1, or its number")
    stage = "operator or a pass; the scheduled nest, or FILE as it is, when omitted"
    add_option(group, "--stage NAME", stage)
    add_option(group, "--threads N", "that share parallel loops (default: as for a large gather)", type=positive)
    group = parser.add_argument_group("the wrong pass")
    add_option(group, "--bisect", "find the pass after which the gather is wrong, and a small gather that shows it")
    add_option(group, "--prove", "prove each pass for all sizes instead, which needs the extra prove")
    add_option(group, "-o --output OUTPUT", "where to write a stage that repeats it")
    add_option(parser, "--schedule TEXT", "of stages that are made here; chosen by the sizes when omitted")
    parser.alone("bisect", ("step",), "prints no steps")
    parser.needs(("stage", "threads"), "step")
    parser.needs(("prove", "output"), "bisect")
    for way in ("step", "bisect"):
        parser.alone(way, ("engine", "compare", "caches"), "compares no bytes")
    parser.alone("schedule", ("passes", "file"), "is for a whole pipeline that is made here")


def run(options: argparse.Namespace) -> int:
    """Run a stage in one of the three ways; the exit status is 1 where it is wrong."""
    require("xdsl", "numba", "llvmlite")
    way = "bisect" if options.bisect else None if options.step is None else "step"
    if options.file is None and way is None:
        raise UsageError("FILE is missing; name the text of a stage, or give --step or --bisect to have it made here")
    text, module = (None, None) if options.file is None else read_file(options.file)
    given = argparse.Namespace(**with_header(options, text or ""))
    gather = gather_of(given)
    elements = max(gather[0].result.size, gather[0].slices.size)
    compiles = way is None and not options.caches and options.engine not in (None, "interpreter")
    if way != "bisect" and not compiles and elements > MANY_ELEMENTS:
        seconds, other = elements * ELEMENT_S, "" if way or options.caches else ", or --engine numba"
        said = (
            f"interpreting {elements:,} elements takes about {seconds:,.0f} s, and Ctrl-C stops it; give smaller sizes"
        )
        make_console(stderr=True).print(f"{said}{other}")
    if way is None:
        return _run_stage(given, module, *gather)
    return _step(given, text, *gather) if way == "step" else _bisect(given, module, *gather)


def _run_stage(
    options: argparse.Namespace, module: Any, problem: "Problem", data: np.ndarray, indices: np.ndarray
) -> int:
    from ...playground.caches import simulate_caches
    from ...playground.check import check_stage, difference, reference_result
    from ...playground.stage import execute, lowered

    engine = "interpreter" if options.engine is None else options.engine
    lowered(module, options.passes, engine)
    compare = "reference" if options.compare is None else options.compare
    if compare == "reference":
        wanted = reference_result(problem, data, indices)
        with progress("interpreting" if engine == "interpreter" else "running"):
            found = check_stage(module, problem, data, indices, engine, wanted=wanted)
    else:
        if compare != "-" and not (compare and Path(compare).exists()):
            hint = did_you_mean(compare, ["reference"]) or "; name a stage of the same gather, or reference"
            raise UsageError(f"--compare: there is no file {compare!r}{hint}")
        other = lowered(read_file(compare)[1], None, engine)
        wanted = execute(other, problem, data, indices, engine)
        found = difference(module, problem, data, indices, execute(module, problem, data, indices, engine), wanted)
    has_run = not isinstance(wanted, GathernestError) and (found is None or found.position is not None)
    caches = simulate_caches(module, problem, data, indices) if options.caches and has_run else None
    facts = {"file": options.file, "engine": engine, "compared_with": compare, "equal": found is None}
    if options.json:
        facts |= {} if caches is None else {"caches": caches.to_json()}
        print(json.dumps({**facts, "difference": None if found is None else str(found)}))
    elif found is None:
        is_rejected = isinstance(wanted, GathernestError)
        said = f"rejects the call: {wanted}" if is_rejected else f"gives the bytes of {compare}: {problem.result}"
        make_console().print(f"{options.file}: {engine} {said}")
    else:
        make_console(stderr=True).print(f"{options.file}: {engine} differs from {compare}: {found}")
    if caches is not None and not options.json:
        make_console().print(str(caches))
    return DONE if found is None else FAILED


def _step(
    options: argparse.Namespace, text: str | None, problem: "Problem", data: np.ndarray, indices: np.ndarray
) -> int:
    """Print the steps."""
    from ...playground.step import step_problem

    element, schedule = _element(options.step), read_schedule(options.schedule)
    given = None if text is None else (options.file, text)
    passes = {"stage": options.stage, "schedule": schedule, "pipeline": options.passes}
    with progress("interpreting"):
        steps = step_problem(problem, data, indices, element, **passes, given=given, threads=options.threads)
    answer(options.json, steps.to_json() if options.json else None, lambda: make_console().print(str(steps)))
    return DONE if steps.is_right else FAILED


def _element(text: str) -> int | tuple[int, ...]:
    """Read `3,1` as a position and `7` as a number."""
    try:
        return tuple(map(parse_whole, text.split(","))) if "," in text else parse_whole(text)
    except ValueError:
        raise UsageError(f"--step: expected a position such as 3,1 or a number such as 7, got {show(text)}") from None


# ---- the wrong pass ----


def _bisect(options: argparse.Namespace, module: Any, problem: "Problem", data: np.ndarray, indices: np.ndarray) -> int:
    """Print the wrong pass, and write a stage that repeats it."""
    from ...kernels.runtime.plan import make_plan
    from ...lowering.pipeline import parse_passes
    from ...playground.bisect import bisect_module, bisect_problem, first_refuted
    from ...playground.stage import read_array, rest_of

    if options.output is not None:
        check_file("-o", options.output)
    verdicts, text = list["Verdict"](), options.passes
    if module is not None:
        text = text or rest_of(module)
    elif text is None:
        text = make_plan(problem, read_schedule(options.schedule)).pipeline
    passes = parse_passes(text) if text or module is None else []
    with progress("proving" if options.prove else "interpreting"):
        if options.prove:
            found = first_refuted(problem, passes, module, verdicts.append)
        elif module is None:
            found = bisect_problem(problem, passes)
        else:
            is_given = isinstance(read_array(options.indices), np.ndarray)
            found = bisect_module(module, problem, passes, (data, indices) if is_given else None)
    if found is not None and options.output is not None:
        write_file(options.output, found.reproducer())
    if options.json:
        facts = None if found is None else {"pass": found.name, "difference": str(found.difference)}
        said = {"wrong": facts, "reproducer": options.output if found is not None else None}
        proofs = [{"pass": each.name, "status": each.status.value, "reason": each.reason} for each in verdicts]
        print(json.dumps(said | ({"verdicts": proofs} if options.prove else {})))
    elif found is None:
        for verdict in verdicts:
            make_console().print(str(verdict))
        if not options.prove:
            make_console().print("every stage gives the bytes of the operator's reference")
    else:
        make_console(stderr=True).print(str(found))
        if options.output is not None:
            make_console(stderr=True).print(f"gathernest exec {options.output} repeats it")
    return DONE if found is None else FAILED


# ---- files and the gather ----


def read_file(file: str) -> "tuple[str, ModuleOp]":
    """Return the text of a file and its module; raises InputError, with the place of the error."""
    from ...ir.modules.context import make_context
    from ...ir.modules.read_module import read_module

    if file == "-" and sys.stdin is None:
        raise GathernestError("standard input is closed, and - reads it; name a file")
    text = text_of(sys.stdin.buffer, "<stdin>") if file == "-" else read_text(file)
    return text, read_module(text, "<stdin>" if file == "-" else file, make_context())


def with_header(options: argparse.Namespace, text: str) -> dict[str, Any]:
    """Return the options; where the command line has none, the options of a file's header."""
    from ...ir.modules.exec_comment import HEADER, header_options

    parser = Parser(prog="gathernest exec")
    add_arguments(parser)
    words = header_options(text)
    try:
        written = vars(parser.parse_args([*words, "-"]))
    except UsageError as error:
        raise UsageError(f"the comment {HEADER!r} of {options.file}: {error}") from None
    return {name: written.get(name) if value is None else value for name, value in vars(options).items()}


def gather_of(options: argparse.Namespace) -> "tuple[Problem, np.ndarray, np.ndarray]":
    """Return the problem that the options name, with its arrays; raises UsageError where one cannot be read."""
    from ...ir.array_spec import ArraySpec
    from ...playground.stage import problem_with_arrays, read_array

    def read(name: str, reader: Any) -> Any:
        text = getattr(options, name)
        if text is None:
            raise UsageError(f"--{name} is missing: neither the command line nor a comment of a file gives it")
        try:
            return reader(text)
        except GathernestError as error:
            raise UsageError(f"{flag_of(name)}: {error}") from None

    data, indices = read("data", read_array), read("indices", read_array)
    names = ("axis", "batch_dims", "bounds", "scale")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.data_shape is not None:
        given["data_shape"] = read("data_shape", lambda text: ArraySpec.parse(f"{text}xi8").shape)
    operator = "gather" if options.operator is None else options.operator
    return problem_with_arrays(operator, data, indices, seed=options.random or 0, **given)
