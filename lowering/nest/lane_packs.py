"""Packs: a computation that all lanes of a vector share, as one vector operation for each step.

Lanes that are loaded one by one have copies of the same operations. A pack stands for one of those steps in all lanes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, MemRefType, i1, i64
from xdsl.ir import Operation, SSAValue

from ...ir.dialects.types import strides_of
from ...ir.dialects.upstream import FromElementsOp
from .bounds_arithmetic import size_of_clamp
from .queries import static_size

_REMAINDERS = (arith.RemSIOp, arith.RemUIOp)
# The code generator has this arithmetic for vectors of i64; it also compares them, and has `and` of conditions.
_ELEMENT_WISE = (
    *(arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.AndIOp, arith.ShRSIOp, arith.MinSIOp, arith.MaxSIOp),
    *(arith.MinUIOp, *_REMAINDERS),
)
_EXTENSIONS = (arith.ExtSIOp, arith.ExtUIOp)
_NOT_COMPARED = ("eq", "ne")
# Lanes of i64 are narrowed to these types.
NARROWED = (IntegerType(8), IntegerType(16))


@dataclass(frozen=True, slots=True)
class Same:
    """One value in every lane."""

    value: SSAValue


@dataclass(frozen=True, slots=True)
class Steps:
    """The first lane's value, and one more in each lane."""

    first: SSAValue


@dataclass(frozen=True, slots=True)
class Loaded:
    """Elements that lie side by side in memory; the first is the element of the first lane's load."""

    load: memref.LoadOp


@dataclass(frozen=True, slots=True)
class Computed:
    """The first lane's operation, on packs."""

    op: Operation
    operands: "tuple[Pack, ...]"


Pack = Same | Steps | Loaded | Computed


@dataclass(frozen=True, slots=True)
class Gathered:
    """The lanes of a vector as elements of one memref, at a pack of subscripts in each dimension.

    Lanes whose subscript is not below the size of its dimension load nothing; a size is None where all are below it.
    """

    memory: SSAValue
    subscripts: tuple[Pack, ...]
    sizes: tuple[SSAValue | None, ...]


def gathered(vector: FromElementsOp) -> Gathered | None:
    """Return the lanes of a vector as a gather from memory; None where their subscripts have no packs."""
    loads = [element.owner for element in vector.elements]
    first = loads[0]
    if not isinstance(first, memref.LoadOp) or isinstance(first.memref.owner, Operation):
        return None
    same = [load for load in loads if isinstance(load, memref.LoadOp) and load.memref is first.memref]
    if len(same) != len(loads):
        return None
    subscripts = [pack_of(lanes) for lanes in zip(*(load.indices for load in same), strict=True)]
    packs = tuple(pack for pack in subscripts if pack is not None)
    is_whole = len(packs) == len(subscripts) and any(isinstance(pack, Loaded | Computed) for pack in packs)
    is_whole = is_whole and not any(map(_divides, packs))
    if not is_whole:
        return None
    sizes = tuple(size_of_clamp(pack.op) if isinstance(pack, Computed) else None for pack in packs)
    unclamped = (
        pack.operands[0] if isinstance(pack, Computed) and size is not None else pack
        for pack, size in zip(packs, sizes, strict=True)
    )
    return Gathered(first.memref, tuple(unclamped), sizes)


def packed(vector: FromElementsOp) -> Pack | None:
    """Return the pack of the lanes of a vector; None where there is none."""
    return pack_of(list(vector.elements))


def extended_truths(pack: Pack) -> Pack | None:
    """Return the pack of conditions that a pack extends to 0 and 1; None for any other pack."""
    if isinstance(pack, Computed) and isinstance(pack.op, arith.ExtUIOp) and pack.op.input.type == i1:
        return pack.operands[0]
    return None


def _divides(pack: Pack) -> bool:
    """Return whether a pack has remainders, each of which takes longer than the load of a lane."""
    return isinstance(pack, Computed) and (isinstance(pack.op, _REMAINDERS) or any(map(_divides, pack.operands)))


def only_in_lanes(vectors: Mapping[FromElementsOp, Iterable[Pack]]) -> set[Operation]:
    """Return the operations that become unused when the lanes of these vectors are computed from their packs."""
    needed, alone = set[SSAValue](), set[Operation](vectors)
    pending: list[Operation] = []
    for vector, packs in vectors.items():
        for pack in packs:
            needed |= _scalars(pack)
        pending += [element.owner for element in vector.elements if isinstance(element.owner, Operation)]
    while pending:
        op = pending.pop()
        uses = {use.operation for result in op.results for use in result.uses}
        if op in alone or needed.intersection(op.results) or not uses <= alone:
            continue
        alone.add(op)
        pending += [operand.owner for operand in op.operands if isinstance(operand.owner, Operation)]
    return alone.difference(vectors)


