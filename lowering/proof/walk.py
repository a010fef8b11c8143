"""Walk a nest, from `lower-to-nest` down to upstream loops, and collect what it means."""

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl
import z3
from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from ...ir.dialects.attributes import FRESH_OUT, MIN_AXIS_SIZES, MOST_AXIS_SIZE, NARROW_AXES, ROW_SIZES
from ...ir.dialects.gather_dialect import LoopOp, ResolveOp, YieldOp
from ...ir.dialects.types import dense_array
from ...ir.semantics import DYNAMIC, LARGEST_NARROW_AXIS, Bounds
from ..nest.constant_indices import find_global
from ..nest.queries import view_of
from . import bit_vectors as bits
from .arithmetic import is_zero
from .memory import Loads
from .sets import ZERO, Polynomial, constant_of, in_rows, number, parameter, within
from .values import (
    Argument,
    Carried,
    Condition,
    Counted,
    Element,
    Guard,
    Loop,
    Meaning,
    Number,
    Opaque,
    Refuted,
    Summed,
    Term,
    Undecided,
    Value,
)

# The largest size of a dimension: what NumPy can address.
MAX_SIZE = 2**62


def meaning_of(function: func.FuncOp) -> Meaning:
    """Return what a function does, for all sizes that its arguments may have.

    Raises:
        Undecided: the function holds something that the proof does not cover.
        Refuted: the function does something that is wrong for all sizes.
    """
    walk = _Walk(function)
    walk.bind_arguments()
    walk.block(function.body.block, None)
    return walk.meaning


