"""Slices of a nest: what a value is computed from, and copies of that for another iteration."""

from collections.abc import Iterable, Mapping

from xdsl.builder import Builder
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ...ir.dialects.gather_dialect import LoopOp


def is_inside(value: SSAValue, loop: LoopOp) -> bool:
    """Return whether a value is the loop's counter, or defined somewhere in its body."""
    block: Block | None = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None:
        if block is loop.body.block:
            return True
        parent = block.parent_op()
        block = parent.parent if parent is not None else None
    return False


def slice_of(values: Iterable[SSAValue], loop: LoopOp) -> list[Operation]:
    """Return the operations in a loop that values are computed from, each after what it takes."""
    found: dict[Operation, None] = {}

    def visit(value: SSAValue) -> None:
        owner = value.owner
        if isinstance(owner, Operation) and is_inside(value, loop) and owner not in found:
            for operand in owner.operands:
                visit(operand)
            found[owner] = None

    for value in values:
        visit(value)
    return list(found)


def counters_of(values: Iterable[SSAValue], loop: LoopOp) -> set[SSAValue]:
    """Return the counters, of the loop and of those in it, that values are computed from."""
    values = list(values)
    operands = [*values, *(operand for op in slice_of(values, loop) for operand in op.operands)]
    return {value for value in operands if isinstance(value, BlockArgument) and is_inside(value, loop)}


def depends_on(value: SSAValue, loop: LoopOp) -> bool:
    """Return whether a value is computed from a loop's counter."""
    return loop.induction in counters_of([value], loop)


def clone_slice(
    ops: Iterable[Operation], builder: Builder, values: Mapping[SSAValue, SSAValue]
) -> dict[SSAValue, SSAValue]:
    """Insert copies of operations, and return `values` with what stands for their results.

    Args:
        values: what stands for the values that the copies take.
    """
    mapping = dict(values)
    for op in ops:
        copy = builder.insert(op.clone(mapping))
        for before, after in zip(op.results, copy.results, strict=True):
            after.name_hint = before.name_hint
            mapping[before] = after
    return mapping
