"""A nest as boxes in boxes: each loop with its range, and what the schedule did there. For levels 2, 3 and 4."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import FileLineColLoc, StringAttr, VectorType
from xdsl.ir import Operation, SSAValue

from ...ir.dialects.attributes import LOOP_NAMES
from ...ir.dialects.gather_dialect import AccumulateOp, LoopOp
from ...ir.dialects.upstream import PrefetchOp, is_nontemporal
from ...ir.loop_name import LoopName
from ...ir.modules.pseudocode import NestLine, nest_lines
from ..nest.queries import viewed

LOOPS = (LoopOp, scf.ForOp, scf.ParallelOp)
# What each badge says; a vector's has the lanes behind it.
BADGES = {
    "parallel": "threads share its iterations",
    "ordered": "its iterations run one after the other, as sums of floats need",
    "sum": "it sums what its iterations yield",
    "tiles": "an iteration is a tile",
    "tile": "it runs within a tile",
    "check": "it counts the indices out of range, before anything is written",
    "checked": "it runs only when every index is in range",
    "clear": "it clears the table that sums are added to",
    "scale": "it multiplies the sums by the scale",
    "copy": "it copies the buffer of the result to out",
    "staged": "positions, lists or results go through a buffer",
    "vector": "elements are copied or added at once",
    "prefetch": "it loads lines of later iterations into a cache",
    "streamed": "non-temporal stores bypass the caches",
    "remainder": "the iterations that fill no vector or unrolled step",
    "prologue": "the iterations before the first aligned element",
}


@dataclass(frozen=True, slots=True)
class Badge:
    """What a schedule did to a loop: a key of `BADGES`, and what is shown: `vector ×8`."""

    kind: str
    text: str

    @property
    def meaning(self) -> str:
        """What it says, in words."""
        return BADGES[self.kind]


@dataclass(frozen=True, slots=True)
class Statement:
    """A line that is no loop; `line` is its number in the text of the module, from 1, or None where it has none."""

    text: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Box:
    """A function, a loop, or a condition or another operation with what is in it.

    Attributes:
        kind: what it is.
        head: the function's name, `indices_o(i_o) in 0..n_indices step 256`, or `if n_outside == 0`.
        names: of a loop, its name; several of an `scf.parallel` of several dimensions.
        badges: what the schedule did.
        children: boxes and statements, in order.
        line: the number of its line in the text of the module, from 1; None where it has none.
    """

    kind: Literal["function", "loop", "condition"]
    head: str
    names: tuple[str, ...]
    badges: tuple[Badge, ...]
    children: tuple["Box | Statement", ...]
    line: int | None

    def walk(self) -> Iterator["Box"]:
        """Yield the box and all boxes in it."""
        yield self
        for child in self.children:
            if isinstance(child, Box):
                yield from child.walk()


def nest_box(function: func.FuncOp) -> Box:
    """Return the boxes of a function; raises InternalError as `nest_lines` does."""
    children = _children(nest_lines(function), 0)
    badges = tuple(_of_operations(list(_directly_in(function))))
    return Box("function", f"@{function.sym_name.data}", (), badges, children, _line(function))


def _children(lines: Sequence[NestLine], depth: int) -> tuple[Box | Statement, ...]:
    """Return the boxes and the statements that lines of this depth are; deeper ones belong to the line before them."""
    found: list[Box | Statement] = []
    starts = [place for place, line in enumerate(lines) if line.depth == depth]
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        line, inner = lines[start], lines[start + 1 : end]
        is_loop = isinstance(line.op, LOOPS)
        if is_loop or inner or isinstance(line.op, scf.IfOp):
            found.append(_box(line, is_loop, _children(inner, depth + 1)))
        else:
            found.append(Statement(line.text, _line(line.op)))
    return tuple(found)


def _box(line: NestLine, is_loop: bool, children: tuple[Box | Statement, ...]) -> Box:
    op, text = line.op, line.text.removesuffix(":")
    if not is_loop:
        is_guard = isinstance(op, scf.IfOp) and text != "else" and _is_guard(op)
        badges = (Badge("checked", "checked"),) if is_guard else ()
        return Box("condition", text, (), badges, children, _line(op))
    return Box("loop", line.trips, loop_names(op), tuple(_badges(op)), children, _line(op))


def loop_names(op: Operation) -> tuple[str, ...]:
    """Return the names of a loop: one, or those of an `scf.parallel` of several dimensions; none where it has none."""
    if isinstance(op, LoopOp):
        return (str(op.label),)
    names = op.attributes.get(LOOP_NAMES)
    return tuple(names.data.split(",")) if isinstance(names, StringAttr) else ()


def _badges(loop: Operation) -> Iterator[Badge]:
    """Yield the badges of a loop: what its form and its names say, then what the operations in it do."""
    names = [LoopName(name) for name in loop_names(loop)]
    is_parallel = isinstance(loop, scf.ParallelOp) or (isinstance(loop, LoopOp) and loop.parallel is not None)
    said = {
        "parallel": is_parallel,
        "ordered": isinstance(loop, LoopOp) and loop.ordered is not None,
        "sum": bool(loop.results),
        "tiles": any(name.is_outer_tile for name in names),
        "tile": any(_whole(name).is_inner_tile for name in names),
        "remainder": any(name.is_remainder for name in names),
        "prologue": any(name.endswith("_head") for name in names),
    }
    said |= {nest: any(name.nest == nest for name in names) for nest in ("check", "clear", "scale", "copy")}
    for kind in BADGES:
        if said.get(kind):
            yield Badge(kind, kind)
    yield from _of_operations(list(_directly_in(loop)))


def _whole(name: LoopName) -> LoopName:
    """Return the loop that a remainder, a prologue or a loop with ordinary stores is a part of."""
    for suffix in ("_rest", "_head", "_cached"):
        name = LoopName(name.removesuffix(suffix))
    return name


def _of_operations(ops: Sequence[Operation]) -> Iterator[Badge]:
    """Yield the badges of operations."""
    if any(_is_of_buffer(op) for op in ops):
        yield Badge("staged", "staged")
    lanes = {type_.get_shape()[0] for op in ops if isinstance(type_ := _moved(op), VectorType)}
    if lanes:
        yield Badge("vector", f"vector ×{max(lanes)}")
    if any(isinstance(op, PrefetchOp) for op in ops):
        yield Badge("prefetch", "prefetch")
    if any(isinstance(op, memref.StoreOp | vector.StoreOp) and is_nontemporal(op) for op in ops):
        yield Badge("streamed", "streamed")


def _directly_in(op: Operation) -> Iterator[Operation]:
    """Yield the operations in a loop or a function that are in no loop inside it."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield inner
                if not isinstance(inner, LOOPS):
                    yield from _directly_in(inner)


def _moved(op: Operation) -> object:
    """Return the type of what an operation writes to memory."""
    if isinstance(op, vector.StoreOp):
        return op.vector.type
    return op.element.type if isinstance(op, AccumulateOp) else None


def _is_of_buffer(op: Operation) -> bool:
    """Return whether an operation loads from or stores to a buffer of the function's own."""
    made_by = memref.AllocaOp | memref.AllocOp
    return isinstance(op, memref.LoadOp | memref.StoreOp) and isinstance(viewed(op.memref).owner, made_by)


def _is_guard(op: scf.IfOp) -> bool:
    """Return whether a condition is about what a loop summed: the number of indices out of range."""
    condition = op.cond.owner
    return isinstance(condition, arith.CmpiOp) and any(_is_sum(value) for value in condition.operands)


def _is_sum(value: SSAValue) -> bool:
    return isinstance(value.owner, LOOPS)


def _line(op: Operation) -> int | None:
    return op.location.line.data if isinstance(op.location, FileLineColLoc) else None
