"""What a report says of one gather, as a value: its facts, its trace, its drawings and its times."""

from dataclasses import dataclass

from ...ir.array_spec import ArraySpec
from ...ir.canonical import Operand
from ...ir.errors import GathernestError
from ...ir.problem import Problem
from ...lowering.provenance.trace import Trace
from ..host.cpu import cpu_model, package_version
from ..host.knobs import knobs
from ..host.machine import machine_model
from ..machine.explain import CompiledKernel, Explanation
from ..machine.traffic import fewest_bytes
from ..runtime.plan import Plan
from ..stepping.steps import Steps
from .element_steps import element_steps
from .figures import Figure, figures
from .trace_plan import trace

ROUNDS = 9


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """An array of a gather: its role, its type as the caller has it, and each dimension of its view with its size."""

    role: str
    spec: str
    view: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One gather.

    Attributes:
        name: a word for the list of gathers: the operator, or the node of a model.
        gather: the operator with its arrays and attributes.
        problem: what is gathered.
        width_bytes: the size of the elements that its kernel moves.
        schedule: the passes of its schedule, or of the pipeline that was given, each with its options.
        reasons: why this schedule.
        pipeline: every pass, as `gathernest-opt -p` takes them.
        trace: every level.
        arrays: data, indices and result.
        streams: (name, bytes) of the fewest bytes that it moves.
        figures: its drawings.
        steps: one element of a small gather with its loops, step by step; None where there is none.
        explanation: its times; None where nothing was timed.
        not_timed: why nothing was timed; empty where it was.
        remarks: what else to know, such as sizes that were assumed.
    """

    name: str
    gather: str
    problem: Problem
    width_bytes: int
    schedule: tuple[str, ...]
    reasons: tuple[str, ...]
    pipeline: str
    trace: Trace
    arrays: tuple[ArrayFacts, ...]
    streams: tuple[tuple[str, float], ...]
    figures: tuple[Figure, ...]
    steps: Steps | None
    explanation: Explanation | None
    not_timed: str
    remarks: tuple[str, ...] = ()


def section_of(
    kernel: CompiledKernel, *, name: str = "", timing: bool = True, rounds: int = ROUNDS, remarks: tuple[str, ...] = ()
) -> Section:
    """Return the section of a kernel; it is compiled anew, and timed where that is wanted and possible.

    Raises:
        GathernestError: it cannot be compiled.
    """
    plan = kernel.plan
    traced = trace(plan)
    explanation, not_timed = _explained(kernel, timing, rounds)
    return Section(
        name or plan.problem.name,
        repr(kernel).strip("<>").removeprefix("gathernest kernel: "),
        plan.problem,
        plan.layout.width_bytes,
        pass_lines(str(plan.schedule) if plan.given is None else plan.given.text),
        plan.reasons,
        plan.pipeline,
        traced,
        _arrays(plan),
        (explanation.bound.traffic if explanation else fewest_bytes(plan.problem)).streams,
        figures(plan, traced, explanation),
        element_steps(plan),
        explanation,
        not_timed,
        remarks,
    )


def pass_lines(text: str) -> tuple[str, ...]:
    """Return each pass of a schedule or a pipeline, with its options."""
    return tuple(text.replace("},", "}\n").splitlines())


def _explained(kernel: CompiledKernel, timing: bool, rounds: int) -> tuple[Explanation | None, str]:
    """Return the times of a kernel, or why there are none."""
    if not timing:
        return None, "Timing was not asked for."
    try:
        return kernel.explain(rounds=rounds), ""
    except (GathernestError, MemoryError) as error:
        return None, f"Nothing was timed: {error}."


def _arrays(plan: Plan) -> tuple[ArrayFacts, ...]:
    """Return the arrays of a plan in the order of its kernel's arguments."""
    problem, canonical = plan.problem, plan.layout.canonical
    slices, table = ("result", "data") if problem.gradient is None else ("grad", "result")
    return (
        _array(table, problem.table, canonical.data),
        _array("indices", problem.indices, canonical.indices),
        _array(slices, problem.slices, canonical.out),
    )


def _array(role: str, spec: ArraySpec, view: Operand) -> ArrayFacts:
    return ArrayFacts(role, str(spec), tuple(zip(map(str, view.dims), view.shape, strict=True)))


def machine_facts() -> tuple[tuple[str, str], ...]:
    """Return the CPU, the machine model that schedules were chosen by, and the versions, as (name, text)."""
    model = machine_model()
    chosen = "" if knobs.machine is None else ", by GATHERNEST_MACHINE"
    versions = ", ".join(f"{name} {package_version(name)}" for name in ("gathernest", "numba", "llvmlite", "xdsl"))
    return (
        ("CPU", cpu_model()),
        ("machine model", f"{model.name}, {model.threads} threads{chosen}"),
        ("with", versions),
    )
