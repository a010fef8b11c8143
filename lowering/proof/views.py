"""Prove that an operator on merged views reads and writes the addresses that it does on the arrays as they came."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, SSAValue

from ...ir.dialects.gather_dialect import GradientOp, OperatorOp, WeightedOp
from ...ir.dialects.types import strides_of
from ...ir.loop_name import LoopName
from ...ir.operator_spec import GatherElements
from ...ir.semantics import DYNAMIC
from ..nest.queries import functions, view_of
from .conditions import Failure
from .sets import Polynomial
from .specification import constant_indices, followed
from .values import Undecided

NAMES = ("data", "indices", "out")
NONE, ONE = Polynomial.of(0), Polynomial.of(1)


@dataclass(frozen=True, slots=True)
class _Array:
    """One array of an operator: sizes, strides in elements, and for each dimension that of out which it follows.

    Attributes:
        follows: None for a dimension that an index selects from, and for that of tuples.
        groups: the dimensions of the caller's array in each dimension, and `names` their names; empty without a view.
    """

    shape: tuple[Polynomial, ...]
    strides: tuple[Polynomial, ...]
    follows: tuple[int | None, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    names: tuple[LoopName, ...] = ()


def failure_of_views(before: ModuleOp, after: ModuleOp) -> list[Failure]:
    """Return what is wrong with the views that a pass merged; nothing where every address is the same.

    A loop over merged dimensions of out counts their positions as digits. So an array is read at the same addresses
    when its stride in the merged dimension, times the size of all later digits, is its stride in each digit. Sizes and
    strides that the module leaves open stand for themselves, so the products are compared for all of them.

    Raises:
        Undecided: the pass did something else than to merge dimensions.
    """
    old, new = _operator(before), _operator(after)
    if type(old) is not type(new) or _facts(old) != _facts(new):
        raise Undecided("the operator is no loop nest yet, and is another than before")
    was = _arrays_as_they_came(old, before)
    now = _arrays_as_views(new, after, was)
    constants = constant_indices(old.indices, before), constant_indices(new.indices, after)
    if len({None if dense is None else dense.data.data for dense in constants}) > 1:
        return [Failure("the constant indices are others, or in another order")]
    loops, out = now["out"], was["out"].shape
    digits = [dim for group in loops.groups for dim in group]
    if len(set(digits)) < len(digits) or any(size != ONE and dim not in digits for dim, size in enumerate(out)):
        return [Failure("a dimension of out is in no merged dimension, or in two")]
    for name in NAMES:
        reason = _wrong_names(name, now[name], loops) or _wrong_addresses(name, was[name], now[name], loops, out)
        if reason := reason or _wrong_selection(name, was[name], now[name]):
            return [Failure(reason)]
    return []


def _wrong_names(name: str, array: _Array, loops: _Array) -> str:
    """Return why the names of an array's dimensions, which the passes below go by, lead to another loop."""
    for dim, place in zip(array.names, array.follows, strict=bool(array.names)):
        wanted = None if place is None else loops.names[place]
        if (wanted is None) != (dim.role in ("axis", "tuple", "bag")) or (wanted is not None and dim.loop != wanted):
            return f"the dimension {dim} of {name} is that of {wanted or 'an index'}"
    return ""


def _wrong_addresses(name: str, was: _Array, now: _Array, loops: _Array, out: Sequence[Polynomial]) -> str:
    """Return why the loops over merged dimensions lead to other elements of an array."""
    for place, group in enumerate(loops.groups):
        trips = _product(out[dim] for dim in group)
        if loops.shape[place] != trips:
            return f"the loop {loops.names[place]} has {loops.shape[place]} iterations, not {trips}"
        at = now.follows.index(place) if place in now.follows else None
        sources = [was.follows.index(dim) if dim in was.follows else None for dim in group]
        if at is not None and not _covers(now.shape[at], trips, was, sources):
            return f"a dimension of {name} is smaller than the loop {loops.names[place]}"
        for digit, (dim, source) in enumerate(zip(group, sources, strict=True)):
            later = _product(out[other] for other in group[digit + 1 :])
            stride = NONE if at is None else now.strides[at] * later
            step = NONE if source is None else was.strides[source]
            if not _is_unit(out[dim]) and NONE not in out and step != stride:
                return f"a step along dimension {dim} of out is {step} elements of {name}, not {stride}"
    return ""


def _covers(size: Polynomial, trips: Polynomial, was: _Array, sources: Sequence[int | None]) -> bool:
    """Return whether a dimension is as large as the loop over it; those of the caller's array are, by the operator."""
    if size.known is not None and trips.known is not None:
        return size.known >= trips.known
    return size == trips or size == _product(was.shape[source] for source in sources if source is not None)


