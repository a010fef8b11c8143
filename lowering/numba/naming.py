"""Names and addresses in generated kernels: the names of values, and the places of elements.

Memrefs are base addresses; a subscript becomes `4 * (position * data_stride_axis + j)`. Sizes and strides that are not
known are parameters of the kernel, named after the dimension that they belong to. Terms that the innermost loop does
not change are added to the base, so that LLVM computes them once: `data + 4 * (b * n_axis), 4 * position`.
"""

import builtins
import keyword
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.transforms.canonicalization_patterns.utils import const_evaluate_operand

from ...ir.dialects.types import element_size_bytes, strides_of
from ...ir.errors import InternalError
from ..nest.queries import argument_number, merged_dims, view_of, viewed
from .program import Parameter

INDENT = "    "
_RESERVED = {*keyword.kwlist, *dir(builtins), "gather", "team", "call", "share", "njit", "int64", "k", "np"}


@dataclass
class Function:
    """A Python function in the making: its lines, with the operation that each prints, and the names from outside."""

    name: str
    op: Operation
    parameters: list[str] = field(default_factory=list)
    lines: list[tuple[str, Operation | str]] = field(default_factory=list)
    local: set[str] = field(default_factory=set)
    depth: int = 1

    def add(self, text: str, op: Operation | str = "") -> None:
        self.lines.append((INDENT * self.depth + text, op))

    def use(self, name: str) -> str:
        """Return `name`, and make it a parameter when it is not defined here."""
        if name.isidentifier() and name not in self.local and name not in self.parameters:
            self.parameters.append(name)
        return name

    def define(self, name: str) -> str:
        self.local.add(name)
        return name


