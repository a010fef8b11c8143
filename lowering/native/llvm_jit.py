"""Functions on words of 64 bits: written as LLVM IR, compiled, and wrapped as builtins of Python."""

import ctypes
import functools
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import llvmlite.binding as llvm
from llvmlite import ir
from llvmlite.binding import common

WORD_BYTES, FLOAT_BYTES, HALF_BYTES = 8, 4, 2
# How many elements a vector has that is rounded to float16.
ROUNDED_LANES = 16
I64, I32, VOID = ir.IntType(64), ir.IntType(32), ir.VoidType()
NONE, NULL = I64(id(None)), I64(0)
# How Python calls a builtin: `METH_FASTCALL`, and `METH_KEYWORDS` beside it.
FASTCALL, KEYWORDS = 0x0080, 0x0002
# A value of the IR; llvmlite's own annotations do not hold.
Word = Any
# What `keep_for_ever` returns: what it was given.
Kept = TypeVar("Kept")


class _IsFinalizing:
    """True while Python ends."""

    def __bool__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> bool:
        return is_finalizing()


# Threads run machine code until the process ends, so Python frees none of it while it clears modules. llvmlite has a
# flag for that, but sets it in an `atexit` function, which does not run where llvmlite is imported by another one.
_shutting_down: list[Any] = common._shutting_down
_shutting_down[0] = _shutting_down[0] or _IsFinalizing()

_Builder: Any = ir.IRBuilder


class Code(_Builder):
    """Prints one function on words of 64 bits: pointers are words until they are used."""

    def __init__(self, module: ir.Module, name: str, arguments: int, linkage: str = "internal"):
        function = ir.Function(module, ir.FunctionType(I64, [I64] * arguments), name)
        function.linkage = linkage
        super().__init__(function.append_basic_block("begin"))

    @property
    def arguments(self) -> Sequence[Word]:
        return self.function.args

    def variable(self, value: Word) -> Word:
        """Return the place on the stack of a variable, which has that value now."""
        with self.goto_entry_block():
            place = self.alloca(value.type)
        self.store(value, place)
        return place

    @contextmanager
    def counted(self, count: Word) -> Iterator[Word]:
        """Build a loop; its body sees the numbers from 0 to count - 1, one by one."""
        before, (head, body, end) = self.block, map(self.append_basic_block, ("loop", "body", "end"))
        self.branch(head)
        self.position_at_end(head)
        number = self.phi(count.type)
        number.add_incoming(count.type(0), before)
        self.cbranch(self.icmp_signed("<", number, count), body, end)
        self.position_at_end(body)
        yield number
        number.add_incoming(self.add(number, count.type(1)), self.block)
        self.branch(head)
        self.position_at_end(end)

    def load_at(self, base: Word, offset_bytes: int = 0, type_: ir.Type = I64) -> Word:
        """Load a number at base + offset."""
        return self.load(self.inttoptr(self.add(base, I64(offset_bytes)), type_.as_pointer()))

    def word(self, base: Word, place: int) -> Word:
        """Load the word number `place`."""
        return self.load_at(base, WORD_BYTES * place)

    def element(self, base: Word, place: Word) -> Word:
        """Load the word whose number is known at run time."""
        return self.load_at(self.after(base, place))

    def after(self, base: Word, count: Word) -> Word:
        """Return the address `count` words on."""
        return self.add(base, self.mul(count, I64(WORD_BYTES)))

    def number(self, base: Word, offset_bytes: int) -> Word:
        """Load a C int at base + offset."""
        return self.sext(self.load_at(base, offset_bytes, I32), I64)

    def same(self, left: Word, right: Word) -> Word:
        return self.icmp_unsigned("==", left, right)

    def need(self, condition: Word, otherwise: Any) -> None:
        """Continue where a condition holds, and in another block where it does not."""
        following = self.append_basic_block("following")
        self.cbranch(condition, following, otherwise)
        self.position_at_end(following)

    def call_function(self, name: str, *arguments: Word) -> Word:
        """Call another function of the module."""
        return self.call(self.module.get_global(name), arguments)

    def call_address(self, address: Word, *arguments: Word, types: Sequence[ir.Type] = ()) -> Word:
        """Call the function at an address; its arguments and result are words, but for those in `types`."""
        result, *rest = [*types, *[I64] * (1 + len(arguments) - len(types))]
        return self.call(self.inttoptr(address, ir.FunctionType(result, rest).as_pointer()), arguments)

    def call_python(self, name: str, *arguments: Word, result: ir.Type = I64) -> Word:
        """Call a function of Python's C API."""
        return self.call_address(address_in(ctypes.pythonapi, name), *arguments, types=[result])


def address_in(library: ctypes.CDLL, name: str) -> ir.Constant:
    """Return the address of a library's function."""
    return I64(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)


def keep_for_ever(value: Kept) -> Kept:
    """Keep an object that machine code points to until the process ends: beyond the end of Python, too."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    return value


def machine_code(module: ir.Module) -> Callable[[str], int]:
    """Compile a module, and return a function from the name of a function to its address.

    Without optimisation passes: they double the compile time of the fast call, 20 ms, with no measurable gain.
    """
    engine = new_engine(str(module))
    keep_for_ever(engine).finalize_object()
    return engine.get_function_address


def new_engine(text: str) -> llvm.ExecutionEngine:
    """Return an engine with a module of LLVM IR, not compiled yet; it frees the machine code when it is freed."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(text), target)


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


@functools.cache
def rounding() -> Callable[[int, int, int], int] | None:
    """Return `round(source, target, count)`, which rounds float32 at an address to float16 at another, without the GIL.

    It takes 0.3 ns an element, the cast of NumPy 4.4 ns. None is returned where the CPU has no instruction for it.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    if not features.get("f16c", platform.machine() in ("arm64", "aarch64")):
        return None
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=2, jit=True
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_rounding_code()), machine)
    keep_for_ever(engine).finalize_object()
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(engine.get_function_address("round_halves"))


def _rounding_code() -> str:
    """Return the function as LLVM IR: vectors, then the elements that fill none."""
    module = ir.Module("round_halves")
    code = Code(module, "round_halves", 3, linkage="external")
    source, target, count = code.arguments
    vectors = code.lshr(count, I64(ROUNDED_LANES.bit_length() - 1))
    with code.counted(vectors) as number:
        _round(code, source, target, code.mul(number, I64(ROUNDED_LANES)), ROUNDED_LANES)
    done = code.mul(vectors, I64(ROUNDED_LANES))
    with code.counted(code.sub(count, done)) as number:
        _round(code, source, target, code.add(done, number), 1)
    code.ret(I64(0))
    return str(module)


def _round(code: Code, source: Word, target: Word, first: Word, lanes: int) -> None:
    """Round so many elements from `first` on, at any addresses."""
    wide, narrow = ir.VectorType(ir.FloatType(), lanes), ir.VectorType(ir.HalfType(), lanes)
    read = code.inttoptr(code.add(source, code.mul(first, I64(FLOAT_BYTES))), wide.as_pointer())
    written = code.inttoptr(code.add(target, code.mul(first, I64(HALF_BYTES))), narrow.as_pointer())
    code.store(code.fptrunc(code.load(read, align=1), narrow), written, align=1)
