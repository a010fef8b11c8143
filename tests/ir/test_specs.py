"""Element types by name, and arrays before they are there."""

import ml_dtypes
import numpy as np
import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.dialects.types import element_size_bytes, ir_element_type, numpy_dtype
from gathernest.ir.element_types import element_type_name, machine_width, parse_element_type
from gathernest.ir.errors import InvalidGatherError

DTYPES = [
    *("bool", "int8", "uint64", "float16", "float32", "complex64", "complex128", "S5", "U3", "M8[ns]", ">f4", "<m8[s]"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, ml_dtypes.int4, ml_dtypes.uint2),
]


@pytest.mark.parametrize("dtype", [np.dtype(dtype) for dtype in DTYPES], ids=str)
def test_element_type_has_a_name_and_a_type_that_lead_back(dtype):
    assert parse_element_type(element_type_name(dtype)) == dtype
    assert numpy_dtype(ir_element_type(dtype)) == dtype
    assert element_size_bytes(ir_element_type(dtype)) == dtype.itemsize


@pytest.mark.parametrize("dtype", [np.dtype([("a", "i4"), ("b", "f8")]), np.rec.array([(1, 2.0)]).dtype])
def test_record_is_its_bytes(dtype):
    assert str(ir_element_type(dtype)) == f'!gather.bytes<{dtype.itemsize}, "void{8 * dtype.itemsize}">'


@pytest.mark.parametrize(
    ("itemsize", "strides", "width"),
    [
        (4, [], 4),
        (4, [8, 4], 4),
        (4, [7], 1),
        (4, [6], 2),
        (12, [], 4),
        (10, [], 2),
        (32, [], 16),
        (16, [24], 8),
        (3, [], 1),
        (4, [0], 4),
        (8, [-16], 8),
    ],
)
def test_width_divides_the_element_and_its_strides(itemsize, strides, width):
    assert machine_width(itemsize, strides) == width


@pytest.mark.parametrize(
    "text",
    [
        *("2x64x128xf32", "f32", "0x3xi8", "4x3xf32 strided<[1, 4]>", "5xcomplex<f64>", "3x|S5", "3x>f4", "3xint4"),
        *("3x<M8[ns]", "3x<m8[7D] strided<[-2]>", "4xvoid24", "4x3xvoid8 strided<[0, 1]>"),
    ],
)
def test_spec_reads_back_from_its_text(text):
    assert str(ArraySpec.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2x64xf33", "'f33' is not an element type; use one of "),
        ("5", "'5' does not describe an array; write sizes and an element type, as in 2x64x128xf32"),
        ("-3xf32", "'-3xf32' does not describe an array; write sizes and an element type"),
        ("10 x 10 x f32", "'10 x 10 x f32' does not describe an array; write sizes and an element type"),
        ("10×10×f32", "'10×10×f32' does not describe an array; write sizes and an element type"),
        ("١٠x4xf32", "'١٠x4xf32' does not describe an array; write sizes and an element type"),
        ("4x3xf32 strided<[١, 4]>", " does not describe an array; write sizes and an element type"),
        ("file.npy", "'file.npy' is not an element type; use one of "),
        ("?xf32", "'?xf32' leaves the size '?' open"),
        ("3xM8[lightyears]", "'M8[lightyears]' is not an element type"),
        ("3xvoid23", "'void23' is not an element type"),
        ("2x3xf32 strided<[1]>", "has 2 sizes and 1 strides; give one stride a size"),
    ],
)
def test_wrong_spec_says_what_is_wrong(text, message):
    with pytest.raises(InvalidGatherError) as raised:
        ArraySpec.parse(text)
    assert message in str(raised.value)


@pytest.mark.parametrize("text", ["4xf4", "4xi16x", "4xu1", "4xf8", "4xc8"])
def test_numpy_s_codes_are_no_element_types(text):
    with pytest.raises(InvalidGatherError, match="is not an element type"):
        ArraySpec.parse(text)


@pytest.mark.parametrize(("text", "name"), [("3xi4", "int4"), ("3xui2", "uint2"), ("3xi8", "int8"), ("3xint4", "int4")])
def test_bits_are_counted_as_in_mlir(text, name):
    assert ArraySpec.parse(text).dtype.name == name


@pytest.mark.parametrize(
    ("shape", "dtype", "strides", "message"),
    [
        ((-1,), "f4", None, "shape (-1,) has a negative size; sizes are 0 or more"),
        ((2, 3), "f4", (4,), "shape (2, 3) needs 2 strides, got 1"),
        ((2**62, 4), "f4", None, "has no addresses; it is 2**63 bytes or more"),
        ((2,), "f33", None, "'f33' is not a dtype; give one that NumPy knows"),
        ((1.5, 2), "f4", None, "sizes of an array must be a sequence of integers, got (1.5, 2)"),
        ((1, 2), "f4", "ab", "strides of an array must be a sequence of integers, got 'ab'"),
    ],
)
def test_impossible_spec_is_rejected(shape, dtype, strides, message):
    with pytest.raises(InvalidGatherError) as raised:
        ArraySpec(shape, dtype, strides)
    assert message in str(raised.value)


def test_strides_of_dimensions_of_size_1_do_not_matter():
    assert ArraySpec((1, 4), "f4", (999, 4)).is_contiguous
    assert ArraySpec((1, 4), "f4", (999, 8)).layout_strides == (4, 8)
    assert ArraySpec((0, 4), "f4", (999, 8)).is_contiguous
