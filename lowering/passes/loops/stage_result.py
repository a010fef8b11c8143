"""The pass `stage-result`: it writes to a buffer and copies that to out, within the scheduled nest, level 3."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, memref, scf, vector
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from ....ir.dialects.attributes import FRESH_OUT
from ....ir.dialects.gather_dialect import AccumulateOp, YieldOp
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ...nest.builder import NestBuilder, builder_at_end, builder_before, tile_bounds
from ...nest.queries import functions, loops, view_of

# Copy this many elements at a time, 16 or 32 KB, so that threads share the copy of the smallest result.
COPIED_TILE = 4096
_ACCESSES = (memref.LoadOp, memref.StoreOp, vector.LoadOp, vector.StoreOp, AccumulateOp)


@dataclass(frozen=True)
class StageResult(ModulePass):
    """Write to a buffer, and copy it to out once all indices are valid.

    A fused check writes before the last index is checked, so it is for results that nobody has yet. This pass makes it
    write to a buffer, and copies that to out last: a call that fails leaves out as it was. This pays where the result
    is smaller than the indices, as the gradient of single elements often is: it is copied from a cache, and the indices
    are read from memory once less.

    before                                after stage-result
        for owners(first) in ...              buffer = memory of n_axis elements
          for axis in ...                     for owners(first) in ...
            out[axis] = 0                       for axis in ...
          for indices_o in ...                    buffer[axis] = 0
            ...                                 for indices_o in ...
            out[positions[k]] += ...              ...
        return bad                                buffer[positions[k]] += ...
                                              if bad == 0
                                                for copy_axis in 0..n_axis
                                                  out[axis] = buffer[axis]
                                              return bad

    Preconditions: out has one dimension of more than one element, and no vectors are written to it;
    `lower-nest-to-loops` runs later.

    Input:
        func.func @gather(%grad, %indices, %out) -> i64 attributes {gather.fresh_out} { ... %out[...] ... }
    Output:
        %result = memref.alloc(%n_axis) : memref<1x1x?x1xf32>
        ... %result[...] ...
        scf.if %all_inside { gather.loop parallel copy_axis_o(%axis_o) = %c0 to %n_axis step %c4096 { ... } }
        memref.dealloc %result : memref<1x1x?x1xf32>

    The function returns before it writes anything where it gets no memory.

    What it does not do: results with several dimensions. A function that checks all indices before it writes, or none,
    stays unchanged: the pass is for the fused and counted checks of `check-indices`.

    Raises:
        ScheduleError: a precondition does not hold.
    """

    name = "stage-result"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if FRESH_OUT in function.attributes:
                _stage(function)


def _stage(function: func.FuncOp) -> None:
    out, nest = function.body.block.args[2], loops(function)
    if not nest:
        raise ScheduleError("stage-result: expected a loop nest; run it before lower-nest-to-loops")
    type_ = SSAValue.get(out, type=MemRefType).type
    sizes = type_.get_shape()
    long = [dim for dim, size in enumerate(sizes) if size != 1]
    uses = [use for use in out.uses if not isinstance(use.operation, memref.DimOp)]
    if len(long) != 1:
        raise ScheduleError(f"stage-result: expected one dimension of out with more than one element, got {len(long)}")
    for op in (use.operation for use in uses):
        if not isinstance(op, _ACCESSES):
            raise ScheduleError(
                f"stage-result: {op.name} takes out by its address; leave this pass out, or vectorize-inner and "
                "stream-stores, which make views of it"
            )
    (dim,) = long
    view = view_of(out, function)
    name = LoopName("axis" if view is None else view.dims[dim]).beside("copy")
    start = builder_before(nest[0])
    size = start.size(out, dim, name.dimension)
    shape = [DYNAMIC_INDEX if place == dim else 1 for place in range(len(sizes))]
    buffer = start.named(memref.AllocOp.get(type_.element_type, None, shape, [size]), "result")
    for use in uses:
        use.operation.operands[use.index] = buffer
    _copy_back(function, buffer, name, size, is_parallel=any(loop.parallel is not None for loop in nest))
    del function.attributes[FRESH_OUT]


def _copy_back(function: func.FuncOp, buffer: SSAValue, name: LoopName, size: SSAValue, *, is_parallel: bool) -> None:
    """Copy a buffer of elements along one dimension to out at the end of a function, where no index is outside."""
    terminator, source, out = function.body.block.last_op, loops(function)[0], function.body.block.args[2]
    assert terminator is not None
    (count,) = terminator.operands
    end, body = builder_before(terminator, source), Block()
    none = end.constant(0, 64, "none")
    end.insert(scf.IfOp(end.compare("eq", count, none, "all_inside"), [], Region(body)))
    end.insert(memref.DeallocOp.get(buffer))
    inside = NestBuilder(InsertPoint.at_end(body), source)
    zero = inside.index(0)
    bounds = zero, size, inside.index(COPIED_TILE)
    tiles = inside.loop(name.outer_tile, bounds, name.outer_tile.induction, source, parallel=is_parallel)
    inner = builder_at_end(tiles, source)
    loop = inner.loop(name.inner_tile, tile_bounds(inner, tiles), name.induction, source)
    inner.insert(YieldOp())
    inside.insert(scf.YieldOp())
    copy = builder_at_end(loop, source)
    sizes = SSAValue.get(out, type=MemRefType).type.get_shape()
    place = [zero if length == 1 else loop.induction for length in sizes]
    element = copy.load(buffer, place, "element")
    copy.insert(memref.StoreOp.get(element, out, place))
    copy.insert(YieldOp())
