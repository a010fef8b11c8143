"""The passes `vectorize-inner` and `gather-lanes`: vectors within the scheduled nest, level 3."""

from collections.abc import Collection, Sequence

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, vector
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, MemRefType, ModuleOp, NoneAttr, UnitAttr, VectorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import Rewriter

from ....ir.dialects.attributes import GATHERED, ROW_SIZES
from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, YieldOp
from ....ir.dialects.types import element_size_bytes, strides_of
from ....ir.dialects.upstream import FromElementsOp
from ....ir.errors import ScheduleError
from ...nest.builder import (
    NestBuilder,
    builder_at_end,
    clone_iterations,
    made_from,
    overlapping_remainder,
    rewrite_ops,
    rows_of,
    split_off_remainder,
    split_overlapping,
)
from ...nest.lane_packs import gathered
from ...nest.queries import (
    Factor,
    Step,
    clone_slice,
    computes,
    copying_store,
    depends_on,
    enclosing_loops,
    functions,
    slice_of,
    static_size,
    steps_from_load,
    sum_of,
)
from ...schedule import steps
from ...schedule.machine_model import GATHERED_BYTES

ELEMENT_BITS = (8, 16, 32, 64, 128)  # of copied elements
SUM_BYTES = (1, 2, 4, 8)  # of added elements
LARGEST_VECTOR_BYTES = 64


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

    In a gradient, the row of grad is loaded as vectors that are added to elements of out, `gather.accumulate`; each
    element keeps a sum of its own, so the order of the contributions stays.

    What it does not do: masked loads, which `fold-bounds` leaves where an axis may be empty.

    Raises:
        ScheduleError: a precondition does not hold.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if (accumulate := sum_of(function)) is not None:
                _vectorize_sum(accumulate, self.lanes)
                continue
            store = copying_store(function)
            if store is None:
                raise ScheduleError("vectorize-inner: expected a nest that copies one element to out")
            _Vectorizing(function, store, self.lanes).vectorize()


