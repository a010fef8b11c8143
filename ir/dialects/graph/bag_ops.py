"""Operations over bags of indices: `graph.bags` reduces the rows that they select, `graph.count_less` finds bags."""

import functools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from ...element_types import element_type_name
from ...errors import BoundsError, ModelError
from ...positions import NOWHERE, first_where, resolve
from ...semantics import DYNAMIC, Bounds, Shape
from ..graph_op import Fields, Known
from .elementwise_ops import FLOATS, INTEGERS, check_integers, element_dtypes
from .sized_op import Elements, SizedOp, shown

ADDED = {
    "sum": (*INTEGERS, *FLOATS),
    "mean": FLOATS,
    "max": (*(name for name in INTEGERS if name.startswith("int")), *FLOATS),
}
NARROW = ("float16", "bfloat16")
# What an index outside means: an error, as a negative one is, too, with "natural"; or a row of zeros.
BOUNDS = ("error", "zero", "natural")
# A group has as many rows as ONNX Runtime adds to each other first; 1 adds rows one by one.
GROUPS = (1, 4)


@irdl_op_definition
class BagsOp(SizedOp):
    """The sum, mean or maximum of the rows of a table that each bag of indices selects.

    A bag is the last dimension of indices; with starts and ends, the part of a vector of indices between the two. The
    last operand, where there are three or five, has a weight for each index, by which its row is multiplied first.

    Rows are added from zero in the order of the indices, narrow floats as float32. With `group 4`, and two bags or
    more, four rows are added to each other, and then to the sum, as long as so many are left; then two, then one. An
    empty bag gives zeros, a maximum of it the least value. A mean is divided by the number of indices.

    ```
    %y = graph.bags %table, %indices reduce "mean" bounds "error" group 4
         : tensor<9x4xf32>, tensor<?x3xi64> -> tensor<?x4xf32>
    %z = graph.bags %table, %indices, %starts, %ends, %weights reduce "sum" bounds "natural" group 1
         : tensor<9x4xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>, tensor<?xf32> -> tensor<?x4xf32>
    ```
    """

    name = "graph.bags"
    OPERANDS: ClassVar = None

    reduce = prop_def(StringAttr)
    bounds = prop_def(StringAttr)
    group = prop_def(IntegerAttr)

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        if not 2 <= len(inputs) <= 5:
            raise ModelError(f"bags have 2 to 5 operands, got {len(inputs)}")
        table, *others = element_dtypes(inputs)
        for name, allowed in (("reduce", tuple(ADDED)), ("bounds", BOUNDS), ("group", GROUPS)):
            if fields[name] not in allowed:
                raise ModelError(f"{name} {fields[name]!r} is none of {', '.join(map(str, allowed))}")
        if table.name not in ADDED[fields["reduce"]]:
            what = f"a {fields['reduce']} of bags is of {', '.join(ADDED[fields['reduce']])}"
            raise ModelError(f"{what}, got {element_type_name(table)}")
        if fields["reduce"] == "max" and fields["bounds"] == "zero":
            raise ModelError("a maximum of bags has no rows of zeros; its bounds are error or natural")
        if (fields["bounds"] == "zero" or fields["group"] > 1) and (len(inputs) > 3 or table.name in NARROW):
            raise ModelError("rows of zeros and groups are of rows of indices, and of no narrow floats")
        if len(inputs) % 2 and (others.pop() != table or table.name not in FLOATS or fields["reduce"] != "sum"):
            raise ModelError("weights are of sums, and floats of the type of the table")
        if any(dtype.name not in INTEGERS for dtype in others):
            raise ModelError(f"indices, starts and ends are integers, got {', '.join(map(element_type_name, others))}")
        return super().infer_shape(inputs, fields, known)

    @classmethod
    def sizes(cls, fields: Fields, shapes: Sequence[Shape], elements: Elements) -> Shape:
        table, indices, *others = shapes
        weights = others.pop() if len(shapes) % 2 else indices
        if not table or not indices:
            raise ModelError("the table and the indices of bags have a dimension or more")
        if any(DYNAMIC not in sizes and sizes[0] != sizes[1] for sizes in zip(indices, weights, strict=False)) or len(
            weights
        ) != len(indices):
            raise ModelError(f"weights must have the shape of indices, {shown(indices)}, got {shown(weights)}")
        if not others:
            return (*indices[:-1], *table[1:])
        if [len(shape) for shape in (indices, *others)] != [1, 1, 1]:
            raise ModelError("indices, starts and ends of bags are vectors")
        (starts,), (ends,) = others
        if starts != ends and DYNAMIC not in (starts, ends):
            raise ModelError(f"{starts} bags start, and {ends} end")
        return (max(starts, ends), *table[1:])

    @classmethod
    def evaluate(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        table, indices, starts, ends, weights = flat_bags(arrays)
        check_bags(fields, len(table), indices, starts, ends)
        positions = resolve(indices, len(table), Bounds.ZERO)
        wide = np.dtype(np.float32) if dtype.name in NARROW else dtype
        group = fields["group"] if len(starts) > 1 else 1
        result = np.empty((len(starts), *table.shape[1:]), dtype)
        for bag, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            rows = np.zeros((end - start, *table.shape[1:]), wide)
            is_there = positions[start:end] != NOWHERE
            rows[is_there] = table[positions[start:end][is_there]]
            if weights is not None:
                rows *= weights[start:end].astype(wide).reshape(-1, *[1] * (table.ndim - 1))
            result[bag] = _reduced(rows, fields["reduce"], group, dtype)
        return result.reshape(shape)

    def carried(self, operands: Sequence[np.ndarray]) -> np.ndarray | None:
        return None


def flat_bags(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return table, indices, starts and ends (int64) and weights of `graph.bags`, all but the table vectors."""
    table, indices, *others = arrays
    weights = others.pop().reshape(-1) if len(arrays) % 2 else None
    if others:
        starts, ends = (part.astype(np.int64) for part in others)
        return table, indices, starts, ends, weights
    bags, bag = int(np.prod(indices.shape[:-1], dtype=np.int64)), indices.shape[-1]
    starts = np.arange(bags) * bag
    return table, indices.reshape(-1), starts, starts + bag, weights


def check_bags(fields: Fields, rows: int, indices: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
    """Check that bags lie within the indices, which are valid where a bag has them.

    Raises:
        ModelError: a bag does not.
        BoundsError: an index is not valid.
    """
    wrong = (starts < 0) | (starts > ends) | (ends > len(indices))
    if wrong.any():
        bag = int(wrong.argmax())
        raise ModelError(
            f"bag {bag} is from {starts[bag]} to {ends[bag]}, and bags lie within the {len(indices)} indices, in order"
        )
    used = indices[used_places(starts, ends)]
    if fields["bounds"] == "zero":
        return
    least = 0 if fields["bounds"] == "natural" else -rows
    if (found := first_where(used, lambda block: (block < least) | (block >= rows))) is not None:
        (place,), count = found
        raise BoundsError(
            f"index {int(used[place])} is out of range [{least}, {rows - 1}] for a table of {rows} rows; {count} of "
            f"{used.size} indices in bags are"
        )


def used_places(starts: np.ndarray, ends: np.ndarray) -> slice | np.ndarray:
    """Return which indices bags have, one bag after the other."""
    lengths = ends - starts
    first = int(starts[0]) if len(starts) else 0
    total = int(lengths.sum())
    if (starts[1:] == ends[:-1]).all():
        return slice(first, first + total)
    return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(total)


def _reduced(rows: np.ndarray, reduce: str, group: int, dtype: np.dtype) -> np.ndarray:
    """Return (row): the sum, mean or maximum of rows (bag, row...), in the dtype of the result."""
    if reduce == "max":
        if not len(rows):
            return np.full(rows.shape[1:], least_of(dtype), dtype)
        return functools.reduce(lambda so_far, row: np.where(row > so_far, row, so_far), rows).astype(dtype)
    total, start = np.zeros(rows.shape[1:], rows.dtype), 0
    with np.errstate(all="ignore"):
        while start < len(rows):
            while start + group > len(rows):
                group //= 2
            total = total + functools.reduce(np.add, rows[start : start + group])
            start += group
        return (total / rows.dtype.type(max(len(rows), 1)) if reduce == "mean" else total).astype(dtype)


def least_of(dtype: np.dtype) -> float:
    """Return the least number of a dtype, which the maximum of no elements is."""
    return np.iinfo(dtype).min if dtype.kind == "i" else -np.inf


@irdl_op_definition
class CountLessOp(SizedOp):
    """How many elements of an ascending vector are less than each element of another.

    ```
    %n = graph.count_less %segments, %limits : tensor<?xi32>, tensor<?xi32> -> tensor<?xi32>
    ```
    """

    name = "graph.count_less"
    OPERANDS: ClassVar = 2

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        check_integers(inputs, "integers of one type are counted")
        return super().infer_shape(inputs, fields, known)

    @classmethod
    def sizes(cls, fields: Fields, shapes: Sequence[Shape], elements: Elements) -> Shape:
        if [len(shape) for shape in shapes] != [1, 1]:
            raise ModelError(f"vectors are expected, got shapes {shown(shapes[0])} and {shown(shapes[1])}")
        return shapes[1]

    @classmethod
    def evaluate(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        ascending, limits = arrays
        if (ascending[1:] < ascending[:-1]).any():
            raise ModelError("numbers of segments must ascend, and they fall")
        return np.searchsorted(ascending, limits).astype(dtype)

    def carried(self, operands: Sequence[np.ndarray]) -> np.ndarray | None:
        return None
