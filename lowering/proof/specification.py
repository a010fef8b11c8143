"""What an operator means as a nest: the definition that every stage is compared with."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, MemRefType, ModuleOp, Signedness
from xdsl.ir import Attribute, SSAValue

from ...ir.array_spec import contiguous_strides
from ...ir.dialects.attributes import ViewAttr
from ...ir.dialects.gather_dialect import AccumulateOp, GradientOp, MaskedLoadOp, OperatorOp, ResolveOp, WeightedOp
from ...ir.dialects.types import dense_array
from ...ir.loop_name import LoopName
from ...ir.operator_spec import Gather, GatherElements, GatherMax, GatherNd, GatherReduce, GatherWeighted, OperatorSpec
from ...ir.semantics import Bounds
from ..nest.constant_indices import find_global
from ..nest.queries import functions, view_of
from . import bit_vectors as bits
from .arithmetic import FACTORS, comparison_of, conversion
from .sets import EVERYTHING, ZERO, constant_of, number, parameter, within
from .values import Atom, Element, Loop, Meaning, Place, Term, Undecided, Write, conjunction


@dataclass(frozen=True)
class Constants:
    """The constant indices of an operator, as it came: their shape, and their values as it reads them, in C order."""

    shape: tuple[int, ...]
    values: tuple[int, ...]


@dataclass(frozen=True)
class Specification:
    """What is known of an operator whatever its sizes.

    Attributes:
        mode: its bounds mode.
        unsigned: whether its indices are.
        is_gradient: whether it adds to the table.
        operator: with its attributes; None where only its nest is known.
        scale: of a gradient.
        constants: its indices, where they are a constant.
        has_unsigned_data: of weighted sums, whether integers of data are unsigned.
    """

    mode: Bounds
    unsigned: bool
    is_gradient: bool
    operator: OperatorSpec | None = None
    scale: float = 1.0
    constants: Constants | None = None
    has_unsigned_data: bool = False

    @property
    def adds(self) -> bool:
        """Whether it adds numbers, in place of copying elements."""
        return self.is_gradient or isinstance(self.operator, GatherReduce)


def specification_of(module: ModuleOp) -> Specification | None:
    """Return what an operator, or the resolves of its nest, say; None where the module has neither any more."""
    for function in functions(module):
        for op in function.walk():
            if isinstance(op, OperatorOp):
                unsigned = op.unsigned is not None or _is_unsigned(op.indices)
                is_wide = isinstance(op, WeightedOp) and (op.unsigned_data is not None or _is_unsigned(op.source))
                scale, is_gradient = (op.factor, True) if isinstance(op, GradientOp) else (1.0, False)
                constants = _constants_of(op.indices, module, unsigned=unsigned)
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


def _constants_of(indices: SSAValue, module: ModuleOp, *, unsigned: bool) -> Constants | None:
    if (dense := constant_indices(indices, module)) is None:
        return None
    values = dense_array(dense)
    values = values.view(f"u{values.dtype.itemsize}") if unsigned else values
    return Constants(values.shape, tuple(values.reshape(-1).tolist()))


def followed(spec: OperatorSpec, rank: int, indices: Sequence[int], out_rank: int) -> dict[str, tuple[int | None, ...]]:
    """Return for each dimension of `data`, `indices` and `out` that of out; None for an indexed one, tuples and bags.

    Args:
        rank: of data.
        indices: the shape of the indices.
    """
    places = len(indices)
    own: tuple[int | None, ...] = tuple(range(places))
    if isinstance(spec, Gather):
        axis, shared = spec.axis, spec.batch_dims
        data = (*range(axis), None, *(dim - 1 + places - shared for dim in range(axis + 1, rank)))
        own = tuple(dim if dim < shared else axis + dim - shared for dim in range(places))
    elif isinstance(spec, GatherNd):
        shared, length = spec.batch_dims, indices[-1]
        data = (*range(shared), *[None] * length, *(places - 1 + dim for dim in range(rank - shared - length)))
        own = (*range(places - 1), None)
    elif isinstance(spec, GatherReduce):
        bags = places - 2 if isinstance(spec, GatherWeighted) else places - 1
        data = (None, *(dim + bags for dim in range(rank - 1)))
        own = (*range(bags), *[None] * (places - bags))
    else:
        assert isinstance(spec, GatherElements)
        data = tuple(None if dim == spec.axis else dim for dim in range(rank))
    return {"data": data, "indices": own, "out": tuple(range(out_rank))}


@dataclass(frozen=True)
class Wanted:
    """The copy, or the sums, that an operator asks for, in the sizes of one module.

    Attributes:
        write: the one write.
        valid: truth without which the operator is undefined, or raises; None where every index means something.
        valid_along: such a truth for the index of one dimension of data alone.
        is_checked: whether an index that is not valid must be found before anything is written.
        least: the smallest axis for which the operator is defined.
        table: the argument that the indices point into.
        sizes: of the array that is written.
        constants: the values of constant indices.
        divisor: of means, the size of a bag, by which each sum is divided; None of sums.
    """

    write: Write
    valid: Term | None
    valid_along: dict[int, Term]
    is_checked: bool
    least: int
    table: str
    sizes: tuple[isl.PwAff, ...]
    constants: tuple[int, ...] | None = None
    divisor: isl.PwAff | None = None


@dataclass(frozen=True)
class _Array:
    """An argument: the name and the size of each dimension, its type, and its view."""

    sizes: tuple[tuple[str, isl.PwAff], ...]
    element: Attribute
    view: ViewAttr

    @property
    def bits(self) -> int:
        """The bits of its integers."""
        return self.element.width.data if isinstance(self.element, IntegerType) else bits.WIDE

    def at(self, here: dict[str, isl.PwAff], component: int) -> tuple[isl.PwAff, ...]:
        """Return the subscripts of a component of the tuple, or of the index, at places of dimensions."""
        return tuple(number(component) if name == "tuple" else here[name] for name, _ in self.sizes)


def wanted(function: func.FuncOp, meaning: Meaning, specification: Specification) -> Wanted:
    """Return the definition of a gather, of the sums of its gradient, or of those of bags, in the sizes of a function.

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
        _array(function, each) for each in function.body.block.args if isinstance(each.type, MemRefType)
    )
    constants = None if others else specification.constants
    if constants is not None and is_reduction:
        raise Undecided("the indices of bags are a constant")
    if not others and (constants is None or operator is None):
        raise Undecided("the indices are a constant, and nothing says what they were; begin with the operator")
    table, slices = (last, first) if is_gradient else (first, last)
    bags = [(name, size) for name, size in others[0].sizes if name == "bag"] if is_reduction else []
    here, place = dict[str, isl.PwAff](), Place(domain=meaning.context)
    for name, size in (*slices.sizes, *bags):
        here[name] = parameter(f"at_{name}")
        loop = Loop(f"at_{name}", name, ZERO, size, 1, number(1), False, False)
        place = replace(place, loops=(*place.loops, loop)).where(within(here[name], ZERO, size))
    subscripts, along = list[isl.PwAff | Term](), dict[int, Term]()
    for dim, (name, size) in enumerate(table.sizes):
        if LoopName(name).role != "axis":
            subscripts.append(here[LoopName(name).loop])
            continue
        if constants is not None and operator is not None:
            places, width = (_place_in(constants, operator, slices.view, here) + len(along),), bits.WIDE
        else:
            places, width = others[0].at(here, len(along)), others[0].bits
        label, length = f"wanted#{len(along)}", constant_of(size)
        atom = {label: Atom("indices", places, EVERYTHING, width)}
        extent = bits.variable(f"n_{name}") if length is None else bits.constant(length)
        index = bits.variable(label, width)
        position, inside = bits.resolved(index, extent, mode, unsigned=specification.unsigned)
        subscripts.append(Term(position, atom))
        along[dim] = Term(inside, atom)
    truth = functools.reduce(conjunction, along.values())
    mask = truth if mode is Bounds.ZERO else None
    at, element = tuple(here[name] for name, _ in slices.sizes), Element("data", tuple(subscripts))
    if is_gradient:
        write = Write(place, tuple(subscripts), Element("data", at, mask), adds=True)
    elif is_reduction:
        place = replace(place, under=() if mask is None else (mask,))
        combined = _combined(element, specification, (first, others[0], last), here)
        write = Write(place, at, combined, adds=True)
    else:
        write = Write(place, at, replace(element, mask=mask))
    must = mode in (Bounds.ERROR, Bounds.UNCHECKED)
    return Wanted(
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


def _combined(
    element: Element, specification: Specification, arrays: tuple[_Array, _Array, _Array], here: dict[str, isl.PwAff]
) -> Element:
    """Return an element of a reduction with its steps; `here` has the place in each dimension of the indices."""
    data, indices, out = arrays
    steps = list[tuple[str, Term | None]]()
    if data.element != out.element:
        name = "arith.uitofp" if specification.has_unsigned_data else "arith.sitofp"
        steps.append(conversion(name if isinstance(data.element, IntegerType) else "arith.extf", out.element))
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


def _array(function: func.FuncOp, argument: SSAValue) -> _Array:
    view, type_ = view_of(argument, function), SSAValue.get(argument, type=MemRefType).type
    assert view is not None
    named = zip(view.dims, type_.get_shape(), strict=True)
    sizes = tuple((str(name), number(size) if size >= 0 else parameter(f"n_{name}")) for name, size in named)
    return _Array(sizes, type_.element_type, view)


def _place_in(constants: Constants, operator: OperatorSpec, view: ViewAttr, here: dict[str, isl.PwAff]) -> isl.PwAff:
    """Return the place, in C order, of the index (or of the first of a tuple) that an element of out is found by.

    Args:
        view: of out.
        here: the place in each of its dimensions.

    Raises:
        Undecided: dimensions are merged that the indices do not have side by side.
    """
    strides = contiguous_strides(constants.shape, 1)
    along = followed(operator, 0, constants.shape, 0)["indices"]
    step = {dim: (strides[place], constants.shape[place]) for place, dim in enumerate(along) if dim is not None}
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
