"""Problems drawn at random, and the plain NumPy reference that every other oracle is held against.

Written apart from `gathernest.ir.reference`: positions by NumPy's integer arithmetic on Python ints, slices by
`numpy.take` on raw bytes, the output assembled batch by batch.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir.modules.context import parse_module
from gathernest.kernels.runtime.array_checks import index_array
from gathernest.kernels.runtime.compile import module_of
from gathernest.kernels.runtime.plan import Plan
from gathernest.lowering.pipeline import Stage, parse_passes, record_stages

INDEX_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
BOUNDS = ("error", "zero", "clip", "wrap", "unchecked")
ELEMENT_DTYPES = tuple(
    np.dtype(kind)
    for kind in (
        *("bool", "int8", "int16", "float16", "float32", "uint32", "float64", "int64", "complex64", "complex128"),
        *("S5", "S10", "U3", ">f8", ">U2", "M8[ns]", "m8[D]", "V3", "longdouble"),
        *([("id", "<i4"), ("weight", "<f8")], [("tag", "S1"), ("at", "<u8"), ("more", "S11")]),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint2),
    )
)
# Of so many stages one is read back from its text.
READ_BACK = 4
LAYOUTS = ("contiguous", "reversed", "stepped", "transposed", "padded", "field", "broadcast")


class OutOfRange(LookupError):
    """The reference found an index that its bounds mode does not allow."""


@dataclass(frozen=True)
class Case:
    """One gather to run: arguments as a caller would give them, attributes perhaps negative."""

    data: np.ndarray
    indices: np.ndarray
    axis: int = 0
    batch_dims: int = 0
    bounds: str = "error"
    out_layout: str = "contiguous"
    out_offset: int = 0
    operator: str = "gather"

    @property
    def normal_axis(self) -> int:
        return self.axis % self.data.ndim

    @property
    def normal_batch_dims(self) -> int:
        return self.batch_dims + self.indices.ndim if self.batch_dims < 0 else self.batch_dims

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the indexed axes: one for each component of a tuple."""
        if self.operator == "gather_nd":
            return self.data.shape[self.batch_dims : self.batch_dims + self.indices.shape[-1]]
        return (self.data.shape[self.normal_axis],)

    @property
    def out_shape(self) -> tuple[int, ...]:
        shape, axis = self.data.shape, self.normal_axis
        if self.operator == "gather_elements":
            return self.indices.shape
        if self.operator == "gather_nd":
            return self.indices.shape[:-1] + shape[self.batch_dims + self.indices.shape[-1] :]
        return shape[:axis] + self.indices.shape[self.normal_batch_dims :] + shape[axis + 1 :]

    def attributes(self) -> dict[str, int]:
        """Return the attributes that the operator has."""
        names = {"gather": ("axis", "batch_dims"), "gather_nd": ("batch_dims",), "gather_elements": ("axis",)}
        return {name: getattr(self, name) for name in names[self.operator]}

    def empty_out(self) -> np.ndarray:
        """Return an array for the result, every byte of it 0xA5; a contiguous one `out_offset` bytes behind a line."""
        shape = (*self.out_shape, self.data.dtype.itemsize)
        size_bytes = int(np.prod(shape, dtype=np.int64))
        room = np.full(size_bytes + 128, 0xA5, np.uint8)
        start = -room.ctypes.data % 64 + self.out_offset
        raw = room[start : start + size_bytes].reshape(shape)
        return lay_out(as_elements(raw, self.data.dtype), self.out_layout)


