"""`gathernest bench --adapt`: a loop of calls that adapt while they run, in turn with the same calls that do not.

Blocks of calls of a compiled kernel, which keeps its schedule, and blocks of calls of the public function take turns.
While a candidate is compiled only the function is called, so what compiling slows down is on its side. The candidates
of the first schedule may be compiled before, as in a program that ran before, so that races begin at once. Records go
to a file of the run's own. With the knob `machine`, schedules are chosen as if a calibration had measured that machine
here: so a wrong one shows what adapting makes of schedules that are chosen badly.
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from ...ir.errors import GathernestError
from ...kernels.adapting import adapter as adapters
from ...kernels.adapting.budget import Budget
from ...kernels.adapting.call_class import CallClass, Outcome
from ...kernels.adapting.next_candidates import next_candidates
from ...kernels.gather import gather, gather_elements, gather_nd
from ...kernels.gradient import gather_grad
from ...kernels.host.cpu import cpu_model, usable_cores
from ...kernels.host.knobs import knobs
from ...kernels.host.machine import machine_model
from ...kernels.host.machine_files.calibration_file import Calibration, machine_facts, write_calibration
from ...kernels.host.runtime import RUNTIME
from ...kernels.reduction.gather_reduce import gather_reduce
from ...lowering.schedule.machine_model import BUILT_IN
from .cases.case import Call, Case, Inputs, describe
from .cases.suite import SUITE
from .measure import in_turn
from .peers.gathernest_peer import compile_case
from .table import markdown_table, ratio_text, time_text

NAMES = ("rows-256B", "rows-4KB", "last-axis", "scalars-4MB-table")
CASES = tuple(case for case in SUITE if case.name in NAMES)
BLOCK_S = 0.02
LAST_BLOCKS = 25


@dataclass(frozen=True, slots=True)
class Adapted:
    """What became of a case.

    Attributes:
        off_us, on_us: what a call took without and with adapting, on average, microseconds; compiling slows the second.
        calls: how many calls adapted.
        share: the part of the calls' time that adapting took.
        cost: what it was spent on, as text.
        last: how many times as fast as without adapting the last calls were: the median of the last blocks.
        is_over: whether all candidates have raced.
        before, after: texts of the schedules.
        outcomes: of each candidate its text, what came of it (with the reason of a failure), and its ratio.
    """

    case: Case
    off_us: float
    on_us: float
    calls: int
    share: float
    cost: str
    last: float
    is_over: bool
    before: str
    after: str
    outcomes: tuple[tuple[str, str, float | None], ...]


def adapt(
    cases: Sequence[Case], *, seconds: float, threads: int, advance: Callable[[int], None], is_compiled: bool = False
) -> list[Adapted]:
    """Call each case for so many seconds, or until all candidates have raced, which may be compiled before."""
    found: list[Adapted] = []
    for case in cases:
        with knobs.scope(num_threads=threads), _apart() as adapter:
            found.append(_adapted(case, adapter, seconds, is_compiled))
        advance(1)
    return found


@contextlib.contextmanager
def _apart() -> Iterator[adapters.Adapter]:
    """Adapt with records of its own, and, where the knob `machine` names one, with a calibration that says so."""
    before = {name: knobs._assigned.get(name) for name in ("adapt", "cache_dir", "machine", "tuning")}
    process = adapters.ADAPTER
    with tempfile.TemporaryDirectory() as folder:
        if knobs.machine is not None:
            model = machine_model()
            knobs.cache_dir = Path(folder)
            write_calibration(_calibration_of(model))
            knobs.machine = None
        knobs.tuning = Path(folder) / "records.json"
        knobs.adapt = True
        adapters.ADAPTER = adapters.Adapter()
        RUNTIME.forget()
        try:
            yield adapters.ADAPTER
        finally:
            while adapters.ADAPTER.is_working:
                time.sleep(BLOCK_S)
            adapters.ADAPTER = process
            for name, value in before.items():
                if value is None:
                    delattr(knobs, name)
                else:
                    setattr(knobs, name, value)
            RUNTIME.forget()


def _calibration_of(model: Any) -> Calibration:
    """Return a calibration of this machine that says what a model says."""
    base = next(iter(BUILT_IN))
    fields = {name: value for name, value in asdict(model).items() if name not in ("name", "threads")}
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Calibration(base, fields, machine_facts(), usable_cores(), 0.0, date, {})


def _adapted(case: Case, adapter: adapters.Adapter, seconds: float, is_compiled: bool) -> Adapted:
    inputs = case.make()
    kernel = compile_case(case, inputs.indices[0])
    given = (inputs.out,) if case.into == "out" else ()
    off = in_turn([partial(kernel, inputs.data, picks, *given) for picks in inputs.indices])
    on = in_turn([_function(case, inputs, number) for number in range(len(inputs.indices))])
    for call in (off, on, off, on):
        call()
    for found in adapter.classes.values() if is_compiled else ():
        _compile_candidates(found, is_gradient=case.is_gradient)
    count = max(1, round(BLOCK_S / _seconds(off, 1)))
    times: dict[bool, list[float]] = {False: [], True: []}
    ratios: list[float] = []
    end, left = time.perf_counter() + seconds, LAST_BLOCKS
    while left:
        times[False].append(_seconds(off, count))
        times[True].append(_seconds(on, count))
        ratios.append(times[False][-1] / times[True][-1])
        while adapter.is_working:
            times[True].append(_seconds(on, count))
        if time.perf_counter() > end or all(each.state == "over" for each in adapter.classes.values()):
            left -= 1
    (found,) = adapter.classes.values()
    return Adapted(
        case,
        1e6 * statistics.fmean(times[False]) / count,
        1e6 * statistics.fmean(times[True]) / count,
        count * len(times[True]),
        adapter.budget.share,
        _cost(adapter.budget),
        statistics.median(ratios[-LAST_BLOCKS:]),
        found.state == "over",
        str(found.default),
        _kept(found),
        tuple((str(each.schedule), _what_came(each), each.ratio) for each in found.outcomes),
    )


def _compile_candidates(found: CallClass, *, is_gradient: bool) -> None:
    """Compile the first candidates of a class of calls."""
    calls = found.busiest()
    assert calls is not None
    subject = calls.subject
    schedules = next_candidates(subject.nest, machine_model(), subject.schedule, is_gradient=is_gradient)
    for schedule in islice(schedules, adapters.MOST_TRIED):
        with contextlib.suppress(GathernestError):  # the race says why
            subject.prepare(schedule)


def _cost(budget: Budget) -> str:
    parts = {"timing": budget.watching_s, "compiling": budget.compiling_s, "racing": budget.racing_s}
    spent = ", ".join(f"{seconds:.2f} s {what}" for what, seconds in parts.items())
    return f"{spent}, of {budget.calls_s:.0f} s"


def _kept(found: CallClass) -> str:
    """Return the schedule that calls have now."""
    won = [outcome.schedule for outcome in found.outcomes if outcome.outcome == "won"]
    return str(won[-1]) if won else str(found.default)


def _what_came(one: Outcome) -> str:
    return f"{one.outcome} ({one.reason})" if one.reason else one.outcome


def _function(case: Case, inputs: Inputs, number: int) -> Call:
    """Return a call of the public function of a case."""
    arrays = inputs.data, inputs.indices[number]
    given = {"out": inputs.out} if case.into == "out" else {}
    if case.operator == "gather_nd":
        return partial(gather_nd, *arrays, batch_dims=case.batch_dims, **given)
    if case.operator == "gather_elements":
        return partial(gather_elements, *arrays, case.axis, **given)
    if case.is_reduction:
        return partial(gather_reduce, *arrays, reduce="max" if case.operator == "gather_max" else "sum", **given)
    if case.is_gradient:
        return partial(gather_grad, *arrays, case.data, case.axis, **given)
    return partial(gather, *arrays, case.axis, batch_dims=case.batch_dims, **given)


def _seconds(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def as_markdown(found: Sequence[Adapted], threads: int) -> str:
    """Return a table of the cases, then the races of each."""
    headings = "case", "calls", "off", "on", "share", "at the end", "races", "kept"
    table = markdown_table(headings, ["---", *["--:"] * 6, "---"], [_row(one) for one in found])
    races = [
        f"* {one.case.name}, {one.cost}; at first {one.before or 'the empty schedule'}:\n{_races(one)}" for one in found
    ]
    said = (
        f"{cpu_model()}, {threads} thread{'s' if threads > 1 else ''}. Off and on are means of all calls; the share is "
        "what adapting took of the calls' time; at the end: how many times as fast the last calls were as without."
    )
    return "\n\n".join([table, "\n".join(races), said])


def _row(one: Adapted) -> tuple[str, ...]:
    won = sum(outcome == "won" for _, outcome, _ in one.outcomes)
    kept = f"after {won} win{'s' if won > 1 else ''}" if won else "the default"
    return (
        f"{one.case.name}: {describe(one.case)}",
        f"{one.calls}",
        time_text(one.off_us),
        time_text(one.on_us),
        f"{100 * one.share:.2f} %",
        ratio_text(one.last),
        f"{len(one.outcomes)}{'' if one.is_over else ', not over'}",
        kept,
    )


def _races(one: Adapted) -> str:
    named = [(outcome, ratio_text(ratio), text or "the empty schedule") for text, outcome, ratio in one.outcomes]
    lines = [f"  * {' '.join(words)}" for words in named]
    return "\n".join(lines) or "  * no race"
