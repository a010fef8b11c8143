"""Backward slices of a nest: the operations that compute a value, and copies of them for another iteration."""

from collections.abc import Iterable, Mapping

from xdsl.builder import Builder
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...ir.dialects.gather_dialect import LoopOp


def is_inside(value: SSAValue, loop: LoopOp) -> bool:
    """Return whether a value is the loop's induction variable, or defined somewhere in its body."""
    return loop.body.block.is_ancestor(value.owner)


def slice_of(values: Iterable[SSAValue], loop: LoopOp) -> list[Operation]:
    """Return the operations in a loop that compute the values, in an order that respects their operands."""
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


def inductions_of(values: Iterable[SSAValue], loop: LoopOp) -> set[SSAValue]:
    """Return the induction variables, of the loop and of those in it, that values are computed from."""
    values = list(values)
    operands = [*values, *(operand for op in slice_of(values, loop) for operand in op.operands)]
    return {value for value in operands if isinstance(value, BlockArgument) and is_inside(value, loop)}


def depends_on(value: SSAValue, loop: LoopOp) -> bool:
    """Return whether a value is computed from a loop's induction variable."""
    return loop.induction in inductions_of([value], loop)


def clone_slice(
    ops: Iterable[Operation], builder: Builder, values: Mapping[SSAValue, SSAValue]
) -> dict[SSAValue, SSAValue]:
    """Insert copies of operations with some operands replaced, and return `values` extended by their results.

    Operations whose results have values already are left out.
    """
    mapping = dict(values)
    for op in ops:
        if op.results and all(result in mapping for result in op.results):
            continue
        copy = builder.insert(op.clone(mapping))
        for before, after in zip(op.results, copy.results, strict=True):
            after.name_hint = before.name_hint
            mapping[before] = after
    return mapping
