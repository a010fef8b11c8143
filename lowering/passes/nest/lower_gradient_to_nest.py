"""The pass `lower-gradient-to-nest`: from the canonical form to the loop nest, level 2."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerType, MemRefType, ModuleOp, f64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.canonical import dim_names
from ....ir.dialects.attributes import SCALE
from ....ir.dialects.gather_dialect import AccumulateOp, GradientOp
from ....ir.errors import ScheduleError
from ...nest.builder import NestBuilder, index_constant, named, resolve_indices, size_of, zero_of
from ...nest.located import builder_before
from ...nest.queries import gathers


@dataclass(frozen=True)
class LowerGradientToNest(ModulePass):
    """Turn a gradient into nests that clear, add and scale.

    The nest that adds has the loops of the gather, and adds each element of grad to where the gather would have read
    it. Its loops over the indices are ordered: contributions to one element are added in the order of the indices,
    whatever becomes of the nest. All other loops lead to elements of their own. The nest that scales is left out where
    the scale is 1; otherwise the scale becomes the last argument of the function.

    Preconditions: gradient on memrefs of numbers, normalised attributes.

    Input:
        gather.gather_grad %grad, %indices into %out axis 2 batch_dims 1 bounds zero
            : memref<1x2x42x12xf32>, memref<1x42xi64>, memref<1x2x5x12xf32>
    Output:
        gather.loop clear_batch(%b) = ... { memref.store %nothing, %out[%b, %o, %axis, %j] ... }
        gather.loop batch(%b) = %c0 to %batch step %c1 {
          gather.loop outer(%o) = %c0 to %outer step %c1 {
            gather.loop ordered indices(%i) = %c0 to %n step %c1 {
              gather.loop inner(%j) = %c0 to %inner step %c1 {
                %index = memref.load %indices[%b, %i] : memref<1x42xi64>
                %position, %valid = gather.resolve %index within %axis bounds zero : i64
                %element = memref.load %grad[%b, %o, %i, %j] : memref<1x2x42x12xf32>
                gather.accumulate %element, %out[%b, %o, %position, %j] if %valid : f32, memref<1x2x5x12xf32>
              }}}}

    Raises:
        ScheduleError: the gradient is still on tensors, or its elements are not plain numbers.
    """

    name = "lower-gradient-to-nest"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, gradient in gathers(op):
            if not isinstance(gradient, GradientOp):
                continue
            if gradient.out is None:
                raise ScheduleError("lower-gradient-to-nest: expected memrefs; run bufferize-gather first")
            _Lowering(function, gradient).lower()


class _Lowering:
    """One gradient, with what its three nests share."""

    def __init__(self, function: func.FuncOp, gradient: GradientOp):
        self.function, self.gradient = function, gradient
        element = SSAValue.get(gradient.target, type=MemRefType).type.element_type
        self.nothing, self.element = zero_of(LowerGradientToNest.name, element), element
        self.builder = builder_before(gradient)
        roles = gradient.roles()
        self.dims = {array: dim_names(roles, array) for array in ("data", "indices", "out")}
        self.sizes = [
            size_of(self.builder, gradient.target, dim, name if name.role == "axis" else f"out_{name}")
            for dim, name in enumerate(self.dims["data"])
        ]
        self.trips = [size_of(self.builder, gradient.source, dim, name) for dim, name in enumerate(self.dims["out"])]
        self.axes = [dim for dim, name in enumerate(self.dims["data"]) if name.role == "axis"]
        self.components = [index_constant(self.builder, component) for component in range(len(self.axes))]
        self.zero, self.one = index_constant(self.builder, 0), index_constant(self.builder, 1)

    def lower(self) -> None:
        self._clear()
        self._add()
        if self.gradient.factor != 1:
            self._scale()
        Rewriter.erase_op(self.gradient)

    def _over_target(self, beside: str) -> tuple[NestBuilder, list[SSAValue]]:
        """Open one loop for each dimension of the table; return the nest and its induction variables."""
        nest = NestBuilder(self.builder, self.zero, self.one)
        dims = zip(self.dims["data"], self.sizes, strict=True)
        return nest, [nest.loop(name.beside(beside), size) for name, size in dims]

    def _clear(self) -> None:
        nothing = named(self.builder, self.nothing, "nothing")
        nest, inductions = self._over_target("clear")
        nest.builder.insert(memref.StoreOp.get(nothing, self.gradient.target, inductions))
        nest.close()

    def _add(self) -> None:
        gradient, names = self.gradient, self.dims["out"]
        nest = NestBuilder(self.builder, self.zero, self.one)
        inductions = {
            name: nest.loop(name, size, ordered=name.role == "indices")
            for name, size in zip(names, self.trips, strict=True)
        }
        dims = self.dims["data"], self.dims["indices"]
        axis_sizes = [self.sizes[dim] for dim in self.axes]
        table, valid = resolve_indices(nest.builder, gradient, inductions, dims, axis_sizes, self.components)
        load = memref.LoadOp.get(gradient.source, [inductions[name] for name in names])
        element = named(nest.builder, load, "element")
        nest.builder.insert(AccumulateOp(element, gradient.target, table, valid))
        nest.close()

    def _scale(self) -> None:
        scale = self._scale_argument()
        nest, inductions = self._over_target("scale")
        total = named(nest.builder, memref.LoadOp.get(self.gradient.target, inductions), "total")
        multiply = arith.MuliOp if isinstance(self.element, IntegerType) else arith.MulfOp
        scaled = named(nest.builder, multiply(total, scale), "scaled")
        nest.builder.insert(memref.StoreOp.get(scaled, self.gradient.target, inductions))
        nest.close()

    def _scale_argument(self) -> SSAValue:
        """Give the function an argument more, which says by its attribute what it is to be called with."""
        block = self.function.body.block
        scale = block.insert_arg(self.element, len(block.args))
        scale.name_hint = "scale"
        given = self.function.arg_attrs.data if self.function.arg_attrs is not None else ()
        attributes = [*given, *[DictionaryAttr({})] * (len(block.args) - 1 - len(given))]
        said = DictionaryAttr({SCALE: FloatAttr(self.gradient.factor, f64)})
        self.function.arg_attrs = ArrayAttr([*attributes, said])
        self.function.update_function_type()
        return scale
