"""Operators by the name of their version, with their documents' rules: `gathernest.ops["openvino.Gather-8"]`."""

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.errors import InvalidGatherError, did_you_mean, show
from ..ir.operator_spec import Gather, GatherElements, GatherNd
from ..ir.positions import reject_negative
from ..ir.semantics import Bounds, integer_argument
from . import labview
from .gather import run_operator
from .runtime.array_checks import index_array, table_array
from .runtime.call_cache import CALLS, one_object

# Takes arrays and returns an array; `labview.GatherND` returns its backward pass beside it.
Operator = Callable[..., Any]

_SECTIONS = """{summary}

    Args:
        data: any shape of rank 1 or more, any dtype.
        indices: {indices}; any integer dtype.
        {attributes}
        out: where to put the result.

    Returns:
        {returns}

    Raises:
        BoundsError: {raises}
        InvalidGatherError: the attributes do not fit the shapes.

    Types: {types}

    Differs: {differs}

    Example:
        >>> gn.ops["{name}"]{call}.tolist()
        {result}

    Spec: {spec}.
    """
_AXIS = "axis: in [-rank(data), rank(data)-1]; an int, a 0-D array or an array of one element."
_OUTSIDE = "an index is outside [-size, size-1]."
_ONNX_TYPES = "the document's are all tensor types{}, with indices of {}; here any dtype and any integer dtype."
_WITHOUT_BFLOAT16 = _ONNX_TYPES.format(" but bfloat16", "int32 and int64")
_WITH_BFLOAT16 = _ONNX_TYPES.format("", "int32 and int64")
_INT64_WITHOUT_BFLOAT16 = _ONNX_TYPES.format(" but bfloat16", "int64")
_INT64_WITH_BFLOAT16 = _ONNX_TYPES.format("", "int64")
_OPENVINO_TYPES = "the document's are any supported type, with indices of any integer type; here any dtype."

# Examples: what a version is called with, and what it gives.
_ENTRIES = "([[1, 2], [3, 4]], [0, -1], axis=1)", "[[1, 2], [3, 4]]"
_TUPLES = "([[0, 1], [2, 3]], [[0, 0], [1, 1]])", "[0, 3]"
_BATCHES = "([[[5, 6]], [[7, 8]]], [[[1]], [[0]]], batch_dims=2)"
_EACH = "([[1, 2], [3, 4]], [[0, 0], [1, 0]], 1)", "[[1, 1], [4, 3]]"


def _document(
    operator: Operator, name: str, types: str, differs: str, example: tuple[str, str], **sections: str
) -> Operator:
    """Give an operator its name and its docstring."""
    operator.__name__ = operator.__qualname__ = name
    spec = name.replace("onnx.", "ONNX ").replace("openvino.", "OpenVINO ")
    call, result = example
    filled = _SECTIONS.format(**sections, name=name, types=types, differs=differs, call=call, result=result, spec=spec)
    operator.__doc__ = re.sub(r"\n +\n(?= +out:)", "\n", filled)
    return operator


def _openvino_gather(
    name: str, differs: str, example: tuple[str, str], bounds: Bounds, summary: str, raises: str
) -> Operator:
    def operator(
        data: ArrayLike, indices: ArrayLike, axis: Any, batch_dims: int = 0, *, out: np.ndarray | None = None
    ) -> np.ndarray:
        found = CALLS.find(data, indices, out, name, axis, batch_dims)
        if found is not None:
            return found
        array, index_values = table_array(data), index_array(indices)
        spec = Gather(integer_argument(axis, "axis", allow_array=True), integer_argument(batch_dims, "batch_dims"))
        keys = name, one_object(spec.axis), one_object(spec.batch_dims)
        spec = spec.normalized(array.shape, index_values.shape)
        if bounds is Bounds.ERROR and isinstance(index_values, np.ndarray):
            reject_negative(index_values, name)
            return run_operator(spec, array, index_values, bounds, out, version=name)
        return run_operator(spec, array, index_values, bounds, out, version=name, tried=keys)

    return _document(
        operator,
        *(name, _OPENVINO_TYPES, differs, example),
        summary=summary,
        indices="any shape",
        attributes=f"{_AXIS}\n        batch_dims: negative values count from the rank of indices; not above axis.",
        returns="An array of shape `data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis+1:]`.",
        raises=raises,
    )


