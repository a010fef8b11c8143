"""`gathernest exec`: run a stage, edited or not: compare its bytes, step through an element, or find the wrong pass."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.errors import GathernestError, InvalidGatherError, did_you_mean, show
from ...ir.numbers import parse_whole
from ...kernels.host.dependencies import require
from ...kernels.host.files import read_text, text_of
from ...lowering.registry import SCHEDULED_NEST
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
    from ...playground.bisect import WrongPass
    from ...playground.trace import Steps

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
options that it came from. They are read from there; those on the command line
go first. With --step and --bisect the FILE may be left out: the stages are made
here. The exit status is 1 where a stage gives other bytes than the reference.

--step prints the operations that an element depends on. Bytes and cache lines
are counted from the first byte of each array. --bisect interprets every stage
on small arrays; -o writes a file that `gathernest exec` runs again."""
# The options that are only for a way to run a stage, by the option that chooses it; None compares its bytes.
OPTIONS_OF = {None: ("engine", "compare", "caches"), "step": ("stage", "threads"), "bisect": ("prove", "output")}


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_option(parser, "[FILE]", "MLIR text of any level; - for standard input")
    add_option(parser, "--operator NAME", "what the stage came from, such as gather or gather_nd_grad")
    add_option(parser, "--data ARRAY", "data, or grad of a gradient: 5x4xf32, a.npy or [1,2]xf32")
    add_option(parser, "--indices ARRAY", "the same of indices")
    add_option(parser, "--axis N", "axis to gather from", type=integer)
    add_option(parser, "--batch-dims N", "leading dimensions that both share", type=integer)
    add_option(parser, "--bounds MODE", "error, zero, clip, wrap or unchecked")
    add_option(parser, "--scale X", "of a gradient: what its sums are multiplied by", type=real)
    add_option(parser, "--data-shape SIZES", "of a gradient: the shape of data, such as 5x4")
    add_option(parser, "-p --passes PASSES", "passes to run; where omitted, those that are left")
    add_option(parser, "--random SEED", type=seed)
    add_option(parser, "--json")
    add_option(parser, "--engine NAME", "interpreter (the default), numba or upstream")
    add_option(parser, "--compare WITH", "reference (the default) or another stage of the same gather")
    add_option(parser, "--caches", "simulate the caches: lines fetched, reused and evicted by each array and loop")
    group = parser.add_argument_group("one element")
    add_option(group, "--step PLACE", "step through an element of the result: its position, as 3,1, or its number")
    stage = "operator or a pass; the scheduled nest, or FILE as it is, when omitted"
    add_option(group, "--stage NAME", stage)
    add_option(group, "--threads N", "that share parallel loops (default: those of a large gather)", type=positive)
    group = parser.add_argument_group("the wrong pass")
    add_option(group, "--bisect", "find the pass after which the gather is wrong, and a small gather that shows it")
    add_option(group, "--prove", "prove each pass for all sizes instead, which needs the extra prove")
    add_option(group, "-o --output OUTPUT", "where to write what repeats it")
    add_option(parser, "--schedule TEXT", "of stages that are made here; chosen by the sizes when omitted")


def run(options: argparse.Namespace) -> int:
    """Run a stage in one of the three ways; the exit status is 1 where it is wrong."""
    require("xdsl", "numba", "llvmlite")
    way = "bisect" if options.bisect else None if options.step is None else "step"
    _check_options(options, way)
    return {None: _run_stage, "step": _step, "bisect": _bisect}[way](options)


def _check_options(options: argparse.Namespace, way: str | None) -> None:
    """Raise UsageError where an option is for another way to run a stage."""
    if options.bisect and options.step is not None:
        raise UsageError("--step and --bisect print different things; choose one of them")
    for other, names in OPTIONS_OF.items():
        for name in names:
            if other != way and getattr(options, name):
                readers = f"is for {flag_of(other)}" if other else f"compares bytes, and {flag_of(way or '')} does not"
                raise UsageError(f"{flag_of(name)} {readers}; leave it out")
    if way is None and options.file is None:
        raise UsageError("FILE is missing; name the text of a stage, or give --step or --bisect to have it made here")
    if options.schedule is not None and (options.passes is not None or options.file is not None):
        raise InvalidGatherError("--schedule is for a whole pipeline that is made here; leave it out beside -p or FILE")


# ---- bytes ----


def _run_stage(options: argparse.Namespace) -> int:
    from ...playground.caches import simulate_caches
    from ...playground.check import check_stage, difference, reference_result
    from ...playground.stage import execute, lowered

    text, module = read_file(options.file)
    given = with_header(options, text)
    problem, data, indices = gather_of(given)
    engine = "interpreter" if given["engine"] is None else given["engine"]
    lowered(module, given["passes"], engine)
    compare = "reference" if given["compare"] is None else given["compare"]
    elements = max(problem.result.size, problem.slices.size)
    if engine == "interpreter" and elements > MANY_ELEMENTS:
        make_console(stderr=True).print(
            f"interpreting {elements:,} elements takes about {elements * ELEMENT_S:,.0f} s, and Ctrl-C stops it; "
            "give smaller sizes, or --engine numba"
        )
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


# ---- one element ----


def _step(options: argparse.Namespace) -> int:
    """Print the steps."""
    with progress("interpreting"):
        steps = _steps(options)
    answer(options.json, steps.to_json() if options.json else None, lambda: make_console().print(str(steps)))
    return DONE if steps.is_right else FAILED


