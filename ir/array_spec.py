"""The spec of an array: shape, dtype and strides."""

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .element_types import element_type_name, split_spec
from .errors import InvalidGatherError, show
from .numbers import MAX_INT64, MIN_INT64

MAX_DIMS = 64  # of an array of NumPy


def contiguous_strides(shape: Sequence[int], itemsize_bytes: int) -> tuple[int, ...]:
    """Return the byte strides of a C-contiguous array of that shape."""
    strides, step = list[int](), itemsize_bytes
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(strides[::-1])


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """The shape, dtype and byte strides of an array.

    Attributes:
        shape: sizes, each at least 0.
        dtype: any NumPy dtype.
        strides: bytes from one element to the next along each dimension, as `ndarray.strides`; C-contiguous if omitted.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...]

    def __init__(self, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None):
        shape, strides = integers(shape, "sizes"), None if strides is None else integers(strides, "strides")
        if min(shape, default=0) < 0:
            raise InvalidGatherError(f"shape {shape} has a negative size; sizes are 0 or more")
        dtype = _dtype(dtype)
        if strides is None and math.prod(shape) * dtype.itemsize >= 2**63:
            raise InvalidGatherError(
                f"an array of shape {shape} and {dtype} has no addresses; it is 2**63 bytes or more"
            )
        byte_strides = contiguous_strides(shape, dtype.itemsize) if strides is None else strides
        if len(byte_strides) != len(shape):
            raise InvalidGatherError(f"shape {shape} needs {len(shape)} strides, got {len(byte_strides)}")
        self._set(shape, dtype, byte_strides)

    def _set(self, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...]) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "strides", strides)

    @classmethod
    def of(cls, array: Any) -> "ArraySpec":
        """Return the spec of an array; a spec is returned unchanged, and a string is parsed as `2x64x128xf32`."""
        if isinstance(array, ArraySpec):
            return array
        if isinstance(array, str):
            return cls.parse(array)
        try:
            found, spec = np.asarray(array), cls.__new__(cls)
        except Exception as error:  # of NumPy, or of the array's own library
            raise InvalidGatherError(f"expected an array or a text such as 3xf32, got {show(array)}: {error}") from None
        spec._set(found.shape, found.dtype, found.strides)  # an existing array needs no checks
        return spec

    @classmethod
    def parse(cls, text: str) -> "ArraySpec":
        """Read `2x64x128xf32`, or `4x3xf32 strided<[1, 4]>` with strides in elements.

        Raises:
            InvalidGatherError: the text is not of that form.
        """
        if not isinstance(text, str):
            raise InvalidGatherError(f"an array is described by text such as 2x64x128xf32, got {show(text)}")
        shape, dtype, strides = split_spec(text)
        return cls(shape, dtype, None if strides is None else [stride * dtype.itemsize for stride in strides])

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the array is C-contiguous; the strides of dimensions of size 1 do not matter."""
        step = self.dtype.itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1:
                if stride != step:
                    return 0 in self.shape
                step *= size
        return True

    @property
    def layout_strides(self) -> tuple[int, ...]:
        """The byte strides that a kernel must know; empty for a contiguous array. The stride of a dimension of size 1
        does not matter, and is given as the size of one element.
        """
        if self.is_contiguous:
            return ()
        return tuple(
            self.dtype.itemsize if size == 1 else stride for size, stride in zip(self.shape, self.strides, strict=True)
        )

    def __str__(self) -> str:
        text = "x".join([*map(str, self.shape), element_type_name(self.dtype)])
        if self.is_contiguous:
            return text
        if all(stride % self.dtype.itemsize == 0 for stride in self.strides):
            return f"{text} strided<[{', '.join(str(s // self.dtype.itemsize) for s in self.strides)}]>"
        return f"{text} byte-strided<[{', '.join(map(str, self.strides))}]>"


def integers(values: Any, what: str) -> tuple[int, ...]:
    """Return sizes or strides as ints; raises InvalidGatherError where they are no sequence of integers."""
    try:
        numbers = tuple(map(operator.index, itertools.islice(values, MAX_DIMS + 1)))
    except Exception:  # of whatever type it is, such as memory of several dimensions
        numbers = None
    is_long = numbers is not None and len(numbers) > MAX_DIMS
    if numbers is None or is_long or not all(MIN_INT64 <= number <= MAX_INT64 for number in numbers):
        wanted = f"at most {MAX_DIMS} integers" if is_long else "integers of at most 64 bits"
        wanted = "integers" if numbers is None else wanted
        raise InvalidGatherError(f"{what} of an array must be a sequence of {wanted}, got {show(values)}")
    return numbers


def _dtype(dtype: Any) -> np.dtype:
    try:
        found = np.dtype(dtype)
    except Exception:  # NumPy raises several
        raise InvalidGatherError(
            f"{show(dtype)} is not a dtype; give one that NumPy knows, such as 'float32', or an array type as text, "
            "such as ArraySpec.parse('2x3xbf16')"
        ) from None
    if found.subdtype is not None:
        raise InvalidGatherError(
            f"{show(dtype)} is a dtype of a field, whose sizes are dimensions of an array; append the sizes "
            f"{found.shape} to the sizes of the array, and give the dtype {found.base}"
        )
    return found
