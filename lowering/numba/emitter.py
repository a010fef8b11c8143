"""Print loops-level IR as a Python module that Numba compiles: one line an operation, names from the IR.

Memrefs become base addresses; a subscript becomes `4 * (position * data_stride_axis + j)`. The body of each outermost
`scf.parallel` becomes a function of its own, a tile. The threads of `team` share its calls; without a team they run one
after the other, so that small work starts no thread.
"""

import re
from collections.abc import Callable, Sequence

from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    Float32Type,
    IndexType,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    VectorType,
    i64,
)
from xdsl.ir import Block, Operation, SSAValue

from ...ir.dialects.attributes import LOOP_NAMES
from ...ir.dialects.upstream import SIToFPOp, UIToFPOp, is_nontemporal
from ...ir.errors import InternalError, ScheduleError
from ...ir.loop_name import LoopName
from ..nest.bounds_arithmetic import is_wrap, size_of_clamp
from ..nest.constant_indices import find_global
from ..nest.queries import functions, viewed
from .naming import INDENT, Function, element_of, numba_type, stored_name
from .program import Parameter, Program
from .vector_emitter import VectorEmitter

# This matches the views of a caller's arrays and the scale of a gradient, on which the code does not depend.
_CALLERS_OWN = re.compile(r" \{gather\.(view|scale) = [^}]*\}")

# The dialects of the level that is printed.
LOOP_DIALECTS = ("builtin", "func", "scf", "arith", "memref", "vector")
ELEMENT_TYPES = ("i8", "i16", "i32", "i64", "i128", "f32", "f64")
NUMBA_NAMES = ("float32", "float64", "int8", "int16", "int32", "int64", "njit")

_INFIX = {
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.addf": "+",
    "arith.mulf": "*",
    "arith.divf": "/",
    "arith.andi": "&",
    "arith.ori": "|",
    "arith.shrsi": ">>",
}
_CONVERSIONS = {"arith.sitofp": "to_float", "arith.uitofp": "to_float_unsigned"}
_CALLS = {
    "arith.minsi": "minsi",
    "arith.maxsi": "maxsi",
    "arith.divui": "divui",
    "arith.remsi": "remsi",
    "arith.remui": "remui",
}
_PRINTED_WHERE_USED = (
    *(arith.ConstantOp, arith.IndexCastOp, memref.DimOp),
    *(memref.CollapseShapeOp, memref.ExtractAlignedPointerAsIndexOp),
)
# Print a loop of this depth as a function of its own: Python takes 20 nested blocks, and the time that LLVM needs grows
# faster than the depth of a nest.
MAX_DEPTH = 10
_COMPARISONS = {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">="}


def not_lowered(module: ModuleOp) -> list[str]:
    """Return the names of the operations above the level of loops."""
    return sorted({op.name for op in module.walk() if op.name.partition(".")[0] not in LOOP_DIALECTS})


def emit(module: ModuleOp, header: str = "") -> Program:
    """Print the one function of a loops-level module, below a header such as the schedule and the pipeline.

    Raises:
        InternalError: an operation has no printed form.
        ScheduleError: the module is not lowered to loops yet.
    """
    if left := not_lowered(module):
        raise ScheduleError(
            f"the code generator prints loops, and the module still has {', '.join(left)}; "
            "lower it first, for instance with -p default"
        )
    found = functions(module)
    if len(found) != 1:
        raise InternalError(f"the code generator expects one function, got {len(found)}")
    return _Emitter(module, found[0]).program(header)


