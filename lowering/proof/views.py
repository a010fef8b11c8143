"""Prove that an operator on merged views reads and writes the addresses that it does on the arrays as they came."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, SSAValue

from ...ir.array_spec import contiguous_strides
from ...ir.dialects.gather_dialect import GradientOp, OperatorOp
from ...ir.dialects.types import strides_of
from ...ir.loop_name import LoopName
from ...ir.operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from ...ir.semantics import DYNAMIC
from ..nest.queries import functions, view_of
from .obligations import Failure
from .relations.values import Undecided

NAMES = ("data", "indices", "out")


@dataclass(frozen=True, slots=True)
class _Array:
    """One array of an operator: sizes, strides in elements, and for each dimension that of out which it follows.

    Attributes:
        follows: None for a dimension that an index selects from, and for that of tuples.
        groups: the dimensions of the caller's array in each dimension, and `names` their names; empty without a view.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    follows: tuple[int | None, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    names: tuple[LoopName, ...] = ()


def failure_of_views(before: ModuleOp, after: ModuleOp) -> Failure | None:
    """Return what is wrong with the views that a pass merged, or None where every address is the same.

    A loop over merged dimensions of out counts their positions as digits. So an array is read at the same addresses
    when its stride in the merged dimension, times the size of all later digits, is its stride in each digit.

    Raises:
        Undecided: the pass did something else than to merge dimensions, or the sizes or strides are not known.
    """
    old, new = _operator(before), _operator(after)
    if type(old) is not type(new) or _facts(old) != _facts(new):
        raise Undecided("the operator is no loop nest yet, and is another than before")
    was, now = _arrays(old, None), _arrays(new, after)
    loops = now["out"]
    digits = [dim for group in loops.groups for dim in group]
    out = was["out"].shape
    if len(set(digits)) < len(digits) or any(size != 1 and dim not in digits for dim, size in enumerate(out)):
        return Failure("a dimension of out is in no merged dimension, or in two")
    for name in NAMES:
        reason = _wrong_names(name, now[name], loops) or _wrong_addresses(name, was[name], now[name], loops, out)
        reason = reason or _wrong_selection(name, was[name], now[name])
        if reason:
            return Failure(reason)
    return None


def _wrong_names(name: str, array: _Array, loops: _Array) -> str:
    """Return why the names of an array's dimensions, which the passes below go by, lead to another loop."""
    for dim, place in zip(array.names, array.follows, strict=True):
        wanted = None if place is None else loops.names[place]
        if (wanted is None) != (dim.role in ("axis", "tuple")) or (wanted is not None and dim.loop != wanted):
            return f"the dimension {dim} of {name} is that of {wanted or 'an index'}"
    return ""


def _wrong_addresses(name: str, was: _Array, now: _Array, loops: _Array, out: Sequence[int]) -> str:
    """Return why the loops over merged dimensions lead to other elements of an array."""
    for place, group in enumerate(loops.groups):
        trips = math.prod(out[dim] for dim in group)
        if loops.shape[place] != trips:
            return f"the loop {loops.names[place]} has {loops.shape[place]} iterations, not {trips}"
        at = next((dim for dim, follows in enumerate(now.follows) if follows == place), None)
        stride = 0 if at is None else now.strides[at]
        if at is not None and now.shape[at] < trips:
            return f"the dimension {now.names[at]} of {name} is smaller than its loop"
        for digit, dim in enumerate(group):
            later = math.prod(out[other] for other in group[digit + 1 :])
            source = next((each for each, follows in enumerate(was.follows) if follows == dim), None)
            step = 0 if source is None else was.strides[source]
            if out[dim] > 1 and 0 not in out and step != stride * later:
                return f"a step along dimension {dim} of out is {step} elements of {name}, not {stride * later}"
    return ""


