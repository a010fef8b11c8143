"""The regret: the chosen schedule of every case beside the best of other candidates, and the prediction's error."""

import csv
import io
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.errors import GathernestError, ScheduleError, show
from ...ir.numbers import parse_real, parse_whole
from ...kernels.host.cpu import OtherLoad, cpu_model, usable_cores
from ...kernels.host.files import read_text
from ...kernels.host.knobs import knobs
from ...kernels.host.machine import machine_model
from ...kernels.runtime.layout import Layout
from ...lowering.schedule.candidates import Space, candidates
from ...lowering.schedule.machine_model import BUILT_IN, MachineModel
from ...lowering.schedule.predict import Model
from ...lowering.schedule.schedule import Schedule
from ...lowering.schedule.shared_kernels import choose_shared
from ..console.terminal import markdown_table, time_text
from .cases import BY_NAME, Case, problem_of_case
from .measure import OURS, geometric_mean, measure
from .peers import Gathernest, WithSchedule, compile_case
from .report import ratio_text

COLUMNS = ("case", "machine", "threads", "schedule", "time_us")
SHOWN_REGRET = 1.05  # the best schedule is told below the table from here on


@dataclass(frozen=True, slots=True)
class Candidate:
    """One schedule of a case.

    Attributes:
        schedule: its text; empty for the nest as it stands.
        measured_us: the median time of a call; None where it was not measured.
        predicted_us: the time by the cost model.
    """

    schedule: str
    measured_us: float | None
    predicted_us: float

    @property
    def error(self) -> float | None:
        """The predicted time divided by the measured one, minus 1."""
        return None if self.measured_us is None else self.predicted_us / self.measured_us - 1


@dataclass(frozen=True, slots=True)
class Regretted:
    """One case.

    Attributes:
        case: the case.
        candidates: the chosen schedule first, then the other measured ones.
        wrong: the faults of candidates, which are not timed.
    """

    case: Case
    candidates: tuple[Candidate, ...]
    wrong: tuple[str, ...] = ()

    @property
    def chosen(self) -> Candidate:
        """The schedule that is chosen."""
        return self.candidates[0]

    @property
    def best(self) -> Candidate:
        """The measured candidate with the least time, the chosen one among equals."""
        return min(self.candidates, key=lambda each: math.inf if each.measured_us is None else each.measured_us)

    @property
    def regret(self) -> float | None:
        """The time of the chosen schedule divided by the time of the best; None where it was not measured."""
        chosen_us, best_us = self.chosen.measured_us, self.best.measured_us
        return None if chosen_us is None or best_us is None else chosen_us / best_us


@dataclass(frozen=True, slots=True)
class Measured:
    """A run.

    Attributes:
        cases: the candidates of each.
        rounds: the number of timings of each candidate, 0 where the times are stored ones.
        threads: the number of threads.
        machine: the model that schedules were chosen by.
        busy_cores: the number of cores that other processes used meanwhile.
        cpu, cores: the machine; of stored times, the name of their file.
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
    with knobs.scope(num_threads=threads, tuning="off"):  # calls within a tuned schedule take a longer way
        for case in cases:
            found.append(_regretted(case, rounds, threads, most))
            advance(1)
        return Measured(found, rounds, threads, machine_model(), load.cores())


def _regretted(case: Case, rounds: int, threads: int, most: int) -> Regretted:
    chosen = compile_case(case, ArraySpec(case.indices, np.dtype(case.index_dtype)))
    nest, machine = chosen.plan.layout.nest, machine_model()
    model = Model(nest, machine)
    proposed = candidates(Space(nest, chosen.schedule, machine))
    first, *others = _first(proposed, most, lambda schedule: model.predict(schedule).time_us)
    timed = partial(measure, case, rounds=rounds, threads=threads, is_alone=True)
    found = timed([Gathernest(), *map(WithSchedule, others)])
    if OURS not in found.median_us:
        why = found.wrong.get(OURS, "it is rejected")
        raise GathernestError(f"{case.name}: the chosen schedule gives no result to compare with: {why}")
    best, ratio = OURS, min(found.ratios.values(), default=1.0)
    if ratio < 1:
        # The fastest of many is partly the luckiest, so it is timed again beside the chosen one alone.
        best = min(found.ratios, key=lambda name: found.ratios[name])
        again = next(one for one in others if str(one) == best)
        ratio = timed([Gathernest(), WithSchedule(again)]).ratios[best]
    best_us = found.median_us[OURS] * min(ratio, 1.0)
    measured_us = {name: max(us, best_us) for name, us in found.median_us.items()} | {best: best_us}
    measured_us = {str(first): measured_us.pop(OURS), **measured_us}
    return _judged(
        case, str(first), measured_us, model, [f"{case.name}: {name}: {why}" for name, why in found.wrong.items()]
    )


def _first(proposed: Iterable[Schedule], most: int, predicted_us: Callable[[Schedule], float]) -> list[Schedule]:
    """Return the chosen schedule, the schedules that differ from it in one pass, and the best predicted others."""
    chosen, *others = proposed
    changed = {other: {type(step) for step in set(chosen) ^ set(other)} for other in others}
    others.sort(key=lambda other: (min(len(changed[other]), 2), predicted_us(other)))
    return [chosen, *itertools.islice(others, most - 1)]


def as_csv(measured: Measured) -> str:
    """Return the times as rows of `COLUMNS`, which `judged` reads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in measured.cases:
        times = [(each.schedule, f"{each.measured_us:.4g}") for each in one.candidates if each.measured_us is not None]
        writer.writerows((one.case.name, measured.machine.name, measured.threads, *cells) for cells in times)
    return text.getvalue()


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
        rows = list(csv.DictReader(read_text(path).splitlines()))
        if not rows:
            raise ValueError("it has no rows")
        for row in rows:
            times.setdefault(row["case"], {})[str(Schedule.parse(row["schedule"]))] = _positive(row["time_us"])
        model = (
            replace(BUILT_IN[rows[0]["machine"]], threads=parse_whole(rows[0]["threads"], 1))
            if machine is None
            else machine
        )
        cases = [BY_NAME[name] for name in times]
    except (OSError, ValueError, TypeError, KeyError, IndexError, ScheduleError, csv.Error) as error:
        words = error if isinstance(error, ValueError | csv.Error) else repr(error)
        reason = str(getattr(error, "strerror", None) or words)
        raise GathernestError(
            f"{path} is no file of `gathernest bench --regret --csv FILE` ({reason}); write one, and name it with "
            "--from"
        ) from None
    found: list[Regretted] = []
    for case in cases:
        nest = Layout.of(problem_of_case(case)).nest
        chosen = str(choose_shared(nest, model).schedule)
        found.append(_judged(case, chosen, times[case.name], Model(nest, model)))
    return Measured(found, 0, model.threads, model, 0.0, path.name)


