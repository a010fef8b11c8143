"""What the reference interpreter does with vectors, buffers and prefetches. A vector is a tuple of its elements."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import IntegerAttr, MemRefType, VectorType
from xdsl.ir import Attribute

from ..dialects.types import numpy_dtype
from ..dialects.upstream import CompressStoreOp, FromElementsOp, PrefetchOp, SIToFPOp, UIToFPOp, is_nontemporal
from ..errors import InternalError


class VectorInterpreter:
    """Handlers that the interpreter's machine inherits; it has `load` and `store` of single elements."""

    # Every buffer made so far: kept, so that no two have one identity.
    buffers: list[np.ndarray]

    def load(self, memory: np.ndarray, subscripts: Sequence[int]) -> Any:
        """Return an element of an array."""
        raise NotImplementedError

    def store(self, memory: np.ndarray, subscripts: Sequence[int], value: Any) -> None:
        """Change an element of an array."""
        raise NotImplementedError

    def run_vector_load(self, op: vector.LoadOp, memory: np.ndarray, *subscripts: int) -> tuple[Any, ...]:
        return (tuple(self.load(memory, place) for place in lanes(op.result.type, subscripts)),)

    def run_vector_store(
        self, op: vector.StoreOp, values: Sequence[Any], memory: np.ndarray, *subscripts: int
    ) -> tuple[()]:
        assert isinstance(op.vector.type, VectorType)
        places = lanes(op.vector.type, subscripts)
        if is_nontemporal(op):
            address = memory[tuple(slice(place, place + 1) for place in places[0])].ctypes.data
            given = op.attributes.get("alignment")
            alignment = given.value.data if isinstance(given, IntegerAttr) else memory.itemsize * len(places)
            if address % alignment:
                raise InternalError(f"a streaming store at {address}, which is no multiple of {alignment} bytes")
        for place, value in zip(places, values, strict=True):
            self.store(memory, place, value)
        return ()

    def run_vector_from_elements(self, op: FromElementsOp, *elements: Any) -> tuple[Any, ...]:
        return (elements,)

    def run_vector_compressstore(self, op: CompressStoreOp, memory: np.ndarray, *rest: Any) -> tuple[()]:
        *subscripts, mask, values = rest
        chosen = [value for value, is_stored in zip(values, mask, strict=True) if is_stored & 1]
        for lane, value in enumerate(chosen):
            self.store(memory, (*subscripts[:-1], subscripts[-1] + lane), value)
        return ()

    def run_vector_reduction(self, op: vector.ReductionOp, values: Sequence[int]) -> tuple[int]:
        if op.kind.data is not vector.CombiningKindFlag.ADD or op.acc is not None:
            raise InternalError(f"the interpreter knows the sum of lanes, not {op.kind.data}")
        return (sum(values),)

    def run_vector_broadcast(self, op: vector.BroadcastOp, value: Any) -> tuple[Any, ...]:
        return ((value,) * op.vector.type.get_shape()[0],)

    def run_memref_prefetch(self, op: PrefetchOp, memory: np.ndarray, *subscripts: int) -> tuple[()]:
        return ()

    def run_memref_alloca(self, op: memref.AllocaOp | memref.AllocOp, *sizes: int) -> tuple[np.ndarray]:
        type_ = op.memref.type
        assert isinstance(type_, MemRefType)
        dtype, given = numpy_dtype(type_.element_type), iter(sizes)
        shape = [next(given) if size < 0 else size for size in type_.get_shape()]
        garbage = np.frombuffer(b"\x7f" * dtype.itemsize * math.prod(shape), dtype).copy()
        garbage = garbage.view(f"V{dtype.itemsize}" if dtype.kind == "f" else dtype).reshape(shape)
        self.buffers.append(garbage)
        return (garbage,)

    def run_memref_alloc(self, op: memref.AllocOp, *sizes: int) -> tuple[np.ndarray]:
        return self.run_memref_alloca(op, *sizes)

    def run_memref_dealloc(self, op: memref.DeallocOp, memory: np.ndarray) -> tuple[()]:
        return ()

    def run_memref_collapse_shape(self, op: memref.CollapseShapeOp, memory: np.ndarray) -> tuple[np.ndarray]:
        assert isinstance(op.result.type, MemRefType)
        groups = [[place.value.data for place in group] for group in op.reassociation]
        view = memory.reshape([math.prod(memory.shape[place] for place in group) for group in groups])
        if not np.may_share_memory(view, memory) and memory.size:
            raise InternalError(f"dimensions with gaps between them are merged, shape {memory.shape}")
        return (view,)

    def run_memref_extract_aligned_pointer_as_index(
        self, op: memref.ExtractAlignedPointerAsIndexOp, memory: np.ndarray
    ) -> tuple[int]:
        return (memory.ctypes.data,)

    def run_arith_extf(self, op: arith.ExtFOp | SIToFPOp, value: Any) -> tuple[Any]:
        return (_converted(value, op.input.type, op.result.type),)

    run_arith_sitofp = run_arith_extf

    def run_arith_uitofp(self, op: UIToFPOp, value: Any) -> tuple[Any]:
        return (_converted(value, op.input.type, op.result.type, unsigned=True),)

    def run_arith_bitcast(self, op: arith.BitcastOp, value: int) -> tuple[Any]:
        dtype = numpy_dtype(op.input.type)
        return (dtype.type(value).view(f"V{dtype.itemsize}"),)


def _converted(value: Any, source: Attribute, target: Attribute, *, unsigned: bool = False) -> Any:
    """Return a float, or an integer, as a float of another type; of a vector each lane."""
    if isinstance(source, VectorType) and isinstance(target, VectorType):
        return tuple(_converted(lane, source.element_type, target.element_type, unsigned=unsigned) for lane in value)
    given, wanted = numpy_dtype(source), numpy_dtype(target)
    if given.kind == "i":
        number = int(value) % (1 << 8 * given.itemsize) if unsigned else int(value)
    else:
        number = value.view(given)
    return wanted.type(number).view(f"V{wanted.itemsize}")


def lanes(type_: VectorType, subscripts: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the places of a vector's elements, which lie along the last dimension."""
    return [(*subscripts[:-1], subscripts[-1] + lane) for lane in range(type_.get_shape()[0])]
