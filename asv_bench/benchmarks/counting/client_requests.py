"""Requests of a program to the valgrind that it runs in, as machine code: they delimit what callgrind counts.

valgrind takes four rotations of rdi by 128 bits in all, which change nothing on a processor, and an exchange of rbx
with itself for a request; rax points to its number and arguments. See "Client Request mechanism" in its manual.
"""

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

START, STOP, DUMP = 0x43540004, 0x43540005, 0x43540000  # of callgrind, tool "CT"
RUNNING_ON_VALGRIND = 0x1001
CODE = bytes.fromhex(
    "4889f8"  # mov rax, rdi: the request
    "31d2"  # xor edx, edx: the answer where nobody takes it
    "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rol rdi by 3, 13, 61, 51
    "4887db"  # xchg rbx, rbx
    "4889d0"  # mov rax, rdx: the answer
    "c3"
)


class Requests:
    """Requests by number; `count` surrounds a call with the two that start and stop counting."""

    def __init__(self) -> None:
        self._code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._code.write(CODE)
        self._address = ctypes.c_char.from_buffer(self._code)
        self._send = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(ctypes.addressof(self._address))
        self._words = {one: (ctypes.c_uint64 * 6)(one) for one in (START, STOP, DUMP, RUNNING_ON_VALGRIND)}

    def send(self, number: int) -> int:
        """Send a request and return the answer, which is 0 outside of valgrind."""
        return int(self._send(self._words[number]))

    def count(self, call: Callable[[], Any]) -> None:
        """Make a call, and have callgrind write the instructions of it to its next file."""
        send, start, stop = self._send, self._words[START], self._words[STOP]
        send(start)
        call()
        send(stop)
        self.send(DUMP)
