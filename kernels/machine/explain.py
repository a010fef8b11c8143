"""Explain a kernel: its traffic, its roofline bound, its time, and the contribution of each pass of its schedule.

The result is a value: text for people, JSON for scripts.
"""

import functools
from collections.abc import Callable, Sequence
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
from ..host.timing import time_interleaved
from ..runtime.plan import Plan
from ..tuning.sample_arrays import sample_arrays
from .roofline import COPY, LINES, Bound, model_bound, reference_loops
from .traffic import fewest_bytes

# The machine is busy if the median is more than this many times the fastest round.
BUSY = 1.5
# The machine is busy if the kernel reaches more than this fraction of its roofline bound.
MAX_FRACTION = 1.15
WHOLE = "the whole schedule"


@dataclass(frozen=True, slots=True)
class Ablation:
    """A schedule with one pass left out, or all of one kind.

    Attributes:
        left_out: the pass with its options; passes of one kind are left out together.
        measured_us: the median time without it; None where the shorter schedule is rejected.
        times_as_fast: the median time without the pass divided by the time of the whole schedule, above 1 where the
            pass pays. None where the shorter schedule is rejected.
        rejected: why the shorter schedule is not legal; None where it is.
    """

    left_out: str
    measured_us: float | None = None
    times_as_fast: float | None = None
    rejected: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The distance of a kernel from its roofline bound, and the contribution of each pass of its schedule.

    Attributes:
        gather: the operator with its arrays and attributes.
        schedule: the schedule as text, or the pipeline that was given; empty for none.
        reasons: why it was chosen; empty where nothing says so.
        bound: the roofline bound, measured in the same rounds as the kernel.
        model_bound: the roofline bound by the rates of the machine model.
        machine: the name of the machine model.
        measured_us: the median time of a call.
        fastest_us: the time of a call in the fastest round; far below the median on a busy machine.
        rounds: the number of timed rounds.
        predicted_us: the time by the cost model; None without one.
        ablations: the schedule without each of its passes.
    """

    gather: str
    schedule: str
    reasons: tuple[str, ...]
    bound: Bound
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
        """The sign that other work on this machine disturbed the measurement; empty where there is none."""
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
        bound, traffic, machine = self.bound, self.bound.traffic, _rates(self.model_bound)
        how = "counted from the indices" if traffic.is_counted else "expected of uniformly random indices"
        lines = "1 line" if round(traffic.lines) == 1 else f"{traffic.lines:,.0f} lines"
        streams = [
            (name, f"{count / 1e6:>12,.3f} MB") for name, count in (*traffic.streams, ("together", traffic.total_bytes))
        ]
        if self.model_bound.time_us > self.fastest_us:
            calibrate = "whose roofline is no bound: see gathernest doctor --calibrate"
            machine.append((f"this machine is faster than its model, {calibrate}",))
        times = [
            ("roofline bound", _us(bound.time_us)),
            *([] if self.predicted_us is None else [("predicted", _us(self.predicted_us))]),
            ("measured", _us(self.measured_us), f"median of {self.rounds} round{'s' * (self.rounds > 1)}"),
            ("fastest round", _us(self.fastest_us)),
            ("fraction of the bound", f"{self.fraction:>12.2f}"),
        ]
        passes: list[tuple[str, ...]] = []
        for each in self.ablations:
            *before, last = each.left_out.replace("},", "},\n").splitlines()  # passes that are left out together
            found = (f"other steps need it: {each.rejected}",)
            if each.measured_us is not None and each.times_as_fast is not None:
                found = _us(each.measured_us), f"{each.times_as_fast:.2f}x"
            passes += [*((name,) for name in before), (last, *found)]
        parts = {
            "The schedule": self.schedule.replace("},", "},\n").splitlines() or ["none"],
            "Why this schedule": list(self.reasons),
            "The fewest bytes": [
                *_rows(streams), f"{lines} of data, {how}; {traffic.piece_lines:,.1f} adjacent ones at each place"
            ],
            "The roofline bound, timed in turn with the kernel": [
                *_rows([(*row, bound.ways[name]) for row, name in zip(_rates(bound), (COPY, LINES), strict=True)]),
                f"bound by {bound.bound_by}, on {bound.threads} thread{'' if bound.threads == 1 else 's'}",
            ],
            f"The roofline by the machine model {self.machine}": _rows(machine),
            "The time": [*[self.disturbance] * bool(self.disturbance), *_rows(times)],
            "Without a pass, the time of a call, and how many times as fast the whole schedule is": _rows(passes),
        }  # fmt: skip
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


class CompiledKernel(Protocol):
    """The part of a `Kernel` that `explain` and reports read; its methods call them."""

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
    return predict(plan.schedule, plan.layout.nest, machine_model())


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
        kernel: the kernel.
        data, indices: arrays of the dtypes and ranks that it was compiled for; made up, with uniformly random indices,
            when both are omitted.
        out: where the results go; made when omitted. Its contents are replaced.
        rounds: the number of timings of each schedule, 1 or more.
        progress: is called before each step with its description.

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
    loops = reference_loops(fewest_bytes(whole.problem, arrays[1], table), high - low)
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
        ablations=tuple(
            Ablation(name, rejected=rejected[name])
            if name in rejected
            else Ablation(name, 1e6 * timings.median_s(name), timings.median_s(name) / timings.median_s(WHOLE))
            for name in shorter_schedules(whole.schedule)
        ),
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
        result[...] = (~expected).view(result.dtype).reshape(result.shape)  # none of the bytes are right yet
        try:
            shorter = whole.with_schedule(rest)
            shorter(*arrays, result)
        except (ScheduleError, CompileError) as error:
            rejected[left_out] = str(error)
            continue
        if not np.array_equal(_bytes_of(result), expected):
            raise InternalError(
                f"without {left_out} the bytes are others than with the whole schedule; please report it with "
                f"{shorter!r} and the schedule {str(shorter.schedule) or 'none'}"
            )
        kernels[left_out] = shorter
    return kernels, rejected


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """Return a copy of an array's bytes in the order of its elements."""
    return np.frombuffer(array.tobytes(), np.uint8)


def _rates(bound: Bound) -> list[tuple[str, ...]]:
    """Return a row for the copy, and one for the lines."""
    return [
        ("copy of as many bytes", _us(bound.copy_us), f"at {bound.copy_bytes_per_s / 1e9:,.1f} GB/s"),
        ("lines at random places", _us(bound.lines_us), f"at {bound.lines_per_s / 1e6:,.0f} million a second"),
    ]


def _rows(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines whose first cells are of one width; a row of one cell is a sentence."""
    width = max((len(row[0]) for row in rows if len(row) > 1), default=0)
    return [f"{row[0]:<{width}}  {'  '.join(row[1:])}".rstrip() for row in rows]


def _us(time_us: float) -> str:
    return f"{time_us:>12,.1f} µs"
