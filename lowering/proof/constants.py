"""Constant indices: their values are known, so what is said of an index is evaluated for each of them."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import islpy as isl
import z3
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import SSAValue

from ...ir.array_spec import contiguous_strides
from ...ir.dialects.attributes import ViewAttr
from ...ir.dialects.types import dense_array
from ...ir.operator_spec import OperatorSpec
from ..nest.constant_indices import find_global
from .dimensions import followed
from .relations import bit_vectors as bits
from .relations.integer_sets import names_of, number, only
from .relations.values import Expression, Undecided

# The most constant indices that are evaluated one by one.
MOST_CONSTANTS = 4096


@dataclass(frozen=True)
class Constants:
    """The constant indices of an operator, as it came.

    Attributes:
        shape: of the indices.
        values: in C order, as the operator reads them: negative ones only where they are signed.
    """

    shape: tuple[int, ...]
    values: tuple[int, ...]


def constants_of(indices: SSAValue, module: ModuleOp, *, unsigned: bool) -> Constants | None:
    """Return the values of an operator's indices, or None where they are an argument."""
    owner = indices.owner
    dense = None
    if isinstance(owner, arith.ConstantOp):
        dense = owner.value
    elif isinstance(owner, memref.GetGlobalOp):
        dense = find_global(module, owner).initial_value
    if not isinstance(dense, DenseIntOrFPElementsAttr):
        return None
    values = dense_array(dense)
    values = values.view(f"u{values.dtype.itemsize}") if unsigned else values
    return Constants(values.shape, tuple(values.reshape(-1).tolist()))


def place_in(constants: Constants, operator: OperatorSpec, view: ViewAttr, here: dict[str, isl.PwAff]) -> isl.PwAff:
    """Return the place, in C order, of the index (or of the first of a tuple) that an element of out is found by.

    Args:
        view: of out.
        here: the place in each of its dimensions.

    Raises:
        Undecided: dimensions are merged that the indices do not have side by side.
    """
    strides = contiguous_strides(constants.shape, 1)
    along = followed(operator, 0, constants.shape, 0)["indices"]
    step = {dim: strides[place] for place, dim in enumerate(along) if dim is not None}
    size = {dim: constants.shape[place] for place, dim in enumerate(along) if dim is not None}
    flat = number(0)
    for name, group in zip(view.dims, view.groups, strict=True):
        digits = [dim for dim in group if dim in step]
        if digits and len(digits) < len(group):
            raise Undecided("dimensions with and without an index are merged")
        if any(step[dim] != step[last] * size[last] for dim, last in itertools.pairwise(digits)):
            raise Undecided("dimensions are merged that are not side by side in the constant indices")
        if digits:
            flat = flat.add(here[str(name)].mul(number(step[digits[-1]])))
    return flat


def places_in(held: isl.Set, names: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Yield the values of some parameters in a set; raises Undecided where they are too many."""
    held = only(held, names)
    order = names_of(held)
    if set(order) != set(names):
        raise Undecided("an index is read from no known place")
    points: list[tuple[int, ...]] = []
    space = held.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, len(order))
    if not space.is_empty():
        spans = [space.dim_max_val(dim).sub(space.dim_min_val(dim)).to_python() for dim in range(len(order))]
        if max(spans, default=0) >= MOST_CONSTANTS:
            raise Undecided(f"there are more than {MOST_CONSTANTS} constant indices")

    def add(point: isl.Point) -> None:
        found = [point.get_coordinate_val(isl.dim_type.set, dim).to_python() for dim in range(len(order))]
        points.append(tuple(found[order.index(name)] for name in names))

    space.foreach_point(add)
    return iter(points)


def with_values(
    expression: Expression, names: Sequence[str], widths: Sequence[int], values: Sequence[int]
) -> Expression:
    """Return an expression with numbers for its indices, evaluated as far as possible."""
    pairs = [
        (bits.variable(name, width), bits.constant(value, width))
        for name, width, value in zip(names, widths, values, strict=True)
    ]
    return z3.simplify(bits.real(z3.substitute(expression, *pairs)))
