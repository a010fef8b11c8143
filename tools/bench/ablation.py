"""The ablation: the time of every case without each pass of its schedule, as Markdown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ...ir.errors import ScheduleError
from ...kernels.host.knobs import knobs
from ...kernels.host.timing import time_interleaved
from ...lowering.schedule.schedule import NO_SCHEDULE, shorter_schedules
from ...lowering.schedule.steps import STEPS, GatherLanes, StreamStores
from .cases import Case, Inputs
from .measure import geometric_mean
from .peers import compile_case
from .report import markdown_table

ALL = "all of them"


@dataclass(slots=True)
class Ablated:
    """One case.

    Attributes:
        worth: by pass, how many times as fast the whole schedule is as the one without; the median over the rounds.
        rejected: by pass, why the schedule without it is not legal.
    """

    case: Case
    worth: dict[str, float] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)


def ablate(cases: Sequence[Case], *, rounds: int, threads: int, advance: Callable[[int], None]) -> list[Ablated]:
    """Time every gather of the suite without each pass of its schedule; `advance` is called after each case."""
    found: list[Ablated] = []
    with knobs.scope(num_threads=threads):
        for case in cases:
            if not case.is_gradient and case.family != "call":
                found.append(_ablated(case, case.make(sets=1), rounds))
            advance(1)
    return found


def _ablated(case: Case, inputs: Inputs, rounds: int) -> Ablated:
    whole = compile_case(case, inputs.indices[0])
    result, kernels = Ablated(case), {"": whole}
    shorter = {name.partition("{")[0]: rest for name, rest in shorter_schedules(whole.schedule).items()}
    if "vectorize-inner" in shorter:
        without = shorter["vectorize-inner"]  # only vectors are gathered and streamed
        shorter["vectorize-inner"] = without.without(GatherLanes, StreamStores)
    for name, schedule in [*shorter.items(), (ALL, NO_SCHEDULE)]:
        try:
            kernels[name] = compile_case(case, inputs.indices[0], schedule)
        except ScheduleError as error:
            result.rejected[name] = str(error)
    arrays = inputs.data, inputs.indices[0], inputs.out
    calls = {name: partial(kernel, *arrays) for name, kernel in kernels.items()}
    timings = time_interleaved(calls, rounds=rounds)
    result.worth = {name: timings.ratio("", beside=name) for name in kernels if name}
    return result


def as_markdown(ablated: Sequence[Ablated]) -> str:
    """Return a table of families, and one of cases: how many times as fast a schedule is with each pass as without."""
    names = [name for name in (*STEPS, ALL) if any(name in one.worth for one in ablated)]
    families = dict.fromkeys(one.case.family for one in ablated)
    means = [(family, *(_mean(ablated, family, name) for name in names)) for family in families]
    cases = [(one.case.name, *(_cell(one, name) for name in names)) for one in ablated]
    titles, marks = [f"`{name}`" if name in STEPS else name for name in names], ["---", *["--:"] * len(names)]
    return "\n\n".join(
        markdown_table([what, *titles], marks, rows) for what, rows in (("family", means), ("case", cases))
    )


def _cell(one: Ablated, name: str) -> str:
    if name in one.worth:
        return f"{one.worth[name]:.2f}×"
    return "needed" if name in one.rejected else ""


def _mean(ablated: Sequence[Ablated], family: str, name: str) -> str:
    ratios = [one.worth[name] for one in ablated if one.case.family == family and name in one.worth]
    mean = geometric_mean(ratios)
    return "" if mean is None else f"{mean:.2f}×" + (f" ({len(ratios)})" if len(ratios) > 1 else "")
