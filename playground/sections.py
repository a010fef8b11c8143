"""The sections of a report: the facts, levels, drawings and times of a gather, and of others beside it."""

import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.errors import GathernestError, InvalidGatherError, show
from ..ir.operator_spec import GatherWeighted
from ..ir.problem import Problem
from ..kernels.host.checkout import RevisionError, extract
from ..kernels.host.cpu import cpu_model, package_version
from ..kernels.host.knobs import knobs
from ..kernels.host.machine import machine_model
from ..kernels.host.timing import time_interleaved
from ..kernels.kernel import Kernel
from ..kernels.machine.explain import Explanation
from ..kernels.machine.traffic import fewest_bytes
from ..kernels.runtime.compile import module_of, passes_of, source_header
from ..kernels.runtime.plan import Plan, make_plan
from ..kernels.tuning.sample_arrays import sample_arrays
from ..lowering.pipeline import stages_by_name
from ..lowering.provenance.record import trace_lowering
from ..lowering.provenance.trace import Trace
from ..lowering.registry import SCHEDULED_NEST, Pipeline
from ..lowering.schedule.schedule import Schedule
from .accesses import small_instance, spread_indices
from .caches import Caches, caches_of
from .drawings import access_drawing, nest_drawing, shortened
from .levels import first_open
from .machine_analysis import MachineAnalysisError, machine_analysis
from .step import step_stage
from .trace import Steps

# Timings of each schedule; threads of the small gathers that are drawn and stepped through.
ROUNDS, THREADS = 9, 4
# Compiling a gather twice takes seconds; a machine under load takes a minute.
LIMIT_S = 300
# The longest name of a gather beside another, in letters.
MOST_LETTERS = 60


def trace(plan: Plan) -> Trace:
    """Return every level of a plan, operator to assembly.

    Raises:
        GathernestError: as `stages_of`, and CompileError where the backend rejects the source.
    """
    passes, context, edits = passes_of(plan)
    return trace_lowering(module_of(plan.problem), passes, context, header=source_header(plan), edits=edits)


def element_steps(plan: Plan) -> Steps | None:
    """Return the steps of the last element of a small gather with the plan's loops, of data 0, 1, 2 and so on.

    None where nothing can be stepped through: the result is empty, or no such stage is there or is legal.
    """
    instance = small_instance(plan)
    problem, spec = instance.problem, instance.problem.source
    with suppress(GathernestError):
        stages = stages_by_name(instance.stages())
        name = SCHEDULED_NEST if SCHEDULED_NEST in stages else list(stages)[-1]
        arrays = np.arange(spec.size).astype(spec.dtype).reshape(spec.shape), spread_indices(problem)
        return step_stage(stages[name].text, name, problem, *arrays, problem.result.size - 1, threads=THREADS)
    return None


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of one scale.

    Attributes:
        heading: the title.
        rows: of each bar its name, its value (None where there is no bar), that with its unit or why there is none, and
            its kind, which is its class.
        marked: a value at which a line stands, and its name; None for none.
    """

    heading: str
    rows: Sequence[tuple[str, float | None, str, str]]
    marked: tuple[float, str] | None = None

    @property
    def longest(self) -> float:
        """The value of the longest bar, or of the line; 1 where all are 0."""
        values = [value for _, value, *_ in self.rows if value is not None] + ([self.marked[0]] if self.marked else [])
        return max(values, default=0.0) or 1.0


def byte_bars(streams: Sequence[tuple[str, float]]) -> Bars:
    """Return a bar for the fewest bytes of each stream of (name, bytes), with its share of all."""
    total = sum(count for _, count in streams)
    rows = [(name, count, f"{bytes_text(count)}, {count / (total or 1):.0%}", name) for name, count in streams]
    return Bars(f"The fewest bytes: {bytes_text(total)}", rows)


def time_bars(explanation: Explanation) -> Bars:
    """Return bars of the measured time beside the times that bound it; the line is the roofline bound."""
    bound = explanation.bound
    times = [
        ("copy of as many bytes", bound.copy_us, "bound"),
        ("lines at random places", bound.lines_us, "bound"),
        ("predicted by the cost model", explanation.predicted_us, "bound"),
        (f"measured, median of {explanation.rounds}", explanation.measured_us, "measured"),
        ("measured, fastest round", explanation.fastest_us, "measured"),
    ]
    heading = f"The time: fraction {explanation.fraction:.2f} of the roofline bound (dashed), by {bound.bound_by}"
    rows = [(name, us, _time(us), kind) for name, us, kind in times if us is not None]
    return Bars(heading, rows, (bound.time_us, f"roofline bound: {_time(bound.time_us)}"))


def worth_bars(explanation: Explanation) -> Bars:
    """Return bars of how many times as fast the schedule is with each of its passes as without."""
    rows = []
    for ablation in explanation.ablations:
        faster, without_us = ablation.times_as_fast, ablation.measured_us
        text = f"not legal: {ablation.rejected or 'not timed'}"
        if faster is not None and without_us is not None:
            text = f"{faster:.2f}×, {_time(without_us)} without it"
        rows.append((ablation.left_out, faster, text, "gain" if (faster or 0) >= 1 else "loss"))
    heading = "How many times as fast with the pass as without" if rows else "The schedule has no passes to leave out"
    return Bars(heading, rows, (1.0, "1: no difference") if any(row[1] is not None for row in rows) else None)


def bytes_text(count: float) -> str:
    """Return a number of bytes with a unit that makes it short."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.3g} {unit}" if count < 1000 * size else f"{count / size:,.0f} {unit}"
    return f"{count:,.0f} bytes"