class _Emitter(VectorEmitter):
    """Prints operations, one a line."""

    def __init__(self, module: ModuleOp, function: func.FuncOp):
        super().__init__(module, function)
        self.constants: list[str] = []
        self.tiles: list[Function] = []
        changed = self.written.intersection(function.body.block.args)
        self.adds = any(
            isinstance(op, memref.LoadOp | vector.LoadOp) and op.operands[0] in changed for op in function.walk()
        )

    # the program

    def program(self, header: str) -> Program:
        numbers: dict[str, str] = {}
        for number, argument in enumerate(self.function.body.block.args):
            self.reserve(argument)
            name = self.name(argument, f"argument{number}")
            is_number = isinstance(argument.type, AnyFloat | IntegerType)
            if not is_number and not isinstance(argument.type, MemRefType):
                raise ScheduleError(
                    f"the code generator takes memrefs, and argument #{number} is {argument.type}; lower it first, for "
                    "instance with the pipeline default"
                )
            if isinstance(argument.type, MemRefType) and stored_name(argument.type.element_type) not in ELEMENT_TYPES:
                raise ScheduleError(
                    f"the code generator takes elements of {', '.join(ELEMENT_TYPES)}, and argument #{number} has "
                    f"{argument.type.element_type}; run erase-element-type right after normalize-gather"
                )
            self.parameters[name] = Parameter(name, "scale" if is_number else "address", number)
            numbers |= {name: numba_type(argument.type)} if is_number else {}
        self.block(self.function.body.block)
        kinds = ("address", "size", "stride", "scale")
        ordered = sorted(self.parameters.values(), key=lambda p: (kinds.index(p.kind), p.argument, p.dim))
        lines: list[tuple[str, Operation | str]] = []
        if self.constants:
            lines += [("", ""), *((line, "memref.global") for line in self.constants)]
        for tile in self.tiles:
            lines += [("", ""), ("", ""), ('@njit(nogil=True, error_model="numpy")', "")]
            parameters = [*(("k",) if isinstance(tile.op, scf.ParallelOp) else ()), *tile.parameters]
            lines += [(f"def {tile.name}({', '.join(parameters)}):", tile.op), *tile.lines]
        types = ", ".join([*(numbers.get(parameter.name, "int64") for parameter in ordered), "int64"])
        names = ", ".join([*(parameter.name for parameter in ordered), "team"])
        lines += [("", ""), ("", ""), (f"signature = int64({types})", ""), ("", ""), ("", "")]
        lines += [('@njit(nogil=True, error_model="numpy")', "")]
        lines += [(f"def gather({names}):", self.function)]
        lines += [(f"{INDENT}{name} = {value}", "memref layout") for name, value in self.strides.items()]
        lines += self.main.lines
        comments = [*header.splitlines(), *_CALLERS_OWN.sub("", str(self.module)).splitlines()]
        imports = self._imports("\n".join(text for text, _ in lines))
        lines = [(line, "") for line in (*(f"# {line}".rstrip() for line in comments), "", *imports)] + lines
        source = "\n".join(text for text, _ in lines) + "\n"
        numbered = {number: op for number, (_, op) in enumerate(lines, 1) if op}
        names = {number: op.name if isinstance(op, Operation) else op for number, op in numbered.items()}
        origins = {
            number: op.location.line.data
            for number, op in numbered.items()
            if isinstance(op, Operation) and isinstance(op.location, FileLineColLoc)
        }
        return Program(source, tuple(ordered), names, origins)

    def _imports(self, code: str) -> list[str]:
        used = ", ".join(name for name in NUMBA_NAMES if re.search(rf"\b{name}\b", code))
        by_module = (("intrinsics", self.intrinsics), ("vector_intrinsics", self.vector_intrinsics))
        own = [
            f"from gathernest.lowering.numba.{module} import {', '.join(sorted(names))}"
            for module, names in by_module
            if names
        ]
        if shares := [name for name in ("call", "share") if re.search(rf"\b{name}\(", code)]:
            line = f"from gathernest.lowering.native.parallel_for import {', '.join(shares)}"
            own.insert(bool(self.intrinsics), line)
        return [f"from numba import {used}", *([""] if own else []), *own]

    # operations

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        self.printed = op
        if isinstance(op, _PRINTED_WHERE_USED) or op in self.in_lanes or _is_left_out(op):
            return
        if (
            op.results
            and isinstance(type_ := op.results[0].type, VectorType)
            and (op.name in _INFIX or op.name in _CALLS or isinstance(op, arith.MinUIOp))
        ):
            return self.vector_operation(op, type_)
        if op.name in _INFIX:
            expression = f" {_INFIX[op.name]} ".join(map(self.value, op.operands))
            return self.assign(op, f"{numba_type(op.results[0].type)}({expression})" if _is_narrow(op) else expression)
        if op.name in _CALLS:
            expression = self.call(_CALLS[op.name], *map(self.value, op.operands))
            return self.assign(op, f"{numba_type(op.results[0].type)}({expression})" if _is_narrow(op) else expression)
        method: Callable[[Operation], None] | None = getattr(self, "emit_" + op.name.replace(".", "_"), None)
        if method is None:
            raise InternalError(f"the code generator has no form for {op.name}")
        method(op)

    def emit_arith_minui(self, op: arith.MinUIOp) -> None:
        """Add a minimum, in a faster form for an address and for an index that counts from the end.

        A stored position keeps its clamp as a minimum, so that LLVM makes vectors of the loop.
        """
        is_address, size = not _is_stored(op.result), size_of_clamp(op)
        if is_wrap(op) and isinstance(shifted := op.lhs.owner, arith.AddiOp):
            index, added = self.value(op.rhs), self.value(shifted.rhs)
            if is_address and any(size_of_clamp(use.operation) is not None for use in op.result.uses):
                return self.assign(op, self.call("wrap", index, added))
            return self.assign(op, f"{index} + ({added} & ({index} >> 63))")
        if is_address and size is not None:
            return self.assign(op, self.call("clamp", self.value(op.lhs), self.value(size)))
        self.assign(op, self.call("minui", self.value(op.lhs), self.value(op.rhs)))

    def emit_arith_cmpi(self, op: arith.CmpiOp) -> None:
        predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        left, right = self.value(op.lhs), self.value(op.rhs)
        if predicate in _COMPARISONS:
            self.assign(op, f"{left} {_COMPARISONS[predicate]} {right}")
        else:
            self.assign(op, self.call(predicate, left, right))

    def emit_arith_cmpf(self, op: arith.CmpfOp) -> None:
        predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
        if predicate != "ogt":
            raise InternalError(f"the code generator has no form for arith.cmpf {predicate}")
        if not isinstance(op.result.type, VectorType):  # vectors are compared where they are selected
            self.assign(op, f"{self.value(op.lhs)} > {self.value(op.rhs)}")

    def emit_arith_select(self, op: arith.SelectOp) -> None:
        if isinstance(op.cond.type, VectorType):
            return self.vector_select(op)
        self.assign(op, f"{self.value(op.lhs)} if {self.value(op.cond)} else {self.value(op.rhs)}")

    def emit_arith_extsi(self, op: arith.ExtSIOp) -> None:
        sign = "-" if op.input.type == IntegerType(1) else ""
        type_ = numba_type(op.result.type)
        value = f"{sign}int64({self.value(op.input)})"
        self.assign(op, value if type_ == "int64" else f"{type_}({value})")

    def emit_arith_extf(self, op: arith.ExtFOp) -> None:
        self.convert(op, f"extend_{str(element_of(op.input.type)).replace('f16', 'half').replace('bhalf', 'bfloat')}")

    def emit_arith_sitofp(self, op: SIToFPOp | UIToFPOp) -> None:
        if op.input.type == i64:
            return self.assign(op, f"{numba_type(op.result.type)}({self.value(op.input)})")
        self.convert(op, _CONVERSIONS[op.name])

    emit_arith_uitofp = emit_arith_sitofp

    def convert(self, op: Operation, name: str) -> None:
        """Add the conversion of a number, or of a vector of them, to float32."""
        type_, value = op.operands[0].type, self.value(op.operands[0])
        if element_of(op.results[0].type) != Float32Type():
            raise InternalError(f"the code generator converts to f32, got {op.results[0].type}")
        if isinstance(type_, VectorType):
            self.assign(op, self.vector_call(f"{name}_{numba_type(type_)}", value))
        else:
            self.assign(op, self.call(f"{name}_{stored_name(type_)}", value))

    def emit_arith_bitcast(self, op: arith.BitcastOp) -> None:
        self.assign(op, self.call(f"float_of_{op.input.type}", self.value(op.input)))

    def emit_arith_trunci(self, op: arith.TruncIOp) -> None:
        self.assign(op, f"{numba_type(op.result.type)}({self.value(op.input)})")

    def emit_arith_extui(self, op: arith.ExtUIOp) -> None:
        self.assign(op, self.call("zext", self.value(op.input)))

    def emit_memref_load(self, op: memref.LoadOp) -> None:
        kind = "reload" if viewed(op.memref) in self.written else "load"
        self.assign(op, self.call(f"{kind}_{stored_name(op.res.type)}", self.address(op.memref, op.indices)))
        self.insert_lane(op)

    def emit_memref_store(self, op: memref.StoreOp) -> None:
        store = f"{'stream' if is_nontemporal(op) else 'store'}_{stored_name(op.value.type)}"
        self.current.add(self.call(store, self.address(op.memref, op.indices), self.value(op.value)), op)

    def emit_memref_get_global(self, op: memref.GetGlobalOp) -> None:
        holder = find_global(self.module, op)
        assert isinstance(holder.initial_value, DenseIntOrFPElementsAttr)
        constant = self.fresh(holder.sym_name.data.upper())
        values = ", ".join(str(value) for value in holder.initial_value.get_values())
        if not self.constants:
            self.constants.append("import numpy as np")
        dtype = str(holder.initial_value.get_element_type()).replace("i", "int")
        self.constants.append(f"{constant} = np.array([{values}], dtype=np.{dtype})")
        self.assign(op, self.call("address_of", constant))

    def emit_scf_for(self, op: scf.ForOp) -> None:
        carried = [self.current.define(self.name(result, "carried")) for result in op.results]
        for argument, initial, name in zip(op.body.block.args[1:], op.iter_args, carried, strict=True):
            self.names[argument] = name
            self.current.add(f"{name} = {self.value(initial)}", op)
        if self.current.depth < MAX_DEPTH or not _is_separable(op):
            return self._loop(op, carried)
        outer, self.current = self.current, Function(self.fresh("nest"), op)
        for name in carried:
            self.current.use(name)
        self._loop(op, carried)
        self.current.add(f"return {carried[0] if carried else 0}", op)
        inner, self.current = self.current, outer
        self.tiles.append(inner)
        target = f"{carried[0]} = " if carried else ""
        outer.add(f"{target}call({inner.name}, {self._arguments(inner)})", op)

    def _loop(self, op: scf.ForOp, carried: list[str]) -> None:
        induction = self.current.define(self.name(op.body.block.args[0]))
        lower, upper, step = self.value(op.lb), self.value(op.ub), self.value(op.step)
        if isinstance(op.ub.owner, arith.MinSIOp):
            upper = f"{lower} + {self.call('trip_count', lower, upper)}"
        trips = ", ".join([lower, upper] if step == "1" else [lower, upper, step])
        self.current.add(f"for {induction} in range({trips}):  # {_loop_names(op)}", op)
        self.nested(op.body.block, carried)

    def emit_scf_if(self, op: scf.IfOp) -> None:
        names = [self.current.define(self.name(result)) for result in op.results]
        self.current.add(f"if {self.value(op.cond)}:", op)
        self.nested(op.true_region.block, names)
        if op.false_region.blocks:
            self.current.add("else:", op)
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
            if len(values) > 1 and not set(targets).intersection(values):
                for target, value in zip(targets, values, strict=True):
                    self.current.add(f"{target} = {value}", op)
            elif targets != values:
                self.current.add(f"{', '.join(targets)} = {', '.join(values)}", op)
        if len(self.current.lines) == before:
            self.current.add("pass")
        self.current.depth -= 1

    def emit_scf_parallel(self, op: scf.ParallelOp) -> None:
        if self.current is not self.main:
            raise InternalError("the code generator expects no scf.parallel inside another")
        names = _loop_names(op)
        trips = [self._trip_count(op, *trip) for trip in zip(op.lowerBound, op.upperBound, op.step, strict=True)]
        nest = LoopName(names).nest or ("add" if self.adds else "copy")
        tile = Function(self.fresh(f"{nest}_tile"), op, local={"k"})
        outside = self.taken.copy()
        self.current = tile
        self._inductions(op, trips)
        self._tile_body(op)
        self.current = self.main
        self.tiles.append(tile)
        self.taken = outside | set(self.parameters) | set(self.strides) | {made.name for made in self.tiles}
        total = " * ".join(trips)
        results = [self.main.define(self.name(result)) for result in op.results]
        for result, initial in zip(results, op.initVals, strict=True):
            self.main.add(f"{result} = {self.value(initial)}", op)
        target = f"{results[0]} += " if results else ""
        self.main.add(f"{target}share(team, {total}, {tile.name}, {self._arguments(tile)})  # {names}", op)

    def _arguments(self, function: Function) -> str:
        """Return the tuple of the names that a function takes from where it is called."""
        names = ", ".join(map(self.current.use, function.parameters))
        return f"({names},)" if len(function.parameters) == 1 else f"({names})"

    def _trip_count(self, op: Operation, lower: SSAValue, upper: SSAValue, step: SSAValue) -> str:
        """Return the trip count of one dimension of a parallel loop, as an expression with a name where it is long."""
        first, last, stride = self.value(lower), self.value(upper), self.value(step)
        span = last if first == "0" else self.call("maxsi", f"{last} - {first}", "0")
        if stride == "1":
            return span
        name = self.main.define(self.fresh("trips"))
        rounding = str(int(stride) - 1) if stride.isdigit() else f"({stride} - 1)"
        self.main.add(f"{name} = ({span} + {rounding}) // {stride}", op)
        return name

    def _inductions(self, op: scf.ParallelOp, trips: Sequence[str]) -> None:
        """Compute the induction variables of a parallel loop from its number `k`; the last one varies fastest."""
        rest = "k"
        for dim in reversed(range(len(trips))):
            argument, trip = op.body.block.args[dim], trips[dim]
            number = rest if dim == 0 else f"{rest} % {self.current.use(trip)}"
            step, lower = self.value(op.step[dim]), self.value(op.lowerBound[dim])
            expression = number if step == "1" else f"({number}) * {step}" if " " in number else f"{number} * {step}"
            expression = expression if lower == "0" else f"{lower} + {expression}"
            self.current.add(f"{self.current.define(self.name(argument))} = {expression}", op)
            if dim > 1:
                following = self.current.define(self.fresh("rest"))
                self.current.add(f"{following} = {rest} // {self.current.use(trip)}", op)
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
                self.current.add(f"return {self.value(inner.args[0])}", inner)

    def emit_func_return(self, op: func.ReturnOp) -> None:
        value = self.value(op.operands[0]) if op.operands else "0"
        self.current.add(f"return {value}", op)


