"""The gather operators as values: their attributes, and what follows from them. Plain Python.

The operations of the dialect, the run time and the reference all ask these.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from .canonical import Role, gather_elements_roles, gather_nd_roles, gather_reduce_roles, gather_roles
from .errors import InvalidGatherError
from .semantics import (
    Shape,
    check_gather_reduce,
    gather_nd_shape,
    gather_shape,
    normalize_gather,
    normalize_gather_elements,
    normalize_gather_nd,
)


@dataclass(frozen=True, slots=True)
class OperatorSpec(ABC):
    """One operator with its integer attributes, as its author wrote them or normalised."""

    name: ClassVar[str]
    # Whether elements are added, and so are numbers; all other operators move bytes.
    adds: ClassVar[bool] = False

    def attributes(self) -> dict[str, int]:
        """Return the integer attributes by name, in the order in which they print."""
        return {name: getattr(self, name) for name in attribute_names(type(self))}

    @abstractmethod
    def normalized(self, data_shape: Shape, indices_shape: Shape) -> Self:
        """Return the operator with its attributes checked and made non-negative.

        Raises:
            InvalidGatherError: they do not fit the shapes.
        """

    def result_dtype(self, data_dtype: np.dtype) -> np.dtype:
        """Return the dtype of the result: that of data, but of a reduction that widens it."""
        return data_dtype

    @abstractmethod
    def result_shape(self, data_shape: Shape, indices_shape: Shape) -> Shape:
        """Return the shape of the result, for normalised attributes."""

    @abstractmethod
    def roles(self, data_rank: int, indices_shape: Shape) -> tuple[Role, ...]:
        """Return what each dimension is for, for normalised attributes; data may have a dimension more at its end."""

    @abstractmethod
    def axes(self, indices_shape: Shape) -> range:
        """Return the dimensions of data that are indexed, for normalised attributes."""


@lru_cache
def attribute_names(kind: type[OperatorSpec]) -> tuple[str, ...]:
    """Return the names of an operator's integer attributes, in the order in which they print."""
    return tuple(field.name for field in fields(kind))


@dataclass(frozen=True, slots=True)
class Gather(OperatorSpec):
    """Slices of data along one axis."""

    name: ClassVar[str] = "gather"
    axis: int = 0
    batch_dims: int = 0

    def normalized(self, data_shape: Shape, indices_shape: Shape) -> Self:
        return type(self)(*normalize_gather(data_shape, indices_shape, self.axis, self.batch_dims))

    def result_shape(self, data_shape: Shape, indices_shape: Shape) -> Shape:
        return gather_shape(data_shape, indices_shape, self.axis, self.batch_dims)

    def roles(self, data_rank: int, indices_shape: Shape) -> tuple[Role, ...]:
        return gather_roles(data_rank, len(indices_shape), self.axis, self.batch_dims)

    def axes(self, indices_shape: Shape) -> range:
        return range(self.axis, self.axis + 1)


@dataclass(frozen=True, slots=True)
class GatherNd(OperatorSpec):
    """Slices of data by tuples of indices, which lie along the last dimension of indices."""

    name: ClassVar[str] = "gather_nd"
    batch_dims: int = 0

    def normalized(self, data_shape: Shape, indices_shape: Shape) -> Self:
        return type(self)(normalize_gather_nd(data_shape, indices_shape, self.batch_dims))

    def result_shape(self, data_shape: Shape, indices_shape: Shape) -> Shape:
        return gather_nd_shape(data_shape, indices_shape, self.batch_dims)

    def roles(self, data_rank: int, indices_shape: Shape) -> tuple[Role, ...]:
        return gather_nd_roles(data_rank, len(indices_shape), self.batch_dims, indices_shape[-1])

    def axes(self, indices_shape: Shape) -> range:
        return range(self.batch_dims, self.batch_dims + indices_shape[-1])


