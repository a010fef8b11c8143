"""Checks that copies and sums share before they become vectors."""

import math
from collections.abc import Collection, Sequence

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, i64
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...ir.dialects.gather_dialect import LoopOp
from ...ir.dialects.types import strides_of
from ...ir.errors import ScheduleError
from ...ir.semantics import DYNAMIC
from .backward_slice import depends_on

# In bytes.
LARGEST_VECTOR = 64


def check_lanes(lanes: int, width_bytes: int, widths: Collection[int]) -> None:
    """Check that so many elements of a width, one of `widths`, make a vector; raises ScheduleError."""
    if width_bytes not in widths or lanes < 2 or lanes & (lanes - 1) or lanes * width_bytes > LARGEST_VECTOR:
        raise ScheduleError(
            f"vectorize-inner: expected a power of two of lanes, 2 to {LARGEST_VECTOR // width_bytes} for elements of "
            f"{width_bytes} bytes, got {lanes}"
        )


def check_in_pieces(loop: LoopOp) -> None:
    """Check that several iterations of a loop may be taken as one; raises ScheduleError."""
    if loop.parallel is not None or loop.ordered is not None:
        kind = "parallel" if loop.parallel is not None else "ordered"
        raise ScheduleError(f"vectorize-inner: {loop.label} is {kind}; a vector would split its iterations")


def runs_along(loop: LoopOp, memory: SSAValue, subscripts: Sequence[SSAValue]) -> bool:
    """Return whether an access has stride 1 in a loop."""
    strides = strides_of(SSAValue.get(memory, type=MemRefType).type)
    *others, last = subscripts
    is_packed = strides is None or strides[-1] == 1
    return last is loop.induction and is_packed and not any(depends_on(place, loop) for place in others)


def rows_of(function: func.FuncOp, memory: SSAValue, dim: int) -> SSAValue:
    """Return a contiguous memref without the dimensions of size 1 behind `dim`, so that vectors lie along its last."""
    type_ = SSAValue.get(memory, type=MemRefType).type
    shape = type_.get_shape()
    if dim == len(shape) - 1:
        return memory
    groups = [[place] for place in range(dim)] + [list(range(dim, len(shape)))]
    first = function.body.block.first_op
    assert first is not None
    view = collapsed(memory, groups)
    Rewriter.insert_op(view, InsertPoint.before(first))
    view.result.name_hint = "out_rows"
    return view.result


def in_one_run(memory: SSAValue) -> memref.CollapseShapeOp:
    """Return a view of a contiguous memref as one dimension."""
    return collapsed(memory, [list(range(SSAValue.get(memory, type=MemRefType).type.get_num_dims()))])


def collapsed(memory: SSAValue, groups: list[list[int]]) -> memref.CollapseShapeOp:
    """Return a view of a contiguous memref with groups of its dimensions merged."""
    type_ = SSAValue.get(memory, type=MemRefType).type
    reassociation = ArrayAttr([ArrayAttr([IntegerAttr(place, i64) for place in group]) for group in groups])
    return memref.CollapseShapeOp(
        operands=[memory],
        result_types=[MemRefType(type_.element_type, merged_shape(type_.get_shape(), groups))],
        properties={"reassociation": reassociation},
    )


def merged_shape(shape: Sequence[int], groups: Sequence[Sequence[int]]) -> list[int]:
    """Return the sizes of merged dimensions, DYNAMIC where one of a group is."""
    sizes = [[shape[place] for place in group] for group in groups]
    return [DYNAMIC if DYNAMIC in group else math.prod(group) for group in sizes]
