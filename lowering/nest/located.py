"""New operations with the location of what they are made from: xDSL's own builders and rewrites leave it unknown."""

from collections.abc import Sequence
from typing import TypeVar

from xdsl.builder import Builder
from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...ir.dialects.gather_dialect import LoopOp

Made = TypeVar("Made", bound=Operation)


def made_from(source: Operation, made: Made) -> Made:
    """Give an operation, and those in its regions, the location of another where it has none; return it."""
    for op in made.walk():
        if isinstance(op.location, UnknownLoc):
            op.location = source.location
    return made


def builder_before(op: Operation, source: Operation | None = None) -> Builder:
    """Return a builder that inserts before an operation; what it inserts is made from that one, or from `source`."""
    return builder_at(InsertPoint.before(op), source or op)


def builder_at_start(loop: LoopOp, source: Operation | None = None) -> Builder:
    """Return a builder that inserts at the start of a loop's body; what it inserts is made from it or `source`."""
    return builder_at(InsertPoint.at_start(loop.body.block), source or loop)


def builder_at_end(loop: LoopOp, source: Operation | None = None) -> Builder:
    """Return a builder that inserts at the end of a loop's body; what it inserts is made from it or `source`."""
    return builder_at(InsertPoint.at_end(loop.body.block), source or loop)


def builder_at(point: InsertPoint, source: Operation) -> Builder:
    """Return a builder that inserts at a point what is made from `source`."""

    def inserted(op: Operation) -> None:
        made_from(source, op)

    return Builder(point, operation_insertion_handler=[inserted])


def replace_op(
    op: Operation, new: Operation | Sequence[Operation], results: Sequence[SSAValue | None] | None = None
) -> None:
    """Do as xDSL's `Rewriter.replace_op`; what is new is made from what it replaces."""
    for one in (new,) if isinstance(new, Operation) else new:
        made_from(op, one)
    Rewriter.replace_op(op, new, results)
