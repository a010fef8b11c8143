"""What a model says of its inputs and outputs, and the arrays of a call checked against it. Plain Python."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.element_types import element_type_name
from ...ir.errors import InvalidGatherError, ModelError, did_you_mean
from ..runtime.array_checks import data_array


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What a model says of an input or an output.

    Attributes:
        shape: sizes; a name or None for one that is known only when the model runs.
        dtype: of the elements; object for strings.

    Prints as `f32[batch, 4]`, with `?` for a size without a name.
    """

    shape: tuple[int | str | None, ...]
    dtype: np.dtype

    def admits(self, shape: Sequence[int]) -> bool:
        """Return whether an array of that shape is one."""
        return len(shape) == len(self.shape) and all(
            size == wanted or not isinstance(wanted, int) for size, wanted in zip(shape, self.shape, strict=True)
        )

    def size_names(self, name: str) -> list[str | None]:
        """Return what the sizes of the input of that name are called: `NAME.AXIS` without a name, None if known."""
        return [None if isinstance(size, int) else size or f"{name}.{axis}" for axis, size in enumerate(self.shape)]

    def __str__(self) -> str:
        sizes = ("?" if size is None else str(size) for size in self.shape)
        return f"{element_type_name(self.dtype)}[{', '.join(sizes)}]"


def inputs_by_name(
    specs: Mapping[str, TensorSpec], arrays: Sequence[Any], named: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments of a call by their names; raises ModelError for too many, or one given twice."""
    if len(arrays) > len(specs):
        raise ModelError(f"the model has {len(specs)} inputs, {', '.join(specs) or 'none'}; got {len(arrays)}")
    placed = dict(zip(specs, arrays, strict=False))
    for name in named:
        if name in placed:
            raise ModelError(f"input {name!r} is given by position and by name; give it once")
    return {**placed, **named}


def check_input_names(specs: Mapping[str, TensorSpec], names: Iterable[str]) -> None:
    """Check that a model with those inputs has each of these names; raises ModelError with the closest."""
    for name in names:
        if name not in specs:
            there = ", ".join(specs) or "none"
            raise ModelError(f"the model has no input {name!r}; it has {there}{did_you_mean(str(name), specs)}")


def checked_inputs(specs: Mapping[str, TensorSpec], given: Mapping[str, Any]) -> list[np.ndarray]:
    """Return the arrays in the order of the inputs; raises ModelError, see `Model.run`."""
    if not isinstance(given, Mapping):
        raise ModelError(f"inputs are a dict of arrays by name, as {{'name': array}}, got {type(given).__name__}")
    check_input_names(specs, given)
    arrays: list[np.ndarray] = []
    for name, spec in specs.items():
        if name not in given:
            raise ModelError(f"input {name!r} is missing; it is {spec}")
    for name, spec in specs.items():
        try:
            array = data_array(given[name], f"input {name!r}")
        except InvalidGatherError as error:
            raise ModelError(str(error)) from None
        if spec.dtype.hasobject and array.dtype.kind in "UT":
            array = array.astype(object)
        if array.dtype != spec.dtype:
            raise ModelError(
                f"input {name!r} must have dtype {spec.dtype}, got {array.dtype}; convert it with .astype where the "
                "values fit"
            )
        if array.ndim != len(spec.shape):
            raise ModelError(f"input {name!r} must have rank {len(spec.shape)} ({spec}), got shape {array.shape}")
        if not spec.admits(array.shape):
            raise ModelError(f"input {name!r} must have the sizes of {spec}, got shape {array.shape}")
        arrays.append(array)
    bound_sizes(specs, {name: array.shape for name, array in zip(specs, arrays, strict=True)})
    return arrays


def bound_sizes(specs: Mapping[str, TensorSpec], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the sizes by their names that arrays of these shapes give; raises ModelError where two differ.

    A size without a name has that of its input and its axis: `tokens.1`.
    """
    sizes: dict[str, int] = {}
    first: dict[str, str] = {}
    for name, shape in shapes.items():
        for dim, size in zip(specs[name].size_names(name), shape, strict=True):
            if dim is not None and sizes.setdefault(dim, size) != size:
                raise ModelError(
                    f"size {dim!r} is {sizes[dim]} in input {first[dim]!r} and {size} in input {name!r}; they are one"
                )
            if dim is not None:
                first.setdefault(dim, name)
    return sizes
