"""Find the pass that breaks a gather: interpret every stage, compare it with the operator, and shrink what is wrong."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ...ir.errors import GathernestError, InternalError, InvalidGatherError, ScheduleError
from ...ir.modules.context import make_context, verify_module
from ...ir.problem import Problem
from ...lowering.pipeline import parse_passes
from ...lowering.schedule.schedule import Schedule
from ..kernel import TWO_PIPELINES
from ..playground.check_stage import Difference, check_stage
from ..playground.interpretable import MOST_ELEMENTS, interpretable, samples_of
from ..playground.run_stage import parsed
from ..problems.named_problem import problem_of
from ..runtime.compile import module_of
from ..runtime.plan import make_plan
from .shrink import fewer_passes, simpler_indices, smaller_problems
from .wrong_pass import WrongPass, invalid_module, text_of

SEEDS = (0, 1)

Arrays = tuple[np.ndarray, np.ndarray]


def bisect(
    operator: str,
    data: Any,
    indices: Any,
    axis: Any = 0,
    *,
    batch_dims: int = 0,
    bounds: Any = "error",
    scale: float = 1.0,
    schedule: Schedule | str | None = None,
    pipeline: str | Sequence[ModulePass] | None = None,
    prove: bool = False,
) -> WrongPass | None:
    """Find the first pass of a pipeline after which a gather is wrong, and shrink the gather while it stays wrong.

    Every stage is interpreted on small arrays and compared with the operator's plain reference.

    Args:
        operator, data, indices, axis, batch_dims, bounds, scale: as for `gathernest.compile`; the values of the arrays
            are not read, and large sizes are made smaller where the passes allow it.
        schedule: a schedule; chosen by the sizes when this and `pipeline` are omitted.
        pipeline: the whole pipeline instead, as text or as xDSL passes.
        prove: whether each pass is proved for all sizes instead, which needs the extra `prove`. Where that does not
            decide on a pass, gathers of other sizes are interpreted.

    Returns:
        The pass with the smallest example that was found; with `prove`, the first that is refuted, with its
        counterexample. None where there is no such pass.

    Raises:
        ScheduleError: a pass rejects the gather at the sizes that were given, or schedule and pipeline are both given.
        DependencyError: `prove` is given, and islpy or z3 is not installed.
    """
    problem = problem_of(operator, data, indices, axis, batch_dims=batch_dims, bounds=bounds, scale=scale)
    if pipeline is None:
        pipeline = make_plan(problem, None if schedule is None else Schedule.parse(schedule)).pipeline
    elif schedule is not None:
        raise ScheduleError(TWO_PIPELINES)
    passes = parse_passes(pipeline) if isinstance(pipeline, str) else pipeline
    if prove:
        from .prove_passes import first_refuted

        return first_refuted(problem, passes)
    return bisect_problem(problem, passes)


def bisect_problem(problem: Problem, passes: Sequence[ModulePass]) -> WrongPass | None:
    """Bisect the pipeline of a problem; see `bisect`."""
    was_tried = False
    for smaller in dict.fromkeys(interpretable(problem)):
        if smaller == problem and was_tried and problem.result.size + problem.source.size > MOST_ELEMENTS:
            break
        try:
            is_whole = smaller == problem
            found = _first_wrong(lambda smaller=smaller: module_of(smaller), smaller, passes, fits=is_whole)
            was_tried = True
        except (ScheduleError, InvalidGatherError):  # the passes are for other sizes
            if smaller == problem:
                raise
            continue
        if found is not None:
            return _shrunk(module_of, smaller, passes, *found)
    return None


def bisect_module(
    module: ModuleOp, problem: Problem, passes: Sequence[ModulePass], arrays: Arrays | None
) -> WrongPass | None:
    """Bisect passes that go on from a module of any level, which is of that problem; its sizes stay as they are."""
    samples = list(samples_of(problem)) if arrays is None else [arrays]
    found = _first_wrong(module.clone, problem, passes, samples)
    return None if found is None else _shrunk(lambda _: module.clone(), problem, passes, *found, fixed=True)


Found = tuple[int, Difference, Arrays, str]


def _first_wrong(
    make: Callable[[], ModuleOp],
    problem: Problem,
    passes: Sequence[ModulePass],
    samples: Sequence[Arrays] = (),
    *,
    fits: bool = True,
) -> Found | None:
    """Return the number of the first wrong stage (0 is the input), what is wrong, on what, and the text before it.

    Args:
        fits: whether a stage that takes arrays of other sizes is wrong; else it raises InvalidGatherError.
    """
    samples = samples or list(samples_of(problem))
    module, context, text = make(), make_context(), ""
    for number in range(len(passes) + 1):
        before = text
        try:
            if number:
                passes[number - 1].apply(context, module)
                verify_module(module)
        except (GathernestError, VerifyException, ValueError) as error:
            if isinstance(error, GathernestError) and not isinstance(error, InternalError):
                raise
            return number, invalid_module(error), samples[0], before
        text = str(module)
        if text == before:
            continue
        for arrays in samples:
            for seed in SEEDS[: 1 + ("parallel" in text)]:
                try:
                    difference = check_stage(module, problem, *arrays, "interpreter", seed=seed)
                    if difference is not None:  # once more, with lines
                        difference = check_stage(parsed(text), problem, *arrays, "interpreter", seed=seed) or difference
                except InvalidGatherError as error:
                    if not fits:
                        raise
                    difference = Difference(str(error))
                if difference is not None:
                    return number, difference, arrays, before or text
    return None


def _shrunk(
    make: Callable[[Problem], ModuleOp],
    problem: Problem,
    passes: Sequence[ModulePass],
    number: int,
    difference: Difference,
    arrays: Arrays,
    before: str,
    *,
    fixed: bool = False,
) -> WrongPass:
    """Return the wrong pass with sizes, passes and indices made smaller while the same pass stays the first wrong."""
    is_misfit = difference.position is None
    kind, passes = (type(passes[number - 1]) if number else None), list(passes[:number])
    state: tuple[Problem, list[ModulePass], Found] = (problem, passes, (number, difference, arrays, before))

    def still_wrong(problem: Problem, passes: list[ModulePass], samples: Sequence[Arrays] = ()) -> Found | None:
        try:
            found = _first_wrong(lambda: make(problem), problem, passes, samples, fits=is_misfit)
        except (GathernestError, VerifyException):
            return None
        is_same = found is not None and found[0] == len(passes) and (not passes or type(passes[-1]) is kind)
        return found if is_same else None

    def tries() -> Iterator[tuple[Problem, list[ModulePass], Sequence[Arrays]]]:
        problem, passes, (_, _, (data, indices), _) = state
        if not fixed:
            yield from ((smaller, passes, ()) for smaller in smaller_problems(problem))
        yield from ((problem, fewer, [(data, indices)]) for fewer in fewer_passes(passes))
        yield from ((problem, passes, [(data, simpler)]) for simpler in simpler_indices(indices))

    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate, fewer, samples in tries():
            if (found := still_wrong(candidate, fewer, samples)) is not None:
                state, is_smaller = (candidate, fewer, found), True
                break
    problem, passes, (_, difference, (data, indices), before) = state
    names = tuple(map(text_of, passes))
    return WrongPass(names[-1] if names else "the input", difference, problem, data, indices, names, before)
