"""Element types: their names in the IR's text (`f32`) and in NumPy (`float32`), and the machine width that moves them.

A gather moves bytes and never reads their value, so a kernel knows only the width of a type. Plain Python.
"""

import functools
import math
import re
from collections.abc import Iterable

import numpy as np

from .errors import InvalidGatherError, did_you_mean, show
from .numbers import MIN_INT64, parse_whole

MAX_WIDTH_BYTES = 16
# Floats hold every whole number below this one exactly.
WHOLE_SCALES_BELOW = 2**53
# The integer types of ml_dtypes are compared by name, since importing ml_dtypes takes 7 ms.
NARROW_INTEGERS = {"int1", "uint1", "int2", "uint2", "int4", "uint4"}
# Numbers from this one on are infinite when they are rounded to 32 bits.
_INFINITE_IN_FLOAT32 = 2.0**128 - 2.0**103

_NUMPY_NAMES = {
    "i1": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}
_FLOAT8 = ("E5M2", "E4M3", "E4M3FN", "E5M2FNUZ", "E4M3FNUZ", "E4M3B11FNUZ", "E3M4", "E8M0FNU")
_ML_DTYPES_NAMES = {"bf16": "bfloat16", **{f"f8{kind}": f"float8_{kind.lower()}" for kind in _FLOAT8}}
_SHORT_NAMES = {
    "c64": "complex64",
    "c128": "complex128",
    "bool": "bool",
    "i4": "int4",
    "ui4": "uint4",
    "i2": "int2",
    "ui2": "uint2",
}
# NumPy's codes count bytes, as in `f4`, where the IR's names count bits; so a code alone is no name here.
_CODE = re.compile(r"[biufc]\d+")
_VOID = re.compile(r"^void(\d+)$")
_IR_NAMES = {numpy: ir for ir, numpy in (_NUMPY_NAMES | _ML_DTYPES_NAMES).items()}


def parse_element_type(text: str) -> np.dtype:
    """Return the dtype of an element type's name: the IR's (`f32`, `complex<f64>`, `void24`, which is three bytes) or
    NumPy's (`int4`, `S5`, `>f4`, `M8[ns]`).

    Raises:
        InvalidGatherError: no element type has that name.
    """
    if text in _NUMPY_NAMES:
        return np.dtype(_NUMPY_NAMES[text])
    name = (_ML_DTYPES_NAMES | _SHORT_NAMES).get(text, text)
    try:
        import ml_dtypes

        if (bits := _VOID.match(text)) and parse_whole(bits[1]) % 8 == 0:
            name = f"V{parse_whole(bits[1]) // 8}"
        if _CODE.fullmatch(name):
            raise ValueError
        return np.dtype(getattr(ml_dtypes, name, name))
    except (TypeError, ValueError, SyntaxError):
        names = [*_NUMPY_NAMES, *_ML_DTYPES_NAMES, *_SHORT_NAMES]
        raise InvalidGatherError(
            f"{show(text)} is not an element type; use one of {', '.join(names)}, or the name of a NumPy dtype"
            f"{did_you_mean(text, names)}"
        ) from None


@functools.lru_cache(maxsize=256)
def element_type_name(dtype: np.dtype) -> str:
    """Return the IR's name of `dtype`, or NumPy's own where the IR has no type for it (`int4`, `|S5`, `>f4`)."""
    if not dtype.isnative:
        return dtype.str if dtype.type.__module__ == "numpy" else f"void{8 * dtype.itemsize}"
    if dtype.kind == "V" and dtype.type in (np.void, np.record):
        return f"void{8 * dtype.itemsize}"
    return _IR_NAMES.get(dtype.name, dtype.str if dtype.kind in "SUmM" else dtype.name)


