"""The printer of vectors, buffers and prefetches: calls of `vector_intrinsics`."""

import math

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, ModuleOp, VectorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ...ir.dialects.upstream import FromElementsOp, PrefetchOp, is_nontemporal
from ...ir.errors import InternalError
from ..nest.queries import viewed, written
from ..schedule.machine_model import STREAM_BYTES
from .naming import Naming, numba_type

_ELEMENT_WISE = {"arith.andi": "and", "arith.addi": "addi", "arith.addf": "addf"}


class VectorEmitter(Naming):
    """Prints vector operations, one a line."""

    def __init__(self, module: ModuleOp, function: FuncOp):
        super().__init__(module, function)
        self.vector_intrinsics: set[str] = set()
        self.written = written(function)

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

    def emit_vector_load(self, op: vector.LoadOp) -> None:
        kind = "reload" if viewed(op.base) in self.written else "load"
        address = self.address(op.base, op.indices)
        self.assign(op, self.vector_call(f"{kind}_{numba_type(op.result.type)}", address))

    def emit_vector_store(self, op: vector.StoreOp) -> None:
        kind = "store"
        if is_nontemporal(op):
            given = op.attributes.get("alignment")
            is_anywhere = isinstance(given, IntegerAttr) and given.value.data < STREAM_BYTES
            kind = "stream_anywhere" if is_anywhere else "stream"
        place, value = self.address(op.base, op.indices), self.value(op.vector)
        self.current.add(self.vector_call(f"{kind}_{numba_type(op.vector.type)}", place, value), op)

    def emit_vector_from_elements(self, op: FromElementsOp) -> None:
        self.assign(op, self.vector_call(f"join_{numba_type(op.result.type)}", *map(self.value, op.elements)))

    def emit_vector_broadcast(self, op: vector.BroadcastOp) -> None:
        self.assign(op, self.vector_call(f"broadcast_{numba_type(op.vector.type)}", self.value(op.source)))

    def emit_memref_prefetch(self, op: PrefetchOp) -> None:
        place = self.address(op.memref, op.indices)
        self.current.add(self.vector_call(f"prefetch_{op.locality.value.data}", place), op)

    def emit_memref_alloca(self, op: memref.AllocaOp) -> None:
        type_ = op.memref.type
        assert isinstance(type_, MemRefType) and isinstance(type_.element_type, IntegerType)
        self.assign(op, self.vector_call(f"stack_{math.prod(type_.get_shape())}xi{type_.element_type.width.data}"))
