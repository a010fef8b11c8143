"""What is known of a compiled kernel without running it. Plain values, and their JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Counts of a loop, in the order in which they are shown.
COUNTS = (
    *("vector_bytes", "instructions", "loads", "stores", "nontemporal_stores", "prefetches", "spills"),
    *("calls", "branches"),
)


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """A loop of the assembly; instructions of loops inside it are theirs.

    Attributes:
        name: function and loop of the generated source, such as `copy_tile indices_i`; `#2` for the second of it.
        depth: 1 is outermost.
        is_hot: it is innermost, and reads or writes memory.
        vector_bytes: the widest vector register; 0 where all are scalars.
        instructions: all of them.
        loads, stores: those that read or write memory, spills aside; non-temporal stores are stores.
        nontemporal_stores, prefetches, calls, branches: those.
        spills: moves between a register and a fixed place of the stack, either way.
        code: the instructions of a hot loop, local labels numbered from 1 in the loop; empty for another.
    """

    name: str
    depth: int
    is_hot: bool
    vector_bytes: int
    instructions: int
    loads: int
    stores: int
    nontemporal_stores: int
    prefetches: int
    spills: int
    calls: int
    branches: int
    code: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Its counts by name."""
        return {name: getattr(self, name) for name in COUNTS}

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it; counts of 0 are left out."""
        counts = {name: count for name, count in self.counts.items() if count}
        return {"name": self.name, "depth": self.depth, "hot": self.is_hot, **counts, "code": list(self.code)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "LoopFacts":
        """Return what `to_json` stored; raises KeyError for what it did not."""
        counts = {name: stored.get(name, 0) for name in COUNTS}
        return cls(stored["name"], stored["depth"], stored["hot"], **counts, code=tuple(stored["code"]))


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """A compiled kernel.

    Attributes:
        schedule: as text.
        stages: (pass with its options, digest of the module after it); `operator` first.
        source: digest of the generated source.
        assembly: digest of the normal form of the assembly.
        loops: those of the assembly, in its order.
    """

    schedule: str
    stages: tuple[tuple[str, str], ...]
    source: str
    assembly: str
    loops: tuple[LoopFacts, ...]

    @property
    def identity(self) -> tuple[str, str]:
        """What two kernels share that cannot differ in time: schedule and assembly."""
        return self.schedule, self.assembly

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        loops = [loop.to_json() for loop in self.loops]
        texts = {name: getattr(self, name) for name in ("schedule", "source", "assembly")}
        return {**texts, "stages": [list(stage) for stage in self.stages], "loops": loops}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "KernelFacts":
        """Return what `to_json` stored; raises KeyError, TypeError or ValueError for what it did not."""
        stages = tuple((name, text) for name, text in stored["stages"])
        loops = tuple(map(LoopFacts.from_json, stored["loops"]))
        return cls(stored["schedule"], stages, stored["source"], stored["assembly"], loops)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the code of a kernel depends on, beside the package.

    Attributes:
        target: LLVM's name of a CPU; None for this one.
        machine: fields of a machine model, as a file has them; None for the model of this machine.
        threads: that share the work where `machine` does not say; None for one for each usable core.
    """

    target: str | None
    machine: Mapping[str, Any] | None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """The kernels of some cases.

    Attributes:
        versions: of the packages, and of Python, that made them.
        kernels: by case; cases of one kernel have the same value.
        failed: by case, why there is none.
    """

    versions: Mapping[str, str]
    kernels: Mapping[str, KernelFacts]
    failed: Mapping[str, str]
