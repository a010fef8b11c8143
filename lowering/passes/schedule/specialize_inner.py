"""The passes `specialize-inner` and `bound-inner`: they make code for certain sizes of a row, within the nest level."""

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, ModuleOp, i64
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.attributes import ROW_SIZES
from ....ir.dialects.types import element_size_bytes, memref_type, strides_of
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ....ir.semantics import DYNAMIC
from ...nest.queries import functions, view_of
from ...schedule import steps


@steps.pass_of_step
class SpecializeInner(ModulePass, steps.SpecializeInner):
    """Make the size of a row part of the code.

    A row whose size is known is copied by a fixed number of vectors, without a loop, and its address is a
    multiplication by a constant. Each size has a kernel of its own: worth it for rows of up to a few hundred bytes.

    Where a slice is one element, the elements that lie side by side along `indices` are the row: a short row is copied
    without a loop and without a remainder loop.

    before                              after specialize-inner{bytes=256}
        for inner in 0..n_inner             for inner in 0..64
          out[i, j] = data[p, j]              out[i, j] = data[p, j]

    Preconditions: there is one dimension `inner`, or one dimension `indices` and none `inner` but of size 1; its size
    is a run-time argument or this one.

    Input:
        func.func @gather(%data: memref<1x1x?x?xi32>, ..., %out: memref<1x1x?x?xi32>)
    Output:
        func.func @gather(%data: memref<1x1x?x64xi32>, ..., %out: memref<1x1x?x64xi32>)

    Raises:
        ScheduleError: there is no such dimension, or the bytes are no whole number of elements, or not its size.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            size = _elements(function, self.bytes, self.name)
            name = _row_dimension(function, self.name)
            for argument in list(function.body.block.args):
                view = view_of(argument, function)
                if view is None or not isinstance(argument.type, MemRefType) or name not in view.dims:
                    continue
                dim, shape = view.dims.index(name), list(argument.type.get_shape())
                if shape[dim] not in (DYNAMIC, size):
                    raise ScheduleError(
                        f"specialize-inner: rows have {shape[dim]} elements, and the bytes of {size} are given"
                    )
                shape[dim] = size
                type_ = memref_type(shape, argument.type.element_type, strides_of(argument.type))
                Rewriter.replace_value_with_new_type(argument, type_)
            function.update_function_type()


@steps.pass_of_step
class BoundInner(ModulePass, steps.BoundInner):
    """Make code that relies on the fewest and the most bytes of a row.

    Rows of 36 to 64 bytes are two vectors of 32 bytes, whatever their size: one begins with the row, and one ends with
    it. One kernel serves all sizes in a range; `specialize-inner` makes a kernel for each size.

    before                              after bound-inner{least=36 most=64} and vectorize-inner{lanes=8}
        for inner in 0..n                   out[i, 0:8] = data[p, 0:8]
          out[i, j] = data[p, j]            out[i, n-8:n] = data[p, n-8:n]

    Preconditions: there is one dimension `inner`, whose size is a run-time argument.

    Input:
        func.func @gather(%data: memref<1x1x?x?xi32>, ..., %out: memref<1x1x?x?xi32>)
    Output:
        func.func @gather(%data: memref<1x1x?x?xi32>, ..., %out: memref<1x1x?x?xi32>)
            attributes {gather.row_sizes = array<i64: 9, 16>}

    What it does not do: change the nest. `vectorize-inner` makes use of the range.

    Raises:
        ScheduleError: there is no such dimension, its size is known, or the bytes are no whole number of elements.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            least = _elements(function, self.least, self.name)
            most = _elements(function, self.most, self.name) if self.most else 0
            if most and most < least:
                raise ScheduleError(f"bound-inner: expected most from {self.least} on, or 0, got {self.most}")
            name = _row_dimension(function, self.name)
            out = function.body.block.args[-1]
            view = view_of(out, function)
            if view is None or not isinstance(out.type, MemRefType) or name != "inner":
                raise ScheduleError("bound-inner: expected one dimension inner")
            if (size := out.type.get_shape()[view.dims.index(name)]) != DYNAMIC:
                raise ScheduleError(f"bound-inner: rows have {size} elements, which the code knows already")
            function.attributes[ROW_SIZES] = DenseArrayBase.from_list(i64, [least, most])


def _row_dimension(function: func.FuncOp, by: str) -> str:
    """Return the name of the dimension along which rows lie."""
    names: list[LoopName] = []
    for argument in function.body.block.args:
        view = view_of(argument, function)
        if view is not None and isinstance(argument.type, MemRefType):
            names += [name for name, size in zip(view.dims, argument.type.get_shape(), strict=True) if size != 1]
    found = next((name for name in names if name.startswith("inner")), LoopName("indices"))
    if found in names and found in ("inner", "indices"):
        return found
    raise ScheduleError(f"{by}: expected one dimension inner, or indices where rows have one element")


def _elements(function: func.FuncOp, row_bytes: int, by: str) -> int:
    """Return the number of elements of data in a row; elements of indices may have another width."""
    data = function.body.block.args[0].type if function.body.block.args else None
    if not isinstance(data, MemRefType):
        raise ScheduleError(f"{by}: expected a nest over memrefs; run lower-to-nest first")
    width = element_size_bytes(data.element_type)
    size, rest = divmod(row_bytes, width)
    if rest or size < 1:
        raise ScheduleError(f"{by}: expected bytes that are a multiple of the {width} of an element, got {row_bytes}")
    return size