class Naming:
    """The names of one kernel: of its values, of its parameters, and of its imports."""

    def __init__(self, module: ModuleOp, function: func.FuncOp):
        self.module, self.function = module, function
        self.names: dict[SSAValue, str] = {}
        self.taken: set[str] = set(_RESERVED)
        self.parameters: dict[str, Parameter] = {}
        self.strides: dict[str, str] = {}
        self.intrinsics: set[str] = set()
        self.main = Function("gather", function)
        self.current = self.main
        self.printed: Operation | None = None
        # How many parts of each row a block takes, and the names of the addresses of rows.
        self.parts_of_rows: dict[Block | None, Counter[tuple[SSAValue, ...]]] = {}
        self.rows: dict[tuple[Block | None, str], str] = {}

    def reserve(self, argument: SSAValue) -> None:
        """Keep values from taking the names that an argument's sizes and strides will have."""
        if isinstance(argument.type, MemRefType):
            for dim in range(argument.type.get_num_dims()):
                label = self._dim_name(argument, dim)
                self.taken |= {f"n_{label}", f"{self.name(argument)}_stride_{label}"}

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
        """Return the expression for a value: a literal, or a name that the current function takes as a parameter."""
        owner = value.owner
        if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr | FloatAttr):
            return literal(owner.value.value.data, value.type)
        if isinstance(owner, arith.IndexCastOp):
            if {owner.input.type, owner.result.type} != {IndexType(), IntegerType(64)}:
                raise InternalError("the code generator knows arith.index_cast between index and i64 only")
            return self.value(owner.input)
        if isinstance(owner, memref.DimOp):
            if (dim := const_evaluate_operand(owner.index)) is None:
                raise InternalError("the code generator expects memref.dim of a constant dimension")
            return self.size(owner.source, dim)
        if isinstance(owner, memref.ExtractAlignedPointerAsIndexOp):
            return self.current.use(self.name(viewed(owner.source)))
        return self.current.use(self.name(value))

    # memory

    def size(self, source: SSAValue, dim: int) -> str:
        """Return the size of a memref along a dimension: a literal, a parameter such as `n_axis`, or a product."""
        if isinstance(view := source.owner, memref.CollapseShapeOp):
            sizes = [self.size(view.src, place) for place in merged_dims(view)[dim]]
            return self._product(f"n_{source.name_hint or 'view'}", sizes)
        source = SSAValue.get(source, type=MemRefType)
        size = source.type.get_shape()[dim]
        return str(size) if size >= 0 else self._parameter("size", source, dim, "n")

    def stride(self, source: SSAValue, dim: int) -> str:
        """Return the stride of a memref along a dimension, in elements."""
        type_ = SSAValue.get(source, type=MemRefType).type
        strides = strides_of(type_)
        if strides is not None:
            prefix = f"{self.name(source)}_stride"
            return self._parameter("stride", source, dim, prefix) if strides[dim] is None else str(strides[dim])
        sizes = [self.size(source, later) for later in range(dim + 1, type_.get_num_dims())]
        return self._product(f"{self.name(source)}_stride_{self._dim_name(source, dim)}", sizes)

    def _product(self, name: str, sizes: Sequence[str]) -> str:
        """Return a product of sizes: a literal, one of them, or a name that the kernel computes once."""
        factors = [size for size in sizes if size != "1"]
        if len(factors) <= 1:
            return factors[0] if factors else "1"
        if all(factor.isdecimal() for factor in factors):
            return str(math.prod(map(int, factors)))
        self.taken.add(name)
        self.strides.setdefault(name, " * ".join(factors))
        self.main.local.add(name)
        for factor in factors:
            self.main.use(factor)
        return self.current.use(name)

    def _parameter(self, kind: Literal["size", "stride"], source: SSAValue, dim: int, prefix: str) -> str:
        name = f"{prefix}_{self._dim_name(source, dim)}"
        number = argument_number(source, self.function)
        if number is None:
            raise InternalError("the code generator expects dynamic sizes and strides of arguments only")
        self.parameters.setdefault(name, Parameter(name, kind, number, dim))
        self.taken.add(name)
        return self.current.use(name)

    def _dim_name(self, source: SSAValue, dim: int) -> str:
        """Return `axis`, `inner`, ... where the argument has a view, the name of the array and a number otherwise."""
        view = view_of(source, self.function)
        return f"{self.name(source)}_{dim}" if view is None else view.dims[dim]

    def address(self, source: SSAValue, subscripts: Sequence[SSAValue]) -> str:
        """Return the two arguments that every load and store begins with: base address and byte offset.

        A subscript of a view counts steps of the last of the dimensions that it merges. Where operations of the block
        take several parts of a row, its address is computed once: that saves Numba up to half of its time.
        """
        view, is_shared = source.owner, self._is_shared(source, subscripts)
        lasts = [group[-1] for group in merged_dims(view)] if isinstance(view, memref.CollapseShapeOp) else None
        source = SSAValue.get(viewed(source), type=MemRefType)
        fixed, varying = list[str](), list[str]()
        for dim, subscript in enumerate(subscripts):
            place = self.value(subscript)
            if place != "0":
                stride = self.stride(source, dim if lasts is None else lasts[dim])
                is_part = isinstance(subscript.owner, arith.ConstantOp) if is_shared else self._varies(subscript)
                terms = varying if is_part else fixed
                terms.append(place if stride == "1" else f"{place} * {stride}")
        width = element_size_bytes(source.type.element_type)
        base = self.current.use(self.name(source))
        if fixed and (varying or is_shared):
            base = f"{base} + {_scaled(width, fixed)}"
            base = self._row(base) if is_shared else base
            return f"{base}, {_scaled(width, varying)}"
        return f"{base}, {_scaled(width, varying or fixed)}"

    def _is_shared(self, source: SSAValue, subscripts: Sequence[SSAValue]) -> bool:
        """Return whether several operations of the block that is printed take parts of a row, at constant places."""
        assert self.printed is not None
        block = self.printed.parent
        if block not in self.parts_of_rows:
            found = self.parts_of_rows[block] = Counter[tuple[SSAValue, ...]]()
            for op in block.ops if block is not None else ():
                array = next((at for at, value in enumerate(op.operands) if isinstance(value.type, MemRefType)), None)
                if array is not None and isinstance(op.operands[-1].owner, arith.ConstantOp):
                    found[tuple(op.operands[array:-1])] += 1
        return self.parts_of_rows[block][(source, *subscripts[:-1])] > 1

    def _row(self, address: str) -> str:
        """Return the name of an address, such as `data_at`, which is computed in the block that is printed."""
        assert self.printed is not None
        key = self.printed.parent, address
        if key not in self.rows:
            self.rows[key] = self.current.define(self.fresh(f"{address.partition(' ')[0]}_at"))
            self.current.add(f"{self.rows[key]} = {address}", self.printed)
        return self.rows[key]

    def base_address(self, source: SSAValue, subscripts: Sequence[SSAValue | None]) -> str:
        """Return the address of an element of an argument whose other subscripts, given as None, are 0."""
        places = [(self.value(place), dim) for dim, place in enumerate(subscripts) if place is not None]
        strides = [(place, self.stride(source, dim)) for place, dim in places if place != "0"]
        terms = [place if stride == "1" else f"{place} * {stride}" for place, stride in strides]
        base = self.current.use(self.name(source))
        width = element_size_bytes(SSAValue.get(source, type=MemRefType).type.element_type)
        return f"{base} + {_scaled(width, terms)}" if terms else base

    def _varies(self, subscript: SSAValue) -> bool:
        """Return whether a subscript is computed in the block of the operation that is printed, or is a constant.

        The other subscripts make an address that the loop does not change; a constant has its place in the instruction.
        """
        assert self.printed is not None
        owner = subscript.owner
        while isinstance(owner, arith.IndexCastOp):
            owner = owner.input.owner
        return (
            isinstance(owner, arith.ConstantOp)
            or (owner if isinstance(owner, Block) else owner.parent) is self.printed.parent
        )

    def call(self, name: str, *arguments: str) -> str:
        """Return the call of an intrinsic, which is imported."""
        self.intrinsics.add(name)
        return f"{name}({', '.join(arguments)})"


