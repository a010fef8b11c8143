"""The pass `lower-reduction-to-nest`: from the canonical form to the loop nest, level 2."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, MemRefType, ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.canonical import dim_names
from ....ir.dialects.gather_dialect import (
    I64,
    AccumulateOp,
    GatherMaxOp,
    MaskedLoadOp,
    ReductionOp,
    WeightedOp,
    YieldOp,
)
from ....ir.dialects.upstream import SIToFPOp, UIToFPOp
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ....ir.semantics import Bounds
from ...nest.builder import NestBuilder, index_constant, insert_loop, named, resolve_indices, size_of, zero_of
from ...nest.located import builder_at_end, builder_before
from ...nest.queries import gathers


@dataclass(frozen=True)
class LowerReductionToNest(ModulePass):
    """Turn a reduction into a nest that clears and one that adds.

    The nest that adds has the loops of the gather and one more, `bag`, over the indices whose slices are summed. That
    loop is ordered: the elements of a sum are added in the order of the indices, whatever becomes of the nest. All
    other loops lead to sums of their own. An index that is not valid adds nothing. A gather_max has the same nest,
    whose accumulation takes the larger element, and any in the first iteration of `bag`.

    An element of a gather_weighted is multiplied by its weight, and its bias is added to it, before it is added; narrow
    elements are extended to those of out.

    Of a mean, a loop `scale_inner` behind that over the bag divides the sums by the size of the bag; where an index
    may be left out, by the number of those that are not, which a loop `count_bag` before it finds.

        for bag in 0..n                     count_bag: n_valid = number of valid indices[i, :]
          out[i, :] += data[p, :]           for bag in 0..n
                                              out[i, :] += data[p, :]
                                            out[i, :] = out[i, :] / max(n_valid, 1)

    Preconditions: a reduction on memrefs of numbers.

    Input:
        gather.gather_reduce %data, %indices into %out bounds zero
            : memref<5x12xf32>, memref<7x3xi64>, memref<7x12xf32>
    Output:
        gather.loop clear_indices(%i) = ... { memref.store %nothing, %out[%i, %j] ... }
        gather.loop indices(%i) = %c0 to %n step %c1 {
          gather.loop ordered bag(%k) = %c0 to %n_bag step %c1 {
            gather.loop inner(%j) = %c0 to %inner step %c1 {
              %index = memref.load %indices[%i, %k] : memref<7x3xi64>
              %position, %valid = gather.resolve %index within %axis bounds zero : i64
              %element = gather.masked_load %data[%position, %j], %valid : memref<5x12xf32> -> f32
              gather.accumulate %element, %out[%i, %j] if %valid : f32, memref<7x12xf32>
            }}}

    Raises:
        ScheduleError: the reduction is still on tensors, or its elements are not plain numbers.
    """

    name = "lower-reduction-to-nest"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for _, gather in gathers(op):
            if not isinstance(gather, ReductionOp):
                continue
            if gather.out is None:
                raise ScheduleError("lower-reduction-to-nest: expected memrefs; run bufferize-gather first")
            _lower(gather)


def _lower(gather: ReductionOp) -> None:
    element_type = SSAValue.get(gather.target, type=MemRefType).type.element_type
    zero_element = zero_of(LowerReductionToNest.name, element_type)
    builder = builder_before(gather)
    roles = gather.roles()
    data_dims, index_dims, out_dims = (dim_names(roles, array) for array in ("data", "indices", "out"))
    sizes = {name: size_of(builder, gather.target, dim, name) for dim, name in enumerate(out_dims)}
    bag = index_dims.index("bag")
    bag_size = size_of(builder, gather.indices, bag, index_dims[bag])
    axis_size = size_of(builder, gather.source, data_dims.index("axis"), "axis")
    zero, one = index_constant(builder, 0), index_constant(builder, 1)
    nothing = named(builder, zero_element, "nothing")
    components = gather.shapes()[1][-1] if isinstance(gather, WeightedOp) else 1
    besides = [index_constant(builder, place) for place in range(1, components)]
    bags = {name: size for name, size in sizes.items() if name.role == "indices"}
    row = {name: size for name, size in sizes.items() if name.role != "indices"}

    counts, divisor = gather.divides and gather.bounds.data is Bounds.ZERO, None
    if gather.divides and not counts:
        divisor = _divisor(builder, named(builder, arith.IndexCastOp(bag_size, I64), "count"), element_type)

    clearing = NestBuilder(builder, zero, one)
    cleared = [clearing.loop(name.beside("clear"), size) for name, size in sizes.items()]
    clearing.builder.insert(memref.StoreOp.get(nothing, gather.target, cleared))
    clearing.close()

    around = NestBuilder(builder, zero, one)
    inductions = {name: around.loop(name, size) for name, size in bags.items()}
    if counts:
        count = _count(around.builder, gather, (data_dims, index_dims), inductions, (zero, one, bag_size, axis_size))
        divisor = _divisor(around.builder, count, element_type)

    nest = NestBuilder(around.builder, zero, one)
    of_bag = inductions | {index_dims[bag]: nest.loop(index_dims[bag], bag_size, ordered=True)}
    first = None
    if isinstance(gather, GatherMaxOp):
        begins = arith.CmpiOp(of_bag[index_dims[bag]], zero, "eq")
        first = named(nest.builder, begins, "first")
    factors: list[SSAValue] = []
    if isinstance(gather, WeightedOp):
        for beside, what in zip(besides, ("weight", "bias"), strict=False):
            places = [beside if name == "tuple" else of_bag[name] for name in index_dims]
            bits = named(nest.builder, memref.LoadOp.get(gather.indices, places), f"{what}_bits")
            factors.append(named(nest.builder, arith.BitcastOp(bits, element_type), what))
    of_bag |= {name: nest.loop(name, size) for name, size in row.items()}
    table, valid = resolve_indices(nest.builder, gather, of_bag, (data_dims, index_dims), [axis_size], [zero])
    load = nest.builder.insert(MaskedLoadOp(gather.source, table, valid))
    load.element.name_hint = "element"
    element = _widened(nest.builder, gather, load.element, element_type)
    for factor, apply in zip(factors, (arith.MulfOp, arith.AddfOp), strict=False):
        element = named(nest.builder, apply(element, factor), "weighted")
    nest.builder.insert(AccumulateOp(element, gather.target, [of_bag[name] for name in out_dims], valid, first))
    nest.close()

    if divisor is not None:
        scaling = NestBuilder(around.builder, zero, one)
        inductions |= {name: scaling.loop(name.beside("scale"), size) for name, size in row.items()}
        place = [inductions[name] for name in out_dims]
        total = named(scaling.builder, memref.LoadOp.get(gather.target, place), "total")
        mean = named(scaling.builder, arith.DivfOp(total, divisor), "mean")
        scaling.builder.insert(memref.StoreOp.get(mean, gather.target, place))
        scaling.close()
    around.close()
    Rewriter.erase_op(gather)


def _count(
    builder: Builder,
    gather: ReductionOp,
    names: tuple[Sequence[LoopName], Sequence[LoopName]],
    inductions: dict[LoopName, SSAValue],
    sizes: tuple[SSAValue, SSAValue, SSAValue, SSAValue],
) -> SSAValue:
    """Insert a loop over a bag that counts the indices which are valid; return their number.

    `names` are those of the dimensions of data and indices; `sizes` the constants 0 and 1, and the sizes of a bag and
    of the axis.
    """
    zero, one, bag_size, axis_size = sizes
    axis, bag = (
        [name for name in dims if name.role == role] for dims, role in zip(names, ("axis", "bag"), strict=True)
    )
    loop = insert_loop(builder, bag[0].beside("count"), (zero, bag_size, one), bag[0].induction, sums=True)
    inside = builder_at_end(loop)
    here = inductions | {bag[0]: loop.induction}
    _, valid = resolve_indices(inside, gather, here, (axis, names[1]), [axis_size], [zero])
    inside.insert(YieldOp(named(inside, arith.ExtUIOp(valid, I64), "one")))
    assert loop.total is not None
    loop.total.name_hint = "count"
    return loop.total


def _divisor(builder: Builder, count: SSAValue, element_type: Attribute) -> SSAValue:
    """Insert what the sums of a bag are divided by: the number of its slices, or 1 where it has none."""
    one = named(builder, arith.ConstantOp.from_int_and_width(1, I64), "one")
    most = named(builder, arith.MaxSIOp(count, one), "counted")
    return named(builder, SIToFPOp(most, element_type), "divisor")


def _widened(builder: Builder, gather: ReductionOp, element: SSAValue, wanted: Attribute) -> SSAValue:
    """Insert the conversion of an element to the type of the sums, where it has another."""
    if element.type == wanted:
        return element
    assert isinstance(wanted, Float32Type | Float64Type)
    if not isinstance(element.type, IntegerType):
        return named(builder, arith.ExtFOp(element, wanted), "wide")
    convert = UIToFPOp if isinstance(gather, WeightedOp) and gather.unsigned_data is not None else SIToFPOp
    return named(builder, convert(element, wanted), "wide")
