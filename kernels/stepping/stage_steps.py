"""One element of a gather's result through the text of a stage, for all that has the gather and its arrays."""

import math
import operator as operators
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import reference
from ...ir.errors import BoundsError, InvalidGatherError
from ...ir.problem import Problem
from ...ir.semantics import Bounds
from ..runtime.launch import available_threads
from .remarks import remarks
from .stage_run import StageRun
from .steps import Shape, Steps

# An operation takes some 15 microseconds, and an element some ten operations.
MOST_ELEMENTS = 300_000


def step_stage(
    text: str,
    stage: str,
    problem: Problem,
    data: np.ndarray,
    indices: np.ndarray,
    element: int | Sequence[int] = 0,
    *,
    file: str = "<text>",
    threads: int | None = None,
) -> Steps:
    """Step through one element of a problem's result in the text of a stage.

    Args:
        text: MLIR of any level.
        stage: what the stage is called.
        problem, data, indices: the gather with its arrays; of a gradient, `data` is grad.
        element: its position in the result, or its number in C order.
        file: what messages call the text.
        threads: how many share parallel loops; as many as a large gather uses here when omitted.

    Raises:
        InputError: the text does not parse or is not valid.
        InvalidGatherError: the element is outside of the result, or the stage is too large or of other arrays.
    """
    position = element_position(element, problem.result.shape)
    read = problem.indices.size * math.prod(problem.table.shape[1:]) if problem.reduces else problem.slices.size
    work = max(problem.result.size, read)
    if work > MOST_ELEMENTS:
        raise InvalidGatherError(
            f"the gather has {work} elements, and a stage is interpreted one operation at a time: at most "
            f"{MOST_ELEMENTS}; give smaller sizes"
        )
    threads = available_threads() if threads is None else threads
    if threads < 1:
        raise InvalidGatherError(f"threads must be a whole number from 1, got {threads}")
    steps, sources, error, value = StageRun(text, file, problem, data, indices, position, threads).steps()
    undefined = problem.bounds is Bounds.UNCHECKED and _breaks_promise(problem, indices)
    expected: Any = None
    must_fail = False
    if not undefined:
        try:
            expected = reference.of_problem(problem, data, indices)[position]
        except BoundsError:
            must_fail = True
    same = value is not None and expected is not None and np.asarray(value).tobytes() == np.asarray(expected).tobytes()
    is_right = undefined or (isinstance(error, BoundsError) if must_fail else error is None and same)
    facts = {"is_right": is_right, "undefined": undefined, "threads": threads}
    said = remarks(problem, indices, position, steps, value, expected, error, **facts)
    failed = None if error is None else str(error)
    gather = gather_line(problem)
    return Steps(gather, stage, text, position, value, expected, sources, said, failed, is_right, steps)


def element_position(element: int | Sequence[int], shape: Shape) -> Shape:
    """Return the position of an element that is given by its position or its number in C order.

    Raises:
        InvalidGatherError: it is outside of the result, or the result is empty.
    """
    size = math.prod(shape)
    if not size:
        raise InvalidGatherError(f"the result of shape {shape} is empty; give sizes from 1 on")
    try:
        if isinstance(element, Sequence) and not isinstance(element, str):
            position = tuple(operators.index(part) for part in element)
            is_inside = len(position) == len(shape) and all(
                0 <= part < size for part, size in zip(position, shape, strict=True)
            )
        else:
            number = operators.index(element)  # type: ignore[arg-type]
            is_inside = 0 <= number < size
            position = tuple(int(part) for part in np.unravel_index(number, shape)) if is_inside else ()
    except TypeError:
        is_inside, position = False, ()
    if not is_inside:
        given = ",".join(map(str, element)) if isinstance(element, Sequence) else element
        last = ",".join(str(size - 1) for size in shape)
        position_form = f"a position up to {last}, or " if shape else ""
        raise InvalidGatherError(
            f"element {given} is outside of the result of shape {shape}; give {position_form}a number from 0 to "
            f"{size - 1}"
        )
    return position


def gather_line(problem: Problem) -> str:
    """Return a problem in a line."""
    return f"{problem.name} {problem.source} by {problem.indices} -> {problem.result}, {problem.options}"


def _breaks_promise(problem: Problem, indices: np.ndarray) -> bool:
    sizes = np.array(problem.axis_sizes, object)
    parts = indices.reshape(-1, len(sizes)) if len(sizes) > 1 else indices.reshape(-1, 1)
    return bool(((parts < 0) | (parts >= sizes)).any())