def is_movable(dtype: np.dtype) -> bool:
    """Return whether a copy of an element's bytes is a copy of the element, unlike for object and StringDType."""
    return not dtype.hasobject and dtype.kind != "T"


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Return a view of void elements, so that an assignment converts nothing and keeps the padding.

    Arrays of references (object, StringDType) and of elements without bytes are returned unchanged.
    """
    return array.view(f"V{array.dtype.itemsize}") if is_movable(array.dtype) and array.dtype.itemsize else array


def machine_width(itemsize_bytes: int, byte_strides: Iterable[int]) -> int:
    """Return the width in bytes that elements are moved by: the largest power of two, at most 16, that divides
    the element's size and every stride it is reached by.
    """
    common = math.gcd(itemsize_bytes, *byte_strides)
    return min(common & -common, MAX_WIDTH_BYTES) if common else 1


_SPEC = re.compile(
    r"^(?P<sizes>(?:(?:[0-9]+|\?)x)*)(?P<element>[^\[\]]+?(?:\[[^\[\]]*\])?)"
    r"(?:\s*strided<\[(?P<strides>[-0-9,\s]*)\]>)?$"
)

# This matches text that no name of an element type has, from sizes in another notation: `-3xf32`, `3 x f32`, `3×f32`,
# or the digits of another script.
_NO_NAME = re.compile(r"^-|[X×\s]|(?![0-9])\d")


class UnknownSizeError(InvalidGatherError):
    """A text describes an array of which a size is no number, such as `Nx4xf32`."""


def _check_sizes(text: str) -> None:
    """Raise UnknownSizeError where words stand for sizes in front of an element type."""
    *sizes, element = text.split()[0].split("x") if text.strip() else [""]
    unknown = next((size for size in sizes if not size.isascii() or not size.isdigit()), None)
    if unknown is None and sizes and not element:
        raise InvalidGatherError(f"{show(text)} has no element type; write one behind the sizes, as in 1000x4xf32")
    is_number = unknown is not None and re.fullmatch(r"[0-9][\w.+]*", unknown, re.ASCII)
    if unknown is None or not (is_number or re.fullmatch(r"[^\W\d]\w*|\?", unknown)):
        return
    try:
        parse_element_type(element)
    except InvalidGatherError:
        return
    if is_number:
        raise InvalidGatherError(
            f"size {show(unknown)} of {show(text)} is no whole number; write each size in digits, as in 1000x4xf32"
        )
    raise UnknownSizeError(
        f"{text!r} leaves the size {unknown!r} open; write a whole number for each size, as in 1000x4xf32"
    )


def split_spec(text: str) -> tuple[tuple[int, ...], np.dtype, tuple[int, ...] | None]:
    """Read `2x64x128xf32` or `4x3xf32 strided<[1, 4]>`: sizes, element type, strides in elements (None: contiguous)."""
    _check_sizes(text)
    match = _SPEC.match(text.strip())
    if match is None or "?" in match["sizes"] or match["element"].isdigit() or _NO_NAME.search(match["element"]):
        raise InvalidGatherError(
            f"{text!r} does not describe an array; write sizes and an element type, as in 2x64x128xf32, "
            "or with strides in elements, as in '4x3xf32 strided<[1, 4]>'"
        )
    dtype = parse_element_type(match["element"])
    try:
        sizes = tuple(parse_whole(size) for size in match["sizes"].split("x") if size)
        if match["strides"] is None:
            return sizes, dtype, None
        strides = tuple(parse_whole(stride, MIN_INT64) for stride in match["strides"].split(",") if stride.strip())
    except ValueError as error:
        raise InvalidGatherError(f"{text!r} does not describe an array: {error}") from None
    if len(strides) != len(sizes):
        raise InvalidGatherError(f"{text!r} has {len(sizes)} sizes and {len(strides)} strides; give one stride a size")
    return sizes, dtype, strides


def number_width(dtype: np.dtype) -> int:
    """Return the size in bytes of the numbers that are added: the elements, or the parts of complex elements."""
    return dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize


def number_name(dtype: np.dtype) -> str:
    """Return the IR's name of the numbers that are added, such as `f32` or `i16`; signs do not matter to a sum."""
    return f"{'i' if dtype.kind in 'iu' else 'f'}{8 * number_width(dtype)}"


def check_scale(scale: float, dtype: np.dtype, name: str = "scale") -> None:
    """Check that the sums of elements of a dtype can be multiplied by a scale.

    A scale of integers must be a whole number that a float holds exactly. A scale of floats must be finite in the dtype
    of the sums, float32 for narrower floats; a scale that is too small for that dtype becomes 0.

    Args:
        scale: finite.
        dtype: of the elements; Python multiplies objects by any scale.
        name: the argument's name, for messages.

    Raises:
        InvalidGatherError: the sums cannot be multiplied by it.
    """
    is_integer = dtype.kind in "iu" or dtype.type.__name__ in NARROW_INTEGERS
    if is_integer or dtype.kind == "m":
        if (is_integer and not scale.is_integer()) or abs(scale) >= WHOLE_SCALES_BELOW:
            kind = "whole number" if is_integer else "number"
            raise InvalidGatherError(
                f"{name} must be a {kind} below 2**53 for a gradient of {dtype}, got {show(scale)}; convert grad to a "
                "float dtype, or multiply the result"
            )
    elif dtype.kind != "O" and number_width(dtype) <= 4 and abs(scale) >= _INFINITE_IN_FLOAT32:
        raise InvalidGatherError(
            f"{name} must be at most {np.finfo(np.float32).max} in size for a gradient of {dtype}, whose sums are "
            f"multiplied in 32 bits, got {show(scale)}; convert grad to float64, or multiply the result"
        )


def number_scale(scale: float, dtype: np.dtype) -> float:
    """Return the number that sums are multiplied by: the scale; for integers modulo their width, as a signed one."""
    if dtype.kind not in "iu":
        return scale
    bits = 8 * dtype.itemsize
    return (int(scale) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


# Arrays are compared in blocks of this size, which stay in the cache (Zen 4: 25 MB take 3 ms, and 66 ms as one block).
BLOCK_BYTES = 1 << 18


def first_difference(got: np.ndarray, wanted: np.ndarray) -> tuple[tuple[int, ...], int] | None:
    """Return the first place where two arrays of one shape and dtype differ, and the number of such places, or None."""
    if wanted.dtype.hasobject:
        unequal = np.array([mine != other for mine, other in zip(got.flat, wanted.flat, strict=True)])
    else:
        left, right = (np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8) for array in (got, wanted))
        unequal = np.zeros(0, bool) if _are_equal(left.ravel(), right.ravel()) else (left != right).any(axis=1)
    places = np.flatnonzero(unequal)
    if not len(places):
        return None
    return tuple(int(number) for number in np.unravel_index(int(places[0]), wanted.shape)), len(places)


def _are_equal(left: np.ndarray, right: np.ndarray) -> bool:
    starts = range(0, left.size, BLOCK_BYTES)
    return all(
        np.array_equal(left[start : start + BLOCK_BYTES], right[start : start + BLOCK_BYTES]) for start in starts
    )
