"""`gathernest report`: every level of a gather, operator to assembly, in one HTML file with provenance and times."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...ir.errors import ModelError, did_you_mean
from ...ir.problem import Problem
from ...kernels.host.dependencies import require
from ...kernels.host.knobs import knobs
from ...kernels.kernel import Kernel, problem_of
from ...kernels.model import load
from ...kernels.runtime.plan import make_plan
from ...lowering.schedule.schedule import Schedule
from ..console.problem_options import add_problem_options, problem_arguments
from ..console.terminal import DONE, Parser, UsageError, make_console, positive, progress

# Timings of each schedule; the gathers of a model that are shown in full; what is taken for an unknown size.
ROUNDS, MOST_IN_FULL, ASSUMED_SIZE = 9, 8, 128
EXAMPLES = """examples:
  gathernest report --data 100000x64xf32 --indices 20000xi64 -o report.html
  gathernest report --data 8x8xf32 --indices 5xui8 --bounds zero --schedule "" --no-timing
  gathernest report model.onnx --node /embedding/Gather"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="a .onnx file, or the .xml of an OpenVINO IR: its gathers"
    )
    add_problem_options(parser, required=False)
    parser.add_argument(
        "--schedule",
        metavar="TEXT",
        help='such as "tile-loops{loops=indices sizes=64}"; empty for none; chosen by the sizes when omitted',
    )
    parser.add_argument(
        "-o", "--output", default="report.html", metavar="FILE", help="where to write it (default: report.html)"
    )
    parser.add_argument(
        "--no-timing",
        action="store_true",
        help="measure nothing: no time beside the roofline bound, no worth of passes",
    )
    parser.add_argument(
        "--rounds", type=positive, default=ROUNDS, metavar="N", help=f"timings of each schedule (default: {ROUNDS})"
    )
    parser.add_argument(
        "--node",
        metavar="NAME",
        help=f"of a model: only the gather of that node; the first {MOST_IN_FULL} that differ when omitted",
    )
    parser.add_argument(
        "--allow-external-data", action="store_true", help="read a model's weights from other files in its folder"
    )


def run(options: argparse.Namespace) -> int:
    """Write the report that the command line describes."""
    require("xdsl", "numba", "llvmlite", "jinja2", "pygments")
    schedule = None if options.schedule is None else Schedule.parse(options.schedule)
    if options.model is not None:
        return _report_model(options, schedule)
    if options.node is not None:
        raise UsageError("--node is for a model, and there is none; name its file, or leave out --node")
    return _write(options, {"": problem_of(**problem_arguments(options))}, schedule)


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
    others = [(name, _line(problem)) for name, problem in problems.items() if name not in in_full]
    chosen = {name: problems[name] for name in in_full}
    remark = f"Sizes that only a run of the model knows are taken as {ASSUMED_SIZE}."
    return _write(options, chosen, schedule, others, (remark,), title=f"gathernest report: {model.name}")


def _write(
    options: argparse.Namespace,
    problems: Mapping[str, Problem],
    schedule: Schedule | None,
    others: Sequence[tuple[str, str]] = (),
    remarks: tuple[str, ...] = (),
    title: str = "gathernest report",
) -> int:
    """Make the sections and write the page."""
    from ...kernels.report.page import page
    from ...kernels.report.section import section_of

    timing, sections = not options.no_timing, []
    with progress("reporting", len(problems)) as show:
        for name, problem in problems.items():
            show(said=name or problem.name)
            with knobs.scope(interpret=knobs.interpret or not timing):  # the report compiles it on its own
                kernel = Kernel(problem, schedule)
            sections.append(section_of(kernel, name=name, timing=timing, rounds=options.rounds, remarks=remarks))
            show(1)
    text = page(sections, others, title=title)
    Path(options.output).write_text(text, encoding="utf-8")
    mapped, of = (sum(numbers) for numbers in zip(*(section.trace.mapped for section in sections), strict=True))
    share = f"{100 * mapped / of:.0f} %" if of else "none"
    make_console().print(
        f"{options.output}: {len(text.encode()) / 1000:.0f} kB; {share} of the work of the hot loops maps to it"
    )
    return DONE


def _line(problem: Problem) -> str:
    return f"{problem.name} {problem.table} by {problem.indices}, bounds {problem.bounds}"
