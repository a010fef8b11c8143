"""`gathernest show`: print any stage of any gather, as text or as a picture of its loops, or explain its time."""

import argparse
import itertools
import json
import shlex
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from ...ir.errors import GathernestError, InvalidGatherError, did_you_mean
from ...kernels.host.dependencies import require
from ...kernels.host.knobs import knobs
from ...kernels.kernel import Kernel
from ...kernels.kernel import compile as compile_gather
from ...lowering.registry import SCHEDULED_NEST
from ..console.problem_options import (
    DEFAULTS,
    add_model_options,
    add_problem_options,
    add_target_option,
    problem_arguments,
    read_schedule,
    take_model,
    take_target,
)
from ..console.stages import diff_ends, draw, join_stages, print_diff, unified_diff
from ..console.terminal import (
    DONE,
    Parser,
    UsageError,
    add_option,
    answer,
    flag_of,
    make_console,
    positive,
    print_table,
    progress,
)

if TYPE_CHECKING:
    from ...lowering.pipeline import Stage
    from ...lowering.provenance.assembly import Instruction
    from ...playground.beside_upstream import BesideUpstream

    Stages = dict[str, Stage]

CODE_STAGES = {
    "pipeline": "the passes with their options, as gathernest-opt -p takes them",
    "source": "the Python source that Numba compiles",
    "llvm": "the LLVM IR of the compiled kernel",
    "asm": "its assembly",
}
NO_STAGES = (*CODE_STAGES, "all", "list")
NEST = "lower-to-nest"
ROUNDS = 9
NOT_RUN = {
    "nothing": "Nothing of this runs for these sizes: the result is empty.",
    "zeros": "Nothing of this runs for these sizes: the axis is empty, and the result is zeros.",
    "reject": "Nothing of this runs for these sizes: the axis is empty, and a call is rejected.",
}
EXAMPLES = """examples:
  gathernest show --data 2x64x128xf32 --indices 2x32x21xi64 --axis 1 --batch-dims 1
  gathernest show --data 1000x64xf32 --indices 100xi64 --stage hoist-invariants --picture
  gathernest show --data 1000x64xf32 --indices 100xi64 --stage all
  gathernest show --data 1000x64xf32 --indices 100xi64 --diff parallelize-loops
  gathernest show --data 1000x64xf32 --indices 100xi64 --diff fold-bounds..hoist-invariants --picture
  gathernest show --data 8x8xf32 --indices 5xui8 --bounds zero --schedule "" --stage source
  gathernest show --operator gather_grad --data 1000x64xf32 --indices 5000xi64 --stage hoist-invariants --picture
  gathernest show --operator gather_reduce --data 1000x64xui8 --indices 100x8xi64 --quantised --weights
  gathernest show --data 1000000x64xf32 --indices 100000xi64 --explain
  gathernest show --data 1000x64xf32 --indices 100xi64 --upstream
  gathernest show --model model.onnx --node /embedding/Gather
  gathernest show --data "4x3xf32 strided<[1, 4]>" --indices 2xi32 --stage collapse-dims"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_problem_options(parser)
    add_model_options(parser)
    add_option(parser, "--schedule TEXT")
    add_option(parser, "-p --passes PASSES", "the whole pipeline, in the place of a schedule")
    add_option(
        parser,
        "--stage NAME",
        "operator, the name of a pass, pipeline, source, llvm or asm; all for every stage of the IR, as "
        "gathernest-opt --split-input-file reads it; list for their names; a short overview when omitted; the second "
        "cse of a pipeline is cse#2",
    )
    diff = "print the changes of a pass, as a unified diff; A..B for the changes between any two stages"
    add_option(parser, "--diff PASS", diff)
    add_option(parser, "--picture", "draw the loops of the stage instead of its text")
    add_option(
        parser,
        "--explain",
        "measure it with random indices: bytes by stream, the roofline bound, the time, and what each pass of the "
        "schedule is worth; the first time, the machine is measured as well, for some ten seconds",
    )
    add_option(
        parser,
        "--upstream",
        "compile the stage, which is the last where --stage names none, by upstream's mlir-opt and LLVM as well; print "
        "the command line, and compare bytes, time and assembly",
    )
    rounds = f"of --explain and --upstream: how often each is timed (default: {ROUNDS})"
    add_option(parser, "--rounds N", rounds, type=positive)
    checked = "of calls with out, whose indices are all checked before anything is written; of new results when omitted"
    add_option(parser, "--with-out", checked)
    add_target_option(parser)
    add_option(parser, "--json")
    parser.alone("upstream", ("diff", "explain", "picture"), "compares one stage at loops level")
    parser.alone("diff", ("stage", "explain"), "prints the difference of two stages and nothing else")
    parser.alone("explain", ("stage", "picture"), "measures the kernel and shows no stage")
    parser.needs(("rounds",), "explain", "upstream")


def run(options: argparse.Namespace) -> int:
    """Print the parts that the command line selects."""
    from ...kernels.runtime.compile import build_program, module_of, stages_of
    from ...lowering.pipeline import stages_by_name

    require("xdsl", "numba", "llvmlite")
    if options.upstream and options.stage in NO_STAGES:
        raise UsageError(f"--upstream compares one stage at loops level; leave out --stage {options.stage}")
    take_target(options, is_timed=options.explain or options.upstream)
    take_model(options)
    arguments = problem_arguments(options)
    schedule = read_schedule(options.schedule)
    with knobs.scope(interpret=True):  # only LLVM IR and assembly need a compilation
        kernel = compile_gather(**arguments, schedule=schedule, pipeline=options.passes)
        kernel = kernel.with_out if options.with_out else kernel
    if options.explain:
        return _print_explanation(kernel, options.rounds or ROUNDS, as_json=options.json)
    plan = kernel.plan
    made: list[Stage] = []
    failure = None
    try:
        made.extend(stages_of(plan, module_of(plan.problem)))
    except GathernestError as error:
        failure = error
        if not made:
            raise
    stages = stages_by_name(made)
    asked = (options.stage,) if options.diff is None else diff_ends(options.diff, list(stages))
    if failure is not None and (options.upstream or not {*asked} <= {*stages, "all", "list"}):
        raise failure
    if knobs.dump_dir is not None and failure is None:
        build_program(plan)  # writes the stages
    _check_stage(options.stage, options.picture and options.diff is None, list(stages))
    if options.upstream:
        _print_upstream(kernel, stages, options)
    elif options.diff is not None:
        _print_diff(kernel, stages, options)
    elif options.json:
        facts = {"gather": _title(kernel), "key": plan.key, "schedule": str(plan.schedule), "action": plan.action}
        print(json.dumps({**facts, "pipeline": plan.pipeline, "stages": _as_json(kernel, stages, options)}))
    elif options.stage is None:
        _print_overview(kernel, stages, NOT_RUN.get(plan.action))
    elif options.stage == "list":
        _print_list(stages, kernel)
    else:
        sys.stdout.write(_stage_text(kernel, stages, options.stage, picture=options.picture))
    if failure is not None:
        raise failure
    return DONE


def _print_explanation(kernel: Kernel, rounds: int, *, as_json: bool) -> int:
    """Measure a kernel over made-up arrays, and print how far it is from its roofline bound, and why."""
    from ...kernels.machine.explain import explain

    with progress("explaining") as show:
        explanation = explain(kernel, rounds=rounds, progress=lambda step: show(said=step))
    console = make_console()

    def print_text() -> None:
        console.print(_title(kernel), style="bold")
        for name, lines in explanation.sections().items():
            console.print(f"\n{name}", style="bold")
            console.print("\n".join(lines))

    answer(as_json, {**explanation.to_json(), "gather": _title(kernel)}, print_text)
    return DONE


def _print_diff(kernel: Kernel, stages: "Stages", options: argparse.Namespace) -> None:
    """Print how one stage differs from another."""
    first, second = diff_ends(options.diff, list(stages))
    for name in (first, second):
        _check_name(name, list(stages))
    before, after = (draw(stages[name]) or "" if options.picture else stages[name].text for name in (first, second))
    text = unified_diff(before, after, (f"after {first}" if first != "operator" else first, f"after {second}"))
    same = f"{second} is the same as {first}" if ".." in options.diff else f"{second} changed nothing"
    facts = {"gather": _title(kernel), "before": first, "after": second, "diff": text}
    answer(options.json, facts, lambda: print_diff(text) if text else print(same))


def _print_upstream(kernel: Kernel, stages: "Stages", options: argparse.Namespace) -> None:
    """Compile a stage by upstream's tools, and print how it compares with ours."""
    from ...playground.beside_upstream import beside_upstream

    name = options.stage or list(stages)[-1]
    found = beside_upstream(kernel.plan, name, stages[name].text, options.rounds or ROUNDS)
    command = _show_command(options, name, str(kernel.schedule))
    facts = {"gather": _title(kernel), **found.to_json(), "command": _whole_command(found, command)}
    answer(options.json, facts, lambda: _print_beside(found, command))


