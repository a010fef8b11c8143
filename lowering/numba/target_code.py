"""Object code for a named CPU: a C function of three addresses around a kernel, its sizes constants of the code.

It needs neither Python nor Numba, and calls only functions to which C compilers add calls by themselves, and `malloc`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from ..native.c_function_ir import ALONE, finish, module_without_kernel
from ..native.kernel_code import POINTERS, Counted, NoKernel
from ..native.llvm_jit import target_machine
from ..native.word_code import I64, Code
from .compiler import compiled
from .object_code import MachineCode, called, optimised
from .program import Program

# Functions that the code may call; the last two are Linux's. LLVM writes loops that copy or clear as calls, and
# gradients that sort indices allocate.
OF_C = {"memcpy", "memmove", "memset", "malloc", "free", "aligned_alloc", "madvise"}


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU of this machine's architecture, as LLVM names it.

    Attributes:
        cpu: its name, such as `znver3`.
        features: the features that differ from the named CPU's, as LLVM writes them: `+avx2,-avx512f`.
    """

    cpu: str
    features: str = ""

    @property
    def machine(self) -> llvm.TargetMachine:
        """LLVM's target of this CPU, for code of a library."""
        return target_machine(self.cpu, self.features, opt=3, reloc="pic", codemodel="default")


def object_of_program(
    program: Program, name: str, numbers: Sequence[float | Counted], target: Target, no_indices: NoKernel | None = None
) -> bytes:
    """Return the object code of a program, with the C function of that name.

    Args:
        program: the source of a kernel that takes three addresses first.
        name: of the function.
        numbers: the arguments of the kernel after the addresses; they become constants of the code.
        target: the CPU that it is compiled for.
        no_indices: the effect of a function that takes the number of indices as its fourth argument, where that is 0.

    Raises:
        CompileError: the backend rejects it, or it calls a function that C does not have.
    """
    function = compiled(program, f"<gathernest function {name}>")
    entry = _function(function, name, numbers, no_indices)
    return optimised(function, target.machine, entry).object_code(known=OF_C)


def object_without_kernel(name: str, done: NoKernel, target: Target) -> bytes:
    """Return the object code of a C function that runs no kernel."""
    module = llvm.parse_assembly(str(module_without_kernel(name, done)))
    return MachineCode(module, target.machine).object_code(known=OF_C)


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
