"""Gathers drawn at random: every operator, mode, dtype, layout and axis, with the indices that are of interest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st

from gathernest.kernels.runtime.array_checks import index_array

from ..selection import example_ratio

# `make fuzz` draws other examples in every run.
EXACT = settings(
    deadline=None, derandomize=example_ratio() <= 1, database=None, phases=(Phase.explicit, Phase.generate)
)

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
LAYOUTS = ("contiguous", "reversed", "stepped", "transposed", "padded", "field", "broadcast")


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


def draw_case_of_rows(draw: Callable, operator: str, *, is_whole: bool = False, of: str = "") -> Case:
    """Draw a gather with rows, or rows of indices, that are long enough for vectors; out at any address.

    Args:
        is_whole: whether every row has elements, and out is contiguous.
        of: "lanes" where each element has an index, and a width that processors gather; "rows" where data has rows.
    """
    bounds, index_dtype = draw(st.sampled_from(BOUNDS)), np.dtype(draw(st.sampled_from(INDEX_DTYPES)))
    lengths, counts = [8, 33, 17, 9, 16, 3, 7, 2, 31, 40], [3, 1, 4]
    long = draw(st.sampled_from(lengths if is_whole else [*lengths, 1, 0]))
    size = draw(st.sampled_from(counts if is_whole else [*counts, 0]))
    lead = draw(st.sampled_from([(), (2,), (3, 2), (1,)]))
    row = draw(st.sampled_from({"lanes": [()], "rows": [(long,)]}.get(of, [(long,), ()])))
    attributes: dict[str, int] = {}
    if operator == "gather_nd":
        batch_dims = draw(st.integers(0, len(lead)))
        length = draw(st.integers(1, len(lead) + 1 - batch_dims))
        shape = (*lead, size, *row)
        picks = draw(st.sampled_from([(3,), (long,), (2, 2)]))
        indices_shape, sizes = (*shape[:batch_dims], *picks, length), shape[batch_dims : batch_dims + length]
        attributes = {"batch_dims": batch_dims}
    else:
        shape, sizes, attributes = (*lead, size, *row), (size,), {"axis": len(lead)}
        indices_shape = (*lead, draw(st.sampled_from([3, long])), *row)
        if operator == "gather":
            batch_dims = draw(st.integers(0, len(lead)))
            indices_shape = (*lead[:batch_dims], draw(st.sampled_from([3, long, 8])))
            attributes |= {"batch_dims": batch_dims}
    values = _index_values(draw, index_dtype, indices_shape, sizes, bounds)
    widths = {"lanes": (4, 8), "rows": (1, 2, 4, 8, 16)}.get(of)
    dtypes = [dtype for dtype in ELEMENT_DTYPES if widths is None or dtype.itemsize in widths]
    layouts = {"lanes": ["contiguous", "reversed", "stepped", "padded"], "rows": ["contiguous"]}.get(of, LAYOUTS)
    layout = draw(st.sampled_from(["contiguous", "contiguous", *layouts]))
    data = arrange(draw, fill(shape, draw(st.sampled_from(dtypes))), layout)
    indices = index_array(arrange(draw, values, draw(st.sampled_from(["contiguous", *layouts]))))
    out_layout = "contiguous" if is_whole else draw(st.sampled_from(["contiguous"] * 4 + ["padded", "reversed"]))
    offset = draw(st.sampled_from([0, 0, data.dtype.itemsize, 32, 16, 1, 7, 8, 60]))
    case = Case(data, indices, bounds=bounds, out_layout=out_layout, out_offset=offset, operator=operator)
    return replace(case, **attributes)