def _scaled(width: int, terms: Sequence[str]) -> str:
    """Return the sum of terms in bytes; each term is a number of elements, or such a number times a stride."""
    factors = [term.split(" * ") for term in terms]
    if all(len(factor) == 1 or factor[1].isdigit() for factor in factors):
        bytes_of = [(factor[0], width * int(factor[1] if len(factor) > 1 else 1)) for factor in factors]
        fixed = sum(int(place) * scale for place, scale in bytes_of if place.isdigit())
        varying = [place if scale == 1 else f"{scale} * {place}" for place, scale in bytes_of if not place.isdigit()]
        return " + ".join([*varying, str(fixed)] if fixed or not varying else varying)
    offset = " + ".join(terms)
    return offset if width == 1 else f"{width} * ({offset})"


def literal(value: float, type_: Attribute) -> str:
    """Return a constant as a literal of Python."""
    if stored_name(type_) != str(type_):
        if value:
            raise InternalError(f"the code generator has no constant {value} of {type_}")
        return f"{numba_type(type_)}(0)"
    if isinstance(type_, AnyFloat):
        return f"{numba_type(type_)}({float(value)!r})"
    value = int(value)
    if isinstance(type_, IndexType) or not isinstance(type_, IntegerType) or type_.width.data == 64:
        return str(value)
    if type_.width.data == 1:
        return str(bool(value))
    if type_.width.data == 128:
        return f"({value & (2**64 - 1)}, {value >> 64})"
    return f"int{type_.width.data}({value})"


def element_of(type_: Attribute) -> Attribute:
    """Return the type of a vector's elements, or the type itself."""
    return type_.element_type if isinstance(type_, VectorType) else type_


def stored_name(type_: Attribute) -> str:
    """Return the name of a number's type in loads and stores: floats of 16 bits are i16, as Numba has none of them."""
    return "i16" if isinstance(type_, Float16Type | BFloat16Type) else str(type_)


def numba_type(type_: Attribute) -> str:
    """Return Numba's name of the type of a number."""
    if isinstance(type_, VectorType):
        return f"v{type_.get_shape()[0]}xi{element_size_bytes(type_.element_type) * 8}"
    if isinstance(type_, IntegerType):
        return f"int{type_.width.data}"
    if stored_name(type_) != str(type_):
        return "int16"
    return str(type_).replace("f", "float")
