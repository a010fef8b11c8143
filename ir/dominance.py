"""The check that every value is defined before it is used. xDSL's verifier has none.

Our functions have one block a region, so a value is visible in its own block after its definition and in every region
nested there, up to an op that is isolated from above.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException


def check_dominance(root: Operation) -> None:
    """Check every operation below `root`.

    Raises:
        VerifyException: an operand is used where it is not defined, or a region has more than one block.
    """
    _Scopes().check_regions(root)


class _Scopes:
    def __init__(self) -> None:
        self.visible: set[SSAValue] = set()

    @contextmanager
    def scope(self) -> Iterator[None]:
        outside = self.visible.copy()
        yield
        self.visible = outside

    def check_regions(self, op: Operation) -> None:
        for region in op.regions:
            if len(region.blocks) > 1:
                raise VerifyException(f"{op.name}: expected one block a region, got {len(region.blocks)}")
            for block in region.blocks:
                with self.scope():
                    if op.has_trait(IsolatedFromAbove):
                        self.visible = set()
                    self.check_block(block)

    def check_block(self, block: Block) -> None:
        self.visible.update(block.args)
        for op in block.ops:
            for number, operand in enumerate(op.operands):
                if operand not in self.visible:
                    raise VerifyException(
                        f"{op.name}: expected operand #{number} ({_describe(operand)}) to be defined before its use"
                    )
            self.check_regions(op)
            self.visible.update(op.results)


def _describe(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else f"a value of type {value.type}"
