"""C functions of three addresses: one that calls a kernel in this process, and those that run no kernel. LLVM IR."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from .call_layout import packed
from .kernel_code import POINTERS, KernelCode, LoadedFunction
from .llvm_jit import I64, Code, new_engine

NAME = "gathernest_function"
# No thread team: the calling thread runs every tile.
ALONE = I64(0)


@dataclass(frozen=True, slots=True)
class NoKernel:
    """What a function does whose sizes leave nothing to run.

    Attributes:
        cleared_bytes: how many bytes of the result it fills with zeros.
        result: what it returns.
    """

    cleared_bytes: int
    result: int


@dataclass(frozen=True, slots=True)
class Counted:
    """An argument of a kernel that follows from the number of indices: `base + slope * count`."""

    base: int
    slope: int


class CFunction(LoadedFunction):
    """`int64_t function(const void *data, const void *indices, void *out)` in this process; see its `address`."""

    def __init__(self, kernel: KernelCode | NoKernel, numbers: Sequence[float]):
        """Make it.

        Args:
            kernel: what it calls, and keeps loaded; or what it does without a kernel.
            numbers: the arguments of the kernel between the three addresses and the team.
        """
        self._kept = kernel, ctypes.create_string_buffer(packed(numbers))
        if isinstance(kernel, NoKernel):
            module = module_without_kernel(NAME, kernel)
        else:
            module = ir.Module(NAME)
            code = Code(module, NAME, POINTERS, "external")
            words = I64(ctypes.addressof(self._kept[1]))
            code.ret(code.call_address(I64(kernel.address), *code.arguments, words, ALONE))
        super().__init__(new_engine(str(module)), NAME)


def module_without_kernel(name: str, done: NoKernel) -> ir.Module:
    """Return a module with the function of that name, which runs no kernel."""
    module = ir.Module(name)
    finish(Code(module, name, POINTERS, "external"), done)
    return module


def finish(code: Code, done: NoKernel) -> None:
    """End a function, whose third argument is its result, without a kernel."""
    if done.cleared_bytes:
        pointer, byte = ir.IntType(8).as_pointer(), ir.IntType(8)
        clear = code.module.declare_intrinsic("llvm.memset", [pointer, I64])
        out = code.inttoptr(code.arguments[POINTERS - 1], pointer)
        code.call(clear, [out, byte(0), I64(done.cleared_bytes), ir.IntType(1)(0)])
    code.ret(I64(done.result))
