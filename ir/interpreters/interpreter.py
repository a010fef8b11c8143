"""The reference interpreter: run any stage of any gather on ndarrays, one operation at a time. The second oracle.

`ir.reference` carries out the operators of levels 0 and 1; from the nest down, each operation is run alone, on Python
ints for values and ndarrays for memory, so that a wrong pass gives wrong bytes. The iterations of parallel
loops run in a shuffled order, and every load and store is checked against its array.
"""

import math
import operator
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation
from xdsl.traits import SymbolTable

from .. import reference
from ..dialects.gather_dialect import AccumulateOp, GradientOp, LoopOp, MaskedLoadOp, OperatorOp, ResolveOp, YieldOp
from ..dialects.types import dense_array, numpy_dtype
from ..dialects.upstream import CompressStoreOp, FromElementsOp, PrefetchOp, SIToFPOp, UIToFPOp, is_nontemporal
from ..errors import BoundsError, InternalError, InvalidGatherError, out_of_range
from ..modules.context import find_function
from .argument_views import bind_argument, bind_arguments


def interpret(
    module: ModuleOp,
    data: np.ndarray,
    indices: np.ndarray | None,
    out: np.ndarray,
    *,
    seed: int = 0,
    watched: int | None = None,
) -> str | None:
    """Run the function `@gather` of a module at any level and leave its result in `out`.

    Args:
        data, indices: the operator's own arrays, whatever the level: they are viewed as the function's arguments ask.
            `indices` is None where the module holds them as a constant. For a gradient, `data` is grad.
        out: the operator's result, written in place.
        seed: picks the order in which parallel iterations run.
        watched: the address of a byte.

    Returns:
        The operation that last stored to the watched byte and its iteration, as text; None where there is none.

    Raises:
        BoundsError: an index is not valid under the module's bounds mode; `out` is untouched from `fold-bounds` on,
            unless the function says that it is new.
        InternalError: the module breaks a rule of correct modules, as by a load outside its array. The message has
            the operation, its line where the module was parsed with lines, and the iteration.
    """
    machine = Machine(module, random.Random(seed), watched)
    machine.run(data, indices, out)
    return machine.writer


class _Writers:
    """The iteration of a parallel loop that wrote each element."""

    def __init__(self) -> None:
        self.trip: Any = None
        self.of: dict[tuple[int, tuple[int, ...]], Any] = {}

    def note(self, memory: np.ndarray, place: tuple[int, ...]) -> None:
        if self.of.setdefault((id(memory), place), self.trip) != self.trip:
            raise InternalError(f"two iterations of a parallel loop write the element at {place}")


class Step(NamedTuple):
    """An operation, with its handler and operands looked up once, since a block can run thousands of times.

    Attributes:
        operands, results: the `id` of each SSA value.
        handler: carries it out; None for a terminator.
    """

    op: Operation
    operands: tuple[int, ...]
    results: tuple[int, ...]
    handler: Callable[..., tuple[Any, ...]] | None


