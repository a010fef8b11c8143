"""Print a loop nest as a person would draw it: one line a loop, names from the IR, at level 2, 3 or 4."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType, ModuleOp, StringAttr, VectorType
from xdsl.ir import Block, Operation, SSAValue, Use

from ..dialects.attributes import LOOP_NAMES
from ..dialects.gather_dialect import AccumulateOp, LoopOp, MaskedLoadOp, ResolveOp, YieldOp
from ..dialects.upstream import FromElementsOp, PrefetchOp, is_nontemporal
from ..errors import InternalError

INDENT = "  "
# A vector of at most this number of elements is written out; of a longer one, the first and the last element.
MOST_ELEMENTS = 4
_INFIX = {
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.divui": "//",
    "arith.addf": "+",
    "arith.mulf": "*",
    "arith.andi": "&",
    "arith.ori": "|",
    "arith.shrsi": ">>",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">=", "ult": "<u", "uge": ">=u"}


@dataclass(frozen=True, slots=True)
class NestLine:
    """One line of a nest's pseudocode.

    Attributes:
        depth: the number of loops and conditions around it.
        text: without indentation; with a colon at its end where a body follows.
        op: the operation that the line shows; an `scf.if` has a second line where it has an else.
        trips: of a loop, its names and ranges: `indices_o(i_o) in 0..n_indices step 256`; else empty.
    """

    depth: int
    text: str
    op: Operation
    trips: str = ""


def print_loop_nest(module: ModuleOp) -> str:
    """Return the loop nests of a module's functions as text.

    Constants and sizes stand where they are used, and so does arithmetic that is used once. `<u` compares as unsigned.

    ```
    parallel for indices_o(i_o) in 0..n_indices step 256:
      for indices_i(i_i) in i_o..min(i_o + 256, n_indices):
        index = indices[0, i_i]
        position, valid = resolve(index, n_axis, zero)
        for inner(j) in 0..n_inner:
          out[0, 0, i_i, j] = data[0, 0, position, j] where valid
    ```
    """
    if not has_loops(module):
        return "no loops yet; they come with lower-to-nest\n"
    lines = [line for op in module.ops if isinstance(op, func.FuncOp) for line in nest_lines(op)]
    return "\n".join(INDENT * line.depth + line.text for line in lines) + "\n"


def has_loops(module: ModuleOp) -> bool:
    """Return whether a module has reached the level of nests or of loops."""
    return any(isinstance(op, LoopOp | scf.ForOp | scf.ParallelOp) for op in module.walk())


def nest_lines(function: func.FuncOp) -> list[NestLine]:
    """Return the lines of a function's pseudocode, at level 2, 3 or 4; none where it has no body.

    Raises:
        InternalError: it has an operation of another level.
    """
    printer = _Printer()
    if function.body.blocks:
        printer.block(function.body.block)
    return printer.lines


class _Printer:
    """Writes lines; a name that is taken in an enclosing block gets a number."""

    def __init__(self) -> None:
        self.lines: list[NestLine] = []
        self.depth = 0
        self.names: dict[SSAValue, str] = {}
        self.taken: set[str] = set()

    def name(self, value: SSAValue) -> str:
        """Return the name of a value."""
        if value not in self.names:
            hint, number = value.name_hint or "value", 0
            name = hint
            while name in self.taken:
                number += 1
                name = f"{hint}_{number}"
            self.taken.add(name)
            self.names[value] = name
        return self.names[value]

    def add(self, op: Operation, text: str, trips: str = "") -> None:
        self.lines.append(NestLine(self.depth, text, op, trips))

    def nested(self, op: Operation, head: str | None, block: Block) -> None:
        """Write a block under `head`, or under the head of the loop `op`; its own names are free again after it."""
        outside = self.taken.copy()
        before, trips = (head, "") if head is not None else self.loop_head(op)
        self.add(op, f"{before}{trips}:", trips)
        self.depth += 1
        self.block(block)
        self.depth -= 1
        self.taken = outside

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        if isinstance(op, LoopOp | scf.ForOp | scf.ParallelOp):
            self.nested(op, None, op.body.block)
        elif isinstance(op, scf.IfOp):
            self.nested(op, f"if {self.bare(op.cond)}", op.true_region.block)
            if op.false_region.blocks:
                self.nested(op, "else", op.false_region.block)
        elif isinstance(op, memref.StoreOp):
            word = "stream " if is_nontemporal(op) else ""
            self.add(op, f"{word}{self.place(op.memref, op.indices)} = {self.bare(op.value)}")
        elif isinstance(op, vector.StoreOp):
            word = "stream " if is_nontemporal(op) else ""
            self.add(op, f"{word}{self.lanes(op.base, op.indices, op.vector)} = {self.bare(op.vector)}")
        elif isinstance(op, PrefetchOp):
            self.add(op, f"prefetch {self.place(op.memref, op.indices)}")
        elif isinstance(op, memref.AllocaOp | memref.AllocOp):
            type_ = op.memref.type
            assert isinstance(type_, MemRefType)
            given = [self.bare(size) for size in op.dynamic_sizes]
            sizes = ", ".join(given or map(str, type_.get_shape()))
            self.add(op, f"{self.name(op.memref)} = buffer[{sizes}] of {type_.element_type}")
        elif isinstance(op, memref.DeallocOp):
            self.add(op, f"give back {self.name(op.memref)}")
        elif isinstance(op, AccumulateOp):
            where = "" if op.mask is None else f" where {self.bare(op.mask)}"
            how = "+=" if op.first is None else f"= larger, or if {self.bare(op.first)} any:"
            self.add(op, f"{self.place(op.memref, op.subscripts)} {how} {self.bare(op.element)}{where}")
        elif isinstance(op, YieldOp | scf.YieldOp | scf.ReduceOp | func.ReturnOp) and op.operands:
            word = "return" if isinstance(op, func.ReturnOp) else "yield"
            self.add(op, f"{word} {', '.join(map(self.bare, op.operands))}")
        elif isinstance(op, ResolveOp):
            arguments = f"{self.bare(op.index)}, {self.bare(op.size)}, {op.bounds.data}"
            self.add(op, f"{self.name(op.position)}, {self.name(op.valid)} = resolve({arguments})")
        elif op.results and _has_line(op.results[0]):
            text = self.written_out(op)
            self.add(op, f"{self.name(op.results[0])} = {text}")
        elif op.name.partition(".")[0] not in _DIALECTS:
            self.foreign_op(op)

    def foreign_op(self, op: Operation) -> None:
        """Write an operation of another package by its name and operands, and its blocks below it."""
        results = ", ".join(map(self.name, op.results))
        text = f"{f'{results} = ' if results else ''}{op.name}({', '.join(map(self.bare, op.operands))})"
        blocks = [block for region in op.regions for block in region.blocks]
        if not blocks:
            self.add(op, text)
        for block in blocks:
            self.nested(op, text, block)

    def loop_head(self, op: Operation) -> tuple[str, str]:
        """Return `parallel for `, with the sum in front where the loop has one, and `batch(b) in 0..n_batch`."""
        total = f"{self.name(op.results[0])} = sum of " if op.results else ""
        if isinstance(op, LoopOp):
            names, lower, upper, step = [op.label], [op.lower], [op.upper], [op.step]
        elif isinstance(op, scf.ForOp):
            names, lower, upper, step = _loop_names(op, 1), [op.lb], [op.ub], [op.step]
        else:
            assert isinstance(op, scf.ParallelOp)
            names, lower, upper, step = _loop_names(op, len(op.step)), op.lowerBound, op.upperBound, op.step
        ranges = [self.trips(*bounds) for bounds in zip(lower, upper, step, strict=True)]
        inductions = op.regions[0].block.args
        trips = [
            f"{name}({self.name(induction)}) in {trip}"
            for name, induction, trip in zip(names, inductions, ranges, strict=False)
        ]
        is_parallel = isinstance(op, scf.ParallelOp) or (isinstance(op, LoopOp) and op.parallel is not None)
        is_ordered = isinstance(op, LoopOp) and op.ordered is not None
        kind = "parallel " if is_parallel else "ordered " if is_ordered else ""
        return f"{total}{kind}for ", ", ".join(trips)

    def trips(self, lower: SSAValue, upper: SSAValue, step: SSAValue) -> str:
        text = f"{self.bare(lower)}..{self.bare(upper)}"
        return text if self.bare(step) == "1" else f"{text} step {self.bare(step)}"

    def place(self, memory: SSAValue, subscripts: Sequence[SSAValue]) -> str:
        return f"{self.name(_whole(memory))}[{', '.join(map(self.bare, subscripts))}]"

    def lanes(self, memory: SSAValue, subscripts: Sequence[SSAValue], value: SSAValue) -> str:
        """Return `out[0, 0, i, j:j + 8]`, the place of a vector."""
        assert isinstance(value.type, VectorType)
        first, count = self.bare(subscripts[-1]), value.type.get_shape()[0]
        places = [*map(self.bare, subscripts[:-1]), f"{first}:{first} + {count}"]
        return f"{self.name(_whole(memory))}[{', '.join(places)}]"

    def expression(self, value: SSAValue) -> str:
        """Return the name of a value, or the arithmetic that it stands for, in parentheses."""
        text = self.bare(value)
        return f"({text})" if _is_compound(value) and " " in text else text

    def bare(self, value: SSAValue) -> str:
        """Return the name of a value, or the arithmetic that it stands for."""
        op = value.owner
        if isinstance(op, _CASTS):
            return self.bare(op.operands[0])
        return self.written_out(op) if isinstance(op, Operation) and _is_written_out(value) else self.name(value)

    def written_out(self, op: Operation) -> str:
        """Return an operation as the right-hand side of an assignment."""
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr | FloatAttr):
            return f"{op.value.value.data:g}" if isinstance(op.value, FloatAttr) else str(op.value.value.data)
        if op.name in _INFIX:
            left, right = map(self.expression, op.operands)
            if op.name == "arith.addi" and "0" in (left, right):
                return self.bare(op.operands[1 if left == "0" else 0])
            return "0" if op.name == "arith.muli" and "0" in (left, right) else f"{left} {_INFIX[op.name]} {right}"
        if isinstance(op, arith.CmpiOp):
            predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
            word = _COMPARISONS.get(predicate, predicate)
            return f"{self.expression(op.lhs)} {word} {self.expression(op.rhs)}"
        if isinstance(op, arith.SelectOp):
            chosen = op.lhs
            while isinstance(chosen.owner, _CASTS):
                chosen = chosen.owner.operands[0]
            if isinstance(inner := chosen.owner, arith.SelectOp) and _is_written_out(chosen) and inner.cond is op.cond:
                chosen = inner.lhs  # a choice by the same condition was made already
            return f"{self.expression(chosen)} if {self.expression(op.cond)} else {self.expression(op.rhs)}"
        if isinstance(op, MaskedLoadOp):
            return f"{self.place(op.memref, op.subscripts)} where {self.expression(op.mask)}"
        if isinstance(op, memref.LoadOp):
            return self.place(op.memref, op.indices)
        if isinstance(op, vector.LoadOp):
            return self.lanes(op.base, op.indices, op.result)
        if isinstance(op, FromElementsOp):
            shown = list(map(self.bare, op.elements))
            shown = shown if len(shown) <= MOST_ELEMENTS else [shown[0], "...", shown[-1]]
            return f"({', '.join(shown)})"
        if isinstance(op, vector.BroadcastOp):
            return self.bare(op.source)
        if isinstance(op, memref.ExtractAlignedPointerAsIndexOp):
            return f"address of {self.name(_whole(op.source))}"
        if op.name.startswith("arith."):
            name = op.name.removeprefix("arith.").removesuffix("si")
            return f"{name}({', '.join(map(self.bare, op.operands))})"
        raise InternalError(f"a nest has no picture of {op.name}")


# Operations of other dialects come from other packages.
_DIALECTS = ("arith", "builtin", "func", "gather", "memref", "scf", "vector")
_CASTS = (arith.IndexCastOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp)
_LOADS = (memref.LoadOp, MaskedLoadOp, vector.LoadOp)
# These operations are printed where their result is used, as arithmetic is that is used once.
_VECTORS = (FromElementsOp, vector.BroadcastOp, memref.ExtractAlignedPointerAsIndexOp)


def _whole(memory: SSAValue) -> SSAValue:
    """Return the source of a view that only leaves out last dimensions of size 1."""
    return memory.owner.src if isinstance(memory.owner, memref.CollapseShapeOp) else memory


def _loop_names(op: Operation, count: int) -> list[str]:
    names = op.attributes.get(LOOP_NAMES)
    return names.data.split(",") if isinstance(names, StringAttr) else ["loop"] * count


_INLINE_USERS = (*(memref.StoreOp, arith.SelectOp, AccumulateOp), *(vector.StoreOp, arith.AndIOp, FromElementsOp))


def _has_line(value: SSAValue) -> bool:
    """Return whether a value has a line of its own: loads, and arithmetic that is used twice, or in a loop inside."""
    op = value.owner
    if isinstance(op, _LOADS):
        return not all(isinstance(use.operation, _INLINE_USERS) for use in value.uses)
    if isinstance(op, (Block, arith.ConstantOp, *_CASTS)) or not op.name.startswith("arith."):
        return False
    uses = [use for use in _uses_behind_casts(value) if not isinstance(use.operation, LoopOp | scf.ForOp)]
    return len(set(value.uses)) > 1 or any(use.operation.parent is not op.parent for use in uses)


def _uses_behind_casts(value: SSAValue) -> list[Use]:
    """Return the uses of a value, where a use that is a cast is replaced by the uses of its result."""
    found: list[Use] = []
    for use in value.uses:
        is_cast = isinstance(use.operation, _CASTS)
        found += _uses_behind_casts(use.operation.results[0]) if is_cast else [use]
    return found


def _is_written_out(value: SSAValue) -> bool:
    """Return whether a value's arithmetic stands where it is used."""
    op = value.owner
    if isinstance(op, Block) or _has_line(value):
        return False
    return op.name.startswith("arith.") or isinstance(op, (*_LOADS, *_VECTORS))


def _is_compound(value: SSAValue) -> bool:
    """Return whether a value is written out as more than one term."""
    op = value.owner
    if isinstance(op, _CASTS):
        return _is_compound(op.operands[0])
    if not _is_written_out(value) or isinstance(op, Block):
        return False
    return op.name in _INFIX or isinstance(op, arith.CmpiOp | arith.SelectOp | MaskedLoadOp)
