"""The pass `lower-gather-to-nest`: from the canonical form to the loop nest, level 2."""

from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ...ir.canonical import dim_names
from ...ir.dialect import LoopOp, MaskedLoadOp, OperatorOp, ResolveOp, YieldOp
from ...ir.errors import ScheduleError
from ..nest import gathers, short_name


@dataclass(frozen=True)
class LowerGatherToNest(ModulePass):
    """Turn a gather into named loops around one load and one store.

    The loops are batch, outer, indices and inner, one a dimension of the canonical form, in the order in which out
    lies in memory. The innermost body resolves one index with the gather's bounds mode and copies one element.

    Preconditions: gather on memrefs, normalised attributes.

    What it does not do: check indices that nothing reads. Where out is empty the nest runs no iteration, and so meets
    no bad index; the check that `error` owes them all comes with `fold-bounds`.

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


def _lower(gather: OperatorOp, out: SSAValue) -> None:
    builder = Builder(InsertPoint.before(gather))
    roles = gather.roles()
    data_dims, index_dims, out_dims = (dim_names(roles, array) for array in ("data", "indices", "out"))
    sizes = [_size(builder, out, dim, f"n_{name}") for dim, name in enumerate(out_dims)]
    axes = [dim for dim, name in enumerate(data_dims) if name.partition("_")[0] == "axis"]
    axis_sizes = [_size(builder, gather.data, dim, f"n_{data_dims[dim]}") for dim in axes]
    components = [index_constant(builder, component) for component in range(len(axes))]

    nest = _Nest(builder, index_constant(builder, 0), index_constant(builder, 1))
    counters = {name: nest.loop(name, size) for name, size in zip(out_dims, sizes, strict=True)}
    resolved: list[ResolveOp] = []
    for component, size in zip(components, axis_sizes, strict=True):
        place = [component if name == "tuple" else counters[name] for name in index_dims]
        resolved.append(_resolve(nest.builder, gather, place, size, "" if len(axes) == 1 else f"_{len(resolved)}"))
    positions = iter(resolve.position for resolve in resolved)
    place = [
        next(positions) if dim in axes else counters[name.removeprefix("data_")] for dim, name in enumerate(data_dims)
    ]
    load = nest.builder.insert(MaskedLoadOp(gather.data, place, _all_valid(nest.builder, resolved)))
    load.element.name_hint = "element"
    nest.builder.insert(memref.StoreOp.get(load.element, out, [counters[name] for name in out_dims]))
    nest.close()
    Rewriter.erase_op(gather)


def _resolve(builder: Builder, gather: OperatorOp, place: list[SSAValue], size: SSAValue, suffix: str) -> ResolveOp:
    index = builder.insert(memref.LoadOp.get(gather.indices, place)).res
    index.name_hint = f"index{suffix}"
    resolve = builder.insert(ResolveOp(index, size, gather.bounds.data, unsigned=gather.unsigned is not None))
    resolve.position.name_hint, resolve.valid.name_hint = f"position{suffix}", f"valid{suffix}"
    return resolve


def _all_valid(builder: Builder, resolved: list[ResolveOp]) -> SSAValue:
    """A tuple is valid where all of its components are."""
    valid: SSAValue = resolved[0].valid
    for resolve in resolved[1:]:
        valid = builder.insert(arith.AndIOp(valid, resolve.valid)).result
        valid.name_hint = "valid"
    return valid


def index_constant(builder: Builder, value: int) -> SSAValue:
    """Insert `arith.constant value : index`, named after its value."""
    result = builder.insert(arith.ConstantOp.from_int_and_width(value, IndexType())).result
    result.name_hint = f"c{value}"
    return result


def _size(builder: Builder, source: SSAValue, dim: int, name: str) -> SSAValue:
    size = builder.insert(memref.DimOp(source, index_constant(builder, dim))).result
    size.name_hint = name
    return size
