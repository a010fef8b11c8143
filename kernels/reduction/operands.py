"""The operands of a reduction of bags: arrays that can be added, weights, and the scales of quantised rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ...ir.array_spec import ArraySpec
from ...ir.errors import InvalidGatherError, did_you_mean, show
from ...ir.operator_spec import GatherReduce
from ...ir.semantics import Bounds, Shape, check_gather_reduce
from ..runtime.array_checks import data_array, index_array, summation_dtype, table_array
from .bags import LARGEST, MEAN, OPERATOR, WEIGHTED, WEIGHTED_MEAN, Bags

Reduction = Literal["sum", "mean", "max"]
_REDUCTIONS = ("sum", "mean", "max")
# The reductions that `compile` has kernels of, and the kinds of elements of each, also in words.
REDUCTIONS: dict[str, GatherReduce] = {spec.name: spec for spec in (OPERATOR, MEAN, LARGEST)}
WEIGHTED_REDUCTIONS: dict[str, GatherReduce] = {spec.name: spec for spec in (WEIGHTED, WEIGHTED_MEAN)}
_KINDS = {
    "gather_reduce": ("iufc", "float32, float64, complex numbers and integers"),
    "gather_mean": ("f", "float32 and float64"),
    "gather_max": ("if", "float32, float64 and signed integers"),
}
_QUANTISED = (np.dtype(np.int8), np.dtype(np.uint8))


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors of rows, and the biases that are added to the products.

    Attributes:
        weights: (indices): one for each index; None where all are 1.
        scale, bias: (rows) float32: of quantised rows; None for others.
    """

    weights: np.ndarray | None
    scale: np.ndarray | None
    bias: np.ndarray | None

    @property
    def are_none(self) -> bool:
        """Whether rows are added as they are."""
        return self.weights is None and self.scale is None

    def result_dtype(self, dtype: np.dtype) -> np.dtype:
        """Return the dtype of the result for a dtype of data: the same, or float32 for quantised rows."""
        return dtype if self.scale is None else np.dtype(np.float32)

    def apply(self, bags: Bags, dtype: np.dtype) -> Bags:
        """Return bags with weights for data of a dtype; raises InvalidGatherError for a weight too large for it."""
        if self.are_none:
            return bags
        dtype = native(dtype)
        with _finite("weights, and their products with scales,"):
            weights = None if self.weights is None else self.weights.astype(WEIGHTED.result_dtype(dtype), copy=False)
            if self.scale is None:
                return replace(bags, weights=weights)
            columns = [self.scale] if self.bias is None else [self.scale, self.bias]
            factors = np.zeros((len(columns), bags.positions.size), np.float32)
            for column, factor in zip(columns, factors, strict=True):
                if bags.size:
                    column.take(bags.positions, out=factor, mode="clip")
            factors[:, bags.positions == bags.size] = 1  # of positions that add nothing
            return replace(bags, weights=factors if weights is None else factors * weights)


def weighted_places(
    operator: str, data: ArraySpec, indices: ArraySpec, *, weights: bool, quantised: bool
) -> tuple[str, ArraySpec]:
    """Return the operator that `gather_reduce` runs for rows with factors, and the spec of places for the indices.

    A place holds more than an index: see `GatherWeighted`.

    Args:
        operator: "gather_reduce" or "gather_mean".
        data: (rows, inner...).
        indices: (bags..., bag), of any integer dtype: positions replace them, which add nothing where one is outside.
        weights: whether each index has a weight.
        quantised: whether rows have a scale and a bias.

    Raises:
        InvalidGatherError: there is no such reduction.
    """
    if weights and operator != OPERATOR.name:
        raise InvalidGatherError(f"weights are of gather_reduce, as in torch, got {operator}; name gather_reduce")
    if operator not in (OPERATOR.name, MEAN.name):
        raise InvalidGatherError(
            f"quantised rows are of gather_reduce and gather_mean, got {operator}; name one of them"
        )
    if quantised and data.dtype not in _QUANTISED:
        raise InvalidGatherError(f"quantised rows are of int8 or uint8, got {data.dtype}; convert data")
    if not quantised and not is_weighted(data.dtype):
        raise InvalidGatherError(
            f"weights are of rows of floats, or of int8 and uint8 with a scale, got {data.dtype}; "
            + ("name quantised as well" if data.dtype in _QUANTISED else "convert data, for instance to float32")
        )
    check_gather_reduce(data.shape, indices.shape)
    spec = WEIGHTED if operator == OPERATOR.name else WEIGHTED_MEAN
    return spec.name, ArraySpec((*indices.shape, 3 if quantised else 2), _place_dtype(spec, data.dtype))


