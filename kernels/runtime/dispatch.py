"""The way of a call: request, problem, plan, prepared kernel, run; for gathers and gradients.

A call comes in as a `Request` with arrays in memory. A prepared kernel is cached by everything that decides it; a new
call becomes a `Problem`, is planned and prepared. Each step passes a frozen value to the next.
"""

import operator
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...ir.array_spec import ArraySpec, integers
from ...ir.element_types import as_bytes, is_movable, number_width
from ...ir.errors import InvalidGatherError
from ...ir.operator_spec import Gather, GatherElements, GatherNd, Gradient, Node, OperatorSpec
from ...ir.problem import Problem, check_addresses
from ...ir.semantics import Bounds, Shape
from ...lowering.schedule.schedule import Schedule
from ..host.knobs import Settings, knobs
from ..host.runtime import RUNTIME
from .array_checks import (
    check_out,
    check_whole,
    checked_scale,
    lies_evenly,
    may_be_shared,
    may_overlap_itself,
    summation_dtype,
)
from .call_cache import CALLS, NO_KEYS, CallTable, Keys, one_object
from .object_arrays import gather_opaque, sum_opaque
from .prepare import Prepared, prepare_problem

_MOST_REMEMBERED = 4096


class Request(NamedTuple):
    """The arguments of a call without its arrays.

    Attributes:
        operator: the operator, with its attributes as the caller wrote them.
        bounds: what an index outside means.
        gradient: the attributes of a gradient; None for a gather.
        table_shape: of a gradient, the shape of data.
        version, node: where it comes from, for the reader.
        schedule: the schedule; the heuristic's when None.
    """

    operator: OperatorSpec
    bounds: Bounds
    gradient: Gradient | None = None
    table_shape: Shape = ()
    version: str | None = None
    node: Node | None = None
    schedule: Schedule | None = None

    def problem(self, source: np.ndarray, indices: np.ndarray) -> Problem:
        """Return the problem of these arrays, with a contiguous result.

        Raises:
            InvalidGatherError: the attributes or the shape of grad do not fit.
        """
        read, rest = ArraySpec.of(source), (self.version, self.gradient, self.node)
        table, slices = read, None
        if self.gradient is not None:
            table, slices = ArraySpec(self.table_shape, source.dtype), read
            check_addresses(f"data_shape {table.shape}", table.shape, source.dtype)
        problem = Problem.checked(self.operator, table, ArraySpec.of(indices), self.bounds, slices, *rest)
        return replace(problem, has_shared_indices=self.is_written_meanwhile(indices))

    def is_written_meanwhile(self, indices: np.ndarray) -> bool:
        """Return whether other processes may write to indices that are checked before they are used."""
        return self.bounds is Bounds.ERROR and may_be_shared(indices)

    def keys(self) -> Keys:
        """Return the keys of its calls: the arguments themselves where they suffice."""
        if self.gradient is not None:
            return one_object((self, repr(self.gradient.scale), knobs.num_threads)), None, None  # 0.0 is not -0.0
        if self.version is None and self.node is None and self.schedule is None:
            if isinstance(self.operator, Gather):
                return one_object(self.operator.axis), one_object(self.operator.batch_dims), _WORDS[self.bounds]
            if isinstance(self.operator, GatherNd):
                return GatherNd, one_object(self.operator.batch_dims), _WORDS[self.bounds]
            if isinstance(self.operator, GatherElements):
                return GatherElements, one_object(self.operator.axis), _WORDS[self.bounds]
        return one_object(self), None, None


# The text of each mode, as the one object that a caller's literal is.
_WORDS = {mode: sys.intern(mode.value) for mode in Bounds}


def run_gradient(
    operator: OperatorSpec,
    grad: np.ndarray,
    indices: np.ndarray,
    data_shape: Sequence[int],
    bounds: Bounds,
    scale: float = 1.0,
    out: np.ndarray | None = None,
    *,
    version: str | None = None,
    node: Node | None = None,
    schedule: Schedule | None = None,
) -> np.ndarray:
    """Run the gradient of an operator; see `run`.

    Raises:
        InvalidGatherError: an array is not in memory.
    """
    if type(grad) is not np.ndarray or type(indices) is not np.ndarray:
        raise InvalidGatherError("a gradient is of arrays in memory, got a dask array; compute grad and indices first")
    gradient, shape = Gradient(checked_scale(scale)), integers(data_shape, "sizes")
    return run(Request(operator, bounds, gradient, shape, version, node, schedule), grad, indices, out)


