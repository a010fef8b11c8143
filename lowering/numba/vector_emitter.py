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
        self.current.add(f"{self.current.define(self.name(op.results[0]))} = {expression}", op.name)

    def vector_intrinsic(self, name: str) -> str:
        self.vector_intrinsics.add(name)
        return name

    def vector_operation(self, op: Operation, type_: VectorType) -> None:
        """Add an element-wise operation of two vectors."""
        if op.name not in _ELEMENT_WISE:
            raise InternalError(f"the code generator has no form for {op.name} of vectors")
        call = self.vector_intrinsic(f"{_ELEMENT_WISE[op.name]}_{numba_type(type_)}")
        self.assign(op, f"{call}({', '.join(map(self.value, op.operands))})")

    def emit_vector_load(self, op: vector.LoadOp) -> None:
        kind = "reload" if viewed(op.base) in self.written else "load"
        call = self.vector_intrinsic(f"{kind}_{numba_type(op.result.type)}")
        self.assign(op, f"{call}({self.address(op.base, op.indices)})")

    def emit_vector_store(self, op: vector.StoreOp) -> None:
        kind = "store"
        if is_nontemporal(op):
            given = op.attributes.get("alignment")
            is_anywhere = isinstance(given, IntegerAttr) and given.value.data < STREAM_BYTES
            kind = "stream_anywhere" if is_anywhere else "stream"
        call = self.vector_intrinsic(f"{kind}_{numba_type(op.vector.type)}")
        self.current.add(f"{call}({self.address(op.base, op.indices)}, {self.value(op.vector)})", op.name)

    def emit_vector_from_elements(self, op: FromElementsOp) -> None:
        call = self.vector_intrinsic(f"join_{numba_type(op.result.type)}")
        self.assign(op, f"{call}({', '.join(map(self.value, op.elements))})")

    def emit_vector_broadcast(self, op: vector.BroadcastOp) -> None:
        call = self.vector_intrinsic(f"broadcast_{numba_type(op.vector.type)}")
        self.assign(op, f"{call}({self.value(op.source)})")

    def emit_memref_prefetch(self, op: PrefetchOp) -> None:
        call = self.vector_intrinsic(f"prefetch_{op.locality.value.data}")
        self.current.add(f"{call}({self.address(op.memref, op.indices)})", op.name)

    def emit_memref_alloca(self, op: memref.AllocaOp) -> None:
        type_ = op.memref.type
        assert isinstance(type_, MemRefType) and isinstance(type_.element_type, IntegerType)
        call = self.vector_intrinsic(f"stack_{math.prod(type_.get_shape())}xi{type_.element_type.width.data}")
        self.assign(op, f"{call}()")
