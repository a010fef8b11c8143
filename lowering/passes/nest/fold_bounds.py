"""The pass `fold-bounds`: it gives bounds handling its cheapest legal form, within the nest level."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, MemRefType, ModuleOp, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.canonical import Operand, is_one_run
from ....ir.dialects.attributes import MIN_AXIS_SIZES
from ....ir.dialects.gather_dialect import I64, AccumulateOp, LoopOp, MaskedLoadOp, ResolveOp
from ....ir.dialects.types import strides_of
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ....ir.semantics import Bounds
from ...nest.bounds_arithmetic import BoundsBuilder, IndexFacts
from ...nest.builder import NestBuilder, builder_at_end, in_one_run, made_from, replace_op, sum_counts
from ...nest.constant_indices import fold_constant_indices
from ...nest.queries import enclosing_loops, functions, is_inside, static_size, steps_from_load, view_of

Access = MaskedLoadOp | AccumulateOp


@dataclass(frozen=True)
class FoldBounds(ModulePass):
    """Replace `gather.resolve` by the fewest instructions it needs.

    * Unsigned indices do not wrap.
    * Signed indices wrap without a branch, `v + (s & (v >> 63))`, and one unsigned comparison with s tests both bounds.
    * No upper check when the index type cannot reach it: every int8 is valid on an axis of 128 or more.
    * `error` is checked in a nest of its own before anything is written, so a failed gather leaves out untouched. The
      function returns the number of indices outside: a signed one is inside where `v + s < 2 * s`, unsigned. That nest
      is one loop over all indices where they lie in one run, since each short row would pay for the end of its
      vectors. The copy reads the indices again, and another thread or process may have written to them in between: an
      unsigned minimum, `min(v, v + s, s - 1)`, makes any value a position of the axis.
    * `zero` clamps the position and selects, without a branch; where the axis may be empty it stays a masked load.
    * Constant indices inside the axis are resolved here: nothing is left but the load of the position.

    In a gradient and a reduction the additions lose their mask where every index is valid, and keep it for `zero`.
    Where a mean counts the valid indices, the comparison alone is left.

    Preconditions: a function has at most one masked load or accumulation (a reduction loads an element and adds it),
    and every `gather.resolve` decides about it, or is counted. The function carries the smallest sizes for which its
    code is right as `gather.min_axis_sizes`, one an axis.

    Input:
        %position, %valid = gather.resolve %index within %n_axis bounds zero : i64
        %element = gather.masked_load %data[%b, %o, %position, %j], %valid : memref<1x2x5x12xi32> -> i32
    Output:
        %sign = arith.shrsi %index, %c63 : i64
        %shift = arith.andi %size, %sign : i64
        %wrapped = arith.addi %index, %shift : i64
        %inside = arith.cmpi ult, %wrapped, %size : i64
        %clamped = arith.select %inside, %wrapped, %zero : i64
        %position = arith.index_cast %clamped : i64 to index
        %loaded = memref.load %data[%b, %o, %position, %j] : memref<1x2x5x12xi32>
        %element = arith.select %inside, %loaded, %nothing : i32

    Raises:
        BoundsError: a constant index is outside, in mode `error`.
    """

    name = "fold-bounds"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            resolves = [inner for inner in function.walk() if isinstance(inner, ResolveOp)]
            accesses = [inner for inner in function.walk() if isinstance(inner, MaskedLoadOp | AccumulateOp)]
            if not resolves:
                continue
            # These resolves only count valid indices, the divisor of a mean; no added element depends on them.
            counted = [
                resolve
                for resolve in resolves
                if resolve.valid.uses and all(isinstance(use.operation, arith.ExtUIOp) for use in resolve.valid.uses)
            ]
            resolves = [resolve for resolve in resolves if resolve not in counted]
            summed = {_summed_load(inner) for inner in accesses if isinstance(inner, AccumulateOp)}
            accesses = [inner for inner in accesses if inner not in summed]
            if len(accesses) != 1 or len({resolve.bounds.data for resolve in resolves}) != 1:
                raise ScheduleError(
                    "fold-bounds: expected one gather.masked_load or gather.accumulate in a function and one bounds "
                    f"mode, got {len(accesses)}"
                )
            access = accesses[0]
            for resolve in counted:
                _fold_counted(resolve)
            _check_form(function, resolves, access)
            is_constant = isinstance(access, MaskedLoadOp) and len(resolves) == 1
            if not is_constant or not fold_constant_indices(op, resolves[0]):
                _Folder(function, resolves, access).fold()


def _fold_counted(resolve: ResolveOp) -> None:
    """Replace a resolve that is only counted by the test whether the index is inside."""
    facts, emit = IndexFacts.of(resolve), BoundsBuilder(InsertPoint.before(resolve), resolve)
    if resolve.bounds.data is not Bounds.ZERO or resolve.position.uses:
        raise ScheduleError("fold-bounds: indices that are counted have bounds zero, and no position is read")
    index, size = emit.widened(resolve.index, facts.unsigned), emit.axis_size(resolve.size)
    if facts.reaches_past:
        inside = emit.compare("ult", emit.wrapped(facts, index, size), size, "inside")
    else:
        inside = emit.constant(1, 1, "inside")
    resolve.valid.replace_all_uses_with(inside)
    Rewriter.erase_op(resolve)


def _summed_load(access: Access) -> MaskedLoadOp | None:
    """Return the masked load of the element that a reduction adds; None for another access."""
    if isinstance(access, AccumulateOp) and isinstance(load := steps_from_load(access.element)[0].owner, MaskedLoadOp):
        return load if load.mask is access.mask else None
    return None


def _check_form(function: func.FuncOp, resolves: list[ResolveOp], access: Access) -> None:
    """Check that the resolves make the whole mask, and depend on the nest by its induction variables only."""
    around = list(enclosing_loops(access))
    if not around or access.mask is None:
        raise ScheduleError(f"fold-bounds: expected {access.name} in a loop, with a mask")
    leaves, pending = set[SSAValue](), [access.mask]
    while pending:
        value = pending.pop()
        pending += value.owner.operands if isinstance(value.owner, arith.AndIOp) else []
        leaves |= set() if isinstance(value.owner, arith.AndIOp) else {value}
    if leaves != {resolve.valid for resolve in resolves}:
        raise ScheduleError(f"fold-bounds: expected the mask of {access.name} to be `valid` of every gather.resolve")
    if resolves[0].bounds.data is not Bounds.ERROR:
        return
    terminator = function.body.block.last_op
    if terminator is None or terminator.operands:
        raise ScheduleError("fold-bounds: a function returns the number of indices outside, and can return no more")
    inductions = {loop.induction for loop in around}
    bounds = [bound for loop in around for bound in (loop.lower, loop.upper, loop.step)]
    for resolve in resolves:
        source = resolve.index.owner
        used = [resolve.size, *(source.indices if isinstance(source, memref.LoadOp) else [])]
        used += bounds
        inside = [value for value in used if any(is_inside(value, loop) for loop in around)]
        if resolve.size in inside or any(value in bounds or value not in inductions for value in inside):
            raise ScheduleError(
                "fold-bounds: expected sizes and bounds from outside the nest; run it before tile-loops"
            )


class _Folder:
    """The resolves of one function, with their facts, and the access that they decide about."""

    def __init__(self, function: func.FuncOp, resolves: list[ResolveOp], access: Access):
        self.function, self.resolves, self.access = function, resolves, access
        self.facts = [IndexFacts.of(resolve) for resolve in resolves]
        self.mode = resolves[0].bounds.data

    def fold(self) -> None:
        if self.mode is Bounds.ERROR:
            self._check_before_copy()
        is_loaded = isinstance(self.access, MaskedLoadOp) or _summed_load(self.access) is not None
        is_clamped = is_loaded and all(facts.axis_size for facts in self.facts)
        insides: list[SSAValue] = []
        for resolve, facts in zip(self.resolves, self.facts, strict=True):
            position, inside = self._position(resolve, facts, clamp=is_clamped)
            insides += [] if inside is None else [inside]
            resolve.position.replace_all_uses_with(position)
            position.name_hint = resolve.position.name_hint
        self._replace_access(insides, is_clamped=is_clamped)
        self._erase_resolves()
        least = [facts.least_axis for facts in self.facts]
        if any(least):
            self.function.attributes[MIN_AXIS_SIZES] = DenseArrayBase.from_list(i64, least)

    def _position(self, resolve: ResolveOp, facts: IndexFacts, *, clamp: bool) -> tuple[SSAValue, SSAValue | None]:
        """Return the position of one component, and whether it is inside; None where it always is, or was checked."""
        emit, inside = BoundsBuilder(InsertPoint.before(resolve), resolve), None
        index, size = emit.widened(resolve.index, facts.unsigned), emit.axis_size(resolve.size)
        if self.mode not in (Bounds.ERROR, Bounds.ZERO):
            return emit.as_index(emit.always_valid(facts, self.mode, index, size)), None
        if self.mode is Bounds.ERROR:
            return emit.as_index(emit.checked(facts, index, size)), None
        position = emit.wrapped(facts, index, size)
        if facts.reaches_past:
            inside = emit.compare("ult", position, size, "inside")
            if clamp:
                position = emit.select(inside, position, emit.constant(0, I64, "zero"), "clamped")
        return emit.as_index(position), inside

    def _replace_access(self, insides: list[SSAValue], *, is_clamped: bool) -> None:
        """Make the masked load a plain one, without a mask or with a select behind it, where no axis is empty.

        An addition keeps its mask, or loses it where every index is valid.
        """
        access = self.access
        emit = BoundsBuilder(InsertPoint.before(access), access)
        inside = insides[0] if insides else None
        for other in insides[1:]:
            assert inside is not None
            inside = emit.compute(arith.AndIOp, inside, other, "all_inside")
        if isinstance(access, AccumulateOp):
            summed = _summed_load(access)
            if summed is not None and (inside is None or is_clamped):
                replace_op(summed, plain := memref.LoadOp.get(summed.memref, summed.subscripts))
                plain.res.name_hint = "element"
            elif summed is not None and inside is not None:
                summed.operands[len(summed.operands) - 1] = inside
            emit.insert(AccumulateOp(access.element, access.memref, access.subscripts, inside, access.first))
            return Rewriter.erase_op(access)
        if inside is not None and not is_clamped:
            access.operands[len(access.operands) - 1] = inside
            return
        load = memref.LoadOp.get(access.memref, access.subscripts)
        value = emit.named(load, "element" if inside is None else "loaded")
        if inside is not None:
            if not isinstance(value.type, IntegerType):
                raise ScheduleError(f"fold-bounds: elements are {value.type}; run erase-element-type first")
            value = emit.select(inside, value, emit.constant(0, value.type, "nothing"), "element")
        replace_op(access, (), [value])

    def _erase_resolves(self) -> None:
        """Erase the resolves, and the conjunctions of their `valid`."""
        for resolve in self.resolves:
            pending = [use.operation for use in resolve.valid.uses]
            while pending:
                op = pending.pop()
                if not isinstance(op, arith.AndIOp):
                    raise ScheduleError(f"fold-bounds: nothing but {self.access.name} may use `valid`, got {op.name}")
                if op.result.uses:
                    pending += [op, *(use.operation for use in op.result.uses)]
                elif op.parent is not None:
                    Rewriter.erase_op(op)
        for resolve in self.resolves:
            Rewriter.erase_op(resolve)

    def _check_before_copy(self) -> None:
        """Count the indices outside in a nest of their own, and run the other nests only when there are none."""
        if not any(facts.reaches_past for facts in self.facts):
            return
        nests = [op for op in self.function.body.block.ops if isinstance(op, LoopOp)]
        emit = NestBuilder(InsertPoint.before(nests[0]), self.resolves[0])
        outside = self._count_outside(emit)
        none_outside = emit.compare("eq", outside, emit.constant(0, I64, "none"), "all_inside")
        body = Block()
        conditional = made_from(self.resolves[0], scf.IfOp(none_outside, [], Region(body)))
        Rewriter.insert_op(conditional, InsertPoint.before(nests[0]))
        for nest in nests:
            nest.detach()
        body.add_ops([*nests, scf.YieldOp()])
        terminator = self.function.body.block.last_op
        assert terminator is not None
        replace_op(terminator, func.ReturnOp(outside))
        self.function.update_function_type()

    def _count_outside(self, builder: NestBuilder) -> SSAValue:
        """Build the nest that counts: a copy of each loop that an index depends on, or one loop over all indices."""
        loads = [self._index_load(resolve) for resolve in self.resolves]
        needed = {subscript for load in loads for subscript in load.indices}
        around = [loop for loop in enclosing_loops(self.access) if loop.induction in needed][::-1]
        if self._reads_one_run(loads, around):
            run = builder.named(in_one_run(loads[0].memref), "index_run")
            name, size = LoopName("indices").beside("check"), builder.size(run, 0, "index_run")
            loop = builder.loop(name, (around[0].lower, size, around[0].step), name.induction, around[-1], sums=True)
            return sum_counts([loop], self._any_outside(builder_at_end(loop), [(run, [loop.induction])]))
        inductions: dict[SSAValue, SSAValue] = {}
        made: list[LoopOp] = []
        for loop in around:
            name, bounds = loop.label.beside("check"), (loop.lower, loop.upper, loop.step)
            made.append(builder.loop(name, bounds, name.induction, loop, sums=True))
            inductions[loop.induction] = made[-1].induction
            builder = builder_at_end(made[-1])
        reads = [(load.memref, [inductions.get(place, place) for place in load.indices]) for load in loads]
        return sum_counts(made, self._any_outside(builder, reads))

    def _reads_one_run(self, loads: list[memref.LoadOp], around: list[LoopOp]) -> bool:
        """Return whether the loops read every index once, and the indices lie in one run."""
        view, type_ = view_of(loads[0].memref, self.function), loads[0].memref.type
        if len(loads) > 1 or view is None or not isinstance(type_, MemRefType):
            return False
        sizes = {
            loop.induction: (static_size(loop.lower), static_size(loop.upper), static_size(loop.step))
            for loop in around
        }
        is_whole = all(
            sizes.get(subscript) == (0, size, 1)
            for subscript, size in zip(loads[0].indices, type_.get_shape(), strict=True)
        )
        operand = Operand(view.dims, view.groups, type_.get_shape(), strides_of(type_))
        return is_whole and len(sizes) == len(operand.shape) and is_one_run(operand)

    def _any_outside(self, builder: NestBuilder, reads: list[tuple[SSAValue, list[SSAValue]]]) -> SSAValue:
        """Emit 1 where any component, read from a place of a memref, is outside, else 0."""
        found: SSAValue | None = None
        for (memory, place), resolve, facts in zip(reads, self.resolves, self.facts, strict=True):
            if not facts.reaches_past:
                continue
            load = self._index_load(resolve)
            raw = builder.named(made_from(load, memref.LoadOp.get(memory, place)), load.res.name_hint)
            emit = BoundsBuilder(builder.insertion_point, resolve)
            index, size = emit.widened(raw, facts.unsigned), emit.axis_size(resolve.size)
            outside = emit.outside(facts, index, size)
            found = outside if found is None else emit.compute(arith.OrIOp, found, outside, "any_outside")
        assert found is not None
        return builder.insert(made_from(self.resolves[0], arith.ExtUIOp(found, I64))).result

    def _index_load(self, resolve: ResolveOp) -> memref.LoadOp:
        if not isinstance(load := resolve.index.owner, memref.LoadOp):
            raise ScheduleError("fold-bounds: expected the index to be loaded in the nest")
        return load
