"""What a module does, for all sizes: what it writes where and from what, what it reads, and what it checks."""

from dataclasses import dataclass, field

import islpy as isl
from xdsl.ir import Operation

from .polynomials import Polynomial
from .values import Counted, Element, Term, Zero


@dataclass(frozen=True)
class Loop:
    """A loop around something, as a parameter of sets.

    Attributes:
        parameter: its induction variable.
        label: its name in the nest.
        step: None where the code does not hold it.
    """

    parameter: str
    label: str
    lower: isl.PwAff
    upper: isl.PwAff
    step: int | None
    stride: isl.PwAff
    parallel: bool
    ordered: bool


# Where an operation stands: its place in each block around it, with the loop that the block belongs to.
Path = tuple[tuple[int, Loop | None], ...]


@dataclass(frozen=True)
class Guard:
    """A branch that runs where no index of some is outside.

    Attributes:
        count: how many of them are.
        loops: those around the branch: of one of their iterations.
    """

    count: Counted
    loops: tuple[Loop, ...]


@dataclass(frozen=True)
class Access:
    """A read or a write of an array, which must be inside it.

    Attributes:
        domain: the iterations that access it.
        under: truths of the indices without which it is not accessed.
        guard: the branch that it stands in, if any.
    """

    op: Operation
    array: str
    domain: isl.Set
    subscripts: tuple[isl.PwAff | Term, ...]
    sizes: tuple[isl.PwAff, ...]
    under: tuple[Term, ...]
    guard: Guard | None


@dataclass(frozen=True)
class Write:
    """An element that is written or added to, in each iteration of a domain."""

    op: Operation
    array: str
    loops: tuple[Loop, ...]
    domain: isl.Set
    path: Path
    subscripts: tuple[isl.PwAff | Term, ...]
    value: Element | Zero
    under: tuple[Term, ...]
    adds: bool
    guard: Guard | None


@dataclass(frozen=True)
class StagedPosition:
    """A position that a check stores, in each iteration of a domain; `memory` tells where those of one check go."""

    memory: int
    loops: tuple[Loop, ...]
    domain: isl.Set
    subscripts: tuple[isl.PwAff, ...]
    value: Term


@dataclass(frozen=True)
class Stream:
    """A non-temporal store of a vector, whose address must be a multiple of so many bytes."""

    domain: isl.Set
    address: Polynomial
    alignment: int


@dataclass
class Meaning:
    """All that a function does.

    Attributes:
        sizes: the parameters that are sizes.
        context: what holds of them.
        products: of those that are products, the factors; the context says of them only that they are 0, or no less
            than each, and not 0 where no factor is.
        guard: the branch on a count of indices outside; None where there is none.
        has_fresh_out: whether out may hold anything where the function returns a count that is not zero.
        returned: the count that the function returns.
        wobbling: values that code other than loops decides, such as how far an address is from an aligned one: the
            loops around each, and its range.
        problems: what is wrong with memory that the function has for itself.
        staged: the stores of positions by a check.
        raises: whether an index outside raises where it is resolved.
        remainders: of the wobbling values, the address that each is the remainder of, and the divisor.
        streams: the non-temporal stores of vectors.
        constants: the values of constant indices, or of the positions that a pass made of them, in C order.
    """

    sizes: list[str] = field(default_factory=list)
    context: isl.Set = field(default_factory=lambda: isl.Set("{ : }"))
    axes: dict[str, tuple[int, int]] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    guard: Guard | None = None
    has_fresh_out: bool = False
    returned: Counted | None = None
    wobbling: dict[str, tuple[tuple[Loop, ...], isl.Set]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    staged: list[StagedPosition] = field(default_factory=list)
    raises: bool = False
    remainders: dict[str, tuple[Polynomial, int]] = field(default_factory=dict)
    products: dict[str, tuple[isl.PwAff, ...]] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    constants: tuple[int, ...] | None = None