class _Walk(Loads):
    """A walk over the operations of one function, in the order in which they run."""

    # Arguments and sizes

    def bind_arguments(self) -> None:
        """Give the arguments names, sizes and the conditions on their sizes."""
        self.buffered = []
        self.meaning.has_fresh_out = FRESH_OUT in self.function.attributes
        arguments = list(self.function.body.block.args)
        shaped = [(argument, type_) for argument in arguments if isinstance(type_ := argument.type, MemRefType)]
        views = [view for argument, _ in shaped if (view := view_of(argument, self.function)) is not None]
        if len(views) != len(shaped):
            raise Undecided("an argument carries no #gather.view")
        named = [
            list(zip(view.dims, type_.get_shape(), strict=True)) for view, (_, type_) in zip(views, shaped, strict=True)
        ]
        static = {name: size for dims in named for name, size in dims if size != DYNAMIC}
        self.values |= dict.fromkeys(arguments, Element("scale", ()))
        axes: dict[str, isl.PwAff] = {}
        for place, ((argument, _), dims) in enumerate(zip(shaped, named, strict=True)):
            sizes = tuple(number(static[name]) if name in static else self._size(name) for name, _ in dims)
            is_indices = len(shaped) == 3 and place == 1
            name = "indices" if is_indices else "out" if place == len(shaped) - 1 else "data"
            self.values[argument] = Argument(name, sizes, is_indices)
            for (dim, _), size in zip(dims, sizes, strict=True):
                if dim.role == "axis":
                    axes.setdefault(f"n_{dim}", size)
        self._bind_axes(axes)
        self._bind_rows()

    def _size(self, name: str) -> isl.PwAff:
        size = f"n_{name}"
        if size not in self.meaning.sizes:
            self.meaning.sizes.append(size)
            least = self._size(name.removeprefix("data_")) if name.startswith("data_") else ZERO
            self.assume(parameter(size).ge_set(least) & parameter(size).ge_set(ZERO))
        return parameter(size)

    def _bind_axes(self, axes: dict[str, isl.PwAff]) -> None:
        """Bound the indexed axes, in their order, by what the function promises."""
        least, limit = (self.function.attributes.get(name) for name in (MIN_AXIS_SIZES, MOST_AXIS_SIZE))
        floors = list(map(int, least.get_values())) if isinstance(least, DenseArrayBase) else []
        most = LARGEST_NARROW_AXIS if NARROW_AXES in self.function.attributes else MAX_SIZE
        most = min(most, limit.value.data) if isinstance(limit, IntegerAttr) else most
        for (name, size), floor in zip(axes.items(), [*floors, *[0] * len(axes)], strict=False):
            self.meaning.axes[name] = (floor, most)
            if constant_of(size) is None:
                self.assume(parameter(name).ge_set(number(floor)))

    def _bind_rows(self) -> None:
        """Bound the size of a row by what the function promises."""
        promised = self.function.attributes.get(ROW_SIZES)
        if isinstance(promised, DenseArrayBase) and "n_inner" in self.meaning.sizes:
            least, most = map(int, promised.get_values())
            self.assume(parameter("n_inner").ge_set(number(least)))
            if most:
                self.assume(parameter("n_inner").le_set(number(most)))

    def run_memref_get_global(self, op: memref.GetGlobalOp) -> None:
        """Return constant indices, which are the only global that a nest has."""
        module, type_ = self.function.parent_op(), op.memref.type
        assert isinstance(module, ModuleOp) and isinstance(type_, MemRefType)
        dense = find_global(module, op).initial_value
        if not isinstance(dense, DenseIntOrFPElementsAttr) or self.meaning.constants is not None:
            raise Undecided("the nest has several constants")
        self.meaning.constants = tuple(dense_array(dense).reshape(-1).tolist())
        self.values[op.memref] = Argument("indices", tuple(map(number, type_.get_shape())), True, is_constant=True)

    def run_memref_dim(self, op: memref.DimOp) -> None:
        """Return a size."""
        array, dim = self.values[op.source], constant_of(self.values[op.index])
        assert isinstance(array, Argument) and dim is not None
        self.values[op.results[0]] = array.sizes[dim]

    def run_gather_resolve(self, op: ResolveOp) -> None:
        """Resolve an index by the definition of its mode."""
        index, size, mode = self.term(self.values[op.index]), self.term(self.values[op.size]), op.bounds.data
        found = bits.resolved(index.expression, size.expression, mode, unsigned=op.unsigned is not None)
        self.meaning.raises |= mode is Bounds.ERROR
        self.values |= {result: Term(each, index.atoms) for result, each in zip(op.results, found, strict=True)}

    # Blocks, loops, branches

    def block(self, block: Block, loop: Loop | None) -> list[Value]:
        """Walk a block and return what its terminator hands on."""
        given, outer = list[Value](), self.here.path
        for place, op in enumerate(block.ops):
            self.here = replace(self.here, path=(*outer, (place, loop)))
            if isinstance(op, YieldOp | scf.YieldOp | scf.ReduceOp | func.ReturnOp):
                given = [self.values[operand] for operand in op.operands]
                if isinstance(op, func.ReturnOp) and given:
                    self.meaning.returned = self._counted(given[0])
            elif op.name.startswith("arith."):
                self.values[op.results[0]] = self.run_arith(op, [self.values[operand] for operand in op.operands])
            elif (handler := getattr(self, f"run_{op.name.replace('.', '_')}", None)) is not None:
                handler(op)
            else:
                raise Undecided(f"{op.name} stands in the nest")
        self.here = replace(self.here, path=outer)
        return given

    def run_gather_loop(self, op: LoopOp) -> None:
        """Walk a loop of the nest."""
        self._in_loop(op, [(op.label, op.induction, (op.lower, op.upper, op.step))], op.parallel, op.ordered)

    def run_scf_parallel(self, op: scf.ParallelOp) -> None:
        """Walk parallel loops that are numbered as one."""
        labels = _labels(op) + _labels(op)[-1:] * len(op.step)
        bounds = zip(op.lowerBound, op.upperBound, op.step, strict=True)
        self._in_loop(op, list(zip(labels, op.body.block.args, bounds, strict=False)), True, None)

    def run_scf_for(self, op: scf.ForOp) -> None:
        """Walk an upstream loop; its iterations run in order."""
        carried = [Carried(self.fresh("carried")) for _ in op.iter_args]
        self.values |= dict(zip(op.body.block.args[1:], carried, strict=True))
        place, written = self.here, len(self.meaning.writes)
        self._in_loop(op, [(_labels(op)[0], op.body.block.args[0], (op.lb, op.ub, op.step))], None, True)
        for result, start, so_far in zip(op.results, op.iter_args, carried, strict=True):
            begun, value = self.values[start], self.values[result]
            if isinstance(value, Summed):
                if isinstance(begun, Number):
                    raise Refuted("a sum in a register begins with another number than zero")
                if value.begin != so_far or value.divisor is not None or not is_zero(begun):
                    raise Undecided("a sum in a register begins with something else than zero, or is that of another")
                self.values[result] = Summed(None, value.added, place, written)
            elif not is_zero(begun):
                raise Undecided("a count begins with something else than zero")

    def _in_loop(
        self,
        op: Operation,
        inductions: Sequence[tuple[str, SSAValue, Sequence[SSAValue]]],
        parallel: object | None,
        ordered: object | None,
    ) -> None:
        """Walk the body of loops, each with a label and bounds, and give the operation's results what it sums."""
        before, loop = self.here, None
        for label, induction, bounds in inductions:
            loop = self._enter(label, induction, bounds, (parallel is not None, ordered is not None))
        given = self.block(op.regions[0].block, loop)
        results = [value if isinstance(value, Summed) else self._counted(value) for value in given]
        # What the loop has taught of sizes holds behind it, too.
        self.here = before.where(self.meaning.context)
        self.values |= dict(zip(op.results, results, strict=False))

    def _enter(self, label: str, induction: SSAValue, bounds: Sequence[SSAValue], kind: tuple[bool, bool]) -> Loop:
        lower, upper, stride = (self.values[bound] for bound in bounds)
        if isinstance(lower, isl.PwAff) and isinstance(upper, isl.PwAff) and isinstance(stride, isl.PwAff):
            name, step = self.fresh(label), constant_of(stride)
            here = parameter(name)
            loop = Loop(name, label, lower, upper, step, stride, *kind)
            self.here = replace(self.here, loops=(*self.here.loops, loop)).where(within(here, lower, upper))
            if step is not None and step > 1:
                self.here = self.here.where(((here - lower) % step).eq_set(ZERO))
            self.values[induction] = here
            return loop
        if constant_of(stride) == 1:
            return self._enter_rows(label, induction, (lower, upper), kind)
        raise Undecided(f"the bounds of loop {label} are not affine in sizes and loops, or its step is no number")

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
            elements = size.affine()
            assert elements is not None
            row, place = self.fresh(label), self.fresh(label)
            for here, least, end in ((row, first, last), (place, ZERO, elements)):
                loops = (*self.here.loops, Loop(here, label, least, end, 1, number(1), *kind))
                self.here = replace(self.here, loops=loops).where(within(parameter(here), least, end))
            self.values[induction] = Opaque(Polynomial.of(row) * size + Polynomial.of(place))
            return self.here.loops[-1]
        raise Undecided(f"the bounds of loop {label} are not affine in sizes and loops")

    def run_scf_if(self, op: scf.IfOp) -> None:
        """Walk both branches, each where its condition holds."""
        condition, before, given = self.values[op.cond], self.here, list[list[Value]]()
        for region, negated in zip(op.regions, (False, True), strict=False):
            if not region.blocks:
                continue
            if isinstance(condition, Condition):
                self.here = before.where(condition.holds.complement() if negated else condition.holds)
            elif isinstance(condition, Term):
                truth = z3.Not(condition.expression) if negated else condition.expression
                self.here = replace(before, under=(*before.under, Term(truth, condition.atoms)))
            elif isinstance(condition, Counted) and not negated:
                if self.meaning.guard is not None:
                    raise Undecided("several branches depend on counts of indices outside")
                self.meaning.guard = Guard(condition, before.loops)
                self.here = replace(before, guard=self.meaning.guard)
            else:
                raise Undecided("a branch depends on what is not known")
            given.append(self.block(region.block, None))
        self.here = before
        for place, result in enumerate(op.results):
            self.values[result] = _joined(condition, *(values[place] for values in given))

    def _counted(self, value: Value) -> Counted:
        if isinstance(value, Counted):
            return value
        if isinstance(value, Term):
            return Counted(((self.here.domain, value),))
        if constant_of(value) == 0:
            return Counted(())
        raise Undecided("a loop sums something else than indices outside")


def _labels(op: Operation) -> list[str]:
    """Return the names of the loops of the nest that an upstream loop runs."""
    return str(getattr(op.attributes.get("gather.loops"), "data", "loop")).split(",")


def _joined(condition: Value, first: Value, second: Value) -> Value:
    """Return the value that a branch on the indices gives: an element where it holds, and zero elsewhere."""
    if isinstance(first, Summed) and isinstance(second, Carried) and first.begin == second:
        return first  # each added element keeps the condition as its place
    if isinstance(condition, Term) and isinstance(first, Element) and is_zero(second):
        return first.masked(condition)
    raise Undecided("a branch gives a value that is no element")