def _show_command(options: argparse.Namespace, stage: str, schedule: str) -> str:
    """Return the command line that prints a stage of the gather that options name, with that schedule."""
    words = ["gathernest", "show"]
    for name in ("operator", "data", "indices", "axis", "batch_dims", "bounds", "scale"):
        if getattr(options, name) != DEFAULTS.get(name):
            words += [flag_of(name), str(getattr(options, name))]
    words += ["--schedule", schedule] if options.passes is None else ["--passes", options.passes]
    return shlex.join([*words, "--stage", stage])


def _whole_command(found: "BesideUpstream", show: str) -> str:
    """Return the pipe of programs from a gather to upstream's assembly, as a shell takes it."""
    return " \\\n  | ".join([show, "gathernest-opt -t upstream", *found.command.split(" | ")])


def _print_beside(found: "BesideUpstream", show: str) -> None:
    """Print a comparison."""
    from ...playground.beside_upstream import OURS, THEIRS

    console = make_console()
    sections = {
        f"Stage {found.stage} by upstream": [_whole_command(found, show), *([found.remark] if found.remark else [])],
        "Bytes of the result": [
            f"{maker:<10}  {found.differences.get(maker) or 'equal to the reference of the operator'}"
            for maker in (OURS, THEIRS)
        ],
        "Time of a call from Python, by one thread": [
            *(f"{maker:<10}  {found.times_us[maker]:.2f} µs" for maker in (OURS, THEIRS)),
            f"{OURS} is {found.ratio:.2f} times as fast: the median of the ratios within each round",
        ],
    }
    for title, lines in sections.items():
        console.print(title, style="bold")
        console.print("\n".join(lines), end="\n\n")
    console.print("Hot loops (--json has the whole assembly)", style="bold")
    loops = itertools.zip_longest(found.hot_loops(OURS), found.hot_loops(THEIRS), fillvalue=[])
    pairs = (itertools.zip_longest(*map(_loop_lines, pair), fillvalue="") for pair in loops)
    print_table(console, ("gathernest", "| upstream"), [(left, f"| {right}") for pair in pairs for left, right in pair])


