"""What a function does, for all sizes: what it writes where and from what, what it reads, and what it checks."""

from dataclasses import dataclass, field
from typing import TypeVar

import islpy as isl
from xdsl.ir import Operation

from .sets import EVERYTHING, Polynomial
from .values import Counted, Element, Loop, Number, Place, Places, Subscripts, Term

Kind = TypeVar("Kind")


class Undecided(Exception):
    """The proof does not cover a module; the message gives the reason."""


class Refuted(Exception):
    """A module is wrong for every size but the smallest; the message gives the reason."""


def expect(kind: type[Kind], message: str, *values: object) -> tuple[Kind, ...]:
    """Return values that are all of a kind; raises Undecided, with a message, where one is not."""
    found = tuple(value for value in values if isinstance(value, kind))
    if len(found) != len(values):
        raise Undecided(message)
    return found


@dataclass(frozen=True)
class Access:
    """A read or a write of an array, which must be inside it."""

    op: Operation
    array: str
    place: Place
    subscripts: Subscripts
    sizes: Places


@dataclass(frozen=True)
class Write:
    """A store to out, an addition to it (`adds`), or the store of a term to memory of the function, by its `number`."""

    place: Place
    subscripts: Subscripts
    value: Element | Number | Term
    adds: bool = False
    number: int = -1


@dataclass
class Meaning:
    """All that a function does.

    The context says of a size that is a product only that it is 0, or no less than each factor, and not 0 where no
    factor is. Wobbling values are those that an address decides, such as the distance from an aligned one.
    """

    sizes: list[str] = field(default_factory=list)  # the parameters that are sizes
    context: isl.Set = EVERYTHING  # the conditions on sizes
    axes: dict[str, tuple[int, int]] = field(default_factory=dict)  # the smallest and largest size of each indexed axis
    products: dict[str, Places] = field(default_factory=dict)  # the factors of each size that is a product
    writes: list[Write] = field(default_factory=list)
    staged: list[Write] = field(default_factory=list)  # the stores of positions by a check
    accesses: list[Access] = field(default_factory=list)
    # The non-temporal stores of vectors: the iterations of each, its address, and its alignment in bytes.
    streams: list[tuple[isl.Set, Polynomial, int]] = field(default_factory=list)
    guard: tuple[Counted, tuple[Loop, ...]] | None = None  # the count that a branch depends on, and the loops around it
    has_fresh_out: bool = False  # whether out may hold anything where an index is outside
    returned: Counted | None = None  # the count that the function returns
    # The loops around each wobbling value, and its range.
    wobbling: dict[str, tuple[tuple[Loop, ...], isl.Set]] = field(default_factory=dict)
    # The address that a wobbling value is the remainder of, and the divisor.
    remainders: dict[str, tuple[Polynomial, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  # what is wrong with memory of the function
    raises: bool = False  # whether an index outside raises where it is resolved
    constants: tuple[int, ...] | None = None  # constant indices, or the positions that a pass made of them, in C order

    @property
    def visible(self) -> list[str]:
        """The parameters that no projection drops: the sizes, and the wobbling values."""
        return [*self.sizes, *self.wobbling]
