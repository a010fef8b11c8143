"""The regret: the chosen schedule of every case beside the best of other candidates, and the prediction's error."""

import csv
import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.element_types import first_difference
from ...ir.errors import GathernestError, ScheduleError
from ...kernels.host.cpu import OtherLoad, cpu_model, usable_cores
from ...kernels.host.knobs import knobs
from ...kernels.host.machine import machine_model
from ...kernels.host.timing import time_interleaved
from ...kernels.kernel import Kernel
from ...kernels.runtime.layout import Layout
from ...kernels.runtime.select_schedule import choice_for
from ...kernels.tuning.tuner import FIRST_ROUNDS
from ...lowering.schedule.candidates import Space, candidates
from ...lowering.schedule.machine_model import BUILT_IN, MachineModel
from ...lowering.schedule.predict import Model
from ...lowering.schedule.schedule import Schedule
from ...lowering.schedule.shape import NestShape
from .cases import BY_NAME, Case, Inputs, expected, problem_of_case
from .measure import geometric_mean, in_turn
from .peers import compile_case
from .report import markdown_table, ratio_text, time_text

# A candidate that takes so many times as long as the best in the first rounds is not timed again.
FAR_SLOWER = 1.25
COLUMNS = ("case", "machine", "threads", "schedule", "time_us")
SHOWN_REGRET = 1.05  # the best schedule is told below the table from here on


@dataclass(frozen=True, slots=True)
class Candidate:
    """One schedule of a case.

    Attributes:
        schedule: its text; empty for the nest as it stands.
        measured_us: the median time of a call; None where it is not legal or gives other bytes.
        predicted_us: what the cost model says.
        rejected: why it was not timed.
    """

    schedule: str
    measured_us: float | None
    predicted_us: float
    rejected: str = ""

    @property
    def error(self) -> float | None:
        """The predicted time divided by the measured one, minus 1."""
        return None if self.measured_us is None else self.predicted_us / self.measured_us - 1