def _wrong_selection(name: str, was: _Array, now: _Array) -> str:
    """Return why the dimensions that indices select from, or that of tuples, are others; and views that do not fit."""
    kept = [
        [(array.shape[dim], array.strides[dim]) for dim, follows in enumerate(array.follows) if follows is None]
        for array in (was, now)
    ]
    if [size for size, _ in kept[0]] != [size for size, _ in kept[1]]:
        return f"the indexed sizes of {name} are {kept[1]}, not {kept[0]}"
    if any(old != new for (size, old), (_, new) in zip(*kept, strict=True) if size > 1):
        return f"the indexed dimensions of {name} have other strides"
    for dim, group in enumerate(now.groups):
        if now.shape[dim] != math.prod(was.shape[each] for each in group):
            return f"the view of {name} has {now.shape[dim]} elements along {now.names[dim]}"
        if group and now.shape[dim] > 1 and now.strides[dim] != was.strides[group[-1]]:
            return f"the view of {name} has another stride along {now.names[dim]} than the array"
    return ""


def _operator(module: ModuleOp) -> OperatorOp:
    found = [op for op in module.walk() if isinstance(op, OperatorOp)]
    if len(found) != 1 or found[0].out is None or len(functions(module)) != 1:
        raise Undecided("the operator is no loop nest yet")
    return found[0]


def _facts(op: OperatorOp) -> tuple[object, ...]:
    """Return what an operator means beside its dimensions."""
    return op.bounds.data, op.unsigned is not None, op.factor if isinstance(op, GradientOp) else None


def _arrays(op: OperatorOp, module: ModuleOp | None) -> dict[str, _Array]:
    """Return the arrays of an operator, with their views where a module is given."""
    values = dict(zip(NAMES, (op.table, op.indices, op.slices), strict=True))
    shapes = {name: SSAValue.get(value, type=MemRefType).type.get_shape() for name, value in values.items()}
    follows = _follows(op.normalized(), len(shapes["data"]), shapes["indices"], len(shapes["out"]))
    found: dict[str, _Array] = {}
    for name, value in values.items():
        if not isinstance(value.owner, Block):
            raise Undecided("the indices are a constant")
        type_ = SSAValue.get(value, type=MemRefType).type
        shape, strides = tuple(type_.get_shape()), strides_of(type_)
        strides = contiguous_strides(shape, 1) if strides is None else strides
        if DYNAMIC in shape or None in strides:
            raise Undecided("the operator is no loop nest yet, and its sizes or strides are not known")
        steps = tuple(int(step) for step in strides if step is not None)
        view = None if module is None else view_of(value, functions(module)[0])
        if module is not None and view is None:
            raise Undecided("an argument carries no #gather.view")
        groups, names = ((), ()) if view is None else (view.groups, view.dims)
        found[name] = _Array(shape, steps, follows[name], groups, names)
    return found


def _follows(spec: OperatorSpec, rank: int, indices: Sequence[int], out_rank: int) -> dict[str, tuple[int | None, ...]]:
    """Return which dimension of out each dimension of the arrays runs along, as the operator's document says."""
    places, out = len(indices), tuple(range(out_rank))
    if isinstance(spec, Gather):
        axis, shared = spec.axis, spec.batch_dims
        data = [dim if dim < axis else dim - 1 + places - shared for dim in range(rank)]
        return {
            "data": (*data[:axis], None, *data[axis + 1 :]),
            "indices": tuple(dim if dim < shared else axis + dim - shared for dim in range(places)),
            "out": out,
        }
    if isinstance(spec, GatherNd):
        shared, length = spec.batch_dims, indices[-1]
        behind = tuple(places - 1 + dim for dim in range(rank - shared - length))
        return {"data": (*range(shared), *[None] * length, *behind), "indices": (*range(places - 1), None), "out": out}
    assert isinstance(spec, GatherElements)
    return {
        "data": tuple(None if dim == spec.axis else dim for dim in range(rank)),
        "indices": tuple(range(places)),
        "out": out,
    }
