"""`gathernest exec`: run a stage from a file, edited or not, and compare its bytes with the operator's reference."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.errors import GathernestError, InvalidGatherError, did_you_mean
from ...kernels.host.dependencies import require
from ..console.terminal import DONE, FAILED, Parser, UsageError, integer, make_console, progress, seed

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ...ir.problem import Problem

# The time of the interpreter for an element in seconds, and the number of elements from which `run` announces it.
ELEMENT_S, MANY_ELEMENTS = 2e-4, 50_000
EXAMPLES = """examples:
  gathernest show --data 5x4xf32 --indices 3xi64 --stage fold-bounds > stage.mlir
  gathernest exec stage.mlir
  gathernest exec stage.mlir --engine numba --indices "[4,-1,0]xi64" --compare reference
  gathernest exec edited.mlir --compare stage.mlir
  gathernest exec operator.mlir -p nest --data table.npy --indices indices.npy

A stage that `gathernest show --stage` prints begins with a comment of the options that it came from. They are
read from there; those on the command line go first."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("file", metavar="FILE", help="MLIR text of any level; - for standard input")
    add_stage_options(parser)
    parser.add_argument("--random", type=seed, metavar="SEED", help="fills arrays of which only the sizes are given")
    parser.add_argument("--engine", help="interpreter (the default), numba or upstream")
    parser.add_argument("--compare", metavar="WITH", help="reference (the default) or another stage of the same gather")


def add_stage_options(parser: Parser) -> None:
    """Declare the options that say what a stage came from, which its file may have in a comment."""
    parser.add_argument("--operator", help="what the stage came from, such as gather or gather_nd_grad")
    parser.add_argument("--data", metavar="ARRAY", help="data, or grad of a gradient: 5x4xf32, a.npy or [1,2]xf32")
    parser.add_argument("--indices", metavar="ARRAY", help="the same of indices")
    parser.add_argument("--axis", type=integer, help="axis to gather from")
    parser.add_argument("--batch-dims", type=integer, help="leading dimensions that both share")
    parser.add_argument("--bounds", help="error, zero, clip, wrap or unchecked")
    parser.add_argument("--scale", type=float, help="of a gradient: what its sums are multiplied by")
    parser.add_argument("--data-shape", metavar="SIZES", help="of a gradient: the shape of data, such as 5x4")
    parser.add_argument("-p", "--passes", metavar="PASSES", help="passes to run; where omitted, those that are left")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Run the stage and compare; the exit status is 1 where bytes differ."""
    require("xdsl", "numba", "llvmlite")
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
    facts = {"file": options.file, "engine": engine, "compared_with": compare, "equal": found is None}
    if options.json:
        print(json.dumps({**facts, "difference": None if found is None else str(found)}))
    elif found is None:
        is_rejected = isinstance(wanted, GathernestError)
        said = f"rejects the call: {wanted}" if is_rejected else f"gives the bytes of {compare}: {problem.result}"
        make_console().print(f"{options.file}: {engine} {said}")
    else:
        make_console(stderr=True).print(f"{options.file}: {engine} differs from {compare}: {found}")
    return DONE if found is None else FAILED


def read_file(file: str) -> "tuple[str, ModuleOp]":
    """Return the text of a file and its module; raises InputError, with the place of what is wrong."""
    from ...ir.modules.context import make_context
    from ...ir.modules.read_module import read_module

    text = _text_of(file)
    return text, read_module(text, "<stdin>" if file == "-" else file, make_context())


def _text_of(file: str) -> str:
    import sys

    if file == "-" and sys.stdin is None:
        raise GathernestError("standard input is closed, and - reads it; name a file")
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise GathernestError(f"{file} is not UTF-8 text: {error.reason} at byte {error.start}") from None


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
