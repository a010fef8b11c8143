"""The pass `promote-sums`: it keeps the sums of a bag in registers, within the loops level."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import ModuleOp, StringAttr, VectorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.canonicalization_patterns.utils import const_evaluate_operand

from ....ir.dialects.attributes import LOOP_NAMES
from ....ir.dialects.upstream import is_nontemporal
from ....ir.loop_name import LoopName
from ...nest.builder import builder_before, made_from, zero_of
from ...nest.queries import computes, functions, memory_of
from ..schedule.stream_stores import stream_row

MOST_SUMS = 64
Load = memref.LoadOp | vector.LoadOp
Store = memref.StoreOp | vector.StoreOp


@dataclass(frozen=True)
class PromoteSums(ModulePass):
    """Sum a bag in registers, and store each sum, or mean, once.

    A loop over a bag adds to elements of out that are the same in every iteration. Loops of known size inside it are
    unrolled, so that each element, or vector of them, has a value of its own, which the loop carries. When no other sum
    is left in memory, the sums begin with zero, and the nest that clears out goes: the nest that adds writes all of it.

    before                              after promote-sums
        for bag in 0..n                     s0, s1 = 0, 0
          for inner in 0..32 step 16        for bag in 0..n
            out[i, j:j+16] +=                 s0 += data[p, 0:16]
              data[p, j:j+16]                 s1 += data[p, 16:32]
                                            out[i, 0:16], out[i, 16:32] = s0, s1

    The division of a mean, a loop after the loop over the bag, is one more operation on each sum before it is stored.

    The groups of `group-indices` are bags, too. Where the nest that clears has non-temporal stores, the sums have them,
    too.

    Preconditions: `lower-to-nest` or `group-indices` made the loops over the bags. A bag whose row has no known size,
    or more than 64 sums, stays as it is: its sums are in memory, and so in the first cache.

    Input:
        scf.for %k = %c0 to %n_bag step %c1 {
          %total = vector.load %out[%i, %c0] : memref<?x16xf32>, vector<16xf32>
          %added = arith.addf %total, %element : vector<16xf32>
          vector.store %added, %out[%i, %c0] : memref<?x16xf32>, vector<16xf32>
        } {gather.loops = "bag"}
    Output:
        %sum = scf.for %k = %c0 to %n_bag step %c1 iter_args(%carried = %zeros) -> (vector<16xf32>) {
          %added = arith.addf %carried, %element : vector<16xf32>
          scf.yield %added : vector<16xf32>
        } {gather.loops = "bag"}
        vector.store %sum, %out[%i, %c0] : memref<?x16xf32>, vector<16xf32>
    """

    name = "promote-sums"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            bags = [inner for inner in function.walk() if isinstance(inner, scf.ForOp) and _name(inner) == "bag"]
            begun = [loads for loop in bags if (loads := _promote(loop)) is not None]
            if begun and len(begun) == len(bags):
                _begin_with_zero(function, [load for loads in begun for load in loads])


def _is_inside(value: SSAValue, loop: scf.ForOp) -> bool:
    return loop.body.block.is_ancestor(value.owner)


def _name(loop: Operation) -> str:
    names = loop.attributes.get(LOOP_NAMES)
    return names.data if isinstance(names, StringAttr) else ""


@dataclass(frozen=True)
class _Sum:
    """One element or vector of out that an iteration changes; `add` computes its new value."""

    load: Load
    add: Operation
    store: Store

    @property
    def place(self) -> tuple[SSAValue | int, ...]:
        """The place of the element; equal for two sums of one element."""
        return _place(self.store)


def _promote(loop: scf.ForOp) -> list[Load] | None:
    """Carry the sums of a bag; return the loads that they begin with, or None where the loop stays."""
    if loop.iter_args or not _unroll_rows(loop):
        return None
    blocks = [loop.body.block]
    blocks += [op.true_region.block for op in loop.body.block.ops if isinstance(op, scf.IfOp)]
    found = [(block, sums) for block in blocks if (sums := _sums_of(block, loop))]
    stores = sum(isinstance(op, Store) for op in loop.walk())
    if len(found) != 1 or len(found[0][1]) != stores or stores > MOST_SUMS:
        return None
    block, sums = found[0]
    memory = {one.place[0] for one in sums}
    if sum(isinstance(op, Load) and _place(op)[0] in memory for op in loop.walk()) != len(sums):
        return None
    around = block.parent_op()
    is_plain = isinstance(around, scf.IfOp) and not around.results and not around.false_region.blocks
    if len({one.place for one in sums}) != len(sums) or not (around is loop or is_plain):
        return None
    return _carry(loop, block, sums)


def _unroll_rows(bag: scf.ForOp) -> bool:
    """Unroll the loops in a bag that have a known size; return whether no other loop is left."""
    for loop in [op for op in bag.walk() if isinstance(op, scf.ForOp) and op is not bag]:
        trips = _trips(loop, bag)
        if trips is None or len(trips) > MOST_SUMS or loop.iter_args or any(op.regions for op in loop.body.block.ops):
            return False
    for loop in [op for op in bag.walk() if isinstance(op, scf.ForOp) and op is not bag]:
        outside = builder_before(bag)
        for place in _trips(loop, bag) or ():
            number = outside.index(place)
            if const_evaluate_operand(loop.lb) is None:
                number = outside.compute(arith.AddiOp, loop.lb, number, loop.body.block.args[0].name_hint)
            mapping: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: number}
            for op in loop.body.block.ops:
                if not isinstance(op, scf.YieldOp):
                    Rewriter.insert_op(made_from(op, op.clone(mapping)), InsertPoint.before(loop))
        Rewriter.erase_op(loop)
    return True


def _trips(loop: scf.ForOp, bag: scf.ForOp) -> range | None:
    """Return the induction values of a loop of known size, relative to a lower bound that is not constant; else None.

    Such a loop runs within a tile of a row, which begins outside of the bag.
    """
    first, last, step = map(const_evaluate_operand, (loop.lb, loop.ub, loop.step))
    end = loop.ub.owner
    if first is None and isinstance(end, arith.AddiOp) and end.lhs is loop.lb and not _is_inside(loop.lb, bag):
        first, last = 0, const_evaluate_operand(end.rhs)
    return None if first is None or last is None or step is None else range(first, last, step)


def _place(op: Load | Store) -> tuple[SSAValue | int, ...]:
    constants = [const_evaluate_operand(place) for place in op.indices]
    return (
        memory_of(op),
        *(place if known is None else known for place, known in zip(op.indices, constants, strict=True)),
    )


def _sums_of(block: Block, loop: scf.ForOp) -> list[_Sum]:
    """Return the additions of a block to memory: load, arithmetic and store of a place that the loop leaves alone."""
    found: list[_Sum] = []
    for store in block.ops:
        if not isinstance(store, Store):
            continue
        value = store.vector if isinstance(store, vector.StoreOp) else store.value
        load = next((op for op in _loads_of(value, block) if _place(op) == _place(store)), None)
        moving = [place for place in store.indices if _is_inside(place, loop) and const_evaluate_operand(place) is None]
        if load is not None and not moving and isinstance(value.owner, Operation):
            found.append(_Sum(load, value.owner, store))
    return found


def _loads_of(value: SSAValue, block: Block) -> list[Load]:
    """Return the loads in a block that a value is computed from, by additions or by comparing and selecting."""
    found, pending = list[Load](), [value]
    while pending:
        owner = pending.pop().owner
        if owner in found or not isinstance(owner, Operation) or owner.parent is not block:
            continue
        if isinstance(owner, Load):
            found.append(owner)
        elif isinstance(owner, _COMBINING):
            pending += owner.operands
    return found


_COMBINING = (arith.AddiOp, arith.AddfOp, arith.MaxSIOp, arith.CmpfOp, arith.SelectOp)


def _carry(loop: scf.ForOp, block: Block, sums: list[_Sum]) -> list[Load]:
    """Make the loop carry the sums from a load before it to a store behind it."""
    before = InsertPoint.before(loop)
    begun: list[Load] = []
    outside = dict[SSAValue, SSAValue]()
    for place in dict.fromkeys(place for one in sums for place in (*one.load.indices, *one.store.indices)):
        known = const_evaluate_operand(place) if _is_inside(place, loop) else None
        outside[place] = place if known is None else builder_before(loop).index(known)
    for one in sums:
        mapping = dict(outside)
        load = made_from(one.load, one.load.clone(mapping))
        Rewriter.insert_op(load, before)
        begun.append(load)
    body = loop.detach_region(loop.body)
    carried = [body.block.insert_arg(load.results[0].type, len(body.block.args)) for load in begun]
    for one, value in zip(sums, carried, strict=True):
        value.name_hint = "carried"
        one.load.results[0].replace_all_uses_with(value)
    totals: Sequence[SSAValue] = [one.add.results[0] for one in sums]
    lowered = made_from(loop, scf.ForOp(loop.lb, loop.ub, loop.step, [load.results[0] for load in begun], body))
    lowered.attributes |= loop.attributes
    Rewriter.insert_op(lowered, before)
    for one, result in zip(sums, lowered.results, strict=True):
        result.name_hint = "sum"
        mapping = {**outside, one.add.results[0]: result}
        Rewriter.insert_op(made_from(one.store, one.store.clone(mapping)), InsertPoint.before(loop))
        Rewriter.erase_op(one.store)
        Rewriter.erase_op(one.load)
    if block is not body.block:
        totals = _yield_from(block, totals, carried)
    last = body.block.last_op
    assert last is not None
    Rewriter.insert_op(made_from(last, scf.YieldOp(*totals)), InsertPoint.before(last))
    Rewriter.erase_op(last)
    Rewriter.erase_op(loop)
    _divide(lowered)
    return begun


def _divide(bag: scf.ForOp) -> None:
    """Divide the sums of a bag before they are stored, where a loop behind the stores divides all of them."""
    stores = _stores_of(bag)
    scaling = bag.next_op
    while scaling is not None and not scaling.regions and (scaling in stores or computes(scaling)):
        scaling = scaling.next_op
    if not isinstance(scaling, scf.ForOp) or LoopName(_name(scaling)).nest != "scale":
        return
    division = next((op for op in scaling.body.block.ops if isinstance(op, arith.DivfOp)), None)
    if division is None or not _divides_all(scaling, division, stores):
        return
    divided = division.rhs.owner
    if isinstance(divided, Operation) and divided.parent is bag.parent and not divided.is_before_in_block(bag):
        return
    for store in stores:
        builder, value = builder_before(store), store.vector if isinstance(store, vector.StoreOp) else store.value
        divisor = division.rhs
        if isinstance(value.type, VectorType):
            divisor = builder.named(vector.BroadcastOp(divisor, value.type), "divisors")
        mean = builder.named(made_from(division, arith.DivfOp(value, divisor)), "mean")
        store.operands[0] = mean
    Rewriter.erase_op(scaling)


def _stores_of(bag: scf.ForOp) -> list[Store]:
    """Return the stores of the sums, or means, of a bag."""
    values = [*bag.results]
    users = [use.operation for value in values for use in value.uses]
    values += [op.result for op in users if isinstance(op, arith.DivfOp)]
    return [use.operation for value in values for use in value.uses if isinstance(use.operation, Store)]


def _divides_all(scaling: scf.ForOp, division: arith.DivfOp, stores: list[Store]) -> bool:
    """Return whether a loop divides each element that is stored, once, and nothing else."""
    load, store = division.lhs.owner, next((op for op in scaling.body.block.ops if isinstance(op, Store)), None)
    if not isinstance(load, memref.LoadOp) or not isinstance(store, memref.StoreOp):
        return False
    others = [op for op in scaling.body.block.ops if op not in (load, division, store)]
    is_plain = store.value is division.result and all(isinstance(op, scf.YieldOp) for op in others)
    if not is_plain or _place(load) != _place(store):
        return False
    trips, (memory, *around, along) = _trips(scaling, scaling), _place(load)
    if trips is None or trips.step != 1 or along is not scaling.body.block.args[0]:
        return False
    covered: list[int] = []
    for one in stores:
        *before, first = _place(one)
        if before != [memory, *around] or not isinstance(first, int):
            return False
        kind = one.vector.type if isinstance(one, vector.StoreOp) else None
        covered += range(first, first + (kind.get_shape()[0] if isinstance(kind, VectorType) else 1))
    return sorted(covered) == list(trips)


def _yield_from(block: Block, totals: Sequence[SSAValue], carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """Make the branch around a block give the new sums, or else the old ones; return its results."""
    branch, last = block.parent_op(), block.last_op
    assert isinstance(branch, scf.IfOp) and last is not None
    Rewriter.insert_op(made_from(last, scf.YieldOp(*totals)), InsertPoint.before(last))
    Rewriter.erase_op(last)
    taken = branch.detach_region(branch.true_region)
    other = Region(Block([made_from(branch, scf.YieldOp(*carried))]))
    lowered = made_from(branch, scf.IfOp(branch.cond, [value.type for value in totals], taken, other))
    Rewriter.insert_op(lowered, InsertPoint.before(branch))
    Rewriter.erase_op(branch)
    for result in lowered.results:
        result.name_hint = "sum"
    return list(lowered.results)


def _begin_with_zero(function: func.FuncOp, begun: list[Load]) -> None:
    """Begin the sums with zero in place of a load from cleared memory, and erase the nest that clears."""
    clearing = [op for op in function.walk() if LoopName(_name(op)).nest == "clear"]
    outermost = [op for op in clearing if not any(other.is_ancestor(op) for other in clearing if other is not op)]
    if len(outermost) != 1:
        return
    for load in begun:
        result, builder = load.results[0], builder_before(load)
        kind = result.type
        element = kind.element_type if isinstance(kind, VectorType) else kind
        value = builder.named(zero_of(PromoteSums.name, element), "nothing")
        if isinstance(kind, VectorType):
            value = builder.named(vector.BroadcastOp(value, kind), "zeros")
        result.replace_all_uses_with(value)
        Rewriter.erase_op(load)
    if any(isinstance(op, Store) and is_nontemporal(op) for op in outermost[0].walk()):
        for bag in [op for op in function.walk() if isinstance(op, scf.ForOp) and _name(op) == "bag"]:
            vectors = [op for op in _stores_of(bag) if isinstance(op, vector.StoreOp)]
            if vectors and len(vectors) == len(bag.results):
                stream_row(vectors)
    Rewriter.erase_op(outermost[0])
