"""The fast call: from the arrays of a call to a compiled kernel with no Python in between.

It reads the memory layout of `call_layout`, and provides builtins of Python that call kernels. `fast_call_ir` has its
code, which is compiled once for all processes; its words hold the values that differ between them.
"""

import ctypes
import importlib
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .call_layout import fields_hold
from .llvm_jit import FASTCALL, KEYWORDS, Store, address_in, builtin, keep_for_ever, load_object
from .threads.known_subteam import KnownSubteam, known_words

_OUT = sys.intern("out")
# The functions of Python's C API that it calls, beside the functions in `known_words`.
_PYTHON = (
    *("Py_IncRef", "PyEval_SaveThread", "PyEval_RestoreThread", "PyObject_Vectorcall", "PyLong_FromLongLong"),
    *("PyLong_AsLongLong", "PyTuple_GetItem", "PyTuple_Size"),
)
# Places of the type of arrays, and of `PyArray_NewFromDescr`, in NumPy's table of C functions.
_ARRAY_TYPE, _NEW_FROM_DESCR = 2, 94


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition for the use of a cached call; settings that change the meaning of a call make it fail.

    Attributes:
        blocked: the address of an int64; the guard fails while it is not 0.
        scope: a ContextVar whose default is None; fails where it has another value.
        environment: a dict; fails while it has one of `variables`.
        variables: keys of `environment`.
    """

    blocked: int
    scope: Any
    environment: dict[Any, Any]
    variables: tuple[Any, ...]


def _numpy_functions() -> Any:
    """Return NumPy's table of C functions; raises NotImplementedError where it has another order."""
    core = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    table_of_core = importlib.import_module(f"{core}._multiarray_umath")._ARRAY_API
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    get = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))
    table = (ctypes.c_uint64 * (_NEW_FROM_DESCR + 1)).from_address(get(table_of_core, None))
    if table[_ARRAY_TYPE] != id(np.ndarray):
        raise NotImplementedError
    return table


@dataclass(frozen=True, slots=True)
class Entry:
    """The builtins: each takes an object, and returns a Python function that is bound to it.

    Attributes:
        find: of a table; `find(data, indices, out, a, b, c)` looks for a prepared call with the same objects a, b and
            c, arrays of the same shapes, strides and dtypes, and `out` None or writeable and disjoint from the inputs.
            It runs the kernel, large work on all threads and without the GIL, and returns the result. It passes calls
            with an index out of range, which runs them again for the error, and large work whose threads are not known,
            to the call's `finish(data, indices, out)`. None where there is no such call, or the guard fails.
        call: of a table and a function; `call(data, indices, out=None)` is `find` with None for a, b and c, and passes
            other calls to the function.
        hash: of a table; `hash(data, indices, out, a, b, c)` returns the first place where `find` looks.
        run: of a call; `run(data, indices, out, team)` runs its kernel without a check of the arrays, and returns the
            number of indices out of range, or -1 when the kernel raised. It releases the GIL for large work.
        known_subteam: returns the subteam that a launch of this thread may use, 0 for none; None where the settings
            that decide it have changed since `known` noted them.
        known: the settings, which Python notes and the fast call compares.
    """

    find: Callable[[np.ndarray], Any]
    call: Callable[[tuple[np.ndarray, Any]], Any]
    hash: Callable[[np.ndarray], Any]
    run: Callable[[np.ndarray], Any]
    known_subteam: Callable[[], int | None]
    known: KnownSubteam


def make_entry(guard: Guard, known: KnownSubteam, store: Store) -> Entry:
    """Load the fast call, compiled where it is not stored; `guard` and `known` live as long as the process.

    Raises:
        NotImplementedError: NumPy's or Python's memory layout is not the one that the entry expects.
    """
    if type(guard.environment) is not dict or not fields_hold() or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise NotImplementedError
    words = _words(guard, known)

    def make() -> bytes:
        from .fast_call_ir import fast_call_object

        return fast_call_object(list(words))

    address = load_object(store(f"fast call of {', '.join(words)}", make), words)
    keep_for_ever((guard, known, _OUT))
    return Entry(
        builtin("find", address, FASTCALL),
        builtin("call", address, FASTCALL | KEYWORDS),
        builtin("hash", address, FASTCALL),
        builtin("run", address, FASTCALL),
        builtin("known", address, FASTCALL)(None),
        known,
    )


def _words(guard: Guard, known: KnownSubteam) -> dict[str, int]:
    """Return the words of the fast call in this process, by their names."""
    objects = {"None": None, "ndarray": np.ndarray, "out": _OUT, "scope": guard.scope, "environment": guard.environment}
    objects |= {f"variable {number}": variable for number, variable in enumerate(guard.variables)}
    return {
        **{name: id(value) for name, value in objects.items()},
        "blocked": guard.blocked,
        "PyArray_NewFromDescr": _numpy_functions()[_NEW_FROM_DESCR],
        **{name: address_in(ctypes.pythonapi, name) for name in _PYTHON},
        **known_words(known),
    }
