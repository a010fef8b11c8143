"""Functions on words of 64 bits, written as LLVM IR, and their object code. Imported only where something is compiled.

Object code is stored and loaded by other processes, so it has no address of this one: objects of Python and functions
that it calls are words of a table, which `llvm_jit.load_object` fills.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from .call_layout import WORD_BYTES
from .llvm_jit import PLACE_OF_WORDS, host_cpu, target_machine

I64, I32, VOID = ir.IntType(64), ir.IntType(32), ir.VoidType()
NULL = I64(0)
TABLE = "words"
# A value of the IR; llvmlite's own annotations are wrong.
Word = Any

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
        """Return the place on the stack of a new variable with that value."""
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

    def require(self, condition: Word, otherwise: Any) -> None:
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

    def known(self, name: str) -> Word:
        """Return the word of that name, such as the address of a function; the loader of the module sets it."""
        table, place = self.module.get_global(TABLE), self.module.words.index(name)
        return self.load(self.gep(table, [I32(0), I32(place)]))

    def call_known(self, name: str, *arguments: Word, result: ir.Type = I64) -> Word:
        """Call the function of that name, whose address is a word."""
        return self.call_address(self.known(name), *arguments, types=[result])


class WordModule(ir.Module):
    """A module whose functions know words by their names.

    Attributes:
        words: the names, in the order of the table.
    """

    def __init__(self, name: str, words: Sequence[str]):
        super().__init__(name)
        self.words = list(words)
        table: Any = ir.GlobalVariable(self, ir.ArrayType(I64, len(self.words)), TABLE)
        table.linkage, table.initializer = "internal", ir.Constant(table.value_type, None)
        code = Code(self, PLACE_OF_WORDS, 0, "external")
        code.ret(code.ptrtoint(table, I64))


def object_of(module: ir.Module, *, is_vector: bool = False) -> bytes:
    """Return the object code of a module, for the features of this CPU where it has vectors.

    Without optimisation passes: they double the compile time of the fast call, 20 ms, with no measurable gain.
    """
    machine = target_machine(*host_cpu(), opt=2, jit=True) if is_vector else target_machine(opt=1, jit=True)
    return machine.emit_object(llvm.parse_assembly(str(module)))
