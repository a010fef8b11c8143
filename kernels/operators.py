"""Operators by the name of their version, with their documents' rules: `gathernest.ops["openvino.Gather-8"]`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.errors import BoundsError, InvalidGatherError, did_you_mean
from ..ir.operator_spec import Gather
from ..ir.semantics import Bounds, integer_argument
from .arguments import index_array
from .gather import run_operator

Operator = Callable[..., np.ndarray]


def _openvino_gather(version: str, bounds: Bounds, doc: str) -> Operator:
    def operator(
        data: ArrayLike, indices: ArrayLike, axis: Any, batch_dims: int = 0, *, out: np.ndarray | None = None
    ) -> np.ndarray:
        array = index_array(indices)
        if bounds is Bounds.ERROR:
            refuse_negative(array, version)
        spec = Gather(integer_argument(axis, "axis", allow_array=True), integer_argument(batch_dims, "batch_dims"))
        return run_operator(spec, np.asarray(data), array, bounds, out, version=version)

    return _named(operator, version, doc)


def refuse_negative(indices: np.ndarray, version: str) -> None:
    """Check that no index is negative.

    Raises:
        BoundsError: one is.

    Spec: Gather-7, input 2: "values for indices are in the range [0, data[axis] - 1]".
    """
    if indices.dtype.kind == "u" or indices.size == 0 or indices.min() >= 0:
        return
    place = tuple(int(number) for number in np.argwhere(indices < 0)[0])
    raise BoundsError(
        f"index {int(indices[place])} at position {place} of indices is negative, and {version} allows none; "
        "use openvino.Gather-8, where negative indices count from the end"
    )


def _onnx_gather(version: str, doc: str) -> Operator:
    def operator(data: ArrayLike, indices: ArrayLike, axis: int = 0, *, out: np.ndarray | None = None) -> np.ndarray:
        spec = Gather(integer_argument(axis, "axis", allow_array=True))
        return run_operator(spec, np.asarray(data), index_array(indices), Bounds.ERROR, out, version=version)

    return _named(operator, version, doc)


def _named(operator: Operator, version: str, doc: str) -> Operator:
    operator.__name__ = operator.__qualname__ = version
    operator.__doc__ = doc
    return operator


_OPENVINO_DOC = """{summary}

    Args:
        data: any shape of rank 1 or more, any dtype.
        indices: any shape, any integer dtype.
        axis: in [-rank(data), rank(data)-1]; an int, a 0-D array or an array of one element.
        batch_dims: negative values count from the rank of indices; not above axis.
        out: where to put the result.

    Returns:
        An array of shape `data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis+1:]`.

    Spec: {spec}.
    """

_ONNX_DOC = """Gather entries of the axis dimension; negative indices count from the end, any other outside is an error.

    Args:
        data: any shape of rank 1 or more, any dtype.
        indices: any shape, any integer dtype (the document: int32, int64).
        axis: in [-rank(data), rank(data)-1], 0 by default.
        out: where to put the result.

    Returns:
        An array of rank `rank(indices) + rank(data) - 1`.

    Spec: {spec}.
    """


class Operators(Mapping[str, Operator]):
    """The operator versions by name; a name that is close to one is suggested."""

    def __init__(self, table: dict[str, Operator]):
        self._table = table

    def __getitem__(self, name: str) -> Operator:
        if name not in self._table:
            there = ", ".join(self._table)
            raise InvalidGatherError(
                f"there is no operator {name!r}; there are {there}{did_you_mean(str(name), self._table)}"
            )
        return self._table[name]

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


ops = Operators(
    {
        "openvino.Gather-7": _openvino_gather(
            "openvino.Gather-7",
            Bounds.ERROR,
            _OPENVINO_DOC.format(
                summary="Gather slices; indices lie in [0, size-1], and any other raises BoundsError.",
                spec="OpenVINO Gather-7, which equals TensorFlow's Gather",
            ),
        ),
        "openvino.Gather-8": _openvino_gather(
            "openvino.Gather-8",
            Bounds.ZERO,
            _OPENVINO_DOC.format(
                summary="Gather slices; negative indices count from the end, any other outside gives zeros.",
                spec="OpenVINO Gather-8, Examples 1-7",
            ),
        ),
        "onnx.Gather-1": _onnx_gather("onnx.Gather-1", _ONNX_DOC.format(spec="ONNX Gather, since version 1")),
        "onnx.Gather-11": _onnx_gather("onnx.Gather-11", _ONNX_DOC.format(spec="ONNX Gather, since version 11")),
        "onnx.Gather-13": _onnx_gather(
            "onnx.Gather-13", _ONNX_DOC.format(spec="ONNX Gather, since version 13, which adds bfloat16")
        ),
    }
)
