"""The pass `specialize-inner`: within the nest level."""

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

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

    Where a slice is one element, and elements with an index each lie side by side along `indices`, these are the row:
    few of them are copied without a loop, nor a remainder loop.

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
        ScheduleError: there is no such dimension, or the bytes are not those of whole elements, or not its size.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            size = _elements(function, self.bytes)
            name = _row_dimension(function)
            for argument in list(function.body.block.args):
                _specialize(function, argument, name, size)
            function.update_function_type()


def _row_dimension(function: func.FuncOp) -> str:
    """Return the name of the dimension along which rows lie."""
    names: list[LoopName] = []
    for argument in function.body.block.args:
        view = view_of(argument, function)
        if view is not None and isinstance(argument.type, MemRefType):
            names += [name for name, size in zip(view.dims, argument.type.get_shape(), strict=True) if size != 1]
    found = next((name for name in names if name.startswith("inner")), LoopName("indices"))
    if found in names and found in ("inner", "indices"):
        return found
    raise ScheduleError("specialize-inner: expected one dimension inner, or indices where rows have one element")


def _elements(function: func.FuncOp, row_bytes: int) -> int:
    """Return how many elements of data a row has; those of indices may have another width."""
    data = function.body.block.args[0].type if function.body.block.args else None
    if not isinstance(data, MemRefType):
        raise ScheduleError("specialize-inner: expected a nest over memrefs; run lower-to-nest first")
    width = element_size_bytes(data.element_type)
    size, rest = divmod(row_bytes, width)
    if rest or size < 1:
        raise ScheduleError(
            f"specialize-inner: expected bytes that are a multiple of the {width} of an element, got {row_bytes}"
        )
    return size


def _specialize(function: func.FuncOp, argument: SSAValue, name: str, size: int) -> None:
    """Fix the size of a dimension of one argument, where it has that."""
    view = view_of(argument, function)
    if view is None or not isinstance(argument.type, MemRefType) or name not in view.dims:
        return
    dim, shape = view.dims.index(name), list(argument.type.get_shape())
    if shape[dim] not in (DYNAMIC, size):
        raise ScheduleError(f"specialize-inner: rows have {shape[dim]} elements, and the bytes are those of {size}")
    shape[dim] = size
    type_ = memref_type(shape, argument.type.element_type, strides_of(argument.type))
    Rewriter.replace_value_with_new_type(argument, type_)
