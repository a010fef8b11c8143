"""The values of a model's constants: a table beside the module, and the context in which passes find it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from xdsl.context import Context

from .context import load_dialects

MOST_DENSE_ELEMENTS = 64
"""Integer constants of more elements are weights and not part of the text."""


class Weights(Mapping[str, np.ndarray]):
    """Constants by name, read-only. Passes add to it and remove nothing, so that every stage finds its own."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._numbers: dict[str, int] = {}

    def copy(self) -> "Weights":
        """Return a table of its own that has the same arrays."""
        copied = Weights()
        copied._arrays, copied._numbers = dict(self._arrays), dict(self._numbers)
        return copied

    def add(self, name: str, array: np.ndarray) -> str:
        """Put an array in under `name`, or under one derived from it when that is taken, and return the name.

        Args:
            name: what it is called; `weight` when empty.
            array: the values; a read-only view of it is kept.
        """
        base = unique = name or "weight"
        while unique in self._arrays:
            number = self._numbers[base] = self._numbers.get(base, 0) + 1
            unique = f"{base}_{number}"
        kept = array.view()
        kept.flags.writeable = False
        self._arrays[unique] = kept
        return unique

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


@dataclass
class ModelContext(Context):
    """A context that carries the weights of the module it is for."""

    weights: Weights = field(default_factory=Weights)


def model_context(weights: Weights) -> ModelContext:
    """Return a context with the dialects of every level that carries `weights`."""
    context = ModelContext(weights=weights)
    load_dialects(context)
    return context


def weights_of(context: Context) -> Weights:
    """Return the weights that a context carries; none where a module is read without its model."""
    return context.weights if isinstance(context, ModelContext) else Weights()
