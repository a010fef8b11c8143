"""The way of an argument that is no ndarray: by the rules of its library, or by the protocols that it has."""

import sys
from typing import Any

import numpy as np

from ...ir.errors import InvalidGatherError
from .libraries import LIBRARIES, UNWRITTEN, Found, count_change, torch_values
from .protocols import read_by_protocol, type_name, written_by_protocol


def library_of(given: Any, known: Any = LIBRARIES) -> str | None:
    """Return the library, one of `known`, that an object's class or one of its bases is of; None of another."""
    for kind in type(given).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in known and root in sys.modules:
            return root
    return None


def foreign_array(given: Any, name: str) -> Found:
    """Return an argument as an ndarray, on the same memory where it can be, or as the dask array that it wraps.

    Args:
        given: no ndarray and no dask array.
        name: of the argument, for messages.

    Returns:
        The array, and a function that reads later arguments of this type in less time, if there is one.

    Raises:
        InvalidGatherError: it has no values (traced, lazy), not those of an array (sparse, ragged, null), or its memory
            is out of the CPU's reach. The message says what to pass.
    """
    library = library_of(given)
    if library is not None:
        return LIBRARIES[library](given, name)
    array = read_by_protocol(given, name)
    if name == "data" and array.shape == () and not isinstance(given, np.generic | complex):
        raise InvalidGatherError(
            f"data is a {type_name(given)}, which NumPy takes for one value; pass an array, or a list of values"
        )
    return array, None


def foreign_out(out: Any) -> np.ndarray:
    """Return an ndarray on the memory of `out`, which is no ndarray and will be written to.

    Torch is told so before it is: a gradient that needs the old values is an error then, also where the call fails.

    Raises:
        InvalidGatherError: it has no memory that can be shared, or may not be written to.
    """
    library = library_of(out, UNWRITTEN)
    if library is not None:
        raise InvalidGatherError(f"out cannot be a {type_name(out)}: {UNWRITTEN[library]}")
    if library_of(out) == "torch":
        LIBRARIES["torch"](out, "out")
        values = torch_values(out.detach())
        if out.is_conj() or out.is_neg():
            raise InvalidGatherError("out is a torch.Tensor with a lazy conjugate or sign; pass out.resolve_conj()")
        count_change(out)
        return values
    if library_of(out) == "xarray" and isinstance(getattr(out, "data", None), np.ndarray):
        return out.data
    return written_by_protocol(out)