@dataclass(frozen=True, slots=True)
class Regretted:
    """One case.

    Attributes:
        candidates: every candidate, the chosen one first.
        best: the text of the fastest one.
        ratio: how many times as fast as the chosen one it is, in rounds of their own; 1 where it is the chosen one, and
            None where that was not measured.
        wrong: how candidates are wrong; they are not timed.
    """

    case: Case
    candidates: tuple[Candidate, ...]
    best: str
    ratio: float | None
    wrong: tuple[str, ...] = ()

    @property
    def chosen(self) -> Candidate:
        """The schedule that is chosen."""
        return self.candidates[0]

    @property
    def regret(self) -> float | None:
        """The time of the chosen schedule divided by that of the best one, 1 at least; None where it is unknown."""
        return None if self.ratio is None else max(self.ratio, 1.0)

    @property
    def best_us(self) -> float:
        """The measured time of the fastest candidate."""
        return next((one.measured_us for one in self.candidates if one.schedule == self.best), None) or 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A run.

    Attributes:
        cases: what was found of each.
        rounds, threads: how often candidates were timed, 0 where the times are stored ones, and on how many threads.
        machine: the model that schedules were chosen by.
        busy_cores: how many cores other processes used meanwhile.
        cpu, cores: where; the name of the file of stored times.
    """

    cases: Sequence[Regretted]
    rounds: int
    threads: int
    machine: MachineModel
    busy_cores: float
    cpu: str = field(default_factory=cpu_model)
    cores: int = field(default_factory=usable_cores)


def measure_regret(
    cases: Sequence[Case], *, rounds: int, threads: int, most: int, advance: Callable[[int], None]
) -> Measured:
    """Time the chosen schedule of every case beside `most` - 1 others; `advance` is called after each case.

    Raises:
        GathernestError: a chosen schedule gives no result that could be compared.
    """
    found: list[Regretted] = []
    load = OtherLoad()
    with knobs.scope(num_threads=threads):
        for case in cases:
            found.append(_regretted(case, case.make(), rounds, most))
            advance(1)
        return Measured(found, rounds, threads, machine_model(), load.cores())


def _regretted(case: Case, inputs: Inputs, rounds: int, most: int) -> Regretted:
    with knobs.scope(tuning="off"):  # calls within take a longer way
        chosen = compile_case(case, inputs.indices[0])
    nest, machine = chosen.plan.layout.nest, machine_model()
    predict = _predictions(case, nest, machine)
    proposed = candidates(Space(nest, chosen.schedule, machine, not case.is_plain))
    schedules = _first(proposed, most, predict)
    right = expected(case, inputs, 0)
    rejected, calls, wrong = dict.fromkeys(map(str, schedules), ""), {}, list[str]()
    for schedule in schedules:
        try:
            kernel = compile_case(case, inputs.indices[0], schedule)
        except ScheduleError as error:
            rejected[str(schedule)] = str(error)
            continue
        if gives(kernel, inputs, right):
            calls[str(schedule)] = in_turn(
                [partial(kernel, inputs.data, picks, inputs.out) for picks in inputs.indices]
            )
        else:
            rejected[str(schedule)] = "other bytes"
            wrong.append(f"{case.name}: {schedule} gives other bytes than NumPy")
    first = str(chosen.schedule)
    if first not in calls:
        raise GathernestError(f"{case.name}: the chosen schedule gives no result to compare with: {rejected[first]}")
    measured_us, best, ratio = _raced(calls, first, rounds)
    named = tuple(
        Candidate(str(schedule), measured_us.get(str(schedule)), predict(schedule), rejected[str(schedule)])
        for schedule in schedules
    )
    return Regretted(case, named, best, ratio, tuple(wrong))


def _predictions(case: Case, nest: NestShape, machine: MachineModel) -> Callable[[Schedule], float]:
    """Return what predicts the time of schedules."""
    model = Model(nest, machine, is_gradient=case.is_gradient)
    return lambda schedule: model.predict(schedule).time_us


def _first(proposed: Iterable[Schedule], most: int, predicted_us: Callable[[Schedule], float]) -> list[Schedule]:
    """Return the chosen schedule, those that differ from it in one pass, and the best predicted of the others."""
    chosen, *others = proposed
    others.sort(key=lambda other: (min(_changed_fields(chosen, other), 2), predicted_us(other)))
    return [chosen, *itertools.islice(others, most - 1)]


def _changed_fields(one: Schedule, other: Schedule) -> int:
    return len({type(step) for step in set(one) ^ set(other)})


def gives(kernel: Kernel, inputs: Inputs, right: np.ndarray) -> bool:
    """Return whether a kernel gives the right bytes for the first set of indices."""
    inputs.out.fill(1)
    kernel(inputs.data, inputs.indices[0], inputs.out)
    return first_difference(inputs.out, right) is None


def _raced(calls: dict[str, Any], chosen: str, rounds: int) -> tuple[dict[str, float], str, float]:
    """Return the times of all candidates, the fastest, and how many times as fast as the chosen one it is.

    Those that are far slower in the first rounds have their time there, in units of that of the chosen one: a machine
    can be slower in these rounds than in the later ones. The fastest of many is partly the luckiest, so it is timed
    again beside the chosen one alone.
    """
    first = time_interleaved(calls, rounds=FIRST_ROUNDS, settle_s=0.0)
    least = FAR_SLOWER * min(map(first.median_s, calls))
    left = {name: call for name, call in calls.items() if name == chosen or first.median_s(name) <= least}
    timings = time_interleaved(left, rounds=rounds, settle_s=0.0)
    chosen_us = 1e6 * timings.median_s(chosen)
    measured_us = {name: chosen_us / first.ratio(name, chosen) for name in calls}
    measured_us.update({name: 1e6 * timings.median_s(name) for name in left})
    best = max(left, key=lambda name: timings.ratio(name, chosen))
    if best == chosen:
        return measured_us, best, 1.0
    pair = {name: calls[name] for name in (chosen, best)}
    ratio = time_interleaved(pair, rounds=2 * rounds, settle_s=0.0).ratio(best, chosen)
    best_us = chosen_us / ratio  # others that were faster in the first rounds were lucky
    return {name: max(time_us, best_us) for name, time_us in measured_us.items()} | {best: best_us}, best, ratio


def as_csv(measured: Measured) -> str:
    """Return the times as rows of `COLUMNS`, which `judged` reads."""
    lines = [",".join(COLUMNS)]
    for one in measured.cases:
        for each in one.candidates:
            if each.measured_us is not None:
                cells = one.case.name, measured.machine.name, measured.threads, each.schedule, f"{each.measured_us:.4g}"
                lines.append(",".join(f'"{cell}"' if "," in str(cell) else str(cell) for cell in cells))
    return "\n".join(lines) + "\n"


def judged(path: Path, machine: MachineModel | None = None) -> Measured:
    """Return stored measurements with the choices and predictions that are made today.

    A choice that was not among the measured candidates has no time, and its case no regret.

    Args:
        path: a file that `as_csv` wrote.
        machine: the model to choose by; the model in the file when omitted.

    Raises:
        GathernestError: the file is none, or is of a machine or a case that is not known.
    """
    times: dict[str, dict[str, float]] = {}
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        if not rows:
            raise ValueError("it has no rows")
        for row in rows:
            times.setdefault(row["case"], {})[str(Schedule.parse(row["schedule"]))] = float(row["time_us"])
        model = replace(BUILT_IN[rows[0]["machine"]], threads=int(rows[0]["threads"])) if machine is None else machine
        cases = [BY_NAME[name] for name in times]
    except (OSError, ValueError, TypeError, KeyError, IndexError, ScheduleError) as error:
        reason = str(getattr(error, "strerror", None) or repr(error))
        raise GathernestError(
            f"{path} is no file of `gathernest bench --regret --csv FILE` ({reason}); write one, and name it with "
            "--from"
        ) from None
    found = [_judged(case, times[case.name], model) for case in cases]
    return Measured(found, 0, model.threads, model, 0.0, path.name)


def _judged(case: Case, measured_us: Mapping[str, float], machine: MachineModel) -> Regretted:
    nest = Layout.of(problem_of_case(case)).nest
    chosen = str(choice_for(nest, machine, is_gradient=case.is_gradient).schedule)
    predict = _predictions(case, nest, machine)
    named = [
        Candidate(text, measured_us.get(text), predict(Schedule.parse(text)), "" if text in measured_us else "no time")
        for text in dict.fromkeys([chosen, *measured_us])
    ]
    best = min(measured_us, key=lambda text: measured_us[text])
    ratio = measured_us[chosen] / measured_us[best] if chosen in measured_us else None
    return Regretted(case, tuple(named), best, ratio)


@dataclass(frozen=True, slots=True)
class Summary:
    """All cases together.

    Attributes:
        geometric_mean, worst, worst_case: of the regrets that are known.
        median_error: of the predictions of the chosen schedules, without their signs; None where there are none.
        median_error_of_all: the same of all candidates.
    """

    geometric_mean: float
    worst: float
    worst_case: str
    median_error: float | None
    median_error_of_all: float | None


def summary(found: Sequence[Regretted]) -> Summary:
    """Return the mean and the worst regret, and the median error of the chosen schedules and of all candidates."""
    regrets = {one.case.name: one.regret for one in found if one.regret is not None}
    worst_case = max(regrets, key=lambda name: regrets[name], default="none")
    chosen = [abs(one.chosen.error) for one in found if one.chosen.error is not None]
    every = [abs(each.error) for one in found for each in one.candidates if each.error is not None]
    return Summary(
        geometric_mean(list(regrets.values())) or 1.0,
        regrets.get(worst_case, 1.0),
        worst_case,
        statistics.median(chosen) if chosen else None,
        statistics.median(every) if every else None,
    )


def as_markdown(measured: Measured) -> str:
    """Return a table of the cases, then what the best schedules have that the chosen ones have not, then the means."""
    found = measured.cases
    headings = "case", "candidates", "chosen", "best", "regret", "predicted", "error"
    table = markdown_table(headings, ["---", *["--:"] * 6], [_row(one) for one in found])
    better = [f"* {one.case.name}: {_difference(one)}" for one in found if (one.regret or 1.0) >= SHOWN_REGRET]
    better += [
        f"* {one.case.name}: {one.chosen.schedule} is chosen, and was not measured"
        for one in found
        if one.regret is None
    ]
    all_of_them = summary(found)
    measured_by = (
        f"medians of {measured.rounds} interleaved rounds in one process, bytes compared first; other processes used "
        f"{measured.busy_cores:.1f} cores meanwhile"
    )
    where = f"{measured.cpu}, {measured.cores} cores" if measured.rounds else f"times of {measured.cpu}"
    lines = [
        f"regret: geometric mean {all_of_them.geometric_mean:.3f}, worst {all_of_them.worst:.2f} "
        f"({all_of_them.worst_case})",
        f"error of the prediction: median {_percent(all_of_them.median_error)} of the chosen schedules, "
        f"{_percent(all_of_them.median_error_of_all)} of all candidates",
        f"{where}, model {measured.machine.name}; {measured.threads} threads"
        + (f"; {measured_by}" if measured.rounds else ""),
    ]
    return "\n\n".join(text for text in (table, "\n".join(better), "\n".join(lines)) if text)


def _row(one: Regretted) -> tuple[str, ...]:
    timed = sum(each.measured_us is not None for each in one.candidates)
    times = map(time_text, (one.chosen.measured_us, one.best_us))
    error = one.chosen.error
    predicted = time_text(one.chosen.predicted_us)
    return (one.case.name, str(timed), *times, ratio_text(one.regret) if one.regret else "?", predicted, _signed(error))


def _difference(one: Regretted) -> str:
    chosen, best = (list(map(str, Schedule.parse(text))) for text in (one.chosen.schedule, one.best))
    less, more = ([text for text in these if text not in those] for these, those in ((chosen, best), (best, chosen)))
    return " ".join(f"{word} {', '.join(texts)}" for word, texts in (("without", less), ("with", more)) if texts)


def _signed(error: float | None) -> str:
    return "" if error is None else f"{100 * error:+.0f} %"


def _percent(error: float | None) -> str:
    return "unknown" if error is None else f"{100 * error:.0f} %"


def as_json(measured: Measured) -> dict[str, Any]:
    """Return everything as JSON can hold it."""
    return {
        "cpu": measured.cpu,
        "cores": measured.cores,
        "machine_model": asdict(measured.machine),
        "busy_cores": measured.busy_cores,
        "threads": measured.threads,
        "rounds": measured.rounds,
        "summary": asdict(summary(measured.cases)),
        "cases": [
            {
                **asdict(one.case),
                **{name: getattr(one, name) for name in ("regret", "ratio", "best")},
                "candidates": [asdict(each) for each in one.candidates],
            }
            for one in measured.cases
        ],
    }
