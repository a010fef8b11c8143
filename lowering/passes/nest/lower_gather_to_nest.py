"""The pass `lower-gather-to-nest`: from the canonical form to the loop nest, level 2."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.canonical import dim_names
from ....ir.dialects.gather_dialect import GradientOp, MaskedLoadOp, OperatorOp
from ....ir.errors import ScheduleError
from ...nest.builder import NestBuilder, index_constant, resolve_indices, size_of
from ...nest.located import builder_before
from ...nest.queries import gathers


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
            if isinstance(gather, GradientOp) or gather.SPEC.adds:
                continue
            if gather.out is None:
                raise ScheduleError("lower-gather-to-nest: expected gather on memrefs; run bufferize-gather first")
            _lower(gather)


def _lower(gather: OperatorOp) -> None:
    builder = builder_before(gather)
    roles = gather.roles()
    data_dims, index_dims, out_dims = (dim_names(roles, array) for array in ("data", "indices", "out"))
    sizes = [size_of(builder, gather.target, dim, name) for dim, name in enumerate(out_dims)]
    axes = [dim for dim, name in enumerate(data_dims) if name.role == "axis"]
    axis_sizes = [size_of(builder, gather.source, dim, data_dims[dim]) for dim in axes]
    components = [index_constant(builder, component) for component in range(len(axes))]

    nest = NestBuilder(builder, index_constant(builder, 0), index_constant(builder, 1))
    inductions = {name: nest.loop(name, size) for name, size in zip(out_dims, sizes, strict=True)}
    table, valid = resolve_indices(nest.builder, gather, inductions, (data_dims, index_dims), axis_sizes, components)
    load = nest.builder.insert(MaskedLoadOp(gather.source, table, valid))
    load.element.name_hint = "element"
    nest.builder.insert(memref.StoreOp.get(load.element, gather.target, [inductions[name] for name in out_dims]))
    nest.close()
    Rewriter.erase_op(gather)
