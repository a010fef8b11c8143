"""The GatherND of LabVIEW's deep-learning toolkit: a node with a name and a backward pass."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..ir.element_types import check_scale
from ..ir.errors import GathernestError, InvalidGatherError, show
from ..ir.operator_spec import GatherNd, Node
from ..ir.semantics import Bounds, flag_argument, integer_argument
from .gather import run_operator
from .gradient import run_gradient
from .runtime.array_checks import checked_scale, data_array, index_array, is_lazy, table_array

VERSION = "labview.GatherND"


@dataclass(frozen=True, slots=True, eq=False)
class GatherNDBackward:
    """The backward pass of a GatherND; call it with the gradient of the output.

    Attributes:
        operator: the operator with its `batch_dims`.
        indices: a copy of the indices.
        data_shape: the shape of data.
        lda_coeff: the factor of the gradient that the previous layer gets.
        node: the node's names.
    """

    operator: GatherNd
    indices: np.ndarray
    data_shape: tuple[int, ...]
    lda_coeff: float
    node: Node

    def __call__(self, grad: ArrayLike, *, out: np.ndarray | None = None) -> np.ndarray:
        """Return `lda_coeff` times the scatter-add of `grad`: the gradient for the previous layer.

        Args:
            grad: of the shape of the output; floats, complex numbers or integers.
            out: where to put the result, as for `gathernest.gather_nd_grad`.

        Returns:
            An array of the shape of data and the dtype of grad.

        Raises:
            InvalidGatherError: `grad` or `out` does not fit; the message names the node.
        """
        with _named(self.node):
            grad = table_array(grad, "grad")
            check_scale(self.lda_coeff, grad.dtype, "lda_coeff")
            arguments = grad, self.indices, self.data_shape, Bounds.ERROR, self.lda_coeff, out
            return run_gradient(self.operator, *arguments, version=VERSION, node=self.node)


class GatherNDOutputs(NamedTuple):
    """The result of `labview.GatherND`.

    Attributes:
        output: the gathered slices.
        backward: the backward pass; None when the layer is not in training mode.
    """

    output: np.ndarray
    backward: GatherNDBackward | None


def gather_nd(
    data: ArrayLike,
    indices: ArrayLike,
    batch_dims: int = 0,
    *,
    training: bool = True,
    lda_coeff: float = 1.0,
    name: str = "",
    specified_outputs_name: Sequence[str] = (),
    out: np.ndarray | None = None,
) -> GatherNDOutputs:
    """Gather slices by tuples of k indices along the last dimension of indices.

    Args:
        data: (batch..., indexed..., inner...), rank 1 or more, any dtype.
        indices: (batch..., any shape, k), any integer dtype, with 1 <= k <= rank(data) - batch_dims.
        batch_dims: in [0, min(rank(data), rank(indices))-1].
        training: whether the layer is in training mode, and so returns its backward pass.
        lda_coeff: the factor of the gradient that the backward pass returns. The output does not depend on it.
        name: the node's name, kept in the IR and in the messages of errors.
        specified_outputs_name: the name of the output, kept in the IR.
        out: where to put the output.

    Returns:
        The output, of shape `indices.shape[:-1] + data.shape[batch_dims+k:]`, and in training mode the backward pass.

    Raises:
        BoundsError: an index is outside [-size, size-1].
        InvalidGatherError: the attributes do not fit the shapes.

    Types: the document allows all tensor types, and indices of int64; here any dtype, and any integer dtype. Its
    backward pass is for floats, complex numbers and integers.

    Differs: from onnx.GatherND-13 it also returns its backward pass, and it has names.

    Example:
        >>> output, backward = gn.ops["labview.GatherND"]([[0.0, 1.0], [2.0, 3.0]], [[0, 0], [1, 1]], lda_coeff=0.5)
        >>> output.tolist(), backward([1.0, 1.0]).tolist()
        ([0.0, 3.0], [[0.5, 0.0], [0.0, 0.5]])

    Spec: GatherND of the LabVIEW deep-learning toolkit. Its rank of the output, `q + r - k - 1`, leaves out `- b`.
    """
    node = Node(_text(name, "name"), _names(specified_outputs_name))
    with _named(node):
        training = flag_argument(training, "training")
        coefficient = checked_scale(lda_coeff, "lda_coeff")
        array, index_values = data_array(data), index_array(indices)
        if training and (is_lazy(array) or is_lazy(index_values)):
            raise InvalidGatherError(
                "a layer in training mode keeps its indices for the backward pass, which is of arrays in memory, and "
                "got a dask array; compute data and indices first, or pass training=False"
            )
        operator = GatherNd(integer_argument(batch_dims, "batch_dims"))
        output = run_operator(operator, array, index_values, Bounds.ERROR, out, version=VERSION, node=node)
    kept = GatherNDBackward(operator, index_values.copy(), array.shape, coefficient, node) if training else None
    return GatherNDOutputs(output, kept)


def _text(value: Any, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidGatherError(f"{what} must be text, got {show(value)}")
    return value


def _names(values: Any) -> tuple[str, ...]:
    given = (values,) if isinstance(values, str) else () if values is None else values
    if not isinstance(given, list | tuple):
        raise InvalidGatherError(f"specified_outputs_name must be a list of texts, got {show(values)}")
    return tuple(_text(value, "specified_outputs_name") for value in given)


@contextmanager
def _named(node: Node) -> Iterator[None]:
    """Put the node's name before the message of any error."""
    try:
        yield
    except GathernestError as error:
        if not node.name:
            raise
        raise type(error)(f"node {node.name!r} ({VERSION}): {error}") from None


gather_nd.__name__ = gather_nd.__qualname__ = VERSION
