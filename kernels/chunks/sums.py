"""Sums of rows by key, as far as some of the rows are added: what a chunk gives to a gradient or to sums of bags.

Rows of one key are added in the order in which they come, from zero. Sums of several parts are added in the order of
the parts. So the bytes depend on how rows are cut into parts, and not on who adds them, nor when.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.operator_spec import Gather, Gradient
from ...ir.semantics import Bounds
from ..runtime.call_cache import CALLS, one_object
from ..runtime.dispatch import Request, run

_ADD = Gather(0)


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of some keys.

    Attributes:
        keys: (n) int64, ascending; None where every key has a sum. The others' is zero.
        rows: (n, rest...), in the dtype of the sums.
        size: how many keys there are.
    """

    keys: np.ndarray | None
    rows: np.ndarray
    size: int

    def of_all_keys(self) -> np.ndarray:
        """Return (size, rest...): the sums of all keys; not to be written to."""
        return self.rows if self.keys is None else _added(self.rows, self.keys, self.size)


def add_rows(rows: np.ndarray, keys: np.ndarray, size: int) -> Sums:
    """Return the sums of rows (n, rest...) by their keys (n) in [0, size); of few keys, only theirs."""
    if 2 * len(keys) >= size:
        return Sums(None, _added(rows, keys, size), size)
    found, places = np.unique(keys, return_inverse=True)
    return Sums(found, _added(rows, places, len(found)), size)


def add_sums(parts: Sequence[Sums]) -> Sums:
    """Return the sums of one part or more, added in their order."""
    first, *others = parts
    if not others:
        return first
    listed = [part.keys for part in parts if part.keys is not None]
    if len(listed) == len(parts) and 2 * sum(map(len, listed)) < first.size:
        return add_rows(np.concatenate([part.rows for part in parts]), np.concatenate(listed), first.size)
    total = first.rows.copy() if first.keys is None else first.of_all_keys()
    with np.errstate(all="ignore"):
        for part in others:
            total[... if part.keys is None else part.keys] += part.rows
    return Sums(None, total, first.size)


def add_rows_onto(total: np.ndarray, rows: np.ndarray, keys: np.ndarray) -> None:
    """Add rows (n, rest...) by their keys (n) to sums (size, rest...), as if they came after all rows added before."""
    found, places = np.unique(keys, return_inverse=True)
    both = np.concatenate([total[found], rows])
    total[found] = _added(both, np.concatenate([np.arange(len(found)), places]), len(found))


def _added(rows: np.ndarray, keys: np.ndarray, size: int) -> np.ndarray:
    """Return (size, rest...): rows added to zeros at their keys, in their order."""
    request = Request(_ADD, Bounds.UNCHECKED, Gradient(), (size, *rows.shape[1:]))
    return run(request, rows, keys, None, CALLS, (one_object(("sums", request)), None, None))
