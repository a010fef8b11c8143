"""Element types by name, and arrays before they are there."""

import ml_dtypes
import numpy as np
import pytest

from gathernest.ir.dialects.types import element_size_bytes, ir_element_type, numpy_dtype
from gathernest.ir.element_types import element_type_name, parse_element_type

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
