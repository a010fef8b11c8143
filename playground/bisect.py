"""`bisect`: the first pass after which a gather is wrong, by interpretation or by proof, with a small example."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ..ir.array_spec import ArraySpec
from ..ir.errors import GathernestError, InternalError, InvalidGatherError, ScheduleError
from ..ir.modules.context import make_context, verify_module
from ..ir.modules.exec_comment import header
from ..ir.problem import Problem
from ..ir.semantics import flag_argument
from ..kernels.host.dependencies import require
from ..kernels.kernel import TWO_PIPELINES
from ..kernels.problems.named_problem import problem_of
from ..kernels.runtime.compile import module_of
from ..kernels.runtime.plan import make_plan
from ..lowering.pipeline import parse_passes
from ..lowering.schedule.schedule import Schedule
from ..lowering.schedule.steps import STEPS
from .check import MOST_ELEMENTS, Difference, check_stage, interpretable, samples_of
from .stage import filled, parsed

if TYPE_CHECKING:
    from ..lowering.proof.examples import Example
    from ..lowering.proof.prover import Verdict


@dataclass(frozen=True)
class WrongPass:
    """The first pass after which a gather is wrong, with a small example.

    Attributes:
        name: the pass with its options; `the input` where the module is wrong before any pass.
        difference: the error after it.
        problem: the gather that shows it, shrunk.
        data, indices: its arrays; of a gradient, data is grad.
        passes: the passes that it takes, up to this one.
        before: the module before it, as text.
    """

    name: str
    difference: Difference
    problem: Problem
    data: np.ndarray
    indices: np.ndarray
    passes: tuple[str, ...]
    before: str

    def __str__(self) -> str:
        problem = self.problem
        return (
            f"{self.name} is wrong: {self.difference}\n"
            f"shown by {problem.name} of {problem.source} by {problem.indices} = {self.indices.tolist()}, "
            f"{problem.options}\nafter the passes {','.join(self.passes) or 'none'}"
        )

    def reproducer(self) -> str:
        """Return the module before the pass, under a comment that makes `gathernest exec` run the pass and compare."""
        step = self.passes[-1] if self.passes else ""
        said = "".join(f"// {line}\n" for line in str(self).splitlines())
        return f"{header(self.problem, self.data, self.indices, step)}{said}{self.before}"


def invalid_module(error: Exception) -> Difference:
    """Return the difference of a pass that fails or leaves a module that is not valid."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return Difference(f"it fails or leaves an invalid module: {reason}")


def text_of(step: ModulePass) -> str:
    """Return a pass with its options as the text of a pipeline."""
    return str(step).replace('"', "")


MOST_INDICES = 64
Form = tuple[Problem, list[ModulePass], "Sequence[Arrays]"]


def smaller_forms(problem: Problem, passes: list[ModulePass], arrays: "Arrays", *, fixed: bool) -> Iterator[Form]:
    """Yield simpler gathers, each with its passes, and with its arrays where they do not follow from the problem.

    One dimension is smaller, or two of one size where both must be, unless sizes are fixed; a pass of the schedule is
    left out, the last of all excepted; a number in an option is halved; one of a few indices is 0, or nearer to it.
    """
    table, indices = problem.table.shape, problem.indices.shape
    places = [*((0, dim) for dim in range(len(table))), *((1, dim) for dim in range(len(indices)))]
    pairs = [[place] for place in places]
    pairs += [[(0, a), (1, b)] for a, size in enumerate(table) for b, same in enumerate(indices) if same == size]
    for pair in [] if fixed else pairs:
        size = (table, indices)[pair[0][0]][pair[0][1]]
        for smaller in dict.fromkeys((1, size // 2, size - 1)):
            shapes = [list(table), list(indices)]
            for array, dim in pair:
                shapes[array][dim] = smaller
            with suppress(GathernestError):
                if 0 < smaller < size:
                    yield problem.resized(tuple(shapes[0]), tuple(shapes[1])), passes, ()
    for place, step in enumerate(passes[:-1]):
        if step.name in STEPS:
            yield problem, [*passes[:place], *passes[place + 1 :]], [arrays]
    for place, step in enumerate(passes):
        for field in dataclasses.fields(step):
            value: Any = getattr(step, field.name)
            numbers = value if isinstance(value, tuple) else (value,)
            for at, number in enumerate(numbers):
                if type(number) is int and number > 2:
                    half = (*numbers[:at], number // 2, *numbers[at + 1 :])
                    halved = dataclasses.replace(step, **{field.name: half if isinstance(value, tuple) else half[0]})
                    yield problem, [*passes[:place], halved, *passes[place + 1 :]], [arrays]
    data, given = arrays
    for place in range(given.size if given.size <= MOST_INDICES else 0):
        number = int(given.flat[place])
        for simpler in dict.fromkeys((0, int(number / 2))):
            if simpler != number:
                changed = given.copy()
                changed.flat[place] = simpler
                yield problem, passes, [(data, changed)]


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
    prove = flag_argument(prove, "prove")
    if pipeline is None:
        pipeline = make_plan(problem, None if schedule is None else Schedule.parse(schedule)).pipeline
    elif schedule is not None:
        raise ScheduleError(TWO_PIPELINES)
    if isinstance(pipeline, list | tuple) and all(isinstance(each, ModulePass) for each in pipeline):
        passes: Sequence[ModulePass] = pipeline
    else:
        passes = parse_passes(pipeline)  # type: ignore[arg-type]
    return first_refuted(problem, passes) if prove else bisect_problem(problem, passes)


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
    """Return the number of the first wrong stage (0 is the input), the difference, the arrays, and the text before it.

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

    is_smaller = True
    while is_smaller:
        is_smaller = False
        problem, passes, (_, _, arrays, _) = state
        for candidate, fewer, samples in smaller_forms(problem, passes, arrays, fixed=fixed):
            if (found := still_wrong(candidate, fewer, samples)) is not None:
                state, is_smaller = (candidate, fewer, found), True
                break
    problem, passes, (_, difference, (data, indices), before) = state
    names = tuple(map(text_of, passes))
    return WrongPass(names[-1] if names else "the input", difference, problem, data, indices, names, before)


def first_refuted(
    problem: Problem,
    passes: Sequence[ModulePass],
    module: ModuleOp | None = None,
    said: "Callable[[Verdict], None]" = lambda verdict: None,
) -> WrongPass | None:
    """Return the first pass that is refuted; None where none is, though some may be undecided.

    Args:
        problem: the gather.
        passes: the passes to run on the module.
        module: a stage of the problem; its operator when omitted.
        said: is called with the verdict of each pass.

    Raises:
        DependencyError: islpy or z3 is not installed.
        GathernestError: a pass rejects the module.
    """
    require("islpy", "z3-solver")
    from ..lowering.proof.prover import Status, prove_passes, refuted_input
    from ..lowering.proof.specification import Specification

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
