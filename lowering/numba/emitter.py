"""Print loops-level IR as a Python module that Numba compiles: one line an operation, names from the IR.

Memrefs become base addresses; a subscript becomes `4 * (position * data_stride_axis + j)`. The body of each outermost
`scf.parallel` becomes a function of its own, called under `prange` when the argument `parallel` is true and under
`range` when it is false, so that small work pays for no thread.
"""

import builtins
import keyword
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...ir.attributes import LOOP_NAMES, VIEW, ViewAttr
from ...ir.errors import InternalError
from ...ir.types import strides_of
from ..constant_indices import find_global
from ..nest import argument_number, functions
from .program import Parameter, Program

INDENT = "    "
_RESERVED = {*keyword.kwlist, *dir(builtins), "gather", "parallel", "prange", "njit", "int64", "boolean", "k", "np"}

_VIEWS = re.compile(r" \{gather\.view = [^}]*\}")
"""The views of one caller's arrays, which the code does not depend on."""

_INFIX = {
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.andi": "&",
    "arith.ori": "|",
    "arith.shrsi": ">>",
}
_CALLS = {
    "arith.minsi": "min",
    "arith.maxsi": "max",
    "arith.minui": "minui",
    "arith.remsi": "remsi",
    "arith.remui": "remui",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">="}


@dataclass
class _Function:
    """A Python function in the making: its lines, and the names that it takes from outside."""

    name: str
    parameters: list[str] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)
    local: set[str] = field(default_factory=set)
    depth: int = 1

    def add(self, text: str, op: str = "") -> None:
        self.lines.append((INDENT * self.depth + text, op))

    def use(self, name: str) -> str:
        """Return `name`, and make it a parameter when it is not defined here."""
        if name.isidentifier() and name not in self.local and name not in self.parameters:
            self.parameters.append(name)
        return name

    def define(self, name: str) -> str:
        self.local.add(name)
        return name


def emit(module: ModuleOp, header: str = "") -> Program:
    """Print the one function of a loops-level module.

    Args:
        module: the module; everything in it is of `func`, `scf`, `arith` and `memref`.
        header: text for the top of the source, such as the schedule and the pipeline.

    Raises:
        InternalError: an operation has no printed form.
    """
    found = functions(module)
    if len(found) != 1:
        raise InternalError(f"the code generator expects one function, got {len(found)}")
    return _Emitter(module, found[0]).program(header)


