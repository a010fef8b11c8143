"""Walk a nest, from `lower-gather-to-nest` down to upstream loops, and collect what it means."""

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl
import z3
from xdsl.dialects import func, memref, scf, vector
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, VectorType
from xdsl.ir import Block, Operation, SSAValue

from ....ir.dialects.attributes import MIN_AXIS_SIZES, NARROW_AXES
from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, MaskedLoadOp, OperatorOp, ResolveOp, YieldOp
from ....ir.dialects.upstream import FromElementsOp, PrefetchOp
from ....ir.semantics import DYNAMIC, LARGEST_NARROW_AXIS, Bounds
from ...nest.queries import view_of
from . import bit_vectors as bits
from .arithmetic import Arithmetic, in_lanes, is_zero, width_of
from .integer_sets import constant_of, everything, number, parameter
from .meaning import Access, Loop, Meaning, Write
from .staged import Staged
from .values import (
    Argument,
    Atom,
    Buffer,
    Carried,
    Condition,
    Counted,
    Element,
    Lanes,
    Mask,
    Opaque,
    Term,
    Undecided,
    Value,
    Zero,
)

# The largest size of a dimension: what NumPy can address.
LARGEST_SIZE = 2**62


def meaning_of(function: func.FuncOp) -> Meaning:
    """Return what a function does, for all sizes that its arguments may have.

    Raises:
        Undecided: the function holds something that the proof does not cover.
    """
    return _Walk(function).run()


