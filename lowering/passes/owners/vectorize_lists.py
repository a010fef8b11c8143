"""The pass `vectorize-lists`: within the scheduled nest, level 3."""

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.gather_dialect import YieldOp
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import CompressStoreOp, FromElementsOp, sum_of_lanes
from ....ir.errors import ScheduleError
from ...nest.builder import NestBuilder, builder_at_end, induction_of_copy, split_off_steps
from ...nest.lane_packs import packed
from ...nest.owners import LISTING
from ...nest.queries import clone_slice, functions, loops, slice_of
from ...schedule import steps

LANES = (2, 4, 8)


@steps.pass_of_step
class VectorizeLists(ModulePass, steps.VectorizeLists):
    """List several indices at a time, as vectors of which lanes are packed.

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

    Preconditions: `compact-indices` lists positions and elements. Four lanes are packed by a permutation, which a table
    has for each mask; 2 and 8 by an instruction of AVX-512, and without it each lane is stored by itself.

    Input:
        memref.store %position, %positions[%listed] : memref<2048xi64>
        %so_far_1 = arith.addi %so_far, %one : i64
    Output:
        %lanes = vector.from_elements %position, %position_1, ... : vector<8xi64>
        vector.compressstore %positions[%listed], %owned, %lanes : memref<2056xi64>, vector<8xi1>, vector<8xi64>
        %more = vector.reduction <add>, %ones : vector<8xi64> into i64

    What it does not do: lists of the places of rows; indices that are resolved by a division, as in the mode `wrap`.

    Raises:
        ScheduleError: there is no such list, or no vector of so many lanes.
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
    copies = [
        clone_slice(ops, builder, {loop.induction: induction_of_copy(builder, body, lane)}) for lane in range(lanes)
    ]
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
    """Return a buffer with room for one vector more: a whole vector is stored behind what is listed."""
    old = memory.owner
    assert isinstance(old, memref.AllocaOp) and isinstance(old.memref.type, MemRefType)
    (size,) = old.memref.type.get_shape()
    new = memref.AllocaOp.get(old.memref.type.element_type, None, [size + lanes])
    new.memref.name_hint = old.memref.name_hint
    new.location = old.location
    Rewriter.replace_op(old, new)
    return new.memref
