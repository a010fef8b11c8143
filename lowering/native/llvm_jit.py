"""Object code in this process: it is loaded, its words are filled, and it is wrapped as builtins of Python."""

import ctypes
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import llvmlite.binding as llvm
from llvmlite.binding import common

# How Python calls a builtin: `METH_FASTCALL`, and `METH_KEYWORDS` beside it.
FASTCALL, KEYWORDS = 0x0080, 0x0002
# The function that returns the address of the table of words.
PLACE_OF_WORDS = "place_of_words"
# The type of the argument and the result of `keep_for_ever`.
Kept = TypeVar("Kept")
# A store returns the object code of a name, which it calls the function to make where it has none.
Store = Callable[[str, Callable[[], bytes]], bytes]


def store_nothing(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the object code that `make` makes."""
    return make()


class _IsFinalizing:
    """True while Python ends."""

    def __bool__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> bool:
        return is_finalizing()


# Threads run machine code until the process ends, so Python frees none of it while it clears modules. llvmlite has a
# flag for that, but sets it in an `atexit` function, which does not run where llvmlite is imported by another one.
_shutting_down: list[Any] = common._shutting_down
_shutting_down[0] = _shutting_down[0] or _IsFinalizing()


def address_in(library: ctypes.CDLL, name: str) -> int:
    """Return the address of a library's function."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def keep_for_ever(value: Kept) -> Kept:
    """Keep an object that machine code points to until the process ends, even after Python has ended."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    return value


def load_object(code: bytes, words: Mapping[str, int]) -> Callable[[str], int]:
    """Load object code that is never freed, and return a function from the name of a function to its address.

    Args:
        code: object code of a `WordModule`, or of another module where there are no words.
        words: the values of its words, in the order of its table.
    """
    engine = keep_for_ever(new_engine(""))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    if words:
        fill_words(engine, words)
    return engine.get_function_address


def fill_words(engine: llvm.ExecutionEngine, words: Mapping[str, int]) -> None:
    """Fill the table of words in the code of an engine; the words are in the order of the table."""
    place = ctypes.CFUNCTYPE(ctypes.c_int64)(engine.get_function_address(PLACE_OF_WORDS))()
    (ctypes.c_int64 * len(words)).from_address(place)[:] = list(words.values())


def new_engine(text: str) -> llvm.ExecutionEngine:
    """Return an engine with a module of LLVM IR, not compiled yet; it frees the machine code when it is freed."""
    return llvm.create_mcjit_compiler(llvm.parse_assembly(text), target_machine(opt=1, jit=True))


def target_machine(cpu: str = "", features: str = "", **settings: Any) -> llvm.TargetMachine:
    """Return LLVM's target of this process for a CPU, any where none is named; `settings` are llvmlite's."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(cpu, features, **settings)


def host_cpu() -> tuple[str, str]:
    """Return the name and the features of this CPU."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, *levels: int) -> None:
    """Run LLVM's passes on a module, once for each level."""
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    for level in levels:
        options = llvm.create_pipeline_tuning_options(level)
        options.loop_vectorization, options.slp_vectorization = True, False
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)


class _Method(ctypes.Structure):
    _types = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
    _fields_ = tuple(zip(("name", "function", "flags", "doc"), _types, strict=True))


def builtin(name: str, address: Callable[[str], int], flags: int) -> Callable[[Any], Any]:
    """Return a function that binds machine code to its first argument."""
    method = keep_for_ever(_Method(name.encode(), address(name), flags, None))
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    return lambda self: new(ctypes.addressof(method), self, None)
