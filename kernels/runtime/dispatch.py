"""The way of a call: request, problem, plan, prepared kernel, run; for gathers and gradients.

A call comes in as a `Request` with arrays in memory. A prepared kernel is cached by everything that decides it; a new
call becomes a `Problem`, is planned and prepared. Each step passes a frozen value to the next.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...ir import reference
from ...ir.array_spec import ArraySpec
from ...ir.element_types import as_bytes, check_scale, is_movable, number_width
from ...ir.errors import BoundsError
from ...ir.operator_spec import Gather, GatherElements, GatherNd, Gradient, Node, OperatorSpec
from ...ir.problem import Problem, check_addresses
from ...ir.semantics import Bounds, Shape
from ..host.knobs import Settings, knobs
from ..host.runtime import RUNTIME
from .array_checks import check_out, lies_evenly, summation_dtype
from .call_cache import CALLS, MOST_REMEMBERED, NO_KEYS, CallTable, Keys, one_object
from .first_calls import FIRST_CALLS

if TYPE_CHECKING:
    from ...lowering.registry import Pipeline
    from ...lowering.schedule.schedule import Schedule
    from .prepare import Prepared


class Request(NamedTuple):
    """The arguments of a call without its arrays.

    Attributes:
        operator: the operator, with its attributes as the caller wrote them.
        bounds: the rule for an index outside.
        gradient: the attributes of a gradient; None for a gather.
        table_shape: of a gradient, the shape of data.
        version, node: the operator version and the node that it comes from, for the reader.
        schedule: the schedule, or a whole pipeline; the heuristic's when None.
    """

    operator: OperatorSpec
    bounds: Bounds
    gradient: Gradient | None = None
    table_shape: Shape = ()
    version: str | None = None
    node: Node | None = None
    schedule: "Schedule | Pipeline | None" = None

    def problem(self, source: np.ndarray, indices: np.ndarray) -> Problem:
        """Return the problem of these arrays, with a new, contiguous result.

        Raises:
            InvalidGatherError: the attributes or the shape of grad do not fit.
        """
        read, rest = ArraySpec.of(source), (self.version, self.gradient, self.node)
        table, slices = read, None
        if self.gradient is not None:
            table, slices = ArraySpec(self.table_shape, source.dtype), read
            check_addresses("data", table.shape, source.dtype)
        problem = Problem.checked(self.operator, table, ArraySpec.of(indices), self.bounds, slices, *rest)
        return replace(problem, is_fresh=True)

    def result_dtype(self, dtype: np.dtype) -> np.dtype:
        """Return the dtype of a kernel's result for elements of a dtype."""
        return dtype if self.gradient is not None else self.operator.result_dtype(dtype)


# The text of each mode, interned as a caller's literal is.
_WORDS = {mode: sys.intern(mode.value) for mode in Bounds}


def run_gather(
    operator: OperatorSpec,
    data: np.ndarray,
    indices: np.ndarray,
    bounds: Bounds,
    out: np.ndarray | None = None,
    version: str | None = None,
    node: Node | None = None,
    schedule: "Schedule | Pipeline | None" = None,
    tried: Keys = NO_KEYS,
) -> np.ndarray:
    """Carry out a gather.

    `tried` are the keys of a look-up of these arrays that has failed; with a version, the keys of the look-up to do.
    """
    if version is not None and tried is not NO_KEYS:
        keys, tried = tried, NO_KEYS
    else:
        keys = keys_of_gather(operator, bounds, version, node, schedule)
    if keys[0] is not tried[0] or keys[1] is not tried[1] or keys[2] is not tried[2]:
        found = CALLS.find(data, indices, out, *keys)
        if found is not None:
            return found
    return run(Request(operator, bounds, None, (), version, node, schedule), data, indices, out, CALLS, keys)


def keys_of_gather(
    operator: OperatorSpec,
    bounds: Bounds,
    version: str | None = None,
    node: Node | None = None,
    schedule: "Schedule | Pipeline | None" = None,
) -> Keys:
    """Return the keys of the calls of a gather: the arguments themselves where they suffice."""
    if version is None and node is None and schedule is None:
        if isinstance(operator, Gather):
            return one_object(operator.axis), one_object(operator.batch_dims), _WORDS[bounds]
        if isinstance(operator, GatherNd):
            return GatherNd, one_object(operator.batch_dims), _WORDS[bounds]
        if isinstance(operator, GatherElements):
            return GatherElements, one_object(operator.axis), _WORDS[bounds]
    return one_object((operator, bounds, version, node, schedule)), None, None


def run(
    request: Request, source: np.ndarray, indices: np.ndarray, out: np.ndarray | None, table: CallTable, keys: Keys
) -> np.ndarray:
    """Carry out a call that the table of calls does not have.

    Args:
        source: the array that is read: data, or grad for a gradient.
        indices: of a native integer dtype.
        out: where to put the result; may overlap the inputs.
        table: the table that remembers the call: `CALLS`, or the table of this request and of no other.
        keys: the keys under which it is remembered.

    Raises:
        BoundsError: an index is not valid; `out` is untouched.
        InvalidGatherError: the attributes or `out` do not fit the shapes.
    """
    given, source, indices = out, source.view(), indices.view()  # another thread may change their shapes and dtypes
    if isinstance(out, np.ndarray):
        out = out.view()
    result = _run_unchanging(request, source, indices, out, table, keys)
    return result if given is None else given


