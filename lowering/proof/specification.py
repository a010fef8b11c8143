"""The definition of an operator as a nest, with which every stage is compared."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, MemRefType, ModuleOp, Signedness
from xdsl.ir import SSAValue

from ...ir.array_spec import contiguous_strides
from ...ir.dialects.attributes import ViewAttr
from ...ir.dialects.gather_dialect import AccumulateOp, GradientOp, MaskedLoadOp, OperatorOp, ResolveOp, WeightedOp
from ...ir.dialects.types import dense_array
from ...ir.loop_name import LoopName
from ...ir.operator_spec import GatherMax, GatherReduce, GatherWeighted, OperatorSpec
from ...ir.semantics import Bounds
from ..nest.constant_indices import find_global
from ..nest.queries import functions, view_of
from . import bit_vectors as bits
from .arithmetic import FACTORS, comparison_of, width_of
from .sets import EVERYTHING, ZERO, constant_of, interval, number, parameter
from .values import Atom, Element, Loop, Meaning, Place, Places, Term, Undecided, Write, conjunction


@dataclass(frozen=True)
class Constants:
    """The constant indices of an operator before any pass: their shape, and the values that it reads, in C order."""

    shape: tuple[int, ...]
    values: tuple[int, ...]


@dataclass(frozen=True)
class Specification:
    """The properties of an operator that do not depend on sizes."""

    mode: Bounds
    unsigned: bool  # of its indices
    is_gradient: bool  # whether it adds to the table
    operator: OperatorSpec | None = None  # with its attributes; None where only its nest is known
    scale: float = 1.0  # of a gradient
    constants: Constants | None = None  # its indices, where they are a constant
    has_unsigned_data: bool = False  # of weighted sums

    @property
    def adds(self) -> bool:
        """Whether it adds numbers, in place of copying elements."""
        return self.is_gradient or isinstance(self.operator, GatherReduce)


def specification_of(module: ModuleOp) -> Specification | None:
    """Return the specification from an operator, or from the resolves of its nest; None where a module has neither."""
    for function in functions(module):
        for op in function.walk():
            if isinstance(op, OperatorOp):
                unsigned = op.unsigned is not None or _is_unsigned(op.indices)
                is_wide = isinstance(op, WeightedOp) and (op.unsigned_data is not None or _is_unsigned(op.source))
                scale, is_gradient = (op.factor, True) if isinstance(op, GradientOp) else (1.0, False)
                constants = None
                if (dense := constant_indices(op.indices, module)) is not None:
                    values = dense_array(dense)
                    values = values.view(f"u{values.dtype.itemsize}") if unsigned else values
                    constants = Constants(values.shape, tuple(values.reshape(-1).tolist()))
                return Specification(op.bounds.data, unsigned, is_gradient, op.normalized(), scale, constants, is_wide)
            if isinstance(op, ResolveOp):
                adds = any(isinstance(other, AccumulateOp) for other in function.walk())
                if adds and any(isinstance(other, MaskedLoadOp) for other in function.walk()):
                    return None  # the nest of a reduction
                return Specification(op.bounds.data, op.unsigned is not None, adds)
    return None


def _is_unsigned(value: SSAValue) -> bool:
    element = getattr(value.type, "element_type", None)
    return isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED


def constant_indices(indices: SSAValue, module: ModuleOp) -> DenseIntOrFPElementsAttr | None:
    """Return an operator's indices where they are a constant; None where they are an argument."""
    owner = indices.owner
    if isinstance(owner, memref.GetGlobalOp):
        dense = find_global(module, owner).initial_value
    else:
        dense = owner.value if isinstance(owner, arith.ConstantOp) else None
    return dense if isinstance(dense, DenseIntOrFPElementsAttr) else None


def map_dimensions(spec: OperatorSpec, array: str, data_rank: int, indices: Sequence[int]) -> dict[int, int]:
    """Return the dimension of out for each dimension of `data`, `indices` or `out` that is not indexed.

    Args:
        indices: the shape of the indices.
    """
    found: dict[int, int] = {}
    for role in spec.roles(data_rank, tuple(indices)):
        start = getattr(role, array)
        if start is not None and role.out is not None:
            found |= {start + at: role.out + at for at in range(role.count)}
    return found


@dataclass(frozen=True)
class Definition:
    """The copy, or the sums, that an operator asks for, in the sizes of one module."""

    write: Write  # the one write
    valid: Term | None  # without it the operator is undefined, or raises; None where every index is valid
    valid_along: dict[int, Term]  # that condition for the index of one dimension of data alone
    is_checked: bool  # whether an index that is not valid must be found before anything is written
    least: int  # the smallest axis for which the operator is defined
    table: str  # the argument that the indices point into
    sizes: Places  # of the array that is written
    constants: tuple[int, ...] | None = None  # the values of constant indices
    divisor: isl.PwAff | None = None  # of means, the size of a bag, by which each sum is divided


class _Array:
    """An argument: the name and the size of each dimension, its element type, and its view."""

    def __init__(self, argument: SSAValue, function: func.FuncOp):
        view, type_ = view_of(argument, function), SSAValue.get(argument, type=MemRefType).type
        assert view is not None
        self.view, self.element, self.bits = view, type_.element_type, width_of(type_.element_type)
        named = zip(view.dims, type_.get_shape(), strict=True)
        self.sizes = [(str(name), number(size) if size >= 0 else parameter(f"n_{name}")) for name, size in named]

    def at(self, here: dict[str, isl.PwAff], component: int) -> tuple[isl.PwAff, ...]:
        """Return the subscripts of a component of the tuple, or of the index, at places of dimensions."""
        return tuple(number(component) if name == "tuple" else here[name] for name, _ in self.sizes)


