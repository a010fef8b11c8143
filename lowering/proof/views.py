"""Prove that an operator reads and writes the same addresses through merged views as through the original arrays."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, SSAValue

from ...ir.dialects.gather_dialect import OperatorOp
from ...ir.dialects.types import strides_of
from ...ir.loop_name import LoopName
from ...ir.operator_spec import GatherElements
from ...ir.semantics import DYNAMIC
from ..nest.queries import functions, view_of
from .conditions import Failure
from .sets import Polynomial
from .specification import constant_indices, map_dimensions, specification_of
from .values import Undecided

NAMES = ("data", "indices", "out")
NONE, ONE = Polynomial.of(0), Polynomial.of(1)


@dataclass(frozen=True, slots=True)
class _Array:
    """One array of an operator."""

    shape: tuple[Polynomial, ...]
    strides: tuple[Polynomial, ...]  # in elements
    follows: tuple[int | None, ...]  # the dimension of out; None for an indexed dimension, and for tuples
    groups: tuple[tuple[int, ...], ...] = ()  # the dimensions of the caller's array in each dimension of its view
    names: tuple[LoopName, ...] = ()  # of the dimensions of a view


def check_views(before: ModuleOp, after: ModuleOp) -> list[Failure]:
    """Return the fault of the views that a pass merged; empty where every address is the same.

    A loop over merged dimensions of out counts their positions as digits. So an array is read at the same addresses if
    its address is the same polynomial of the digits and of the indices. Dynamic sizes and strides are variables, so
    the polynomials are compared for all of their values.

    Raises:
        Undecided: the pass did something else than merge dimensions.
    """
    old, new = _find_operator(before), _find_operator(after)
    known = [specification_of(module) for module in (before, after)]
    facts = [None if each is None else replace(each, operator=None, constants=None) for each in known]
    if type(old) is not type(new) or facts[0] != facts[1]:
        raise Undecided("the operator is no loop nest yet, and is another than before")
    was = _read_arrays(old, before)
    now = _read_arrays(new, after, was)
    constants = [None if each is None or each.constants is None else each.constants.values for each in known]
    if constants[0] != constants[1]:
        return [Failure("the constant indices are others, or in another order")]
    loops, out = now["out"], was["out"].shape
    digits = [dim for group in loops.groups for dim in group]
    if len(set(digits)) < len(digits) or any(size != ONE and dim not in digits for dim, size in enumerate(out)):
        return [Failure("a dimension of out is in no merged dimension, or in two")]
    for name in NAMES:
        arrays = was[name], now[name], loops
        reason = (
            _check_names(name, *arrays[1:]) or _check_sizes(name, *arrays, out) or _check_addresses(name, *arrays, out)
        )
        if reason:
            return [Failure(reason)]
    return []


def _check_names(name: str, array: _Array, loops: _Array) -> str:
    """Return the reason why a name of an array's dimension, which later passes use, belongs to another loop."""
    for dim, place in zip(array.names, array.follows, strict=bool(array.names)):
        wanted = None if place is None else loops.names[place]
        if (wanted is None) != (dim.role in ("axis", "tuple", "bag")) or (wanted is not None and dim.loop != wanted):
            return f"the dimension {dim} of {name} belongs to {wanted or 'an index'}"
    return ""


def _check_sizes(name: str, was: _Array, now: _Array, loops: _Array, out: Sequence[Polynomial]) -> str:
    """Return the reason why the view of an array, or a loop, has other sizes than the dimensions that it merges."""
    for dim, group in enumerate(now.groups):
        if now.shape[dim] != _multiply(was.shape[each] for each in group):
            return f"the view of {name} has {now.shape[dim]} elements along {now.names[dim]}"
        if group and not _is_unit(now.shape[dim]) and now.strides[dim] != was.strides[group[-1]]:
            return f"the view of {name} has another stride along {now.names[dim]} than the array"
    for place, group in enumerate(loops.groups):
        trips, at = _multiply(out[dim] for dim in group), now.follows.index(place) if place in now.follows else None
        if loops.shape[place] != trips:
            return f"the loop {loops.names[place]} has {loops.shape[place]} iterations, not {trips}"
        own = _multiply(was.shape[was.follows.index(dim)] for dim in group if dim in was.follows)
        # The dimensions of the caller's array are as large as the loop over them, by the operator.
        if at is not None and now.shape[at] not in (trips, own) and ((now.shape[at] - trips).constant or -1) < 0:
            return f"a dimension of {name} is smaller than the loop {loops.names[place]}"
    return ""