def _steps(options: argparse.Namespace) -> "Steps":
    from ...kernels.runtime.compile import module_of
    from ...kernels.runtime.plan import make_plan
    from ...playground.step import stage_of, stage_of_text, step_stage

    element = _element(options.step)
    if options.file is None:
        problem, data, indices = gather_of(vars(options))
        schedule = read_schedule(options.schedule)
        passes = make_plan(problem, schedule).pipeline if options.passes is None else options.passes
        is_default = options.stage is None
        name, text = stage_of(module_of(problem), passes, options.stage or SCHEDULED_NEST, falls_back=is_default)
        return step_stage(text, name, problem, data, indices, element, threads=options.threads)
    text, _ = read_file(options.file)
    given = with_header(options, text)
    problem, data, indices = gather_of(given)
    name, text = stage_of_text(text, options.file, given["passes"], options.stage)
    return step_stage(text, name, problem, data, indices, element, file=options.file, threads=options.threads)


def _element(text: str) -> int | tuple[int, ...]:
    """Read `3,1` as a position and `7` as a number."""
    try:
        return tuple(map(parse_whole, text.split(","))) if "," in text else parse_whole(text)
    except ValueError:
        raise UsageError(f"--step: expected a position such as 3,1 or a number such as 7, got {show(text)}") from None


# ---- the wrong pass ----


def _bisect(options: argparse.Namespace) -> int:
    """Name the wrong pass, and write what repeats it."""
    if options.output is not None:
        check_file("-o", options.output)
    verdicts: list[Verdict] = []
    with progress("proving" if options.prove else "interpreting"):
        found = _found(options, verdicts)
    if found is not None and options.output is not None:
        Path(options.output).write_text(found.reproducer(), encoding="utf-8")
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


def _found(options: argparse.Namespace, verdicts: "list[Verdict]") -> "WrongPass | None":
    """Return the wrong pass; append what a proof says of each pass."""
    from ...kernels.runtime.plan import make_plan
    from ...lowering.pipeline import parse_passes
    from ...playground.bisect import bisect_module, bisect_problem, first_refuted
    from ...playground.stage import read_array, rest_of

    if options.file is None:
        problem, _, _ = gather_of(vars(options))
        schedule = read_schedule(options.schedule)
        passes = parse_passes(make_plan(problem, schedule).pipeline if options.passes is None else options.passes)
        return (
            first_refuted(problem, passes, None, verdicts.append) if options.prove else bisect_problem(problem, passes)
        )
    text, module = read_file(options.file)
    given = with_header(options, text)
    problem, data, indices = gather_of(given)
    left = given["passes"] or rest_of(module)
    passes = parse_passes(left) if left else []
    if options.prove:
        return first_refuted(problem, passes, module, verdicts.append)
    is_given = isinstance(read_array(given["indices"]), np.ndarray)
    return bisect_module(module, problem, passes, (data, indices) if is_given else None)


# ---- files and the gather ----


def read_file(file: str) -> "tuple[str, ModuleOp]":
    """Return the text of a file and its module; raises InputError, with the place of what is wrong."""
    from ...ir.modules.context import make_context
    from ...ir.modules.read_module import read_module

    text = _text_of(file)
    return text, read_module(text, "<stdin>" if file == "-" else file, make_context())


def _text_of(file: str) -> str:
    if file == "-" and sys.stdin is None:
        raise GathernestError("standard input is closed, and - reads it; name a file")
    return text_of(sys.stdin.buffer, "<stdin>") if file == "-" else read_text(file)


def with_header(options: argparse.Namespace, text: str) -> dict[str, Any]:
    """Return the options, with those of the file's header where the command line has none."""
    from ...ir.modules.exec_comment import HEADER, header_options

    parser = Parser(prog="gathernest exec")
    add_arguments(parser)
    words = header_options(text)
    try:
        parser.check_options(words)
        written = vars(parser.parse_args([*words, "-"]))
    except UsageError as error:
        raise UsageError(f"the comment {HEADER!r} of {options.file}: {error}") from None
    return {name: written.get(name) if value is None else value for name, value in vars(options).items()}


def gather_of(given: dict[str, Any]) -> "tuple[Problem, np.ndarray, np.ndarray]":
    """Return the problem that the options name, with its arrays."""
    from ...ir.array_spec import ArraySpec
    from ...ir.element_types import element_type_name
    from ...kernels.problems.named_problem import problem_of
    from ...playground.stage import filled, read_array

    for name in ("data", "indices"):
        if given[name] is None:
            raise UsageError(f"--{name} is missing: neither the command line nor a comment of a file gives it")
    operator = "gather" if given["operator"] is None else given["operator"]
    rng = np.random.default_rng(given.get("random") or 0)
    data, indices = (_named(name, lambda name=name: read_array(given[name])) for name in ("data", "indices"))
    table = data
    if operator.endswith("_grad"):
        if given["data_shape"] is None:
            raise UsageError(f"--data-shape is missing: of {operator}, --data is grad, and the shape of data is asked")
        element = element_type_name(ArraySpec.of(data).dtype)
        table = _named("data-shape", lambda: ArraySpec.parse(f"{given['data_shape']}x{element}"))
    attributes = {name: given[name] for name in ("axis", "batch_dims", "bounds", "scale") if given[name] is not None}
    problem = problem_of(operator, table, indices, **attributes)
    data = filled(data, rng)
    wanted = problem.source
    if (data.shape, data.dtype) != (wanted.shape, wanted.dtype):
        raise InvalidGatherError(f"--data must be grad of {wanted}, got {ArraySpec.of(data)}")
    return problem, data, filled(indices, rng, problem)


def _named(option: str, read: Any) -> Any:
    try:
        return read()
    except GathernestError as error:
        raise UsageError(f"--{option}: {error}") from None