def _onnx_gather(name: str, types: str, differs: str) -> Operator:
    def operator(data: ArrayLike, indices: ArrayLike, axis: int = 0, *, out: np.ndarray | None = None) -> np.ndarray:
        found = CALLS.find(data, indices, out, name, axis, None)
        if found is not None:
            return found
        spec = Gather(integer_argument(axis, "axis", allow_array=True))
        arrays, keys = (table_array(data), index_array(indices)), (name, one_object(spec.axis), None)
        return run_operator(spec, *arrays, Bounds.ERROR, out, version=name, tried=keys)

    return _document(
        operator,
        *(name, types, differs, _ENTRIES),
        summary="Gather entries of the axis dimension; negative indices count from the end.",
        indices="any shape",
        attributes=_AXIS,
        returns="An array of rank `rank(indices) + rank(data) - 1`.",
        raises=_OUTSIDE,
    )


def _gather_nd(
    name: str,
    types: str,
    differs: str,
    example: tuple[str, str] = _TUPLES,
    *,
    has_batch_dims: bool = True,
    flattens: bool = False,
) -> Operator:
    def with_batch_dims(
        data: ArrayLike, indices: ArrayLike, batch_dims: int = 0, *, out: np.ndarray | None = None
    ) -> np.ndarray:
        found = CALLS.find(data, indices, out, name, batch_dims, None)
        if found is not None:
            return found
        spec = GatherNd(integer_argument(batch_dims, "batch_dims"))
        arrays = table_array(data), index_array(indices)
        if not flattens or spec.batch_dims < 2:
            keys = name, one_object(spec.batch_dims), None
            return run_operator(spec, *arrays, Bounds.ERROR, out, version=name, tried=keys)
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
        *(name, types, differs, example),
        summary="Gather slices by tuples of k indices along the last dimension of indices.",
        indices="(batch..., any shape, k), with 1 <= k <= rank(data) - batch_dims",
        attributes="batch_dims: in [0, min(rank(data), rank(indices))-1]." if has_batch_dims else "",
        returns=returns if has_batch_dims else "An array of shape `indices.shape[:-1] + data.shape[k:]`.",
        raises=_OUTSIDE,
    )


def _gather_elements(name: str, types: str, differs: str, *, needs_axis: bool = False) -> Operator:
    def with_default(
        data: ArrayLike, indices: ArrayLike, axis: int = 0, *, out: np.ndarray | None = None
    ) -> np.ndarray:
        found = CALLS.find(data, indices, out, name, axis, None)
        if found is not None:
            return found
        spec = GatherElements(integer_argument(axis, "axis", allow_array=True))
        arrays, keys = (table_array(data), index_array(indices)), (name, one_object(spec.axis), None)
        return run_operator(spec, *arrays, Bounds.ERROR, out, version=name, tried=keys)

    def without(data: ArrayLike, indices: ArrayLike, axis: int, *, out: np.ndarray | None = None) -> np.ndarray:
        return with_default(data, indices, axis, out=out)

    return _document(
        without if needs_axis else with_default,
        *(name, types, differs, _EACH),
        summary="Gather elements, each by an index of its own along the axis; negative indices count from the end.",
        indices="of data's rank, not larger than data off the axis",
        attributes=_AXIS,
        returns="An array of the shape of indices.",
        raises=_OUTSIDE,
    )


class UnknownOperatorError(InvalidGatherError, KeyError):
    """There is no operator of that name; a KeyError too, so that `ops.get` answers."""

    __str__ = Exception.__str__


class OperatorVersion:
    """One operator version, called like a function; it pickles as its name."""

    __name__: str

    def __init__(self, function: Operator):
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        return ops.__getitem__, (self.__name__,)

    def __repr__(self) -> str:
        return f"<gathernest operator {self.__name__}{inspect.signature(self._function)}>"


