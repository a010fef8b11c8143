"""Sums of products of sizes and induction variables: addresses, which are not affine."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import islpy as isl

from .integer_sets import number, parameter

Product = tuple[str, ...]


@dataclass(frozen=True)
class Polynomial:
    """A sum of products, each with its factor.

    Attributes:
        terms: the factor of each product; a product has the names of its values, sorted, and `()` is the number 1.
        values: what a name stands for that is no parameter.
    """

    terms: dict[Product, int]
    values: dict[str, isl.PwAff] = field(default_factory=dict)

    def plus(self, other: "Polynomial", times: int = 1) -> "Polynomial":
        """Return the sum, with the other as often as said."""
        terms = dict(self.terms)
        for product, factor in other.terms.items():
            terms[product] = terms.get(product, 0) + times * factor
        return Polynomial({product: factor for product, factor in terms.items() if factor}, self.values | other.values)

    def times(self, other: "Polynomial") -> "Polynomial":
        """Return the product."""
        found = Polynomial({}, self.values | other.values)
        for left, factor in self.terms.items():
            for right, more in other.terms.items():
                found = found.plus(Polynomial({tuple(sorted(left + right)): factor * more}))
        return found

    def affine(self) -> isl.PwAff | None:
        """Return the value as an affine function; None where a product of several is left."""
        total = number(0)
        for product, factor in self.terms.items():
            if len(product) > 1:
                return None
            value = number(1) if not product else self.values.get(product[0], None) or parameter(product[0])
            total = total.add(value.mul(number(factor)))
        return total


def named(name: str) -> Polynomial:
    """Return the value of that name."""
    return Polynomial({(name,): 1})


def polynomial_of(value: isl.PwAff) -> Polynomial:
    """Return an affine value; one with cases or divisions has a name of its own."""
    pieces = value.coalesce().get_pieces()
    only = pieces[0][1] if len(pieces) == 1 else None
    if only is None or only.dim(isl.dim_type.div) or not only.get_constant_val().is_int():
        return Polynomial({(str(value),): 1}, {str(value): value})
    terms: dict[Product, int] = {(): only.get_constant_val().to_python()}
    for place in range(only.dim(isl.dim_type.param)):
        terms[(str(only.get_dim_name(isl.dim_type.param, place)),)] = only.get_coefficient_val(
            isl.dim_type.param, place
        ).to_python()
    return Polynomial({product: factor for product, factor in terms.items() if factor})


def divided(place: Polynomial, product: Product, factor: int) -> Polynomial:
    """Return what is multiplied by a product of sizes in a sum."""
    found: dict[Product, int] = {}
    for names, times in place.terms.items():
        rest = list(names)
        for name in product:
            if name not in rest:
                break
            rest.remove(name)
        else:
            if times % factor == 0:
                found[tuple(rest)] = times // factor
    return Polynomial(found, place.values)


def in_rows(bounds: Sequence[Polynomial], size: str) -> tuple[Polynomial, list[isl.PwAff]] | None:
    """Return the elements of a row, and how many rows each bound is; None where one is no whole number of rows.

    Args:
        bounds: numbers of elements.
        size: a size of which the elements of a row are a multiple.
    """
    factor = math.gcd(*(times for bound in bounds for times in bound.terms.values()))
    row, found = Polynomial({(size,): factor}), list[isl.PwAff]()
    for bound in bounds:
        rows = divided(bound, (size,), factor)
        count = rows.affine()
        if count is None or bound.plus(rows.times(row), -1).terms:
            return None
        found.append(count)
    return row, found
