"""The plain NumPy reference that every other oracle is held against, and what tests draw for it.

Written apart from `gathernest.ir.reference`: positions by NumPy's integer arithmetic on Python ints, slices by
`numpy.take` on raw bytes, the output assembled batch by batch.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir.modules.context import parse_module
from gathernest.kernels.runtime.array_checks import index_array
from gathernest.kernels.runtime.compile import module_of
from gathernest.kernels.runtime.plan import Plan
from gathernest.lowering.pipeline import Stage, parse_passes, record_stages

from .cases import ELEMENT_DTYPES, Case, arrange, draw_case, draw_case_of_roles, draw_case_of_rows, fill, lay_out

# Of so many stages one is read back from its text.
READ_BACK = 4


class OutOfRange(LookupError):
    """The reference found an index that its bounds mode does not allow."""


def position_of(index: int, size: int, bounds: str) -> int:
    """Return where an index points, -1 for nowhere."""
    if size == 0:
        if bounds == "zero":
            return -1
        raise OutOfRange(index)
    if bounds == "clip":
        return int(np.clip(np.array(index, object), 0, size - 1))
    if bounds == "wrap":
        return index - size * (index // size)
    inside = list(range(size)) * 2
    if bounds in ("error", "zero") and -size <= index < size:
        return inside[size + index]
    if bounds == "zero":
        return -1
    if bounds == "unchecked":
        return index
    raise OutOfRange(index)


def reference(case: Case) -> np.ndarray:
    """Return the result of a case, bytes and all; raise OutOfRange where an index is not valid."""
    data = case.data.view(f"V{case.data.dtype.itemsize}")
    sizes = itertools.cycle(case.axis_sizes)
    flat = [position_of(int(index), next(sizes), case.bounds) for index in case.indices.flat]
    positions = np.array(flat, np.int64).reshape(case.indices.shape)
    result = np.zeros(case.out_shape, data.dtype)
    if result.size and 0 not in case.axis_sizes:
        {"gather": _take, "gather_nd": _take_tuples, "gather_elements": _take_along}[case.operator](
            case, data, positions, result
        )
    return result.view(case.data.dtype).reshape(case.out_shape)


def _take(case: Case, data: np.ndarray, positions: np.ndarray, result: np.ndarray) -> None:
    """Gather batch by batch with `numpy.take`."""
    axis, batch_dims = case.normal_axis, case.normal_batch_dims
    for batch in itertools.product(*map(range, data.shape[:batch_dims])):
        picks = positions[batch]
        taken = np.array(np.take(data[batch], np.maximum(picks, 0), axis=axis - batch_dims))
        taken[(*(slice(None),) * (axis - batch_dims), picks < 0)] = np.zeros((), data.dtype)
        result[batch] = taken


def _take_tuples(case: Case, data: np.ndarray, positions: np.ndarray, result: np.ndarray) -> None:
    """Gather tuple by tuple."""
    for place in itertools.product(*map(range, positions.shape[:-1])):
        components = tuple(positions[place].tolist())
        if min(components) >= 0:
            result[place] = data[place[: case.batch_dims] + components]


def _take_along(case: Case, data: np.ndarray, positions: np.ndarray, result: np.ndarray) -> None:
    """Gather with `numpy.take_along_axis`, from as much of data as indices cover."""
    axis = case.normal_axis
    cover = tuple(slice(None) if dim == axis else slice(size) for dim, size in enumerate(positions.shape))
    result[...] = np.take_along_axis(data[cover], np.maximum(positions, 0), axis)
    result[positions < 0] = np.zeros((), data.dtype)


def same_bytes(got: np.ndarray, wanted: np.ndarray) -> bool:
    """Return whether two arrays agree in shape, dtype and every byte."""
    return (got.shape, got.dtype) == (wanted.shape, wanted.dtype) and got.tobytes() == wanted.tobytes()


def stages_with_modules(plan: Plan, number: int = 0) -> list[tuple[Stage, ModuleOp]]:
    """Return the stages of a plan that differ from those before, each with its module.

    Reading a stage takes ten times as long as all else that is done with it: so one in four is read back from its
    text, others for each `number`, and of the others the module is as the pass left it.
    """
    return read_some(module_of(plan.problem), plan.pipeline, number)


def read_some(module: ModuleOp, pipeline: str, number: int) -> list[tuple[Stage, ModuleOp]]:
    """Run a pipeline on a module in place; return its stages as `stages_with_modules` does."""
    found: dict[str, tuple[Stage, ModuleOp]] = {}
    for place, stage in enumerate(record_stages(module, parse_passes(pipeline))):
        if stage.text not in found:
            is_read = place % READ_BACK == number % READ_BACK
            found[stage.text] = stage, parse_module(stage.text) if is_read else module.clone()
    return list(found.values())


class Oracle:
    """What the tests of this folder use."""

    make = Case
    out_of_range = OutOfRange
    case = staticmethod(draw_case)
    case_of_rows = staticmethod(draw_case_of_rows)
    case_of_roles = staticmethod(draw_case_of_roles)
    arrange = staticmethod(arrange)
    reference = staticmethod(reference)
    same_bytes = staticmethod(same_bytes)
    lay_out = staticmethod(lay_out)
    stages_with_modules = staticmethod(stages_with_modules)
    read_some = staticmethod(read_some)
    fill = staticmethod(fill)

    @staticmethod
    def staged_case(draw: Callable, **options: Any) -> Case:
        """Draw a case with the indices that the run time hands to a kernel, which reads them in place."""
        case = draw_case(draw, **options)
        return replace(case, indices=index_array(case.indices))

    def expected(self, case: Case) -> np.ndarray | None:
        """Return the result, or None where the reference rejects an index."""
        try:
            return reference(case)
        except OutOfRange:
            return None

    def agrees(self, case: Case, wanted: np.ndarray | None, run: Callable[[np.ndarray], Any], error: type) -> bool:
        """Run something that writes into `out`, and return whether it did what the reference says.

        Where the reference rejects, that is raising `error` and leaving `out` as it was.
        """
        out = case.empty_out()
        before = out.tobytes()
        try:
            run(out)
        except error:
            return wanted is None and out.tobytes() == before
        return wanted is not None and same_bytes(out, wanted)


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    return Oracle()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "element_dtype" in metafunc.fixturenames:
        metafunc.parametrize("element_dtype", ELEMENT_DTYPES, ids=str)