class _Vectorizing:
    """The innermost loop of a copy, and the store in it."""

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
        _check_lanes(lanes, self.width_bytes, [bits // 8 for bits in ELEMENT_BITS])
        self.type = VectorType(element, [lanes])
        self._check()

    def _check(self) -> None:
        loop = self.loop
        _check_divisible(loop)
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
        return isinstance(load, memref.LoadOp) and _runs_along(self.loop, load.memref, load.indices)

    def _fill(self, body: LoopOp, out: SSAValue) -> bool:
        """Insert the copy of a vector into an empty loop; return whether it is a part of a row."""
        builder = builder_at_end(body, self.store)
        row = self._row(builder, body)
        value = row
        if value is None:  # a copy of the loop's body for every lane
            element = self.store.value
            copies = clone_iterations(builder, slice_of([element], self.loop), self.loop, body, self.lanes)
            value = builder.named(FromElementsOp([copy.get(element, element) for copy in copies]), "elements")
        subscripts = [body.induction if dim == self.dim else place for dim, place in enumerate(self.store.indices)]
        places = clone_slice(slice_of(subscripts, self.loop), builder, {self.loop.induction: body.induction})
        subscripts = [places.get(place, place) for place in subscripts[: self.dim + 1]]
        builder.insert(vector.StoreOp(value, out, subscripts))
        builder.insert(YieldOp())
        return row is not None

    def _row(self, builder: NestBuilder, body: LoopOp) -> SSAValue | None:
        """Insert the load of a vector, and return it; None where the elements do not lie side by side in data."""
        value, inside = self.store.value, None
        if isinstance(select := value.owner, arith.SelectOp):
            value, inside = select.lhs, select.cond
        load = value.owner
        if not isinstance(load, memref.LoadOp) or not _runs_along(self.loop, load.memref, load.indices):
            return None
        if inside is not None and (depends_on(inside, self.loop) or self.width_bytes > 8):
            return None
        needed = [*load.indices, *([] if inside is None else [inside])]
        mapping = clone_slice(slice_of(needed, self.loop), builder, {self.loop.induction: body.induction})
        places = [mapping.get(place, place) for place in load.indices]
        result = builder.named(made_from(load, vector.LoadOp(load.memref, places, self.type)), value.name_hint)
        if inside is None:
            return result
        kept = arith.ExtSIOp(mapping.get(inside, inside), self.type.element_type)  # type: ignore[arg-type]
        masks = builder.named(vector.BroadcastOp(builder.named(kept, "mask"), self.type), "masks")
        return builder.compute(arith.AndIOp, result, masks, "element")


def _vectorize_sum(accumulate: AccumulateOp, lanes: int) -> None:
    """Add `lanes` elements of a row at once, and the others in a remainder loop.

    Each element has a sum of its own, so the order of the contributions to it stays. Raises ScheduleError where vectors
    do not fit, or the innermost loop does not add elements that lie side by side.
    """
    loop = next(enclosing_loops(accumulate), None)
    if loop is None:
        raise ScheduleError("vectorize-inner: the element is added outside of every loop")
    if isinstance(accumulate.element.type, VectorType):
        raise ScheduleError("vectorize-inner: vectors are added already")
    _check_lanes(lanes, element_size_bytes(accumulate.element.type), SUM_BYTES)
    load = _check_load(accumulate, loop)
    body, rest = split_off_remainder(loop, lanes)
    builder = builder_at_end(body, accumulate)
    masks = [value for value in (accumulate.mask, accumulate.first) if value is not None]
    steps = steps_from_load(accumulate.element)[1]
    factors = [step.rhs for step in steps if isinstance(step, Factor)]
    ops = slice_of([*load.indices, *accumulate.subscripts, *masks, *factors], loop)
    mapping = clone_slice(ops, builder, {loop.induction: body.induction})

    def at(values: list[SSAValue]) -> list[SSAValue]:
        return [mapping.get(value, value) for value in values]

    type_ = VectorType(load.res.type, [lanes])
    loaded = made_from(load, vector.LoadOp(load.memref, at(list(load.indices)), type_))
    elements = _insert_steps(builder, builder.named(loaded, load.res.name_hint), steps, mapping)
    mask, first = (
        None if value is None else mapping.get(value, value) for value in (accumulate.mask, accumulate.first)
    )
    builder.insert(AccumulateOp(elements, accumulate.memref, at(list(accumulate.subscripts)), mask, first))
    builder.insert(YieldOp())
    if not rest:
        Rewriter.erase_op(loop)


def _check_load(accumulate: AccumulateOp, loop: LoopOp) -> memref.LoadOp:
    """Return the load of the element that is added, having checked that both have stride 1."""
    _check_divisible(loop)
    plain = (AccumulateOp, YieldOp, memref.LoadOp)
    beside = [op for op in loop.body.block.ops if not isinstance(op, plain)]
    if static_size(loop.step) != 1 or any(op.regions or not computes(op) for op in beside):
        raise ScheduleError(f"vectorize-inner: {loop.label} does more than add an element in steps of 1")
    load = steps_from_load(accumulate.element)[0].owner
    if not (
        isinstance(load, memref.LoadOp)
        and _runs_along(loop, load.memref, load.indices)
        and _runs_along(loop, accumulate.memref, accumulate.subscripts)
    ):
        raise ScheduleError(f"vectorize-inner: iterations of {loop.label} do not add side by side")
    if accumulate.mask is not None and depends_on(accumulate.mask, loop):
        raise ScheduleError(f"vectorize-inner: each iteration of {loop.label} has an index of its own")
    return load


def _insert_steps(
    builder: NestBuilder, loaded: SSAValue, steps: list[Step], mapping: dict[SSAValue, SSAValue]
) -> SSAValue:
    """Insert the steps for a vector of elements, and return the vector to add; `mapping` has copies of factors."""
    assert isinstance(loaded.type, VectorType)
    value, shape = loaded, loaded.type.get_shape()
    for step in steps:
        type_ = VectorType(step.results[0].type, shape)
        if isinstance(step, Factor):
            factor = mapping.get(step.rhs, step.rhs)
            what = "weights" if isinstance(step, arith.MulfOp) else "biases"
            factors = builder.named(made_from(step, vector.BroadcastOp(factor, type_)), what)
            made: Operation = type(step)(value, factors)
        else:
            made = type(step)(value, type_)  # type: ignore[arg-type]
        value = builder.named(made_from(step, made), step.results[0].name_hint)
    return value


def _check_lanes(lanes: int, width_bytes: int, widths: Collection[int]) -> None:
    """Check that elements of a width, one of `widths`, make a vector; raises ScheduleError."""
    if width_bytes not in widths or lanes < 2 or lanes & (lanes - 1) or lanes * width_bytes > LARGEST_VECTOR_BYTES:
        raise ScheduleError(
            f"vectorize-inner: expected a power of two of lanes, 2 to {LARGEST_VECTOR_BYTES // width_bytes} for "
            f"elements of {width_bytes} bytes, got {lanes}"
        )


def _check_divisible(loop: LoopOp) -> None:
    """Check that several iterations of a loop may be taken as one; raises ScheduleError."""
    if loop.parallel is not None or loop.ordered is not None:
        kind = "parallel" if loop.parallel is not None else "ordered"
        raise ScheduleError(f"vectorize-inner: {loop.label} is {kind}; a vector would split its iterations")


def _runs_along(loop: LoopOp, memory: SSAValue, subscripts: Sequence[SSAValue]) -> bool:
    """Return whether an access has stride 1 in a loop."""
    strides = strides_of(SSAValue.get(memory, type=MemRefType).type)
    *others, last = subscripts
    is_packed = strides is None or strides[-1] == 1
    return last is loop.induction and is_packed and not any(depends_on(place, loop) for place in others)


@steps.pass_of_step
class GatherLanes(ModulePass, steps.GatherLanes):
    """Load the lanes of a vector by one gather instruction.

    `vectorize-inner` leaves elements with an index each as one load a lane, each of which resolves its index by itself.
    This pass marks them for the code generator, which then loads the indices of all lanes as a vector, resolves them in
    vectors, and gathers the elements. The operations of the lanes stay as they are, so the mark does not change the
    meaning.

    It pays where the processor gathers as fast as it loads lanes, where indices are resolved, and where the lines of
    data are prefetched.

    Preconditions: `vectorize-inner` has made vectors of elements with an index each; of 4 or 8 bytes.

    Input:
        %elements = vector.from_elements %element, %element_1, ... : vector<8xi32>
    Output:
        %elements = vector.from_elements %element, %element_1, ... {gathered} : vector<8xi32>

    What it does not do: mark vectors whose indices do not lie side by side, as in tuples, or are resolved by more than
    additions and comparisons, as in the modes `zero` and `wrap`.

    Raises:
        ScheduleError: there are no such vectors, or their elements have other widths.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if not any(isinstance(inner, FromElementsOp) for inner in function.walk()):
                raise ScheduleError(
                    "gather-lanes: expected vectors of elements with an index each; run vectorize-inner first"
                )
        rewrite_ops(op, _MarkGathered())


class _MarkGathered(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: FromElementsOp, rewriter: PatternRewriter) -> None:
        width = element_size_bytes(op.elements[0].type)
        if width not in GATHERED_BYTES:
            raise ScheduleError(f"gather-lanes: expected elements of 4 or 8 bytes, got {width}")
        if gathered(op) is not None:
            op.attributes[GATHERED] = UnitAttr()
            rewriter.notify_op_modified(op)
