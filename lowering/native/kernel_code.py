"""Kernels in machine code in memory, from their object code. It imports neither Numba nor llvmlite's IR builder."""

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from .call_layout import packed
from .llvm_jit import new_engine

# The function that kernels are called by: entry(data, indices, out, address of the numbers, team).
ENTRY = "gathernest_kernel"
POINTERS = 3
# The engines by the addresses of their kernels, and the addresses of unused kernels. The garbage collector runs in any
# thread, and freeing an engine takes a lock of llvmlite's. So that no fork happens while it is held, the collector
# frees no engine: unused engines are freed where the next one is made.
_ENGINES: dict[int, llvm.ExecutionEngine] = {}
_GONE: list[int] = []
_ENTRY_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * POINTERS, ctypes.c_char_p, ctypes.c_int64)


@dataclass(frozen=True, slots=True)
class NoKernel:
    """The effect of a function whose sizes leave a kernel nothing to do.

    Attributes:
        cleared_bytes: the number of bytes of the result that it fills with zeros.
        result: the number that it returns.
    """

    cleared_bytes: int
    result: int


@dataclass(frozen=True, slots=True)
class Counted:
    """An argument of a kernel that follows from the number of indices: `base + slope * count`."""

    base: int
    slope: int


class LoadedFunction:
    """A function in machine code; it is freed when the next is made after this object is gone.

    Attributes:
        address: of the function.
    """

    def __init__(self, engine: llvm.ExecutionEngine, name: str):
        """Load the code of an engine, which this object owns, and find the function of that name."""
        while _GONE and not sys.is_finalizing():  # then code whose object Python has cleared may still run
            _ENGINES.pop(_GONE.pop()).close()
        engine.finalize_object()
        self.address: int = engine.get_function_address(name)
        _ENGINES[self.address] = engine

    def __del__(self, gone: list[int] = _GONE) -> None:  # at the end of Python the module has lost its names
        if hasattr(self, "address"):
            gone.append(self.address)


class KernelCode(LoadedFunction):
    """The machine code of one kernel; `address` is the address of the function `ENTRY`."""

    def __init__(self, object_code: bytes):
        """Load object code of this system, which defines `ENTRY` and is trusted."""
        engine = new_engine("")
        engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
        super().__init__(engine, ENTRY)
        self._entry = _ENTRY_TYPE(self.address)

    def __call__(self, *arguments: float) -> int:
        """Run the kernel without the GIL, and return its result.

        Args:
            arguments: three addresses, then numbers, then the address of the thread team or 0.
        """
        return self._entry(*_words(arguments))

    def bound(self, *arguments: float) -> Callable[[], int]:
        """Return a call with the arguments of `__call__`."""
        words = _words(arguments)
        return lambda: self._entry(*words)


def _words(arguments: Sequence[float]) -> tuple[Any, ...]:
    """Return the words that `ENTRY` takes for the arguments of a kernel."""
    *given, team = arguments
    return *(*given[:POINTERS], 0, 0)[:POINTERS], packed(given[POINTERS:]), team
