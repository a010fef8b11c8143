"""Print a loop nest as a person would draw it: one line a loop, names from the IR, at level 2, 3 or 4."""

from collections.abc import Sequence

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from .dialect import LoopOp, MaskedLoadOp, ResolveOp, YieldOp
from .errors import InternalError

INDENT = "  "
_INFIX = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*", "arith.andi": "&", "arith.shrsi": ">>"}
_COMPARISONS = {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">=", "ult": "<u", "uge": ">=u"}


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
    printer = _Printer()
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.body.blocks:
            printer.block(op.body.block)
    return "\n".join(printer.lines) + "\n"


class _Printer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def add(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def nested(self, head: str, block: Block) -> None:
        self.add(f"{head}:")
        self.depth += 1
        self.block(block)
        self.depth -= 1

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        if isinstance(op, LoopOp | scf.ForOp | scf.ParallelOp):
            self.nested(_loop_head(op), op.body.block)
        elif isinstance(op, scf.IfOp):
            self.nested(f"if {_bare(op.cond)}", op.true_region.block)
            if op.false_region.blocks:
                self.nested("else", op.false_region.block)
        elif isinstance(op, memref.StoreOp):
            self.add(f"{_place(op.memref, op.indices)} = {_bare(op.value)}")
        elif isinstance(op, YieldOp | scf.YieldOp | scf.ReduceOp | func.ReturnOp) and op.operands:
            word = "return" if isinstance(op, func.ReturnOp) else "yield"
            self.add(f"{word} {', '.join(map(_bare, op.operands))}")
        elif isinstance(op, ResolveOp):
            results = f"{_name(op.position)}, {_name(op.valid)}"
            self.add(f"{results} = resolve({_bare(op.index)}, {_bare(op.size)}, {op.bounds.data})")
        elif op.results and _has_line(op.results[0]):
            self.add(f"{_name(op.results[0])} = {_written_out(op)}")


def _loop_head(op: LoopOp | scf.ForOp | scf.ParallelOp) -> str:
    """Return `parallel for batch(b) in 0..n_batch`, with the sum in front where the loop has one."""
    if isinstance(op, LoopOp):
        names, lower, upper, step = [op.label], [op.lower], [op.upper], [op.step]
    elif isinstance(op, scf.ForOp):
        names, lower, upper, step = _loop_names(op, 1), [op.lb], [op.ub], [op.step]
    else:
        names, lower, upper, step = _loop_names(op, len(op.step)), op.lowerBound, op.upperBound, op.step
    trips = [
        f"{name}({_name(counter)}) in {_trips(*bounds)}"
        for name, counter, *bounds in zip(names, op.body.block.args, lower, upper, step, strict=False)
    ]
    parallel = isinstance(op, scf.ParallelOp) or (isinstance(op, LoopOp) and op.parallel is not None)
    total = f"{_name(op.results[0])} = sum of " if op.results else ""
    return f"{total}{'parallel ' if parallel else ''}for {', '.join(trips)}"


def _loop_names(op: Operation, count: int) -> list[str]:
    names = op.attributes.get("gather.loops")
    return names.data.split(",") if isinstance(names, StringAttr) else ["loop"] * count


def _trips(lower: SSAValue, upper: SSAValue, step: SSAValue) -> str:
    text = f"{_bare(lower)}..{_bare(upper)}"
    return text if _bare(step) == "1" else f"{text} step {_bare(step)}"


def _has_line(value: SSAValue) -> bool:
    """Return whether a value stands on a line of its own: loads, and arithmetic that is used more than once."""
    op = value.owner
    if isinstance(op, memref.LoadOp | MaskedLoadOp):
        return not all(isinstance(use.operation, memref.StoreOp | arith.SelectOp) for use in value.uses)
    if isinstance(op, Block | arith.ConstantOp | arith.IndexCastOp | arith.ExtSIOp | arith.ExtUIOp):
        return False
    return op.name.startswith("arith.") and len(set(value.uses)) > 1


def _expression(value: SSAValue) -> str:
    """Return what a value is called, or the arithmetic that it stands for, in parentheses."""
    text = _bare(value)
    return f"({text})" if " " in text and not text.endswith("]") and "(" not in text.split(" ")[0] else text


def _bare(value: SSAValue) -> str:
    """Return what a value is called, or the arithmetic that it stands for."""
    op = value.owner
    if isinstance(op, arith.IndexCastOp | arith.ExtSIOp | arith.ExtUIOp):
        return _bare(op.input)
    if isinstance(op, Block) or _has_line(value):
        return _name(value)
    if op.name.startswith("arith.") or isinstance(op, memref.LoadOp | MaskedLoadOp):
        return _written_out(op)
    return _name(value)


def _written_out(op: Operation) -> str:
    """Return the right-hand side that an operation is."""
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return str(op.value.value.data)
    if op.name in _INFIX:
        return f" {_INFIX[op.name]} ".join(map(_expression, op.operands))
    if isinstance(op, arith.CmpiOp):
        predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        return f"{_expression(op.lhs)} {_COMPARISONS.get(predicate, predicate)} {_expression(op.rhs)}"
    if isinstance(op, arith.SelectOp):
        return f"{_expression(op.lhs)} if {_expression(op.cond)} else {_expression(op.rhs)}"
    if isinstance(op, MaskedLoadOp):
        return f"{_place(op.memref, op.subscripts)} where {_expression(op.mask)}"
    if isinstance(op, memref.LoadOp):
        return _place(op.memref, op.indices)
    if op.name.startswith("arith."):
        name = op.name.removeprefix("arith.").removesuffix("si")
        return f"{name}({', '.join(map(_bare, op.operands))})"
    raise InternalError(f"a nest has no picture of {op.name}")


def _place(memory: SSAValue, subscripts: Sequence[SSAValue]) -> str:
    return f"{_name(memory)}[{', '.join(map(_bare, subscripts))}]"


def _name(value: SSAValue) -> str:
    return value.name_hint or "value"
