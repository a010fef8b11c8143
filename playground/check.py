"""Compare the bytes of a stage with the operator's reference, on arrays that are small enough to interpret."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..ir import reference
from ..ir.array_spec import ArraySpec
from ..ir.element_types import first_difference
from ..ir.errors import BoundsError, GathernestError, InternalError
from ..ir.interpreters.argument_views import UNWRITTEN, index_argument
from ..ir.interpreters.interpreter import interpret
from ..ir.operator_spec import Gather, GatherWeighted
from ..ir.problem import Problem
from ..ir.semantics import Bounds
from ..kernels.tuning.sample_arrays import fill_weights
from .stage import execute

# The largest size of a dimension that is interpreted, tried in turn: an operation takes some 10 microseconds.
LARGEST_SIZES = (5, 19, 70)
MOST_ELEMENTS = 3000


def interpretable(problem: Problem) -> Iterator[Problem]:
    """Yield the problem with sizes that are interpreted quickly, smallest first, and at last with its own sizes.

    The row size may be fixed in the code, so that it is kept in every other form.
    """
    table, indices = problem.table.shape, problem.indices.shape
    for largest in LARGEST_SIZES:
        cut = [tuple(min(size, largest) for size in shape) for shape in (table, indices)]
        for shape in dict.fromkeys((cut[0], (*cut[0][:-1], *table[-1:]))):
            with contextlib.suppress(GathernestError):
                smaller = problem.resized(shape, cut[1])
                if smaller.result.size + smaller.source.size <= MOST_ELEMENTS:
                    yield smaller
    yield problem


def samples_of(problem: Problem) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield arrays that a problem is tried on, with indices at random, at both ends, and outside."""
    shape, dtype = problem.source.shape, problem.source.dtype
    data = (np.arange(problem.source.size) % 120 + 1).reshape(shape).astype(dtype)
    kind, rng = np.iinfo(problem.indices.dtype), np.random.default_rng(0)
    sizes = np.array(problem.axis_sizes, object)
    low = np.maximum(-sizes, int(kind.min))
    high = np.minimum(sizes - 1, int(kind.max))
    lists = [(low, high)]
    if problem.bounds in (Bounds.ZERO, Bounds.CLIP, Bounds.WRAP, Bounds.ERROR):
        lists += [(np.maximum(2 * low - 1, int(kind.min)), np.minimum(2 * high + 2, int(kind.max)))]
        lists += [(int(kind.min), int(kind.max))]
    lists = [(least, most) for least, most in lists if np.all(np.less_equal(least, most))]
    for least, most in lists or [(0, 0)]:
        indices = _drawn(problem.indices, least, most, rng)
        if isinstance(problem.operator, GatherWeighted):
            fill_weights(indices, rng)
        yield data, indices
    for outside in (sizes, -sizes - 1) if problem.bounds is Bounds.ERROR and problem.indices.size else ():
        if np.all(outside >= int(kind.min)) and np.all(outside <= int(kind.max)):
            indices = np.zeros(problem.indices.shape, problem.indices.dtype)
            indices.reshape(-1, len(sizes))[-1] = outside  # one alone: no other that is outside hides it
            yield data, indices


def _drawn(spec: ArraySpec, least: Any, most: Any, rng: np.random.Generator) -> np.ndarray:
    """Return indices between two bounds, both of which occur."""
    shape = spec.shape or (1,)  # of a single index, one
    least, most = (np.broadcast_to(np.asarray(bound, object), shape).reshape(-1) for bound in (least, most))
    drawn = [
        (low, high, int(rng.integers(low, high, dtype=spec.dtype, endpoint=True)))[min(place % 5, 2)]
        for place, (low, high) in enumerate(zip(least, most, strict=True))
    ]
    return np.array(drawn, object).reshape(spec.shape).astype(spec.dtype)


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between a stage and the operator that it computes.

    Attributes:
        message: a line with the element of data that belongs there, and the operation that stored another.
        position: of the first element that differs; None where the stage raised another error, or none.
    """

    message: str
    position: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return self.message


def reference_result(problem: Problem, data: np.ndarray, indices: np.ndarray) -> np.ndarray | BoundsError:
    """Return the result of the operator's reference, or the error with which it rejects the call."""
    try:
        return reference.of_problem(problem, data, indices)
    except BoundsError as error:
        return error


