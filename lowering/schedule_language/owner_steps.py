"""The steps of a schedule for gradients whose owners each have a part of an axis: methods that a script inherits."""

from collections.abc import Sequence
from typing import Any, Self

from ...ir.loop_name import LoopName
from .loop_handle import LoopHandle


class OwnerSteps:
    """Steps about owners; `_name` and `_step` are the script's, which checks and applies them."""

    def _name(self, loop: LoopHandle | str, call: str) -> LoopName:
        raise NotImplementedError

    def _step(
        self, kind: str, call: str, value: Any, names: Sequence[str], options: dict[str, Any] | None = None
    ) -> Self:
        raise NotImplementedError

    def group_indices(self, loop: LoopHandle | str) -> Self:
        """Sort the indices by position, and then add up the slices of each; see the pass `group-indices`."""
        call = f"group_indices({str(loop)!r})"
        name = self._name(loop, call)
        return self._step("group-indices", call, name, [name])

    def parallelize_sort(self, parts: int) -> Self:
        """Share the sort of the indices among threads, in so many parts; see the pass `parallelize-sort`."""
        return self._step("parallelize-sort", f"parallelize_sort({parts!r})", parts, [])

    def owner_computes(self, owners: int, axis: str = "axis") -> Self:
        """Partition the axis that a gradient adds to among owners."""
        return self._step("owner-computes", f"owner_computes({owners!r})", (axis, owners), [])

    def interleave_owners(self, block: int) -> Self:
        """Give owners blocks of so many positions in turn, and not one part each."""
        return self._step("interleave-owners", f"interleave_owners({block!r})", block, [])

    def fuse_into_owners(self) -> Self:
        """Let each owner clear its own positions before it adds, and scale them."""
        return self._step("fuse-into-owners", "fuse_into_owners()", True, [])

    def list_indices(self, loop: LoopHandle | str) -> Self:
        """List the indices of a tile that an owner owns, and then add their rows; see the pass `compact-indices`."""
        call = f"list_indices({str(loop)!r})"
        name = self._name(loop, call)
        return self._step("compact-indices", call, name, [name])

    def vectorize_lists(self, lanes: int = 8) -> Self:
        """List single elements `lanes` at a time: 2, 4 or 8."""
        return self._step("vectorize-lists", f"vectorize_lists({lanes!r})", lanes, [])
