"""`gathernest report`: every level of a gather, operator to assembly, in one HTML file with provenance and times."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...interop.models.model import load
from ...ir.errors import ModelError, did_you_mean
from ...kernels.host.checkout import commit_of
from ...kernels.host.dependencies import require
from ...kernels.host.files import read_text, write_file
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
    from ...playground.sections import Subject

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
        ("--against TEXT", "another schedule beside it, each level with the differences"),
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
    parser.alone("no_timing", ("rounds",), "measures nothing")
    parser.alone("pipeline", ("schedule",), "has the passes of a schedule in it")


def run(options: argparse.Namespace) -> int:
    """Write the report that the command line describes."""
    require("xdsl", "numba", "llvmlite", "jinja2", "pygments")
    check_file("-o", options.output)
    take_target(options, is_timed=not options.no_timing)
    given = read_schedule(options.schedule) if options.pipeline is None else Pipeline(options.pipeline)
    kinds = {"": "schedule", "_pipeline": "pipeline", "_machine": "machine", "_revision": "revision"}
    others = {kind: getattr(options, f"against{name}") for name, kind in kinds.items()}
    others = {kind: other for kind, other in others.items() if other is not None}
    if options.model is not None:
        if isinstance(given, Pipeline) or others or options.named:
            raise UsageError("--pipeline, --against and --with are for one gather, and this is a model; leave them out")
        from_model = _subjects_of_model(options, given)
        return _write(options, *from_model, title=f"gathernest report: {Path(options.model).name}")
    if options.node is not None:
        raise UsageError("--node is for a model, and there is none; name its file, or leave out --node")
    from ...playground.sections import Subject, beside, name_of

    problem = problem_of(**problem_arguments(options))
    read_schedule(options.against, "--against")
    if options.against_machine is not None:
        check_machine("--against-machine", options.against_machine)
    if options.against_revision is not None:
        commit_of(options.against_revision)
    beside_it = [beside(problem, given, **others)] if others else []
    beside_it += [Subject(name, problem, schedule) for name, schedule in map(_named_schedule, options.named)]
    first = Subject(f"A, {name_of(given)}" if beside_it else "", problem, given)
    return _write(options, [first, *beside_it], compare=bool(beside_it))


def _named_schedule(text: str) -> tuple[str, Schedule | None]:
    """Return the name and the schedule of `NAME=FILE`."""
    name, equals, file = text.partition("=")
    if not equals or not name or not Path(file).is_file():
        raise UsageError(f"--with: expected NAME=FILE with a schedule in the file, got {text!r}")
    return name, read_schedule(read_text(file).strip(), f"--with {name}")


def _subjects_of_model(
    options: argparse.Namespace, schedule: Schedule | None
) -> "tuple[list[Subject], list[tuple[str, str]]]":
    """Return the gathers of a model that have kernels of their own, and the name and the text of each other gather."""
    from ...playground.sections import Subject

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
    return [Subject(name, problems[name], schedule, (remark,)) for name in in_full], others


def _write(options: argparse.Namespace, subjects: "list[Subject]", *others: Any, **settings: Any) -> int:
    """Write the page of some gathers, and print its size and the share of the work that it maps."""
    from ...playground.report import report

    path, timing = options.output, not options.no_timing
    with progress("reporting", len(subjects)) as show:
        rounds = options.rounds or ROUNDS
        text, sections = report(subjects, *others, timing=timing, rounds=rounds, progress=show, **settings)
    write_file(path, text)
    traces = [section.trace for section in sections if section.trace.has_provenance]
    mapped, of = (sum(numbers) for numbers in zip(*(each.mapped for each in traces), strict=True))
    share = f"{100 * mapped / of:.0f} %" if of else "none"
    make_console().print(
        f"{path}: {len(text.encode()) / 1000:.0f} kB; {share} of the work of the hot loops maps to the operator"
    )
    return DONE
