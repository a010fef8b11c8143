"""Adapters between C and Numba's calling convention: one function for each number of kernel arguments."""

from typing import Any

from llvmlite import ir

from .llvm_jit import I64, Code, machine_code

_adapters: dict[tuple[Any, ...], int] = {}


def native_kernel(dispatcher: Any) -> tuple[int, int]:
    """Return the addresses of a compiled kernel and of the adapter that calls it.

    Args:
        dispatcher: the kernel as Numba gives it, with one signature.

    Raises:
        NotImplementedError: a number that it takes is no integer of 64 bits.
    """
    (compiled,) = dispatcher.overloads.values()
    function = compiled.fndesc
    address = compiled.library.get_pointer_to_function(function.llvm_func_name)
    return address, adapter(compiled.target_context.call_conv, function.restype, tuple(function.argtypes))


def adapter(convention: Any, result: Any, arguments: tuple[Any, ...]) -> int:
    """Return the address of a C function that calls kernels of one signature.

    Its arguments are words: the addresses of the kernel, of data, indices and out, of the numbers, and of the thread
    team. It returns the kernel's result, or -1 when the kernel raises.

    Args:
        convention: Numba's calling convention, which knows how its functions are called.
        result, arguments: the Numba types of the kernel: three addresses, then numbers, then the team.

    Raises:
        NotImplementedError: a number is no integer of 64 bits.
    """
    if any(str(kind) != "int64" for kind in (result, *arguments)):
        raise NotImplementedError
    if arguments not in _adapters:
        module = ir.Module("gathernest_adapter")
        code = Code(module, "adapter", 6, "external")
        kernel, *addresses, numbers, team = code.arguments
        values = [code.word(numbers, place) for place in range(len(arguments) - 4)]
        callee = code.inttoptr(kernel, convention.get_function_type(result, arguments).as_pointer())
        status, count = convention.call_function(code, callee, result, arguments, [*addresses, *values, team])
        code.ret(code.select(status.is_ok, count, I64(-1)))
        _adapters[arguments] = machine_code(module)("adapter")
    return _adapters[arguments]
