"""Element types by name, and arrays before they are there."""

import ml_dtypes
import numpy as np
import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.dialects.types import element_size_bytes, ir_element_type, numpy_dtype
from gathernest.ir.element_types import element_type_name, machine_width, parse_element_type

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


def test_strides_of_dimensions_of_size_1_do_not_matter():
    assert ArraySpec((1, 4), "f4", (999, 4)).is_contiguous
    assert ArraySpec((1, 4), "f4", (999, 8)).layout_strides == (4, 8)
    assert ArraySpec((0, 4), "f4", (999, 8)).is_contiguous