def _wrong_selection(name: str, was: _Array, now: _Array) -> str:
    """Return why the dimensions that indices select from, or that of tuples, are others; and views that do not fit."""
    kept = [
        [(array.shape[dim], array.strides[dim]) for dim, follows in enumerate(array.follows) if follows is None]
        for array in (was, now)
    ]
    if [size for size, _ in kept[0]] != [size for size, _ in kept[1]]:
        return f"the indexed sizes of {name} are {', '.join(str(size) for size, _ in kept[1])}, not those of the array"
    if any(old != new for (size, old), (_, new) in zip(*kept, strict=True) if not _is_unit(size)):
        return f"the indexed dimensions of {name} have other strides"
    for dim, group in enumerate(now.groups):
        if now.shape[dim] != _product(was.shape[each] for each in group):
            return f"the view of {name} has {now.shape[dim]} elements along {now.names[dim]}"
        if group and not _is_unit(now.shape[dim]) and now.strides[dim] != was.strides[group[-1]]:
            return f"the view of {name} has another stride along {now.names[dim]} than the array"
    return ""


def _product(factors: Iterable[Polynomial]) -> Polynomial:
    return math.prod(factors, start=ONE)


def _is_unit(size: Polynomial) -> bool:
    """Return whether a size is 1 or 0, so that there is no step along it."""
    return size.known is not None and size.known <= 1


def _operator(module: ModuleOp) -> OperatorOp:
    found = [op for op in module.walk() if isinstance(op, OperatorOp)]
    if len(found) != 1 or found[0].out is None or len(functions(module)) != 1:
        raise Undecided("the operator is no loop nest yet")
    return found[0]


def _facts(op: OperatorOp) -> tuple[object, ...]:
    """Return what an operator means beside its dimensions."""
    unsigned_data = op.unsigned_data is not None if isinstance(op, WeightedOp) else None
    return op.bounds.data, op.unsigned is not None, op.factor if isinstance(op, GradientOp) else None, unsigned_data


def _values(op: OperatorOp, module: ModuleOp) -> dict[str, tuple[SSAValue[MemRefType], tuple[int | None, ...]]]:
    """Return data, indices and out, each with the dimensions of out that it follows.

    Raises:
        Undecided: one is neither an argument nor constant indices.
    """
    values = [SSAValue.get(value, type=MemRefType) for value in (op.table, op.indices, op.slices)]
    for name, value in zip(NAMES, values, strict=True):
        if not isinstance(value.owner, Block) and not (name == "indices" and constant_indices(value, module)):
            raise Undecided(f"{name} is no argument")
    data, indices, out = (value.type.get_shape() for value in values)
    follows = followed(op.normalized(), len(data), indices, len(out))
    return {name: (value, follows[name]) for name, value in zip(NAMES, values, strict=True)}


def _arrays_as_they_came(op: OperatorOp, module: ModuleOp) -> dict[str, _Array]:
    """Return the arrays of an operator. Sizes that the module leaves open have names; equal ones have one name."""
    values, is_larger = _values(op, module), isinstance(op.normalized(), GatherElements)
    sizes: dict[int, Polynomial] = {}
    for name, (value, follows) in values.items():
        for place, size in zip(follows, value.type.get_shape(), strict=True):
            if place is not None and not (is_larger and name == "data"):
                sizes[place] = (
                    sizes.get(place, Polynomial.of(f"out[{place}]")) if size == DYNAMIC else Polynomial.of(size)
                )
    found: dict[str, _Array] = {}
    for name, (value, follows) in values.items():
        shape = list[Polynomial]()
        for dim, (place, size) in enumerate(zip(follows, value.type.get_shape(), strict=True)):
            is_own = place is None or (is_larger and name == "data")
            open_size = Polynomial.of(f"{name}[{dim}]") if is_own or place is None else sizes[place]
            shape.append(open_size if size == DYNAMIC else Polynomial.of(size))
        given = strides_of(value.type)
        strides = [
            Polynomial.of(f"stride {dim} of {name}") if stride is None else Polynomial.of(stride)
            for dim, stride in enumerate(given or ())
        ]
        found[name] = _Array(tuple(shape), _contiguous(shape) if given is None else tuple(strides), follows)
    return found


def _arrays_as_views(op: OperatorOp, module: ModuleOp, was: dict[str, _Array]) -> dict[str, _Array]:
    """Return the arrays of an operator as their views show them: what the module leaves open is that of the array."""
    function, found = functions(module)[0], dict[str, _Array]()
    for name, (value, follows) in _values(op, module).items():
        view, array, type_ = view_of(value, function), was[name], value.type
        if view is None and isinstance(value.owner, Block):
            raise Undecided("an argument carries no #gather.view")
        groups, names = ((), ()) if view is None else (view.groups, view.dims)
        shape = [
            _product(array.shape[each] for each in groups[dim]) if size == DYNAMIC else Polynomial.of(size)
            for dim, size in enumerate(type_.get_shape())
        ]
        strides = [
            Polynomial.of(stride) if stride is not None else array.strides[group[-1]] if group else ONE
            for stride, group in zip(strides_of(type_) or (), groups, strict=False)
        ]
        is_contiguous = strides_of(type_) is None
        found[name] = _Array(
            tuple(shape), _contiguous(shape) if is_contiguous else tuple(strides), follows, groups, names
        )
    return found


def _contiguous(shape: Sequence[Polynomial]) -> tuple[Polynomial, ...]:
    """Return the strides, in elements, of an array of that shape without gaps."""
    return tuple(_product(shape[dim + 1 :]) for dim in range(len(shape)))