def _scalars(pack: Pack) -> set[SSAValue]:
    """Return the values that a pack takes from outside, each with and without its casts."""
    match pack:
        case Same(value) | Steps(value):
            return {value, uncast(value)}
        case Loaded(load):
            return {scalar for index in load.indices for scalar in (index, uncast(index))}
        case Computed(_, operands):
            return set().union(*map(_scalars, operands))


def uncast(value: SSAValue) -> SSAValue:
    """Return a value without the casts of its type."""
    while isinstance(value.owner, arith.IndexCastOp):
        value = value.owner.input
    return value


def pack_of(lanes: Sequence[SSAValue]) -> Pack | None:
    """Return the pack of a value in each lane; None where there is none."""
    steps = _steps(lanes)
    if steps is not None and lanes[0].type != i1:
        return Steps(lanes[0]) if steps else Same(lanes[0])
    owners = [uncast(value).owner for value in lanes]
    first = owners[0]
    if any(not isinstance(op, type(first)) for op in owners):
        return None
    if isinstance(first, memref.LoadOp):
        return Loaded(first) if _lie_side_by_side([op for op in owners if isinstance(op, memref.LoadOp)]) else None
    lane_ops = [op for op in owners if isinstance(op, Operation)]
    if not (isinstance(first, Operation) and _is_element_wise(first)):
        return None
    if any(op.properties != first.properties for op in lane_ops):
        return None
    columns = zip(*(op.operands for op in lane_ops), strict=True)
    operands = [pack_of(column) for column in columns]
    packs = tuple(pack for pack in operands if pack is not None)
    is_whole = len(packs) == len(operands)
    if isinstance(first, _EXTENSIONS) and is_whole and first.input.type != i1:
        is_whole = isinstance(packs[0], Loaded)
    return Computed(first, packs) if is_whole else None


def _is_element_wise(op: Operation) -> bool:
    """Return whether the code generator has an operation for vectors."""
    if isinstance(op, arith.CmpiOp):
        predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        return op.lhs.type in (i64, IndexType()) and predicate not in _NOT_COMPARED
    if isinstance(op, arith.AndIOp) and op.result.type == i1:
        return True
    if isinstance(op, arith.TruncIOp):
        return op.input.type == i64 and op.result.type in NARROWED
    return isinstance(op, _ELEMENT_WISE + _EXTENSIONS) and op.results[0].type in (i64, IndexType())


def _steps(lanes: Sequence[SSAValue]) -> int | None:
    """Return 0 where a value is the same in all lanes, 1 where it grows by one from lane to lane, otherwise None."""
    (base, first), *others = map(_place, lanes)
    if any(other != base for other, _ in others):
        return None
    offsets = [offset - first for _, offset in others]
    return next((step for step in (0, 1) if offsets == [step * lane for lane in range(1, len(lanes))]), None)


def _place(value: SSAValue) -> tuple[tuple[SSAValue, ...], int]:
    """Split a value into the values that it is computed from, and a constant that is added to them."""
    value = uncast(value)
    op, number = value.owner, _number(value)
    if number is not None:
        return (), number
    if isinstance(op, arith.AddiOp) and (number := _number(op.rhs)) is not None:
        base, offset = _place(op.lhs)
        return base, offset + number
    if isinstance(op, arith.SubiOp):
        base, offset = _place(op.lhs)
        return (*base, uncast(op.rhs)), offset
    return (value,), 0


def _number(value: SSAValue) -> int | None:
    """Return the number that a constant stands for, or a size that is known."""
    constant = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    return constant.value.data if isinstance(constant, IntegerAttr) else static_size(value)


def _lie_side_by_side(loads: Sequence[memref.LoadOp]) -> bool:
    """Return whether loads read elements of one memref that lie side by side."""
    memory = SSAValue.get(loads[0].memref, type=MemRefType)
    if any(load.memref is not memory for load in loads):
        return False
    steps = [_steps(lanes) for lanes in zip(*(load.indices for load in loads), strict=True)]
    if sorted(map(str, steps)) != [*["0"] * (len(steps) - 1), "1"]:
        return False
    dim, strides = steps.index(1), strides_of(memory.type)
    if strides is not None:
        return strides[dim] == 1
    return all(size == 1 for size in memory.type.get_shape()[dim + 1 :])
