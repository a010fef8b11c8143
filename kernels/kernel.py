"""Kernels as values: compiled ahead of their calls, with every stage to read."""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.array_spec import ArraySpec
from ..ir.errors import InvalidGatherError, ScheduleError
from ..ir.operator_spec import GatherWeighted
from ..ir.problem import Problem
from ..ir.semantics import BoundsMode, flag_argument
from ..lowering.registry import Pipeline
from ..lowering.schedule.schedule import NO_SCHEDULE, Schedule
from .c_functions.pointer import CallableFromC
from .gather import run_operator
from .host.dependencies import require
from .host.runtime import RUNTIME
from .problems.named_problem import problem_of
from .runtime.array_checks import check_out, data_array, in_memory, index_array, out_array, spec_of, table_array
from .runtime.call_cache import NO_KEYS, CallTable, native_entry
from .runtime.dispatch import Request, run
from .runtime.plan import Plan
from .runtime.prepare import Prepared, prepare_problem

MOST_REMEMBERED_OF_A_KERNEL = 16

if TYPE_CHECKING:
    from ..lowering.pipeline import Stage
    from .machine.explain import Explanation

TWO_PIPELINES = "a pipeline holds the passes of its schedule; give schedule or pipeline, not both"


class Kernel(CallableFromC, functools.partial[np.ndarray]):
    """A compiled gather: it can be called, and has every stage that led to it.

    `kernel(data, indices, out=None)` gathers; see `gathernest.gather` for the arguments, the result and errors.
    Calls take arrays of the dtypes and ranks it was compiled for, of any sizes; others raise InvalidGatherError. Sizes
    or strides that its code does not serve (a dimension of size 1, another layout) get a kernel of their own, with the
    schedule if one was given. Calls with `out` run the kernel `with_out`, where that is another one.
    The kernel of a gradient takes grad for data, and returns an array of the shape of data that it was compiled for.

    It is a `partial` of machine code, since a `__call__` in Python takes 80 ns, half the time of a tiny call, before
    its first line.
    """

    _prepared: Prepared

    def __new__(cls, problem: Problem, schedule: Schedule | Pipeline | None) -> "Kernel":
        calls = _Calls(problem, schedule)
        kernel = super().__new__(cls, calls.native_call())
        kernel._problem, kernel._given, kernel._prepared = problem, schedule, calls.prepared
        return kernel

    def __reduce__(self) -> Any:
        return Kernel, (self._problem, self._given)

    @property
    def problem(self) -> Problem:
        """The shapes, dtypes and attributes it was compiled for."""
        return self._problem

    @property
    def schedule(self) -> Schedule:
        """The tiling, order and parallelism of its nest; the empty schedule where a pipeline was given."""
        return self.plan.schedule

    @property
    def given_schedule(self) -> Schedule | None:
        """The schedule that was given to compile it; None where the sizes choose one."""
        return NO_SCHEDULE if isinstance(self._given, Pipeline) else self._given

    @property
    def with_out(self) -> "Kernel":
        """The kernel that its calls with `out` run, which checks all indices before it writes."""
        return Kernel(self._problem.into(self._problem.result), self._given)

    def with_schedule(self, schedule: Schedule | Pipeline | str | None) -> "Kernel":
        """Return the kernel of its problem with another schedule or pipeline; None lets the sizes choose."""
        given = schedule if isinstance(schedule, Pipeline | None) else Schedule.parse(schedule)
        return Kernel(self._problem, given)

    @property
    def plan(self) -> Plan:
        """The plan that it was compiled from."""
        return self._prepared.plan

    @property
    def key(self) -> str:
        """The text that decides its code; kernels with one key are one."""
        return self.plan.key

    @property
    def pipeline(self) -> str:
        """The passes that made it, as text that `gathernest-opt -p` takes."""
        return self.plan.pipeline

    @property
    def stages(self) -> dict[str, str]:
        """The module after every pass: `operator` first, then by the name of the pass; `cse#2` is a second `cse`."""

        def stages_of_plan() -> "dict[str, Stage]":
            from ..lowering.pipeline import stages_by_name
            from .runtime.compile import stages_of

            return stages_by_name(stages_of(self.plan))

        stages = RUNTIME.make(stages_of_plan, kind="stages")
        return StageTexts({name: stage.text for name, stage in stages.items()})

    @property
    def source(self) -> str:
        """The Python source that Numba compiled."""
        if self._prepared.loaded is not None:
            return self._prepared.loaded.program.source

        def source() -> str:
            from .runtime.compile import build_program

            return build_program(self.plan).source

        return RUNTIME.make(source, kind="source")

    def llvm_ir(self) -> str:
        """Return the optimised LLVM IR, compiled anew where the machine code came from the cache."""
        return self._native_library().get_llvm_str()

    def asm(self) -> str:
        """Return the assembly, compiled anew where the machine code came from the cache."""
        return self._native_library().get_asm_str()

    def _native_library(self) -> Any:
        def library() -> Any:
            from .runtime.compile import native_library

            return native_library(self.plan)

        return RUNTIME.make(library)

    def explain(
        self, data: ArrayLike | None = None, indices: ArrayLike | None = None, *, rounds: int = 9
    ) -> "Explanation":
        """Compare it with its roofline bound, and with its schedule without each pass, timed in turn into one `out`.

        Args:
            data, indices: arrays of the dtypes and ranks that it was compiled for; when both are omitted, arrays are
                made up in the sizes that it was compiled for.
            rounds: the number of times that each schedule is timed, 1 or more.

        Returns:
            Bytes by stream, the roofline bound and the fraction of it, the machine model's bound, the prediction of the
            cost model, and the gain of each pass. Its `str` is a text, and its `to_json()` is for scripts.

        Raises:
            ExplainError: only one of data and indices is given, or nothing runs for these sizes.
            SampleError: arrays of the compiled sizes do not fit in memory.
            BoundsError: an index is not valid.
        """

        def explaining() -> Any:
            from .machine.explain import explain

            return explain

        read = None if data is None else data_array(data)
        found = None if indices is None else index_array(indices)
        return RUNTIME.make(explaining, kind="explain")(self, read, found, rounds=rounds)

    def report(
        self,
        *,
        timing: bool = True,
        rounds: int = 9,
        against: "Kernel | Schedule | str | None" = None,
        against_pipeline: str | None = None,
        against_machine: str | None = None,
        against_revision: str | None = None,
    ) -> str:
        """Return a self-contained HTML page of every level that led to it, each line with its provenance.

        The kernel is compiled anew for the page. Nothing is written, and the page loads nothing.

        Args:
            timing: whether to measure it, as `explain` does, over made-up arrays.
            rounds: the number of times that each schedule is timed, 1 or more.
            against: another kernel or schedule to compare with; each level marks the lines that differ.
            against_pipeline: another pipeline to compare with.
            against_machine: another machine, whose schedule, compiled for this CPU, is compared.
            against_revision: a revision of the checkout of gathernest, whose kernel is compared.

        Raises:
            InvalidGatherError: several of the last four are given.
            ScheduleError, KnobError, RevisionError: the kernel to compare with cannot be made.
            DependencyError: jinja2 or pygments is missing; the extra `report` installs them.
        """
        require("xdsl", "numba", "llvmlite", "jinja2", "pygments")
        from .. import _report_kernel  # of the playground, a higher floor

        others = {"pipeline": against_pipeline, "machine": against_machine, "revision": against_revision}
        return _report_kernel(self, self._given, timing=timing, rounds=rounds, against=against, **others)

    def fitted(self, data: np.ndarray, indices: np.ndarray, out: np.ndarray | None) -> "Kernel":
        """Return the kernel for the sizes and strides of these arrays, with its schedule if that was given.

        It serves calls with `out`, which is contiguous when omitted.
        """
        check_served(self._problem, data, indices)
        problem = _request(self._problem, self._given).problem(data, indices)
        if out is not None:
            check_out(out, problem.result.shape, problem.result.dtype)
        return Kernel(problem.into(problem.result if out is None else ArraySpec.of(out)), self._given)

    def _repr_html_(self) -> str:
        from ..lowering import static_html as html

        given = self.plan.given
        passes = ("schedule", str(self.schedule)) if given is None else ("pipeline", given.text)
        rows = [("key", self.key), (passes[0], passes[1].replace(",", ", ") or "none")]
        rows += [("why", reason) for reason in self.plan.reasons]
        return html.fragment(repr(self).strip("<>"), html.table(rows), html.fold("Source", html.code(self.source)))

    def __repr__(self) -> str:
        problem = self._problem
        return f"<gathernest kernel: {problem.name} {problem.table} by {problem.indices}, {problem.options}>"


