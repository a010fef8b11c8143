"""Object code for a named CPU: a C function of three addresses around a kernel, its sizes constants of the code.

It needs nothing of Python or Numba: what it calls is at most what C's own compiler calls without being told.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core.codegen import AOTCPUCodegen
from numba.core.compiler_lock import global_compiler_lock

from ..native.c_function_ir import ALONE, finish, module_without_kernel
from ..native.kernel_code import POINTERS, Counted, NoKernel
from ..native.word_code import I64, Code
from .compiler import compiled
from .object_code import ToLibrary, UnloadedLibrary, called
from .program import Program

# What every C library has, and on Linux where memory is taken: LLVM writes loops that copy or clear as calls, and
# gradients that sort indices allocate.
OF_C = {"memcpy", "memmove", "memset", "malloc", "free", "aligned_alloc", "madvise"}


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU of this machine's architecture, as LLVM names it.

    Attributes:
        cpu: its name, such as `znver3`.
        features: what differs from what the name says, as LLVM writes it: `+avx2,-avx512f`.
    """

    cpu: str
    features: str = ""


class _Codegen(AOTCPUCodegen):
    """Numba's choice of passes for object files, with features."""

    def __init__(self, target: Target):
        self._target = target
        super().__init__("gathernest", target.cpu)

    def _customize_tm_features(self) -> Any:
        return self._target.features


class _Library(UnloadedLibrary):
    """LLVM IR that is optimised for a target, with one function for others to call.

    Attributes:
        exported: its name; until it has one, all functions are there for others.
    """

    exported: str | None = None

    def _optimize_final_module(self) -> None:
        if self.exported is not None:
            module = self._final_module
            for value in (*module.functions, *module.global_variables):
                if not value.is_declaration and value.name != self.exported:
                    value.linkage = "internal"
        super()._optimize_final_module()


def object_of_program(
    program: Program, name: str, numbers: Sequence[float | Counted], target: Target, no_indices: NoKernel | None = None
) -> bytes:
    """Return the object code of a program, with the C function of that name.

    Args:
        program: the source of a kernel that takes three addresses first.
        name: of the function.
        numbers: what the kernel takes after the addresses; they become constants of the code.
        target: what it is compiled for.
        no_indices: of a function that takes the number of indices, as its fourth argument, what it does for 0 of them.

    Raises:
        CompileError: the backend rejects it, or it calls what C has not.
    """
    codegen = _codegen(target)

    class ToTarget(ToLibrary):
        def new_library(self, target: Any) -> _Library:
            return _Library(codegen, "gathernest")

    def njit(*signature: Any, cache: bool = False, **options: Any) -> Any:
        return numba.njit(*signature, pipeline_class=ToTarget, **options)

    def emit(dispatcher: Any) -> bytes:
        (made,) = dispatcher.overloads.values()
        made.library.exported = name
        with global_compiler_lock:
            made.library.add_ir_module(_function(made, name, numbers, no_indices))
            made.library._ensure_finalized()
            return _emitted(made.library._final_module, codegen)

    return compiled(program, f"<gathernest function {name}>", emit, njit)


def object_without_kernel(name: str, done: NoKernel, target: Target) -> bytes:
    """Return the object code of a C function that runs no kernel."""
    return _emitted(llvm.parse_assembly(str(module_without_kernel(name, done))), _codegen(target))


@functools.lru_cache(maxsize=4)
def _codegen(target: Target) -> _Codegen:
    return _Codegen(target)


def _function(made: Any, name: str, numbers: Sequence[float | Counted], no_indices: NoKernel | None) -> ir.Module:
    """Return a module with a C function of addresses, which calls a compiled kernel on one thread."""
    module = ir.Module(name)
    code = Code(module, name, POINTERS + (no_indices is not None), "external")
    if no_indices is not None:
        with code.if_then(code.icmp_signed("<", code.arguments[-1], I64(1)), likely=False):
            finish(code, I64(no_indices.cleared_bytes), I64(no_indices.result))
    words = [_word(code, number) for number in numbers]
    code.ret(called(code, made, [*code.arguments[:POINTERS], *words, ALONE]))
    return module


def _word(code: Code, number: float | Counted) -> Any:
    if isinstance(number, Counted):
        return code.add(I64(number.base), code.mul(I64(number.slope), code.arguments[-1]))
    return I64(number) if isinstance(number, int) else code.bitcast(ir.DoubleType()(number), I64)


def _emitted(module: Any, codegen: _Codegen) -> bytes:
    unknown = [
        function.name
        for function in module.functions
        if function.is_declaration and not function.name.startswith("llvm.") and function.name not in OF_C
    ]
    if unknown:
        raise ValueError(f"generated code calls {', '.join(unknown)}, which C has not")
    return codegen._tm.emit_object(module)
