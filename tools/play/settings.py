"""What a person has set in the playground, and the link that restores it. Plain Python."""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ...ir.errors import GathernestError, did_you_mean
from ...ir.numbers import MIN_INT64, parse_whole
from ...ir.semantics import Bounds
from ...kernels.problems.named_problem import OPERATORS

# What the playground shows when nothing else is asked for: the gather and the schedule of docs/schedules.md.
FIRST_STEPS = """tile("indices", 64)
interchange("indices_o", "outer")
parallel("indices_o")
stage_indices("outer")
vectorize("inner", 8)
"""
LONGEST_TEXT = 1 << 20
WORDS = {"operator": OPERATORS, "bounds": tuple(mode.value for mode in Bounds)}


class LinkError(GathernestError, ValueError):
    """A link does not hold the settings of a playground."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A gather, its schedule, and a stage that a person edited.

    Attributes:
        operator, data, indices, axis, batch_dims, bounds, scale: as for `gathernest.compile`.
        steps: of the schedule, one in a line; None for those that the sizes choose.
        stage: the stage that is edited, by the name of its file in a dump, such as `07-fold-bounds`; empty for none.
        text: what stands in its place; empty for what the passes make.
    """

    operator: str = "gather"
    data: str = "16x4000x64xf32"
    indices: str = "6000xi64"
    axis: int = 0
    batch_dims: int = 0
    bounds: str = "error"
    scale: float = 1.0
    steps: str | None = None
    stage: str = ""
    text: str = ""

    @property
    def gather(self) -> dict[str, Any]:
        """The arguments of `gathernest.compile`."""
        names = ("operator", "data", "indices", "axis", "batch_dims", "bounds", "scale")
        return {name: getattr(self, name) for name in names}

    def to_query(self) -> dict[str, str]:
        """Return the parameters of a link: what differs from the defaults, and always both arrays."""
        default = Settings()
        values = {name: value for name, value in asdict(self).items() if value != getattr(default, name)}
        query = {"data": self.data, "indices": self.indices, **values}
        if self.text:
            query["text"] = base64.urlsafe_b64encode(zlib.compress(self.text.encode(), 9)).decode()
        return {name: str(value) for name, value in query.items()}

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> "Settings":
        """Return the settings of a link; `FIRST` where it has none. Parameters of other names are not read.

        Raises:
            LinkError: a value is not of its kind.
        """
        kinds = {field.name: type(field.default) for field in fields(cls) if field.name in query}
        if not kinds:
            return FIRST
        values: dict[str, Any] = {}
        for name, kind in kinds.items():
            text = query[name]
            if not isinstance(text, str):
                raise LinkError(f"the link gives {name} {len(text)} times; leave all but one out")
            try:
                values[name] = parse_whole(text, MIN_INT64) if kind is int else kind(text) if kind is float else text
            except ValueError:
                wanted = "a whole number" if kind is int else "a number"
                raise LinkError(f"the link gives {name}={text!r}, expected {wanted}; mend or leave it out") from None
            if text not in (allowed := WORDS.get(name, (text,))):
                said = f"expected {', '.join(allowed)}{did_you_mean(text, allowed)}"
                raise LinkError(f"the link gives {name}={text!r}, {said}; mend or leave it out")
        if "text" in values:
            values["text"] = _unpacked(values["text"])
        return cls(**values)


FIRST = Settings(axis=1, bounds="wrap", steps=FIRST_STEPS)


def _unpacked(text: str) -> str:
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(base64.urlsafe_b64decode(text), LONGEST_TEXT)
        if unpacker.eof:
            return found.decode()
    except (ValueError, zlib.error):
        pass
    raise LinkError("the text of the stage in the link is damaged; copy the whole link, or leave text=... out")
