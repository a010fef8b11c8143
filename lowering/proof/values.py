"""The values of a nest as the proof knows them, and what a nest does with them: its loads, stores and checks."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import islpy as isl
import z3
from xdsl.ir import Operation

from .bit_vectors import Expression
from .sets import EVERYTHING, Polynomial


class Undecided(Exception):
    """The proof does not cover a module; the message gives the reason."""


class Refuted(Exception):
    """A module is wrong for every size but the smallest; the message gives the reason."""


@dataclass(frozen=True)
class Loop:
    """A loop around an operation.

    Attributes:
        parameter: its induction variable, as a parameter of sets.
        label: its name in the nest.
        step: the number that `stride` is; None where the code does not hold it.
    """

    parameter: str
    label: str
    lower: isl.PwAff
    upper: isl.PwAff
    step: int | None
    stride: isl.PwAff
    parallel: bool
    ordered: bool


@dataclass(frozen=True)
class Row:
    """All elements of an array as one dimension, in C order: the sizes of the array, and their product."""

    sizes: tuple[isl.PwAff, ...]
    length: isl.PwAff


@dataclass(frozen=True)
class Atom:
    """An index that is read: which element of which array, given the iteration.

    Attributes:
        array: `indices`, the name of a constant, or "" for an affine value that is no index.
        subscripts: of the element, in the loops around the use and in the parameters that `among` adds.
        among: the conditions on the parameters of the subscripts.
        bits: of an index.
        row: the elements that the one subscript counts; None for the subscripts of the array itself.
    """

    array: str
    subscripts: tuple[isl.PwAff, ...]
    among: isl.Set
    bits: int
    row: Row | None = None

    @property
    def key(self) -> str:
        """A text that two atoms share only if they are the same."""
        return f"{self.array}[{'; '.join(map(str, self.subscripts))}] {self.among}"


@dataclass(frozen=True)
class Term:
    """A bit-vector, or a truth, computed from indices and sizes; `atoms` by the name of their variable."""

    expression: Expression
    atoms: dict[str, Atom] = field(default_factory=dict)


Subscripts = tuple[isl.PwAff | Term, ...]


@dataclass(frozen=True)
class Counted:
    """The number of indices that are outside, or inside: for each iteration of a set, whether one is.

    Attributes:
        least: the number that replaces a smaller one.
    """

    terms: tuple[tuple[isl.Set, Term], ...]
    least: int = 0


@dataclass(frozen=True)
class Guard:
    """A branch that runs where no index is outside: the count of those outside, and the loops around the branch."""

    count: Counted
    loops: tuple[Loop, ...]


@dataclass(frozen=True)
class Place:
    """Where an operation stands.

    Attributes:
        loops: around it, outermost first.
        domain: the iterations in which it runs.
        path: its number in each block around it, with the loop that the block belongs to.
        under: truths of the indices without which it does not run.
        guard: the branch on a count of indices that it stands in, if any.
    """

    loops: tuple[Loop, ...] = ()
    domain: isl.Set = EVERYTHING
    path: tuple[tuple[int, Loop | None], ...] = ()
    under: tuple[Term, ...] = ()
    guard: Guard | None = None

    def where(self, *holds: isl.Set) -> "Place":
        """Return the place in fewer iterations."""
        domain = self.domain
        for each in holds:
            domain &= each
        return replace(self, domain=domain)


@dataclass(frozen=True)
class Opaque:
    """An integer that is not affine: a polynomial such as an address, or one of which nothing is known."""

    polynomial: Polynomial | None = None


@dataclass(frozen=True)
class Bounded:
    """An integer of which only this is known: it is at most `most`, and negative only where `most` is."""

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
class Divisor:
    """A number of slices as a float."""

    number: isl.PwAff | Counted


@dataclass(frozen=True)
class Element:
    """An element of an array.

    Attributes:
        array: the argument.
        mask: where it is not zero; None for everywhere.
        steps: conversions, products and additions that were applied to it: the name of each, with its weight.
        total: the element of out that it was added to; None where it was not.
        changed: `scaled` or `divided`, of an element of out.
        divisor: what it was divided by.
        larger: of a maximum, the comparison with the element of out that it replaces where that holds.
        first: of a maximum, where it replaces the element of out without a comparison.
        when: of an element of out, the loops that it was loaded in, and the number of writes before.
    """

    array: str
    subscripts: Subscripts
    mask: Term | None = None
    steps: tuple[tuple[str, Term | None], ...] = ()
    total: "Element | None" = None
    changed: str = ""
    divisor: Divisor | None = None
    larger: str = ""
    first: isl.Set | None = None
    when: tuple[tuple[Loop, ...], int] | None = None

    def masked(self, mask: Term) -> "Element":
        """Return the element where a truth holds, and zero elsewhere."""
        return replace(self, mask=conjunction(self.mask, mask))


@dataclass(frozen=True)
class Zero:
    """A zero of an element type."""


@dataclass(frozen=True)
class Number:
    """A constant of an element type that is not zero."""


@dataclass(frozen=True)
class Mask:
    """All bits set where a truth holds, none elsewhere."""

    condition: Term


@dataclass(frozen=True)
class Lanes:
    """A vector of elements that are known one by one."""

    elements: tuple["Value", ...]


@dataclass(frozen=True)
class Argument:
    """An array that the function is handed, or a view of it.

    Attributes:
        dropped: how many dimensions, at the end and of size 1, the view leaves out.
        row: the elements that a view with one dimension for all has.
    """

    name: str
    sizes: tuple[isl.PwAff, ...]
    is_integer: bool = False
    dropped: int = 0
    is_constant: bool = False
    row: Row | None = None


@dataclass(frozen=True)
class Memory:
    """Memory that the function has for itself: a buffer of one thread, or the positions of all indices in C order.

    Attributes:
        number: tells it from others.
        bits: of an element.
        depth: of a buffer, the number of parallel loops around it; None for the positions that a check stages.
        is_freed: whether it may be read and written no more.
    """

    number: int
    sizes: tuple[isl.PwAff, ...]
    bits: int
    depth: int | None
    is_freed: bool = False


@dataclass(frozen=True)
class Carried:
    """The sum so far of a loop that counts, or that sums a bag; `name` tells it from that of another loop."""

    name: str


@dataclass(frozen=True)
class Summed:
    """The sum in a register.

    Attributes:
        begin: the carried value that it begins with; None where it begins with zero.
        added: the elements that are added to it, each with its place, in the order of the text.
        place: of the loop that carries it.
        written: the number of writes before that loop.
        divisor: what the sum was divided by, behind the loop.
    """

    begin: Carried | None
    added: tuple[tuple[Element, Place], ...]
    place: Place = Place()
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


Value = (isl.PwAff | Term | Opaque | Bounded | Condition | Counted | Carried) | (
    Weight | Divisor | Number | Zero | Element | Mask | Lanes | Memory | Argument | Summed | Larger
)


@dataclass(frozen=True)
class Access:
    """A read or a write of an array, which must be inside it."""

    op: Operation
    array: str
    place: Place
    subscripts: Subscripts
    sizes: tuple[isl.PwAff, ...]


@dataclass(frozen=True)
class Write:
    """A store to out, an addition to it (`adds`), or the store of a term to memory of the function (of a `number`)."""

    place: Place
    subscripts: Subscripts
    value: Element | Zero | Term
    adds: bool = False
    number: int = -1


@dataclass
class Meaning:
    """All that a function does.

    Attributes:
        sizes: the parameters that are sizes.
        context: the conditions on sizes.
        axes: the smallest and the largest size of each indexed axis.
        products: the factors of each size that is a product. The context says of it only that it is 0, or no less than
            each factor, and not 0 where no factor is.
        writes: to out.
        staged: the stores of positions by a check.
        streams: the non-temporal stores of vectors: the iterations of each, its address, and the alignment in bytes.
        guard: the branch on a count of indices outside; None where there is none.
        has_fresh_out: whether out may hold anything where the function returns a count that is not zero.
        returned: the count that the function returns.
        wobbling: values that an address decides, such as the distance from an aligned one: the loops around each, and
            its range.
        remainders: of such values, the address that each is the remainder of, and the divisor.
        problems: what is wrong with the memory of the function.
        raises: whether an index outside raises where it is resolved.
        constants: the values of constant indices, or of the positions that a pass made of them, in C order.
    """

    sizes: list[str] = field(default_factory=list)
    context: isl.Set = EVERYTHING
    axes: dict[str, tuple[int, int]] = field(default_factory=dict)
    products: dict[str, tuple[isl.PwAff, ...]] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    staged: list[Write] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    streams: list[tuple[isl.Set, Polynomial, int]] = field(default_factory=list)
    guard: Guard | None = None
    has_fresh_out: bool = False
    returned: Counted | None = None
    wobbling: dict[str, tuple[tuple[Loop, ...], isl.Set]] = field(default_factory=dict)
    remainders: dict[str, tuple[Polynomial, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    raises: bool = False
    constants: tuple[int, ...] | None = None


def conjunction(left: Term | None, right: Term) -> Term:
    """Return where two truths hold; the second where there is no first."""
    return right if left is None else Term(z3.And(left.expression, right.expression), left.atoms | right.atoms)


def affine_of(values: Sequence[object], message: str) -> tuple[isl.PwAff, ...]:
    """Return values that are all affine; raises Undecided, with a message, where one is not."""
    found = tuple(value for value in values if isinstance(value, isl.PwAff))
    if len(found) != len(values):
        raise Undecided(message)
    return found
