"""A problem: one gather or gradient with the layouts of its arrays, as far as it is known without their values."""

import math
from dataclasses import dataclass, replace

import numpy as np

from .array_spec import ArraySpec
from .errors import InvalidGatherError
from .operator_spec import Gradient, Node, OperatorSpec
from .semantics import Bounds, Shape

MOST_DIMENSIONS = 64


@dataclass(frozen=True, slots=True)
class Problem:
    """One gather or one gradient, without the values of its arrays.

    A gather reads the table and writes the slices; a gradient reads the slices and adds them to the table.

    Attributes:
        operator: the operator, normalised.
        table: the array that indices point into: data, or its gradient.
        indices: of an integer dtype.
        slices: the array with a slice for each index: the result of a gather, or its gradient.
        bounds: the rule for an index outside.
        gradient: the attributes of a gradient; None for a gather.
        version: the operator version it came from, for the reader only.
        node: the node of a graph that it came from, for the reader only.
        is_fresh: whether nobody has the result yet, and a call that fails throws it away.
    """

    operator: OperatorSpec
    table: ArraySpec
    indices: ArraySpec
    slices: ArraySpec
    bounds: Bounds
    gradient: Gradient | None = None
    version: str | None = None
    node: Node | None = None
    is_fresh: bool = False

    @classmethod
    def checked(
        cls,
        operator: OperatorSpec,
        table: ArraySpec,
        indices: ArraySpec,
        bounds: Bounds,
        slices: ArraySpec | None = None,
        version: str | None = None,
        gradient: Gradient | None = None,
        node: Node | None = None,
    ) -> "Problem":
        """Return the problem with the operator normalised; the slices are contiguous when they are omitted.

        Raises:
            InvalidGatherError: the operator's attributes do not fit the shapes.
        """
        operator = operator.normalized(table.shape, indices.shape)
        shape = operator.result_shape(table.shape, indices.shape)
        rank = len(shape)
        if rank > MOST_DIMENSIONS:
            raise InvalidGatherError(
                f"the result of data of rank {table.rank} and indices of rank {indices.rank} has rank {rank}, and "
                f"NumPy's arrays have at most {MOST_DIMENSIONS}; merge dimensions of one of them first"
            )
        check_addresses("a result", shape, table.dtype)
        slices = slices or ArraySpec(shape, operator.result_dtype(table.dtype))
        if slices.shape != shape:
            what = "grad" if gradient is not None else "out"
            raise InvalidGatherError(
                f"{what} must have shape {shape}, as the gather of data {table.shape} by indices {indices.shape} "
                f"gives, got {slices.shape}"
            )
        return cls(operator, table, indices, slices, bounds, gradient, version, node)

    @property
    def source(self) -> ArraySpec:
        """The array that is read."""
        return self.table if self.gradient is None else self.slices

    @property
    def result(self) -> ArraySpec:
        """The array that is written."""
        return self.slices if self.gradient is None else self.table

    def into(self, result: ArraySpec) -> "Problem":
        """Return the problem with an array of the caller's, of the same shape, to write."""
        if self.gradient is None:
            return replace(self, slices=result, is_fresh=False)
        return replace(self, table=result, is_fresh=False)

    def resized(self, table: Shape, indices: Shape) -> "Problem":
        """Return the problem of contiguous arrays of other sizes; raises InvalidGatherError where they do not fit."""
        specs = ArraySpec(table, self.table.dtype), ArraySpec(indices, self.indices.dtype)
        resized = Problem.checked(self.operator, *specs, self.bounds, None, self.version, self.gradient, self.node)
        return replace(resized, is_fresh=self.is_fresh)

    @property
    def name(self) -> str:
        """The operator's name, such as `gather_nd` or `gather_nd_grad`."""
        return self.operator.name if self.gradient is None else f"{self.operator.name}_grad"

    @property
    def options(self) -> str:
        """The attributes of the operator and the bounds mode, as text: `axis 0, batch_dims 0, bounds zero`."""
        words = [f"{name} {value}" for name, value in self.operator.attributes().items()]
        words += [] if self.gradient is None else [f"scale {self.gradient.scale:g}"]
        return ", ".join([*words, f"bounds {self.bounds}"])

    @property
    def adds(self) -> bool:
        """Whether elements are added, as in a gradient and in a reduction, and so must be numbers."""
        return self.gradient is not None or self.operator.adds

    @property
    def reduces(self) -> bool:
        """Whether it is a reduction of gathered slices, and no gradient."""
        return self.gradient is None and self.operator.adds

    @property
    def widens(self) -> bool:
        """Whether elements become numbers of another type before they are added."""
        return self.slices.dtype != self.table.dtype

    @property
    def axes(self) -> range:
        """The dimensions of the table that are indexed."""
        return self.operator.axes(self.indices.shape)

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the indexed dimensions."""
        return tuple(self.table.shape[axis] for axis in self.axes)


def check_addresses(what: str, shape: Shape, dtype: np.dtype) -> None:
    """Check that NumPy, which leaves sizes of 0 out, can make an array of that shape; raises InvalidGatherError."""
    if dtype.itemsize * math.prod(size for size in shape if size) >= 2**63:
        raise InvalidGatherError(
            f"{what} of shape {shape} and {dtype} has no addresses; its sizes other than 0 make 2**63 bytes or more"
        )