def difference_text(got: np.ndarray, wanted: np.ndarray) -> str | None:
    """Return the first element that differs and how many there are, as text; None where the bytes are equal."""
    if (found := first_difference(got, wanted)) is None:
        return None
    position, count = found
    return (
        f"at {list(position)} of the result it must give {wanted[position]}, and it gives {got[position]}; "
        f"{count} of {wanted.size} elements differ"
    )


def check_stage(
    module: ModuleOp,
    problem: Problem,
    data: np.ndarray,
    indices: np.ndarray,
    engine: str,
    *,
    wanted: np.ndarray | BoundsError | None = None,
    seed: int = 0,
) -> Difference | None:
    """Run a module by an engine, and return how it differs from the operator's reference; None where it does not.

    A gather that must be rejected may leave anything in its result. With `bounds="unchecked"` indices must be inside.
    `wanted` is what `reference_result` returned, where the caller has it.
    """
    if wanted is None:
        wanted = reference_result(problem, data, indices)
    try:
        got: np.ndarray | GathernestError = execute(module, problem, data, indices, engine, seed=seed)
    except (BoundsError, InternalError) as error:
        got = error
    if isinstance(wanted, BoundsError):
        rejected = isinstance(got, BoundsError)
        outcome = "it gave a result" if isinstance(got, np.ndarray) else f"it failed: {got}"
        return None if rejected else Difference(f"it must be rejected ({wanted}), but {outcome}")
    if isinstance(got, GathernestError):
        return Difference(str(got))
    return difference(module, problem, data, indices, got, wanted, seed=seed)


def difference(
    module: ModuleOp,
    problem: Problem,
    data: np.ndarray,
    indices: np.ndarray,
    got: np.ndarray,
    wanted: np.ndarray,
    *,
    seed: int = 0,
) -> Difference | None:
    """Return the first difference between a module's result and the wanted one; None where the bytes are equal."""
    if (found := first_difference(got, wanted)) is None:
        return None
    position, count = found
    number = -1 if problem.adds else int(sources_of(problem, indices)[position])
    source = None if number < 0 else [int(part) for part in np.unravel_index(number, problem.table.shape)]
    element = "" if problem.adds else "zero, " if source is None else f"data{source}, "
    given = f"it gives {got[position]}"
    if set(got[position].tobytes()) == {UNWRITTEN}:
        given = "nothing is written there"
    elif (writer := _writer_of(module, data, indices, got, position, seed)) is not None:
        given += f", stored by {writer}"
    return Difference(
        f"at {list(position)} of the result it must give {element}{wanted[position]}, and {given}; {count} of "
        f"{wanted.size} elements differ",
        position,
    )


def sources_of(problem: Problem, indices: np.ndarray) -> np.ndarray:
    """Return the number in data of each gathered element, -1 for a zero; a reduction gathers slices, and sums them."""
    numbers = np.arange(problem.table.size).reshape(problem.table.shape) + 1
    operator = Gather() if problem.reduces else problem.operator
    return reference.run(operator, numbers, indices, problem.bounds) - 1


def _writer_of(
    module: ModuleOp, data: np.ndarray, indices: np.ndarray, got: np.ndarray, position: tuple[int, ...], seed: int
) -> str | None:
    """Return the operation that stored an element last, if the interpreter stores the same there."""
    again = np.empty_like(got)
    watched = again.ctypes.data + int(np.ravel_multi_index(position, got.shape)) * got.itemsize if got.ndim else None
    try:
        writer = interpret(module, data, index_argument(module, indices), again, seed=seed, watched=watched)
    except GathernestError:
        return None
    return writer if again[position].tobytes() == got[position].tobytes() else None