def _time(time_us: float) -> str:
    return f"{time_us / 1e3:,.2f} ms" if time_us >= 1000 else f"{time_us:,.2f} µs"


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing.

    Attributes:
        title, caption: as text.
        svg: the text of the drawing; empty where there are bars alone.
        level: whose lines the `data-line` of its elements are; None for none.
        bars: groups of bars.
        text: another program's report.
    """

    title: str
    caption: str
    svg: str = ""
    level: int | None = None
    bars: tuple[Bars, ...] = ()
    text: str = ""


def figures(plan: Plan, trace: Trace, explanation: Explanation | None) -> tuple[Figure, ...]:
    """Return the drawings of a gather.

    They are its nest as the schedule left it, the memory accesses of a small one, the analysis of the hot loop by
    llvm-mca where it is installed, and, where it was timed, its times and the gain of each pass.
    """
    drawn = [
        Figure(
            "The scheduled nest",
            f"After {level.name.partition('{')[0]}. Click a box: it lights up in every level.",
            nest_drawing(level.text, title="The scheduled nest"),
            number,
        )
        for number, level in enumerate(trace.levels)
        if level.kind == "stage" and number in first_open(trace.levels)
    ]
    if not isinstance(plan.problem.operator, GatherWeighted):  # whose small accesses have weights, and no drawing
        who = "each slice that a small reduction" if plan.problem.reduces else "each element of a small gather"
        verb = "sums is read from" if plan.problem.reduces else "reads"
        said = f"Which line of data {who} with the same loops {verb}, by which thread."
        drawn.append(Figure("The memory accesses", said, access_drawing(plan)))
    drawn += machine_figures(trace)
    if explanation is not None:
        bound = explanation.bound
        threads = f"{bound.threads} thread{'s' * (bound.threads != 1)}"
        measured = f"Medians of {explanation.rounds} rounds on {cpu_model()}, {threads}, random indices."
        groups = byte_bars(bound.traffic.streams), time_bars(explanation)
        drawn.append(Figure("Bytes and time", measured, bars=groups))
        drawn.append(Figure("What each pass is worth", "Timed in turn without it.", bars=(worth_bars(explanation),)))
    return tuple(drawn)


def machine_figures(trace: Trace) -> list[Figure]:
    """Return llvm-mca's analysis of the hottest loop: its text, a reason why there is none, or nothing without it."""
    assembly, title = trace.levels[-1], "The hot loop on a core"
    if not assembly.hot_loops:
        return []
    try:
        report = machine_analysis(assembly.lines, assembly.hot_loops[0])
    except MachineAnalysisError as error:
        return [Figure(title, f"There is no analysis: {error}.")]
    return [] if report is None else [Figure(title, "As llvm-mca simulates it.", text=report)]


