"""Numba's compiler without its engine, which never frees what it has loaded: from a function to object code."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import typed_passes, untyped_passes
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.typing.context import Context

from ..native.kernel_code import ENTRY, POINTERS
from ..native.word_code import I64, Code

# Numba's passes that change nothing of generated source, which has none of what they look for: closures, contexts,
# literals of lists, branches on constants, overloads to inline, array expressions. They take a tenth of a first call.
WITHOUT_EFFECT = {
    untyped_passes.WithLifting,
    untyped_passes.InlineClosureLikes,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,
    untyped_passes.GenericRewrites,
    untyped_passes.RewriteDynamicRaises,
    untyped_passes.MakeFunctionToJitFunction,
    untyped_passes.InlineInlinables,
    untyped_passes.FindLiterallyCalls,
    untyped_passes.LiteralUnroll,
    untyped_passes.LiteralPropagationSubPipelinePass,
    typed_passes.InlineOverloads,
    typed_passes.NopythonRewrites,
    typed_passes.NoPythonSupportedFeatureValidation,
    typed_passes.DumpParforDiagnostics,
}
# Types of arguments by which the type of a call is not remembered: a compiled function would live as long.
OF_FUNCTIONS = (types.Callable, types.BaseTuple)


class UnloadedLibrary(CPUCodeLibrary):
    """Optimised LLVM IR that is loaded nowhere."""

    def _finalize_final_module(self) -> None:
        self._verify_declare_only_symbols()
        self._finalized = True


class _Typing(Context):
    """Numba's context of types, whose state it shares. It remembers the types of calls.

    Numba tries all signatures of an operator at each use, those of NumPy's functions too: half of its type inference.
    """

    def __init__(self, original: Context):
        self.__dict__ = original.__dict__

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        if kws or not isinstance(func, types.Function) or any(isinstance(type_, OF_FUNCTIONS) for type_ in args):
            return super().resolve_function_type(func, args, kws)
        return _type_of_call(self, func, args)


# One for each context of Numba: it remembers intrinsics by the context, too.
_typing = functools.cache(_Typing)


@functools.lru_cache(maxsize=4096)
def _type_of_call(context: _Typing, function: Any, arguments: Any) -> Any:
    return Context.resolve_function_type(context, function, arguments, {})


class ToLibrary(Compiler):
    """Numba's pipeline from a function to a library, with no wrapper that Python could call."""

    def __init__(self, typing: Any, target: Any, library: Any, arguments: Any, result: Any, flags: Any, locals_: Any):
        flags = flags.copy()
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        library = self.new_library(target)
        super().__init__(_typing(typing), target, library, arguments, result, flags, locals_)

    def new_library(self, target: Any) -> CPUCodeLibrary:
        """Return the library of one function, for the CPU of this process."""
        return UnloadedLibrary(target.codegen(), "gathernest")

    def define_pipelines(self) -> list[PassManager]:
        """Return Numba's passes without those of `WITHOUT_EFFECT`."""
        (all_passes,) = super().define_pipelines()
        pipeline = PassManager(all_passes.pipeline_name)
        for made, description in all_passes.passes:
            if made not in WITHOUT_EFFECT:
                pipeline.add_pass(made, description)
        pipeline.finalize()
        return [pipeline]

    def compile_extra(self, func: Any) -> Any:
        compiled = super().compile_extra(func)
        stands_for_it = [].append  # Numba finds functions that others call by builtins, each of its own identity
        compiled.target_context.insert_user_function(stands_for_it, compiled.fndesc, [compiled.library])
        return compiled._replace(entry_point=stands_for_it)


class _ToLibraryWithLines(ToLibrary):
    """The same, and each instruction names its line of the source. LLVM makes the same instructions."""

    def __init__(self, typing: Any, target: Any, library: Any, arguments: Any, result: Any, flags: Any, locals_: Any):
        flags = flags.copy()
        flags.debuginfo = flags.dbg_directives_only = True
        super().__init__(typing, target, library, arguments, result, flags, locals_)


def njit(*signature: Any, cache: bool = False, **options: Any) -> Any:
    """Do as `numba.njit`, but load and cache nothing: what generated source imports is replaced by this."""
    return numba.njit(*signature, pipeline_class=ToLibrary, **options)


def njit_with_lines(*signature: Any, cache: bool = False, **options: Any) -> Any:
    """Do as `njit`, and have each instruction name its line of the source."""
    return numba.njit(*signature, pipeline_class=_ToLibraryWithLines, **options)


def forget(values: Iterable[Any]) -> None:
    """Have Numba's context forget those of the values that are compiled functions."""
    for value in values:
        for compiled in getattr(value, "overloads", {}).values():
            compiled.target_context.remove_user_function(compiled.entry_point)


def library_of(dispatcher: Any) -> Any:
    """Return the optimised library of a function with one signature, for inspection: what it calls is inlined.

    Its `get_llvm_str()` and `get_asm_str()` are text.
    """
    (compiled,) = dispatcher.overloads.values()
    with global_compiler_lock:
        compiled.library._ensure_finalized()
    return compiled.library


def object_code(dispatcher: Any) -> bytes:
    """Return the object code of a function with one signature, with the C function `ENTRY` that calls it.

    The arguments of `ENTRY` are words: three addresses, that of the other arguments, and the last argument.

    Raises:
        ValueError: it calls what this process does not have.
    """
    library = library_of(dispatcher)
    module = library._final_module
    unknown = [
        function.name
        for function in module.functions
        if function.is_declaration and not function.name.startswith("llvm.") and not _is_known(function.name)
    ]
    if unknown:  # LLVM would end the process
        raise ValueError(f"generated code calls {', '.join(unknown)}, which this process does not have")
    (compiled,) = dispatcher.overloads.values()
    module.link_in(llvm.parse_assembly(str(_entry(compiled))))
    module.verify()
    return library.codegen._tm.emit_object(module)


def _is_known(function: str) -> bool:
    return llvm.address_of_symbol(function) is not None


def _entry(compiled: Any) -> ir.Module:
    """Return a module with `ENTRY`, which declares the function that it calls."""
    module, count = ir.Module("gathernest_entry"), len(compiled.fndesc.argtypes)
    code = Code(module, ENTRY, POINTERS + 2, "external")
    *addresses, numbers, team = code.arguments
    values = [*addresses, *(code.word(numbers, place) for place in range(count - POINTERS - 1))]
    code.ret(called(code, compiled, [*values[: count - 1], team]))
    return module


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
