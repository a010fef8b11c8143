"""`gathernest report`: every level of a gather, operator to assembly, in one HTML file with provenance and times."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...interop.models.model import load
from ...ir.errors import ModelError, did_you_mean
from ...ir.problem import Problem
from ...kernels.host.checkout import commit_of
from ...kernels.host.dependencies import require
from ...kernels.host.files import read_text
from ...kernels.host.knobs import knobs
from ...kernels.kernel import Kernel
from ...kernels.problems.named_problem import problem_of
from ...kernels.runtime.plan import make_plan
from ...lowering.registry import Pipeline
from ...lowering.schedule.schedule import Schedule
from ..console.model_inputs import describe_problem
from ..console.problem_options import (
    ASSUMED_SIZE,
    add_problem_options,
    add_target_option,
    check_machine,
    problem_arguments,
    read_schedule,
    take_target,
)
from ..console.terminal import DONE, Parser, UsageError, add_option, check_file, make_console, positive, progress

if TYPE_CHECKING:
    from ...playground.sections import Beside, Section

# Timings of each schedule, and the gathers of a model that are shown in full.
ROUNDS, MOST_IN_FULL = 9, 8
EXAMPLES = """examples:
  gathernest report --data 100000x64xf32 --indices 20000xi64 -o report.html
  gathernest report --data 8x8xf32 --indices 5xui8 --bounds zero --schedule "" --no-timing
  gathernest report --data 100000x64xf32 --indices 20000xi64 --against "vectorize-inner{lanes=8}"
  gathernest report --data 1000x64xf32 --indices 100xi64 --against-revision main
  gathernest report model.onnx --node /embedding/Gather"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_option(parser, "[MODEL]", "a .onnx file, or the .xml of an OpenVINO IR: its gathers")
    add_problem_options(parser)
    add_option(parser, "--schedule TEXT")
    add_option(parser, "--pipeline TEXT", "every pass, as gathernest-opt -p takes them; no schedule")
    against = parser.add_mutually_exclusive_group()
    for usage, text in (
        ("--against TEXT", "another schedule beside it, each level with what differs"),
        ("--against-pipeline TEXT", "the same with another pipeline"),
        (
            "--against-revision REV",
            "the same by another revision of gathernest: a commit, branch or tag of this checkout",
        ),
        ("--against-machine NAME", "the same with the schedule for another machine, named as by GATHERNEST_MACHINE"),
    ):
        add_option(against, usage, text)
    named = "another schedule beside it, from a file, under a name; may be given several times"
    add_option(parser, "--with NAME=FILE ...", named, dest="named")
    add_option(parser, "-o --output FILE", "where to write it (default: report.html)", default="report.html")
    add_option(parser, "--no-timing", "measure nothing: no time beside the roofline bound, no worth of passes")
    add_target_option(parser)
    add_option(parser, "--rounds N", f"timings of each schedule (default: {ROUNDS})", type=positive)
    node = f"of a model: only the gather of that node; the first {MOST_IN_FULL} that differ when omitted"
    add_option(parser, "--node NAME", node)
    add_option(parser, "--allow-external-data")


class _Job(NamedTuple):
    """A gather to report: its name in the page, the problem, and what it is compiled with."""

    name: str
    problem: Problem
    schedule: Schedule | Pipeline | None
    remarks: tuple[str, ...] = ()


def run(options: argparse.Namespace) -> int:
    """Write the report that the command line describes."""
    require("xdsl", "numba", "llvmlite", "jinja2", "pygments")
    if options.no_timing and options.rounds is not None:
        raise UsageError("--rounds is for timings, and --no-timing measures nothing; leave out one of them")
    check_file("-o", options.output)
    take_target(options, is_timed=not options.no_timing)
    given = _given(options.schedule, options.pipeline)
    kinds = {"": "schedule", "_pipeline": "pipeline", "_machine": "machine", "_revision": "revision"}
    others = {kind: getattr(options, f"against{name}") for name, kind in kinds.items()}
    others = {kind: other for kind, other in others.items() if other is not None}
    if options.model is not None:
        if isinstance(given, Pipeline) or others or options.named:
            raise UsageError("--pipeline, --against and --with are for one gather, and this is a model; leave them out")
        return _report_model(options, given)
    if options.node is not None:
        raise UsageError("--node is for a model, and there is none; name its file, or leave out --node")
    from ...playground.sections import Beside, beside

    problem = problem_of(**problem_arguments(options))
    read_schedule(options.against, "--against")
    if options.against_machine is not None:
        check_machine("--against-machine", options.against_machine)
    if options.against_revision is not None and isinstance(given, Pipeline):
        raise UsageError("--against-revision is for a schedule, and --pipeline is given; leave out one of them")
    if options.against_revision is not None:
        commit_of(options.against_revision)
    named = [Beside(name, schedule) for name, schedule in map(_named_schedule, options.named)]
    if not others and not named:
        return _write(options, [_Job("", problem, given)])
    return _write_beside(options, problem, given, [*([beside(problem, given, **others)] if others else []), *named])


