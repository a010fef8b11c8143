"""Print a loop nest as a person would draw it: one line a loop, names from the IR, at level 2, 3 or 4."""

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from .dialect import LoopOp, MaskedLoadOp, ResolveOp, YieldOp

INDENT = "  "
_INFIX = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*", "arith.andi": "&", "arith.shrsi": ">>"}
_TEXT = {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">=", "ult": "<u", "uge": ">=u"}


def print_loop_nest(module: ModuleOp) -> str:
    """Return the loop nests of a module's functions as text; constants and sizes stand where they are used.

    ```
    parallel for indices_o in 0..n_indices step 256:
      for indices_i in i_o..min(i_o + 256, n_indices):
        index = indices[i_i]
        position, valid = resolve(index, n_axis, error)
        for inner in 0..n_inner:
          out[i_i, j] = data[position, j] where valid
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

    def nested(self, block: Block) -> None:
        self.depth += 1
        self.block(block)
        self.depth -= 1

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        if isinstance(op, LoopOp):
            word = "parallel for" if op.parallel is not None else "for"
            self.add(f"{word} {op.label} in {_trips(op.lower, op.upper, op.step)}:{' sums' if op.total is not None else ''}")
            self.nested(op.body.block)
        elif isinstance(op, scf.ForOp):
            self.add(f"for {_loop_name(op)} in {_trips(op.lb, op.ub, op.step)}:")
            self.nested(op.body.block)
        elif isinstance(op, scf.ParallelOp):
            trips = map(_trips, op.lowerBound, op.upperBound, op.step)
            self.add(f"parallel for {_loop_name(op)} in {', '.join(trips)}:")
            self.nested(op.body.block)
        elif isinstance(op, scf.IfOp):
            self.add(f"if {expression(op.cond)}:")
            self.nested(op.true_region.block)
            if op.false_region.blocks:
                self.add("else:")
                self.nested(op.false_region.block)
        elif isinstance(op, memref.StoreOp):
            self.add(f"{_place(op.memref, op.indices)} = {expression(op.value)}")
        elif isinstance(op, YieldOp | scf.YieldOp | func.ReturnOp | scf.ReduceOp) and op.operands:
            word = "return" if isinstance(op, func.ReturnOp) else "yield"
            self.add(f"{word} {', '.join(map(expression, op.operands))}")
        elif isinstance(op, ResolveOp):
            size = expression(op.size)
            self.add(f"{_name(op.position)}, {_name(op.valid)} = resolve({expression(op.index)}, {size}, {op.bounds.data})")
        elif isinstance(op, memref.LoadOp) and not _is_copied(op):
            self.add(f"{_name(op.res)} = {_place(op.memref, op.indices)}")


def expression(value: SSAValue) -> str:
    """Return the expression that a value stands for: its arithmetic written out, up to loads and loop counters."""
    op = value.owner
    if isinstance(op, Block):
        return _name(value)
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return str(op.value.value.data)
    if isinstance(op, arith.IndexCastOp | arith.ExtSIOp | arith.ExtUIOp):
        return expression(op.input)
    if op.name in _INFIX:
        return f"({expression(op.operands[0])} {_INFIX[op.name]} {expression(op.operands[1])})"
    if isinstance(op, arith.CmpiOp):
        predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        return f"({expression(op.lhs)} {_TEXT.get(predicate, predicate)} {expression(op.rhs)})"
    if isinstance(op, arith.SelectOp):
        return f"({expression(op.lhs)} if {expression(op.cond)} else {expression(op.rhs)})"
    if op.name.startswith("arith."):
        return f"{op.name.removeprefix('arith.')}({', '.join(map(expression, op.operands))})"
    if isinstance(op, MaskedLoadOp):
        return f"{_place(op.memref, op.subscripts)} where {expression(op.mask)}"
    if isinstance(op, memref.LoadOp) and _is_copied(op):
        return _place(op.memref, op.indices)
    return _name(value)


def _is_copied(load: memref.LoadOp) -> bool:
    """Return whether a load is of an element on its way to a store, and so stands in the store's line."""
    return all(isinstance(use.operation, memref.StoreOp | arith.SelectOp) for use in load.res.uses)


def _trips(lower: SSAValue, upper: SSAValue, step: SSAValue) -> str:
    text = f"{_bare(lower)}..{_bare(upper)}"
    return text if expression(step) == "1" else f"{text} step {expression(step)}"


def _bare(value: SSAValue) -> str:
    """Return an expression without the parentheses around the whole of it, and a minimum as min(...)."""
    if isinstance(value.owner, arith.MinSIOp):
        return f"min({', '.join(_bare(operand) for operand in value.owner.operands)})"
    text = expression(value)
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _place(memory: SSAValue, subscripts: tuple[SSAValue, ...] | list[SSAValue]) -> str:
    return f"{_name(memory)}[{', '.join(_bare(subscript) for subscript in subscripts)}]"


def _name(value: SSAValue) -> str:
    return value.name_hint or "value"


def _loop_name(op: Operation) -> str:
    names = op.attributes.get("gather.loops")
    return names.data if isinstance(names, StringAttr) else op.name
