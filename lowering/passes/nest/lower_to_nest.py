"""The pass `lower-to-nest`: it turns the canonical form into the loop nest, level 2."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    f64,
)
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.canonical import dim_names
from ....ir.dialects.attributes import SCALE
from ....ir.dialects.gather_dialect import (
    I64,
    AccumulateOp,
    GatherMaxOp,
    GradientOp,
    LoopOp,
    MaskedLoadOp,
    OperatorOp,
    ReductionOp,
    ResolveOp,
    WeightedOp,
    YieldOp,
)
from ....ir.dialects.upstream import SIToFPOp, UIToFPOp
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ....ir.semantics import Bounds
from ...nest.builder import NestBuilder, builder_at_end, builder_before, zero_of
from ...nest.queries import gathers

# The sizes of dimensions, or the induction variables of the loops over them, by name.
Dims = dict[LoopName, SSAValue]
Scaling = arith.MuliOp | arith.MulfOp | arith.DivfOp


@dataclass(frozen=True)
class LowerToNest(ModulePass):
    """Turn a gather, a gradient or a reduction into named loops.

    The loops are batch, outer, indices and inner, one a dimension of the canonical form, in the order in which the
    slices lie in memory. The innermost body resolves one index with the bounds mode of the operator, and moves one
    element between the table and the slices. The operators differ in how they start, combine and scale:

    | operator  | loops                     | out starts as | an element is                          | scale           |
    |-----------|---------------------------|---------------|----------------------------------------|-----------------|
    | gather    | of out                    |               | stored                                 |                 |
    | gradient  | of grad; indices ordered  | 0             | added                                  | `scale`, a nest |
    | reduction | of out, and `bag` ordered | 0             | added, by its weight, or the maximum   | 1 / size of bag |

    Elements are added in the order of an ordered loop, whatever becomes of the nest. All other loops lead to elements
    of their own. An index that is not valid adds nothing.

    The nest that scales a gradient is left out where the scale is 1; otherwise the scale becomes the last argument of
    the function. A gather_max takes the larger element, or the element in the first iteration of `bag`. An element of a
    gather_weighted is multiplied by its weight, and its bias is added; narrow elements get the type of out. A mean is
    divided by the size of its bag behind the loop over it; where an index may be left out, by the number of valid
    indices, which a loop before it counts:

        mean of bags                        after lower-to-nest
                                            for indices in 0..n
                                              for count_bag in 0..n_bag
          out[i, :] =                           count += valid(indices[i, k])
            mean(data[indices[i, :], :])      for bag in 0..n_bag
                                                for inner in 0..m
                                                  out[i, j] += data[p, j]
                                              for scale_inner in 0..m
                                                out[i, j] /= max(count, 1)

    Preconditions: operators on memrefs, of numbers where they add; normalised attributes.

    What it does not do: check indices that nothing reads. Where out is empty the nest runs no iteration, and so meets
    no bad index; `fold-bounds` adds the check of all indices that the mode `error` requires.

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
        ScheduleError: an operator is still on tensors, or adds elements that are not plain numbers.
    """

    name = "lower-to-nest"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, operator in gathers(op):
            if operator.out is None:
                raise ScheduleError(f"lower-to-nest: expected {operator.name} on memrefs; run bufferize-gather first")
            _Lowering(function, operator).lower()


@dataclass
class _Nest:
    """The loops opened so far, and the builder in the innermost."""

    builder: NestBuilder
    zero: SSAValue
    one: SSAValue
    loops: list[LoopOp] = field(default_factory=list)

    def open(self, sizes: Dims, *, beside: str = "", ordered: str = "") -> Dims:
        """Open a loop over each dimension, ordered where its role is `ordered`; return their induction variables."""
        inductions: Dims = {}
        for dim, size in sizes.items():
            name = dim.beside(beside) if beside else dim
            bounds = self.zero, size, self.one
            loop = self.builder.loop(name, bounds, name.induction, ordered=name.role == ordered)
            self.loops.append(loop)
            self.builder = builder_at_end(loop)
            inductions[dim] = loop.induction
        return inductions

    def close(self) -> None:
        """End every body with its terminator."""
        for loop in self.loops:
            loop.body.block.add_op(YieldOp())


class _Lowering:
    """One operator, with the sizes and constants that its nests share.

    `table`, `slices` and `bag` have the sizes of the dimensions of the table, the slices and a bag, by name.
    """

    def __init__(self, function: func.FuncOp, operator: OperatorOp):
        self.function, self.operator, self.builder = function, operator, builder_before(operator)
        self.is_gradient = isinstance(operator, GradientOp)
        self.element = SSAValue.get(operator.target, type=MemRefType).type.element_type
        is_bag = isinstance(operator, ReductionOp)
        nothing = zero_of(LowerToNest.name, self.element) if self.is_gradient or is_bag else None
        roles = operator.roles()
        self.data, self.indices, self.out = (dim_names(roles, array) for array in ("data", "indices", "out"))
        self.axes = [name for name in self.data if name.role == "axis"]
        if self.is_gradient:
            self.table = self._sizes(operator.target, self.data, self.data, "out_")
            self.slices = self._sizes(operator.source, self.out, self.out)
        else:
            self.slices = self._sizes(operator.target, self.out, self.out)
            self.bag = self._sizes(operator.indices, self.indices, [name for name in self.indices if name == "bag"])
            self.table = self._sizes(operator.source, self.data, self.axes)
        components = operator.shapes()[1][-1] if "tuple" in self.indices else 1
        self.components = [self.builder.index(component) for component in range(components)]
        self.zero = self.components[0] if is_bag else self.builder.index(0)
        self.one = self.builder.index(1)
        self.nothing = None if nothing is None else self.builder.named(nothing, "nothing")

    def _sizes(self, array: SSAValue, dims: Sequence[LoopName], wanted: Sequence[LoopName], prefix: str = "") -> Dims:
        """Insert the sizes of some dimensions of an array; names of dimensions other than axes get the prefix."""
        return {
            name: self.builder.size(array, dims.index(name), name if name.role == "axis" else f"{prefix}{name}")
            for name in wanted
        }

    def lower(self) -> None:
        if self.nothing is not None:
            nest = self._nest()
            place = nest.open(self.table if self.is_gradient else self.slices, beside="clear")
            nest.builder.insert(memref.StoreOp.get(self.nothing, self.operator.target, list(place.values())))
            nest.close()
        if isinstance(self.operator, ReductionOp):
            self._reduce(self.operator)
        else:
            nest = self._nest()
            self._combine(nest, nest.open(self.slices, ordered="indices" if self.is_gradient else ""))
        if isinstance(self.operator, GradientOp) and self.operator.factor != 1:
            multiply = arith.MuliOp if isinstance(self.element, IntegerType) else arith.MulfOp
            scale, nest = self._scale_argument(self.operator.factor), self._nest()
            self._scale(nest, nest.open(self.table, beside="scale"), multiply, scale, "scaled")
        Rewriter.erase_op(self.operator)

    def _nest(self, builder: NestBuilder | None = None) -> _Nest:
        return _Nest(builder or self.builder, self.zero, self.one)

    def _combine(self, nest: _Nest, at: Dims, first: SSAValue | None = None, factors: Sequence[SSAValue] = ()) -> None:
        """Fill the innermost body: store one element, or add it, or take the larger where there is a `first`."""
        operator, slices = self.operator, [at[name] for name in self.out]
        positions, valid = self._resolve(nest.builder, at)
        table = [positions[name] if name in positions else at[name.loop] for name in self.data]
        if self.is_gradient:
            element = nest.builder.load(operator.source, slices, "element")
        else:
            element = nest.builder.insert(MaskedLoadOp(operator.source, table, valid)).element
            element.name_hint = "element"
        for factor, apply in zip(factors, (arith.MulfOp, arith.AddfOp), strict=False):
            element = nest.builder.named(apply(self._widened(nest.builder, element), factor), "weighted")
        place = table if self.is_gradient else slices
        if self.nothing is None:
            nest.builder.insert(memref.StoreOp.get(element, operator.target, place))
        else:
            element = self._widened(nest.builder, element)
            nest.builder.insert(AccumulateOp(element, operator.target, place, valid, first))
        nest.close()

    def _resolve(self, builder: NestBuilder, at: Dims) -> tuple[Dims, SSAValue]:
        """Load and resolve the index, or the tuple of indices, of one iteration.

        Return the position along each axis, and whether all components are valid.
        """
        operator, positions, valid = self.operator, Dims(), list[SSAValue]()
        for component, axis in zip(self.components, self.axes, strict=False):
            suffix = "" if len(self.axes) == 1 else f"_{len(valid)}"
            place = [component if name == "tuple" else at[name] for name in self.indices]
            index = builder.load(operator.indices, place, f"index{suffix}")
            is_unsigned = operator.unsigned is not None
            resolve = builder.insert(ResolveOp(index, self.table[axis], operator.bounds.data, unsigned=is_unsigned))
            resolve.position.name_hint, resolve.valid.name_hint = f"position{suffix}", f"valid{suffix}"
            positions[axis] = resolve.position
            valid.append(resolve.valid)
        return positions, reduce(lambda all_, one: builder.compute(arith.AndIOp, all_, one, "valid"), valid)

    def _widened(self, builder: NestBuilder, element: SSAValue) -> SSAValue:
        """Insert the conversion of an element to the type of the sums, where it has another."""
        if element.type == self.element:
            return element
        assert isinstance(self.element, Float32Type | Float64Type)
        if not isinstance(element.type, IntegerType):
            return builder.named(arith.ExtFOp(element, self.element), "wide")
        is_unsigned = isinstance(self.operator, WeightedOp) and self.operator.unsigned_data is not None
        return builder.named((UIToFPOp if is_unsigned else SIToFPOp)(element, self.element), "wide")

    def _reduce(self, reduction: ReductionOp) -> None:
        bags = {name: size for name, size in self.slices.items() if name.role == "indices"}
        row = {name: size for name, size in self.slices.items() if name not in bags}
        around = self._nest()
        at = around.open(bags)
        divisor = self._divisor(around.builder, at) if reduction.divides else None
        nest = self._nest(around.builder)
        at_index = at | nest.open(self.bag, ordered="bag")
        first, factors = None, list[SSAValue]()
        if isinstance(reduction, GatherMaxOp):
            first = nest.builder.compare("eq", at_index[LoopName("bag")], self.zero, "first")
        if isinstance(reduction, WeightedOp):
            for component, what in zip(self.components[1:], ("weight", "bias"), strict=False):
                place = [component if name == "tuple" else at_index[name] for name in self.indices]
                bits = nest.builder.load(reduction.indices, place, f"{what}_bits")
                factors.append(nest.builder.named(arith.BitcastOp(bits, self.element), what))
        self._combine(nest, at_index | nest.open(row), first, factors)
        if divisor is not None:
            nest = self._nest(around.builder)
            self._scale(nest, at | nest.open(row, beside="scale"), arith.DivfOp, divisor, "mean")
        around.close()

    def _divisor(self, builder: NestBuilder, at: Dims) -> SSAValue:
        """Insert the divisor of the sums of a bag: the number of its valid indices, or 1 where it has none."""
        ((bag, size),) = self.bag.items()
        if self.operator.bounds.data is Bounds.ZERO:
            loop = builder.loop(bag.beside("count"), (self.zero, size, self.one), bag.induction, sums=True)
            inside = builder_at_end(loop)
            _, valid = self._resolve(inside, at | {bag: loop.induction})
            inside.insert(YieldOp(inside.named(arith.ExtUIOp(valid, I64), "one")))
            count = loop.total
            assert count is not None
            count.name_hint = "count"
        else:
            count = builder.cast(size, I64, "count")
        least = builder.constant(1, I64, "one")
        counted = builder.compute(arith.MaxSIOp, count, least, "counted")
        return builder.named(SIToFPOp(counted, self.element), "divisor")

    def _scale(self, nest: _Nest, at: Dims, kind: type[Scaling], factor: SSAValue, name: str) -> None:
        """Multiply, or divide, each element of out, in a nest of its own."""
        place = [at[name] for name in (self.data if self.is_gradient else self.out)]
        total = nest.builder.load(self.operator.target, place, "total")
        scaled = nest.builder.named(kind(total, factor), name)
        nest.builder.insert(memref.StoreOp.get(scaled, self.operator.target, place))
        nest.close()

    def _scale_argument(self, factor: float) -> SSAValue:
        """Give the function one more argument, whose attribute `SCALE` is the value to pass."""
        block = self.function.body.block
        scale = block.insert_arg(self.element, len(block.args))
        scale.name_hint = "scale"
        given = self.function.arg_attrs.data if self.function.arg_attrs is not None else ()
        attributes = [*given, *[DictionaryAttr({})] * (len(block.args) - 1 - len(given))]
        self.function.arg_attrs = ArrayAttr([*attributes, DictionaryAttr({SCALE: FloatAttr(factor, f64)})])
        self.function.update_function_type()
        return scale
