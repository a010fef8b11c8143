"""Operators by the name of their version, with their documents' rules: `gathernest.ops["openvino.Gather-8"]`."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.errors import InvalidGatherError, did_you_mean
from ..ir.operator_spec import Gather, GatherElements, GatherNd
from ..ir.semantics import Bounds, integer_argument
from .arguments import data_array, index_array, refuse_negative
from .gather import run_operator

Operator = Callable[..., np.ndarray]

_ARGUMENTS = """

    Args:
        data: any shape of rank 1 or more, any dtype.
        indices: {indices}, any integer dtype.
        {attributes}
        out: where to put the result.

    Returns:
        {returns}

    Raises:
        BoundsError: {raises}
        InvalidGatherError: the attributes do not fit the shapes.

    Spec: {spec}.
    """
_AXIS = "axis: in [-rank(data), rank(data)-1]; an int, a 0-D array or an array of one element."
_OUTSIDE = "an index is outside [-size, size-1]."


def _document(operator: Operator, name: str, summary: str, **sections: str) -> Operator:
    """Give an operator its name and its docstring."""
    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = summary + _ARGUMENTS.format(**sections)
    return operator


def _openvino_gather(name: str, bounds: Bounds, summary: str, raises: str) -> Operator:
    def operator(
        data: ArrayLike, indices: ArrayLike, axis: Any, batch_dims: int = 0, *, out: np.ndarray | None = None
    ) -> np.ndarray:
        array = index_array(indices)
        if bounds is Bounds.ERROR and isinstance(array, np.ndarray):
            refuse_negative(array, name)
        spec = Gather(integer_argument(axis, "axis", allow_array=True), integer_argument(batch_dims, "batch_dims"))
        return run_operator(spec, data_array(data), array, bounds, out, version=name)

    return _document(
        operator,
        name,
        summary,
        indices="any shape",
        attributes=f"{_AXIS}\n        batch_dims: negative values count from the rank of indices; not above axis.",
        returns="An array of shape `data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis+1:]`.",
        raises=raises,
        spec=name.replace("openvino.", "OpenVINO "),
    )


def _onnx_gather(name: str) -> Operator:
    def operator(data: ArrayLike, indices: ArrayLike, axis: int = 0, *, out: np.ndarray | None = None) -> np.ndarray:
        spec = Gather(integer_argument(axis, "axis", allow_array=True))
        return run_operator(spec, data_array(data), index_array(indices), Bounds.ERROR, out, version=name)

    return _document(
        operator,
        name,
        "Gather entries of the axis dimension; negative indices count from the end.",
        indices="any shape",
        attributes=_AXIS,
        returns="An array of rank `rank(indices) + rank(data) - 1`.",
        raises=_OUTSIDE,
        spec=name.replace("onnx.", "ONNX "),
    )


def _gather_nd(name: str, *, has_batch_dims: bool = True, flattens: bool = False) -> Operator:
    def with_batch_dims(
        data: ArrayLike, indices: ArrayLike, batch_dims: int = 0, *, out: np.ndarray | None = None
    ) -> np.ndarray:
        spec = GatherNd(integer_argument(batch_dims, "batch_dims"))
        arrays = data_array(data), index_array(indices)
        if not flattens or spec.batch_dims < 2:
            return run_operator(spec, *arrays, Bounds.ERROR, out, version=name)
        if out is not None:
            raise InvalidGatherError(f"{name} flattens its batch dimensions and takes no out; use openvino.GatherND-8")
        kept = run_operator(spec, *arrays, Bounds.ERROR, None, version=name)
        return kept.reshape(math.prod(kept.shape[: spec.batch_dims]), *kept.shape[spec.batch_dims :])

    def without(data: ArrayLike, indices: ArrayLike, *, out: np.ndarray | None = None) -> np.ndarray:
        return with_batch_dims(data, indices, 0, out=out)

    shape = "`indices.shape[:-1] + data.shape[batch_dims+k:]`"
    returns = f"An array of shape {shape}{', with its batch dimensions made one' if flattens else ''}."
    return _document(
        with_batch_dims if has_batch_dims else without,
        name,
        "Gather slices by tuples of k indices along the last dimension of indices.",
        indices="(batch..., any shape, k)",
        attributes="batch_dims: in [0, min(rank(data), rank(indices))-1]." if has_batch_dims else "",
        returns=returns,
        raises=_OUTSIDE,
        spec=name.replace("onnx.", "ONNX ").replace("openvino.", "OpenVINO "),
    )


def _gather_elements(name: str, *, default_axis: int | None = 0) -> Operator:
    def with_default(
        data: ArrayLike, indices: ArrayLike, axis: int = 0, *, out: np.ndarray | None = None
    ) -> np.ndarray:
        spec = GatherElements(integer_argument(axis, "axis", allow_array=True))
        return run_operator(spec, data_array(data), index_array(indices), Bounds.ERROR, out, version=name)

    def without(data: ArrayLike, indices: ArrayLike, axis: int, *, out: np.ndarray | None = None) -> np.ndarray:
        return with_default(data, indices, axis, out=out)

    return _document(
        without if default_axis is None else with_default,
        name,
        "Gather elements, each by an index of its own along the axis; negative indices count from the end.",
        indices="of data's rank, not larger than data off the axis",
        attributes=_AXIS,
        returns="An array of the shape of indices.",
        raises=_OUTSIDE,
        spec=name.replace("onnx.", "ONNX ").replace("openvino.", "OpenVINO "),
    )


class UnknownOperatorError(InvalidGatherError, KeyError):
    """There is no operator of that name; a KeyError too, so that `ops.get` answers."""

    __str__ = Exception.__str__


class Operators(Mapping[str, Operator]):
    """The operator versions by name; a name that is close to one is suggested."""

    def __init__(self, operators: list[Operator]):
        self._table = {operator.__name__: operator for operator in operators}

    def __getitem__(self, name: str) -> Operator:
        if name not in self._table:
            there = ", ".join(self._table)
            raise UnknownOperatorError(
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
    [
        _openvino_gather(
            "openvino.Gather-7",
            Bounds.ERROR,
            "Gather slices as TensorFlow's Gather does: no index is negative.",
            "an index is outside [0, size-1].",
        ),
        _openvino_gather(
            "openvino.Gather-8",
            Bounds.ZERO,
            "Gather slices; negative indices count from the end, any other outside gives zeros.",
            "never.",
        ),
        *(_onnx_gather(f"onnx.Gather-{version}") for version in (1, 11, 13)),
        _gather_nd("onnx.GatherND-11", has_batch_dims=False),
        _gather_nd("onnx.GatherND-12"),
        _gather_nd("onnx.GatherND-13"),
        _gather_nd("openvino.GatherND-5", flattens=True),
        _gather_nd("openvino.GatherND-8"),
        _gather_elements("onnx.GatherElements-11"),
        _gather_elements("onnx.GatherElements-13"),
        _gather_elements("openvino.GatherElements-6", default_axis=None),
    ]
)
