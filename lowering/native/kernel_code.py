"""A kernel's machine code in memory, loaded from its object code by an engine of its own. Needs no Numba."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm

from .call_layout import packed
from .llvm_jit import new_engine

# The function that kernels are called by: entry(data, indices, out, address of the numbers, team).
ENTRY = "gathernest_kernel"
POINTERS = 3
# The engines by the addresses of their kernels, and the addresses of those that are gone. The garbage collector runs in
# any thread, and to free an engine takes a lock of llvmlite's. So that no fork comes while it is held, the collector
# never meets an engine, and engines are freed where others are made.
_ENGINES: dict[int, llvm.ExecutionEngine] = {}
_GONE: list[int] = []
_ENTRY_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * POINTERS, ctypes.c_char_p, ctypes.c_int64)


class KernelCode:
    """The machine code of one kernel; it is freed when the next is made after this object is gone.

    Attributes:
        address: of the function `ENTRY`.
    """

    def __init__(self, object_code: bytes):
        """Load object code of this system, which defines `ENTRY` and is trusted."""
        while _GONE:
            _ENGINES.pop(_GONE.pop()).close()
        engine = new_engine("")
        engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
        engine.finalize_object()
        self.address: int = engine.get_function_address(ENTRY)
        self._entry = _ENTRY_TYPE(self.address)
        _ENGINES[self.address] = engine

    def __del__(self) -> None:
        if hasattr(self, "_entry"):
            _GONE.append(self.address)

    def __call__(self, *arguments: float) -> int:
        """Run the kernel without the GIL, and return its result.

        Args:
            arguments: three addresses, then numbers, then the address of the thread team or 0.
        """
        return self._entry(*_words(arguments))

    def bound(self, *arguments: float) -> Callable[[], int]:
        """Return a call with these arguments, which are those of `__call__`."""
        words = _words(arguments)
        return lambda: self._entry(*words)


def _words(arguments: Sequence[float]) -> tuple[Any, ...]:
    """Return what `ENTRY` takes for the arguments of a kernel."""
    *given, team = arguments
    return *(*given[:POINTERS], 0, 0)[:POINTERS], packed(given[POINTERS:]), team
