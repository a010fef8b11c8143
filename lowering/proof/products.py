"""Sizes and strides as products of numbers and sizes that a module leaves open: equal ones are equal for all sizes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Product:
    """A number times sizes that are not known, which may be any from 0.

    Attributes:
        factor: the number.
        sizes: the names of the sizes, sorted.
    """

    factor: int
    sizes: tuple[str, ...] = ()

    def __mul__(self, other: "Product") -> "Product":
        factor = self.factor * other.factor
        return Product(factor, tuple(sorted(self.sizes + other.sizes)) if factor else ())

    def __str__(self) -> str:
        factor = () if self.factor == 1 and self.sizes else (str(self.factor),)
        return " * ".join((*factor, *self.sizes))

    @property
    def known(self) -> int | None:
        """The number that it always is, or None."""
        return None if self.sizes else self.factor

    @property
    def is_unit(self) -> bool:
        """Whether it is a size of 1 or 0, along which there is no step."""
        return not self.sizes and self.factor <= 1


def product(factors: Iterable[Product]) -> Product:
    """Return the product of several; 1 of none."""
    return math.prod(factors, start=Product(1))


def contiguous(shape: Sequence[Product]) -> tuple[Product, ...]:
    """Return the strides, in elements, of an array of that shape without gaps."""
    return tuple(product(shape[dim + 1 :]) for dim in range(len(shape)))
