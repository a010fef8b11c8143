"""Walk a nest, from `lower-to-nest` down to upstream loops, and collect its effects."""

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
from ...ir.loop_name import LoopName
from ...ir.semantics import DYNAMIC, LARGEST_NARROW_AXIS, Bounds
from ..nest.constant_indices import find_global
from ..nest.queries import view_of
from . import bit_vectors as bits
from .arithmetic import is_zero
from .memory import Loads
from .sets import EVERYTHING, ZERO, Polynomial, constant_of, divide_into_rows, interval, number, parameter
from .values import (
    Argument,
    Carried,
    Counted,
    Element,
    Loop,
    Meaning,
    Memory,
    Number,
    Opaque,
    Refuted,
    Summed,
    Term,
    Undecided,
    Value,
    expect,
)

# The largest size of a dimension that NumPy can address.
MAX_SIZE = 2**62


def meaning_of(function: func.FuncOp) -> Meaning:
    """Return the effects of a function, for all sizes that its arguments may have.

    Raises:
        Undecided: the function holds something that the proof does not cover.
        Refuted: the function does something that is wrong for all sizes.
    """
    walk = _Walk(function)
    walk.bind_arguments()
    walk.walk_block(function.body.block)
    return walk.meaning


class _Walk(Loads):
    """A walk over the operations of one function, in the order in which they run."""

    # Arguments and sizes

    def bind_arguments(self) -> None:
        """Give the arguments names, sizes and the conditions on their sizes."""
        self.buffered, axes = [], dict[str, isl.PwAff]()
        self.meaning.has_fresh_out = FRESH_OUT in self.function.attributes
        dims: dict[SSAValue, list[tuple[LoopName, int]]] = {}
        for argument in self.function.body.block.args:
            self.values[argument] = Element("scale", ())
            if isinstance(argument.type, MemRefType):
                if (view := view_of(argument, self.function)) is None:
                    raise Undecided("an argument carries no #gather.view")
                dims[argument] = list(zip(view.dims, argument.type.get_shape(), strict=True))
        static = {str(name): size for each in dims.values() for name, size in each if size != DYNAMIC}
        names = ("data", "indices", "out") if len(dims) == 3 else ("data", "out")
        for (argument, each), name in zip(dims.items(), names, strict=False):
            sizes = tuple(number(static[dim]) if dim in static else self._make_size(dim) for dim, _ in each)
            self.values[argument] = Argument(name, sizes, name == "indices")
            axes |= {f"n_{dim}": size for (dim, _), size in zip(each, sizes, strict=True) if dim.role == "axis"}
        least, limit = (self.function.attributes.get(name) for name in (MIN_AXIS_SIZES, MOST_AXIS_SIZE))
        floors = list(map(int, least.get_values())) if isinstance(least, DenseArrayBase) else []
        most = LARGEST_NARROW_AXIS if NARROW_AXES in self.function.attributes else MAX_SIZE
        most = min(most, limit.value.data) if isinstance(limit, IntegerAttr) else most
        for (name, size), floor in zip(axes.items(), [*floors, *[0] * len(axes)], strict=False):
            self.meaning.axes[name] = (floor, most)
            if constant_of(size) is None:
                self.assume(parameter(name).ge_set(number(floor)))
        rows, inner = self.function.attributes.get(ROW_SIZES), parameter("n_inner")
        if isinstance(rows, DenseArrayBase) and "n_inner" in self.meaning.sizes:
            floor, most = map(int, rows.get_values())
            self.assume(inner.ge_set(number(floor)) & (inner.le_set(number(most)) if most else EVERYTHING))

    def _make_size(self, name: str) -> isl.PwAff:
        size = f"n_{name}"
        if size not in self.meaning.sizes:
            self.meaning.sizes.append(size)
            least = self._make_size(name.removeprefix("data_")) if name.startswith("data_") else ZERO
            self.assume(parameter(size).ge_set(least) & parameter(size).ge_set(ZERO))
        return parameter(size)

    def run_memref_get_global(self, op: memref.GetGlobalOp) -> Value:
        """Return constant indices, which are the only global that a nest has."""
        module, type_ = self.function.parent_op(), op.memref.type
        assert isinstance(module, ModuleOp) and isinstance(type_, MemRefType)
        dense = find_global(module, op).initial_value
        if not isinstance(dense, DenseIntOrFPElementsAttr) or self.meaning.constants is not None:
            raise Undecided("the nest has several constants")
        self.meaning.constants = tuple(dense_array(dense).reshape(-1).tolist())
        return Argument("indices", tuple(map(number, type_.get_shape())), True, is_constant=True)

    def run_memref_dim(self, op: memref.DimOp, array: Value, dim: Value) -> Value:
        """Return a size."""
        (argument,), place = expect(Argument, "a size of memory", array), constant_of(dim)
        assert place is not None
        return argument.sizes[place]

    def run_gather_resolve(self, op: ResolveOp, index: Value, size: Value) -> None:
        """Resolve an index by the definition of its mode."""
        place, extent, mode = self.to_term(index), self.to_term(size), op.bounds.data
        found = bits.resolve(place.expression, extent.expression, mode, unsigned=op.unsigned is not None)
        self.meaning.raises |= mode is Bounds.ERROR
        self.values |= {result: Term(each, place.atoms) for result, each in zip(op.results, found, strict=True)}

    # Blocks, loops, branches

    def walk_block(self, block: Block) -> list[Value]:
        """Walk a block and return the operands of its terminator."""
        given, outer = list[Value](), self.here.path
        for place, op in enumerate(block.ops):
            self.here = replace(self.here, path=(*outer, place))
            if any(isinstance(value := self.values.get(each), Memory) and value.is_freed for each in op.operands):
                raise Refuted(f"{op.name} uses memory that is freed")
            if isinstance(op, YieldOp | scf.YieldOp | scf.ReduceOp | func.ReturnOp):
                given = [self.values[operand] for operand in op.operands]
                if isinstance(op, func.ReturnOp) and given:
                    self.meaning.returned = self._to_count(given[0])
            elif op.name.startswith("arith."):
                self.values[op.results[0]] = self.run_arith(op, [self.values[operand] for operand in op.operands])
            elif (handler := getattr(self, f"run_{op.name.replace('.', '_')}", None)) is not None:
                found = handler(op, *(self.values[operand] for operand in op.operands))
                self.values |= {} if found is None else {op.results[0]: found}
            else:
                raise Undecided(f"{op.name} stands in the nest")
        self.here = replace(self.here, path=outer)
        return given

    def run_gather_loop(self, op: LoopOp, *_: Value) -> None:
        """Walk a loop of the nest."""
        kind = op.parallel is not None, op.ordered is not None
        self._walk_loops(op, [(op.label, op.induction, (op.lower, op.upper, op.step))], kind)

    def run_scf_parallel(self, op: scf.ParallelOp, *_: Value) -> None:
        """Walk parallel loops that are numbered as one."""
        labels = _list_labels(op) + _list_labels(op)[-1:] * len(op.step)
        bounds = zip(op.lowerBound, op.upperBound, op.step, strict=True)
        self._walk_loops(op, list(zip(labels, op.body.block.args, bounds, strict=False)), (True, False))

    def run_scf_for(self, op: scf.ForOp, *_: Value) -> None:
        """Walk an upstream loop; its iterations run in order."""
        induction, *inside = op.body.block.args
        carried = [Carried(self.make_name("carried")) for _ in inside]
        self.values |= dict(zip(inside, carried, strict=True))
        place, written = self.here, len(self.meaning.writes)
        self._walk_loops(op, [(_list_labels(op)[0], induction, (op.lb, op.ub, op.step))], (False, True))
        for result, start, so_far in zip(op.results, op.iter_args, carried, strict=True):
            begun, value = self.values[start], self.values[result]
            if isinstance(value, Summed) and isinstance(begun, Number) and not begun.is_zero:
                raise Refuted("a sum in a register begins with another number than zero")
            if not is_zero(begun) or (isinstance(value, Summed) and (value.begin != so_far or value.divisor)):
                raise Undecided("a count, or a sum in a register, begins with something else than zero")
            if isinstance(value, Summed):
                self.values[result] = Summed(None, value.added, place, written)

    def _walk_loops(
        self, op: Operation, loops: Sequence[tuple[str, SSAValue, Sequence[SSAValue]]], kind: tuple[bool, bool]
    ) -> None:
        """Walk the body of loops, each with a label and bounds, and give the operation's results their sums."""
        before = self.here
        for label, induction, bounds in loops:
            self.values[induction] = self._enter_loop(label, [self.values[bound] for bound in bounds], kind)
        given = self.walk_block(op.regions[0].block)
        results = [value if isinstance(value, Summed) else self._to_count(value) for value in given]
        # Conditions on sizes that come from the loop hold after it, too.
        self.here = before.restrict(self.meaning.context)
        self.values |= dict(zip(op.results, results, strict=False))

    def _enter_loop(self, label: str, bounds: Sequence[Value], kind: tuple[bool, bool]) -> Value:
        """Enter a loop, and return its induction variable.

        A loop over the elements of whole rows of one size becomes a loop over the rows around a loop over one row.
        """
        lower, upper, stride = bounds
        step = constant_of(stride)
        if isinstance(lower, isl.PwAff) and isinstance(upper, isl.PwAff) and isinstance(stride, isl.PwAff):
            here = self._add_loop(label, lower, upper, stride, kind)
            if step is not None and step > 1:
                self.here = self.here.restrict(((here - lower) % step).eq_set(ZERO))
            return here
        known = [polynomial for bound in (lower, upper) if (polynomial := self.to_polynomial(bound)) is not None]
        for name in self.meaning.sizes if len(known) == 2 and step == 1 else ():
            if (found := divide_into_rows(known, name)) is not None:
                size, (first, last) = found
                (elements,) = expect(isl.PwAff, "a row has no size", size.to_affine())
                row, place = (
                    self._add_loop(label, *ends, number(1), kind) for ends in ((first, last), (ZERO, elements))
                )
                return Opaque(Polynomial.of(row) * size + place)
        raise Undecided(f"the bounds of loop {label} are not affine in sizes and loops, or its step is no number")

    def _add_loop(
        self, label: str, lower: isl.PwAff, upper: isl.PwAff, stride: isl.PwAff, kind: tuple[bool, bool]
    ) -> isl.PwAff:
        name = self.make_name(label)
        loop = Loop(name, label, lower, upper, constant_of(stride), stride, *kind)
        self.here = replace(self.here, loops=(*self.here.loops, loop)).restrict(interval(parameter(name), lower, upper))
        return parameter(name)

    def run_scf_if(self, op: scf.IfOp, condition: Value) -> None:
        """Walk both branches, each where its condition holds."""
        before, given = self.here, list[list[Value]]()
        for region, negated in zip(op.regions, (False, True), strict=False):
            if not region.blocks:
                continue
            if isinstance(condition, isl.Set):
                self.here = before.restrict(condition.complement() if negated else condition)
            elif isinstance(condition, Term):
                truth = z3.Not(condition.expression) if negated else condition.expression
                self.here = replace(before, under=(*before.under, Term(truth, condition.atoms)))
            elif isinstance(condition, Counted) and not negated:
                if self.meaning.guard is not None:
                    raise Undecided("several branches depend on counts of indices outside")
                self.meaning.guard, self.here = (condition, before.loops), replace(before, is_guarded=True)
            else:
                raise Undecided("a branch depends on an unknown value")
            given.append(self.walk_block(region.block))
        self.here = before
        for place, result in enumerate(op.results):
            first, second = (values[place] for values in given)
            if isinstance(first, Summed) and isinstance(second, Carried) and first.begin == second:
                self.values[result] = first  # each added element keeps the condition as its place
            elif isinstance(condition, Term) and isinstance(first, Element) and is_zero(second):
                self.values[result] = first.add_mask(condition)
            else:
                raise Undecided("a branch gives a value that is no element")

    def _to_count(self, value: Value) -> Counted:
        if isinstance(value, Counted):
            return value
        if isinstance(value, Term):
            return Counted(((self.here.domain, value),))
        if constant_of(value) == 0:
            return Counted(())
        raise Undecided("a loop sums something else than indices outside")


def _list_labels(op: Operation) -> list[str]:
    """Return the names of the loops of the nest that an upstream loop runs."""
    return str(getattr(op.attributes.get("gather.loops"), "data", "loop")).split(",")
