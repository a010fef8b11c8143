"""Prove that an operator on merged views reads and writes the addresses that it does on the arrays as they came."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, SSAValue

from ...ir.dialects.gather_dialect import GradientOp, OperatorOp, WeightedOp
from ...ir.dialects.types import strides_of
from ...ir.loop_name import LoopName
from ...ir.operator_spec import GatherElements
from ...ir.semantics import DYNAMIC
from ..nest.constant_indices import find_global
from ..nest.queries import functions, view_of
from .conditions.failure import Failure
from .dimensions import followed
from .products import Product, contiguous, product
from .relations.values import Undecided

NAMES = ("data", "indices", "out")


@dataclass(frozen=True, slots=True)
class _Array:
    """One array of an operator: sizes, strides in elements, and for each dimension that of out which it follows.

    Attributes:
        follows: None for a dimension that an index selects from, and for that of tuples.
        groups: the dimensions of the caller's array in each dimension, and `names` their names; empty without a view.
    """

    shape: tuple[Product, ...]
    strides: tuple[Product, ...]
    follows: tuple[int | None, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    names: tuple[LoopName, ...] = ()


def failure_of_views(before: ModuleOp, after: ModuleOp) -> Failure | None:
    """Return what is wrong with the views that a pass merged, or None where every address is the same.

    A loop over merged dimensions of out counts their positions as digits. So an array is read at the same addresses
    when its stride in the merged dimension, times the size of all later digits, is its stride in each digit. Sizes and
    strides that the module leaves open stand for themselves, so the products are compared for all of them.

    Raises:
        Undecided: the pass did something else than to merge dimensions.
    """
    old, new = _operator(before), _operator(after)
    if type(old) is not type(new) or _facts(old) != _facts(new):
        raise Undecided("the operator is no loop nest yet, and is another than before")
    was = _arrays_as_they_came(old)
    now = _arrays_as_views(new, after, was)
    if _constants(old, before) != _constants(new, after):
        return Failure("the constant indices are others, or in another order")
    loops = now["out"]
    digits = [dim for group in loops.groups for dim in group]
    out = was["out"].shape
    if len(set(digits)) < len(digits) or any(size.known != 1 and dim not in digits for dim, size in enumerate(out)):
        return Failure("a dimension of out is in no merged dimension, or in two")
    for name in NAMES:
        reason = _wrong_names(name, now[name], loops) or _wrong_addresses(name, was[name], now[name], loops, out)
        reason = reason or _wrong_selection(name, was[name], now[name])
        if reason:
            return Failure(reason)
    return None


def _wrong_names(name: str, array: _Array, loops: _Array) -> str:
    """Return why the names of an array's dimensions, which the passes below go by, lead to another loop."""
    for dim, place in zip(array.names, array.follows, strict=bool(array.names)):
        wanted = None if place is None else loops.names[place]
        if (wanted is None) != (dim.role in ("axis", "tuple", "bag")) or (wanted is not None and dim.loop != wanted):
            return f"the dimension {dim} of {name} is that of {wanted or 'an index'}"
    return ""


def _wrong_addresses(name: str, was: _Array, now: _Array, loops: _Array, out: Sequence[Product]) -> str:
    """Return why the loops over merged dimensions lead to other elements of an array."""
    for place, group in enumerate(loops.groups):
        trips = product(out[dim] for dim in group)
        if loops.shape[place] != trips:
            return f"the loop {loops.names[place]} has {loops.shape[place]} iterations, not {trips}"
        at = next((dim for dim, follows in enumerate(now.follows) if follows == place), None)
        sources = [next((each for each, follows in enumerate(was.follows) if follows == dim), None) for dim in group]
        if at is not None and not _covers(now.shape[at], trips, was, sources):
            return f"a dimension of {name} is smaller than the loop {loops.names[place]}"
        for digit, (dim, source) in enumerate(zip(group, sources, strict=True)):
            later = product(out[other] for other in group[digit + 1 :])
            stride = Product(0) if at is None else now.strides[at] * later
            step = Product(0) if source is None else was.strides[source]
            if not out[dim].is_unit and Product(0) not in out and step != stride:
                return f"a step along dimension {dim} of out is {step} elements of {name}, not {stride}"
    return ""


def _covers(size: Product, trips: Product, was: _Array, sources: Sequence[int | None]) -> bool:
    """Return whether a dimension is as large as the loop over it; those of the caller's array are, by the operator."""
    if size.known is not None and trips.known is not None:
        return size.known >= trips.known
    return size == trips or size == product(was.shape[source] for source in sources if source is not None)


