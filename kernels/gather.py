"""The functions that people call: `gather` and `compile`."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.array_spec import ArraySpec
from ..ir.element_types import is_movable
from ..ir.errors import IndexTypeError, InvalidGatherError, did_you_mean
from ..ir.semantics import Bounds, gather_shape, integer_argument, normalize_gather, parse_bounds
from ..lowering.schedule import Schedule
from .opaque import gather_opaque
from .plan import Problem
from .prepare import Prepared, prepare, prepare_problem


def gather(
    data: ArrayLike,
    indices: ArrayLike,
    axis: Any = 0,
    *,
    batch_dims: int = 0,
    bounds: str = "error",
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Gather slices of `data` along `axis`.

    `out[p.., i.., q..] = data[p.., indices[p.., i..], q..]`, where the first `batch_dims` of p are shared.

    Args:
        data: (batch..., outer..., axis, inner...), rank 1 or more, any dtype. Strided, reversed, broadcast, read-only
            and memory-mapped arrays are read in place.
        indices: (batch..., any shape), any integer dtype.
        axis: in [-rank(data), rank(data)-1]; an int, a 0-D array or an array of one element.
        batch_dims: leading dimensions that data and indices share, in [-rank(indices), min(rank(data), rank(indices))]
            and not above axis; a negative value counts from the rank of indices.
        bounds: what an index outside [-s, s-1] means on an axis of size s: "error", "zero", "clip", "wrap" or
            "unchecked".
        out: where to put the result: its shape and dtype, writeable; strided or overlapping the inputs if need be.

    Returns:
        `out`, or a new C-contiguous array of shape `data.shape[:axis] + indices.shape[batch_dims:] +
        data.shape[axis+1:]` and data's dtype.

    Raises:
        BoundsError: an index is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: the attributes or `out` do not fit the shapes.

    Spec: OpenVINO Gather-8 (bounds="zero"), ONNX Gather-13 (bounds="error").
    """
    return gather_arrays(
        np.asarray(data),
        index_array(indices),
        integer_argument(axis, "axis", allow_array=True),
        integer_argument(batch_dims, "batch_dims"),
        parse_bounds(bounds),
        out,
    )


def gather_arrays(
    data: np.ndarray,
    indices: np.ndarray,
    axis: int,
    batch_dims: int,
    bounds: Bounds,
    out: np.ndarray | None,
    *,
    version: str | None = None,
    schedule: Schedule | None = None,
) -> np.ndarray:
    """Gather with arguments that are parsed already; see `gather`."""
    if not is_movable(data.dtype) or data.dtype.itemsize == 0:
        return gather_opaque(data, indices, axis, batch_dims, bounds, out, gather_arrays)
    if out is None:
        prepared = prepare(data, indices, None, axis, batch_dims, bounds, version=version, schedule=schedule)
        result = np.empty(prepared.plan.problem.out_shape, data.dtype)
        prepared.run(data, indices, result)
        return result
    normal_axis, normal_batch_dims = normalize_gather(data.shape, indices.shape, axis, batch_dims)
    check_out(out, gather_shape(data.shape, indices.shape, normal_axis, normal_batch_dims), data.dtype)
    if np.may_share_memory(out, data) or np.may_share_memory(out, indices):
        out[...] = gather_arrays(data, indices, axis, batch_dims, bounds, None, version=version, schedule=schedule)
        return out
    prepare(data, indices, out, axis, batch_dims, bounds, version=version, schedule=schedule).run(data, indices, out)
    return out