def check_weighted(operator: str, data: ArraySpec, places: ArraySpec, bounds: Bounds) -> Bounds:
    """Return the bounds mode of a kernel of rows with factors, where there is such a kernel.

    Args:
        operator: a name of `WEIGHTED_REDUCTIONS`.
        data: (rows, inner...).
        places: (bags..., bag, 2 or 3), as `with_weights` makes them.
        bounds: the mode that was given.

    Raises:
        InvalidGatherError: data has no rows or cannot have weights, places are of another dtype, or the mode is carried
            out before the kernel.
    """
    spec = WEIGHTED_REDUCTIONS[operator]
    if bounds not in (Bounds.ERROR, Bounds.ZERO):
        raise InvalidGatherError(
            f"rows with weights or scales have one kernel for all bounds, got bounds {bounds}: indices become "
            "positions before it, and an index outside one that adds nothing; leave bounds out"
        )
    if not data.shape[0]:
        raise InvalidGatherError(f"no kernel runs for data without rows, got shape {data.shape}; give it one or more")
    wanted = _place_dtype(spec, data.dtype)
    if not (is_weighted(data.dtype) or data.dtype in _QUANTISED) or places.dtype != wanted:
        raise InvalidGatherError(
            f"{operator} is of rows of floats, int8 or uint8 by {wanted}, an index and the bits of its weight, got "
            f"{data.dtype} by {places.dtype}; name {OPERATOR.name} with weights or quantised instead"
        )
    return Bounds.ZERO


def _place_dtype(spec: GatherReduce, dtype: np.dtype) -> np.dtype:
    """Return the dtype of an index beside the weight of a row of a dtype."""
    return np.dtype(f"i{spec.result_dtype(dtype).itemsize}")