@dataclass(frozen=True, slots=True)
class Section:
    """One gather.

    Attributes:
        name: a word for the list of gathers: the operator, or the node of a model.
        gather: the operator with its arrays and attributes.
        problem: the shapes, dtypes and attributes.
        width_bytes: the size of the elements that its kernel moves.
        schedule: the passes of its schedule, or of the pipeline that was given, each with its options.
        reasons: why this schedule.
        pipeline: every pass, as `gathernest-opt -p` takes them.
        trace: every level.
        arrays: (role, type as the caller has it, dimensions of its view) of data, indices and result, as text.
        streams: (name, bytes) of the fewest bytes that it moves.
        figures: its drawings.
        steps: one element of a small gather with its loops, step by step; None where there is none.
        caches: the lines that a small gather with its loops fetches; None where there is none.
        explanation: its times; None where nothing was timed.
        not_timed: why nothing was timed; empty where it was.
        remarks: other facts, such as assumed sizes.
    """

    name: str
    gather: str
    problem: Problem
    width_bytes: int
    schedule: tuple[str, ...]
    reasons: tuple[str, ...]
    pipeline: str
    trace: Trace
    arrays: tuple[tuple[str, str, str], ...]
    streams: tuple[tuple[str, float], ...]
    figures: tuple[Figure, ...]
    steps: Steps | None
    caches: Caches | None
    explanation: Explanation | None
    not_timed: str
    remarks: tuple[str, ...] = ()


def section_of(
    kernel: Kernel, *, name: str = "", timing: bool = True, rounds: int = ROUNDS, remarks: tuple[str, ...] = ()
) -> Section:
    """Return the section of a kernel; it is compiled anew, and timed where that is wanted and possible.

    Raises:
        GathernestError: it cannot be compiled.
    """
    plan, explanation, not_timed = kernel.plan, None, "Timing was not asked for."
    traced, problem, canonical = trace(plan), plan.problem, plan.layout.canonical
    if timing:
        try:
            explanation, not_timed = kernel.explain(rounds=rounds), ""
        except (GathernestError, MemoryError) as error:
            not_timed = f"Nothing was timed: {error}."
    slices, table = ("result", "data") if problem.gradient is None else ("grad", "result")
    arrays = [
        (role, str(spec), ", ".join(f"{dim} {size}" for dim, size in zip(view.dims, view.shape, strict=True)))
        for role, spec, view in (
            (table, problem.table, canonical.data),
            ("indices", problem.indices, canonical.indices),
            (slices, problem.slices, canonical.out),
        )
    ]
    return Section(
        name or problem.name,
        repr(kernel).strip("<>").removeprefix("gathernest kernel: "),
        problem,
        plan.layout.width_bytes,
        pass_lines(str(plan.schedule) if plan.given is None else plan.given.text),
        plan.reasons,
        plan.pipeline,
        traced,
        tuple(arrays),
        (explanation.bound.traffic if explanation else fewest_bytes(problem)).streams,
        figures(plan, traced, explanation),
        element_steps(plan),
        caches_of(plan),
        explanation,
        not_timed,
        remarks,
    )


def pass_lines(text: str) -> tuple[str, ...]:
    """Return each pass of a schedule or a pipeline, with its options."""
    return tuple(text.replace("},", "}\n").splitlines())


def machine_facts() -> tuple[tuple[str, str], ...]:
    """Return the CPU, the machine model that schedules were chosen by, and the versions, as (name, text)."""
    model = machine_model()
    chosen = "" if knobs.machine is None else ", by GATHERNEST_MACHINE"
    versions = ", ".join(f"{name} {package_version(name)}" for name in ("gathernest", "numba", "llvmlite", "xdsl"))
    target = os.environ.get("NUMBA_CPU_NAME")
    return (
        ("CPU", cpu_model()),
        *([("code for", target)] if target else []),
        ("machine model", f"{model.name}, {model.threads} threads{chosen}"),
        ("with", versions),
    )


