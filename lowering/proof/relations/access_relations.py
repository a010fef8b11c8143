"""Walk a nest, from `lower-to-nest` down to upstream loops, and collect what it means."""

from collections.abc import Sequence

import islpy as isl
import z3
from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from ....ir.dialects.attributes import FRESH_OUT, MIN_AXIS_SIZES, MOST_AXIS_SIZE, NARROW_AXES
from ....ir.dialects.gather_dialect import LoopOp, OperatorOp, ResolveOp, YieldOp
from ....ir.dialects.types import dense_array
from ....ir.semantics import DYNAMIC, LARGEST_NARROW_AXIS, Bounds
from ...nest.constant_indices import find_global
from ...nest.queries import view_of
from . import bit_vectors as bits
from .accesses import Accesses
from .arithmetic import is_zero
from .integer_sets import constant_of, everything, number, parameter, within
from .meaning import Guard, Loop, Meaning
from .polynomials import in_rows, named
from .values import (
    Argument,
    Carried,
    Condition,
    Counted,
    Element,
    Number,
    Opaque,
    Refuted,
    Summed,
    Term,
    Undecided,
    Value,
)

# The largest size of a dimension: what NumPy can address.
LARGEST_SIZE = 2**62


def meaning_of(function: func.FuncOp) -> Meaning:
    """Return what a function does, for all sizes that its arguments may have.

    Raises:
        Undecided: the function holds something that the proof does not cover.
    """
    return _Walk(function).run()


