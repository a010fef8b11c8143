"""C functions as LLVM IR: the gather and the rounding. Imported only where they are compiled."""

from collections.abc import Sequence

from llvmlite import ir

from .kernel_code import POINTERS, NoKernel
from .word_code import I64, Code, Word, WordModule, object_of

FLOAT_BYTES, HALF_BYTES = 4, 2
# Elements are rounded to float16 in vectors of this number.
ROUNDED_LANES = 16
# No thread team: the calling thread runs every tile.
ALONE = I64(0)


def function_object(name: str, words: Sequence[str]) -> bytes:
    """Return the object code of `c_function.CFunction`, whose table has words of these names."""
    module = WordModule(name, words)
    code = Code(module, name, POINTERS, "external")
    kernel = code.known("kernel")
    with code.if_then(code.same(kernel, I64(0))):
        finish(code, code.known("cleared bytes"), code.known("result"))
    code.ret(code.call_address(kernel, *code.arguments, code.known("numbers"), ALONE))
    return object_of(module)


def module_without_kernel(name: str, done: NoKernel) -> ir.Module:
    """Return a module with the function of that name, which runs no kernel."""
    module = ir.Module(name)
    finish(Code(module, name, POINTERS, "external"), I64(done.cleared_bytes), I64(done.result))
    return module


def finish(code: Code, cleared_bytes: Word, result: Word) -> None:
    """End a function, whose third argument is the result of a gather, without a kernel."""
    pointer, byte = ir.IntType(8).as_pointer(), ir.IntType(8)
    clear = code.module.declare_intrinsic("llvm.memset", [pointer, I64])
    out = code.inttoptr(code.arguments[POINTERS - 1], pointer)
    code.call(clear, [out, byte(0), cleared_bytes, ir.IntType(1)(0)])
    code.ret(result)


def rounding_object() -> bytes:
    """Return the object code of `c_function.rounding`: it rounds vectors, then the elements that fill no vector."""
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
    return object_of(module, is_vector=True)


def _round(code: Code, source: Word, target: Word, first: Word, lanes: int) -> None:
    """Round `lanes` elements from `first` on, at any addresses."""
    wide, narrow = ir.VectorType(ir.FloatType(), lanes), ir.VectorType(ir.HalfType(), lanes)
    read = code.inttoptr(code.add(source, code.mul(first, I64(FLOAT_BYTES))), wide.as_pointer())
    written = code.inttoptr(code.add(target, code.mul(first, I64(HALF_BYTES))), narrow.as_pointer())
    code.store(code.fptrunc(code.load(read, align=1), narrow), written, align=1)
