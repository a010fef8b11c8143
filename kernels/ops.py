"""Operators by the name of their version: `gathernest.ops["openvino.Gather-8"]` calls a row of `VERSIONS`."""

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.errors import InvalidGatherError, did_you_mean, show
from ..ir.operator_spec import Gather, GatherElements, GatherNd
from ..ir.operator_versions import VERSIONS, Version
from ..ir.positions import reject_negative
from ..ir.semantics import Bounds, integer_argument
from . import labview
from .gather import run_operator
from .runtime.array_checks import index_array, table_array
from .runtime.call_cache import CALLS, one_object

# Takes arrays and returns an array; `labview.GatherND` returns its backward pass beside it.
Operator = Callable[..., Any]


def _operator_of(version: Version) -> Operator:
    """Return the function of a version, with its name and its docstring."""
    if version.operator is GatherNd:
        operator = _gather_nd(version)
    elif "batch_dims" in version.options:
        operator = _gather_in_batches(version)
    else:
        operator = _gather_on_axis(version)
    operator.__name__ = operator.__qualname__ = version.name
    operator.__doc__ = version.doc
    return operator


def _gather_in_batches(version: Version) -> Operator:
    name, bounds = version.name, version.bounds

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
        if not version.has_negatives and isinstance(index_values, np.ndarray):
            reject_negative(index_values, name)
            return run_operator(spec, array, index_values, bounds, out, version=name)
        return run_operator(spec, array, index_values, bounds, out, version=name, tried=keys)

    return operator


def _gather_on_axis(version: Version) -> Operator:
    name, kind = version.name, version.operator
    assert kind is Gather or kind is GatherElements

    def with_default(
        data: ArrayLike, indices: ArrayLike, axis: int = 0, *, out: np.ndarray | None = None
    ) -> np.ndarray:
        found = CALLS.find(data, indices, out, name, axis, None)
        if found is not None:
            return found
        spec = kind(integer_argument(axis, "axis", allow_array=True))
        arrays, keys = (table_array(data), index_array(indices)), (name, one_object(spec.axis), None)
        return run_operator(spec, *arrays, Bounds.ERROR, out, version=name, tried=keys)

    def without(data: ArrayLike, indices: ArrayLike, axis: int, *, out: np.ndarray | None = None) -> np.ndarray:
        return with_default(data, indices, axis, out=out)

    return without if version.required else with_default


def _gather_nd(version: Version) -> Operator:
    name = version.name

    def with_batch_dims(
        data: ArrayLike, indices: ArrayLike, batch_dims: int = 0, *, out: np.ndarray | None = None
    ) -> np.ndarray:
        found = CALLS.find(data, indices, out, name, batch_dims, None)
        if found is not None:
            return found
        spec = GatherNd(integer_argument(batch_dims, "batch_dims"))
        arrays = table_array(data), index_array(indices)
        if not version.flattens or spec.batch_dims < 2:
            keys = name, one_object(spec.batch_dims), None
            return run_operator(spec, *arrays, Bounds.ERROR, out, version=name, tried=keys)
        if out is not None:
            raise InvalidGatherError(f"{name} flattens its batch dimensions and takes no out; use openvino.GatherND-8")
        kept = run_operator(spec, *arrays, Bounds.ERROR, None, version=name)
        return kept.reshape(math.prod(kept.shape[: spec.batch_dims]), *kept.shape[spec.batch_dims :])

    def without(data: ArrayLike, indices: ArrayLike, *, out: np.ndarray | None = None) -> np.ndarray:
        return with_batch_dims(data, indices, 0, out=out)

    return with_batch_dims if version.options else without


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


ops = Operators([*map(_operator_of, VERSIONS.values()), labview.gather_nd])
