"""Pipelines: how their text becomes passes, and the recorder that keeps every stage."""

import dataclasses
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_origin

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ShrinkException
from xdsl.utils.hints import isa

from ..ir.errors import GathernestError, InternalError, ScheduleError, did_you_mean
from ..ir.modules.context import make_context, verify_module
from ..ir.modules.dominance import check_dominance
from .registry import PIPELINES, all_passes
from .schedule.schedule import parse_specs


@dataclass(frozen=True, slots=True)
class Stage:
    """The module after one pass.

    Attributes:
        name: the pass with its options; `operator` for the module as it came.
        text: the module in MLIR text.
        milliseconds: how long the pass took, without verification and printing.
        op_count: operations in the module.
    """

    name: str
    text: str
    milliseconds: float
    op_count: int

    @property
    def pass_name(self) -> str:
        """The pass without its options."""
        return self.name.partition("{")[0]


# What messages call the types of options.
KINDS: dict[Any, str] = {
    int: "a whole number",
    str: "a word",
    tuple[int, ...]: "whole numbers with commas between",
    tuple[str, ...]: "words with commas between",
}


def parse_passes(text: str) -> list[ModulePass]:
    """Read a pipeline: passes with options and named pipelines, such as `nest,tile-loops{loops=indices sizes=64}`.

    Raises:
        ScheduleError: the text does not parse, a pass is unknown, or an option does not fit.
    """
    known = all_passes()
    specs = [
        inner
        for spec in parse_specs(text)
        for inner in (parse_specs(PIPELINES[spec.name]) if spec.name in PIPELINES else (spec,))
    ]
    passes: list[ModulePass] = []
    for spec in specs:
        if spec.name not in known:
            raise ScheduleError(f"there is no pass {spec.name!r}{did_you_mean(spec.name, [*known, *PIPELINES])}")
        kind = known[spec.name]()
        options: dict[str, Any] = {field.name: field.type for field in dataclasses.fields(kind) if field.name != "name"}
        for given, values in spec.parameters.items():
            if given.replace("-", "_") not in options:
                raise ScheduleError(
                    f"pass {spec.name} has no option {given!r}; it takes {', '.join(options) or 'none'}"
                    f"{did_you_mean(given, options)}"
                )
            wanted = options[given.replace("-", "_")]
            if wanted in KINDS and not isa(values if get_origin(wanted) or len(values) != 1 else values[0], wanted):
                got = f"{given}={','.join(map(str, values))}" if values else given
                raise ScheduleError(f"pass {spec.name}: expected {KINDS[wanted]} for {given}, got {got!r}")
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

    What a pass raises comes as it is; `run_pipeline` names the pass.
    """
    for step in parse_passes(pipeline):
        step.apply(context, module)
    check_dominance(module)


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
) -> Iterator[Stage]:
    """Run passes on a module in place, verify after each, and yield every stage when it is made, the input first.

    Args:
        first: what the input is called.
        printed: makes the text of a stage.

    Raises:
        GathernestError: the input is rejected by a pass.
        InternalError: a pass failed or left an invalid module; the message names a file that repeats it.
    """
    context = context or make_context()
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
            if isinstance(error, GathernestError | ShrinkException) and not isinstance(error, InternalError):
                raise
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
            saved = save_reproducer(stage.text, passes[number:])
            raise InternalError(
                f"{step.name} {what}: {type(error).__name__}: {reason}; please report it with {saved}, which repeats it"
            ) from error
        stage = _record(str(step).replace('"', ""), module, milliseconds, printed)
        yield stage


def save_reproducer(text: str, passes: Sequence[ModulePass]) -> str:
    """Write a module with the passes that fail on it to a file that `gathernest-opt` runs; return its path."""
    pipeline = shlex.quote(",".join(map(str, passes)))
    with tempfile.NamedTemporaryFile("w", prefix="gathernest-", suffix=".mlir", delete=False, encoding="utf-8") as file:
        file.write(f"// RUN: gathernest-opt %s -p {pipeline}\n{text}")
    return file.name


def _record(name: str, module: ModuleOp, milliseconds: float, printed: Callable[[ModuleOp], str]) -> Stage:
    return Stage(name, f"{printed(module).rstrip()}\n", milliseconds, sum(1 for _ in module.walk()))
