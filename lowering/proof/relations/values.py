"""What a value of a nest is to the proof: affine in the loops, computed from indices by bit-vectors, or an element."""

from dataclasses import dataclass, field, replace
from typing import Any

import islpy as isl
import z3

from .polynomials import Polynomial

# A bit-vector or a truth of z3, whose own types do not say which operators they have.
Expression = Any


class Undecided(Exception):
    """The proof does not cover what stands here; the message says what."""


class Refuted(Exception):
    """What stands here is wrong for every size but the smallest; the message says what."""


@dataclass(frozen=True)
class Row:
    """All elements of an array as one dimension, in C order.

    Attributes:
        sizes: of the array.
        length: their product.
    """

    sizes: tuple[isl.PwAff, ...]
    length: isl.PwAff


@dataclass(frozen=True)
class Atom:
    """An index that is read: which element of which array, given the iteration.

    Attributes:
        array: the array: `indices`, or the name of a constant.
        subscripts: of the element, in the loops around the use and in what `among` adds.
        among: what the subscripts' own parameters satisfy.
        bits: of an index.
        row: what the one subscript counts along; None for the subscripts of the array itself.
    """

    array: str
    subscripts: tuple[isl.PwAff, ...]
    among: isl.Set
    bits: int
    row: Row | None = None

    @property
    def key(self) -> str:
        """What tells two atoms apart."""
        return f"{self.array}[{'; '.join(map(str, self.subscripts))}] {self.among}"


@dataclass(frozen=True)
class Term:
    """A bit-vector, or a truth, computed from indices and sizes; `atoms` by the name of their variable."""

    expression: Expression
    atoms: dict[str, Atom] = field(default_factory=dict)


@dataclass(frozen=True)
class Opaque:
    """An integer that is not affine: a polynomial such as an address, or one of which nothing is known."""

    polynomial: Polynomial | None = None


@dataclass(frozen=True)
class Bounded:
    """An integer of which only this is known: it is no more than `most`, and not negative where that is not."""

    most: isl.PwAff


@dataclass(frozen=True)
class Condition:
    """A truth that the loops and sizes decide."""

    holds: isl.Set


@dataclass(frozen=True)
class Weight:
    """A float whose bits an index has."""

    term: Term


@dataclass(frozen=True)
class Step:
    """What becomes of an element before it is added.

    Attributes:
        name: of an operation, with the type that it gives where that is another.
        weight: what it multiplies or adds; None of a conversion.
    """

    name: str
    weight: Term | None = None


@dataclass(frozen=True)
class Element:
    """An element of an array.

    Attributes:
        array: the argument.
        subscripts: affine, or a term.
        mask: where it is not zero; None for everywhere.
        changed: `scaled` where it was multiplied by the scale of a gradient, `divided` by a divisor.
        total: the element of out that it was added to; None where it was not.
        steps: what became of it before.
        larger: of a maximum, the comparison with the element of out that it takes the place of where it holds.
        first: of a maximum, where it takes that place whatever it is.
        divisor: what it was divided by.
        when: of an element of out, the loops that it was loaded in, and how many writes stand before.
    """

    array: str
    subscripts: "tuple[isl.PwAff | Term, ...]"
    mask: Term | None = None
    changed: str = ""
    total: "Element | None" = None
    steps: tuple[Step, ...] = ()
    larger: str = ""
    first: isl.Set | None = None
    divisor: "Divisor | None" = None
    when: tuple[Any, ...] = ()

    def masked(self, mask: Term) -> "Element":
        """Return the element where a truth holds, and zero elsewhere."""
        return replace(self, mask=mask if self.mask is None else conjunction(self.mask, mask))


@dataclass(frozen=True)
class Zero:
    """A zero of an element type."""


@dataclass(frozen=True)
class Mask:
    """All bits set where a truth holds, none elsewhere."""

    condition: Term


@dataclass(frozen=True)
class Lanes:
    """A vector of elements that are known one by one."""

    elements: tuple["Value", ...]


@dataclass(frozen=True)
class Buffer:
    """Memory of one thread, such as staged positions."""

    number: int
    sizes: tuple[int, ...]
    bits: int
    parallel_depth: int


@dataclass(frozen=True)
class PositionMemory:
    """Memory in which a check stages the position of each index, in C order.

    Attributes:
        length: how many positions it has.
        is_freed: whether it may be read and written no more.
    """

    number: int
    length: isl.PwAff
    bits: int
    is_freed: bool = False


@dataclass(frozen=True)
class Argument:
    """An array that the function is handed, or a view of it.

    Attributes:
        dropped: how many dimensions, at the end and of size 1, the view leaves out.
        row: what the view is where it has one dimension for all.
    """

    name: str
    sizes: tuple[isl.PwAff, ...]
    is_integer: bool = False
    dropped: int = 0
    is_constant: bool = False
    row: Row | None = None


@dataclass(frozen=True)
class Counted:
    """How many of some indices are outside, or inside: for each iteration of a set, whether one is.

    Attributes:
        least: what stands for a smaller number.
    """

    terms: tuple[tuple[isl.Set, Term], ...]
    least: int = 0


@dataclass(frozen=True)
class Divisor:
    """A number as a float."""

    number: isl.PwAff | Counted


@dataclass(frozen=True)
class Number:
    """A constant of an element type that is not zero."""


@dataclass(frozen=True)
class Carried:
    """The sum so far of a loop that counts, or that sums a bag; `name` tells those of one loop apart."""

    name: str = ""


@dataclass(frozen=True)
class Added:
    """An element that is added to a register, in each iteration of a domain; fields as those of a write."""

    value: Element
    loops: tuple[Any, ...]
    domain: isl.Set
    path: tuple[Any, ...]
    under: tuple[Term, ...]


@dataclass(frozen=True)
class Summed:
    """What a register holds that begins with zero, or is carried, and that elements were added to.

    Attributes:
        begin: what it is carried as; None where it began with zero.
        added: the elements, in the order of the text.
        path: where the loop stands that carries it, and `loops` and `domain` those around it.
        written: how many writes stand before that loop.
        divisor: what the sum was divided by, behind the loop.
    """

    begin: Carried | None
    added: tuple[Added, ...]
    path: tuple[Any, ...] = ()
    loops: tuple[Any, ...] = ()
    domain: isl.Set | None = None
    written: int = 0
    divisor: Divisor | None = None


@dataclass(frozen=True)
class Larger:
    """An element compared with one of out, or with a register.

    Attributes:
        word: the comparison.
        is_chosen: whether this is the element where the comparison holds and the other where not; else the truth.
    """

    word: str
    element: Element
    other: Element | Carried | Summed
    is_chosen: bool


_Integer = isl.PwAff | Term | Opaque | Bounded | Condition | Counted | Carried
_Number = Weight | Divisor | Number | Zero
Value = _Integer | _Number | Element | Mask | Lanes | Buffer | PositionMemory | Argument | Summed | Larger


def conjunction(left: Term, right: Term) -> Term:
    """Return where both hold."""
    return Term(z3.And(left.expression, right.expression), left.atoms | right.atoms)
