"""The pass `count-listed`: count what owners list in the place of a check, within the scheduled nest, level 3."""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import MemRefType, ModuleOp, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.attributes import FRESH_OUT, ViewAttr
from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp
from ....ir.dialects.upstream import CompressStoreOp, FromElementsOp
from ....ir.errors import ScheduleError
from ...nest.backward_slice import slice_of
from ...nest.bounds_arithmetic import is_clamp
from ...nest.builder import named, size_of, sum_up, unguard
from ...nest.located import builder_before, replace_op
from ...nest.owners import LISTING, OWNERS, operands_of
from ...nest.queries import enclosing_loops, functions, guarded_copy, loops, memory_of, view_of


@dataclass(frozen=True)
class CountListed(ModulePass):
    """Let the lengths of the owners' lists tell whether each index is valid.

    Each position has one owner, so each valid index is on the list of one owner. Here an owner lists an index only if
    it is within the axis, instead of clamping it, and the lengths of all lists are summed: the sum is the number of
    indices exactly where each of them is valid. (Where another thread writes to the indices meanwhile it may be larger,
    which counts as well.) No nest checks indices any more; they are read from memory once less. An owner lists and adds
    what is valid, whatever the other indices are.

    The price is that out is written before the last index is known. The function carries `gather.fresh_out`, as after
    `fuse-bounds-check`; `stage-result` makes it one for an out that somebody has.

    before                                after count-listed
        for check_indices in 0..n             for owners(first) in ...
          bad += outside(indices[i])            for indices_o in 0..n step 2048
        if bad == 0                               for compact_indices_i in t..t+2048
          for owners(first) in ...                  positions[count] = p = resolve(indices[i])
            for indices_o in 0..n step 2048         count += p - first <u part and p <u n_axis
              for compact_indices_i in ...        listed += count
                positions[count] = p              for indices_i in 0..count
                count += p - first <u part          out[positions[k]] += elements[k]
              for indices_i in 0..count       bad = |n - listed|
                out[positions[k]] += ...

    Preconditions: `fold-bounds` has run, and `compact-indices` lists positions and elements, one by one or in vectors.

    Input:
        %owned = arith.cmpi ult, %offset, %part : index
        %one = arith.extui %owned : i1 to i64
    Output:
        %within = arith.cmpi ult, %position, %size : i64
        %owned_within = arith.andi %owned, %within : i1
        %one = arith.extui %owned_within : i1 to i64

    What it does not do: lists of the places of rows, and tuples of indices. A function stays that lists nothing, or
    whose indices need no check or have no check of their own.

    Raises:
        ScheduleError: a precondition does not hold, or a loop repeats the indices.
    """

    name = "count-listed"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            listing = [loop for loop in loops(function) if loop.label.startswith(LISTING)]
            is_checked = function.function_type.outputs.data and FRESH_OUT not in function.attributes
            if listing and is_checked:
                _count(function, listing, *guarded_copy(function, self.name))


def _count(function: func.FuncOp, listing: list[LoopOp], check: LoopOp, branch: scf.IfOp) -> None:
    tile = _tile_of(listing, function)
    builder = builder_before(check)
    size = _size_of_axis(builder, function, memory_of(_stores(listing[0])[0]))
    for loop in listing:
        listed = _listed(loop)
        for clamp in slice_of([position for position, _ in listed], loop):
            if is_clamp(clamp):
                replace_op(clamp, (), [clamp.operands[0]])
        for position, owned in _listed(loop):
            _narrow(position, owned, size)
    indices = function.body.block.args[1]
    wanted = _number_of_indices(builder, indices, view_of(indices, function))
    unguard(branch)
    total = sum_up([tile, *enclosing_loops(tile)], _length_of_list(listing[-1], tile))
    terminator, counted = function.body.block.last_op, check.total
    assert terminator is not None and counted is not None
    end = builder_before(terminator, check)
    missing = named(end, arith.SubiOp(wanted, total), "n_missing")
    extra = named(end, arith.SubiOp(total, wanted), "n_extra")
    counted.replace_all_uses_with(named(end, arith.MaxSIOp(missing, extra), "n_outside"))
    Rewriter.erase_op(check)
    function.attributes[FRESH_OUT] = UnitAttr()