def _run_unchanging(
    request: Request, source: np.ndarray, indices: np.ndarray, out: np.ndarray | None, table: CallTable, keys: Keys
) -> np.ndarray:
    """Carry out a call on arrays that no one else knows; see `run`."""
    read = _readable(request, source)
    if read is None:
        return _run_with_numpy(request, source, indices, out)
    written = out if _is_written_in_place(request, out, source, read, indices) else None
    is_copied = written is None and out is not None and read is source
    dtype = request.result_dtype(source.dtype)
    if is_copied and (found := _find_without_out(table, source, indices, keys)) is not None:
        check_out(out, found.shape, dtype)
        return _deliver(request, found, dtype, out)
    settings = knobs.settings()
    like = (
        *(request, repr(request.gradient), settings, None if written is None else written.strides),  # 0.0 is not -0.0
        None if settings.override_dir is None else _last_changes(settings.override_dir),
        *(read.shape, read.strides, read.dtype, indices.shape, indices.strides, indices.dtype),
    )
    prepared = RUNTIME.prepared.get(like)
    problem = request.problem(read, indices) if prepared is None else prepared.plan.problem
    check_out(out, problem.result.shape, dtype)
    if prepared is None:
        problem = problem if written is None else problem.into(ArraySpec.of(written))
        if table is CALLS and request.schedule is None and FIRST_CALLS.takes(problem, _see_first_calls):
            result = reference.of_problem(problem, read, indices, written)
            return result if result is out else _deliver(request, result, dtype, out)
        prepared = _prepare(like, problem, request.schedule, settings, may_wait=table is CALLS)
    result = prepared.result(request.result_dtype(read.dtype)) if written is None else written
    is_repeated = (prepared.was_run or table is not CALLS) and settings.override_dir is None
    prepared.run(read, indices, result)
    if is_copied and is_repeated:
        table.remember(prepared, source, indices, None, result.dtype, keys, settings)
    if read is not source or written is not out:
        return _deliver(request, result, dtype, out)
    if is_repeated:
        table.remember(prepared, source, indices, out, result.dtype, keys, settings)
    return result


def _find_without_out(table: CallTable, source: np.ndarray, indices: np.ndarray, keys: Keys) -> np.ndarray | None:
    """Return the result of a call that the table has, for a copy into `out`; None where it has none, or it fails."""
    try:
        return table.find(source, indices, None, *keys)
    except BoundsError:  # `out` may be wrong as well, and is checked first
        return None


def _readable(request: Request, source: np.ndarray) -> np.ndarray | None:
    """Return the array for a kernel to read, or a copy in the dtype of the sums; None where NumPy must do the work."""
    if request.gradient is None and not request.operator.adds:
        return source if is_movable(source.dtype) and source.dtype.itemsize else None
    if request.result_dtype(source.dtype) != source.dtype:  # the kernel reads narrow elements
        return source if _is_even(source) else np.ascontiguousarray(source)
    summed = summation_dtype(source.dtype)
    if request.gradient is not None:
        check_scale(request.gradient.scale, source.dtype)
    if summed is None or (summed == source.dtype and _is_even(source)):
        return None if summed is None else source
    return source.astype(summed, order="C")


def _is_written_in_place(
    request: Request, out: np.ndarray | None, source: np.ndarray, read: np.ndarray, indices: np.ndarray
) -> bool:
    """Return whether a kernel can write to `out` itself."""
    if not isinstance(out, np.ndarray) or read.dtype != source.dtype:
        return False
    if np.may_share_memory(out, source) or np.may_share_memory(out, indices):
        return False
    return not (request.gradient is not None or request.operator.adds) or _is_even(out)


def _is_even(array: np.ndarray) -> bool:
    """Return whether elements lie at multiples of the numbers that they consist of."""
    return lies_evenly(array.shape, array.strides, number_width(array.dtype))


def _prepare(
    like: tuple[Any, ...],
    problem: Problem,
    schedule: "Schedule | Pipeline | None",
    settings: Settings,
    *,
    may_wait: bool,
) -> "Prepared":
    """Return the prepared kernel of a problem, made now and cached."""
    prepare_problem = RUNTIME.make(_planner, is_ours=True, kind="planner")
    with knobs.scope(**settings._asdict()):  # another thread may change them meanwhile
        prepared = prepare_problem(problem, schedule, may_wait=may_wait)
    if prepared.loaded is not None and prepared.loaded.from_cache:
        CALLS.native()  # the fast call comes from the cache, too, and serves the next call
    if len(RUNTIME.prepared) >= MOST_REMEMBERED:
        RUNTIME.prepared.clear()
    RUNTIME.prepared[like] = prepared
    return prepared


def _planner() -> Any:
    from .prepare import prepare_problem

    return prepare_problem


def _see_first_calls() -> None:
    from .prepare import see_first_calls

    see_first_calls()


def _last_changes(folder: Path) -> Any:
    from ...lowering.stage_files import last_changes

    return last_changes(folder)


def _run_with_numpy(request: Request, source: np.ndarray, indices: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """Run a call on elements that no kernel moves or adds."""
    problem = request.problem(source, indices)
    check_out(out, problem.result.shape, source.dtype)
    is_apart = out is not None and not np.may_share_memory(out, source) and not np.may_share_memory(out, indices)
    result = reference.of_problem(problem, source, indices, out if is_apart else None)
    return result if result is out else _deliver(request, result, source.dtype, out)


def _deliver(request: Request, result: np.ndarray, dtype: np.dtype, out: np.ndarray | None) -> np.ndarray:
    """Return a result in the dtype of the call, in `out` if there is one."""
    with np.errstate(all="ignore"):
        result = result.astype(dtype, copy=False)
    if out is None:
        return result
    if request.gradient is None:
        as_bytes(out)[...] = as_bytes(result)
    else:
        out[...] = result
    return out
