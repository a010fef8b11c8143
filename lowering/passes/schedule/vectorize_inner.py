"""The pass `vectorize-inner`: within the scheduled nest, level 3."""

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, vector
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, MemRefType, ModuleOp, NoneAttr, VectorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.attributes import ROW_SIZES
from ....ir.dialects.gather_dialect import LoopOp, YieldOp
from ....ir.dialects.upstream import FromElementsOp
from ....ir.errors import ScheduleError
from ...nest.backward_slice import clone_slice, depends_on, slice_of
from ...nest.builder import NestBuilder, builder_at_end, made_from
from ...nest.queries import computes, copying_store, enclosing_loops, functions, static_size
from ...nest.split_loop import induction_of_copy, overlapping_remainder, split_off_remainder, split_overlapping
from ...nest.vector_checks import check_in_pieces, check_lanes, rows_of, runs_along
from ...nest.vector_sums import sum_of, vectorize_sum
from ...schedule import steps

ELEMENT_BITS = (8, 16, 32, 64, 128)


@steps.pass_of_step
class VectorizeInner(ModulePass, steps.VectorizeInner):
    """Copy or add several elements at a time in the innermost loop.

    A row is loaded and stored as vectors. Elements with an index each are loaded one by one and stored as a vector: a
    lane gather. The elements that fill no vector go to a remainder loop, `inner_rest`; in a row of known size that is
    one overlapping vector, which ends with the row.

    before                              after vectorize-inner{lanes=8}
        for inner in 0..n                   for inner in 0..n - n % 8 step 8
          out[i, j] = data[p, j]              out[i, j:j+8] = data[p, j:j+8]
                                            for inner_rest in n - n % 8..n
                                              out[i, j] = data[p, j]

    Preconditions: the innermost loop around the store has step 1 and is not parallel; its iterations write elements
    that lie side by side in a contiguous out. Data may have any strides.

    Input:
        gather.loop inner(%j) = %c0 to %n step %c1 {
          %element = memref.load %data[%b, %o, %position, %j] : memref<1x1x?x?xi32>
          memref.store %element, %out[%b, %o, %i, %j] : memref<1x1x?x?xi32> }
    Output:
        gather.loop inner(%j) = %c0 to %whole step %c8 {
          %element = vector.load %data[%b, %o, %position, %j] : memref<1x1x?x?xi32>, vector<8xi32>
          vector.store %element, %out[%b, %o, %i, %j] : memref<1x1x?x?xi32>, vector<8xi32> }
        gather.loop inner_rest(%j) = %whole to %n step %c1 { ... }

    Of a gradient, the row of grad is loaded as vectors that are added to as many elements of out, `gather.accumulate`;
    each element keeps a sum of its own, so the order of the contributions stays.

    What it does not do: masked loads, which `fold-bounds` leaves where an axis may be empty.

    Raises:
        ScheduleError: a precondition does not hold.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if (accumulate := sum_of(function)) is not None:
                vectorize_sum(accumulate, self.lanes)
                continue
            store = copying_store(function)
            if store is None:
                raise ScheduleError("vectorize-inner: expected a nest that copies one element to out")
            _Vectorizing(function, store, self.lanes).vectorize()


class _Vectorizing:
    """The innermost loop of a copy, and what it reads and writes."""

    def __init__(self, function: func.FuncOp, store: memref.StoreOp, lanes: int):
        self.function, self.store, self.lanes = function, store, lanes
        loop = next(enclosing_loops(store), None)
        if loop is None:
            raise ScheduleError("vectorize-inner: the element is stored outside of every loop")
        self.loop, element = loop, store.value.type
        if not isinstance(element, IntegerType) or element.width.data not in ELEMENT_BITS:
            raise ScheduleError(
                f"vectorize-inner: expected elements of {', '.join(map(str, ELEMENT_BITS))} bits, got {element}; "
                "run erase-element-type first"
            )
        self.width_bytes = element.width.data // 8
        check_lanes(lanes, self.width_bytes, [bits // 8 for bits in ELEMENT_BITS])
        self.type = VectorType(element, [lanes])
        self._check()

    def _check(self) -> None:
        loop = self.loop
        check_in_pieces(loop)
        if static_size(loop.step) != 1 or loop.total is not None:
            kind = "is a sum" if loop.total is not None else "takes several elements at a time already"
            raise ScheduleError(f"vectorize-inner: {loop.label} {kind}")
        if [op for op in loop.body.block.ops if op.regions]:
            raise ScheduleError(f"vectorize-inner: {loop.label} is not innermost")
        if any(op.name == "gather.masked_load" for op in loop.body.block.ops):
            raise ScheduleError("vectorize-inner: the load is masked, as the axis may be empty")
        beside = (
            op for op in loop.body.block.ops if op is not self.store and not isinstance(op, YieldOp | memref.LoadOp)
        )
        if not all(computes(op) for op in beside):
            raise ScheduleError(f"vectorize-inner: {loop.label} does more than copy an element; vectors are made first")
        out_type = SSAValue.get(self.store.memref, type=MemRefType).type
        own = [dim for dim, place in enumerate(self.store.indices) if place is loop.induction]
        sizes = out_type.get_shape()
        others = [place for place in self.store.indices if place is not loop.induction]
        if (
            len(own) != 1
            or not isinstance(out_type.layout, NoneAttr)
            or any(size != 1 for size in sizes[own[0] + 1 :])
            or any(depends_on(place, loop) for place in others)
        ):
            raise ScheduleError(f"vectorize-inner: iterations of {loop.label} do not write side by side in out")
        self.dim = own[0]

    def vectorize(self) -> None:
        out = rows_of(self.function, self.store.memref, self.dim)
        known = self.function.attributes.get(ROW_SIZES)
        if isinstance(known, DenseArrayBase) and self._is_whole_row():
            least, most = (int(size) for size in known.get_values())
            both = split_overlapping(self.loop, self.lanes, least, most)
            if both is not None:
                for made in both:
                    self._fill(made, out)
                return Rewriter.erase_op(self.loop)
        body, rest = split_off_remainder(self.loop, self.lanes)
        is_row = self._fill(body, out)
        last = overlapping_remainder(body, self.loop) if rest and is_row else None
        if last is not None:
            self._fill(last, out)
        if last is not None or not rest:
            Rewriter.erase_op(self.loop)

    def _is_whole_row(self) -> bool:
        """Return whether the loop runs over all of a row, whose elements lie side by side in data."""
        size = self.loop.upper.owner
        if not isinstance(size, memref.DimOp) or size.source is not self.store.memref:
            return False
        if self.loop.label != "inner" or static_size(size.index) != self.dim:
            return False
        load = self.store.value.owner
        load = load.lhs.owner if isinstance(load, arith.SelectOp) else load
        return isinstance(load, memref.LoadOp) and runs_along(self.loop, load.memref, load.indices)

    def _fill(self, body: LoopOp, out: SSAValue) -> bool:
        """Insert the copy of a vector into an empty loop; return whether it is a part of a row."""
        builder = builder_at_end(body, self.store)
        row = self._row(builder, body)
        value = row or self._elements(builder, body)
        subscripts = [body.induction if dim == self.dim else place for dim, place in enumerate(self.store.indices)]
        places = clone_slice(slice_of(subscripts, self.loop), builder, {self.loop.induction: body.induction})
        subscripts = [places.get(place, place) for place in subscripts[: self.dim + 1]]
        builder.insert(vector.StoreOp(value, out, subscripts))
        builder.insert(YieldOp())
        return row is not None

    def _row(self, builder: NestBuilder, body: LoopOp) -> SSAValue | None:
        """Insert the load of a vector where elements lie side by side in data, too; None where they do not."""
        value, inside = self.store.value, None
        if isinstance(select := value.owner, arith.SelectOp):
            value, inside = select.lhs, select.cond
        load = value.owner
        if not isinstance(load, memref.LoadOp) or not runs_along(self.loop, load.memref, load.indices):
            return None
        if inside is not None and (depends_on(inside, self.loop) or self.width_bytes > 8):
            return None
        needed = [*load.indices, *([] if inside is None else [inside])]
        mapping = clone_slice(slice_of(needed, self.loop), builder, {self.loop.induction: body.induction})
        places = [mapping.get(place, place) for place in load.indices]
        result = builder.named(made_from(load, vector.LoadOp(load.memref, places, self.type)), value.name_hint)
        return result if inside is None else self._or_zeros(builder, mapping.get(inside, inside), result)

    def _or_zeros(self, builder: NestBuilder, inside: SSAValue, loaded: SSAValue) -> SSAValue:
        """Insert the mask that keeps a vector, or makes it zeros."""
        mask = builder.named(arith.ExtSIOp(inside, self.type.element_type), "mask")  # type: ignore[arg-type]
        masks = builder.named(vector.BroadcastOp(mask, self.type), "masks")
        return builder.compute(arith.AndIOp, loaded, masks, "element")

    def _elements(self, builder: NestBuilder, body: LoopOp) -> SSAValue:
        """Insert a copy of the loop's body for every lane, and return the vector of their elements."""
        ops: list[Operation] = slice_of([self.store.value], self.loop)
        elements: list[SSAValue] = []
        for lane in range(self.lanes):
            copied = clone_slice(ops, builder, {self.loop.induction: induction_of_copy(builder, body, lane)})
            elements.append(copied.get(self.store.value, self.store.value))
        return builder.named(FromElementsOp(elements), "elements")