class _Walk(Staged, Arithmetic):
    """A walk over the operations of one function, in the order in which they run."""

    def __init__(self, function: func.FuncOp):
        self.function, self.meaning = function, Meaning()
        self.values: dict[SSAValue, Value] = {}
        self.names: dict[str, str] = {}
        self.domain, self.loops, self.path = everything(), (), ()
        self.under: tuple[Term, ...] = ()
        self.is_guarded = False
        self.stores = []

    def run(self) -> Meaning:
        """Walk the whole function."""
        if any(isinstance(op, OperatorOp) for op in self.function.walk()):
            raise Undecided("the operator is no loop nest yet")
        self._bind_arguments()
        self.block(self.function.body.block, None)
        return self.meaning

    # Arguments and sizes

    def _bind_arguments(self) -> None:
        arguments = list(self.function.body.block.args)
        views = [view_of(argument, self.function) for argument in arguments]
        shaped = [argument for argument in arguments if isinstance(argument.type, MemRefType)]
        if any(view is None for argument, view in zip(arguments, views, strict=True) if argument in shaped):
            raise Undecided("an argument carries no #gather.view")
        static: dict[str, int] = {}
        for argument, view in zip(arguments, views, strict=True):
            if view is not None and isinstance(argument.type, MemRefType):
                sizes = zip(view.dims, argument.type.get_shape(), strict=True)
                static |= {name: size for name, size in sizes if size != DYNAMIC}
        for argument, view in zip(arguments, views, strict=True):
            if view is None or not isinstance(argument.type, MemRefType):
                self.values[argument] = Element("scale", ())
                continue
            sizes = tuple(number(static[name]) if name in static else self._size(name) for name in view.dims)
            is_indices = len(shaped) == 3 and argument is shaped[1]
            name = "indices" if is_indices else "out" if argument is shaped[-1] else "data"
            self.values[argument] = Argument(name, sizes, is_indices)
        self._bind_axes()

    def _size(self, name: str) -> isl.PwAff:
        size = f"n_{name}"
        if size not in self.meaning.sizes:
            self.meaning.sizes.append(size)
            self._assume(parameter(size).ge_set(number(0)))
            if name.startswith("data_"):
                self._assume(parameter(size).ge_set(self._size(name.removeprefix("data_"))))
        return parameter(size)

    def _assume(self, holds: isl.Set) -> None:
        self.meaning.context = self.meaning.context.intersect(holds)
        self.domain = self.domain.intersect(holds)

    def _bind_axes(self) -> None:
        least = self.function.attributes.get(MIN_AXIS_SIZES)
        floors = list(least.get_values()) if isinstance(least, DenseArrayBase) else []
        most = LARGEST_NARROW_AXIS if NARROW_AXES in self.function.attributes else LARGEST_SIZE
        for number_, (name, size) in enumerate(self.axes()):
            floor = int(floors[number_]) if number_ < len(floors) else 0
            self.meaning.axes[name] = (floor, most)
            if constant_of(size) is None:
                self._assume(parameter(name).ge_set(number(floor)))

    def axes(self) -> list[tuple[str, isl.PwAff]]:
        """Return the indexed axes in their order, with their sizes."""
        found: dict[str, isl.PwAff] = {}
        for argument in self.function.body.block.args:
            view, value = view_of(argument, self.function), self.values.get(argument)
            if view is not None and isinstance(value, Argument):
                for name, size in zip(view.dims, value.sizes, strict=True):
                    if name.role == "axis":
                        found.setdefault(f"n_{name}", size)
        return list(found.items())

    # Blocks, loops, branches

    def block(self, block: Block, loop: Loop | None) -> list[Value]:
        """Walk a block and return what its terminator hands on."""
        given: list[Value] = []
        outer = self.path
        for place, op in enumerate(block.ops):
            self.path = (*outer, (place, loop))
            if isinstance(op, YieldOp | scf.YieldOp | scf.ReduceOp | func.ReturnOp):
                given = [self.values[operand] for operand in op.operands]
                if isinstance(op, func.ReturnOp) and given:
                    self.meaning.returned = self._counted(given[0])
                continue
            self._run(op)
        self.path = outer
        return given

    def _run(self, op: Operation) -> None:
        if op.name.startswith("arith."):
            self.values[op.results[0]] = self.run_arith(op, [self.values[operand] for operand in op.operands])
            return
        handler = getattr(self, f"run_{op.name.replace('.', '_')}", None)
        if handler is None:
            raise Undecided(f"{op.name} stands in the nest")
        handler(op)

    def run_gather_loop(self, op: LoopOp) -> None:
        """Walk a loop of the nest."""
        kind = op.parallel is not None, op.ordered is not None
        given = self._in_loop(op, op.label, op.induction, (op.lower, op.upper, op.step), kind)
        if op.total is not None:
            self.values[op.total] = given[0]

    def run_scf_for(self, op: scf.ForOp) -> None:
        """Walk an upstream loop; its iterations run in order."""
        label = getattr(op.attributes.get("gather.loops"), "data", "loop")
        for carried in op.body.block.args[1:]:
            self.values[carried] = Carried()
        given = self._in_loop(op, label, op.body.block.args[0], (op.lb, op.ub, op.step), (False, True))
        for result, value in zip(op.results, given, strict=True):
            self.values[result] = value

    def run_scf_parallel(self, op: scf.ParallelOp) -> None:
        """Walk parallel loops that are numbered as one."""
        labels = getattr(op.attributes.get("gather.loops"), "data", "loop").split(",")
        before = self.domain, self.loops
        bounds = zip(op.lowerBound, op.upperBound, op.step, strict=True)
        loop = None
        for place, (argument, bound) in enumerate(zip(op.body.block.args, bounds, strict=True)):
            loop = self._enter(labels[min(place, len(labels) - 1)], argument, bound, (True, False))
        given = [self._counted(value) for value in self.block(op.body.block, loop)]
        self.domain, self.loops = before
        for result, value in zip(op.results, given, strict=True):
            self.values[result] = value

    def _in_loop(
        self, op: Operation, label: str, induction: SSAValue, bounds: Sequence[SSAValue], kind: tuple[bool, bool]
    ) -> list[Counted]:
        before = self.domain, self.loops
        loop = self._enter(label, induction, bounds, kind)
        given = [self._counted(value) for value in self.block(op.regions[0].block, loop)]
        self.domain, self.loops = before
        return given

    def _enter(self, label: str, induction: SSAValue, bounds: Sequence[SSAValue], kind: tuple[bool, bool]) -> Loop:
        lower, upper, stride = (self.values[bound] for bound in bounds)
        if isinstance(stride, Opaque):
            raise Undecided(f"the step of loop {label} is no number")
        if not all(isinstance(bound, isl.PwAff) for bound in (lower, upper, stride)):
            raise Undecided(f"the bounds of loop {label} are not affine in sizes and loops")
        assert isinstance(lower, isl.PwAff) and isinstance(upper, isl.PwAff) and isinstance(stride, isl.PwAff)
        name = self.fresh(label)
        here, step = parameter(name), constant_of(stride)
        loop = Loop(name, label, lower, upper, step, stride, *kind)
        self.domain = self.domain.intersect(here.ge_set(lower)).intersect(here.lt_set(upper))
        if step is not None and step > 1:
            self.domain = self.domain.intersect(here.sub(lower).mod_val(isl.Val(step)).eq_set(number(0)))
        self.loops = (*self.loops, loop)
        self.values[induction] = here
        return loop

    def run_scf_if(self, op: scf.IfOp) -> None:
        """Walk both branches, each where its condition holds."""
        condition = self.values[op.cond]
        branches = [region.blocks[0] for region in op.regions if region.blocks]
        before = self.domain, self.under, self.is_guarded
        given: list[list[Value]] = []
        for block, negated in zip(branches, (False, True), strict=False):
            self.domain, self.under, self.is_guarded = before
            if isinstance(condition, Condition):
                holds = condition.holds.complement() if negated else condition.holds
                self.domain = self.domain.intersect(holds)
            elif isinstance(condition, Term):
                truth = z3.Not(condition.expression) if negated else condition.expression
                self.under = (*self.under, Term(truth, condition.atoms))
            elif isinstance(condition, Counted) and not negated:
                self.meaning.guard, self.is_guarded = condition, True
            else:
                raise Undecided("a branch depends on what is not known")
            given.append(self.block(block, None))
        self.domain, self.under, self.is_guarded = before
        for place, result in enumerate(op.results):
            self.values[result] = self._joined(condition, [values[place] for values in given])

    def _joined(self, condition: Value, values: list[Value]) -> Value:
        """Return what a branch on the indices gives: an element where it holds, and zero elsewhere."""
        first, second = values
        if isinstance(condition, Term) and isinstance(first, Element) and is_zero(second):
            return first.masked(condition)
        raise Undecided("a branch gives a value that is no element")

    def _counted(self, value: Value) -> Counted:
        if isinstance(value, Counted):
            return value
        if isinstance(value, Term):
            return Counted(((self.domain, value),))
        raise Undecided("a loop sums something else than indices outside")

    # Memory

    def run_memref_dim(self, op: memref.DimOp) -> None:
        """Return a size."""
        array, place = self.values[op.source], self.values[op.index]
        assert isinstance(array, Argument) and isinstance(place, isl.PwAff)
        dim = constant_of(place)
        assert dim is not None
        self.values[op.results[0]] = array.sizes[dim]

    def run_gather_resolve(self, op: ResolveOp) -> None:
        """Resolve an index by the definition of its mode."""
        index, size = self.term(self.values[op.index]), self.term(self.values[op.size])
        mode = op.bounds.data
        unsigned = op.unsigned is not None
        position, valid = bits.resolved(index.expression, size.expression, mode, unsigned=unsigned)
        self.meaning.raises |= mode is Bounds.ERROR
        self.values[op.position] = Term(position.expression, index.atoms)
        self.values[op.valid] = Term(valid.expression, index.atoms)

    def run_memref_load(self, op: memref.LoadOp) -> None:
        """Load an element, an index or a staged position."""
        self.values[op.res] = self._loaded(op, op.memref, op.indices, width_of(op.res.type))

    def run_gather_masked_load(self, op: MaskedLoadOp) -> None:
        """Load an element where the mask holds."""
        mask, before = self.values[op.mask], self.under
        if not isinstance(mask, Term):
            raise Undecided("a mask does not come from indices")
        self.under = (*self.under, mask)
        loaded = self._loaded(op, op.memref, op.subscripts, 0)
        self.under = before
        assert isinstance(loaded, Element)
        self.values[op.element] = loaded.masked(mask)

    def run_vector_load(self, op: vector.LoadOp) -> None:
        """Load a vector: its elements lie along the last dimension."""
        before, type_ = self.domain, op.result.type
        assert isinstance(type_, VectorType)
        self.domain = self.domain.intersect(in_lanes(type_.get_shape()[0]))
        self.values[op.result] = self._loaded(op, op.base, op.indices, width_of(type_), lane=True)
        self.domain = before

    def _subscripts(self, given: Sequence[SSAValue], lane: bool) -> tuple[isl.PwAff | Term, ...]:
        found: list[isl.PwAff | Term] = []
        for value in (self.values[subscript] for subscript in given):
            if not isinstance(value, isl.PwAff | Term):
                raise Undecided("a subscript is neither affine nor an index")
            found.append(value)
        if lane:
            last = found[-1]
            if not isinstance(last, isl.PwAff):
                raise Undecided("a vector begins at an index")
            found[-1] = last.add(parameter("lane"))
        return tuple(found)

    def _loaded(
        self, op: Operation, memory: SSAValue, given: Sequence[SSAValue], width: int, lane: bool = False
    ) -> Value:
        array, subscripts = self.values[memory], self._subscripts(given, lane)
        if isinstance(array, Buffer):
            return self.load_staged(op, array, subscripts)
        if not isinstance(array, Argument):
            raise Undecided("a load of memory that is not known")
        self._access(op, array, subscripts)
        if not array.is_integer:
            return Element(array.name, _in_full(array, subscripts))
        places = tuple(place for place in subscripts if isinstance(place, isl.PwAff))
        if len(places) != len(subscripts):
            raise Undecided("an index is found by another index")
        atom = Atom(array.name, places, everything(), width)
        name = self.name_of(atom)
        return Term(bits.variable(name, width), {name: atom})

    def _access(self, op: Operation, array: Argument, subscripts: tuple[isl.PwAff | Term, ...]) -> None:
        place = self.domain, subscripts, array.sizes, self.under, self.is_guarded
        self.meaning.accesses.append(Access(op, array.name, *place))

    def run_memref_store(self, op: memref.StoreOp) -> None:
        """Store an element, or stage a position."""
        array, value = self.values[op.memref], self.values[op.value]
        subscripts = self._subscripts(op.indices, False)
        if isinstance(array, Buffer):
            return self.store_staged(op, array, subscripts, self.term(value, array.bits))
        return self._written(op, array, subscripts, value)

    def run_vector_store(self, op: vector.StoreOp) -> None:
        """Store a vector."""
        array, value, type_ = self.values[op.base], self.values[op.vector], op.vector.type
        assert isinstance(type_, VectorType)
        self._in_lanes(op, array, self._subscripts(op.indices, True), value, type_.get_shape()[0])

    def _in_lanes(self, op: Operation, array: Value, subscripts: tuple, value: Value, lanes: int, **how: bool) -> None:
        before = self.domain
        if isinstance(value, Lanes):
            for lane, element in enumerate(value.elements):
                self.domain = before.intersect(parameter("lane").eq_set(number(lane)))
                self._written(op, array, subscripts, element, **how)
        else:
            self.domain = before.intersect(in_lanes(lanes))
            self._written(op, array, subscripts, value, **how)
        self.domain = before

    def run_gather_accumulate(self, op: AccumulateOp) -> None:
        """Add an element, or a vector."""
        array, value, before = self.values[op.memref], self.values[op.element], self.under
        if op.mask is not None:
            mask = self.values[op.mask]
            if not isinstance(mask, Term):
                raise Undecided("a mask does not come from indices")
            self.under = (*self.under, mask)
        if isinstance(op.element.type, VectorType):
            lanes = op.element.type.get_shape()[0]
            self._in_lanes(op, array, self._subscripts(op.subscripts, True), value, lanes, adds=True)
        else:
            self._written(op, array, self._subscripts(op.subscripts, False), value, adds=True)
        self.under = before

    def _written(
        self, op: Operation, array: Value, subscripts: tuple[isl.PwAff | Term, ...], value: Value, adds: bool = False
    ) -> None:
        if not isinstance(array, Argument):
            raise Undecided("a store to memory that is not known")
        value = Zero() if is_zero(value) else value
        if not isinstance(value, Element | Zero):
            raise Undecided(f"{op.name} writes what is no element")
        self._access(op, array, subscripts)
        subscripts = _in_full(array, subscripts)
        if isinstance(value, Element) and value.total is not None:
            if list(map(str, value.total)) != list(map(str, subscripts)):
                raise Undecided("a sum is stored elsewhere than it was loaded from")
            value, adds = replace(value, total=None), True
        where = self.loops, self.domain, self.path, subscripts
        self.meaning.writes.append(Write(op, array.name, *where, value, self.under, adds, self.is_guarded))

    def run_memref_prefetch(self, op: PrefetchOp) -> None:
        """Do nothing: a prefetch cannot fail, and the loads of its subscripts are checked by themselves."""

    def run_memref_extract_aligned_pointer_as_index(self, op: Operation) -> None:
        """Return an address, of which nothing is known."""
        self.values[op.results[0]] = Opaque()

    def run_memref_collapse_shape(self, op: memref.CollapseShapeOp) -> None:
        """Drop dimensions of size 1 at the end."""
        array = self.values[op.src]
        assert isinstance(array, Argument) and isinstance(op.result.type, MemRefType)
        rank = op.result.type.get_num_dims()
        if any(constant_of(size) != 1 for size in array.sizes[rank:]):
            raise Undecided("a dimension that is dropped may be larger than 1")
        dropped = len(array.sizes) - rank + array.dropped
        self.values[op.result] = Argument(array.name, array.sizes[:rank], array.is_integer, dropped)

    def run_vector_from_elements(self, op: FromElementsOp) -> None:
        """Make a vector of elements."""
        self.values[op.results[0]] = Lanes(tuple(self.values[element] for element in op.operands))

    def run_vector_broadcast(self, op: vector.BroadcastOp) -> None:
        """Repeat a mask in every lane."""
        value = self.values[op.source]
        if not isinstance(value, Mask):
            raise Undecided("a vector of one number that is no mask")
        self.values[op.vector] = value


def _in_full(array: Argument, subscripts: tuple[isl.PwAff | Term, ...]) -> tuple[isl.PwAff | Term, ...]:
    """Return the subscripts of the array itself, where they are those of a view without its last dimensions."""
    return (*subscripts, *[number(0)] * array.dropped)
