"""A generated kernel as text, with the parameters to pass. Plain data; imports neither Numba nor xDSL."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ...ir.numbers import parse_whole

# A kernel returns this, in place of a number of indices, where the system has no memory for it.
NO_MEMORY = -1


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a kernel: where its value comes from.

    Attributes:
        name: its name in the source.
        kind: `address` of an array, its `size` along a dimension, its `stride` in elements along one, or the `scale` of
            a gradient.
        argument: number of the array: 0 data (grad of a gradient), then indices unless constant, then out.
        dim: the dimension, in the canonical form; 0 for an address.
    """

    name: str
    kind: Literal["address", "size", "stride", "scale"]
    argument: int
    dim: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """The source of a kernel.

    Attributes:
        source: a Python module with the function `gather(*parameters, team)`, which returns the number of indices
            outside, 0 when the gather was carried out, or `NO_MEMORY`, and then out is unchanged.
        parameters: the arguments to pass, in order.
        line_ops: the IR operation that each line (1-based) was printed from.
        origins: the line (1-based) of the module's text that each line was printed from, where the module was parsed
            with its places; not stored. Constants, sizes and casts are printed where they are used, and have no line.
    """

    source: str
    parameters: tuple[Parameter, ...]
    line_ops: dict[int, str]
    origins: dict[int, int] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the program without its source, as JSON can hold it."""
        return {
            "parameters": [asdict(parameter) for parameter in self.parameters],
            "line_ops": {str(line): op for line, op in self.line_ops.items()},
        }

    @classmethod
    def from_json(cls, source: str, stored: dict[str, Any]) -> "Program":
        """Return the program that `to_json` stored."""
        parameters = tuple(Parameter(**entry) for entry in stored["parameters"])
        return cls(source, parameters, {parse_whole(line): op for line, op in stored["line_ops"].items()})
