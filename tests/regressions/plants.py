"""The planted regressions: each a patch of this folder, and the trackers that must find it."""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Plant:
    """A regression that is made on purpose.

    Attributes:
        name: of the patch, without its ending.
        static: what the static report must name as the cause, and "" where it must find nothing.
        loop: a word in the name of a loop that the static report must name.
        counts: the beginning of a name among the exact counts that must change; "" where none need to.
    """

    name: str
    static: str = ""
    loop: str = ""
    counts: str = ""

    @property
    def patch(self) -> str:
        """The text of the patch; its first line says what it does."""
        return (FOLDER / f"{self.name}.patch").read_text(encoding="utf-8")


PLANTS = (
    Plant("dependent_load", static="assembly", loop="inner", counts="instructions kernel"),
    Plant("lost_vectors", static="vectorize-inner"),
    Plant("lost_prefetch", static="prefetch"),
    Plant("slow_pass", counts="calls hoist-invariants"),
    Plant("hidden_copy", counts="memory gather"),
    Plant("slow_import", counts="modules import"),
    Plant("slow_call", counts="instructions call gather"),
)
# Of any size: PERCENT in the patch is replaced.
AGAIN = Plant("again", static="the code generator", loop="indices", counts="instructions kernel")