def define(function: func.FuncOp, meaning: Meaning, specification: Specification) -> Definition:
    """Return the definition of a gather, of the sums of its gradient, or of the sums of bags, in a function's sizes.

    out[b, o, i, j] = data[b, o, position, j]
    out[b, o, position, j] += grad[b, o, i, j]
    out[i, j] += data[position, j], for each index k of bag i; or times weight[i, k] plus bias[i, k]
    out[i, j] = the larger of that and data[position, j], which is taken for k = 0 without a comparison

    Raises:
        Undecided: the indices of bags are a constant.
    """
    operator, mode = specification.operator, specification.mode
    is_gradient, is_reduction = specification.is_gradient, isinstance(operator, GatherReduce)
    first, *others, last = (
        _Array(each, function) for each in function.body.block.args if isinstance(each.type, MemRefType)
    )
    constants = None if others else specification.constants
    if constants is not None and is_reduction:
        raise Undecided("the indices of bags are a constant")
    if not others and (constants is None or operator is None):
        raise Undecided("the indices are a constant of unknown value; begin with the operator")
    table, slices = (last, first) if is_gradient else (first, last)
    bags = [(name, size) for name, size in others[0].sizes if name == "bag"] if is_reduction else []
    here, place = dict[str, isl.PwAff](), Place(domain=meaning.context)
    for name, size in (*slices.sizes, *bags):
        here[name] = parameter(f"at_{name}")
        loop = Loop(f"at_{name}", name, ZERO, size, 1, number(1), False, False)
        place = replace(place, loops=(*place.loops, loop)).restrict(interval(here[name], ZERO, size))
    subscripts, along = list[isl.PwAff | Term](), dict[int, Term]()
    for dim, (name, size) in enumerate(table.sizes):
        if LoopName(name).role != "axis":
            subscripts.append(here[LoopName(name).loop])
            continue
        if constants is not None and operator is not None:
            places, width = (_find_place(constants, operator, slices.view, here) + len(along),), bits.WIDE
        else:
            places, width = others[0].at(here, len(along)), others[0].bits
        label, length = f"wanted#{len(along)}", constant_of(size)
        atom = {label: Atom("indices", places, EVERYTHING, width)}
        extent = bits.variable(f"n_{name}") if length is None else bits.constant(length)
        index = bits.variable(label, width)
        position, inside = bits.resolve(index, extent, mode, unsigned=specification.unsigned)
        subscripts.append(Term(position, atom))
        along[dim] = Term(inside, atom)
    truth = functools.reduce(conjunction, along.values())
    mask = truth if mode is Bounds.ZERO else None
    at, element = tuple(here[name] for name, _ in slices.sizes), Element("data", tuple(subscripts))
    if is_gradient:
        write = Write(place, tuple(subscripts), Element("data", at, mask), adds=True)
    elif is_reduction:
        place = replace(place, under=() if mask is None else (mask,))
        combined = _combine(element, specification, (first, others[0], last), here)
        write = Write(place, at, combined, adds=True)
    else:
        write = Write(place, at, replace(element, mask=mask))
    must = mode in (Bounds.ERROR, Bounds.UNCHECKED)
    return Definition(
        write,
        truth if must else None,
        along if must else {},
        is_checked=mode is Bounds.ERROR,
        least=int(mode in (Bounds.CLIP, Bounds.WRAP)),
        table="out" if is_gradient else "data",
        sizes=tuple(size for _, size in last.sizes),
        constants=None if constants is None else constants.values,
        divisor=bags[0][1] if isinstance(operator, GatherReduce) and operator.divides else None,
    )


def _combine(
    element: Element, specification: Specification, arrays: tuple[_Array, _Array, _Array], here: dict[str, isl.PwAff]
) -> Element:
    """Return an element of a reduction with its steps; `here` has the place in each dimension of the indices."""
    data, indices, out = arrays
    steps = list[tuple[str, Term | None]]()
    if data.element != out.element:
        name = "arith.uitofp" if specification.has_unsigned_data else "arith.sitofp"
        name = name if isinstance(data.element, IntegerType) else "arith.extf"
        steps.append((f"{name} to {out.element}", None))
    if isinstance(specification.operator, GatherWeighted):
        (components,) = (constant_of(size) for name, size in indices.sizes if name == "tuple")
        for component, name in zip(range(1, components or 1), FACTORS, strict=False):
            atom = Atom("indices", indices.at(here, component), EVERYTHING, indices.bits)
            label = f"factor#{component}"
            steps.append((name, Term(bits.variable(label, indices.bits), {label: atom})))
    element = replace(element, steps=tuple(steps))
    if not isinstance(specification.operator, GatherMax):
        return element
    return replace(element, larger=comparison_of(out.element), first=here["bag"].eq_set(ZERO))


def _find_place(constants: Constants, operator: OperatorSpec, view: ViewAttr, here: dict[str, isl.PwAff]) -> isl.PwAff:
    """Return the place, in C order, of the index (or of the first of a tuple) for an element of out.

    Args:
        view: of out.
        here: the place in each of its dimensions.

    Raises:
        Undecided: merged dimensions are not side by side in the indices.
    """
    strides = contiguous_strides(constants.shape, 1)
    along = map_dimensions(operator, "indices", 0, constants.shape)
    step = {dim: (strides[place], constants.shape[place]) for place, dim in along.items()}
    flat = ZERO
    for name, group in zip(view.dims, view.groups, strict=True):
        digits = [step[dim] for dim in group if dim in step]
        if digits and len(digits) < len(group):
            raise Undecided("dimensions with and without an index are merged")
        if any(stride != later * size for (stride, _), (later, size) in itertools.pairwise(digits)):
            raise Undecided("dimensions are merged that are not side by side in the constant indices")
        if digits:
            flat += here[str(name)] * digits[-1][0]
    return flat