def index_array(indices: ArrayLike) -> np.ndarray:
    """Return indices as an ndarray of a native integer dtype.

    Raises:
        IndexTypeError: they are of another kind. An empty list counts as integers.
    """
    array = np.asarray(indices)
    if array.dtype.kind not in "iu":
        if array.size == 0 and not isinstance(indices, np.ndarray):
            return array.astype(np.int64)
        raise IndexTypeError(
            f"indices must be integers, got dtype {array.dtype}; convert them, for instance with indices.astype('int64')"
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Check that `out` can take the result.

    Raises:
        InvalidGatherError: it is no ndarray, of another shape or dtype, read-only, or has elements in the same place.
    """
    if not isinstance(out, np.ndarray):
        raise InvalidGatherError(f"out must be an ndarray, got {type(out).__name__}")
    if out.shape != shape:
        raise InvalidGatherError(f"out must have shape {shape}, got {out.shape}")
    if out.dtype != dtype:
        raise InvalidGatherError(f"out must have dtype {dtype} as data has, got {out.dtype}")
    if not out.flags.writeable:
        raise InvalidGatherError("out must be writeable, got a read-only array; pass a copy")
    if any(stride == 0 and size > 1 for size, stride in zip(out.shape, out.strides, strict=True)):
        raise InvalidGatherError("out must have a place for every element, got a broadcast array; pass a copy")


class Kernel:
    """A compiled gather: call it, and read every stage that led to it.

    Calls take arrays of the dtypes and layouts it was compiled for, of any sizes that its code serves.
    """

    def __init__(self, problem: Problem, schedule: Schedule | None):
        self._problem, self._given = problem, schedule
        self._prepared: Prepared = prepare_problem(problem, schedule)

    def __call__(self, data: ArrayLike, indices: ArrayLike, out: np.ndarray | None = None) -> np.ndarray:
        """Gather; see `gathernest.gather` for the arguments, the result and the errors.

        Raises:
            InvalidGatherError: the arrays ask for other code than this kernel's.
        """
        arrays = np.asarray(data), index_array(indices)
        self._check_served(*arrays, out)
        problem = self._problem
        return gather_arrays(
            *arrays,
            problem.axis,
            problem.batch_dims,
            problem.bounds,
            out,
            version=problem.version,
            schedule=self.schedule,
        )

    def _check_served(self, data: np.ndarray, indices: np.ndarray, out: np.ndarray | None) -> None:
        wanted = self._problem
        for name, array, spec in (("data", data, wanted.data), ("indices", indices, wanted.indices)):
            if array.dtype != spec.dtype or array.ndim != spec.rank:
                raise InvalidGatherError(
                    f"this kernel was compiled for {name} {spec}, got {ArraySpec.of(array)}; compile one for that dtype "
                    "and rank, or call gathernest.gather"
                )

    @property
    def problem(self) -> Problem:
        """The shapes, dtypes and attributes it was compiled for."""
        return self._problem

    @property
    def schedule(self) -> Schedule:
        """How its nest is tiled, ordered and shared among threads."""
        return self._prepared.plan.schedule

    @property
    def key(self) -> str:
        """What decides its code; kernels of one key are one."""
        return self._prepared.plan.key

    @property
    def pipeline(self) -> str:
        """The passes that made it, as text that `gathernest-opt -p` takes."""
        from .build import pipeline_of

        return pipeline_of(self._prepared.plan)

    @property
    def stages(self) -> dict[str, str]:
        """The module after every pass: `operator` first, then by the name of the pass."""
        from .build import run_stages

        return {stage.pass_name: stage.text for stage in run_stages(self._prepared.plan)}

    @property
    def source(self) -> str:
        """The Python source that Numba compiled."""
        if self._prepared.loaded is not None:
            return self._prepared.loaded.program.source
        from .build import build_program

        return build_program(self._prepared.plan)[0].source

    def llvm_ir(self) -> str:
        """Return the optimised LLVM IR, compiled anew where the machine code came from the cache."""
        from .inspection import llvm_ir

        return llvm_ir(self._prepared.plan)

    def asm(self) -> str:
        """Return the assembly, compiled anew where the machine code came from the cache."""
        from .inspection import assembly

        return assembly(self._prepared.plan)

    def __repr__(self) -> str:
        problem = self._problem
        return (
            f"<gathernest kernel: gather {problem.data} by {problem.indices}, axis {problem.axis}, "
            f"batch_dims {problem.batch_dims}, bounds {problem.bounds}>"
        )


def compile(
    operator: str,
    data: Any,
    indices: Any,
    axis: Any = 0,
    *,
    batch_dims: int = 0,
    bounds: str = "error",
    schedule: Schedule | str | None = None,
    version: str | None = None,
) -> Kernel:
    """Compile a gather ahead of its calls.

    Args:
        operator: "gather".
        data, indices: arrays, `ArraySpec`s, or texts such as "2x64x128xf32".
        axis, batch_dims, bounds: as for `gather`.
        schedule: a `Schedule` or its text; chosen by the sizes when omitted.
        version: the operator version it stands for, for the reader.

    Returns:
        The kernel.

    Raises:
        InvalidGatherError: the attributes do not fit, or data has elements that are not plain bytes.
        ScheduleError: the schedule is not legal for this nest.
    """
    if operator != "gather":
        raise InvalidGatherError(
            f"there is no operator {operator!r} to compile; use 'gather'{did_you_mean(operator, ['gather'])}"
        )
    data_spec, index_spec = ArraySpec.of(data), ArraySpec.of(indices)
    index_array(np.empty(0, index_spec.dtype))
    if not is_movable(data_spec.dtype):
        raise InvalidGatherError(
            f"elements of dtype {data_spec.dtype} are references, not bytes, and have no kernel of their own; "
            "call gathernest.gather, which gathers their positions"
        )
    problem = Problem.checked(
        data_spec,
        index_spec,
        integer_argument(axis, "axis", allow_array=True),
        integer_argument(batch_dims, "batch_dims"),
        parse_bounds(bounds),
        version=version,
    )
    return Kernel(problem, Schedule.parse(schedule) if isinstance(schedule, str) else schedule)
