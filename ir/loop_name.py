"""The names of loops: this module alone makes and parses them. Plain Python."""

from functools import cached_property, lru_cache

NESTS = ("check", "clear", "scale", "prefetch", "copy")
SHORT_NAMES = {"batch": "b", "outer": "o", "indices": "i", "bag": "k", "inner": "j", "unit": "u"}


class LoopName(str):
    """The name of a loop, or of the dimension that it runs over, such as `check_indices_o`, `outer_1` or `data_inner`.

    It consists of the nest, unless that is the main one, the role, a number among several of that role, and the part of
    a split loop. The text is the value, since schedules, MLIR and the keys of kernels hold it. A name caches its parts,
    and the names made last are cached by their texts.
    """

    def __new__(cls, text: str = "") -> "LoopName":
        return text if isinstance(text, LoopName) else _name(str(text))

    def __reduce__(self) -> tuple[type["LoopName"], tuple[str]]:
        return LoopName, (str(self),)

    @cached_property
    def nest(self) -> str:
        """`check`, `clear`, `scale`, `prefetch` or `copy`; empty in the nest of the operator itself."""
        first, separator, _ = self.partition("_")
        return first if separator and first in NESTS else ""

    @cached_property
    def loop(self) -> "LoopName":
        """The loop that runs over this dimension of data."""
        return LoopName(self.removeprefix("data_"))

    @cached_property
    def role(self) -> str:
        """`batch`, `outer`, `axis`, `indices`, `bag`, `inner`, `unit`, `tuple` or another word."""
        if "_" not in self:
            return self
        return self.removeprefix(f"{self.nest}_").removeprefix("data_").partition("_")[0]

    @cached_property
    def induction(self) -> str:
        """The name of the induction variable: `b` for batch, `i_o` for indices_o and check_indices_o."""
        role, separator, tail = self.removeprefix(f"{self.nest}_").partition("_")
        return SHORT_NAMES.get(role, role) + separator + tail

    def beside(self, nest: str) -> "LoopName":
        """Return the name of this loop in another nest, such as `check` or `resolve`."""
        return LoopName(f"{nest}_{self}")

    @cached_property
    def outer_tile(self) -> "LoopName":
        """The loop over the tiles of this one."""
        return LoopName(f"{self}_o")

    @cached_property
    def inner_tile(self) -> "LoopName":
        """The loop within a tile of this one."""
        return LoopName(f"{self}_i")

    @cached_property
    def is_outer_tile(self) -> bool:
        """Whether it runs over tiles."""
        return self.endswith("_o")

    @cached_property
    def is_inner_tile(self) -> bool:
        """Whether it runs within a tile."""
        return self.endswith("_i")

    @cached_property
    def untiled(self) -> "LoopName":
        """The loop that was tiled; the loop itself where it runs neither over tiles nor within one."""
        return LoopName(self[:-2]) if self.is_outer_tile or self.is_inner_tile else self

    @cached_property
    def dimension(self) -> "LoopName":
        """The dimension that it runs over, without the nest and the tiles: `indices` of `check_indices_o`."""
        name = LoopName(self.removeprefix(f"{self.nest}_"))
        return name if name.untiled == name else name.untiled.dimension

    @cached_property
    def remainder(self) -> "LoopName":
        """The loop over the iterations that fill no whole step."""
        return LoopName(f"{self}_rest")

    @cached_property
    def is_remainder(self) -> bool:
        """Whether it is a remainder loop."""
        return self.endswith("_rest")

    @cached_property
    def prologue(self) -> "LoopName":
        """The loop over the iterations before the first aligned one."""
        return LoopName(f"{self}_head")

    @cached_property
    def parts(self) -> "LoopName":
        """The loop that stores in parts the elements before or behind vectors that are stored whole."""
        return LoopName(f"{self}_parts")

    @cached_property
    def cached(self) -> "LoopName":
        """The loop that stores through the caches, beside one that does not."""
        return LoopName(f"{self}_cached")


@lru_cache(maxsize=4096)
def _name(text: str) -> LoopName:
    return str.__new__(LoopName, text)
