"""The check that every value is defined before it is used. xDSL's verifier has none.

At our levels a region has one block, so a value is visible in its own block after its definition and in every region
nested there, up to an op that is isolated from above.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException


def check_dominance(root: Operation) -> None:
    """Check every operation below `root`.

    Raises:
        VerifyException: an operand is used where it is not defined; the error's `op` is the operation.
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
            with self.scope():
                if op.has_trait(IsolatedFromAbove):
                    self.visible = set()
                if len(region.blocks) > 1:
                    self.admit_all(region)
                for block in region.blocks:
                    self.check_block(block)

    def admit_all(self, region: Region) -> None:
        """Let the blocks of a control-flow graph use each other's values: which dominates which is not looked into."""
        for block in region.blocks:
            self.visible.update(block.args, *(op.results for op in block.ops))

    def check_block(self, block: Block) -> None:
        self.visible.update(block.args)
        for op in block.ops:
            for number, operand in enumerate(op.operands):
                if operand not in self.visible:
                    error = VerifyException(
                        f"{op.name}: expected operand #{number} ({_describe(operand)}) to be defined before its use"
                    )
                    error.op = op  # type: ignore[attr-defined]
                    raise error
            self.check_regions(op)
            self.visible.update(op.results)


def _describe(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else f"a value of type {value.type}"
