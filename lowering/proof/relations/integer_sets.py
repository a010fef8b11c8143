"""Integer sets by islpy: every size, induction variable and subscript is a named parameter of one set."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import islpy as isl

Named = TypeVar("Named", isl.Set, isl.PwAff)

# The largest value of a parameter that is tried when a small example is looked for; doubled from 1.
LARGEST_SAMPLE = 1 << 40


def parameter(name: str) -> isl.PwAff:
    """Return the value of a parameter."""
    return isl.PwAff(f"[{name}] -> {{ [({name})] }}")


def number(value: int) -> isl.PwAff:
    """Return a constant."""
    return isl.PwAff(f"{{ [({value})] }}")


def everything() -> isl.Set:
    """Return the set without a constraint."""
    return isl.Set("{ : }")


def constant_of(value: isl.PwAff) -> int | None:
    """Return the number that a value always is, or None."""
    pieces = value.get_pieces()
    if len(pieces) != 1 or not pieces[0][1].is_cst():
        return None
    constant = pieces[0][1].get_constant_val()
    return constant.to_python() if constant.is_int() else None


def within(value: isl.PwAff, lower: isl.PwAff, upper: isl.PwAff) -> isl.Set:
    """Return where lower <= value < upper."""
    return value.ge_set(lower).intersect(value.lt_set(upper))


def outside(value: isl.PwAff, size: isl.PwAff) -> isl.Set:
    """Return where a subscript is not in [0, size)."""
    return value.lt_set(number(0)).union(value.ge_set(size))


def either(condition: isl.Set, left: isl.PwAff, right: isl.PwAff) -> isl.PwAff:
    """Return left where a condition holds, else right."""
    return left.intersect_params(condition).union_add(right.intersect_params(condition.complement())).coalesce()


def names_of(value: isl.Set | isl.PwAff) -> list[str]:
    """Return the parameters that a set or a value has."""
    return [str(value.get_dim_name(isl.dim_type.param, place)) for place in range(value.dim(isl.dim_type.param))]


def without(space: isl.Set, names: Iterable[str]) -> isl.Set:
    """Return the set with some parameters projected out: what holds for some value of them."""
    dropped = set(names)
    for place in reversed(range(space.dim(isl.dim_type.param))):
        if space.get_dim_name(isl.dim_type.param, place) in dropped:
            space = space.project_out(isl.dim_type.param, place, 1)
    return space.coalesce()


def only(space: isl.Set, names: Iterable[str]) -> isl.Set:
    """Return the set with all but some parameters projected out."""
    kept = set(names)
    return without(space, [name for name in names_of(space) if name not in kept])


def renamed(value: Named, names: dict[str, str]) -> Named:
    """Return a set or a value with some parameters under other names."""
    for place in range(value.dim(isl.dim_type.param)):
        name = value.get_dim_name(isl.dim_type.param, place)
        if name in names:
            value = value.set_dim_id(
                isl.dim_type.param, place, parameter(names[name]).get_dim_id(isl.dim_type.param, 0)
            )
    return value


def equal_tuple(names: Sequence[str], values: Sequence[isl.PwAff]) -> isl.Set:
    """Return where parameters have values."""
    found = everything()
    for name, value in zip(names, values, strict=True):
        found = found.intersect(parameter(name).eq_set(value))
    return found


def smallest_sample(space: isl.Set, sizes: Sequence[str]) -> dict[str, int] | None:
    """Return a point of a set with small sizes, or None where it is empty."""
    if space.is_empty():
        return None
    bound = 1
    while bound < LARGEST_SAMPLE:
        near = space
        for name in sizes:
            near = near.intersect(parameter(name).le_set(number(bound)))
        if not near.is_empty():
            space = _smallest_sizes(near, sizes, bound)
            break
        bound *= 2
    point = space.sample_point()
    return {
        str(point.get_space().get_dim_name(isl.dim_type.param, place)): point.get_coordinate_val(
            isl.dim_type.param, place
        ).to_python()
        for place in range(point.get_space().dim(isl.dim_type.param))
    }


def _smallest_sizes(space: isl.Set, sizes: Sequence[str], bound: int) -> isl.Set:
    """Fix each size in turn to the smallest value that leaves a point."""
    for name in sizes:
        low, high = 0, bound
        while low < high:
            middle = (low + high) // 2
            if space.intersect(parameter(name).le_set(number(middle))).is_empty():
                low = middle + 1
            else:
                high = middle
        space = space.intersect(parameter(name).eq_set(number(low)))
    return space