def _wrong_selection(name: str, was: _Array, now: _Array) -> str:
    """Return why the dimensions that indices select from, or that of tuples, are others; and views that do not fit."""
    kept = [
        [(array.shape[dim], array.strides[dim]) for dim, follows in enumerate(array.follows) if follows is None]
        for array in (was, now)
    ]
    if [size for size, _ in kept[0]] != [size for size, _ in kept[1]]:
        return f"the indexed sizes of {name} are {', '.join(str(size) for size, _ in kept[1])}, not those of the array"
    if any(old != new for (size, old), (_, new) in zip(*kept, strict=True) if not size.is_unit):
        return f"the indexed dimensions of {name} have other strides"
    for dim, group in enumerate(now.groups):
        if now.shape[dim] != product(was.shape[each] for each in group):
            return f"the view of {name} has {now.shape[dim]} elements along {now.names[dim]}"
        if group and not now.shape[dim].is_unit and now.strides[dim] != was.strides[group[-1]]:
            return f"the view of {name} has another stride along {now.names[dim]} than the array"
    return ""


def _operator(module: ModuleOp) -> OperatorOp:
    found = [op for op in module.walk() if isinstance(op, OperatorOp)]
    if len(found) != 1 or found[0].out is None or len(functions(module)) != 1:
        raise Undecided("the operator is no loop nest yet")
    return found[0]


def _facts(op: OperatorOp) -> tuple[object, ...]:
    """Return what an operator means beside its dimensions."""
    unsigned_data = op.unsigned_data is not None if isinstance(op, WeightedOp) else None
    return op.bounds.data, op.unsigned is not None, op.factor if isinstance(op, GradientOp) else None, unsigned_data


def _values(op: OperatorOp) -> dict[str, SSAValue[MemRefType]]:
    """Return data, indices and out; raises Undecided where one is neither an argument nor constant indices."""
    values = zip(NAMES, (op.table, op.indices, op.slices), strict=True)
    found = {name: SSAValue.get(value, type=MemRefType) for name, value in values}
    for name, value in found.items():
        if not isinstance(value.owner, Block) and not (name == "indices" and _global(value)):
            raise Undecided(f"{name} is no argument")
    return found


def _global(value: SSAValue) -> memref.GetGlobalOp | None:
    return value.owner if isinstance(value.owner, memref.GetGlobalOp) else None


def _constants(op: OperatorOp, module: ModuleOp) -> bytes | None:
    """Return constant indices, in their order."""
    load = _global(op.indices)
    return None if load is None else find_global(module, load).initial_value.data.data  # type: ignore[union-attr]


def _arrays_as_they_came(op: OperatorOp) -> dict[str, _Array]:
    """Return the arrays of an operator. Sizes that the module leaves open have names; equal ones have one name."""
    values = _values(op)
    shapes = {name: value.type.get_shape() for name, value in values.items()}
    follows = followed(op.normalized(), len(shapes["data"]), shapes["indices"], len(shapes["out"]))
    is_larger = isinstance(op.normalized(), GatherElements)
    sizes: dict[int, Product] = {}
    for name in ("out", "indices") if is_larger else NAMES:
        sizes |= {
            place: Product(size)
            for place, size in zip(follows[name], shapes[name], strict=True)
            if place is not None and size != DYNAMIC
        }
    found: dict[str, _Array] = {}
    for name, value in values.items():
        shape = tuple(
            Product(size)
            if size != DYNAMIC
            else Product(1, (f"{name}[{dim}]",))
            if place is None or (is_larger and name == "data")
            else sizes.get(place, Product(1, (f"out[{place}]",)))
            for dim, (place, size) in enumerate(zip(follows[name], shapes[name], strict=True))
        )
        given = strides_of(value.type)
        strides = contiguous(shape) if given is None else _open_strides(name, given)
        found[name] = _Array(shape, strides, follows[name])
    return found


def _open_strides(name: str, strides: Sequence[int | None]) -> tuple[Product, ...]:
    return tuple(
        Product(1, (f"stride {dim} of {name}",)) if stride is None else Product(stride)
        for dim, stride in enumerate(strides)
    )


def _arrays_as_views(op: OperatorOp, module: ModuleOp, was: dict[str, _Array]) -> dict[str, _Array]:
    """Return the arrays of an operator as their views show them: what the module leaves open is that of the array."""
    values, function = _values(op), functions(module)[0]
    shapes = {name: value.type.get_shape() for name, value in values.items()}
    follows = followed(op.normalized(), len(shapes["data"]), shapes["indices"], len(shapes["out"]))
    found: dict[str, _Array] = {}
    for name, value in values.items():
        view, array = view_of(value, function), was[name]
        if view is None and isinstance(value.owner, Block):
            raise Undecided("an argument carries no #gather.view")
        groups, names = ((), ()) if view is None else (view.groups, view.dims)
        shape = tuple(
            product(array.shape[each] for each in groups[dim]) if size == DYNAMIC else Product(size)
            for dim, size in enumerate(shapes[name])
        )
        given = strides_of(value.type)
        strides = contiguous(shape)
        if given is not None:
            last = [group[-1] if group else None for group in groups]
            strides = tuple(
                Product(stride) if stride is not None else Product(1) if at is None else array.strides[at]
                for stride, at in zip(given, last, strict=True)
            )
        found[name] = _Array(shape, strides, follows[name], groups, names)
    return found