class _Emitter:
    def __init__(self, module: ModuleOp, function: func.FuncOp):
        self.module, self.function = module, function
        self.names: dict[SSAValue, str] = {}
        self.taken: set[str] = set(_RESERVED)
        self.parameters: dict[str, Parameter] = {}
        self.strides: dict[str, str] = {}
        self.intrinsics: set[str] = set()
        self.constants: list[str] = []
        self.tiles: list[_Function] = []
        self.main = _Function("gather")
        self.current = self.main

    # the program

    def program(self, header: str) -> Program:
        for number, argument in enumerate(self.function.body.block.args):
            self._reserve_names(argument)
            name = self.name(argument, f"argument{number}")
            self.parameters[name] = Parameter(name, "address", number)
        self.block(self.function.body.block)
        text = _VIEWS.sub("", str(self.module))
        lines = [(f"# {line}".rstrip(), "") for line in (header.splitlines() + text.splitlines())]
        imported = "boolean, int8, int16, int32, int64, njit, prange"
        lines += [("", ""), (f"from numba import {imported}", "")]
        used = ", ".join(sorted(self.intrinsics))
        lines += [("", ""), (f"from gathernest.lowering.numba.intrinsics import {used}", "")] if used else []
        lines += [("", "")] + [(line, "memref.global") for line in self.constants] if self.constants else []
        for tile in self.tiles:
            lines += [("", ""), ("", ""), ('@njit(nogil=True, error_model="numpy")', "")]
            lines += [(f"def {tile.name}(k, {', '.join(tile.parameters)}):", "scf.parallel"), *tile.lines]
        ordered = sorted(
            self.parameters.values(), key=lambda p: (p.kind != "address", p.kind != "size", p.argument, p.dim)
        )
        lines += [("", ""), ("", ""), *self._decorator(len(ordered))]
        names = [parameter.name for parameter in ordered]
        lines += [(f"def gather({', '.join([*names, 'parallel'])}):", "func.func")]
        lines += [(f"{INDENT}{name} = {value}", "memref layout") for name, value in self.strides.items()]
        lines += self.main.lines
        source = "\n".join(text for text, _ in lines) + "\n"
        ops = {number: op for number, (_, op) in enumerate(lines, 1) if op}
        return Program(source, tuple(ordered), ops)

    def _reserve_names(self, argument: SSAValue) -> None:
        """Keep values from taking the names that an argument's sizes and strides will have."""
        if isinstance(argument.type, MemRefType):
            for dim in range(argument.type.get_num_dims()):
                label = self._dim_name(argument, dim)
                self.taken |= {f"n_{label}", f"{self.name(argument)}_stride_{label}"}

    def _decorator(self, count: int) -> list[tuple[str, str]]:
        arguments = ", ".join(["int64"] * count + ["boolean"])
        parallel = "parallel=True, " if self.tiles else ""
        return [(f'@njit(int64({arguments}), {parallel}nogil=True, error_model="numpy", cache=True)', "")]

    # names

    def name(self, value: SSAValue, fallback: str = "v") -> str:
        """Return the Python name of a value, made from its name in the IR."""
        if value not in self.names:
            self.names[value] = self.fresh(value.name_hint or fallback)
        return self.names[value]

    def fresh(self, hint: str) -> str:
        """Return a name like `hint` that is not taken."""
        base = re.sub(r"\W", "_", hint)
        base = f"v{base}" if not base or base[0].isdigit() else base
        name, number = base, 0
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    def value(self, value: SSAValue) -> str:
        """Return the expression for a value: a literal, or a name that is made known to the current function."""
        owner = value.owner
        if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
            return _literal(owner.value.value.data, value.type)
        if isinstance(owner, arith.IndexCastOp):
            if {owner.input.type, owner.result.type} != {IndexType(), IntegerType(64)}:
                raise InternalError("the code generator knows arith.index_cast between index and i64 only")
            return self.value(owner.input)
        if isinstance(owner, memref.DimOp):
            return self.size(owner.source, self._static(owner.index))
        return self.current.use(self.name(value))

    def _static(self, value: SSAValue) -> int:
        owner = value.owner
        if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
            return owner.value.value.data
        raise InternalError("the code generator expects memref.dim of a constant dimension")

    # memory

    def size(self, source: SSAValue, dim: int) -> str:
        """Return the size of a memref along a dimension: a literal or a parameter such as `n_axis`."""
        type_ = source.type
        assert isinstance(type_, MemRefType)
        if type_.get_shape()[dim] >= 0:
            return str(type_.get_shape()[dim])
        return self._parameter("size", source, dim, "n")

    def stride(self, source: SSAValue, dim: int) -> str:
        """Return the stride of a memref along a dimension, in elements."""
        type_ = source.type
        assert isinstance(type_, MemRefType)
        strides = strides_of(type_)
        if strides is not None:
            known = strides[dim]
            return (
                str(known)
                if known is not None
                else self._parameter("stride", source, dim, f"{self.name(source)}_stride")
            )
        sizes = [self.size(source, later) for later in range(dim + 1, type_.get_num_dims())]
        factors = [size for size in sizes if size != "1"]
        if len(factors) <= 1:
            return factors[0] if factors else "1"
        name = f"{self.name(source)}_stride_{self._dim_name(source, dim)}"
        self.strides.setdefault(name, " * ".join(factors))
        self.main.local.add(name)
        for factor in factors:
            self.main.use(factor)
        return self.current.use(name)

    def _parameter(self, kind: str, source: SSAValue, dim: int, prefix: str) -> str:
        name = f"{prefix}_{self._dim_name(source, dim)}"
        assert kind == "size" or kind == "stride"
        number = self._argument_number(source)
        self.parameters.setdefault(name, Parameter(name, kind, number, dim))
        self.taken.add(name)
        return self.current.use(name)

    def _argument_number(self, source: SSAValue) -> int:
        number = argument_number(source, self.function)
        if number is None:
            raise InternalError("the code generator expects dynamic sizes and strides of arguments only")
        return number

    def _dim_name(self, source: SSAValue, dim: int) -> str:
        """Return `axis`, `inner`, ... where the argument says how it is viewed, its number where it does not."""
        number = self._argument_number(source)
        attributes = self.function.arg_attrs.data[number].data if self.function.arg_attrs is not None else {}
        view = attributes.get(VIEW)
        return view.dims[dim] if isinstance(view, ViewAttr) else f"{self.name(source)}_{dim}"

    def address(self, source: SSAValue, subscripts: Sequence[SSAValue]) -> str:
        """Return the two arguments that every load and store begins with: base address and byte offset."""
        type_ = source.type
        assert isinstance(type_, MemRefType) and isinstance(type_.element_type, IntegerType)
        terms: list[str] = []
        for dim, subscript in enumerate(subscripts):
            place = self.value(subscript)
            if place != "0":
                stride = self.stride(source, dim)
                terms.append(place if stride == "1" else f"{place} * {stride}")
        width = type_.element_type.width.data // 8
        offset = " + ".join(terms) or "0"
        if width > 1 and terms:
            offset = f"{width} * {offset}" if len(terms) == 1 and "*" not in offset else f"{width} * ({offset})"
        return f"{self.current.use(self.name(source))}, {offset}"

    def _intrinsic(self, name: str) -> str:
        self.intrinsics.add(name)
        return name

    # operations

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        if isinstance(op, arith.ConstantOp | arith.IndexCastOp | memref.DimOp):
            return  # printed where they are used
        if op.name in _INFIX:
            return self.assign(op, f" {_INFIX[op.name]} ".join(map(self.value, op.operands)))
        if op.name in _CALLS:
            call = _CALLS[op.name]
            callee = call if call in ("min", "max") else self._intrinsic(call)
            return self.assign(op, f"{callee}({', '.join(map(self.value, op.operands))})")
        method: Callable[[Operation], None] | None = getattr(self, "emit_" + op.name.replace(".", "_"), None)
        if method is None:
            raise InternalError(f"the code generator has no form for {op.name}")
        method(op)

    def assign(self, op: Operation, expression: str) -> None:
        """Add `name = expression` for the one result of an op."""
        self.current.add(f"{self.current.define(self.name(op.results[0]))} = {expression}", op.name)

    def emit_arith_cmpi(self, op: arith.CmpiOp) -> None:
        predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        left, right = self.value(op.lhs), self.value(op.rhs)
        if predicate in _COMPARISONS:
            self.assign(op, f"{left} {_COMPARISONS[predicate]} {right}")
        else:
            self.assign(op, f"{self._intrinsic(predicate)}({left}, {right})")

    def emit_arith_select(self, op: arith.SelectOp) -> None:
        self.assign(op, f"{self.value(op.lhs)} if {self.value(op.cond)} else {self.value(op.rhs)}")

    def emit_arith_extsi(self, op: arith.ExtSIOp) -> None:
        is_flag = op.input.type == IntegerType(1)
        self.assign(op, f"{'-' if is_flag else ''}int64({self.value(op.input)})")

    def emit_arith_extui(self, op: arith.ExtUIOp) -> None:
        self.assign(op, f"{self._intrinsic('zext')}({self.value(op.input)})")

    def emit_memref_load(self, op: memref.LoadOp) -> None:
        load = self._intrinsic(f"load_{op.res.type}")
        self.assign(op, f"{load}({self.address(op.memref, op.indices)})")

    def emit_memref_store(self, op: memref.StoreOp) -> None:
        store = self._intrinsic(f"store_{op.value.type}")
        self.current.add(f"{store}({self.address(op.memref, op.indices)}, {self.value(op.value)})", op.name)

    def emit_memref_global(self, op: memref.GlobalOp) -> None:
        raise InternalError("a global is printed where it is used")

    def emit_memref_get_global(self, op: memref.GetGlobalOp) -> None:
        holder = find_global(self.module, op)
        assert isinstance(holder.initial_value, DenseIntOrFPElementsAttr)
        constant = self.fresh(holder.sym_name.data.upper())
        values = ", ".join(str(value) for value in holder.initial_value.get_values())
        if not self.constants:
            self.constants.append("import numpy as np")
        dtype = str(holder.initial_value.get_element_type()).replace("i", "int")
        self.constants.append(f"{constant} = np.array([{values}], dtype=np.{dtype})")
        self.assign(op, f"{self._intrinsic('address_of')}({constant})")

    def emit_scf_for(self, op: scf.ForOp) -> None:
        carried = op.body.block.args[1:]
        for argument, initial, result in zip(carried, op.iter_args, op.results, strict=True):
            name = self.current.define(self.name(result, "carried"))
            self.names[argument] = name
            self.current.add(f"{name} = {self.value(initial)}", op.name)
        counter = self.current.define(self.name(op.body.block.args[0]))
        lower, upper, step = self.value(op.lb), self.value(op.ub), self.value(op.step)
        trips = ", ".join([lower, upper] if step == "1" else [lower, upper, step])
        self.current.add(f"for {counter} in range({trips}):  # {_loop_names(op)}", op.name)
        self.nested(op.body.block, [self.names[argument] for argument in carried])

    def emit_scf_if(self, op: scf.IfOp) -> None:
        names = [self.current.define(self.name(result)) for result in op.results]
        self.current.add(f"if {self.value(op.cond)}:", op.name)
        self.nested(op.true_region.block, names)
        if op.false_region.blocks:
            self.current.add("else:", op.name)
            self.nested(op.false_region.block, names)

    def nested(self, block: Block, targets: list[str]) -> None:
        """Add an indented block whose yield assigns to `targets`."""
        self.current.depth += 1
        before = len(self.current.lines)
        for op in block.ops:
            if not isinstance(op, scf.YieldOp):
                self.op(op)
                continue
            values = list(map(self.value, op.operands))
            if targets != values:
                self.current.add(f"{', '.join(targets)} = {', '.join(values)}", op.name)
        if len(self.current.lines) == before:
            self.current.add("pass")
        self.current.depth -= 1

    def emit_scf_parallel(self, op: scf.ParallelOp) -> None:
        if self.current is not self.main:
            raise InternalError("the code generator expects no scf.parallel inside another")
        names = _loop_names(op)
        trips = [self._trip_count(*trip) for trip in zip(op.lowerBound, op.upperBound, op.step, strict=True)]
        tile = _Function(self.fresh("check_tile" if names.startswith("check_") else "copy_tile"), local={"k"})
        outside = self.taken.copy()
        self.current = tile
        self._counters(op, trips)
        self._tile_body(op)
        self.current = self.main
        self.taken = outside | set(self.parameters) | set(self.strides)
        self.tiles.append(tile)
        arguments = ", ".join(map(self.main.use, tile.parameters))
        total = " * ".join(trips)
        results = [self.main.define(self.name(result)) for result in op.results]
        for result, initial in zip(results, op.initVals, strict=True):
            self.main.add(f"{result} = {self.value(initial)}", op.name)
        target = f"{results[0]} += " if results else ""
        for condition, loop, counter in (("if parallel:", "prange", "int64(k)"), ("else:", "range", "k")):
            self.main.add(condition, op.name)
            self.main.add(f"{INDENT}for k in {loop}({total}):  # {names}", op.name)
            self.main.add(f"{INDENT * 2}{target}{tile.name}({counter}, {arguments})", op.name)

    def _trip_count(self, lower: SSAValue, upper: SSAValue, step: SSAValue) -> str:
        """Return how often one dimension of a parallel loop runs, as an expression with a name where it is long."""
        first, last, stride = self.value(lower), self.value(upper), self.value(step)
        span = last if first == "0" else f"max({last} - {first}, 0)"
        if stride == "1":
            return span
        name = self.main.define(self.fresh("trips"))
        self.main.add(f"{name} = ({span} + ({stride} - 1)) // {stride}", "scf.parallel")
        return name

    def _counters(self, op: scf.ParallelOp, trips: Sequence[str]) -> None:
        """Take the counters of a parallel loop out of its number `k`, the last one running fastest."""
        rest = "k"
        for dim in reversed(range(len(trips))):
            argument, trip = op.body.block.args[dim], trips[dim]
            number = rest if dim == 0 else f"{rest} % {self.current.use(trip)}"
            step, lower = self.value(op.step[dim]), self.value(op.lowerBound[dim])
            expression = number if step == "1" else f"({number}) * {step}" if " " in number else f"{number} * {step}"
            expression = expression if lower == "0" else f"{lower} + {expression}"
            self.current.add(f"{self.current.define(self.name(argument))} = {expression}", op.name)
            if dim > 1:
                following = self.current.define(self.fresh("rest"))
                self.current.add(f"{following} = {rest} // {self.current.use(trip)}", op.name)
                rest = following
            elif dim == 1:
                rest = f"{rest} // {self.current.use(trip)}"

    def _tile_body(self, op: scf.ParallelOp) -> None:
        for inner in op.body.block.ops:
            if not isinstance(inner, scf.ReduceOp):
                self.op(inner)
            elif len(inner.args) > 1 or any(not _is_addition(region.block) for region in inner.reductions):
                raise InternalError("the code generator knows the sum of one value as a reduction, and no other")
            elif inner.args:
                self.current.add(f"return {self.value(inner.args[0])}", inner.name)

    def emit_func_return(self, op: func.ReturnOp) -> None:
        value = self.value(op.operands[0]) if op.operands else "0"
        self.current.add(f"return {value}", op.name)


def _literal(value: int, type_: Attribute) -> str:
    if isinstance(type_, IndexType) or not isinstance(type_, IntegerType) or type_.width.data == 64:
        return str(value)
    if type_.width.data == 1:
        return str(bool(value))
    if type_.width.data == 128:
        return f"({value & (2**64 - 1)}, {value >> 64})"
    return f"int{type_.width.data}({value})"


def _loop_names(op: Operation) -> str:
    names = op.attributes.get(LOOP_NAMES)
    return names.data if isinstance(names, StringAttr) else op.name


def _is_addition(block: Block) -> bool:
    ops = list(block.ops)
    return len(ops) == 2 and isinstance(ops[0], arith.AddiOp) and set(ops[0].operands) == set(block.args)