class _Walk(Accesses):
    """A walk over the operations of one function, in the order in which they run."""

    def __init__(self, function: func.FuncOp):
        self.function, self.meaning = function, Meaning()
        self.values: dict[SSAValue, Value] = {}
        self.names: dict[str, str] = {}
        self.domain, self.loops, self.path = everything(), (), ()
        self.under: tuple[Term, ...] = ()
        self.guard: Guard | None = None
        self.stores = []

    def run(self) -> Meaning:
        """Walk the whole function."""
        if any(isinstance(op, OperatorOp) for op in self.function.walk()):
            raise Undecided("the operator is no loop nest yet")
        self._bind_arguments()
        self.meaning.has_fresh_out = FRESH_OUT in self.function.attributes
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
        if isinstance(limit := self.function.attributes.get(MOST_AXIS_SIZE), IntegerAttr):
            most = min(most, limit.value.data)
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

    def run_memref_get_global(self, op: memref.GetGlobalOp) -> None:
        """Return constant indices, which are the only global that a nest has."""
        module, type_ = self.function.parent_op(), op.memref.type
        assert isinstance(module, ModuleOp) and isinstance(type_, MemRefType)
        dense = find_global(module, op).initial_value
        if not isinstance(dense, DenseIntOrFPElementsAttr) or self.meaning.constants is not None:
            raise Undecided("the nest has several constants")
        self.meaning.constants = tuple(dense_array(dense).reshape(-1).tolist())
        sizes = tuple(map(number, type_.get_shape()))
        self.values[op.memref] = Argument("indices", sizes, is_integer=True, is_constant=True)

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
        carried = [Carried(self.fresh("carried")) for _ in op.iter_args]
        self.values |= dict(zip(op.body.block.args[1:], carried, strict=True))
        place = self.path, self.loops, self.domain, len(self.meaning.writes)
        given = self._in_loop(op, label, op.body.block.args[0], (op.lb, op.ub, op.step), (False, True))
        for result, start, so_far, value in zip(op.results, op.iter_args, carried, given, strict=True):
            self.values[result] = value
            begun = self.values[start]
            if isinstance(value, Summed):
                if isinstance(begun, Number):
                    raise Refuted("a sum in a register begins with another number than zero")
                if value.begin != so_far or value.divisor is not None or not is_zero(begun):
                    raise Undecided("a sum in a register begins with something else than zero, or is that of another")
                self.values[result] = Summed(None, value.added, *place)
            elif not is_zero(begun):
                raise Undecided("a count begins with something else than zero")

    def run_scf_parallel(self, op: scf.ParallelOp) -> None:
        """Walk parallel loops that are numbered as one."""
        labels = getattr(op.attributes.get("gather.loops"), "data", "loop").split(",")
        before = self.domain, self.loops
        bounds = zip(op.lowerBound, op.upperBound, op.step, strict=True)
        loop = None
        for place, (argument, bound) in enumerate(zip(op.body.block.args, bounds, strict=True)):
            loop = self._enter(labels[min(place, len(labels) - 1)], argument, bound, (True, False))
        given = [self._counted(value) for value in self.block(op.body.block, loop)]
        self._leave(*before)
        for result, value in zip(op.results, given, strict=True):
            self.values[result] = value

    def _in_loop(
        self, op: Operation, label: str, induction: SSAValue, bounds: Sequence[SSAValue], kind: tuple[bool, bool]
    ) -> list[Counted | Summed]:
        before = self.domain, self.loops
        loop = self._enter(label, induction, bounds, kind)
        given = [
            value if isinstance(value, Summed) else self._counted(value)
            for value in self.block(op.regions[0].block, loop)
        ]
        self._leave(*before)
        return given

    def _leave(self, domain: isl.Set, loops: tuple[Loop, ...]) -> None:
        """Go on behind a loop; what it has taught of sizes holds on."""
        self.domain, self.loops = domain.intersect(self.meaning.context), loops

    def _enter(self, label: str, induction: SSAValue, bounds: Sequence[SSAValue], kind: tuple[bool, bool]) -> Loop:
        lower, upper, stride = (self.values[bound] for bound in bounds)
        if isinstance(stride, Opaque):
            raise Undecided(f"the step of loop {label} is no number")
        if not all(isinstance(bound, isl.PwAff) for bound in (lower, upper, stride)):
            if isinstance(stride, isl.PwAff) and constant_of(stride) == 1:
                return self._enter_rows(label, induction, (lower, upper), kind)
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

    def _enter_rows(self, label: str, induction: SSAValue, bounds: Sequence[Value], kind: tuple[bool, bool]) -> Loop:
        """Enter a loop over the elements of whole rows, of one size: as a loop over the rows around one over a row.

        Raises:
            Undecided: its bounds are not two numbers of rows times their size.
        """
        known = [polynomial for bound in bounds if (polynomial := self.polynomial(bound)) is not None]
        for name in self.meaning.sizes if len(known) == len(bounds) else ():
            if (found := in_rows(known, name)) is None:
                continue
            size, (first, last) = found
            row, place = self.fresh(label), self.fresh(label)
            elements = size.affine()
            assert elements is not None
            for here, least, end in ((row, first, last), (place, number(0), elements)):
                self.loops = (*self.loops, Loop(here, label, least, end, 1, number(1), *kind))
                self.domain = self.domain.intersect(within(parameter(here), least, end))
            self.values[induction] = Opaque(named(row).times(size).plus(named(place)))
            return self.loops[-1]
        raise Undecided(f"the bounds of loop {label} are not affine in sizes and loops")

    def run_scf_if(self, op: scf.IfOp) -> None:
        """Walk both branches, each where its condition holds."""
        condition = self.values[op.cond]
        branches = [region.blocks[0] for region in op.regions if region.blocks]
        before = self.domain, self.under, self.guard
        given: list[list[Value]] = []
        for block, negated in zip(branches, (False, True), strict=False):
            self.domain, self.under, self.guard = before
            if isinstance(condition, Condition):
                holds = condition.holds.complement() if negated else condition.holds
                self.domain = self.domain.intersect(holds)
            elif isinstance(condition, Term):
                truth = z3.Not(condition.expression) if negated else condition.expression
                self.under = (*self.under, Term(truth, condition.atoms))
            elif isinstance(condition, Counted) and not negated:
                if self.meaning.guard is not None:
                    raise Undecided("several branches depend on counts of indices outside")
                self.meaning.guard = self.guard = Guard(condition, self.loops)
            else:
                raise Undecided("a branch depends on what is not known")
            given.append(self.block(block, None))
        self.domain, self.under, self.guard = before
        for place, result in enumerate(op.results):
            self.values[result] = self._joined(condition, [values[place] for values in given])

    def _joined(self, condition: Value, values: list[Value]) -> Value:
        """Return what a branch on the indices gives: an element where it holds, and zero elsewhere."""
        first, second = values
        if isinstance(first, Summed) and isinstance(second, Carried) and first.begin == second:
            return first  # what was added has the condition with it
        if isinstance(condition, Term) and isinstance(first, Element) and is_zero(second):
            return first.masked(condition)
        raise Undecided("a branch gives a value that is no element")

    def _counted(self, value: Value) -> Counted:
        if isinstance(value, Counted):
            return value
        if isinstance(value, Term):
            return Counted(((self.domain, value),))
        if isinstance(value, isl.PwAff) and constant_of(value) == 0:
            return Counted(())
        raise Undecided("a loop sums something else than indices outside")

    # Sizes and indices

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