def _is_left_out(op: Operation) -> bool:
    """Return whether a value is used only by minima that `emit_arith_minui` prints without it.

    These are the sum of an index that wraps and the size, and the last position of a clamp.
    """

    def leaves_out(minimum: Operation, operand: int) -> bool:
        if not isinstance(minimum, arith.MinUIOp) or isinstance(minimum.result.type, VectorType):
            return False
        if is_wrap(minimum):
            return operand == 0
        return operand == 1 and not _is_stored(minimum.result) and size_of_clamp(minimum) is not None

    uses = list(op.results[0].uses) if len(op.results) == 1 else []
    return bool(uses) and all(leaves_out(use.operation, use.index) for use in uses)


def _is_separable(op: scf.ForOp) -> bool:
    """Return whether a loop can be a function: it takes no memory, and gives at most one number, of 64 bits."""
    if any(isinstance(inner, memref.AllocOp) for inner in op.walk()):
        return False
    return len(op.results) == 0 or (len(op.results) == 1 and op.results[0].type in (IndexType(), i64))


def _is_narrow(op: Operation) -> bool:
    """Return whether Numba would compute an operation in more bits than its type has."""
    type_ = op.results[0].type
    return isinstance(type_, IntegerType) and 1 < type_.width.data < 64


def _loop_names(op: Operation) -> str:
    names = op.attributes.get(LOOP_NAMES)
    return names.data if isinstance(names, StringAttr) else op.name


def _is_addition(block: Block) -> bool:
    ops = list(block.ops)
    return len(ops) == 2 and isinstance(ops[0], arith.AddiOp) and set(ops[0].operands) == set(block.args)


def _is_stored(position: SSAValue) -> bool:
    """Return whether a position is stored, possibly clamped and narrowed first."""
    passed_on = (arith.IndexCastOp, arith.MinUIOp, arith.TruncIOp)
    return any(
        (isinstance(use.operation, memref.StoreOp) and use.operation.value is position)
        or (isinstance(use.operation, passed_on) and _is_stored(use.operation.results[0]))
        for use in position.uses
    )
