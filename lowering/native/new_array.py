"""New arrays of NumPy, made by machine code through its table of C functions."""

import ctypes
import importlib
from typing import Any

import numpy as np

from .llvm_jit import I32, I64, NULL, VOID, Code, Word

# Places in NumPy's table of C functions.
_ARRAY_TYPE, NEW_FROM_DESCR, SET_BASE_OBJECT = 2, 94, 282


def numpy_functions() -> Any:
    """Return NumPy's table of C functions; raises NotImplementedError where it has another order."""
    core = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    table_of_core = importlib.import_module(f"{core}._multiarray_umath")._ARRAY_API
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    get = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))
    table = (ctypes.c_uint64 * (SET_BASE_OBJECT + 1)).from_address(get(table_of_core, None))
    if table[_ARRAY_TYPE] != id(np.ndarray):
        raise NotImplementedError
    return table


def new_array(
    code: Code,
    new_from_descr: int,
    descr: Word,
    rank: Word,
    sizes: Word,
    strides: Word = NULL,
    data: Word = NULL,
    flags: int = 0,
) -> Word:
    """Return a new ndarray, C-contiguous and in memory of its own without strides and data, or 0 with an exception set.

    Sizes and strides are addresses of as many words as the rank says.
    """
    code.call_python("Py_IncRef", descr, result=VOID)  # NumPy takes this reference
    return code.call_address(
        *(I64(new_from_descr), I64(id(np.ndarray)), descr, code.trunc(rank, I32)),
        *(sizes, strides, data, I32(flags), NULL),
        types=[I64, I64, I64, I32, I64, I64, I64, I32],
    )