@dataclass(frozen=True, slots=True)
class GatherElements(OperatorSpec):
    """Elements of data, each by an index of its own along one axis."""

    name: ClassVar[str] = "gather_elements"
    axis: int = 0

    def normalized(self, data_shape: Shape, indices_shape: Shape) -> Self:
        return type(self)(normalize_gather_elements(data_shape, indices_shape, self.axis))

    def result_shape(self, data_shape: Shape, indices_shape: Shape) -> Shape:
        return (*indices_shape, *data_shape[len(indices_shape) :])

    def roles(self, data_rank: int, indices_shape: Shape) -> tuple[Role, ...]:
        return gather_elements_roles(data_rank, len(indices_shape), self.axis)

    def axes(self, indices_shape: Shape) -> range:
        return range(self.axis, self.axis + 1)


@dataclass(frozen=True, slots=True)
class GatherReduce(OperatorSpec):
    """Sums of slices of data along its first axis: one for each bag, the indices along the last dimension."""

    name: ClassVar[str] = "gather_reduce"
    adds: ClassVar[bool] = True
    # Whether each sum is divided by the number of slices in it, of a bag that has none by 1.
    divides: ClassVar[bool] = False

    def normalized(self, data_shape: Shape, indices_shape: Shape) -> Self:
        check_gather_reduce(data_shape, indices_shape)
        return self

    def result_dtype(self, data_dtype: np.dtype) -> np.dtype:
        return np.dtype(np.float32) if data_dtype.name in ("float16", "bfloat16") else data_dtype

    def result_shape(self, data_shape: Shape, indices_shape: Shape) -> Shape:
        return (*indices_shape[:-1], *data_shape[1:])

    def roles(self, data_rank: int, indices_shape: Shape) -> tuple[Role, ...]:
        return gather_reduce_roles(data_rank, len(indices_shape))

    def axes(self, indices_shape: Shape) -> range:
        return range(1)


@dataclass(frozen=True, slots=True)
class GatherMax(GatherReduce):
    """The largest of the slices of each bag, in place of their sum."""

    name: ClassVar[str] = "gather_max"


@dataclass(frozen=True, slots=True)
class GatherWeighted(GatherReduce):
    """Sums of slices that are each multiplied by a weight of its own.

    The last dimension of indices has two places: an index, and the bits of its weight, a float of as many bits: float32
    beside int32, float64 beside int64. A third has the bits of a bias, which is added to each product. Elements
    narrower than the weight become floats of its width.
    """

    name: ClassVar[str] = "gather_weighted"

    def normalized(self, data_shape: Shape, indices_shape: Shape) -> Self:
        check_gather_reduce(data_shape, indices_shape[:-1])
        if indices_shape[-1] not in (2, 3):
            raise InvalidGatherError(
                "gather_weighted needs indices whose last dimension is an index and its weight, of size 2, or 3 with a "
                f"bias, got {indices_shape[-1]}"
            )
        return self

    def result_dtype(self, data_dtype: np.dtype) -> np.dtype:
        return np.dtype(np.float64 if data_dtype.itemsize == 8 else np.float32)

    def result_shape(self, data_shape: Shape, indices_shape: Shape) -> Shape:
        return (*indices_shape[:-2], *data_shape[1:])

    def roles(self, data_rank: int, indices_shape: Shape) -> tuple[Role, ...]:
        bags = len(indices_shape) - 2
        (axis, indices, bag, inner) = gather_reduce_roles(data_rank, len(indices_shape) - 1)
        return axis, indices, bag, Role("tuple", 1, indices=bags + 1), inner


@dataclass(frozen=True, slots=True)
class GatherMean(GatherReduce):
    """The sum of the slices of each bag, divided by their number; zeros of an empty bag."""

    name: ClassVar[str] = "gather_mean"
    divides: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class GatherWeightedMean(GatherWeighted):
    """The weighted sum of the slices of each bag, divided by their number; zeros of an empty bag."""

    name: ClassVar[str] = "gather_weighted_mean"
    divides: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Gradient:
    """Asks for the gradient of an operator with respect to data: a scatter-add onto zeros, multiplied by `scale`."""

    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Node:
    """What a graph calls an operator; for the reader, and for the messages of errors.

    Attributes:
        name: the node's name; empty when it has none.
        outputs: the names of what it gives.
    """

    name: str = ""
    outputs: tuple[str, ...] = ()
