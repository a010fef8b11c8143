"""Explain a kernel: its traffic, its roofline bound, its time, and what each pass of its schedule contributes.

The result is a value: text for people, JSON for scripts.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ...ir.errors import CompileError, GathernestError, InternalError, ScheduleError, show
from ...ir.problem import Problem
from ...lowering.registry import Pipeline
from ...lowering.schedule.predict import Terms, predict
from ...lowering.schedule.schedule import Schedule, shorter_schedules
from ..host.knobs import knobs
from ..host.machine import known_machine, machine_model
from ..host.timing import Timings, time_interleaved
from ..runtime.plan import Plan
from ..tuning.sample_arrays import sample_arrays
from .roofline import COPY, LINES, Bound, MeasuredBound, model_bound, reference_loops

# The machine is busy if the median is more than this many times the fastest round.
BUSY = 1.5
# The machine is busy if the kernel reaches more than this fraction of its roofline bound.
MAX_FRACTION = 1.15
WHOLE = "the whole schedule"


@dataclass(frozen=True, slots=True)
class Ablation:
    """A schedule with one pass left out, or all of one kind.

    Attributes:
        left_out: the pass with its options; what a schedule holds several times is left out together.
        measured_us: the median time without it; None where the shorter schedule is rejected.
        times_as_fast: how many times as fast the whole schedule is: the ratio of the medians, above 1 where the pass
            pays. None where the shorter schedule is rejected.
        rejected: why the shorter schedule is not legal; None where it is.
    """

    left_out: str
    measured_us: float | None = None
    times_as_fast: float | None = None
    rejected: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """How near a kernel is to its roofline bound, and what each pass of its schedule contributes.

    Attributes:
        gather: the operator with its arrays and attributes.
        schedule: the schedule as text, or the pipeline that was given; empty for none.
        reasons: why it was chosen; empty where nothing says so.
        bound: the roofline bound, measured in the same rounds as the kernel.
        model_bound: the roofline bound by the rates of the machine model.
        machine: the name of the machine model.
        measured_us: the median time of a call.
        fastest_us: the time of a call in the fastest round; far below the median on a busy machine.
        rounds: how many rounds were timed.
        predicted_us: what the cost model expects; None without one.
        ablations: the schedule without each of its passes.
    """

    gather: str
    schedule: str
    reasons: tuple[str, ...]
    bound: MeasuredBound
    model_bound: Bound
    machine: str
    measured_us: float
    fastest_us: float
    rounds: int
    predicted_us: float | None = None
    ablations: tuple[Ablation, ...] = ()

    @property
    def fraction(self) -> float:
        """The roofline bound divided by the measured time: 1 is as fast as the machine allows."""
        return self.bound.fraction(self.measured_us)

    @property
    def disturbance(self) -> str:
        """What shows that other work on this machine disturbed the measurement; empty where nothing does."""
        if self.measured_us > BUSY * self.fastest_us:
            return "the median is far above the fastest round: the machine is busy, and times say little"
        if self.fraction > MAX_FRACTION:
            return "the kernel is faster than the bound: the machine is busy, and times say little"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as JSON can hold it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.predicted_us is None:
            del values["predicted_us"]
        return {
            **values,
            "bound": self.bound.to_json(),
            "model_bound": self.model_bound.to_json(),
            "fraction": self.fraction,
            "ablations": [asdict(ablation) for ablation in self.ablations],
        }

    def sections(self) -> dict[str, list[str]]:
        """Return the lines of each part of the text by its title."""
        parts = {
            "The schedule": _passes(self.schedule) or ["none"],
            "Why this schedule": list(self.reasons),
            "The fewest bytes": self._bytes_lines(),
            "The roofline bound, timed in turn with the kernel": self._bound_lines(),
            f"The roofline by the machine model {self.machine}": self._model_bound_lines(),
            "The time": self._time_lines(),
            "Without a pass, the time of a call, and how many times as fast the whole schedule is": _rows(
                [row for ablation in self.ablations for row in _ablation_rows(ablation)]
            ),
        }
        return {title: lines for title, lines in parts.items() if lines}

    def __str__(self) -> str:
        text = [self.gather]
        for title, lines in self.sections().items():
            text += ["", title, *lines]
        return "\n".join(text)

    def _repr_html_(self) -> str:
        from ...lowering import static_html as html

        parts = (html.paragraph(title) + html.code("\n".join(lines)) for title, lines in self.sections().items())
        return html.fragment(self.gather, *parts)

    def _bytes_lines(self) -> list[str]:
        traffic = self.bound.traffic
        rows = [(name, _bytes(count)) for name, count in (*traffic.streams, ("together", traffic.total_bytes))]
        how = "counted from the indices" if traffic.is_counted else "expected of uniformly random indices"
        lines = "1 line" if round(traffic.lines) == 1 else f"{traffic.lines:,.0f} lines"
        return [*_rows(rows), f"{lines} of data, {how}; {traffic.piece_lines:,.1f} adjacent ones at each place"]

    def _bound_lines(self) -> list[str]:
        bound = self.bound
        threads = f"on {bound.threads} thread{'' if bound.threads == 1 else 's'}"
        rates = zip(_rate_rows(bound), (COPY, LINES), strict=True)
        rows = [(*row, bound.ways[name]) for row, name in rates]
        return [*_rows(rows), f"bound by {bound.bound_by}, {threads}"]

    def _model_bound_lines(self) -> list[str]:
        lines = _rows(_rate_rows(self.model_bound))
        if self.model_bound.time_us > self.fastest_us:
            lines.append(
                "this machine is faster than its model, whose roofline is no bound: see gathernest doctor --calibrate"
            )
        return lines

    def _time_lines(self) -> list[str]:
        rows: list[tuple[str, ...]] = [("roofline bound", _us(self.bound.time_us))]
        if self.predicted_us is not None:
            rows.append(("predicted", _us(self.predicted_us)))
        rows.append(("measured", _us(self.measured_us), f"median of {self.rounds} round{'s' * (self.rounds > 1)}"))
        rows.append(("fastest round", _us(self.fastest_us)))
        rows.append(("fraction of the bound", f"{self.fraction:>12.2f}"))
        return [*[self.disturbance] * bool(self.disturbance), *_rows(rows)]


class CompiledKernel(Protocol):
    """What `explain` and reports read of a `Kernel`, whose methods call them."""

    @property
    def problem(self) -> Problem: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def schedule(self) -> Schedule: ...

    def with_schedule(self, schedule: Schedule | Pipeline | None) -> "CompiledKernel": ...

    def fitted(self, data: np.ndarray, indices: np.ndarray, out: np.ndarray | None) -> "CompiledKernel": ...

    def explain(self, *, rounds: int) -> Explanation: ...

    def __call__(self, data: np.ndarray, indices: np.ndarray, out: np.ndarray, /) -> np.ndarray: ...


class ExplainError(GathernestError, ValueError):
    """There is nothing to measure."""


def predicted_terms(plan: Plan) -> Terms | None:
    """Return the predicted time of a plan on this machine by terms; None of a given pipeline."""
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

    Every schedule is compiled, its result is compared byte by byte with the whole schedule's, and then all of them are
    timed in turn with the reference loops.

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
    kernels, rejected = _shorter_kernels(whole, arrays, result, say)
    say("preparing the reference loops")
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
        model_bound=model_bound(loops.traffic, machine_model()),
        machine=known_machine().model.name,
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
    median_s = timings.median_s(left_out)
    return Ablation(left_out, 1e6 * median_s, median_s / timings.median_s(WHOLE))


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


# the text of an explanation


def _passes(pipeline: str) -> list[str]:
    """Return the text of a pipeline, a line a pass."""
    return pipeline.replace("},", "},\n").splitlines()


def _ablation_rows(ablation: Ablation) -> list[tuple[str, ...]]:
    """Return a row for each pass that is left out together; the last has the result."""
    *before, last = _passes(ablation.left_out)
    if ablation.measured_us is None or ablation.times_as_fast is None:
        found = (f"rejected: {ablation.rejected}",)
    else:
        found = (_us(ablation.measured_us), f"{ablation.times_as_fast:.2f}x")
    return [*((name,) for name in before), (last, *found)]


def _rate_rows(bound: Bound) -> list[tuple[str, ...]]:
    """Return a row for the copy, and one for the lines."""
    return [
        ("copy of as many bytes", _us(bound.copy_us), f"at {bound.copy_bytes_per_s / 1e9:,.1f} GB/s"),
        _lines_row("lines at random places", bound.lines_us, bound.lines_per_s),
    ]


def _lines_row(name: str, time_us: float, lines_per_s: float) -> tuple[str, ...]:
    return name, _us(time_us), f"at {lines_per_s / 1e6:,.0f} million a second"


def _rows(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines whose first cells are of one width."""
    width = max((len(row[0]) for row in rows), default=0)
    return [f"{row[0]:<{width}}  {'  '.join(row[1:])}".rstrip() for row in rows]


def _us(time_us: float) -> str:
    return f"{time_us:>12,.1f} µs"


def _bytes(count: float) -> str:
    return f"{count / 1e6:>12,.3f} MB"