@dataclass(frozen=True, slots=True)
class Subject:
    """A gather that a report shows.

    Attributes:
        name: its name on the page.
        problem: the gather.
        given: its schedule or pipeline; None where the sizes choose.
        remarks: other facts, a sentence each.
        revision: the revision that compiles it; None for this one.
    """

    name: str
    problem: Problem
    given: Schedule | Pipeline | None = None
    remarks: tuple[str, ...] = ()
    revision: str | None = None

    def kernel(self, *, is_timed: bool) -> Kernel:
        """Return its kernel, which is compiled only if it is timed: a section compiles the gather on its own."""
        with knobs.scope(interpret=knobs.interpret or not is_timed):
            return Kernel(self.problem, self.given)


def beside(
    problem: Problem,
    given: Schedule | Pipeline | None,
    *,
    schedule: Kernel | Schedule | str | None = None,
    pipeline: str | None = None,
    machine: str | None = None,
    revision: str | None = None,
) -> Subject:
    """Return the gather to compare a gather with; exactly one of the options is given.

    Args:
        problem, given: the gather, and its schedule or pipeline.
        schedule: another schedule, or a kernel.
        pipeline: another pipeline, as text.
        machine: the machine whose schedule is taken.
        revision: the revision of this package that compiles the gather.

    Raises:
        InvalidGatherError: none or several are given, or a revision beside a gather with a pipeline.
        ScheduleError: the schedule does not parse.
        KnobError: there is no such machine.
    """
    chosen = [option for option in (schedule, pipeline, machine, revision) if option is not None]
    if len(chosen) != 1:
        raise InvalidGatherError(
            "a report takes one schedule, pipeline, machine, revision or kernel beside a gather, got "
            f"{len(chosen)}; leave out the others"
        )
    if isinstance(schedule, Kernel):
        return Subject("B, the other kernel", schedule.problem, schedule.plan.given or schedule.given_schedule)
    if schedule is not None and not isinstance(schedule, Schedule | str):
        raise InvalidGatherError(f"a kernel, a schedule or its text stands beside a kernel, got {show(schedule)}")
    if revision is not None:
        if isinstance(given, Pipeline):
            raise InvalidGatherError("another revision is given a schedule, and this gather has a pipeline; leave one")
        return Subject(f"B, at {revision}", problem, given, revision=revision)
    if machine is not None:
        with knobs.scope_of_options(machine=("against_machine", machine)):
            passes = make_plan(problem, takes_tuned=False).schedule
        remark = f"Its schedule is the one for {machine}; its code is compiled for this CPU, on which all times are."
        return Subject(f"B, the schedule for {machine}", problem, passes, (remark,))
    passes = Pipeline(pipeline) if pipeline is not None else Schedule.parse(str(schedule))
    return Subject(f"B, {name_of(passes)}", problem, passes)


def name_of(given: Schedule | Pipeline | None) -> str:
    """Return a name for passes by which two schedules differ: where they come from, or themselves."""
    if given is None:
        return "chosen by the sizes"
    if isinstance(given, Pipeline):
        return "the given pipeline"
    return shortened(str(given), MOST_LETTERS) or "without a schedule"


@dataclass(frozen=True, slots=True)
class InTurn:
    """The times of kernels in rounds that begin with each in turn; the first is A.

    Attributes:
        names: of the kernels.
        times_us: the median time of a call of each.
        ratios: how many times as fast each of the others is as A: the median of the ratios within each round.
        rounds: how many there were.
    """

    names: tuple[str, ...]
    times_us: tuple[float, ...]
    ratios: tuple[float, ...]
    rounds: int

    def __str__(self) -> str:
        rounds = f"{self.rounds} round{'s' * (self.rounds != 1)}"
        pairs = zip(self.names[1:], self.ratios, strict=True)
        each = ", ".join(f"{name.partition(',')[0]} is {ratio:.2f} times as fast as A" for name, ratio in pairs)
        return f"They were timed in turn, {rounds}: {each}, the median of the ratios within each round."


