"""The values of a model's constants: a table beside the module, and the context in which passes find it."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from xdsl.context import Context
from xdsl.ir import SSAValue

from ..errors import ModelError
from .context import OpenContext, load_dialects

# Integer constants of more elements are weights and not part of the text.
MOST_DENSE_ELEMENTS = 64


class Weights(Mapping[str, np.ndarray]):
    """Constants by name, read-only. Passes add to it and remove nothing, so that every stage finds its own.

    Attributes:
        max_bytes: the most bytes that all of them may take; None for no limit.
        total_bytes: what they take; views of one array are counted once.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self.max_bytes, self.total_bytes = max_bytes, 0
        self._arrays: dict[str, np.ndarray] = {}
        self._counted: set[int] = set()
        self._numbers: dict[str, int] = {}

    def copy(self) -> "Weights":
        """Return a table of its own that has the same arrays."""
        copied = Weights(self.max_bytes)
        copied._arrays, copied._numbers = dict(self._arrays), dict(self._numbers)
        copied._counted, copied.total_bytes = set(self._counted), self.total_bytes
        return copied

    def add(self, name: str, array: np.ndarray) -> str:
        """Put a read-only view of an array in, and return its name, which is derived from `name` where that is taken.

        Raises:
            ModelError: with it, they are over the limit.
        """
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if id(owner) not in self._counted:
            strings_bytes = sum(map(sys.getsizeof, owner.flat)) if owner.dtype.hasobject else 0
            self.check_room(owner.nbytes + strings_bytes, name)
            self.total_bytes += owner.nbytes + strings_bytes
            self._counted.add(id(owner))
        base = unique = name or "weight"
        while unique in self._arrays:
            number = self._numbers[base] = self._numbers.get(base, 0) + 1
            unique = f"{base}_{number}"
        view = array.view()
        view.flags.writeable = False
        self._arrays[unique] = view
        return unique

    def check_room(self, size_bytes: int, name: str) -> None:
        """Check that an array of so many bytes may be added; raises ModelError."""
        total = self.total_bytes + size_bytes
        if self.max_bytes is not None and total > self.max_bytes:
            raise ModelError(
                f"with {name!r}, the model's constants and what is folded from them take {total} bytes, over the limit "
                f"max_total_bytes={self.max_bytes}; raise it if the model is to be trusted"
            )

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


@dataclass
class ModelContext(OpenContext):
    """A context that carries the weights of the module it is for, and what `Constants` has found out of its values."""

    weights: Weights = field(default_factory=Weights)
    known: dict[SSAValue, np.ndarray | None] = field(default_factory=dict)


def model_context(weights: Weights, known: dict[SSAValue, np.ndarray | None] | None = None) -> ModelContext:
    """Return a context with the dialects of every level that carries `weights` and `known`."""
    context = ModelContext(weights=weights, known={} if known is None else known)
    load_dialects(context)
    return context


def weights_of(context: Context) -> Weights:
    """Return the weights that a context carries; none where a module is read without its model."""
    return context.weights if isinstance(context, ModelContext) else Weights()