def _positive(text: str) -> float:
    number = parse_real(text)
    if number <= 0:
        raise ValueError(f"expected a number above 0, got {show(text)}")
    return number


def _judged(
    case: Case, chosen: str, measured_us: Mapping[str, float], model: Model, wrong: Sequence[str] = ()
) -> Regretted:
    """Return the candidates of a case with their times by schedule, and with their predictions."""
    named = (
        Candidate(text, measured_us.get(text), model.predict(Schedule.parse(text)).time_us)
        for text in dict.fromkeys([chosen, *measured_us])
    )
    return Regretted(case, tuple(named), tuple(wrong))


class Summary(NamedTuple):
    """The known regrets, and the median errors of predictions, without their signs; None where there are none."""

    geometric_mean: float
    worst: float
    worst_case: str
    median_error: float | None
    median_error_of_all: float | None


def summary(found: Sequence[Regretted]) -> Summary:
    """Return the regrets, and the errors of the chosen schedules and of all candidates."""
    regrets = {one.case.name: one.regret for one in found if one.regret is not None}
    worst_case = max(regrets, key=lambda name: regrets[name], default="none")
    errors = (
        [abs(each.error) for each in some if each.error is not None]
        for some in ([one.chosen for one in found], [each for one in found for each in one.candidates])
    )
    medians = (statistics.median(each) if each else None for each in errors)
    mean = geometric_mean(list(regrets.values())) or 1.0
    return Summary(mean, regrets.get(worst_case, 1.0), worst_case, *medians)


def as_markdown(measured: Measured) -> str:
    """Return a table of the cases, the differences of the best schedules from the chosen ones, and the means."""
    found = measured.cases
    table = markdown_table(
        ("case", ">candidates", ">chosen", ">best", ">regret", ">predicted", ">error"), map(_row, found)
    )
    better = [f"* {one.case.name}: {_difference(one)}" for one in found if (one.regret or 1.0) >= SHOWN_REGRET]
    better += [
        f"* {one.case.name}: {one.chosen.schedule} is chosen, and was not measured"
        for one in found
        if one.regret is None
    ]
    both = summary(found)
    measured_by = (
        f"; medians of {measured.rounds} interleaved rounds in one process, bytes compared first; other processes used "
        f"{measured.busy_cores:.1f} cores meanwhile"
    )
    where = f"{measured.cpu}, {measured.cores} cores" if measured.rounds else f"times of {measured.cpu}"
    lines = [
        f"regret: geometric mean {both.geometric_mean:.3f}, worst {both.worst:.2f} ({both.worst_case})",
        f"error of the prediction: median {_percent(both.median_error)} of the chosen schedules, "
        f"{_percent(both.median_error_of_all)} of all candidates",
        f"{where}, model {measured.machine.name}; {measured.threads} threads{measured_by if measured.rounds else ''}",
    ]
    return "\n\n".join(text for text in (table, "\n".join(better), "\n".join(lines)) if text)


def _row(one: Regretted) -> tuple[str, ...]:
    timed = sum(each.measured_us is not None for each in one.candidates)
    times = map(time_text, (one.chosen.measured_us, one.best.measured_us))
    error = "" if one.chosen.error is None else f"{100 * one.chosen.error:+.0f} %"
    predicted = time_text(one.chosen.predicted_us)
    return (one.case.name, str(timed), *times, ratio_text(one.regret) if one.regret else "?", predicted, error)


def _difference(one: Regretted) -> str:
    chosen, best = (list(map(str, Schedule.parse(text))) for text in (one.chosen.schedule, one.best.schedule))
    less, more = ([text for text in these if text not in those] for these, those in ((chosen, best), (best, chosen)))
    return " ".join(f"{word} {', '.join(texts)}" for word, texts in (("without", less), ("with", more)) if texts)


def _percent(error: float | None) -> str:
    return "unknown" if error is None else f"{100 * error:.0f} %"