def _size_of_axis(builder: Builder, function: func.FuncOp, positions: SSAValue) -> SSAValue:
    """Insert the size of the dimension of out that listed positions are subscripts of."""
    adding = next(op for op in function.walk() if isinstance(op, AccumulateOp))
    loads = [operands_of(place, arith.IndexCastOp)[0].owner for place in adding.subscripts]
    (dim,) = [dim for dim, load in enumerate(loads) if isinstance(load, memref.LoadOp) and load.memref is positions]
    return named(builder, arith.IndexCastOp(size_of(builder, adding.memref, dim, "axis"), i64), "size")


def _number_of_indices(builder: Builder, indices: SSAValue, view: ViewAttr | None) -> SSAValue:
    sizes = SSAValue.get(indices, type=MemRefType).type.get_shape()
    names = [f"indices_{dim}" for dim in range(len(sizes))] if view is None else view.dims
    count, *others = [size_of(builder, indices, dim, name) for dim, name in enumerate(names)]
    for size in others:
        count = named(builder, arith.MuliOp(count, size), "n_all")
    return named(builder, arith.IndexCastOp(count, i64), "n_all")


def _tile_of(listing: list[LoopOp], function: func.FuncOp) -> LoopOp:
    """Return the loop over tiles of indices that loops list; raises ScheduleError where lists cannot count them."""
    if len(_stores(listing[0])) != len(("positions", "elements", "count")):
        raise ScheduleError(
            "count-listed: expected owners that list a position and an element for each index; lists of a gradient of "
            "rows, or of tuples of indices, have no one position"
        )
    view = view_of(function.body.block.args[1], function)
    dims = () if view is None else view.dims
    tile, *around = enclosing_loops(listing[0])
    for loop in (tile, *around):
        if loop.label.dimension not in (OWNERS, *dims):
            raise ScheduleError(f"count-listed: {loop.label} repeats the indices, so their lists do not count them")
    return tile


def _stores(loop: LoopOp) -> list[memref.StoreOp | CompressStoreOp]:
    return [op for op in loop.body.block.ops if isinstance(op, memref.StoreOp | CompressStoreOp)]


def _listed(loop: LoopOp) -> list[tuple[SSAValue, SSAValue]]:
    """Return the positions that an iteration of a listing loop stores, each with the truth that it is an owner's."""
    positions, _, counting = _stores(loop)
    if isinstance(positions, CompressStoreOp):
        lanes, truths = positions.value.owner, positions.mask.owner
        assert isinstance(lanes, FromElementsOp) and isinstance(truths, FromElementsOp)
        return list(zip(lanes.elements, truths.elements, strict=True))
    assert isinstance(counting, memref.StoreOp)
    added = counting.value.owner
    assert isinstance(added, arith.AddiOp) and isinstance(added.rhs.owner, arith.ExtUIOp)
    return [(positions.value, added.rhs.owner.input)]


def _narrow(position: SSAValue, owned: SSAValue, size: SSAValue) -> None:
    """Let an index be listed only where it is within the axis, too."""
    uses = list(owned.uses)
    one = next(use.operation for use in uses if isinstance(use.operation, arith.ExtUIOp))
    builder = builder_before(one)
    within = named(builder, arith.CmpiOp(position, size, "ult"), "within")
    both = named(builder, arith.AndIOp(owned, within), "owned_within")
    for use in uses:
        use.operation.operands[use.index] = both


def _length_of_list(loop: LoopOp, tile: LoopOp) -> SSAValue:
    """Return how many indices of a tile are listed: the load behind the loops that list them."""
    *_, counting = _stores(loop)
    assert isinstance(counting, memref.StoreOp)
    (total,) = [op for op in tile.body.block.ops if isinstance(op, memref.LoadOp) and op.memref is counting.memref]
    return total.res