class Operators(Mapping[str, OperatorVersion]):
    """The operator versions by name; a name that is close to one is suggested."""

    def __init__(self, operators: list[Operator]):
        self._table = {operator.__name__: OperatorVersion(operator) for operator in operators}

    def __getitem__(self, name: str) -> OperatorVersion:
        if not isinstance(name, str) or name not in self._table:
            there = ", ".join(self._table)
            raise UnknownOperatorError(
                f"there is no operator {show(name)}; there are {there}{did_you_mean(name, self._table)}"
            )
        return self._table[name]

    def __reduce__(self) -> str:
        return "ops"

    def __repr__(self) -> str:
        return f"<gathernest operators: {', '.join(self._table)}>"

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


ops = Operators(
    [
        _openvino_gather(
            "openvino.Gather-7",
            "openvino.Gather-8 takes negative indices and gives zeros for those outside; onnx.Gather has no "
            "batch_dims.",
            ("([[1, 2], [3, 4]], [[0, 0], [1, 0]], 1, batch_dims=1)", "[[1, 1], [4, 3]]"),
            Bounds.ERROR,
            "Gather slices as TensorFlow's Gather does: no index is negative.",
            "an index is outside [0, size-1].",
        ),
        _openvino_gather(
            "openvino.Gather-8",
            "openvino.Gather-7 rejects negative indices, and it and onnx.Gather those outside.",
            ("([1, 2, 3], [0, -1, 7], 0)", "[1, 3, 0]"),
            Bounds.ZERO,
            "Gather slices; negative indices count from the end, any other outside gives zeros.",
            "never.",
        ),
        _onnx_gather(
            "onnx.Gather-1",
            _WITHOUT_BFLOAT16,
            "its document does not speak of negative indices; they are taken here, as by ONNX Runtime.",
        ),
        _onnx_gather(
            "onnx.Gather-11",
            _WITHOUT_BFLOAT16,
            "its document allows negative indices, of which that of onnx.Gather-1 does not speak.",
        ),
        _onnx_gather("onnx.Gather-13", _WITH_BFLOAT16, "as onnx.Gather-11, with bfloat16."),
        _gather_nd(
            "onnx.GatherND-11",
            _INT64_WITHOUT_BFLOAT16,
            "without batch_dims, which come with onnx.GatherND-12.",
            has_batch_dims=False,
        ),
        _gather_nd(
            "onnx.GatherND-12",
            _INT64_WITHOUT_BFLOAT16,
            "onnx.GatherND-11 has no batch_dims.",
            ("([[0, 1], [2, 3]], [[1], [0]], batch_dims=1)", "[1, 2]"),
        ),
        _gather_nd("onnx.GatherND-13", _INT64_WITH_BFLOAT16, "as onnx.GatherND-12, with bfloat16."),
        _gather_nd(
            "openvino.GatherND-5",
            _OPENVINO_TYPES,
            "the batch dimensions of its result are made one, where openvino.GatherND-8 and ONNX keep them.",
            (_BATCHES, "[6, 7]"),
            flattens=True,
        ),
        _gather_nd(
            "openvino.GatherND-8",
            _OPENVINO_TYPES,
            "keeps the batch dimensions that openvino.GatherND-5 makes one; otherwise as onnx.GatherND-13.",
            (_BATCHES, "[[6], [7]]"),
        ),
        _gather_elements(
            "onnx.GatherElements-11",
            _WITHOUT_BFLOAT16,
            "numpy.take_along_axis broadcasts; this does not, but takes indices smaller than data off the axis.",
        ),
        _gather_elements("onnx.GatherElements-13", _WITH_BFLOAT16, "as onnx.GatherElements-11, with bfloat16."),
        _gather_elements(
            "openvino.GatherElements-6",
            _OPENVINO_TYPES,
            "the axis must be given; otherwise as onnx.GatherElements-13.",
            needs_axis=True,
        ),
        labview.gather_nd,
    ]
)
