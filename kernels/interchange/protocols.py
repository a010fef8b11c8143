"""Arrays by the protocols that any library may have: buffers, `__array_interface__`, `__array__` and DLPack."""

from collections.abc import Iterator, Set, ValuesView
from typing import Any

import numpy as np

from ...ir.errors import InvalidGatherError

# Where DLPack says that memory lies; the CPU can read 1, 3 and 11.
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA", 14: "oneAPI"}
_MEMORY = ("__array_interface__", "__array_struct__", "__buffer__")


def type_name(given: Any) -> str:
    """Return the name of an object's type as its users write it: `torch.Tensor`, not where the library defines it."""
    kind = type(given)
    root = kind.__module__.partition(".")[0]
    return kind.__qualname__ if root == "builtins" else f"{root}.{kind.__qualname__}"


def rejected(given: Any, name: str, what: str, way_out: str) -> InvalidGatherError:
    """Return the error of an argument: its type, what is wrong with it, and what works."""
    return InvalidGatherError(f"{name} is a {type_name(given)}, {what}; {way_out}")


def read_by_protocol(given: Any, name: str) -> np.ndarray:
    """Return an object as an ndarray, on the same memory where a protocol gives it.

    Raises:
        InvalidGatherError: it lies on another device, is read only once, or makes no array.
    """
    check_device(given, name)
    is_no_sequence = isinstance(given, Iterator | Set | ValuesView)
    if is_no_sequence and name != "indices":
        raise rejected(given, name, "which is no sequence", f"pass list({name}), or numpy.fromiter({name}, dtype)")
    try:
        if hasattr(given, "__dlpack__") and not hasattr(given, "__array__") and not _has_memory(given):
            return np.from_dlpack(given)
        return np.asarray(given)
    except (ValueError, TypeError, RuntimeError, BufferError, NotImplementedError) as error:
        if isinstance(error, InvalidGatherError):
            raise
        raise InvalidGatherError(f"{name} does not make an array: {error}") from None


def check_device(given: Any, name: str) -> None:
    """Check that an array lies in memory that the CPU can read; raises InvalidGatherError, which names the device."""
    tells = getattr(type(given), "__dlpack_device__", None)
    if tells is None:
        return
    try:
        kind = int(tells(given)[0])
    except Exception:  # an array without memory, whose own rule says more
        return
    if kind in _DEVICES:
        raise rejected(given, name, f"in the memory of a {_DEVICES[kind]} device", "copy it to the CPU first")


def written_by_protocol(out: Any) -> np.ndarray:
    """Return an ndarray on the memory of `out`; raises InvalidGatherError where it has no memory to share."""
    check_device(out, "out")
    try:
        if _has_memory(out):
            return np.asarray(out, copy=False)
        if hasattr(out, "__dlpack__"):
            return np.from_dlpack(out, copy=False)
    except (ValueError, TypeError, RuntimeError, BufferError) as error:
        raise InvalidGatherError(f"out is a {type_name(out)} whose memory cannot be shared: {error}") from None
    raise InvalidGatherError(
        f"out must be an ndarray, got {type(out).__name__}; an array that shares its memory by DLPack, "
        "__array_interface__ or a buffer works, too"
    )


def _has_memory(given: Any) -> bool:
    if isinstance(given, np.generic):
        return False
    if any(hasattr(given, protocol) for protocol in _MEMORY):
        return True
    try:
        memoryview(given).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True
