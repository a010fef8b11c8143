"""The pass `compact-indices`: within the scheduled nest, level 3."""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import IndexType, ModuleOp, i32, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, YieldOp
from ....ir.errors import ScheduleError
from ...nest.backward_slice import clone_slice, inductions_of, slice_of
from ...nest.builder import index_constant, insert_loop, kind_of, named
from ...nest.located import builder_at_end, builder_at_start, builder_before, replace_op
from ...nest.owners import owned_sum
from ...nest.queries import enclosing_loops, find_loop, functions, most_iterations, static_size
from ..schedule.hoist_indices import MOST_STAGED_BYTES

PLACE_BYTES = 4


@dataclass(frozen=True)
class CompactIndices(ModulePass):
    """List the indices of a tile that an owner owns, and then add their rows.

    Of the indices that an owner reads most are not its own, and which are is random: a branch on that is mispredicted
    half the time, and the next row to add is not known early enough to be prefetched. Here a loop without a branch
    lists the places of the owner's indices in a buffer on its stack (stream compaction), in their order; the loop that
    adds goes through the list. So owners may be many, each with a part of the table that stays in a cache.

    before                              after compact-indices{loop=indices_i}
        for owners(first) in ...            for owners(first) in ...
          for indices_o in 0..n step 4096     for indices_o in 0..n step 4096
            for indices_i in t..t+4096          count = 0
              p = resolve(indices[i])           for compact_indices_i in t..t+4096
              out[p] += grad[i] where             places[count] = i - t
                  p - first <u part               count += resolve(indices[i]) - first <u part
                                                for indices_i in 0..count
                                                  i = t + places[indices_i]
                                                  out[resolve(indices[i])] += grad[i] where ...

    Preconditions: `owner-computes` has run; the loop is a tile of the indices in the loop over owners, and not
    parallel; each of its iterations adds one whole row or none.

    Options:
        loop: its name.

    Input:
        gather.loop ordered indices_i(%i) = %t to %end step %c1 { ... gather.accumulate ... if %owned }
    Output:
        %places = memref.alloca() : memref<4096xi32>
        %count = memref.alloca() : memref<1xi64>
        gather.loop ordered compact_indices_i(%i) = %t to %end step %c1 { ... memref.store %place, %places[%listed] }
        gather.loop ordered indices_i(%k) = %c0 to %n_listed step %c1 { %place = memref.load %places[%k] ... }

    What it does not do: stage the positions; they are resolved again from indices that are in the first cache by then.

    Raises:
        ScheduleError: a precondition does not hold, or the buffer would take more than 256 KiB.
    """

    name = "compact-indices"

    loop: str

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _compact(function, find_loop(function, self.loop))


def _compact(function: func.FuncOp, loop: LoopOp) -> None:
    owners, accumulate, size = _checked(function, loop)
    mask = accumulate.mask
    assert mask is not None
    buffers = builder_at_start(owners, loop)  # once for each owner, not once a tile
    places = named(buffers, memref.AllocaOp.get(i32, None, [size]), "places")
    count = named(buffers, memref.AllocaOp.get(i64, None, [1]), "count")
    builder = builder_before(loop)
    zero, one = index_constant(builder, 0), index_constant(builder, 1)
    none = named(builder, arith.ConstantOp.from_int_and_width(0, i64), "none")
    builder.insert(memref.StoreOp.get(none, count, [zero]))
    _list(builder, loop, mask, (places, count, zero))
    total = named(builder, memref.LoadOp.get(count, [zero]), "n_listed")
    listed = named(builder, arith.IndexCastOp(total, IndexType()), "listed_end")
    body = loop.detach_region(loop.body)
    made = builder.insert(LoopOp(loop.label, zero, listed, one, body, **kind_of(loop)))
    number = made.induction
    start = builder_at_start(made)
    inside = list(number.uses)
    narrow = named(start, memref.LoadOp.get(places, [number]), "place")
    wide = named(start, arith.ExtSIOp(narrow, i64), "wide")
    offset = named(start, arith.IndexCastOp(wide, IndexType()), "offset")
    place = named(start, arith.AddiOp(loop.lower, offset), number.name_hint)
    for use in inside:
        use.operation.operands[use.index] = place
    number.name_hint = "k"
    resolved = [mask, *(value for value in accumulate.subscripts if not inductions_of([value], made) - {number})]
    for op in slice_of(resolved, made):  # `hoist-invariants` does not know that a listed place is in range
        if op.parent_op() is not made:
            op.detach()
            start.insert(op)
    replace_op(loop, (), [])


def _list(builder: Builder, loop: LoopOp, mask: SSAValue, buffers: tuple[SSAValue, SSAValue, SSAValue]) -> None:
    """Build the loop that lists the iterations for which the mask holds; `buffers` are places, their count and 0.

    Each place is stored, behind those listed so far, and the next one overwrites it where it does not count.
    """
    places, count, zero = buffers
    bounds = loop.lower, loop.upper, loop.step
    name = loop.label.beside("compact")
    made = insert_loop(builder, name, bounds, loop.label.induction, loop, **kind_of(loop))
    inner = builder_at_end(made, loop)
    mapping = clone_slice(slice_of([mask], loop), inner, {loop.induction: made.induction})
    before = named(inner, memref.LoadOp.get(count, [zero]), "so_far")
    listed = named(inner, arith.IndexCastOp(before, IndexType()), "listed")
    offset = named(inner, arith.SubiOp(made.induction, loop.lower), "offset")
    wide = named(inner, arith.IndexCastOp(offset, i64), "wide")
    place = named(inner, arith.TruncIOp(wide, i32), "place")
    inner.insert(memref.StoreOp.get(place, places, [listed]))
    owned = named(inner, arith.ExtUIOp(mapping[mask], i64), "one")
    after = named(inner, arith.AddiOp(before, owned), "so_far")
    inner.insert(memref.StoreOp.get(after, count, [zero]))
    inner.insert(YieldOp())


def _checked(function: func.FuncOp, loop: LoopOp) -> tuple[LoopOp, AccumulateOp, int]:
    """Return the loop over owners, the addition, and how many iterations the loop has at most."""
    owners, accumulate, _ = owned_sum(function, "compact-indices")
    if not any(around is owners for around in enclosing_loops(loop)) or not loop.is_ancestor(accumulate):
        raise ScheduleError(f"compact-indices: expected {loop.label} to be a loop over indices inside {owners.label}")
    if loop.parallel is not None or loop.ordered is None:
        raise ScheduleError(f"compact-indices: expected {loop.label} to be a loop over indices that runs in order")
    assert accumulate.mask is not None
    if inductions_of([accumulate.mask], loop) - {loop.induction}:
        raise ScheduleError(f"compact-indices: not every iteration of {loop.label} adds one row or none")
    size = most_iterations(loop)
    if size is None or static_size(loop.step) != 1:
        raise ScheduleError(
            f"compact-indices: expected a tile of {loop.label.untiled}, whose size the buffer has; {loop.label} is "
            "none: tile it first"
        )
    if size * PLACE_BYTES > MOST_STAGED_BYTES:
        raise ScheduleError(
            f"compact-indices: the list would take {size * PLACE_BYTES} bytes of the stack, and may take "
            f"{MOST_STAGED_BYTES}; make the tile smaller"
        )
    return owners, accumulate, size