def _check_addresses(name: str, was: _Array, now: _Array, loops: _Array, out: Sequence[Polynomial]) -> str:
    """Return the reason why an array is read, or written, at other addresses, with both polynomials."""
    free = [[array.shape[dim] for dim, follows in enumerate(array.follows) if follows is None] for array in (was, now)]
    if free[0] != free[1]:
        return f"the indexed sizes of {name} are {', '.join(map(str, free[1]))}, and the array has others"
    digits = [NONE if _is_unit(size) else Polynomial.of(f"digit{dim}") for dim, size in enumerate(out)]
    merged = list[Polynomial]()
    for group in loops.groups:
        place = NONE
        for dim in group:
            place = place * out[dim] + digits[dim]
        merged.append(place)
    old, new = _compute_address(was, digits), _compute_address(now, merged)
    return f"{name} is at {new} in place of {old}" if NONE not in out and old != new else ""


def _compute_address(array: _Array, places: Sequence[Polynomial]) -> Polynomial:
    """Return the address of an element, in elements, at the places of the loops and at any indices."""
    total, indices = NONE, itertools.count()
    for size, stride, follows in zip(array.shape, array.strides, array.follows, strict=True):
        place = Polynomial.of(f"index{next(indices)}") if follows is None else places[follows]
        total += NONE if _is_unit(size) else place * stride
    return total


def _multiply(factors: Iterable[Polynomial]) -> Polynomial:
    return math.prod(factors, start=ONE)


def _is_unit(size: Polynomial) -> bool:
    """Return whether a size is 1 or 0, so that there is no step along it."""
    return size.constant is not None and size.constant <= 1


def _find_operator(module: ModuleOp) -> OperatorOp:
    found = [op for op in module.walk() if isinstance(op, OperatorOp)]
    if len(found) != 1 or found[0].out is None or len(functions(module)) != 1:
        raise Undecided("the operator is no loop nest yet")
    return found[0]


def _read_arrays(op: OperatorOp, module: ModuleOp, was: dict[str, _Array] | None = None) -> dict[str, _Array]:
    """Return data, indices and out of an operator; with `was`, the original arrays, as views of these.

    Dynamic sizes and strides have names, and equal sizes one name; views use the names of their arrays.

    Raises:
        Undecided: one is neither an argument nor constant indices, or has no view.
    """
    values = {
        name: SSAValue.get(value, type=MemRefType)
        for name, value in zip(NAMES, (op.table, op.indices, op.slices), strict=True)
    }
    shapes = {name: value.type.get_shape() for name, value in values.items()}
    spec, sizes, found = op.normalized(), dict[int, Polynomial](), dict[str, _Array]()
    along = {name: map_dimensions(spec, name, len(shapes["data"]), shapes["indices"]) for name in NAMES}
    # Only the beginning of the data of gather_elements is read, so its sizes may differ from the sizes of indices.
    shared = NAMES[1:] if isinstance(spec, GatherElements) else NAMES
    for name in shared:
        sizes |= {at: Polynomial.of(size) for dim, at in along[name].items() if (size := shapes[name][dim]) != DYNAMIC}
    for name, value in values.items():
        view, is_argument = view_of(value, functions(module)[0]), isinstance(value.owner, Block)
        if not is_argument and not (name == "indices" and constant_indices(value, module)):
            raise Undecided(f"{name} is no argument")
        if is_argument and was is not None and view is None:
            raise Undecided("an argument carries no #gather.view")
        groups, names = ((), ()) if view is None or was is None else (view.groups, view.dims)
        shape, strides = list[Polynomial](), list[Polynomial]()
        for dim, size in enumerate(shapes[name]):
            own = Polynomial.of(f"{name}[{dim}]")
            if was is not None and groups:
                own = _multiply(was[name].shape[each] for each in groups[dim])
            elif dim in along[name] and name in shared:
                own = sizes.get(along[name][dim], Polynomial.of(f"out[{along[name][dim]}]"))
            shape.append(own if size == DYNAMIC else Polynomial.of(size))
        for dim, stride in enumerate(strides_of(value.type) or ()):
            own = Polynomial.of(f"stride {dim} of {name}")
            if was is not None:
                own = was[name].strides[groups[dim][-1]] if groups and groups[dim] else ONE
            strides.append(own if stride is None else Polynomial.of(stride))
        if strides_of(value.type) is None:
            strides = [_multiply(shape[dim + 1 :]) for dim in range(len(shape))]
        follows = tuple(along[name].get(dim) for dim in range(len(shape)))
        found[name] = _Array(tuple(shape), tuple(strides), follows, groups, names)
    return found
