"""The printer of vectors, buffers and prefetches: calls of `vector_intrinsics`."""

import math

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, IntegerType, MemRefType, ModuleOp, VectorType, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ...ir.dialects.attributes import GATHERED
from ...ir.dialects.types import element_size_bytes
from ...ir.dialects.upstream import CompressStoreOp, FromElementsOp, PrefetchOp, is_nontemporal
from ...ir.errors import InternalError
from ..nest.bounds_arithmetic import is_clamp, is_wrap
from ..nest.lane_packs import (
    Computed,
    Gathered,
    Loaded,
    Pack,
    Same,
    Steps,
    extended_truths,
    gathered,
    only_in_lanes,
    packed,
    uncast,
)
from ..nest.queries import viewed, written
from ..schedule.machine_model import PART_BYTES, STREAM_BYTES
from .naming import INDENT, Naming, numba_type
from .program import NO_MEMORY

_ELEMENT_WISE = {"arith.andi": "and", "arith.addf": "addf", "arith.mulf": "mulf", "arith.divf": "divf"} | {
    f"arith.{name}": name for name in ("addi", "subi", "muli", "shrsi", "minsi", "maxsi", "minui", "remsi", "remui")
}


class VectorEmitter(Naming):
    """Prints vector operations, one a line."""

    def __init__(self, module: ModuleOp, function: FuncOp):
        super().__init__(module, function)
        self.vector_intrinsics: set[str] = set()
        self.adjacent: list[memref.AllocOp] = []
        self.written = written(function)
        marked = [op for op in function.walk() if isinstance(op, FromElementsOp) and GATHERED in op.attributes]
        self.gathers = {op: found for op in marked if (found := gathered(op)) is not None}
        users = [op for op in function.walk() if isinstance(op, CompressStoreOp | vector.ReductionOp) or _narrows(op)]
        lanes = dict.fromkeys(value.owner for op in users for value in op.operands)
        self.packs = {op: found for op in lanes if isinstance(op, FromElementsOp) and (found := packed(op)) is not None}
        self.counted: dict[Operation | Block, Pack] = {
            op: truths
            for op, pack in self.packs.items()
            if (truths := extended_truths(pack)) is not None
            and all(isinstance(use.operation, vector.ReductionOp) for use in op.result.uses)
        }
        self.made: dict[Block | None, dict[Pack, str]] = {}
        self.parts: dict[Operation, dict[int, str]] = {
            op: {}
            for op in function.walk()
            if isinstance(op, FromElementsOp) and op not in self.gathers and op not in self.packs and _has_branches(op)
        }
        places = {
            op: (*found.subscripts, *(Same(size) for size in found.sizes if size is not None))
            for op, found in self.gathers.items()
        }
        self.in_lanes = only_in_lanes(places | {op: (pack,) for op, pack in self.packs.items()})

    def assign(self, op: Operation, expression: str) -> None:
        """Add `name = expression` for the one result of an op."""
        self.current.add(f"{self.current.define(self.name(op.results[0]))} = {expression}", op)

    def vector_call(self, name: str, *arguments: str) -> str:
        """Return the call of a vector intrinsic, which is imported."""
        self.vector_intrinsics.add(name)
        return f"{name}({', '.join(arguments)})"

    def vector_operation(self, op: Operation, type_: VectorType) -> None:
        """Add an element-wise operation of two vectors."""
        if op.name not in _ELEMENT_WISE:
            raise InternalError(f"the code generator has no form for {op.name} of vectors")
        name = f"{_ELEMENT_WISE[op.name]}_{numba_type(type_)}"
        self.assign(op, self.vector_call(name, *map(self.value, op.operands)))

    def vector_select(self, op: arith.SelectOp) -> None:
        """Add the larger lanes of two vectors of floats."""
        compared = op.cond.owner
        if not isinstance(compared, arith.CmpfOp) or list(compared.operands) != [op.lhs, op.rhs]:
            raise InternalError("the code generator selects the larger lanes of two vectors, and no others")
        name = f"larger_{numba_type(op.result.type)}"
        self.assign(op, self.vector_call(name, self.value(op.lhs), self.value(op.rhs)))

    def emit_vector_load(self, op: vector.LoadOp) -> None:
        kind = "reload" if viewed(op.base) in self.written else "load"
        address = self.address(op.base, op.indices)
        self.assign(op, self.vector_call(f"{kind}_{numba_type(op.result.type)}", address))

    def emit_vector_store(self, op: vector.StoreOp) -> None:
        kind = "store"
        if is_nontemporal(op):
            given = op.attributes.get("alignment")
            alignment = given.value.data if isinstance(given, IntegerAttr) else STREAM_BYTES
            kind = "stream_anywhere" if alignment < STREAM_BYTES else "stream"
            kind = "stream_whole" if alignment > STREAM_BYTES else kind
        place, value = self.address(op.base, op.indices), self.value(op.vector)
        self.current.add(self.vector_call(f"{kind}_{numba_type(op.vector.type)}", place, value), op)

    def emit_vector_from_elements(self, op: FromElementsOp) -> None:
        if (found := self.gathers.get(op)) is not None:
            return self._gather(op, found)
        if (pack := self.packs.get(op)) is not None:
            packed_here = self.counted.get(op, pack)
            self.names[op.result] = self._packed(packed_here, len(op.elements), self.made.setdefault(op.parent, {}))
            return
        if (parts := self.parts.get(op)) is not None:
            return self.assign(op, self.vector_call(f"concat_{numba_type(op.result.type)}", *parts.values()))
        self.assign(op, self.vector_call(f"join_{numba_type(op.result.type)}", *map(self.value, op.elements)))

    def insert_lane(self, op: memref.LoadOp) -> None:
        """Insert an element into its vector right away: LLVM does not move the insert across the branch of a clamp."""
        joined = next((use.operation for use in op.res.uses if use.operation in self.parts), None)
        if not isinstance(joined, FromElementsOp):
            return
        parts, bits = self.parts[joined], 8 * element_size_bytes(op.res.type)
        part, lane = divmod(list(joined.elements).index(op.res), 8 * PART_BYTES // bits)
        type_, element = f"v{8 * PART_BYTES // bits}xi{bits}", self.value(op.res)
        if part in parts:
            expression = self.vector_call(f"insert_{type_}", parts[part], element, str(lane))
        else:
            parts[part] = self.current.define(self.fresh("part"))
            expression = self.vector_call(f"broadcast_{type_}", element)
        self.current.add(f"{parts[part]} = {expression}", op)

    def _gather(self, op: FromElementsOp, found: Gathered) -> None:
        """Add the places of all lanes, as vectors, and the gather of their elements."""
        lanes, made = len(op.elements), dict[Pack, str]()
        type_ = f"v{lanes}xi64"
        others = [pack.value if isinstance(pack, Same) else None for pack in found.subscripts]
        place = inside = ""
        for dim, (pack, size) in enumerate(zip(found.subscripts, found.sizes, strict=True)):
            if isinstance(pack, Same):
                continue
            along, stride = self._packed(pack, lanes, made), self.stride(found.memory, dim)
            if size is not None:
                end = self.vector_call(f"broadcast_{type_}", self.value(size))
                below = self.vector_call(f"ult_{type_}", along, end)
                inside = self.vector_call(f"and_v{lanes}xi1", inside, below) if inside else below
            if stride != "1":
                along = self.vector_call(f"muli_{type_}", along, self.vector_call(f"broadcast_{type_}", stride))
            place = self.vector_call(f"addi_{type_}", place, along) if place else along
        base = self.base_address(found.memory, others)
        name, masks = ("gather_inside", [inside]) if inside else ("gather", [])
        self.assign(op, self.vector_call(f"{name}_{numba_type(op.result.type)}", base, place, *masks))

    def _packed(self, pack: Pack, lanes: int, made: dict[Pack, str]) -> str:
        """Return the expression of a pack of i64, whose operations are added once each."""
        if pack in made:
            return made[pack]
        type_ = f"v{lanes}xi64"
        match pack:
            case Same(value):
                expression = self.vector_call(f"broadcast_{type_}", self.value(value))
            case Steps(first):
                expression = self.vector_call(f"steps_{type_}", self.value(first))
            case Loaded(load):
                expression = self._loaded(load, lanes)
            case Computed(arith.TruncIOp() as op, (wide,)):
                name = f"narrow_v{lanes}x{op.result.type}"
                expression = self.vector_call(name, self._packed(wide, lanes, made))
            case Computed(op, (narrow,)):
                kind = "extend" if isinstance(op, arith.ExtSIOp) else "extend_unsigned"
                expression = self.vector_call(
                    f"{kind}_v{lanes}x{op.operands[0].type}", self._packed(narrow, lanes, made)
                )
            case Computed(op, (Computed(arith.AddiOp(), (_, size)), index)) if is_wrap(op):
                sides = self._packed(index, lanes, made), self._packed(size, lanes, made)
                expression = self.vector_call(f"wrap_{type_}", *sides)
            case Computed(op, (left, right)):
                sides = self._packed(left, lanes, made), self._packed(right, lanes, made)
                name = _ELEMENT_WISE.get(op.name)
                if isinstance(op, arith.CmpiOp):
                    name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
                elif op.results[0].type == i1:
                    type_ = f"v{lanes}xi1"
                expression = self.vector_call(f"{name}_{type_}", *sides)
            case _:
                raise InternalError(f"the code generator has no form for {pack}")
        if isinstance(pack, Computed | Loaded):
            op = pack.op if isinstance(pack, Computed) else pack.load
            name = self.current.define(self.fresh(f"{op.results[0].name_hint or 'v'}_lanes"))
            self.current.add(f"{name} = {expression}", op)
            expression = name
        made[pack] = expression
        return expression

    def _loaded(self, load: memref.LoadOp, lanes: int) -> str:
        kind = "reload" if viewed(load.memref) in self.written else "load"
        address = self.address(load.memref, load.indices)
        return self.vector_call(f"{kind}_{numba_type(VectorType(load.res.type, [lanes]))}", address)

    def emit_vector_compressstore(self, op: CompressStoreOp) -> None:
        kind, place = numba_type(op.value.type), self.address(op.base, op.indices)
        self.current.add(self.vector_call(f"compress_{kind}", place, self.value(op.mask), self.value(op.value)), op)

    def emit_vector_reduction(self, op: vector.ReductionOp) -> None:
        if op.acc is not None or op.kind.data != vector.CombiningKindFlag.ADD:
            raise InternalError("the code generator knows one reduction of a vector, the sum of its lanes alone")
        (lanes,) = SSAValue.get(op.vector, type=VectorType).type.get_shape()
        is_counted = op.vector.owner in self.counted
        name = f"count_v{lanes}xi1" if is_counted else f"sum_{numba_type(op.vector.type)}"
        self.assign(op, self.vector_call(name, self.value(op.vector)))

    def emit_vector_broadcast(self, op: vector.BroadcastOp) -> None:
        is_number = isinstance(op.source.type, AnyFloat) and not isinstance(op.source.owner, arith.ConstantOp)
        name = f"broadcast{'f' if is_number else ''}_{numba_type(op.vector.type)}"
        self.assign(op, self.vector_call(name, self.value(op.source)))

    def emit_memref_prefetch(self, op: PrefetchOp) -> None:
        place = self.address(op.memref, op.indices)
        self.current.add(self.vector_call(f"prefetch_{op.locality.value.data}", place), op)

    def emit_memref_alloc(self, op: memref.AllocOp) -> None:
        """Take memory once for all adjacent operations: later calls then reuse it where it is less than a few MB."""
        if op in self.adjacent:
            return
        self.adjacent, following = [op], op.next_op
        while isinstance(following, memref.AllocOp):
            self.adjacent.append(following)
            following = following.next_op
        sizes = list(map(self._size_bytes, self.adjacent))
        self.assign(op, self.vector_call("take_memory", " + ".join(sizes)))
        self.current.add(f"if not {self.value(op.memref)}:", op)
        self.current.add(f"{INDENT}return {NO_MEMORY}", op)
        for before, size, other in zip(self.adjacent, sizes, self.adjacent[1:], strict=False):
            self.assign(other, f"{self.value(before.memref)} + {size}")

    def _size_bytes(self, op: memref.AllocOp) -> str:
        type_ = op.memref.type
        assert isinstance(type_, MemRefType)
        (count,) = op.dynamic_sizes
        return f"{element_size_bytes(type_.element_type)} * {self.value(count)}"

    def emit_memref_dealloc(self, op: memref.DeallocOp) -> None:
        if op.memref.owner is self.adjacent[0]:
            self.current.add(self.vector_call("give_back_memory", self.value(op.memref)), op)

    def emit_memref_alloca(self, op: memref.AllocaOp) -> None:
        type_ = op.memref.type
        assert isinstance(type_, MemRefType)
        bits = 8 * element_size_bytes(type_.element_type)
        self.assign(op, self.vector_call(f"stack_{math.prod(type_.get_shape())}xi{bits}"))


def _has_branches(vector: FromElementsOp) -> bool:
    """Return whether a vector has whole parts, and lanes that are loaded for it alone, each at a clamped position."""
    loads = [element.owner for element in vector.elements]
    if not isinstance(type_ := vector.elements[0].type, IntegerType) or type_.width.data not in (8, 16, 32, 64):
        return False
    return len(loads) * type_.width.data >= 8 * PART_BYTES and all(
        isinstance(load, memref.LoadOp)
        and load.parent is vector.parent
        and len(list(load.res.uses)) == 1
        and any(isinstance(op := uncast(place).owner, Operation) and is_clamp(op) for place in load.indices)
        for load in loads
    )


def _narrows(op: Operation) -> bool:
    """Return whether an operation stores a vector whose lanes are narrowed one by one."""
    lanes = op.vector.owner if isinstance(op, vector.StoreOp) else None
    return isinstance(lanes, FromElementsOp) and isinstance(lanes.elements[0].owner, arith.TruncIOp)
