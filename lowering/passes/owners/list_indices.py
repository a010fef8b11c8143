"""The passes `compact-indices` and `vectorize-lists`: lists of the indices that an owner adds, level 3."""

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, f32, f64, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, YieldOp
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import CompressStoreOp, FromElementsOp, sum_of_lanes
from ....ir.errors import ScheduleError
from ...nest.builder import (
    NestBuilder,
    builder_at_end,
    builder_at_start,
    builder_before,
    clone_iterations,
    kind_of,
    replace_op,
    split_off_steps,
)
from ...nest.lane_packs import packed
from ...nest.owners import LISTING, owned_sum
from ...nest.queries import (
    clone_slice,
    enclosing_loops,
    find_loop,
    functions,
    inductions_of,
    is_inside,
    loops,
    most_iterations,
    slice_of,
    static_size,
)
from ...schedule import steps
from ..schedule.hoist_indices import MOST_STAGED_BYTES

PLACE_BYTES = 4
LISTED_TYPES = (i8, i16, i32, i64, f32, f64)


@steps.pass_of_step
class CompactIndices(ModulePass, steps.CompactIndices):
    """List the indices of a tile that an owner owns, and then add their rows.

    An owner reads all indices, and only some, at random, are its own: a branch on that is mispredicted half the time,
    and the next row to add is not known early enough to be prefetched. Here a loop without a branch lists the places
    of the owner's indices in a buffer on its stack (stream compaction), in their order; the loop that adds goes through
    the list. So there may be many owners, each with a part of the table that stays in a cache.

    Where an iteration adds one element and no row, the list holds its position and the element itself.

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

    Input:
        gather.loop ordered indices_i(%i) = %t to %end step %c1 { ... gather.accumulate ... if %owned }
    Output:
        %places = memref.alloca() : memref<4096xi32>
        %count = memref.alloca() : memref<1xi64>
        gather.loop ordered compact_indices_i(%i) = %t to %end step %c1 { ... memref.store %place, %places[%listed] }
        gather.loop ordered indices_i(%k) = %c0 to %n_listed step %c1 { %place = memref.load %places[%k] ... }

    What it does not do: stage the positions of rows; they are resolved again from indices that are in the first cache
    by then.

    Raises:
        ScheduleError: a precondition does not hold, or the list would take more than 256 KiB.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _compact(function, find_loop(function, self.loop))


def _compact(function: func.FuncOp, loop: LoopOp) -> None:
    owners, accumulate, size = _check(function, loop)
    mask = accumulate.mask
    assert mask is not None
    listed, element = list[SSAValue](), accumulate.element.owner
    is_single = accumulate.parent_op() is loop and isinstance(element, memref.LoadOp) and element.parent_op() is loop
    if is_single and accumulate.element.type in LISTED_TYPES:  # no row, whose place is listed
        listed = [
            *dict.fromkeys(place for place in accumulate.subscripts if is_inside(place, loop)),
            accumulate.element,
        ]
    width_bytes = sum(element_size_bytes(_stored_type(value)) for value in listed) or PLACE_BYTES
    if size * width_bytes > MOST_STAGED_BYTES:
        raise ScheduleError(
            f"compact-indices: the list would take {size * width_bytes} bytes of the stack, and may take "
            f"{MOST_STAGED_BYTES}; make the tile smaller"
        )
    buffers = builder_at_start(owners, loop)  # once for each owner, not once a tile
    kinds = [(f"{value.name_hint}s", _stored_type(value)) for value in listed] or [("places", i32)]
    lists = [buffers.named(memref.AllocaOp.get(kind, None, [size]), name) for name, kind in kinds]
    count = buffers.named(memref.AllocaOp.get(i64, None, [1]), "count")
    builder = builder_before(loop)
    zero, one = builder.index(0), builder.index(1)
    none = builder.constant(0, i64, "none")
    builder.insert(memref.StoreOp.get(none, count, [zero]))
    _list(builder, loop, mask, listed, (lists, count, zero))
    total = builder.load(count, [zero], "n_listed")
    end = builder.cast(total, IndexType(), "listed_end")
    if listed:
        made = builder.loop(loop.label, (zero, end, one), "k", loop, **kind_of(loop))
        _add_listed(made, accumulate, dict(zip(listed, lists, strict=True)))
    else:
        body = loop.detach_region(loop.body)
        _add_from_places(builder.insert(LoopOp(loop.label, zero, end, one, body, **kind_of(loop))), loop, lists[0])
    replace_op(loop, (), [])


def _add_listed(made: LoopOp, accumulate: AccumulateOp, lists: dict[SSAValue, SSAValue]) -> None:
    """Fill the loop that adds listed elements at listed positions."""
    builder = builder_at_end(made, accumulate)
    loaded: dict[SSAValue, SSAValue] = {}
    for value, memory in lists.items():
        loaded[value] = builder.load(memory, [made.induction], value.name_hint)
        if value.type == IndexType():
            loaded[value] = builder.cast(loaded[value], IndexType(), value.name_hint)
    subscripts = [loaded.get(value, value) for value in accumulate.subscripts]
    builder.insert(AccumulateOp(loaded[accumulate.element], accumulate.memref, subscripts, None))
    builder.insert(YieldOp())


def _add_from_places(made: LoopOp, loop: LoopOp, places: SSAValue) -> None:
    """Make the body of `loop`, which runs over a tile, run for the listed places in the tile."""
    number = made.induction
    (accumulate,) = [op for op in made.walk() if isinstance(op, AccumulateOp)]
    assert accumulate.mask is not None
    start = builder_at_start(made)
    inside = list(number.uses)
    narrow = start.load(places, [number], "place")
    wide = start.named(arith.ExtSIOp(narrow, i64), "wide")
    offset = start.cast(wide, IndexType(), "offset")
    place = start.compute(arith.AddiOp, loop.lower, offset, number.name_hint)
    for use in inside:
        use.operation.operands[use.index] = place
    number.name_hint = "k"
    own = {number}
    resolved = [accumulate.mask, *(value for value in accumulate.subscripts if not inductions_of([value], made) - own)]
    for op in slice_of(resolved, made):  # `hoist-invariants` does not know that a listed place is in range
        if op.parent_op() is not made:
            op.detach()
            start.insert(op)


def _list(
    builder: NestBuilder,
    loop: LoopOp,
    mask: SSAValue,
    listed: list[SSAValue],
    buffers: tuple[list[SSAValue], SSAValue, SSAValue],
) -> None:
    """Build the loop that lists the iterations for which the mask holds; `buffers` are lists, their count and 0.

    The lists hold values of the loop, or else the places of the iterations. Each is stored at the end of its list, and
    the next one overwrites it where the mask does not hold.
    """
    lists, count, zero = buffers
    bounds = loop.lower, loop.upper, loop.step
    name = loop.label.beside(LISTING)
    made = builder.loop(name, bounds, loop.label.induction, loop, **kind_of(loop))
    inner = builder_at_end(made, loop)
    mapping = clone_slice(slice_of([mask, *listed], loop), inner, {loop.induction: made.induction})
    before = inner.load(count, [zero], "so_far")
    next_ = inner.cast(before, IndexType(), "listed")
    values = [mapping[value] for value in listed]
    values = [inner.cast(each, i64, each.name_hint) if each.type == IndexType() else each for each in values]
    if not listed:
        offset = inner.compute(arith.SubiOp, made.induction, loop.lower, "offset")
        values = [inner.named(arith.TruncIOp(inner.cast(offset, i64, "wide"), i32), "place")]
    for value, memory in zip(values, lists, strict=True):
        inner.insert(memref.StoreOp.get(value, memory, [next_]))
    owned = inner.named(arith.ExtUIOp(mapping[mask], i64), "one")
    after = inner.compute(arith.AddiOp, before, owned, "so_far")
    inner.insert(memref.StoreOp.get(after, count, [zero]))
    inner.insert(YieldOp())


def _stored_type(value: SSAValue) -> Attribute:
    return i64 if value.type == IndexType() else value.type


def _check(function: func.FuncOp, loop: LoopOp) -> tuple[LoopOp, AccumulateOp, int]:
    """Return the loop over owners, the addition, and the most iterations that the loop can have."""
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
    return owners, accumulate, size


LANES = (2, 4, 8)


@steps.pass_of_step
class VectorizeLists(ModulePass, steps.VectorizeLists):
    """List several indices at a time, as vectors whose lanes are packed.

    The lanes of a list are resolved and compared as vectors; the owner's lanes are packed and stored by one instruction
    each, and their number is added to the length of the list. The indices that fill no vector go to a remainder loop.

    before                                after vectorize-lists{lanes=8}
        for compact_indices_i in t..end       for compact_indices_i in t..whole step 8
          p = resolve(indices[i])               p = resolve(indices[i:i+8])
          positions[count] = p                  positions[count:] = p where owned
          elements[count] = grad[i]             elements[count:] = grad[i:i+8] where owned
          count += owned                        count += sum(owned)
                                              for compact_indices_i_rest in whole..end
                                                ...

    Preconditions: `compact-indices` lists positions and elements. Four lanes are packed by a permutation from a table
    of all masks; 2 and 8 by an instruction of AVX-512, and without it each lane is stored by itself.

    Input:
        memref.store %position, %positions[%listed] : memref<2048xi64>
        %so_far_1 = arith.addi %so_far, %one : i64
    Output:
        %lanes = vector.from_elements %position, %position_1, ... : vector<8xi64>
        vector.compressstore %positions[%listed], %owned, %lanes : memref<2056xi64>, vector<8xi1>, vector<8xi64>
        %more = vector.reduction <add>, %ones : vector<8xi64> into i64

    What it does not do: lists of the places of rows; indices that are resolved by a division, as in the mode `wrap`.

    Raises:
        ScheduleError: there is no such list, or no vector has `lanes` lanes.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _vectorize(function, self.lanes)


