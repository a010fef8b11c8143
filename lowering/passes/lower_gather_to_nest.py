"""The pass `lower-gather-to-nest`: from the canonical form to the loop nest, level 2."""

from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ...ir.dialect import GatherOp, LoopOp, MaskedLoadOp, ResolveOp, YieldOp
from ...ir.errors import ScheduleError
from ..nest import gathers, short_name


@dataclass(frozen=True)
class LowerGatherToNest(ModulePass):
    """Turn a gather into a perfect nest of named loops around one load and one store.

    The loops are batch, outer, indices and inner, one a dimension of the canonical form, in the order in which out
    lies in memory. The innermost body resolves one index with the gather's bounds mode and copies one element.

    Preconditions: gather on memrefs, normalised attributes.

    Input:
        gather.gather %data, %indices into %out axis 2 batch_dims 1 bounds zero
            : memref<1x2x5x12xi32>, memref<1x42xi64>, memref<1x2x42x12xi32>
    Output:
        gather.loop batch(%b) = %c0 to %batch step %c1 {
          gather.loop outer(%o) = %c0 to %outer step %c1 {
            gather.loop indices(%i) = %c0 to %n step %c1 {
              gather.loop inner(%j) = %c0 to %inner step %c1 {
                %index = memref.load %indices[%b, %i] : memref<1x42xi64>
                %position, %valid = gather.resolve %index within %axis bounds zero : i64
                %element = gather.masked_load %data[%b, %o, %position, %j], %valid : memref<1x2x5x12xi32> -> i32
                memref.store %element, %out[%b, %o, %i, %j] : memref<1x2x42x12xi32>
              }}}}

    Raises:
        ScheduleError: the gather is still on tensors.
    """

    name = "lower-gather-to-nest"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for _, gather in gathers(op):
            if gather.out is None:
                raise ScheduleError("lower-gather-to-nest: expected gather on memrefs; run bufferize-gather first")
            _lower(gather, gather.out)


@dataclass
class _Nest:
    """The loops made so far, with the builder that stands in the innermost."""

    builder: Builder
    zero: SSAValue
    one: SSAValue
    loops: list[LoopOp] = field(default_factory=list)

    def loop(self, name: str, size: SSAValue) -> SSAValue:
        """Open a loop over [0, size) in the innermost body and return its counter."""
        block = Block(arg_types=[IndexType()])
        block.args[0].name_hint = short_name(name)
        self.loops.append(self.builder.insert(LoopOp(name, self.zero, size, self.one, block)))
        self.builder = Builder(InsertPoint.at_end(block))
        return block.args[0]

    def close(self) -> None:
        """End every body with its terminator."""
        for loop in self.loops:
            loop.body.block.add_op(YieldOp())


def _lower(gather: GatherOp, out: SSAValue) -> None:
    builder = Builder(InsertPoint.before(gather))
    axis, batch_dims = gather.axis_value, gather.batch_dims_value
    data_rank, indices_rank = _rank(gather.data), _rank(gather.indices)

    batch = _sizes(builder, "batch", gather.indices, range(batch_dims))
    outer = _sizes(builder, "outer", gather.data, range(batch_dims, axis))
    picks = _sizes(builder, "indices", gather.indices, range(batch_dims, indices_rank))
    inner = _sizes(builder, "inner", gather.data, range(axis + 1, data_rank))
    ((_, axis_size),) = _sizes(builder, "axis", gather.data, range(axis, axis + 1))

    nest = _Nest(builder, index_constant(builder, 0), index_constant(builder, 1))
    b, o, i, j = ([nest.loop(name, size) for name, size in group] for group in (batch, outer, picks, inner))
    index = nest.builder.insert(memref.LoadOp.get(gather.indices, [*b, *i])).res
    index.name_hint = "index"
    resolve = nest.builder.insert(ResolveOp(index, axis_size, gather.bounds.data, unsigned=gather.unsigned is not None))
    resolve.position.name_hint, resolve.valid.name_hint = "position", "valid"
    load = nest.builder.insert(MaskedLoadOp(gather.data, [*b, *o, resolve.position, *j], resolve.valid))
    load.element.name_hint = "element"
    nest.builder.insert(memref.StoreOp.get(load.element, out, [*b, *o, *i, *j]))
    nest.close()
    Rewriter.erase_op(gather)


def _rank(value: SSAValue) -> int:
    assert isinstance(value.type, MemRefType)
    return value.type.get_num_dims()


def index_constant(builder: Builder, value: int) -> SSAValue:
    """Insert `arith.constant value : index`, named after its value."""
    result = builder.insert(arith.ConstantOp.from_int_and_width(value, IndexType())).result
    result.name_hint = f"c{value}"
    return result


def _sizes(builder: Builder, role: str, source: SSAValue, dims: range) -> list[tuple[str, SSAValue]]:
    """Return (loop name, size) for each dimension of a role, outermost first."""
    found: list[tuple[str, SSAValue]] = []
    for number, dim in enumerate(dims):
        name = role if len(dims) == 1 else f"{role}_{number}"
        size = builder.insert(memref.DimOp(source, index_constant(builder, dim))).result
        size.name_hint = f"n_{name}"
        found.append((name, size))
    return found