class Machine:
    """Runs operations; `values` maps the `id` of SSA values to ints and arrays."""

    def __init__(self, module: ModuleOp, rng: random.Random, watched: int | None):
        self.module, self.rng, self.watched = module, rng, watched
        self.writer: str | None = None
        self.op: Operation = module
        self.around: list[tuple[Block, Sequence[Any]]] = []
        self.values: dict[int, Any] = {}
        self.steps: dict[int, list[Step]] = {}
        self.writers: list[_Writers] = []
        self.buffers: list[np.ndarray] = []  # keeps all buffers alive, so that no two have one identity
        self.freed: set[int] = set()  # the identities of freed buffers

    def run(self, data: np.ndarray, indices: np.ndarray | None, out: np.ndarray) -> None:
        """Run the function `@gather` of the module, with the arguments and the errors of `interpret`."""
        function = find_function(self.module, "gather")
        views, scales = bind_arguments(function, [data, out] if indices is None else [data, indices, out])
        try:
            numbers = [number(scale, type_) for scale, type_ in scales]
            results = self.run_block(function.body.block, [*views, *numbers])
        except InternalError as error:
            raise InternalError(f"{error}; {self.where()}") from None
        if function.function_type.outputs.data and isinstance(function.function_type.outputs.data[0], TensorType):
            bound = bind_argument(out, function.function_type.outputs.data[0], None)
            if bound.shape != results[0].shape:
                raise InvalidGatherError(
                    f"the stage gives an array of shape {results[0].shape}, and the gather one of {bound.shape}; pass "
                    "the attributes and the arrays that the stage was made for"
                )
            bound[...] = results[0]
        elif results and results[0]:
            raise BoundsError(out_of_range(results[0]))

    def run_block(self, block: Block, arguments: Sequence[Any]) -> tuple[Any, ...]:
        self.around.append((block, arguments))
        for argument, value in zip(block.args, arguments, strict=True):
            self.values[id(argument)] = value
        if (steps := self.steps.get(id(block))) is None:
            steps = self.steps[id(block)] = [self._step(op) for op in block.ops]
        returned: tuple[Any, ...] = ()
        for step in steps:
            self.op = step.op
            operands = [self.values[operand] for operand in step.operands]
            if step.handler is None:
                returned = tuple(operands)
                break
            for result, value in zip(step.results, self.run_op(step, operands), strict=True):
                self.values[result] = value
        self.around.pop()
        return returned

    def where(self) -> str:
        """Return the operation that runs, its line, and the iterations around it."""
        line = self.op.location
        place = f" on line {line.line.data}" if isinstance(line, FileLineColLoc) else ""
        trips = [
            f"%{argument.name_hint or 'value'} = {value}"
            for block, values in self.around[1:]
            for argument, value in zip(block.args, values, strict=True)
            if isinstance(argument.type, IndexType)
        ]
        return f"{self.op.name}{place}{' at ' if trips else ''}{', '.join(trips)}"

    def compute(self, name: str, type_: Attribute, left: Any, right: Any) -> Any:
        """Return a sum or a product of two values of a type."""
        if isinstance(type_, IntegerType):
            return wrap(ARITHMETIC[name](bits_of(type_), left, right), bits_of(type_))
        dtype = numpy_dtype(type_)
        with np.errstate(all="ignore"):
            return FLOAT_ARITHMETIC[name](left.view(dtype), right.view(dtype)).view(f"V{dtype.itemsize}")

    @contextmanager
    def watch_stores(self, is_parallel: bool) -> Iterator["_Writers"]:
        """Watch a loop's stores: no two iterations of a parallel one may write the same element."""
        around, writers = self.writers, _Writers()
        self.writers = [*around, writers] if is_parallel else around
        yield writers
        self.writers = around

    def run_op(self, step: Step, operands: list[Any]) -> tuple[Any, ...]:
        assert step.handler is not None
        if self.freed and any(isinstance(value, np.ndarray) and id(value.base) in self.freed for value in operands):
            raise InternalError(f"{step.op.name} uses memory that is freed")
        return step.handler(step.op, *operands)

    def _step(self, op: Operation) -> Step:
        handler = None if isinstance(op, _TERMINATORS) else self._handler(op)
        return Step(op, tuple(map(id, op.operands)), tuple(map(id, op.results)), handler)

    def _handler(self, op: Operation) -> Callable[..., tuple[Any, ...]]:
        if op.name in ARITHMETIC or op.name in FLOAT_ARITHMETIC:
            type_ = op.results[0].type
            if isinstance(type_, VectorType):
                return self._run_vector_arithmetic
            if op.name in FLOAT_ARITHMETIC:
                return lambda op, *operands: (self.compute(op.name, type_, *operands),)
            function, bits, width = ARITHMETIC[op.name], bits_of(op.operands[0].type), bits_of(type_)
            return lambda op, *operands: (wrap(function(bits, *operands), width),)
        if isinstance(op, OperatorOp):
            return self.run_operator
        return getattr(self, "run_" + op.name.replace(".", "_"), _run_unknown)

    def _run_vector_arithmetic(self, op: Operation, *operands: Any) -> tuple[Any]:
        type_ = op.results[0].type
        assert isinstance(type_, VectorType)
        return (tuple(self.compute(op.name, type_.element_type, *lane) for lane in zip(*operands, strict=True)),)

    # gather

    def run_operator(self, op: OperatorOp, source: Any, indices: Any, *out: Any) -> tuple[Any, ...]:
        if op.unsigned is not None:
            indices = indices.view(f"u{indices.dtype.itemsize}")
        if isinstance(op, GradientOp):
            assert isinstance(op.target.type, TensorType | MemRefType)
            grad, shape = source.view(numpy_dtype(op.target.type.element_type)), op.shapes()[0]
            result = reference.gradient(op.normalized(), grad, indices, shape, op.bounds.data, op.factor)
        else:
            if op.SPEC.adds:
                assert isinstance(op.source.type, TensorType | MemRefType)
                dtype = numpy_dtype(op.source.type.element_type)
                source = source.view(f"u{dtype.itemsize}" if "unsigned_data" in op.properties else dtype)
            result = reference.run(op.normalized(), source, indices, op.bounds.data)
        if not out:
            return (result,)
        out[0].view(result.dtype)[...] = result
        return ()

    def run_gather_loop(self, op: LoopOp, lower: int, upper: int, step: int) -> tuple[Any, ...]:
        trips = list(range(lower, upper, step))
        if op.ordered is None:
            self.rng.shuffle(trips)
        total = 0
        with self.watch_stores(op.parallel is not None) as writers:
            for trip in trips:
                writers.trip = trip
                total += sum(self.run_block(op.body.block, [trip]))
        return (wrap(total, 64),) if op.total is not None else ()

    def run_gather_resolve(self, op: ResolveOp, index: int, size: int) -> tuple[Any, ...]:
        if op.unsigned is not None:
            index &= (1 << bits_of(op.index.type)) - 1
        position = reference.resolve(index, size, op.bounds.data)
        return (0, 0) if position is None else (position, 1)

    def run_gather_masked_load(self, op: MaskedLoadOp, memory: np.ndarray, *rest: int) -> tuple[Any, ...]:
        *subscripts, mask = rest
        return (self.load(memory, subscripts),) if mask & 1 else (number(0, op.element.type),)

    def run_gather_accumulate(self, op: AccumulateOp, element: Any, memory: np.ndarray, *rest: int) -> tuple[()]:
        subscripts, rest = rest[: len(op.subscripts)], rest[len(op.subscripts) :]
        mask = rest[0] if op.mask is not None else 1
        if mask & 1:
            kind = op.element.type
            row = lanes(kind, subscripts) if isinstance(kind, VectorType) else [subscripts]
            one = kind.element_type if isinstance(kind, VectorType) else kind
            add = "arith.addi" if isinstance(one, IntegerType) else "arith.addf"
            for place, value in zip(row, element if isinstance(kind, VectorType) else [element], strict=True):
                so_far = self.load(memory, place)
                if op.first is None:
                    self.store(memory, place, self.compute(add, one, so_far, value))
                else:
                    self.store(memory, place, value if rest[-1] & 1 or is_larger(one, value, so_far) else so_far)
        return ()

    # memref

    def run_memref_load(self, op: memref.LoadOp, memory: np.ndarray, *subscripts: int) -> tuple[Any, ...]:
        return (self.load(memory, subscripts),)

    def run_memref_store(self, op: memref.StoreOp, value: Any, memory: np.ndarray, *subscripts: int) -> tuple[()]:
        self.store(memory, subscripts, value)
        return ()

    def load(self, memory: np.ndarray, subscripts: Sequence[int]) -> Any:
        value = memory[_place(memory, subscripts)]
        return value if memory.dtype.kind == "V" else int(value)

    def store(self, memory: np.ndarray, subscripts: Sequence[int], value: Any) -> None:
        """Store a value, as one iteration of each parallel loop that runs."""
        place = _place(memory, subscripts)
        for writers in self.writers:
            writers.note(memory, place)
        if self.watched is not None:
            start = memory.ctypes.data + sum(map(operator.mul, place, memory.strides))
            self.writer = self.where() if start <= self.watched < start + memory.itemsize else self.writer
        if memory.dtype.kind == "V":
            memory[place] = value if isinstance(value, np.void) else np.zeros((), memory.dtype)[()]
        else:
            memory[place] = value

    def run_memref_dim(self, op: memref.DimOp, memory: np.ndarray, dim: int) -> tuple[int]:
        return (memory.shape[dim],)

    def run_memref_get_global(self, op: memref.GetGlobalOp) -> tuple[np.ndarray]:
        found = SymbolTable.lookup_symbol(self.module, op.name_)
        if not isinstance(found, memref.GlobalOp):
            raise InternalError(f"no global {op.name_}")
        assert isinstance(found.initial_value, DenseIntOrFPElementsAttr)
        return (dense_array(found.initial_value),)

    # scf

    def run_scf_for(self, op: scf.ForOp, lower: int, upper: int, step: int, *carried: Any) -> tuple[Any, ...]:
        for trip in range(lower, upper, step):
            carried = self.run_block(op.body.block, [trip, *carried])
        return tuple(carried)

    def run_scf_if(self, op: scf.IfOp, condition: int) -> tuple[Any, ...]:
        region = op.true_region if condition & 1 else op.false_region
        return self.run_block(region.block, []) if region.blocks else ()

    def run_scf_parallel(self, op: scf.ParallelOp, *operands: int) -> tuple[Any, ...]:
        rank = len(op.lowerBound)
        ranges = [range(*operands[dim : 3 * rank : rank]) for dim in range(rank)]
        trips = [[ranges[dim][place] for dim, place in enumerate(point)] for point in np.ndindex(*map(len, ranges))]
        self.rng.shuffle(trips)
        totals = list(operands[3 * rank :])
        reduce = op.body.block.last_op
        assert isinstance(reduce, scf.ReduceOp)
        with self.watch_stores(True) as writers:
            for trip in trips:
                writers.trip = trip
                for place, value in enumerate(self.run_block(op.body.block, trip)):
                    (totals[place],) = self.run_block(reduce.reductions[place].block, [totals[place], value])
        return tuple(totals)

    # arith

    def run_arith_constant(self, op: arith.ConstantOp) -> tuple[Any]:
        if isinstance(op.value, DenseIntOrFPElementsAttr):
            return (dense_array(op.value),)
        assert isinstance(op.value, IntegerAttr | FloatAttr)
        return (number(op.value.value.data, op.result.type),)

    def run_arith_cmpi(self, op: arith.CmpiOp, left: int, right: int) -> tuple[int]:
        predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        if predicate.startswith("u"):
            mask = (1 << bits_of(op.lhs.type)) - 1
            left, right = left & mask, right & mask
        return (int(getattr(operator, predicate.lstrip("us"))(left, right)),)  # eq, ne, lt, le, gt or ge

    def run_arith_cmpf(self, op: arith.CmpfOp, left: Any, right: Any) -> tuple[Any]:
        if arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data] != "ogt":
            raise InternalError("the interpreter knows arith.cmpf ogt and no other")
        type_ = op.lhs.type
        if isinstance(type_, VectorType):
            return (tuple(is_larger(type_.element_type, *pair) for pair in zip(left, right, strict=True)),)
        return (is_larger(type_, left, right),)

    def run_arith_select(self, op: arith.SelectOp, condition: Any, left: Any, right: Any) -> tuple[Any]:
        if isinstance(op.cond.type, VectorType):
            lanes_of = zip(condition, left, right, strict=True)
            return (tuple(one if is_chosen & 1 else other for is_chosen, one, other in lanes_of),)
        return (left if condition & 1 else right,)

    # vectors, which are tuples of their elements, buffers and prefetches

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
        self.freed.add(id(memory.base))  # a buffer and its views have one base
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
        return (_convert(value, op.input.type, op.result.type),)

    run_arith_sitofp = run_arith_extf

    def run_arith_uitofp(self, op: UIToFPOp, value: Any) -> tuple[Any]:
        return (_convert(value, op.input.type, op.result.type, unsigned=True),)

    def run_arith_bitcast(self, op: arith.BitcastOp, value: int) -> tuple[Any]:
        dtype = numpy_dtype(op.input.type)
        return (dtype.type(value).view(f"V{dtype.itemsize}"),)