def _loop_lines(loop: "list[Instruction]") -> list[str]:
    """Return a line that counts the instructions of a loop, and the instructions; nothing where there is no loop."""
    counts = Counter(each.kind for each in loop if each.kind)
    head = f"# {counts.total()} instructions: {', '.join(f'{count} {kind}' for kind, count in counts.items())}"
    return ["", head, *(each.text for each in loop)] if loop else []


def _check_name(name: str, allowed: list[str]) -> None:
    """Check that a pipeline has a stage; raises InvalidGatherError."""
    if name in allowed:
        return
    from ...lowering.registry import NAMES

    if name in NAMES:
        raise InvalidGatherError(f"pass {name!r} is not in the pipeline of this gather; --schedule can name it")
    raise InvalidGatherError(
        f"there is no stage {name!r}{did_you_mean(name, allowed) or '.'} --stage list names them all"
    )


def _check_stage(name: str | None, picture: bool, passes: list[str]) -> None:
    if name is not None:
        _check_name(name, [*passes, *NO_STAGES])
    if picture and (name in (None, "list") or name in CODE_STAGES):
        raise InvalidGatherError(
            "--picture draws the loops of one stage of the IR, or of all; add --stage with a pass from "
            f"{NEST!r} to {passes[-1]!r}, such as --stage {SCHEDULED_NEST}, or "
            "--stage all"
        )


