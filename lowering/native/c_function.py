"""C functions in machine code: a gather by a kernel in this process, and the rounding to float16."""

import ctypes
import functools
import platform
from collections.abc import Callable, Sequence

import llvmlite.binding as llvm

from .call_layout import packed
from .kernel_code import KernelCode, LoadedFunction, NoKernel
from .llvm_jit import Store, fill_words, load_object, new_engine, store_nothing

_NAME = "gathernest_function"
_WORDS = ("kernel", "numbers", "cleared bytes", "result")


class CFunction(LoadedFunction):
    """`int64_t function(const void *data, const void *indices, void *out)` in this process; see its `address`."""

    def __init__(self, kernel: KernelCode | NoKernel, numbers: Sequence[float], store: Store = store_nothing):
        """Make it.

        Args:
            kernel: the kernel that it calls and keeps loaded, or its effect without a kernel.
            numbers: the arguments of the kernel between the three addresses and the team.
            store: stores its machine code, which all such functions share.
        """
        self._references = kernel, ctypes.create_string_buffer(packed(numbers))

        def make() -> bytes:
            from .c_function_ir import function_object

            return function_object(_NAME, _WORDS)

        engine = new_engine("")
        engine.add_object_file(llvm.ObjectFileRef.from_data(store(f"C function of {', '.join(_WORDS)}", make)))
        super().__init__(engine, _NAME)
        numbers_at = ctypes.addressof(self._references[1])
        if isinstance(kernel, NoKernel):
            values = 0, numbers_at, kernel.cleared_bytes, kernel.result
        else:
            values = kernel.address, numbers_at, 0, 0
        fill_words(engine, dict(zip(_WORDS, values, strict=True)))


@functools.cache
def rounding(store: Store = store_nothing) -> Callable[[int, int, int], int] | None:
    """Return `round(source, target, count)`, which rounds float32 at an address to float16 at another, without the GIL.

    It takes 0.3 ns an element, the cast of NumPy 4.4 ns. None is returned where the CPU has no instruction for it.
    """
    if not llvm.get_host_cpu_features().get("f16c", platform.machine() in ("arm64", "aarch64")):
        return None

    def make() -> bytes:
        from .c_function_ir import rounding_object

        return rounding_object()

    address = load_object(store("rounding", make), {})("round_halves")
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(address)