def _named_schedule(text: str) -> tuple[str, Schedule | None]:
    """Return the name and the schedule of `NAME=FILE`."""
    name, equals, file = text.partition("=")
    if not equals or not name or not Path(file).is_file():
        raise UsageError(f"--with: expected NAME=FILE with a schedule in the file, got {text!r}")
    return name, read_schedule(read_text(file).strip(), f"--with {name}")


def _given(schedule: str | None, pipeline: str | None) -> Schedule | Pipeline | None:
    """Return what options say of the passes; None where they are chosen by the sizes."""
    if pipeline is not None and schedule is not None:
        raise UsageError("--pipeline has the passes of the schedule in it; leave out --pipeline or --schedule")
    if pipeline is not None:
        return Pipeline(pipeline)
    return read_schedule(schedule)


def _report_model(options: argparse.Namespace, schedule: Schedule | None) -> int:
    """Write the report of a model's gathers: those that have kernels of their own in full, the others in a line."""
    if options.data is not None or options.indices is not None:
        raise UsageError("a report is of a model or of one gather; leave out MODEL, or --data and --indices")
    model = load(options.model, allow_external_data=options.allow_external_data)
    problems = model.gathers(ASSUMED_SIZE)
    if not problems:
        raise ModelError(f"{model.name} has no gather left that runs as a kernel, so there is nothing to report")
    if options.node is not None and options.node not in problems:
        raise ModelError(
            f"{model.name} has no gather {options.node!r}; it has {', '.join(problems)}"
            f"{did_you_mean(options.node, problems)}"
        )
    keys: dict[str, str] = {}
    for name, problem in problems.items():
        keys.setdefault(make_plan(problem, schedule).key, name)
    in_full = [options.node] if options.node is not None else list(keys.values())[:MOST_IN_FULL]
    others = [(name, describe_problem(problem)) for name, problem in problems.items() if name not in in_full]
    remark = f"Sizes that only a run of the model knows are taken as {ASSUMED_SIZE}."
    jobs = [_Job(name, problems[name], schedule, (remark,)) for name in in_full]
    return _write(options, jobs, others, title=f"gathernest report: {model.name}")


def _write(
    options: argparse.Namespace,
    jobs: Sequence[_Job],
    others: Sequence[tuple[str, str]] = (),
    *,
    title: str = "gathernest report",
) -> int:
    """Make the sections and write the page."""
    from ...playground.report import page
    from ...playground.sections import section_of

    timing, sections = not options.no_timing, []
    with progress("reporting", len(jobs)) as show:
        for job in jobs:
            show(said=job.name or job.problem.name)
            kernel = _kernel(job.problem, job.schedule, timing=timing)
            sections.append(
                section_of(kernel, name=job.name, timing=timing, rounds=options.rounds or ROUNDS, remarks=job.remarks)
            )
            show(1)
    return _save(options.output, page(sections, others, title=title), sections)


def _write_beside(
    options: argparse.Namespace, problem: Problem, given: Schedule | Pipeline | None, others: "Sequence[Beside]"
) -> int:
    """Write the page of a gather and of others beside it."""
    from ...playground.report import BESIDE, page
    from ...playground.sections import sections_beside

    timing, rounds = not options.no_timing, options.rounds or ROUNDS
    with progress("reporting") as show:
        kernel = _kernel(problem, given, timing=timing)
        sections, in_turn = sections_beside(
            kernel, given, others, timing=timing, rounds=rounds, say=lambda name: show(said=name)
        )
    return _save(options.output, page(sections, title=BESIDE, compare=True, in_turn=in_turn), sections)


def _kernel(problem: Problem, given: Schedule | Pipeline | None, *, timing: bool) -> Kernel:
    with knobs.scope(interpret=knobs.interpret or not timing):  # the report compiles it on its own
        return Kernel(problem, given)


def _save(path: str, text: str, sections: Sequence["Section"]) -> int:
    """Write a page, and say how large it is and what it maps."""
    Path(path).write_text(text, encoding="utf-8")
    traces = [section.trace for section in sections if section.trace.has_provenance]
    mapped, of = (sum(numbers) for numbers in zip(*(each.mapped for each in traces), strict=True))
    share = f"{100 * mapped / of:.0f} %" if of else "none"
    make_console().print(
        f"{path}: {len(text.encode()) / 1000:.0f} kB; {share} of the work of the hot loops maps to the operator"
    )
    return DONE