def _stage_text(kernel: Kernel, stages: "Stages", name: str, *, picture: bool) -> str:
    if name == "all":
        return join_stages(stages.values(), pictures=picture)
    if name in CODE_STAGES:
        makers = {"source": lambda: kernel.source, "llvm": kernel.llvm_ir, "asm": kernel.asm}
        text = makers.get(name, lambda: kernel.pipeline)()
        return text if text.endswith("\n") else f"{text}\n"
    if not picture:
        from ...ir.modules.exec_comment import header

        problem = kernel.problem
        return header(problem, problem.source, problem.indices) + stages[name].text
    picture_text = draw(stages[name])
    if picture_text is None:
        raise InvalidGatherError(f"stage {name!r} has no loops to draw yet; the first that has is {NEST!r}")
    return picture_text


def _as_json(kernel: Kernel, stages: "Stages", options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the selected stages; all of them, without their text, for the overview and the list."""
    name: str = options.stage or "list"
    if name in CODE_STAGES:
        return [{"name": name, "text": _stage_text(kernel, stages, name, picture=False)}]
    entries: list[dict[str, Any]] = []
    for unique, stage in stages.items() if name in ("list", "all") else [(name, stages[name])]:
        entry: dict[str, Any] = {
            "name": unique,
            "pass": stage.name,
            "op_count": stage.op_count,
            "milliseconds": round(stage.milliseconds, 3),
        }
        if options.picture:
            entry["picture"] = draw(stage)
        if name != "list":
            entry["text"] = stage.text
        entries.append(entry)
    return entries


def _title(kernel: Kernel) -> str:
    problem = kernel.problem
    return f"{problem.name} {problem.source} by {problem.indices} -> {problem.result}, {problem.options}"


def _print_overview(kernel: Kernel, stages: "Stages", remark: str | None) -> None:
    console = make_console()
    console.print(_title(kernel), style="bold")
    if remark is not None:
        console.print(remark)
    for title, name in (("The nest", NEST), ("The scheduled nest", SCHEDULED_NEST)):
        if name not in stages:  # of a pipeline that was given
            continue
        console.print(f"\n{title} (--stage {name} --picture)", style="bold")
        console.print(_stage_text(kernel, stages, name, picture=True), end="")
    console.print("\nThe stages (--stage NAME, or all)", style="bold")
    _print_list(stages, kernel)


def _print_list(stages: "Stages", kernel: Kernel) -> None:
    """Print a line a stage, with its name, its operations and its purpose; then the schedule or the pipeline."""
    from ...lowering.registry import summary

    console = make_console()
    before = None
    for name, stage in stages.items():
        said = "The gather as its document states it." if name == "operator" else summary(stage.pass_name)
        if stage.text == before:
            said = f"(changed nothing) {said}"
        style = "dim" if stage.text == before else ""
        console.print(f"{name:<22}{stage.op_count:>4} ops  {said}", style=style, soft_wrap=not console.is_terminal)
        before = stage.text
    is_given = kernel.plan.given is not None
    for name, said in CODE_STAGES.items():
        if name == "pipeline" or not kernel.plan.missing_pass:  # the others are made of loops
            line = f"{name:<32}{said[:1].upper() + said[1:]}."
            console.print(line, soft_wrap=not console.is_terminal)
    text = kernel.pipeline.replace(",", ",\n") if is_given else str(kernel.schedule).replace("},", "},\n")
    console.print("\nThe pipeline (--passes)" if is_given else "\nThe schedule (--schedule)", style="bold")
    console.print(text or ("no passes" if is_given else "none: one thread runs the nest as it stands"))
