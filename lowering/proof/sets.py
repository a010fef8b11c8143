"""Integer sets by islpy, in which every size, induction variable and subscript is a named parameter; and polynomials.

Sets and affine values have Python's operators: `&` is the intersection, `|` the union, `-` the difference.
"""

import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl

Product = tuple[str, ...]

PARAMETER = isl.dim_type.param
EVERYTHING = isl.Set("{ : }")
NOTHING = EVERYTHING.complement()
ZERO = isl.PwAff("{ [(0)] }")


def parameter(name: str) -> isl.PwAff:
    """Return the value of a parameter."""
    return isl.PwAff(f"[{name}] -> {{ [({name})] }}")


def number(value: int) -> isl.PwAff:
    """Return a constant."""
    return ZERO + value


def constant_of(value: object) -> int | None:
    """Return the number that an affine value always is, or None."""
    pieces = value.get_pieces() if isinstance(value, isl.PwAff) else []
    if len(pieces) != 1 or not pieces[0][1].is_cst():
        return None
    constant = pieces[0][1].get_constant_val()
    return constant.to_python() if constant.is_int() else None


def interval(value: isl.PwAff, lower: isl.PwAff, upper: isl.PwAff) -> isl.Set:
    """Return where lower <= value < upper."""
    return value.ge_set(lower) & value.lt_set(upper)


def list_parameters(value: isl.Set | isl.PwAff | isl.Aff) -> list[str]:
    """Return the parameters that a set or a value has."""
    return list(map(str, value.get_var_names(PARAMETER)))


def project_out(space: isl.Set, names: Iterable[str]) -> isl.Set:
    """Return the set with some parameters projected out: it holds where some value of them is in the set."""
    return project_onto(space, set(list_parameters(space)).difference(names))


def project_onto(space: isl.Set, names: Iterable[str]) -> isl.Set:
    """Return the set with all but some parameters projected out."""
    return space.project_out_except([*names], [PARAMETER]).coalesce()


def rename_parameters(space: isl.Set, names: dict[str, str]) -> isl.Set:
    """Return a set with some parameters under other names."""
    for place, name in enumerate(list_parameters(space)):
        if name in names:
            space = space.set_dim_id(PARAMETER, place, parameter(names[name]).get_dim_id(PARAMETER, 0))
    return space


def bind_parameters(values: Mapping[str, isl.PwAff]) -> isl.Set:
    """Return where parameters have values."""
    return intersect(*(parameter(name).eq_set(value) for name, value in values.items()))


def intersect(*sets: isl.Set) -> isl.Set:
    """Return the intersection of sets; everything where there are none."""
    return functools.reduce(operator.and_, sets, EVERYTHING)


def unite(sets: Iterable[isl.Set]) -> isl.Set:
    """Return the union of sets; the empty set where there are none."""
    return functools.reduce(operator.or_, sets, NOTHING)


def list_points(space: isl.Set, names: Sequence[str], most: int) -> list[tuple[int, ...]] | None:
    """Return the values of parameters in a set; None where one has more than `most`."""
    space, points = project_onto(space, names), list[tuple[int, ...]]()
    order = list_parameters(space)
    space = space.move_dims(isl.dim_type.set, 0, PARAMETER, 0, len(order))
    for dim in range(0 if space.is_empty() else len(order)):
        if (space.dim_max_val(dim) - space.dim_min_val(dim)).to_python() >= most:
            return None

    def add(point: isl.Point) -> None:
        found = [point.get_coordinate_val(isl.dim_type.set, dim).to_python() for dim in range(len(order))]
        points.append(tuple(found[order.index(name)] for name in names))

    space.foreach_point(add)
    return points


def find_smallest_sample(space: isl.Set, sizes: Sequence[str]) -> dict[str, int]:
    """Return a point of a set that is not empty: its largest size is the smallest possible, and then each in turn."""
    largest = parameter("largest") if sizes else ZERO
    for name in sizes:
        space &= parameter(name).le_set(largest)
    for name in ("largest", *sizes) if sizes else ():
        values = project_onto(space, [name]).move_dims(isl.dim_type.set, 0, PARAMETER, 0, 1)
        space &= parameter(name).eq_set(number(values.dim_min_val(0).to_python()))
    point = space.sample_point()
    return {
        str(point.get_space().get_dim_name(PARAMETER, place)): point.get_coordinate_val(PARAMETER, place).to_python()
        for place in range(point.get_space().dim(PARAMETER))
    }


