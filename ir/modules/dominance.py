"""The check that every value is defined before it is used. xDSL's verifier has none.

At our levels a region has one block, so a value is visible in its own block after its definition and in every region
nested there, up to an op that is isolated from above.
"""

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException


def check_dominance(root: Operation) -> None:
    """Check every operation below `root`; raises VerifyException, whose `op` uses an operand that is not defined."""
    _check_regions(root, set())


def _check_regions(op: Operation, visible: set[SSAValue]) -> None:
    for region in op.regions:
        inside = set[SSAValue]() if op.has_trait(IsolatedFromAbove) else visible.copy()
        if len(region.blocks) > 1:  # of a control-flow graph: which block dominates which is not looked into
            for block in region.blocks:
                inside.update(block.args, *(inner.results for inner in block.ops))
        for block in region.blocks:
            _check_block(block, inside)


def _check_block(block: Block, visible: set[SSAValue]) -> None:
    visible.update(block.args)
    for op in block.ops:
        for number, operand in enumerate(op.operands):
            if operand not in visible:
                error = VerifyException(
                    f"{op.name}: expected operand #{number} ({_describe(operand)}) to be defined before its use"
                )
                error.op = op  # type: ignore[attr-defined]
                raise error
        _check_regions(op, visible)
        visible.update(op.results)


def _describe(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else f"a value of type {value.type}"
