"""NumPy: `take` in the mode that does not buffer `out`, or indexing with arrays; always on one thread."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..cases.case import Case, Inputs
from .peer import Call, Peer, Variants

# More batches than that are not worth a loop in Python.
MOST_PYTHON_BATCHES = 64


class NumPy(Peer):
    """NumPy as one would write it, in every way that is fast for some case."""

    name = "numpy"

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        makers = _makers(case)
        return {name: [make(case, inputs, picks) for picks in inputs.indices] for name, make in makers.items()}


Maker = Callable[[Case, Inputs, np.ndarray], Call]


def _makers(case: Case) -> dict[str, Maker]:
    if case.is_gradient:
        return {"add.at": _add_at}
    if case.is_reduction:
        return {"take, reduce": _take_and_reduce}
    if case.operator == "gather_elements":
        return {"take_along_axis": _take_along_axis}
    if case.operator == "gather_nd":
        return {"index": _index} | ({"ravel_multi_index, take": _ravel_and_take} if not case.batch_dims else {})
    if case.family == "call" and case.into == "new":
        return {"take": lambda case, inputs, picks: partial(np.take, inputs.data, picks, case.axis)}
    if not case.batch_dims:
        return {"ndarray.take": _take} | ({"index": _index} if case.axis == 0 else {})
    makers: dict[str, Maker] = {"index": _index} if case.axis == case.batch_dims else {}
    many = math.prod(case.data[: case.batch_dims]) > MOST_PYTHON_BATCHES and makers
    return makers if many else makers | {"ndarray.take in a loop": _take_in_loop}


def _take(case: Case, inputs: Inputs, picks: np.ndarray) -> Call:
    return partial(inputs.data.take, picks, case.axis, _given(case, inputs), "clip")


def _given(case: Case, inputs: Inputs) -> Any:
    """Return the result that is given, or None."""
    return inputs.out if case.into == "out" else None


def _take_in_loop(case: Case, inputs: Inputs, picks: np.ndarray) -> Call:
    axis, given = case.axis - case.batch_dims, _given(case, inputs)
    batches = [
        (place, partial(inputs.data[place].take, picks[place], axis))
        for place in np.ndindex(*case.data[: case.batch_dims])
    ]

    def call() -> np.ndarray:
        out = np.empty(case.gathered, case.dtype) if given is None else given
        for place, take in batches:
            take(out[place], "clip")
        return out

    return call


def _index(case: Case, inputs: Inputs, picks: np.ndarray) -> Call:
    rank = picks.ndim - (case.operator == "gather_nd")
    batch = np.indices(picks.shape[:rank], sparse=True)[: case.batch_dims]
    components = tuple(np.moveaxis(picks, -1, 0)) if case.operator == "gather_nd" else (picks,)
    return partial(inputs.data.__getitem__, (*batch, *components))


def _ravel_and_take(case: Case, inputs: Inputs, picks: np.ndarray) -> Call:
    count = picks.shape[-1]
    table = inputs.data.reshape(-1, *case.data[count:])
    components, given = tuple(np.moveaxis(picks, -1, 0)), _given(case, inputs)

    def call() -> np.ndarray:
        return table.take(np.ravel_multi_index(components, case.data[:count]), 0, given, "clip")

    return call


def _take_along_axis(case: Case, inputs: Inputs, picks: np.ndarray) -> Call:
    cut = tuple(slice(size) if dim != case.axis else slice(None) for dim, size in enumerate(picks.shape))
    return partial(np.take_along_axis, inputs.data[cut], picks, case.axis)


def _take_and_reduce(case: Case, inputs: Inputs, picks: np.ndarray) -> Call:
    reduction, given = np.maximum if case.operator == "gather_max" else np.add, _given(case, inputs)
    return lambda: reduction.reduce(inputs.data.take(picks, 0, None, "clip"), -2, None, given)


def _add_at(case: Case, inputs: Inputs, picks: np.ndarray) -> Call:
    place: Any = (*[slice(None)] * case.axis, picks)

    def add_to(sums: np.ndarray) -> np.ndarray:
        np.add.at(sums, place, inputs.data)
        return sums

    def into_given() -> np.ndarray:
        inputs.out.fill(0)
        return add_to(inputs.out)

    return into_given if case.into == "out" else lambda: add_to(np.zeros(case.data, case.dtype))
