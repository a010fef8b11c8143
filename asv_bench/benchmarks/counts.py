"""Exact counts: the same in every run on every machine, so that one of them that changes is a change of the package.

Each class asks fresh processes in `setup_cache`, once; `counting/` has what they run.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from .counting import fresh, instructions, session

PASSES = (
    *("normalize-gather", "erase-element-type", "bufferize-gather", "collapse-dims", "lower-to-nest"),
    *("fold-bounds", "erase-sizes", "drop-unit-loops", "specialize-inner", "tile-loops"),
    *("interchange-loops", "parallelize-loops", "hoist-indices", "vectorize-inner", "prefetch"),
    *("stream-stores", "hoist-invariants", "lower-nest-to-loops", "fold-constants", "canonicalize", "cse"),
)
ALLOCATING = (
    *("gather", "gather int32 indices", "gather strided table", "gather last axis", "gather out", "gather_nd"),
    *("gather_elements", "gather_grad", "gather large"),
)
CALLS = ("gather", "gather out", "gather list", "kernel", "kernel out")

Method = TypeVar("Method", bound=Callable)


def counted_in(unit: str) -> Callable[[Method], Method]:
    """Say what asv writes behind the number that a method returns."""

    def of(method: Method) -> Method:
        vars(method)["unit"] = unit
        return method

    return of


class Counted:
    """The session of `counting/session.py`, and what valgrind counts of its kernels."""

    timeout = 1800

    def setup_cache(self) -> dict[str, Any]:
        """Return all counts by name, and under "why not" why there are no instructions."""
        with fresh.place() as place:
            counts = place.ask("session")
            counts["cached"] = session.cached(place.folder / "cache")
            place.ask("session", "modules")  # compiles the kernel that the second process finds
            counts["modules"] = place.ask("session", "modules")
            counts["why not"] = instructions.why_not()
            if not counts["why not"]:
                counts["instructions"] = instructions.count(place)
        return counts


class Compiling(Counted):
    """Of the passes: Python functions called, and operations after each, over the kernels of the session."""

    params = PASSES
    param_names = ["pass"]

    @counted_in("calls")
    def track_python_calls(self, counts: dict[str, Any], name: str) -> float:
        return counts["calls"].get(name, float("nan"))

    @counted_in("operations")
    def track_operations(self, counts: dict[str, Any], name: str) -> float:
        return counts["operations"].get(name, float("nan"))


class Session(Counted):
    """Of the whole session."""

    @counted_in("calls")
    def track_python_calls_between_passes(self, counts: dict[str, Any]) -> int:
        return counts["calls"][session.OUTSIDE]

    @counted_in("calls")
    def track_python_calls_of_other_passes(self, counts: dict[str, Any]) -> int:
        return sum(count for name, count in counts["calls"].items() if name not in (*PASSES, session.OUTSIDE))

    @counted_in("calls")
    def track_python_calls_of_a_launch_on_two_threads(self, counts: dict[str, Any]) -> int:
        return counts["launch"]["two threads"]

    @counted_in("kernels")
    def track_kernels_compiled(self, counts: dict[str, Any]) -> int:
        return counts["cached"]["kernels"]

    @counted_in("bytes")
    def track_cache(self, counts: dict[str, Any]) -> int:
        return counts["cached"]["bytes"]

    @counted_in("modules")
    def track_modules_of_import(self, counts: dict[str, Any]) -> int:
        return counts["modules"]["import"]

    @counted_in("modules")
    def track_modules_of_first_gather(self, counts: dict[str, Any]) -> int:
        return counts["modules"]["first gather"]


class Memory(Counted):
    """The peak of traced memory of a call over the bytes of its result: 1 where nothing is copied beside it.

    Of the large result it is the peak of resident memory, because its memory is mapped.
    """

    params = ALLOCATING
    param_names = ["call"]

    @counted_in("results")
    def track_peak_over_result(self, counts: dict[str, Any], call: str) -> float:
        return counts["memory"][call]


class Source(Counted):
    """Lines of the generated source."""

    params = session.KERNELS
    param_names = ["case"]

    @counted_in("lines")
    def track_lines(self, counts: dict[str, Any], case: str) -> int:
        return counts["source_lines"][case]


class Instructions(Counted):
    """Machine instructions; skipped without valgrind."""

    params = (
        *(f"call {name}" for name in CALLS),
        *(f"kernel {name}" for name in session.KERNELS),
        "pipeline",
        "import",
    )
    param_names = ["region"]

    def setup(self, counts: dict[str, Any], region: str) -> None:
        if counts["why not"]:
            raise NotImplementedError(counts["why not"])

    @counted_in("instructions")
    def track_instructions(self, counts: dict[str, Any], region: str) -> float:
        return counts["instructions"][region]
