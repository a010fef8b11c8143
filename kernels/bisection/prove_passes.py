"""Find the first pass that a proof refutes, for all sizes, with the gather that shows it as its reproducer."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ...ir.array_spec import ArraySpec
from ...ir.errors import GathernestError
from ...ir.modules.context import make_context
from ...ir.problem import Problem
from ..host.dependencies import require
from ..playground.check_stage import Difference
from ..playground.interpretable import samples_of
from ..playground.stage_file import filled
from ..problems.named_problem import problem_of
from ..runtime.compile import module_of
from .wrong_pass import WrongPass, invalid_module, text_of

if TYPE_CHECKING:
    from ...lowering.proof.examples import Example
    from ...lowering.proof.prover import Verdict

Said = Callable[["Verdict"], None]


def first_refuted(
    problem: Problem, passes: Sequence[ModulePass], module: ModuleOp | None = None, said: Said = lambda verdict: None
) -> WrongPass | None:
    """Return the first pass that is refuted; None where none is, though some may be undecided.

    Args:
        problem: the gather.
        passes: what leads on from the module.
        module: a stage of the problem; its operator when omitted.
        said: is called with what is known of each pass.

    Raises:
        DependencyError: islpy or z3 is not installed.
        GathernestError: a pass rejects the module.
    """
    require("islpy", "z3-solver")
    from ...lowering.proof.prover import Status, prove_passes, refuted_input
    from ...lowering.proof.specification import Specification

    stage = module_of(problem) if module is None else module.clone()
    before = str(stage)
    scale = 1.0 if problem.gradient is None else problem.gradient.scale
    unsigned = problem.indices.dtype.kind == "u"
    known = Specification(problem.bounds, unsigned, problem.gradient is not None, problem.operator, scale)
    number = 0
    if module is not None and (verdict := refuted_input(stage, known)) is not None:
        return _wrong_pass(problem, (), verdict, before)
    try:
        for verdict in prove_passes(stage, passes, make_context(), known):
            number += 1
            said(verdict)
            if verdict.status is Status.REFUTED:
                return _wrong_pass(problem, passes[:number], verdict, before)
            before = str(stage)
    except VerifyException as error:
        names = tuple(map(text_of, passes[: number + 1]))
        return WrongPass(names[-1], invalid_module(error), problem, *next(samples_of(problem)), names, before)
    return None


def _wrong_pass(problem: Problem, passes: Sequence[ModulePass], verdict: "Verdict", before: str) -> WrongPass:
    """Return a refuted pass with the arrays of its example, where it has some that the stage takes."""
    example, reason = verdict.example, f"for some sizes, {verdict.reason}"
    found = None if example is None else _arrays_of(example, problem)
    if found is None or example is None:
        data, indices = next(samples_of(problem))
        found = problem, data, indices
    elif example.seen:
        reason = f"{reason}; {example.seen}"
    return WrongPass(verdict.name, Difference(reason), *found, tuple(map(text_of, passes)), before)


def _arrays_of(example: "Example", problem: Problem) -> tuple[Problem, np.ndarray, np.ndarray] | None:
    """Return the gather that an example describes, in the element type of a problem; None where there is no such."""
    known, kept = example.known, problem.source.dtype
    if known.operator is None or not example.seen:
        return None
    source = example.data
    source = ArraySpec(source.shape, kept) if kept.itemsize == source.dtype.itemsize else source
    table = ArraySpec(example.result, source.dtype) if known.is_gradient else source
    indices = np.array(example.values, example.indices.dtype).reshape(example.indices.shape)
    attributes: dict[str, Any] = {**known.operator.attributes()}
    scale = 1.0 if problem.gradient is None else problem.gradient.scale
    try:
        small = problem_of(problem.name, table, indices, bounds=problem.bounds, scale=scale, **attributes)
    except GathernestError:
        return None
    return small, filled(small.source, np.random.default_rng(0)), indices