def run(
    request: Request,
    source: np.ndarray,
    indices: np.ndarray,
    out: np.ndarray | None = None,
    *,
    calls: CallTable | None = None,
    asked: tuple[Any, ...] = (),
) -> np.ndarray:
    """Carry out a call.

    Args:
        source: the array that is read: data, or grad of a gradient.
        indices: of a native integer dtype.
        out: where to put the result; may overlap the inputs or itself.
        calls: the table of calls of this request, and of no other; `CALLS` when omitted.
        asked: the arrays and the keys of a look-up that failed already, and is not repeated.

    Raises:
        BoundsError: an index is not valid; `out` is untouched.
        InvalidGatherError: the attributes or `out` do not fit the shapes.
    """
    table, keys = (CALLS, request.keys()) if calls is None else (calls, NO_KEYS)
    was_asked = asked and asked[1] is indices and asked[0] is source and all(map(operator.is_, asked[2:], keys))
    if not was_asked:
        found = table.find(source, indices, out, *keys)
        if found is not None:
            return found
    settings, read = knobs.settings(), _readable(request, source)
    if read is None:
        return _run_with_numpy(request, source, indices, out)
    written = out if _is_written_in_place(request, out, source, read, indices) else None
    like = (
        *(request, repr(request.gradient), settings, None if written is None else written.strides),  # 0.0 is not -0.0
        request.is_written_meanwhile(indices),
        *(read.shape, read.strides, read.dtype, indices.shape, indices.strides, indices.dtype),
    )
    prepared = RUNTIME.prepared.get(like)
    problem = request.problem(read, indices) if prepared is None else prepared.plan.problem
    if out is not None:
        check_out(out, problem.result.shape, source.dtype)
    if prepared is None:
        problem = problem if written is None else problem.into(ArraySpec.of(written))
        prepared = _remembered(like, problem, request.schedule, settings)
    result = prepared.result(read.dtype) if written is None else written
    is_repeated = prepared.was_run or calls is not None
    prepared.run(read, indices, result)
    if read is not source or written is not out:
        return _delivered(request, result, source.dtype, out)
    if is_repeated:
        table.remember(prepared, source, indices, out, keys)
    return result


def _readable(request: Request, source: np.ndarray) -> np.ndarray | None:
    """Return the array for a kernel to read, or a copy in the dtype of the sums; None where NumPy must do the work."""
    if request.gradient is None:
        return source if is_movable(source.dtype) and source.dtype.itemsize else None
    summed = summation_dtype(source.dtype)
    check_whole(request.gradient.scale, source.dtype)
    if summed is None or (summed == source.dtype and _is_even(source)):
        return None if summed is None else source
    return source.astype(summed, order="C")


def _is_written_in_place(
    request: Request, out: np.ndarray | None, source: np.ndarray, read: np.ndarray, indices: np.ndarray
) -> bool:
    """Return whether a kernel can write to `out` itself."""
    if not isinstance(out, np.ndarray) or read.dtype != source.dtype or may_overlap_itself(out):
        return False
    if np.may_share_memory(out, source) or np.may_share_memory(out, indices):
        return False
    return request.gradient is None or _is_even(out)


def _is_even(array: np.ndarray) -> bool:
    """Return whether elements lie at multiples of the numbers that they consist of."""
    return lies_evenly(array.shape, array.strides, number_width(array.dtype))


def _remembered(like: tuple[Any, ...], problem: Problem, schedule: Schedule | None, settings: Settings) -> Prepared:
    """Return the prepared kernel of a problem, made now and cached."""
    with knobs.scope(**settings._asdict()):  # another thread may change them meanwhile
        prepared = RUNTIME.make(lambda: prepare_problem(problem, schedule))
    if len(RUNTIME.prepared) >= _MOST_REMEMBERED:
        RUNTIME.prepared.clear()
    RUNTIME.prepared[like] = prepared
    return prepared


def _run_with_numpy(request: Request, source: np.ndarray, indices: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """Run a call on elements that no kernel moves or adds."""
    problem = request.problem(source, indices)
    if out is not None:
        check_out(out, problem.result.shape, source.dtype)
    if request.gradient is None:
        return gather_opaque(problem, source, indices, out)
    return _delivered(request, sum_opaque(problem, source, indices), source.dtype, out)


def _delivered(request: Request, result: np.ndarray, dtype: np.dtype, out: np.ndarray | None) -> np.ndarray:
    """Return a result in the dtype of the call, in `out` if there is one."""
    result = result.astype(dtype, copy=False)
    if out is None:
        return result
    if request.gradient is None:
        as_bytes(out)[...] = as_bytes(result)
    else:
        out[...] = result
    return out