def as_elements(raw: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return bytes (shape..., itemsize) as elements (shape...)."""
    return raw.view(f"V{dtype.itemsize}").reshape(raw.shape[:-1]).view(dtype)


def lay_out(values: np.ndarray, layout: str) -> np.ndarray:
    """Return an array with the same elements that lies in memory as `layout` says."""
    opaque = values.view(f"V{values.dtype.itemsize}")
    if values.ndim == 0 or layout == "contiguous":
        return values
    if layout == "reversed":
        turn = (slice(None, None, -1),) * values.ndim
        result = np.ascontiguousarray(opaque[turn])[turn]
    elif layout == "stepped":
        result = np.zeros([2 * size for size in values.shape], opaque.dtype)[(slice(None, None, 2),) * values.ndim]
    elif layout == "transposed":
        result = np.asfortranarray(opaque)
    elif layout == "padded":
        result = np.zeros([size + 2 for size in values.shape], opaque.dtype)[(slice(1, -1),) * values.ndim]
    elif layout == "field":
        result = np.zeros(values.shape, [("before", "V1"), ("value", opaque.dtype), ("after", "V2")])["value"]
    else:
        raise ValueError(layout)
    result[...] = opaque
    return result.view(values.dtype)


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


# drawing


def _index_values(
    draw: Callable, dtype: np.dtype, shape: tuple[int, ...], sizes: Sequence[int], bounds: str
) -> np.ndarray:
    """Draw indices that are mostly of interest: the ends of the axis, and for the total modes those of the dtype.

    `sizes` are those of the indexed axes, one for each component of a tuple.
    """
    lowest, highest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)

    def valid(size: int) -> st.SearchStrategy[int]:
        return st.integers(max(lowest, 0 if bounds == "unchecked" else -size), min(highest, max(size - 1, 0)))

    def anything(size: int) -> st.SearchStrategy[int]:
        near = [value for value in (-size - 1, size, size + 1) if lowest <= value <= highest]
        ends = st.sampled_from([*near, lowest, highest])
        return st.one_of(valid(size), ends, st.integers(lowest, highest))

    kind = anything if bounds in ("zero", "clip", "wrap") else valid
    count = int(np.prod(shape, dtype=np.int64))
    drawn = [draw(kind(sizes[place % len(sizes)])) for place in range(count)]
    if bounds == "error" and count and draw(st.integers(0, 3)) == 0:
        place = draw(st.integers(0, count - 1))
        drawn[place] = draw(anything(sizes[place % len(sizes)]))
    return np.array(drawn, dtype).reshape(shape)


def _sizes(draw: Callable, rank: int, most: int) -> tuple[int, ...]:
    """Draw a shape of at most `most` elements; a size of 0 is rare."""
    shape: list[int] = []
    for _ in range(rank):
        left = max(most // max(int(np.prod(shape)), 1), 1)
        shape.append(draw(st.sampled_from([size for size in (2, 3, 1, 4, 2, 1, 5, 0) if size <= left])))
    return tuple(shape)


def fill(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array of noise: any bytes at all, but for the dtypes in which not every pattern is a value."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.frombuffer(np.random.default_rng(count).bytes(count), np.uint8).reshape((*shape, dtype.itemsize)).copy()
    if dtype.kind == "b":
        raw &= 1
    elif dtype.kind == "U":
        letters = (raw.reshape(-1).view("u4") % 0x500 + 0x20).astype("u4" if dtype.isnative else ">u4")
        raw = letters.view(np.uint8).reshape(raw.shape)
    elif dtype == np.longdouble:
        return np.arange(count // dtype.itemsize).astype(dtype).reshape(shape)
    return as_elements(raw, dtype)


def arrange(draw: Callable, values: np.ndarray, layout: str) -> np.ndarray:
    """Lay values out; "broadcast" repeats the first slice of some dimensions with stride 0."""
    if layout != "broadcast":
        return lay_out(values, layout)
    repeated = draw(st.lists(st.booleans(), min_size=values.ndim, max_size=values.ndim))
    kept = tuple(
        slice(0, 1) if flag and size else slice(None) for flag, size in zip(repeated, values.shape, strict=True)
    )
    return np.broadcast_to(values[kept], values.shape)


def draw_case(
    draw: Callable,
    *,
    operator: str = "gather",
    dtype: np.dtype | None = None,
    index_dtype: str | None = None,
    bounds: str | None = None,
    layouts: tuple[str, ...] = LAYOUTS,
    most: int = 60,
) -> Case:
    """Draw a gather: every rank to 6, every axis and batch_dims written either way, every mode and layout."""
    bounds = bounds or draw(st.sampled_from(BOUNDS))
    index_type = np.dtype(index_dtype or draw(st.sampled_from(INDEX_DTYPES)))
    element_type = dtype or draw(st.sampled_from(ELEMENT_DTYPES))
    rank = draw(st.integers(1, 6))
    shape = list(_sizes(draw, rank, most))
    axis = draw(st.integers(0, rank - 1))
    if draw(st.integers(0, 5)) == 0:
        shape = list(_sizes(draw, rank, 4))
        shape[axis] = draw(st.sampled_from([127, 128, 129, 255, 256, 300]))
    batch_dims = draw(st.integers(0, axis))
    attributes: dict[str, int] = {}
    sizes = [shape[axis]]
    if operator == "gather":
        indices_shape = (*shape[:batch_dims], *_sizes(draw, draw(st.integers(0, 3)), 12))
        attributes = {"axis": axis, "batch_dims": batch_dims}
    elif operator == "gather_nd":
        length = draw(st.integers(1, rank - batch_dims))
        sizes = shape[batch_dims : batch_dims + length]
        indices_shape = (*shape[:batch_dims], *_sizes(draw, draw(st.integers(0, 2)), 12), length)
        attributes = {"batch_dims": batch_dims}
    else:
        smaller = [draw(st.sampled_from([size, size, max(size - 1, 0)])) for size in shape]
        smaller[axis] = draw(st.integers(0, 4))
        indices_shape = tuple(smaller)
        attributes = {"axis": axis}
    values = _index_values(draw, index_type, indices_shape, sizes, bounds)
    if "axis" in attributes:
        attributes["axis"] -= draw(st.sampled_from([0, rank]))
    if operator == "gather" and batch_dims < len(indices_shape):
        attributes["batch_dims"] -= draw(st.sampled_from([0, len(indices_shape)]))
    data = arrange(draw, fill(tuple(shape), element_type), draw(st.sampled_from(layouts)))
    indices = arrange(draw, values, draw(st.sampled_from(layouts)))
    out_layout = draw(st.sampled_from([layout for layout in layouts if layout != "broadcast"]))
    return Case(data, indices, bounds=bounds, out_layout=out_layout, operator=operator, **attributes)


def draw_case_of_roles(
    draw: Callable, roles: Sequence[str], *, dtype: np.dtype, index_dtype: str, bounds: str, long_axis: bool = False
) -> Case:
    """Draw a contiguous gather that has exactly these roles, so that every draw is served by one kernel.

    Args:
        roles: of "batch", "outer", "indices" and "inner"; each gets one to three dimensions.
        long_axis: whether the axis is longer than an index of 8 bits reaches.
    """

    def sizes(role: str) -> tuple[int, ...]:
        if role not in roles:
            return draw(st.sampled_from([(), (1,)])) if role in ("outer", "inner") else ()
        return draw(st.sampled_from([(2,), (3,), (5,), (2, 2), (1, 3), (3, 1), (2, 1, 2)]))

    batch, outer, picks, inner = map(sizes, ("batch", "outer", "indices", "inner"))
    size = draw(st.sampled_from([256, 300] if long_axis else [1, 2, 3, 7]))
    shape = (*batch, *outer, size, *inner)
    values = _index_values(draw, np.dtype(index_dtype), (*batch, *picks), [size], bounds)
    return Case(fill(shape, dtype), values, len(batch) + len(outer), len(batch), bounds)


def draw_case_of_rows(draw: Callable, operator: str) -> Case:
    """Draw a gather with rows, or rows of indices, that are long enough for vectors; out at any address."""
    bounds, index_dtype = draw(st.sampled_from(BOUNDS)), np.dtype(draw(st.sampled_from(INDEX_DTYPES)))
    long, size = draw(st.sampled_from([8, 33, 17, 9, 16, 3, 7, 1, 2, 31, 40, 0])), draw(st.sampled_from([3, 1, 4, 0]))
    lead = draw(st.sampled_from([(), (2,), (3, 2), (1,)]))
    attributes: dict[str, int] = {}
    if operator == "gather_nd":
        batch_dims = draw(st.integers(0, len(lead)))
        length = draw(st.integers(1, len(lead) + 1 - batch_dims))
        shape = (*lead, size, *draw(st.sampled_from([(long,), ()])))
        picks = draw(st.sampled_from([(3,), (long,), (2, 2)]))
        indices_shape, sizes = (*shape[:batch_dims], *picks, length), shape[batch_dims : batch_dims + length]
        attributes = {"batch_dims": batch_dims}
    else:
        inner = draw(st.sampled_from([(long,), ()]))
        shape, sizes, attributes = (*lead, size, *inner), (size,), {"axis": len(lead)}
        indices_shape = (*lead, draw(st.sampled_from([3, long])), *inner)
        if operator == "gather":
            batch_dims = draw(st.integers(0, len(lead)))
            indices_shape = (*lead[:batch_dims], draw(st.sampled_from([3, long, 8])))
            attributes |= {"batch_dims": batch_dims}
    values = _index_values(draw, index_dtype, indices_shape, sizes, bounds)
    layout = draw(st.sampled_from(["contiguous", "contiguous", *LAYOUTS]))
    data = arrange(draw, fill(shape, draw(st.sampled_from(ELEMENT_DTYPES))), layout)
    indices = index_array(arrange(draw, values, draw(st.sampled_from(["contiguous", *LAYOUTS]))))
    out_layout = draw(st.sampled_from(["contiguous"] * 4 + ["padded", "reversed"]))
    offset = draw(st.sampled_from([0, 0, data.dtype.itemsize, 32, 16, 1, 7, 8, 60]))
    case = Case(data, indices, bounds=bounds, out_layout=out_layout, out_offset=offset, operator=operator)
    return replace(case, **attributes)


def stages_with_modules(plan: Plan, number: int = 0) -> list[tuple[Stage, ModuleOp]]:
    """Return the stages of a plan that differ from those before, each with its module.

    Reading a stage takes ten times as long as all else that is done with it: so one in four is read back from its
    text, others for each `number`, and of the others the module is as the pass left it.
    """
    module, found = module_of(plan.problem), {}
    for place, stage in enumerate(record_stages(module, parse_passes(plan.pipeline))):
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