def timed_in_turn(kernels: Sequence[Kernel], names: Sequence[str], rounds: int) -> InTurn:
    """Time a call of some kernels with made-up arrays; kernels of one gather share them.

    Raises:
        SampleError: arrays of these sizes do not fit in memory.
    """
    given = sample_arrays(kernels[0].problem)
    calls = {}
    for number, kernel in enumerate(kernels):
        data, indices = given if kernel.problem == kernels[0].problem else sample_arrays(kernel.problem)
        out = np.empty(kernel.problem.result.shape, kernel.problem.result.dtype)
        calls[str(number)] = functools.partial(kernel, data, indices, out)
    timings = time_interleaved(calls, rounds=rounds, settle_s=0)
    ratios = tuple(timings.ratio(name, beside="0") for name in calls if name != "0")
    return InTurn(tuple(names), tuple(1e6 * timings.median_s(name) for name in calls), ratios, rounds)


_PROGRAM = """
import importlib, importlib.util, json, sys
import gathernest as gn
is_new = importlib.util.find_spec("gathernest.playground")  # older revisions have it elsewhere
home = "playground.sections" if is_new else "kernels.report.trace_plan"
trace = importlib.import_module(f"gathernest.{home}").trace
given = json.load(sys.stdin)
plan = gn.compile(*given["arguments"], **given["options"]).plan
facts = {"schedule": str(plan.schedule), "reasons": plan.reasons, "pipeline": plan.pipeline}
json.dump(facts | {"trace": trace(plan).to_json()}, sys.stdout)
"""


def section_at(revision: str, section: Section, schedule: Schedule | None, *, name: str) -> Section:
    """Return a section of the same gather as a revision compiles it; it is not timed, and has no drawings.

    The revision runs from its sources in a process of its own.

    Args:
        revision: a commit, branch or tag of the checkout that this package runs from.
        section: the gather as compiled here.
        schedule: its schedule; chosen by the revision when None.
        name: of the section.

    Raises:
        RevisionError: there is no checkout or no such revision, or the revision fails.
    """
    problem = section.problem
    options: dict[str, Any] = {**problem.operator.attributes(), "bounds": str(problem.bounds)}
    if problem.gradient is not None:
        options |= {"data_shape": problem.table.shape, "scale": problem.gradient.scale}
    if schedule is not None:
        options["schedule"] = str(schedule)
    call = {"arguments": [problem.name, str(problem.source), str(problem.indices)], "options": options}
    with tempfile.TemporaryDirectory(prefix="gathernest-revision-") as folder:
        extract(revision, Path(folder, "gathernest"))
        environment = os.environ | {"PYTHONPATH": folder, "GATHERNEST_CACHE_DIR": os.path.join(folder, "cache")}
        pipes = {"capture_output": True, "text": True, "input": json.dumps(call)}
        try:
            ended = subprocess.run(
                [sys.executable, "-c", _PROGRAM], **pipes, check=False, timeout=LIMIT_S, env=environment, cwd=folder
            )
        except subprocess.TimeoutExpired:
            raise RevisionError(f"revision {revision} took more than {LIMIT_S} s; give smaller sizes") from None
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
        raise RevisionError(
            f"revision {revision} cannot report this gather: {reason}; name a later one, or a gather that it knows"
        )
    said = json.loads(ended.stdout.rpartition("\n")[2])  # a module such as `sitecustomize` may print lines
    try:
        traced = Trace.from_json(said["trace"])
    except (KeyError, TypeError) as error:
        raise RevisionError(
            f"revision {revision} describes its levels in another form ({error}); name a later one"
        ) from None
    return dataclasses.replace(
        section,
        name=name,
        trace=traced,
        figures=(),
        steps=None,
        caches=None,
        explanation=None,
        not_timed="Another revision is not timed here.",
        remarks=(f"As revision {revision} compiles it, on this machine.",),
        schedule=pass_lines(said["schedule"]),
        reasons=tuple(said["reasons"]),
        pipeline=said["pipeline"],
    )