def _run_unknown(op: Operation, *operands: Any) -> tuple[Any, ...]:
    raise InternalError(f"the interpreter does not know {op.name}")


_TERMINATORS = (func.ReturnOp, YieldOp, scf.YieldOp, scf.ReduceOp, scf.ReduceReturnOp)


def _place(memory: np.ndarray, subscripts: Sequence[int]) -> tuple[int, ...]:
    place = tuple(subscripts)
    for subscript, size in zip(place, memory.shape, strict=True):
        if not 0 <= subscript < size:
            raise InternalError(f"access at {place} is outside an array of shape {memory.shape}")
    return place


def _convert(value: Any, source: Attribute, target: Attribute, *, unsigned: bool = False) -> Any:
    """Convert a float or an integer, or each lane of a vector, to a float of another type."""
    if isinstance(source, VectorType) and isinstance(target, VectorType):
        return tuple(_convert(lane, source.element_type, target.element_type, unsigned=unsigned) for lane in value)
    given, wanted = numpy_dtype(source), numpy_dtype(target)
    if given.kind == "i":
        number = int(value) % (1 << 8 * given.itemsize) if unsigned else int(value)
    else:
        number = value.view(given)
    return wanted.type(number).view(f"V{wanted.itemsize}")


def lanes(type_: VectorType, subscripts: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the places of a vector's elements, which lie along the last dimension."""
    return [(*subscripts[:-1], subscripts[-1] + lane) for lane in range(type_.get_shape()[0])]


# In arithmetic, integers are signed Python ints, and floats are void scalars of their bytes.


def number(value: float, type_: Attribute) -> Any:
    """Return a number as a value of a type: an int for an integer, a void scalar for a float."""
    if isinstance(type_, IntegerType | IndexType):
        return wrap(int(value), bits_of(type_))
    dtype = numpy_dtype(type_)
    return dtype.type(value).view(f"V{dtype.itemsize}")


def is_larger(type_: Attribute, left: Any, right: Any) -> int:
    """Return 1 where the left number is larger than the right one, else 0; a comparison with a NaN gives 0."""
    if isinstance(type_, IntegerType):
        return int(left > right)
    dtype = numpy_dtype(type_)
    return int(left.view(dtype) > right.view(dtype))


def bits_of(type_: Attribute) -> int:
    """Return the number of bits of a type's values."""
    if isinstance(type_, IndexType):
        return 64
    assert isinstance(type_, IntegerType)
    return type_.width.data


def wrap(value: int, bits: int) -> int:
    """Return `value` as a signed integer of that many bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) and bits > 1 else value


def _unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def _truncated_remainder(left: int, right: int) -> int:
    return left % abs(right) if left >= 0 else -(-left % abs(right))


FLOAT_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addf": operator.add,
    "arith.mulf": operator.mul,
    "arith.divf": operator.truediv,
}

ARITHMETIC: dict[str, Callable[..., int]] = {
    "arith.addi": lambda bits, a, b: a + b,
    "arith.subi": lambda bits, a, b: a - b,
    "arith.muli": lambda bits, a, b: a * b,
    "arith.andi": lambda bits, a, b: a & b,
    "arith.ori": lambda bits, a, b: a | b,
    "arith.shrsi": lambda bits, a, b: a >> b,
    "arith.remsi": lambda bits, a, b: _truncated_remainder(a, b),
    "arith.divui": lambda bits, a, b: _unsigned(a, bits) // _unsigned(b, bits),
    "arith.remui": lambda bits, a, b: _unsigned(a, bits) % _unsigned(b, bits),
    "arith.minsi": lambda bits, a, b: min(a, b),
    "arith.maxsi": lambda bits, a, b: max(a, b),
    "arith.minui": lambda bits, a, b: min(_unsigned(a, bits), _unsigned(b, bits)),
    "arith.extsi": lambda bits, a: -(a & 1) if bits == 1 else a,
    "arith.extui": lambda bits, a: _unsigned(a, bits),
    "arith.index_cast": lambda bits, a: a,
    "arith.trunci": lambda bits, a: a,
}
