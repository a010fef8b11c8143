"""From a function of a generated program to machine code: Numba writes its LLVM IR, and LLVM's passes run here.

Numba is called by functions, and none of its classes is replaced: its passes from Python to LLVM IR run, but not its
engine, which never frees loaded code. The functions that a function calls join its module before LLVM's passes, which
optimise the whole module for this CPU or for a named one.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from ..native.kernel_code import ENTRY, POINTERS
from ..native.llvm_jit import optimise, target_machine
from ..native.word_code import I64, Code

# LLVM's passes run at the one level and then at the other. The second run finds invariants of loops that the first has
# unrolled: the loop that copies rows of 256 bytes has 86 instructions in place of 107.
LEVELS = 1, 3


@dataclass(frozen=True, slots=True)
class MachineCode:
    """A module after LLVM's passes, and the target that it is for."""

    module: llvm.ModuleRef
    machine: llvm.TargetMachine

    def get_llvm_str(self) -> str:
        """Return its LLVM IR."""
        return str(self.module)

    def get_asm_str(self) -> str:
        """Return its assembly."""
        return self.machine.emit_assembly(self.module)

    def object_code(self, *, known: Container[str] | None = None) -> bytes:
        """Return its object code.

        Args:
            known: the functions that it may call; all functions of this process when omitted.

        Raises:
            ValueError: it calls another, and LLVM would end the process that loads it.
        """
        called = [
            function.name
            for function in self.module.functions
            if function.is_declaration and not function.name.startswith("llvm.")
        ]
        has = known.__contains__ if known is not None else lambda name: llvm.address_of_symbol(name) is not None
        if unknown := [name for name in called if not has(name)]:
            where = "which this process does not have" if known is None else "which C has not"
            raise ValueError(f"generated code calls {', '.join(unknown)}, {where}")
        return self.machine.emit_object(self.module)


def compile_function(function: Any, arguments: Sequence[Any], result: Any, *, with_lines: bool = False) -> Any:
    """Return Numba's compilation of a plain Python function: its library has LLVM IR, which is loaded nowhere."""
    flags: Any = Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_rewrites = True
    flags.error_model = "numpy"
    flags.debuginfo = flags.dbg_directives_only = with_lines
    with global_compiler_lock:
        return compile_extra(
            cpu_target.typing_context, cpu_target.target_context, function, tuple(arguments), result, flags, {}
        )


def optimised(compiled: Any, machine: llvm.TargetMachine | None = None, entry: ir.Module | None = None) -> MachineCode:
    """Return the machine code of a compiled function.

    Args:
        compiled: the result of `compile_function`.
        machine: the target; this CPU when omitted.
        entry: a module of functions that call the compiled one. Then only they are visible to others; without it, the
            compiled function is.
    """
    machine = machine or host_machine()
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    names = [compiled.fndesc.llvm_func_name]
    if entry is not None:
        names = [function.name for function in entry.functions if not function.is_declaration]
        module.link_in(llvm.parse_assembly(str(entry)))
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in names:
            value.linkage = "internal"
    optimise(module, machine, *LEVELS)
    module.verify()
    return MachineCode(module, machine)


def host_machine() -> llvm.TargetMachine:
    """Return the target of this process, with the CPU and the features that Numba compiles for."""
    context: Any = cpu_target.target_context
    triple, cpu, features = context.codegen().magic_tuple()
    reloc = "static" if triple.startswith("x86") else "default"
    return target_machine(cpu, features, opt=3, reloc=reloc, codemodel="jitdefault", jit=True)


def add_entry(compiled: Any, code: MachineCode) -> None:
    """Add the C function `ENTRY`, which calls a compiled function, to the machine code of the latter.

    Its arguments are words: three addresses, the address of the other arguments, and the last argument.
    """
    module, count = ir.Module("gathernest_entry"), len(compiled.fndesc.argtypes)
    entry = Code(module, ENTRY, POINTERS + 2, "external")
    *addresses, numbers, team = entry.arguments
    values = [*addresses, *(entry.word(numbers, place) for place in range(count - POINTERS - 1))]
    entry.ret(called(entry, compiled, [*values[: count - 1], team]))
    code.module.link_in(llvm.parse_assembly(str(module)))
    code.module.verify()


def called(code: Code, compiled: Any, words: Sequence[Any]) -> Any:
    """Call a compiled function, which is declared, with a word for each of its arguments; -1 where it raises."""
    convention, function = compiled.target_context.call_conv, compiled.fndesc
    taken, values = function.argtypes, list(words)
    for place, type_ in enumerate(taken):
        if isinstance(type_, types.Float):
            double = code.bitcast(values[place], ir.DoubleType())
            values[place] = double if type_ == types.float64 else code.fptrunc(double, ir.FloatType())
        elif type_.bitwidth < 64:
            values[place] = code.trunc(values[place], ir.IntType(type_.bitwidth))
    kind = convention.get_function_type(function.restype, taken)
    callee = ir.Function(code.module, kind, function.llvm_func_name)
    status, result = convention.call_function(code, callee, function.restype, taken, values)
    return code.select(status.is_ok, result, I64(-1))
