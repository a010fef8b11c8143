"""Pipelines: the parser of their text, and the recorder that keeps every stage."""

import dataclasses
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import ShrinkException

from ..ir.errors import SOURCE_HINT, GathernestError, InternalError, ScheduleError, did_you_mean
from ..ir.modules.context import check_dominance, make_context, verify_module
from ..ir.modules.plugins import import_error, package_of, why_unknown
from ..ir.modules.read_module import read_module
from .registry import PIPELINES, all_passes, is_own, own_passes
from .schedule.schedule import parse_specs
from .schedule.steps import Option, Step, read_options
from .stage_files import Stage, StageFile

# Without edits, every stage is as its pass makes it.
NO_EDITS: Mapping[int, ModuleOp] = MappingProxyType({})


def parse_passes(text: str) -> list[ModulePass]:
    """Read a pipeline: passes with options and named pipelines, such as `nest,tile-loops{loops=indices sizes=64}`.

    Raises:
        ScheduleError: the text does not parse, a pass is unknown, or an option does not fit.
    """
    known = own_passes()
    specs: list[ArgSpec] = []
    for spec in parse_specs(text):
        if spec.name in PIPELINES and spec.parameters:
            raise ScheduleError(
                f"the pipeline {spec.name} takes no options, got {', '.join(spec.parameters)}; "
                f"write its passes instead: {PIPELINES[spec.name]}"
            )
        specs += parse_specs(PIPELINES[spec.name]) if spec.name in PIPELINES else (spec,)
    passes: list[ModulePass] = []
    if any(spec.name not in known for spec in specs):
        known = all_passes()
    for spec in specs:
        if spec.name not in known:
            hints = why_unknown() + did_you_mean(spec.name, [*known, *PIPELINES])
            hints = hints or "; gathernest-opt --list-passes prints their names"
            raise ScheduleError(f"there is no pass {spec.name!r}{hints}") from import_error()
        kind = known[spec.name]()
        fields = {each.name: Option(each.name, each.type, default=None) for each in dataclasses.fields(kind)}
        options = kind.options if issubclass(kind, Step) else {name: fields[name] for name in fields if name != "name"}
        read_options(spec.name, options, spec.parameters)
        try:
            passes.append(kind.from_spec(spec))
        except ScheduleError:
            raise
        except Exception as error:
            reason = str(error).removeprefix(f"{spec.name} ")
            raise ScheduleError(f"pass {spec.name}: {reason}") from None
    return passes


def run_passes(module: ModuleOp, pipeline: str, context: Context) -> None:
    """Run a pipeline on a module in place, and check at the end that every value is defined before it is used.

    The whole verifier, which `run_pipeline` runs after every pass, takes as long as reading a model of many nodes.

    The error of a pass is raised unchanged; `run_pipeline` names the pass.
    """
    for step in parse_passes(pipeline):
        step.apply(context, module)
    check_dominance(module)


def stages_by_name(stages: Iterable[Stage]) -> dict[str, Stage]:
    """Return stages by the names of their passes; the second of `cse` is `cse#2`."""
    named: dict[str, Stage] = {}
    for stage in stages:
        earlier = sum(other.pass_name == stage.pass_name for other in named.values())
        named[f"{stage.pass_name}#{earlier + 1}" if earlier else stage.pass_name] = stage
    return named


def run_pipeline(module: ModuleOp, pipeline: str, context: Context | None = None) -> list[Stage]:
    """Run a pipeline on a module in place and return every stage, the input first; raises as `record_stages` does."""
    return list(record_stages(module, parse_passes(pipeline), context))


def record_stages(
    module: ModuleOp,
    passes: Sequence[ModulePass],
    context: Context | None = None,
    *,
    first: str = "operator",
    printed: Callable[[ModuleOp], str] = str,
    verify: bool = True,
    edits: Mapping[int, ModuleOp] = NO_EDITS,
) -> Iterator[Stage]:
    """Run passes on a module in place, verify after each, and yield every stage when it is made, the input first.

    Args:
        module: the input; it is changed.
        passes: the passes to run, in order.
        context: of the module; one with every dialect of ours when omitted.
        first: the name of the input stage.
        printed: makes the text of a stage.
        verify: whether to verify.
        edits: modules that replace stages, by the number of the stage; the input is stage 0.

    Raises:
        GathernestError: the input is rejected by a pass. The `source` of each error repeats it: the module below the
            command of `gathernest-opt` that runs the remaining passes.
        InternalError: a pass failed or left an invalid module. A ScheduleError where the pass is of another package.
    """
    context = context or make_context()
    _replace(module, edits.get(0))
    stage = _record(first, module, 0.0, printed)
    yield stage
    for number, step in enumerate(passes):
        start, what = time.perf_counter(), "failed"
        try:
            step.apply(context, module)
            milliseconds, what = (time.perf_counter() - start) * 1e3, "left an invalid module"
            if verify:
                verify_module(module)
        except Exception as error:
            source = f"// RUN: gathernest-opt %s -p {shlex.quote(','.join(map(str, passes[number:])))}\n{stage.text}"
            if isinstance(error, GathernestError | ShrinkException) and not isinstance(error, InternalError):
                if isinstance(error, GathernestError):
                    error.source = source
                raise
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
            happened = f"{step.name} {what}: {type(error).__name__}: {reason}"
            if not is_own(type(step).__module__):
                home = package_of("passes", step.name) or type(step).__module__
                whose = f"it is a pass of {home}, and {SOURCE_HINT} repeats it"
                raise ScheduleError(f"{happened}; {whose}", source=source) from error
            remedy = f"an edited stage may be why: {SOURCE_HINT} repeats it"
            remedy = remedy if edits else f"please report it with {SOURCE_HINT}"
            raise InternalError(f"{happened}; {remedy}", source=source) from error
        _replace(module, edits.get(number + 1))
        stage = _record(str(step).replace('"', ""), module, milliseconds, printed)
        yield stage


def read_edits(
    files: Sequence[StageFile],
    passes: Sequence[ModulePass],
    context: Context,
    *,
    first: str = "operator",
    verify: bool = True,
) -> dict[int, ModuleOp]:
    """Return edited stages as modules, by the number of the stage; raises GathernestError where one does not fit."""
    names = [first, *(step.name for step in passes)]
    return {file.number(names): read_module(file.text, file.path, context, verify=verify) for file in files}


def _replace(module: ModuleOp, edited: ModuleOp | None) -> None:
    """Put the operations of an edited stage in the place of a module's own."""
    if edited is not None:
        module.detach_region(module.body)
        module.add_region(edited.detach_region(edited.body))
        module.attributes, module.properties = edited.attributes, edited.properties


def _record(name: str, module: ModuleOp, milliseconds: float, printed: Callable[[ModuleOp], str]) -> Stage:
    return Stage(name, f"{printed(module).rstrip()}\n", milliseconds, sum(1 for _ in module.walk()))
