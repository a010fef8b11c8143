"""The gather operators as values: their attributes, shapes and roles. Plain Python.

The operations of the dialect, the run time and the reference all use these values.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from .canonical import Role
from .errors import InvalidGatherError
from .semantics import (
    DYNAMIC,
    Shape,
    check_batch_sizes,
    check_gather_reduce,
    normalize_axis,
    normalize_batch_dims,
    show_shape,
)


@dataclass(frozen=True, slots=True)
class OperatorSpec(ABC):
    """One operator with its integer attributes, as its author wrote them or normalised."""

    name: ClassVar[str]
    # Whether the operator adds elements, which then must be numbers; all other operators move bytes.
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
        """Return the dtype of the result: the dtype of data, unless a reduction widens it."""
        return data_dtype

    @abstractmethod
    def result_shape(self, data_shape: Shape, indices_shape: Shape) -> Shape:
        """Return the shape of the result, for normalised attributes."""

    @abstractmethod
    def roles(self, data_rank: int, indices_shape: Shape) -> tuple[Role, ...]:
        """Return the role of each dimension, for normalised attributes; data may have one more dimension at its end."""

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
        axis = normalize_axis(self.axis, len(data_shape))
        batch_dims = normalize_batch_dims(self.batch_dims, len(data_shape), len(indices_shape), axis)
        check_batch_sizes(data_shape, indices_shape, batch_dims)
        return type(self)(axis, batch_dims)

    def result_shape(self, data_shape: Shape, indices_shape: Shape) -> Shape:
        """Spec: `data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis+1:]`, Gather-8 "Outputs"."""
        return (*data_shape[: self.axis], *indices_shape[self.batch_dims :], *data_shape[self.axis + 1 :])

    def roles(self, data_rank: int, indices_shape: Shape) -> tuple[Role, ...]:
        """Return data (batch, outer, axis, inner), indices (batch, indices), out (batch, outer, indices, inner)."""
        axis, batch, rank = self.axis, self.batch_dims, len(indices_shape)
        return (
            Role("batch", batch, data=0, indices=0, out=0),
            Role("outer", axis - batch, data=batch, out=batch),
            Role("axis", 1, data=axis),
            Role("indices", rank - batch, indices=batch, out=axis),
            Role("inner", data_rank - axis - 1, data=axis + 1, out=axis + rank - batch),
        )

    def axes(self, indices_shape: Shape) -> range:
        return range(self.axis, self.axis + 1)


@dataclass(frozen=True, slots=True)
class GatherNd(OperatorSpec):
    """Slices of data by tuples of indices, which lie along the last dimension of indices."""

    name: ClassVar[str] = "gather_nd"
    batch_dims: int = 0

    def normalized(self, data_shape: Shape, indices_shape: Shape) -> Self:
        """Spec: GatherND, "Some salient points" 1 to 4."""
        batch_dims, data_rank, indices_rank = self.batch_dims, len(data_shape), len(indices_shape)
        if data_rank == 0 or indices_rank == 0:
            raise InvalidGatherError(
                f"gather_nd needs data and indices of rank 1 or more, got ranks {data_rank} and {indices_rank}"
            )
        upper = min(data_rank, indices_rank) - 1
        if not 0 <= batch_dims <= upper:
            raise InvalidGatherError(
                f"batch_dims {batch_dims} is out of range [0, {upper}] for gather_nd with data of rank {data_rank} "
                f"and indices of rank {indices_rank}"
            )
        check_batch_sizes(data_shape, indices_shape, batch_dims)
        length = indices_shape[-1]
        if length == DYNAMIC or not 1 <= length <= data_rank - batch_dims:
            got = "an unknown length" if length == DYNAMIC else f"{length}"
            raise InvalidGatherError(
                f"the last size of indices is the length of the tuples and must be in [1, {data_rank - batch_dims}] "
                f"for data of rank {data_rank} and batch_dims {batch_dims}, got {got}"
            )
        return self

    def result_shape(self, data_shape: Shape, indices_shape: Shape) -> Shape:
        """Spec: `indices.shape[:-1] + data.shape[batch_dims+k:]`, k the length of a tuple; the document's "Output
        parameters" forgets the batch.
        """
        return (*indices_shape[:-1], *data_shape[self.batch_dims + indices_shape[-1] :])

    def roles(self, data_rank: int, indices_shape: Shape) -> tuple[Role, ...]:
        """Return data (batch, axis_0, ..., inner), indices (batch, indices, tuple), out (batch, indices, inner)."""
        batch, last, behind = self.batch_dims, len(indices_shape) - 1, self.batch_dims + indices_shape[-1]
        return (
            Role("batch", batch, data=0, indices=0, out=0),
            Role("axis", indices_shape[-1], data=batch),
            Role("indices", last - batch, indices=batch, out=batch),
            Role("tuple", 1, indices=last),
            Role("inner", data_rank - behind, data=behind, out=last),
        )

    def axes(self, indices_shape: Shape) -> range:
        return range(self.batch_dims, self.batch_dims + indices_shape[-1])


@dataclass(frozen=True, slots=True)
class GatherElements(OperatorSpec):
    """Elements of data, each by an index of its own along one axis."""

    name: ClassVar[str] = "gather_elements"
    axis: int = 0

    def normalized(self, data_shape: Shape, indices_shape: Shape) -> Self:
        """Spec: ONNX GatherElements; sizes off the axis may be smaller, as ONNX Runtime and torch have it."""
        axis = normalize_axis(self.axis, len(data_shape))
        if len(data_shape) != len(indices_shape):
            raise InvalidGatherError(
                f"gather_elements needs data and indices of one rank, got {len(data_shape)} and {len(indices_shape)}"
            )
        for dim, (data_size, indices_size) in enumerate(zip(data_shape, indices_shape, strict=True)):
            if dim != axis and DYNAMIC not in (data_size, indices_size) and indices_size > data_size:
                raise InvalidGatherError(
                    f"indices must not be larger than data off axis {axis}, got data {show_shape(data_shape)} "
                    f"and indices {show_shape(indices_shape)}: dimension {dim} is"
                )
        return type(self)(axis)

    def result_shape(self, data_shape: Shape, indices_shape: Shape) -> Shape:
        return (*indices_shape, *data_shape[len(indices_shape) :])

    def roles(self, data_rank: int, indices_shape: Shape) -> tuple[Role, ...]:
        """Return data (data_outer, axis, data_inner, unit), indices (outer, indices, inner), out (as indices, unit).

        Dimensions of data after the rank of indices, the unit, are read whole.
        """
        axis, behind, rank = self.axis, self.axis + 1, len(indices_shape)
        return (
            Role("outer", axis, data=0, indices=0, out=0, data_is_larger=True),
            Role("axis", 1, data=axis),
            Role("indices", 1, indices=axis, out=axis),
            Role("inner", rank - behind, data=behind, indices=behind, out=behind, data_is_larger=True),
            *([Role("unit", data_rank - rank, data=rank, out=rank)] if data_rank > rank else ()),
        )

    def axes(self, indices_shape: Shape) -> range:
        return range(self.axis, self.axis + 1)


@dataclass(frozen=True, slots=True)
class GatherReduce(OperatorSpec):
    """Sums of slices of data along its first axis: one for each bag, the indices along the last dimension."""

    name: ClassVar[str] = "gather_reduce"
    adds: ClassVar[bool] = True
    # Whether each sum is divided by its number of slices; by 1 where the bag is empty.
    divides: ClassVar[bool] = False

    def normalized(self, data_shape: Shape, indices_shape: Shape) -> Self:
        check_gather_reduce(data_shape, indices_shape)
        return self

    def result_dtype(self, data_dtype: np.dtype) -> np.dtype:
        return np.dtype(np.float32) if data_dtype.name in ("float16", "bfloat16") else data_dtype

    def result_shape(self, data_shape: Shape, indices_shape: Shape) -> Shape:
        return (*indices_shape[:-1], *data_shape[1:])

    def roles(self, data_rank: int, indices_shape: Shape) -> tuple[Role, ...]:
        """Return data (axis, inner), indices (indices, bag), out (indices, inner): the slices of a bag are summed."""
        bags = len(indices_shape) - 1
        return (
            Role("axis", 1, data=0),
            Role("indices", bags, indices=0, out=0),
            Role("bag", 1, indices=bags),
            Role("inner", data_rank - 1, data=1, out=bags),
        )

    def axes(self, indices_shape: Shape) -> range:
        return range(1)


@dataclass(frozen=True, slots=True)
class GatherMax(GatherReduce):
    """The largest of the slices of each bag, in place of their sum."""

    name: ClassVar[str] = "gather_max"


@dataclass(frozen=True, slots=True)
class GatherWeighted(GatherReduce):
    """Sums of slices that are each multiplied by a weight of its own.

    The last dimension of indices has two places: an index, and the bits of its weight, a float of the index's width:
    float32 beside int32, float64 beside int64. A third place has the bits of a bias, which is added to each product.
    Elements narrower than the weight become floats of its width.
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
        *most, inner = GatherReduce.roles(self, data_rank, indices_shape[:-1])
        return *most, Role("tuple", 1, indices=len(indices_shape) - 1), inner


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
    """The node of a graph that an operator came from; for the reader, and for the messages of errors.

    Attributes:
        name: the node's name; empty when it has none.
        outputs: the names of its outputs.
    """

    name: str = ""
    outputs: tuple[str, ...] = ()
