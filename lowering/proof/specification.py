"""What an operator means as a nest: the definition that every stage is compared with."""

import functools
from dataclasses import dataclass, replace

import islpy as isl
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, MemRefType, ModuleOp, Signedness
from xdsl.ir import Attribute, SSAValue

from ...ir.dialects.gather_dialect import AccumulateOp, GradientOp, MaskedLoadOp, OperatorOp, ResolveOp, WeightedOp
from ...ir.loop_name import LoopName
from ...ir.operator_spec import GatherMax, GatherReduce, GatherWeighted, OperatorSpec
from ...ir.semantics import Bounds
from ..nest.queries import functions, view_of
from .constants import Constants, constants_of, place_in
from .relations import bit_vectors as bits
from .relations.combining import FACTORS, converted, word_of_larger
from .relations.integer_sets import constant_of, everything, number, parameter
from .relations.meaning import Loop, Meaning, Write
from .relations.values import Atom, Element, Step, Term, Undecided, conjunction


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
        return self.is_gradient or self.is_reduction

    @property
    def is_reduction(self) -> bool:
        """Whether it sums bags."""
        return isinstance(self.operator, GatherReduce)


def specification_of(module: ModuleOp) -> Specification | None:
    """Return what an operator, or the resolves of its nest, say; None where the module has neither any more."""
    for function in functions(module):
        for op in function.walk():
            if isinstance(op, OperatorOp):
                facts = op.bounds.data, _is_unsigned(op), isinstance(op, GradientOp)
                scale = op.factor if isinstance(op, GradientOp) else 1.0
                constants = constants_of(op.operands[1], module, unsigned=_is_unsigned(op))
                return Specification(*facts, op.normalized(), scale, constants, _has_unsigned_data(op))
            if isinstance(op, ResolveOp):
                adds = any(isinstance(other, AccumulateOp) for other in function.walk())
                if adds and any(isinstance(other, MaskedLoadOp) for other in function.walk()):
                    return None  # the nest of a reduction
                return Specification(op.bounds.data, op.unsigned is not None, adds)
    return None


def _is_unsigned(op: OperatorOp) -> bool:
    return op.unsigned is not None or _is_unsigned_type(op.operands[1])


def _has_unsigned_data(op: OperatorOp) -> bool:
    return isinstance(op, WeightedOp) and (op.unsigned_data is not None or _is_unsigned_type(op.operands[0]))


def _is_unsigned_type(value: SSAValue) -> bool:
    element = getattr(value.type, "element_type", None)
    return isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED


@dataclass(frozen=True)
class Wanted:
    """The copy that an operator asks for, in the sizes of one module.

    Attributes:
        write: the one write.
        valid: truth without which the operator is undefined, or raises; None where every index means something.
        valid_along: the same for the index of one dimension of data alone.
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


def wanted(function: func.FuncOp, meaning: Meaning, specification: Specification) -> Wanted:
    """Return the definition of a gather, of the sums of its gradient, or of those of bags, in the sizes of a function.

    out[b, o, i, j] = data[b, o, position, j]
    out[b, o, position, j] += grad[b, o, i, j]
    out[i, j] += data[position, j], for each index k of bag i; or times weight[i, k] plus bias[i, k]
    out[i, j] = the larger of that and data[position, j], which is taken for k = 0 whatever it is

    Raises:
        Undecided: the indices of bags are a constant.
    """
    arguments = [argument for argument in function.body.block.args if isinstance(argument.type, MemRefType)]
    constants = specification.constants if len(arguments) == 2 else None
    if constants is not None and specification.is_reduction:
        raise Undecided("the indices of bags are a constant")
    if len(arguments) != 3 and (constants is None or specification.operator is None):
        raise Undecided("the indices are a constant, and nothing says what they were; begin with the operator")
    first, *others, last = (_array(function, argument) for argument in arguments)
    table, slices = (last, first) if specification.is_gradient else (first, last)
    domain, loops, here = meaning.context, [], dict[str, isl.PwAff]()
    bags = [(name, size) for name, size in others[0].sizes if name == "bag"] if specification.is_reduction else []
    for name, size in (*slices.sizes, *bags):
        here[name] = parameter(f"at_{name}")
        domain = domain.intersect(here[name].ge_set(number(0))).intersect(here[name].lt_set(size))
        loops.append(Loop(f"at_{name}", name, number(0), size, 1, number(1), False, False))
    subscripts, along = [], dict[int, Term]()
    for dim, (name, size) in enumerate(table.sizes):
        if LoopName(name).role != "axis":
            subscripts.append(here[LoopName(name).loop])
            continue
        component = len(along)
        if constants is not None and specification.operator is not None:
            view = view_of(arguments[0 if specification.is_gradient else -1], function)
            assert view is not None
            at = place_in(constants, specification.operator, view, here)
            places, width = (at.add(number(component)),), bits.WIDE
        else:
            (indices,) = others
            places = tuple(number(component) if each == "tuple" else here[each] for each, _ in indices.sizes)
            width = indices.bits
        atom = {f"wanted#{component}": Atom("indices", places, everything(), width)}
        length = constant_of(size)
        extent = bits.variable(f"n_{name}") if length is None else bits.constant(length, 64)
        index = bits.variable(f"wanted#{component}", width)
        position, inside = bits.resolved(index, extent, specification.mode, unsigned=specification.unsigned)
        subscripts.append(Term(position.expression, atom))
        along[dim] = Term(inside.expression, atom)
    truth = functools.reduce(conjunction, along.values())
    mask = truth if specification.mode is Bounds.ZERO else None
    at, adds, under = tuple(here[name] for name, _ in slices.sizes), specification.is_gradient, ()
    if specification.is_gradient:
        pair = tuple(subscripts), Element("data", at, mask)
    elif specification.is_reduction:
        adds, under = True, () if mask is None else (mask,)
        types = [SSAValue.get(argument, type=MemRefType).type.element_type for argument in (arguments[0], arguments[2])]
        element = Element("data", tuple(subscripts))
        pair = at, _combined(element, specification, (types[0], types[1]), others[0], here)
    else:
        pair = at, Element("data", tuple(subscripts), mask)
    write = Write(function, "out", tuple(loops), domain, (), *pair, under, adds, None)
    must = specification.mode in (Bounds.ERROR, Bounds.UNCHECKED)
    least = int(specification.mode in (Bounds.CLIP, Bounds.WRAP))
    promised = (truth, along) if must else (None, {})
    name = "out" if specification.is_gradient else "data"
    sizes = tuple(size for _, size in last.sizes)
    values = None if constants is None else constants.values
    divides = isinstance(specification.operator, GatherReduce) and specification.operator.divides
    divisor = bags[0][1] if divides else None
    return Wanted(write, *promised, specification.mode is Bounds.ERROR, least, name, sizes, values, divisor)


def _combined(
    element: Element,
    specification: Specification,
    types: tuple[Attribute, Attribute],
    indices: "_Array",
    here: dict[str, isl.PwAff],
) -> Element:
    """Return an element of a reduction with what becomes of it; `types` are those of data and of out.

    `here` has the place in each dimension of the indices.
    """
    (data, out), steps = types, []
    if data != out:
        is_unsigned = specification.has_unsigned_data
        name = "arith.extf" if not isinstance(data, IntegerType) else "arith.uitofp" if is_unsigned else "arith.sitofp"
        steps.append(converted(name, out))
    if isinstance(specification.operator, GatherWeighted):
        (components,) = (constant_of(size) for name, size in indices.sizes if name == "tuple")
        for place, name in zip(range(1, components or 1), FACTORS, strict=False):
            at = tuple(number(place) if each == "tuple" else here[each] for each, _ in indices.sizes)
            atom = Atom("indices", at, everything(), indices.bits)
            steps.append(Step(name, Term(bits.variable(f"factor#{place}", indices.bits), {f"factor#{place}": atom})))
    element = replace(element, steps=tuple(steps))
    if not isinstance(specification.operator, GatherMax):
        return element
    return replace(element, larger=word_of_larger(out), first=here["bag"].eq_set(number(0)))


@dataclass(frozen=True)
class _Array:
    """An argument: the name and the size of each dimension, and the bits of its elements where they are integers."""

    sizes: tuple[tuple[str, isl.PwAff], ...]
    bits: int


def _array(function: func.FuncOp, argument: SSAValue) -> _Array:
    view, type_ = view_of(argument, function), SSAValue.get(argument, type=MemRefType).type
    assert view is not None
    named = zip(view.dims, type_.get_shape(), strict=True)
    sizes = tuple((str(name), number(size) if size >= 0 else parameter(f"n_{name}")) for name, size in named)
    return _Array(sizes, type_.element_type.width.data if isinstance(type_.element_type, IntegerType) else 0)
