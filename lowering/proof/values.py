"""The values of a nest as the proof knows them, and the effects of a function, for all sizes."""

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import islpy as isl
import z3
from xdsl.ir import Operation

from .bit_vectors import Expression
from .sets import EVERYTHING, Polynomial, intersect

Places = tuple[isl.PwAff, ...]
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
class Row:
    """All elements of an array as one dimension, in C order: the sizes of the array, and their product."""

    sizes: Places
    length: isl.PwAff


@dataclass(frozen=True)
class Atom:
    """A loaded index: the array and the element that it is read from, given the iteration."""

    array: str  # `indices`, the name of a constant, or "" for an affine value that is no index
    subscripts: Places  # in the loops around the use and in the parameters that `among` adds
    among: isl.Set  # the conditions on the parameters of the subscripts
    bits: int
    row: Row | None = None  # the elements that the one subscript counts; None for the subscripts of the array itself

    def __str__(self) -> str:
        return f"{self.array}[{'; '.join(map(str, self.subscripts))}] {self.among}"


@dataclass(frozen=True)
class Term:
    """A bit-vector, or a condition, computed from indices and sizes; `atoms` by the name of their variable."""

    expression: Expression
    atoms: dict[str, Atom] = field(default_factory=dict)


Subscripts = tuple[isl.PwAff | Term, ...]


@dataclass(frozen=True)
class Counted:
    """A number of indices outside, or inside: the iterations that check an index, and the condition that counts it."""

    terms: tuple[tuple[isl.Set, Term], ...]
    least: int = 0  # the number that replaces a smaller one


@dataclass(frozen=True)
class Loop:
    """A loop around an operation."""

    parameter: str  # its induction variable, as a parameter of sets
    label: str  # its name in the nest
    lower: isl.PwAff
    upper: isl.PwAff
    step: int | None  # the value of `stride`; None where it is not constant
    stride: isl.PwAff
    parallel: bool
    ordered: bool


@dataclass(frozen=True)
class Place:
    """The place of an operation in the nest."""

    loops: tuple[Loop, ...] = ()  # around it, outermost first
    domain: isl.Set = EVERYTHING  # the iterations in which it runs
    path: tuple[int, ...] = ()  # its number in each block around it
    under: tuple[Term, ...] = ()  # the conditions on indices under which it runs
    is_guarded: bool = False  # whether it stands in the branch that runs where no index is outside

    def restrict(self, *holds: isl.Set) -> "Place":
        """Return the place in fewer iterations."""
        return replace(self, domain=intersect(self.domain, *holds))


@dataclass(frozen=True)
class Opaque:
    """An integer that is not affine: a polynomial such as an address, or unknown."""

    polynomial: Polynomial | None = None
    most: isl.PwAff | None = None  # a bound, where one is known; the integer is negative only where its bound is


@dataclass(frozen=True)
class Weight:
    """A float whose bits an index has."""

    term: Term


@dataclass(frozen=True)
class Divisor:
    """A number of slices as a float."""

    number: isl.PwAff | Counted


@dataclass(frozen=True)
class Number:
    """A constant of an element type: a positive zero, or another number."""

    is_zero: bool


@dataclass(frozen=True)
class Mask:
    """All bits set where a truth holds, none elsewhere."""

    condition: Term


@dataclass(frozen=True)
class Element:
    """An element of an array."""

    array: str
    subscripts: Subscripts
    mask: Term | None = None  # where it is not zero; None for everywhere
    steps: tuple[tuple[str, Term | None], ...] = ()  # the conversions and weights, in their order
    total: "Element | None" = None  # the element of out that it was added to
    changed: str = ""  # `scaled` or `divided`, of an element of out
    divisor: Divisor | None = None
    larger: str = ""  # of a maximum, the comparison under which it replaces the element of out
    first: isl.Set | None = None  # of a maximum, where it replaces the element of out without a comparison
    loaded_at: tuple[tuple[Loop, ...], int] | None = (
        None  # of an element of out, the loops around its load, and the number of writes before
    )

    def add_mask(self, mask: Term) -> "Element":
        """Return the element where a truth holds, and zero elsewhere."""
        return replace(self, mask=conjunction(self.mask, mask))


@dataclass(frozen=True)
class Argument:
    """An array argument of the function, or a view of it."""

    name: str
    sizes: Places
    is_integer: bool = False
    dropped: int = 0  # the number of dimensions of size 1, at the end, that a view leaves out
    is_constant: bool = False
    row: Row | None = None  # the elements of a view that has one dimension for all


@dataclass(frozen=True)
class Memory:
    """Memory that the function has for itself: a buffer of one thread, or the positions of all indices in C order."""

    number: int  # distinguishes it from other memory
    sizes: Places
    bits: int
    depth: int | None  # of a buffer, the number of parallel loops around it; None for positions
    taken_in: tuple[Loop, ...] = ()  # for positions, the loops around the allocation
    is_freed: bool = False


@dataclass(frozen=True)
class Carried:
    """The sum so far of a loop that counts, or that sums a bag; each loop has another `name`."""

    name: str


@dataclass(frozen=True)
class Summed:
    """The sum in a register."""

    begin: Carried | None  # the carried value that it begins with; None where it begins with zero
    added: tuple[tuple[Element, Place], ...]  # in the order of the text
    place: Place = Place()  # of the loop that carries it
    written: int = 0  # the number of writes before that loop
    divisor: Divisor | None = None


@dataclass(frozen=True)
class Larger:
    """An element that is compared with an element of out, or with a register."""

    word: str  # the comparison
    element: Element
    other: Element | Carried | Summed
    is_chosen: bool  # whether this is the larger of both, and not the truth


# A set is a condition on loops and sizes; a tuple is a vector whose elements are known one by one.
Value = (isl.PwAff | isl.Set | Term | Opaque | Counted | Carried | Weight | Divisor) | (
    Number | Element | Mask | Memory | Argument | Summed | Larger | tuple[Any, ...]
)
# The values that a vector may have in every lane.
Uniform = Mask | Weight | Divisor | Number


def conjunction(left: Term | None, right: Term) -> Term:
    """Return the conjunction of two conditions; the second where there is no first."""
    return right if left is None else Term(z3.And(left.expression, right.expression), left.atoms | right.atoms)


# The effects of a function


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
    """All effects of a function.

    A size that is a product has these conditions in the context: it is 0, or no less than each factor, and not 0 where
    no factor is. Wobbling values depend on an address, such as the distance from an aligned one.
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
    problems: list[str] = field(default_factory=list)  # the faults in the use of memory of the function
    raises: bool = False  # whether an index outside raises where it is resolved
    constants: tuple[int, ...] | None = None  # constant indices, or the positions that a pass made of them, in C order

    @property
    def visible(self) -> list[str]:
        """The parameters that no projection drops: the sizes, and the wobbling values."""
        return [*self.sizes, *self.wobbling]