class StageTexts(dict[str, str]):
    """The text of each stage by the name of its pass, in order; notebooks show unchanged stages folded."""

    def _repr_html_(self) -> str:
        from ..lowering import static_html as html

        parts, before = list[str](), None
        for name, text in self.items():
            if text == before:
                parts.append(html.paragraph(f"{name}: nothing changed"))
            else:
                parts.append(html.fold(f"{name}: {text.count(chr(10))} lines", html.code(text), is_open=before is None))
            before = text
        return html.fragment("Stages", *parts)


class _Calls:
    """The calls of one kernel that machine code does not serve, or not yet."""

    def __init__(self, problem: Problem, schedule: Schedule | Pipeline | None):
        self.problem, self.schedule = problem, schedule
        self.request = _request(problem, schedule)
        self.prepared: Prepared = prepare_problem(problem, schedule)
        self.table = CallTable(MOST_REMEMBERED_OF_A_KERNEL)

    def native_call(self) -> Any:
        """Return the builtin that serves the calls in the table and passes others to `call`; or `call` itself."""
        table, entry = self.table.native(), native_entry()
        return self.call if table is None else entry.call((table, self.call))

    def call(self, data: ArrayLike, indices: ArrayLike, out: np.ndarray | None = None) -> np.ndarray:
        """Gather, and remember the call."""
        arrays = table_array(data), index_array(indices)
        check_served(self.problem, *arrays)
        written = None if out is None else out_array(out, keeps_stored=True)
        if not in_memory(*arrays) or not isinstance(written, np.ndarray | None):
            return self._call_in_chunks(*arrays, out)
        if out is not None and written is not out:
            self.call(*arrays, written)
            return out
        found = self.table.find(*arrays, out, *NO_KEYS)  # the builtin finds no lists
        if found is not None:
            return found
        try:
            return run(self.request, *arrays, out, self.table, NO_KEYS)
        except ScheduleError as error:
            if out is None or out.flags.c_contiguous:
                raise
            raise ScheduleError(
                f"the schedule of this kernel is not legal for out {spec_of(out)} ({error}); pass an out that is "
                "contiguous, or compile the kernel without a schedule"
            ) from None

    def _call_in_chunks(self, data: np.ndarray, indices: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        """Run on arrays of dask or in files as the function of the operator does; gathers have the schedule."""
        problem = self.problem
        if problem.gradient is not None:
            from .gradient import run_gradient

            rest = problem.table.shape, problem.bounds, problem.gradient.scale, out
            return run_gradient(problem.operator, data, indices, *rest)
        if isinstance(problem.operator, GatherWeighted):
            raise InvalidGatherError(
                "a kernel of rows with weights or scales is of arrays in memory; load data, or compute it first"
            )
        if problem.reduces:
            from .reduction.gather_reduce import gather_reduce

            return gather_reduce(data, indices, bounds=problem.bounds.value, out=out)
        return run_operator(problem.operator, data, indices, problem.bounds, out, schedule=self.schedule)


def _request(problem: Problem, schedule: Schedule | Pipeline | None) -> Request:
    """Return the request that calls of a kernel make."""
    shape = () if problem.gradient is None else problem.table.shape
    return Request(
        *(problem.operator, problem.bounds, problem.gradient, shape, problem.version, problem.node, schedule)
    )


def check_served(problem: Problem, data: np.ndarray, indices: np.ndarray) -> None:
    """Check that arrays are of the dtypes and ranks that a kernel was compiled for; raises InvalidGatherError."""
    source = "data" if problem.gradient is None else "grad", data, problem.source
    for name, array, spec in (source, ("indices", indices, problem.indices)):
        if array.dtype != spec.dtype or array.ndim != spec.rank:
            raise InvalidGatherError(
                f"this kernel was compiled for {name} {spec}, got {spec_of(array)}; compile one for that "
                "dtype and rank, or call gathernest.gather"
            )


def compile(
    operator: str,
    data: Any,
    indices: Any,
    axis: Any = 0,
    *,
    batch_dims: int = 0,
    bounds: BoundsMode = "error",
    scale: float = 1.0,
    weights: bool = False,
    quantised: bool = False,
    schedule: Schedule | str | None = None,
    pipeline: str | None = None,
    with_out: bool = False,
) -> Kernel:
    """Compile a gather or a gradient ahead of its calls.

    Args:
        operator: "gather", "gather_nd", "gather_elements", or the gradient of one, such as "gather_grad"; or
            "gather_reduce", "gather_mean" and "gather_max", whose kernels take the sums, the means and the maxima of
            bags: rows of indices.
        data, indices: arrays, `ArraySpec`s, or texts such as "2x64x128xf32".
        axis, batch_dims, bounds: as for the function of that name, which may not have all of them.
        scale: the factor of a gradient's sums.
        weights: for "gather_reduce", whether each index has a weight.
        quantised: for "gather_reduce" and "gather_mean", whether rows of int8 or uint8 have a scale and a bias. With
            either option, the kernel takes the arguments that `gather_reduce` passes to it: its `indices` are
            (bags..., bag, 2), an index and the bits of a float beside it, int32 and float32 (int64 and float64 where
            data is float64); with `quantised` (bags..., bag, 3), and a bias last.
        schedule: a `Schedule` or its text; chosen by the sizes when omitted.
        pipeline: every pass from operator to loops, as `Kernel.pipeline` and `gathernest-opt -p` write them, in the
            place of the default ones and a schedule. Passes of other packages may be among them. Calls of other sizes
            get a kernel of their own, as the code may depend on them.
        with_out: whether to compile for calls with `out` now, too, and not at their first one. With `bounds="error"`
            they run other code: a new result is checked and copied in one go, and `out` must stay as it is when a call
            fails. With other bounds there is nothing more to compile.

    Returns:
        The kernel. Its stages and its source are for a new result; `with_out` has the stages of calls with `out`.

    Raises:
        InvalidGatherError: the attributes do not fit, or data has elements that are not plain bytes.
        ScheduleError: the schedule or the pipeline is not legal for this nest, or both are given.
    """
    with_out = flag_argument(with_out, "with_out")
    problem = problem_of(
        operator,
        data,
        indices,
        axis,
        batch_dims=batch_dims,
        bounds=bounds,
        scale=scale,
        weights=weights,
        quantised=quantised,
    )
    if pipeline is not None and schedule is not None:
        raise ScheduleError(TWO_PIPELINES)
    parsed = None if schedule is None else Schedule.parse(schedule)
    given = parsed if pipeline is None else Pipeline(pipeline)
    kernel = Kernel(problem, given)
    if with_out:
        prepare_problem(problem.into(problem.result), given)
    return kernel
