"""The pass `hoist-invariants`: within the scheduled nest, level 3."""

import itertools
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, is_side_effect_free
from xdsl.transforms.common_subexpression_elimination import KnownOps

from ....ir.dialects.attributes import MIN_AXIS_SIZES
from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, MaskedLoadOp
from ....ir.dialects.upstream import PrefetchOp
from ...nest.queries import enclosing_loops, functions, is_inside, most_iterations, static_size, viewed, written


@dataclass(frozen=True)
class HoistInvariants(ModulePass):
    """Move operations out of the loops that they do not depend on.

    So an index is loaded and resolved once a row, not once an element. A load moves when nothing in the loop
    stores to its memref, and stays inside the loops that its subscripts come from; a division by the size of an axis
    moves when the code is for axes that are not empty. The result of the same operation before the loop, such as that
    of the vector loop before its remainder loop, is reused.

    before                              after
        for indices in 0..n                 for indices in 0..n
          for inner in 0..m                   p = resolve(indices[i])
            p = resolve(indices[i])           for inner in 0..m
            out[i, j] = data[p, j]              out[i, j] = data[p, j]

    Preconditions: none.

    Input:
        gather.loop inner(%j) = ... { %index = memref.load %indices[%b, %i] : memref<1x?xi64> ... }
    Output:
        %index = memref.load %indices[%b, %i] : memref<1x?xi64>
        gather.loop inner(%j) = ... { ... }

    What it does not do: stage the indices of all rows before an outer loop; `hoist-indices` does.
    """

    name = "hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            facts = _Facts.of(function)
            for loop in [op for op in function.walk(region_first=True) if isinstance(op, LoopOp)]:
                _hoist(loop, facts)


_PLAIN = (
    *(memref.LoadOp, memref.StoreOp, memref.DimOp, memref.GetGlobalOp, MaskedLoadOp, AccumulateOp),
    *(vector.LoadOp, vector.StoreOp, PrefetchOp, memref.AllocaOp, memref.AllocOp, memref.DeallocOp),
    *(memref.CollapseShapeOp, memref.ExtractAlignedPointerAsIndexOp),
)


@dataclass(frozen=True)
class _Facts:
    """Facts that decide whether an operation may run although its loop does not.

    Attributes:
        only_loads_and_stores: whether nothing else touches memory, and no two memrefs share memory except as views.
        has_axes: whether no axis is empty, so that a division by its size is defined.
    """

    only_loads_and_stores: bool
    has_axes: bool

    @classmethod
    def of(cls, function: func.FuncOp) -> "_Facts":
        others = [op for op in function.walk() if not isinstance(op, _PLAIN)]
        return cls(
            not any(isinstance(value.type, MemRefType) for op in others for value in [*op.operands, *op.results]),
            MIN_AXIS_SIZES in function.attributes,
        )


def _hoist(loop: LoopOp, facts: _Facts) -> None:
    before: _Before | None = None
    for op in list(loop.body.block.ops):
        if not any(is_inside(operand, loop) for operand in op.operands) and _may_move(op, loop, facts):
            op.detach()
            before = before or _Before(loop)
            if (same := before.known.get(op)) is None:
                Rewriter.insert_op(op, InsertPoint.before(loop))
                before.add(op)
                continue
            for result, earlier in zip(op.results, same.results, strict=True):
                result.replace_all_uses_with(earlier)
            op.erase()


class _Before:
    """The operations before a loop, in its block, whose results a repetition right before the loop would give, too.

    Attributes:
        known: finds the last operation that is equal to a given one. A load is in it until its memory is written.
    """

    def __init__(self, loop: LoopOp):
        self.known, self._loads = KnownOps(), dict[SSAValue, list[Operation]]()
        assert loop.parent is not None
        for op in itertools.takewhile(lambda op: op is not loop, loop.parent.ops):
            self.add(op)

    def add(self, op: Operation) -> None:
        """Add an operation after all others."""
        for memory in written(op):
            for load in self._loads.pop(memory, ()):
                if load in self.known:
                    self.known.pop(load)
        if op.regions:
            return
        self.known[op] = op
        if isinstance(op, memref.LoadOp):
            self._loads.setdefault(viewed(op.memref), []).append(op)


def _may_move(op: Operation, loop: LoopOp, facts: _Facts) -> bool:
    if op.regions or op.has_trait(IsTerminator):
        return False
    if isinstance(op, memref.LoadOp):
        return facts.only_loads_and_stores and viewed(op.memref) not in written(loop) and _is_in_range(op)
    if isinstance(op, arith.RemSIOp | arith.RemUIOp | arith.DivUIOp):
        return facts.has_axes or bool(static_size(op.rhs))
    return is_side_effect_free(op) or isinstance(op, arith.ExtSIOp)  # xDSL 0.74 does not know that extsi is pure


def _is_in_range(load: memref.LoadOp) -> bool:
    """Return whether each subscript of a load is in range.

    It is in range if it is an induction variable of an enclosing loop, its distance from the start of a tile no larger
    than the memref, or a constant within a static size.
    """
    inductions = {loop.induction for loop in enclosing_loops(load)}
    shape = SSAValue.get(load.memref, type=MemRefType).type.get_shape()
    return all(
        subscript in inductions
        or _is_in_tile(load, subscript, size)
        or ((place := static_size(subscript)) is not None and 0 <= place < size)
        for subscript, size in zip(load.indices, shape, strict=True)
    )


def _is_in_tile(load: memref.LoadOp, subscript: SSAValue, size: int) -> bool:
    """Return whether a subscript counts from the start of an enclosing loop of at most `size` iterations."""
    distance = subscript.owner
    for loop in enclosing_loops(load):
        if isinstance(distance, arith.SubiOp) and distance.lhs is loop.induction and distance.rhs is loop.lower:
            most = most_iterations(loop)
            return most is not None and most <= size
    return False
