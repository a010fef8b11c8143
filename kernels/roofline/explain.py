"""Explain a kernel: its traffic, its roofline bound, its time, and what each pass of its schedule contributes."""

import functools
from collections.abc import Callable, Mapping

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ...ir.errors import CompileError, GathernestError, InternalError, ScheduleError, show
from ...lowering.schedule.predict import Terms, predict
from ...lowering.schedule.schedule import shorter_schedules
from ..host.knobs import knobs
from ..host.machine import machine_model
from ..host.timing import Timings, time_interleaved
from ..runtime.plan import Plan
from ..tuning.sample_arrays import sample_arrays
from .explanation import Ablation, CompiledKernel, Explanation
from .lower_bound import lower_bound_of
from .peak_rates import ceilings

WHOLE = "the whole schedule"


class ExplainError(GathernestError, ValueError):
    """There is nothing to measure."""


def predicted_terms(plan: Plan) -> Terms | None:
    """Return what the cost model expects of a plan on this machine; None of a given pipeline."""
    if plan.given is not None:
        return None
    is_gradient = plan.problem.gradient is not None
    return predict(plan.schedule, plan.layout.nest, machine_model(), is_gradient=is_gradient)


def explain(
    kernel: CompiledKernel,
    data: np.ndarray | None = None,
    indices: np.ndarray | None = None,
    out: np.ndarray | None = None,
    rounds: int = 9,
    *,
    progress: Callable[[str], None] | None = None,
) -> Explanation:
    """Compare a kernel with its roofline bound, and with its schedule without each pass.

    Every schedule is compiled, its result is compared with that of the whole one byte by byte, and then all of them are
    timed in turn with the reference loops. Peak rates that are not stored yet are measured first; only the lower bound
    uses them.

    Args:
        kernel: what to explain.
        data, indices: arrays of the dtypes and ranks that it was compiled for; made up, with uniformly random indices,
            when both are omitted.
        out: where the results go; made when omitted. Its contents are replaced.
        rounds: how often each schedule is timed, 1 or more.
        progress: is called before each step with what it does.

    Raises:
        ExplainError: only one of data and indices is given, nothing runs for these sizes, or the interpreter is on.
        SampleError: arrays of the compiled shapes do not fit in memory.
        BoundsError: an index is not valid.
    """
    if (data is None) != (indices is None):
        raise ExplainError("explain takes both data and indices, or neither for made-up ones; got one of them")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise ExplainError(f"rounds must be a whole number from 1, got {show(rounds)}")
    if knobs.interpret:
        raise ExplainError("GATHERNEST_INTERPRET is set, and the interpreter's time explains nothing; unset it")
    say = progress or (lambda step: None)
    say("making arrays")
    arrays = sample_arrays(kernel.problem) if data is None or indices is None else (data, indices)
    whole = kernel.fitted(*arrays, out)
    plan = whole.plan
    if plan.action != "run":
        raise ExplainError("nothing runs for these sizes, so there is nothing to measure; pass larger arrays")
    result = np.empty(whole.problem.result.shape, whole.problem.result.dtype) if out is None else out
    say("measuring the machine")
    measured = ceilings(progress=lambda done, most: say(f"measuring the machine, pass {done} of {most} at most"))
    kernels, rejected = _shorter_kernels(whole, arrays, result, say)
    say("preparing the reference loops")
    from .reference_loops import reference_loops

    table = arrays[0] if whole.problem.gradient is None else result
    low, high = byte_bounds(table)
    loops = reference_loops(whole.problem, arrays[1], data=table, table_bytes=high - low)
    say("timing")
    terms = predicted_terms(plan)
    calls = {name: functools.partial(shorter, *arrays, result) for name, shorter in kernels.items()}
    timings = time_interleaved({**calls, **loops.calls}, rounds=rounds, settle_s=0)
    return Explanation(
        gather=repr(whole).strip("<>").removeprefix("gathernest kernel: "),
        schedule=str(whole.schedule) if plan.given is None else plan.given.text,
        reasons=plan.reasons if terms is None else (*plan.reasons, f"predicted {terms}"),
        bound=loops.measured(timings),
        lower_bound=lower_bound_of(loops.traffic, measured),
        ceilings=measured,
        measured_us=1e6 * timings.median_s(WHOLE),
        fastest_us=1e6 * min(timings.rounds_s[WHOLE]),
        rounds=rounds,
        predicted_us=None if terms is None else terms.time_us,
        ablations=tuple(_ablation(left_out, timings, rejected) for left_out in shorter_schedules(whole.schedule)),
    )


def _shorter_kernels(
    whole: CompiledKernel, arrays: tuple[np.ndarray, np.ndarray], result: np.ndarray, say: Callable[[str], None]
) -> tuple[dict[str, CompiledKernel], dict[str, str]]:
    """Return the kernels of the whole schedule and without each pass, compiled, and why some cannot be."""
    say(f"compiling {WHOLE}")
    whole(*arrays, result)
    expected = _bytes_of(result)
    kernels, rejected = {WHOLE: whole}, dict[str, str]()
    for left_out, rest in shorter_schedules(whole.schedule).items():
        say(f"compiling without {left_out}")
        try:
            shorter = whole.with_schedule(rest)
            _check_same(shorter, arrays, result, expected, left_out)
            kernels[left_out] = shorter
        except (ScheduleError, CompileError) as error:
            rejected[left_out] = str(error)
    return kernels, rejected


def _ablation(left_out: str, timings: Timings, rejected: Mapping[str, str]) -> Ablation:
    if left_out in rejected:
        return Ablation(left_out, rejected=rejected[left_out])
    return Ablation(left_out, 1e6 * timings.median_s(left_out), timings.ratio(WHOLE, beside=left_out))


def _check_same(
    kernel: CompiledKernel,
    arrays: tuple[np.ndarray, np.ndarray],
    result: np.ndarray,
    expected: np.ndarray,
    left_out: str,
) -> None:
    """Run a kernel over bytes that are none of the expected ones, and compare; raises InternalError."""
    result[...] = (~expected).view(result.dtype).reshape(result.shape)
    kernel(*arrays, result)
    if not np.array_equal(_bytes_of(result), expected):
        raise InternalError(
            f"without {left_out} the bytes are others than with the whole schedule; please report it with {kernel!r} "
            f"and the schedule {str(kernel.schedule) or 'none'}"
        )


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """Return a copy of an array's bytes in the order of its elements."""
    return np.frombuffer(array.tobytes(), np.uint8)