def _vectorize(function: func.FuncOp, lanes: int) -> None:
    loop = next((loop for loop in loops(function) if loop.label.startswith(LISTING)), None)
    if loop is None or any(isinstance(op, CompressStoreOp) for op in loop.walk()):
        raise ScheduleError(
            "vectorize-lists: expected a loop that lists one index at a time; run compact-indices first"
        )
    if lanes not in LANES:
        raise ScheduleError(f"vectorize-lists: expected {', '.join(map(str, LANES))} lanes of 64 bits, got {lanes}")
    *stores, counting = [op for op in loop.body.block.ops if isinstance(op, memref.StoreOp)]
    added = counting.value.owner
    assert isinstance(added, arith.AddiOp)
    body = split_off_steps(loop, lanes)
    builder = builder_at_end(body, loop)
    one = added.rhs
    assert isinstance(one.owner, arith.ExtUIOp)
    wanted = [*(store.value for store in stores), one.owner.input, one]
    ops = slice_of(wanted, loop)
    copies = clone_iterations(builder, ops, loop, body, lanes)
    *values, mask, ones = [_lanes(builder, [copy[value] for copy in copies], value) for value in wanted]
    so_far = builder.load(counting.memref, list(counting.indices), "so_far")
    listed = builder.cast(so_far, stores[0].indices[0].type, "listed")
    for store, value in zip(stores, values, strict=True):
        builder.insert(CompressStoreOp(_longer(store.memref, lanes), [listed], mask, value))
    more = builder.named(sum_of_lanes(ones), "more")
    after = builder.compute(arith.AddiOp, so_far, more, "so_far")
    builder.insert(memref.StoreOp.get(after, counting.memref, list(counting.indices)))
    builder.insert(YieldOp())


def _lanes(builder: NestBuilder, values: list[SSAValue], value: SSAValue) -> SSAValue:
    """Insert the vector of a value in each lane, which the code generator can compute as a vector."""
    vector = FromElementsOp(values)
    width_bytes = 8 if value.type == i64 else element_size_bytes(value.type)
    if width_bytes > 8 or packed(vector) is None:
        raise ScheduleError(
            "vectorize-lists: expected a list of positions and elements, whose indices are resolved by additions and "
            "comparisons"
        )
    return builder.named(vector, f"{value.name_hint}_lanes")


def _longer(memory: SSAValue, lanes: int) -> SSAValue:
    """Return a buffer with room for one more vector, since a whole vector is stored at the end of a list."""
    old = memory.owner
    assert isinstance(old, memref.AllocaOp) and isinstance(old.memref.type, MemRefType)
    (size,) = old.memref.type.get_shape()
    new = memref.AllocaOp.get(old.memref.type.element_type, None, [size + lanes])
    new.memref.name_hint = old.memref.name_hint
    new.location = old.location
    Rewriter.replace_op(old, new)
    return new.memref
