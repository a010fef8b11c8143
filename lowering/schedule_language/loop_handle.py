"""Handles of loops: they name one loop of a nest through all later steps, as Exo's cursors do."""

from dataclasses import dataclass, field
from typing import Protocol

from ...ir.loop_name import LoopName


class Script(Protocol):
    """What a handle asks of the schedule that it is of, which `NestScript` is."""

    @property
    def labels(self) -> tuple[LoopName, ...]: ...

    def fate(self, name: str) -> str: ...

    def parts(self, name: str) -> "tuple[LoopHandle, ...]": ...

    def part(self, name: LoopName, wanted: LoopName) -> "LoopHandle": ...


@dataclass(frozen=True)
class LoopHandle:
    """One loop of a schedule's nest.

    Steps that move a loop, or change how it runs, keep its handle. A step that splits it consumes the handle; it then
    leads to the parts, and a later step that is given the handle says which step consumed it.

    Attributes:
        name: what the nest calls the loop.
    """

    script: Script = field(repr=False)
    name: LoopName

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<loop {self.name}{'' if self.is_live else f', {self.script.fate(self.name)}'}>"

    @property
    def is_live(self) -> bool:
        """Whether the nest has the loop."""
        return self.name in self.script.labels

    @property
    def parts(self) -> "tuple[LoopHandle, ...]":
        """The loops of the nest that it has become, outermost first: itself, or those that it was tiled into.

        Raises:
            ScheduleError: `undo` has taken back the step that made it.
        """
        if self.is_live:
            return (self,)
        return tuple(leaf for part in self.script.parts(self.name) for leaf in part.parts)

    @property
    def outer(self) -> "LoopHandle":
        """The loop over its tiles; raises ScheduleError where it is not tiled."""
        return self.script.part(self.name, self.name.outer_tile)

    @property
    def inner(self) -> "LoopHandle":
        """The loop within a tile of it; raises ScheduleError where it is not tiled."""
        return self.script.part(self.name, self.name.inner_tile)

    @property
    def remainder(self) -> "LoopHandle":
        """The loop over the iterations that fill no vector or unrolled step; raises ScheduleError where none is."""
        return self.script.part(self.name, self.name.remainder)
