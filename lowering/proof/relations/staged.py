"""Positions that are staged in a buffer: which store a load reads, for all sizes."""

from dataclasses import dataclass, replace
from typing import TypeVar

import islpy as isl
import z3
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from . import bit_vectors as bits
from .arithmetic import Arithmetic, width_of
from .integer_sets import equal_tuple, number, parameter, without
from .meaning import Access, Guard, Loop, Path, StagedPosition
from .values import Atom, Buffer, Refuted, Term, Undecided, Value

# What is at a place of a list depends on how many of the indices before are an owner's: no affine relation says that.
LISTED = "a buffer holds a list, and how long it is the nest counts while it runs"


@dataclass(frozen=True)
class _Store:
    """A store to a buffer."""

    buffer: int
    loops: tuple[Loop, ...]
    path: Path
    domain: isl.Set
    places: tuple[isl.PwAff, ...]
    value: Term


class Staged(Arithmetic):
    """Handlers of buffers that the walk over a module inherits."""

    values: dict[SSAValue, Value]
    path: Path
    under: tuple[Term, ...]
    guard: Guard | None
    stores: list[_Store]

    def run_memref_alloca(self, op: memref.AllocaOp) -> None:
        """Make a buffer."""
        type_ = op.memref.type
        assert isinstance(type_, MemRefType)
        depth = sum(loop.parallel for loop in self.loops)
        self.values[op.memref] = Buffer(len(self.values), type_.get_shape(), width_of(type_.element_type), depth)

    def _places(self, op: Operation, buffer: Buffer, subscripts: tuple[isl.PwAff | Term, ...]) -> tuple[isl.PwAff, ...]:
        places = tuple(place for place in subscripts if isinstance(place, isl.PwAff))
        if len(places) != len(subscripts):
            raise Undecided(LISTED)
        sizes = tuple(map(number, buffer.sizes))
        access = Access(op, "the buffer", self.domain, places, sizes, self.under, self.guard)
        self.meaning.accesses.append(access)
        return places

    def store_staged(self, op: Operation, buffer: Buffer, subscripts: tuple, value: Term) -> None:
        """Remember a store to a buffer."""
        places = self._places(op, buffer, subscripts)
        shared = [loop.label for loop in self.loops if loop.parallel][buffer.parallel_depth :]
        if shared:
            self.meaning.problems.append(f"iterations of the parallel loop {shared[0]} store to one buffer")
        value = Term(bits.widened(value.expression, buffer.bits, unsigned=False), value.atoms)  # type: ignore[arg-type]
        self.stores.append(_Store(buffer.number, self.loops, self.path, self.domain, places, value))

    def load_staged(self, op: Operation, buffer: Buffer, subscripts: tuple) -> Term:
        """Return what a load of a buffer reads: what the stores before it, in this iteration, have left there."""
        places = self._places(op, buffer, subscripts)
        found = [store for store in self.stores if store.buffer == buffer.number]
        if not found:
            raise Refuted("a staged position is read before anything is staged")
        found = same_shape(found)
        expression, atoms = found[0].value.expression, list(found[0].value.atoms.values())
        slots = [[self.fresh("staged") for _ in atom.subscripts] for atom in atoms]
        written = isl.Set("{ : }").complement()
        for store in found:
            written = written.union(self._matching(store, places, slots))
        missing = self.domain.subtract(without(written, [slot for group in slots for slot in group]))
        if not missing.is_empty():
            self.meaning.problems.append("a staged position is read before it is written")
        result: dict[str, Atom] = {}
        substituted = []
        for name, atom, group in zip(found[0].value.atoms, atoms, slots, strict=True):
            others = [slot for other in slots if other is not group for slot in other]
            read = replace(atom, subscripts=tuple(map(parameter, group)), among=without(written, others))
            fresh = self.names.setdefault(f"{atom.key} at {places}", f"{atom.array}#{len(self.names)}")
            result[fresh] = read
            substituted.append((bits.variable(name, atom.bits), bits.variable(fresh, atom.bits)))
        return Term(z3.substitute(expression, *substituted), result)

    def _matching(self, store: _Store, places: tuple[isl.PwAff, ...], slots: list[list[str]]) -> isl.Set:
        """Return the iterations of now for which a store wrote these places, with the element that it had read."""
        common = {loop.parameter for loop in self.loops}
        own = [loop.parameter for loop in store.loops if loop.parameter not in common]
        there = store.domain
        for place, here in zip(store.places, places, strict=True):
            there = there.intersect(place.eq_set(here))
        for atom, group in zip(store.value.atoms.values(), slots, strict=True):
            there = there.intersect(equal_tuple(group, atom.subscripts)).intersect(atom.among)
        return without(there.intersect(self.meaning.context), own)


_Stored = TypeVar("_Stored", bound="_Store | StagedPosition")


def same_shape(stores: list[_Stored]) -> list[_Stored]:
    """Return stores with the variables of the first one, where all compute the same from the indices that they read.

    Raises:
        Undecided: they do not.
    """
    first = stores[0].value
    return [replace(store, value=with_variables_of(first, store.value)) for store in stores]


def with_variables_of(first: Term, value: Term) -> Term:
    """Return a term in the variables of another that computes the same; raises Undecided where it does not."""
    if len(value.atoms) != len(first.atoms):
        raise Undecided("stores to one buffer compute different things")
    pairs = zip(value.atoms.items(), first.atoms.items(), strict=True)
    names = [(bits.variable(name, atom.bits), bits.variable(other, atom.bits)) for (name, atom), (other, _) in pairs]
    expression = z3.substitute(value.expression, *names)
    if not expression.eq(first.expression) and bits.find([expression != first.expression], []) is not None:
        raise Undecided("stores to one buffer compute different things")
    return Term(first.expression, dict(zip(first.atoms, value.atoms.values(), strict=True)))