@dataclass(frozen=True)
class Polynomial:
    """A sum of products of sizes and induction variables, such as an address, which is not affine."""

    terms: dict[Product, int]  # the factor of each product: the names of its values, sorted; `()` is the number 1
    values: dict[str, isl.PwAff] = field(default_factory=dict, compare=False)  # of the names that are no parameters

    @classmethod
    def of(cls, value: "Polynomial | isl.PwAff | str | int") -> "Polynomial":
        """Return a number, the value of a name, or an affine value; one with cases or divisions has its own name."""
        if isinstance(value, Polynomial):
            return value
        if not isinstance(value, isl.PwAff):
            return cls({(value,): 1} if isinstance(value, str) else {(): value} if value else {})
        pieces = value.coalesce().get_pieces()
        affine = pieces[0][1]
        if len(pieces) != 1 or affine.dim(isl.dim_type.div) or not affine.get_constant_val().is_int():
            return cls({(str(value),): 1}, {str(value): value})
        terms: dict[Product, isl.Val] = {(): affine.get_constant_val()}
        terms |= {(name,): affine.get_coefficient_val(PARAMETER, at) for at, name in enumerate(list_parameters(affine))}
        return cls({product: factor.to_python() for product, factor in terms.items() if not factor.is_zero()})

    def __add__(self, other: "Polynomial | isl.PwAff") -> "Polynomial":
        more = Polynomial.of(other)
        terms = {
            product: self.terms.get(product, 0) + more.terms.get(product, 0) for product in self.terms | more.terms
        }
        return Polynomial({product: factor for product, factor in terms.items() if factor}, self.values | more.values)

    def __sub__(self, other: "Polynomial") -> "Polynomial":
        return self + other * -1

    def __mul__(self, other: "Polynomial | isl.PwAff | int") -> "Polynomial":
        more = Polynomial.of(other)
        found = Polynomial({}, self.values | more.values)
        for left, factor in self.terms.items():
            for right, times in more.terms.items():
                found += Polynomial({tuple(sorted(left + right)): factor * times})
        return found

    def __str__(self) -> str:
        words = [(str(factor),) * (factor != 1 or not product) + product for product, factor in self.terms.items()]
        return " + ".join(map(" * ".join, words)) or "0"

    @property
    def constant(self) -> int | None:
        """The value where no name occurs in the sum, else None."""
        return self.terms.get((), 0) if self.terms.keys() <= {()} else None

    def to_affine(self) -> isl.PwAff | None:
        """Return the value as an affine function; None where a product of several values is left."""
        total = ZERO
        for product, factor in self.terms.items():
            if len(product) > 1:
                return None
            total += factor * (number(1) if not product else self.values.get(product[0]) or parameter(product[0]))
        return total

    def divide(self, product: Product, factor: int) -> "Polynomial":
        """Return the factor of a product of sizes in the sum."""
        found: dict[Product, int] = {}
        for names, times in self.terms.items():
            rest = list(names)
            if times % factor == 0 and all(name in rest and not rest.remove(name) for name in product):
                found[tuple(rest)] = times // factor
        return Polynomial(found, self.values)


def divide_into_rows(bounds: Sequence[Polynomial], size: str) -> tuple[Polynomial, list[isl.PwAff]] | None:
    """Return the elements of a row, and the number of rows of each bound; None where one is no whole number of rows.

    Args:
        bounds: numbers of elements.
        size: a size of which the elements of a row are a multiple.
    """
    factor = math.gcd(*(times for bound in bounds for times in bound.terms.values()))
    row = Polynomial({(size,): factor})
    rows = [bound.divide((size,), factor) for bound in bounds]
    counts = [each.to_affine() for each in rows]
    if any(bound - each * row != Polynomial({}) for bound, each in zip(bounds, rows, strict=True)):
        return None
    found = [count for count in counts if count is not None]
    return (row, found) if len(found) == len(bounds) else None
