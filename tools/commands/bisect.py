"""`gathernest bisect`: find the pass after which a gather is wrong, and shrink the gather that shows it."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...ir.errors import InvalidGatherError
from ...kernels.host.dependencies import require
from ..console.problem_options import read_schedule
from ..console.terminal import DONE, FAILED, Parser, check_file, make_console, progress
from .exec import add_stage_options, gather_of, read_file, with_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from ...ir.problem import Problem
    from ...lowering.proof.prover import Verdict
    from ...playground.bisect import WrongPass

EXAMPLES = """examples:
  gathernest bisect --data 1000x64xf32 --indices 100xi64
  gathernest bisect --data 50x8xf32 --indices 9xi64 --schedule "tile-loops{loops=indices sizes=4}"
  gathernest bisect --data 50x8xf32 --indices 9xi64 -p "static,my-pass" -o wrong.mlir
  gathernest bisect stage.mlir -p "tile-loops{loops=indices sizes=4},hoist-invariants"
  gathernest bisect --data 50x8xf32 --indices 9xi64 --prove

Every stage is interpreted on small arrays and compared with the operator's plain reference. The exit status is 1
where one is wrong; -o writes a file that `gathernest exec` runs again. A FILE is bisected from its level on.
With --prove, each pass is proved for all sizes instead, and the first that is refuted is named."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="MLIR text of any level to go on from")
    add_stage_options(parser)
    parser.add_argument("--schedule", metavar="TEXT", help="a schedule; chosen by the sizes when omitted")
    parser.add_argument(
        "--prove", action="store_true", help="prove each pass for all sizes instead, which needs the extra prove"
    )
    parser.add_argument("-o", "--output", metavar="OUTPUT", help="where to write what repeats it")


def run(options: argparse.Namespace) -> int:
    """Bisect; the exit status is 1 where a pass is wrong."""
    require("xdsl", "numba", "llvmlite")
    if options.schedule is not None and (options.passes is not None or options.file is not None):
        raise InvalidGatherError("--schedule is for a whole pipeline that is made here; leave it out beside -p or FILE")
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
    from ...playground.bisect import bisect_module, bisect_problem
    from ...playground.stage import read_array, rest_of

    if options.file is None:
        problem, _, _ = gather_of(vars(options))
        schedule = read_schedule(options.schedule)
        passes = parse_passes(make_plan(problem, schedule).pipeline if options.passes is None else options.passes)
        return _refuted(problem, passes, None, verdicts) if options.prove else bisect_problem(problem, passes)
    text, module = read_file(options.file)
    given = with_header(options, text)
    problem, data, indices = gather_of(given)
    left = given["passes"] or rest_of(module)
    passes = parse_passes(left) if left else []
    if options.prove:
        return _refuted(problem, passes, module, verdicts)
    is_given = isinstance(read_array(given["indices"]), np.ndarray)
    return bisect_module(module, problem, passes, (data, indices) if is_given else None)


def _refuted(
    problem: "Problem", passes: "Sequence[ModulePass]", module: "ModuleOp | None", verdicts: "list[Verdict]"
) -> "WrongPass | None":
    from ...playground.bisect import first_refuted

    return first_refuted(problem, passes, module, verdicts.append)