def is_weighted(dtype: np.dtype) -> bool:
    """Return whether rows of a dtype may have weights without a scale."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def read_factors(
    weights: ArrayLike | None, scale: ArrayLike | None, bias: ArrayLike | None, given: tuple[np.ndarray, Shape, str]
) -> Factors:
    """Return the factors of rows.

    Args:
        weights: of the shape of indices.
        scale, bias: (rows).
        given: data, the shape of indices, and the reduction.

    Raises:
        InvalidGatherError: they do not fit data, indices or the reduction.
    """
    data, shape, reduce = given
    if bias is not None and scale is None:
        raise InvalidGatherError("bias is for quantised rows, which have a scale, too; give scale=")
    if scale is not None and (data.dtype not in _QUANTISED or reduce == "max"):
        raise InvalidGatherError(
            f"scale is for sums and means of rows of int8 or uint8, got {data.dtype} and reduce={reduce!r}; "
            "multiply other data, or leave it out"
        )
    rows = data.shape[:1]
    scales, biases = _read_rows(scale, "scale", rows), _read_rows(bias, "bias", rows)
    if weights is None:
        return Factors(None, scales, biases)
    if reduce != "sum":
        raise InvalidGatherError(
            f"weights are for reduce='sum', as in torch, got {show(reduce)}; a weighted mean is that sum divided by "
            "the sums of the weights"
        )
    if scale is None and data.dtype.kind in "iuc":
        raise InvalidGatherError(
            f"weights are of rows of floats, or of int8 and uint8 with a scale, got {data.dtype}; convert "
            "data, or give scale="
        )
    return Factors(read_floats(weights, "weights", shape, "an index").reshape(-1), scales, biases)


def read_floats(values: ArrayLike, name: str, shape: Shape, what: str) -> np.ndarray:
    """Return weights, scales or biases as an array; raises InvalidGatherError for another shape or no floats."""
    array = data_array(values, name)
    if not isinstance(array, np.ndarray) or not is_weighted(array.dtype) or array.shape != shape:
        raise InvalidGatherError(
            f"{name} must be floats, one {what}, of shape {shape}, got {getattr(array, 'dtype', 'no dtype')} of "
            f"shape {getattr(array, 'shape', None)}"
        )
    return array


def _read_rows(values: ArrayLike | None, name: str, shape: Shape) -> np.ndarray | None:
    """Return (rows) float32: a scale or a bias for each row of data; None for None."""
    if values is None:
        return None
    array = read_floats(values, name, shape, "a row of data")
    with _finite(name):
        return array.astype(np.float32, copy=False)


@contextmanager
def _finite(name: str) -> Iterator[None]:
    """Raise InvalidGatherError where the body makes a number infinite that was finite; infinities and NaN stay."""
    try:
        with np.errstate(over="raise", under="ignore", invalid="ignore"):
            yield
    except FloatingPointError:
        raise InvalidGatherError(
            f"{name} must be finite in the dtype of the sums, and a number is too large for it; use smaller ones, or "
            "data of float64"
        ) from None


def native(dtype: np.dtype) -> np.dtype:
    """Return a dtype in the byte order of this machine, in which elements are added."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def read_arrays(source: ArrayLike, indices: ArrayLike, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return data, or grad, and indices, each in memory or of dask; raises InvalidGatherError without a sum."""
    array, places = table_array(source, name) if name == "data" else data_array(source, name), index_array(indices)
    dtype = array.dtype
    is_numpys = dtype.type.__module__ == "numpy"  # float8_e5m2 has the kind of a float
    is_summed = dtype.kind in "iufc" and dtype.itemsize <= (16 if dtype.kind == "c" else 8)
    if not (is_summed and is_numpys) and dtype.name != "bfloat16":
        raise InvalidGatherError(
            f"{name} must be float16 to float64, bfloat16, complex or integers of 8 to 64 bits, "
            f"got {dtype}; convert it, for instance with {name}.astype('float32')"
        )
    return array, places


def check_kernel(operator: str, dtype: np.dtype) -> None:
    """Check that a reduction of elements of a dtype is one kernel, and no more; raises InvalidGatherError."""
    kinds, what = _KINDS[operator]
    if dtype.kind not in kinds or summation_dtype(dtype) != dtype:
        raise InvalidGatherError(
            f"{operator} of {dtype} has no kernel of its own, only of {what}; call gathernest.gather_reduce, or "
            "convert data first"
        )


def check_reduction(reduce: str, dtype: np.dtype) -> None:
    """Check that elements of a dtype have such a reduction; raises InvalidGatherError."""
    if not isinstance(reduce, str) or reduce not in _REDUCTIONS:
        raise InvalidGatherError(
            f"reduce {show(reduce)} is not a reduction; use one of {', '.join(_REDUCTIONS)}"
            f"{did_you_mean(reduce, _REDUCTIONS)}"
        )
    if reduce == "mean" and dtype.kind in "iu":
        raise InvalidGatherError(f"the mean is of floats and complex numbers, got {dtype}; use reduce='sum'")
    if reduce == "max" and dtype.kind in "uc":
        raise InvalidGatherError(
            f"the maximum is of floats and signed integers, got {dtype}; convert data, for instance with "
            "data.astype('int64'), or take data.real"
        )
