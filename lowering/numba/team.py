"""A team of threads that share the tiles of a kernel, as machine code.

Each member has a range of tiles of its own, takes them one by one, and then helps the others; the caller is the first
member. It waits for those who have begun, never for one that the system has yet to wake: where no other core is free,
it does all tiles itself. Numba's threads and OpenMP's divide the work beforehand and wait for all of them, which costs
a time slice of the system, some milliseconds, whenever one comes late.

A member that has nothing to do looks for more for some 100 microseconds, and then sleeps. Members that are woken may
run on every core that the caller may, but for its own: Linux likes to put them there, where they would wait for the
caller.
"""

import ctypes
import signal
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils

from .machine_code import I32, I64, KEPT, VOID, WORD_BYTES, Code, Word, machine_code

LINE_BYTES = 64
MASK_BYTES = 128
"""A bit for each of 1024 cores."""
SPINS = 5000
"""How often a member looks for work before it sleeps, and the caller for the end before it lets others run."""
_MIX = 0x9E3779B97F4A7C15


class At(IntEnum):
    """The words of a team; what different threads write lies in lines of 64 bytes of its own."""

    RUN = 0  # the address of `run`
    LIMIT = 1  # how many members are to share the next kernel, the caller among them
    SIZE = 2  # how many there are
    PLACED = 3  # which cores the members may run on, as a hash
    GENERATION = 8  # odd while there are tiles to take
    FUNCTION = 9  # function(arguments, tile) does a tile
    ARGUMENTS = 10
    PARTS = 11  # how many members share the tiles
    ACTIVE = 16  # how many members but the caller may look at the words above and at the ranges
    TOTAL = 17  # the sum of what their tiles returned
    SLEEPERS = 24
    MUTEX = 32
    CONDITION = 40
    MASK = 48
    MEMBERS = 64


class Member(IntEnum):
    """The words of a member, a line."""

    NEXT = 0  # the next tile of its range
    END = 1
    TEAM = 2
    NUMBER = 3
    HANDLE = 4  # of its thread
    WORDS = 8


class _Shared(Code):
    """Prints a function on words that several threads use."""

    def place(self, base: Word, word: int) -> Word:
        return self.inttoptr(self.add(base, I64(WORD_BYTES * word)), I64.as_pointer())

    def look(self, base: Word, word: int) -> Word:
        """Load a word that another thread may be changing."""
        return self.load_atomic(self.place(base, word), "seq_cst", WORD_BYTES)

    def count(self, base: Word, word: int, change: int) -> Word:
        """Add to a word that another thread may be changing, and return what it was."""
        return self.atomic_rmw("add", self.place(base, word), I64(change), "seq_cst")

    def put(self, base: Word, word: int, value: Word) -> None:
        self.store(value, self.place(base, word))

    def member(self, team: Word, number: Word) -> Word:
        return self.after(self.add(team, I64(WORD_BYTES * At.MEMBERS)), self.mul(number, I64(Member.WORDS)))

    def call_c(self, name: str, *arguments: Word, result: ir.Type = I32) -> Word:
        """Call a function of the C library."""
        return self.call_address(_address_of(name), *arguments, types=[result])

    def pause(self) -> None:
        """Tell the processor that this is a loop that waits."""
        name, types = _PAUSES.get(llvm.get_process_triple().partition("-")[0], ("", []))
        if name:
            function = cgutils.get_or_insert_function(self.module, ir.FunctionType(VOID, types), name)
            self.call(function, [ir.Constant(type_, 1) for type_ in types])


_PAUSES: dict[str, tuple[str, list[ir.Type]]] = {
    "x86_64": ("llvm.x86.sse2.pause", []),
    "aarch64": ("llvm.aarch64.hint", [I32]),
    "arm64": ("llvm.aarch64.hint", [I32]),
}


def _address_of(name: str) -> ir.Constant:
    return I64(ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value or 0)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _work(module: ir.Module) -> None:
    """work(team, me): do the tiles of this member's range, then those left of the others; the sum of their results."""
    code = _Shared(module, "work", 2)
    team, me = code.arguments
    parts, function, arguments = (code.word(team, at) for at in (At.PARTS, At.FUNCTION, At.ARGUMENTS))
    total = cgutils.alloca_once_value(code, I64(0))
    with cgutils.for_range(code, parts) as loop:
        member = code.member(team, code.urem(code.add(me, loop.index), parts))
        end = code.word(member, Member.END)
        take, do, done = map(code.append_basic_block, ("take", "do", "done"))
        code.branch(take)
        code.position_at_end(take)
        tile = code.count(member, Member.NEXT, 1)
        code.cbranch(code.icmp_signed("<", tile, end), do, done)
        code.position_at_end(do)
        result = code.call_address(function, arguments, tile)
        code.store(code.add(code.load(total), result), total)
        code.branch(take)
        code.position_at_end(done)
    code.ret(code.load(total))


def _run(module: ir.Module) -> None:
    """run(team, function, arguments, tiles): do all tiles; the sum of their results."""
    code = _Shared(module, "run", 4, "external")
    team, function, arguments, tiles = code.arguments
    parts = code.word(team, At.LIMIT)
    for most in (tiles, code.word(team, At.SIZE)):
        parts = code.select(code.icmp_signed("<", parts, most), parts, most)
    parts = code.select(code.icmp_signed(">", parts, I64(1)), parts, I64(1))
    with cgutils.for_range(code, parts) as loop:
        member = code.member(team, loop.index)
        code.put(member, Member.NEXT, code.udiv(code.mul(tiles, loop.index), parts))
        code.put(member, Member.END, code.udiv(code.mul(tiles, code.add(loop.index, I64(1))), parts))
    for at, value in ((At.FUNCTION, function), (At.ARGUMENTS, arguments), (At.PARTS, parts), (At.TOTAL, I64(0))):
        code.put(team, at, value)
    with code.if_then(code.same(parts, I64(1))):
        code.ret(code.call_function("work", team, I64(0)))
    code.count(team, At.GENERATION, 1)
    with code.if_then(code.not_(code.same(code.look(team, At.SLEEPERS), I64(0)))):
        code.call_function("wake", team)
    total = code.call_function("work", team, I64(0))
    code.count(team, At.GENERATION, 1)
    _wait_for_others(code, team)
    code.ret(code.add(total, code.look(team, At.TOTAL)))


def _wait_for_others(code: _Shared, team: Word) -> None:
    """Go on when no member is active any more."""
    spins = cgutils.alloca_once_value(code, I64(0))
    check, wait, over = map(code.append_basic_block, ("check", "wait", "over"))
    code.branch(check)
    code.position_at_end(check)
    code.cbranch(code.same(code.look(team, At.ACTIVE), I64(0)), over, wait)
    code.position_at_end(wait)
    count = code.load(spins)
    code.store(code.add(count, I64(1)), spins)
    with code.if_else(code.icmp_signed("<", count, I64(SPINS))) as (soon, late):
        with soon:
            code.pause()
        with late:
            code.call_c("sched_yield")
    code.branch(check)
    code.position_at_end(over)


def _wake(module: ir.Module) -> None:
    """wake(team): wake the members that sleep, on other cores than this."""
    code = _Shared(module, "wake", 1)
    (team,) = code.arguments
    if _can_place():
        code.call_function("place", team)
    mutex = code.add(team, I64(WORD_BYTES * At.MUTEX))
    code.call_c("pthread_mutex_lock", mutex)
    code.call_c("pthread_cond_broadcast", code.add(team, I64(WORD_BYTES * At.CONDITION)))
    code.call_c("pthread_mutex_unlock", mutex)
    code.ret(I64(0))


def _can_place() -> bool:
    """Return whether the system lets a thread choose the cores of another."""
    names = ("sched_getcpu", "sched_getaffinity", "pthread_setaffinity_np")
    return all(hasattr(_libc(), name) for name in names)


def _place(module: ir.Module) -> None:
    """place(team): let the members run on the cores of the calling thread but for the one that it is on, if any."""
    code = _Shared(module, "place", 1)
    (team,) = code.arguments
    keep = code.append_basic_block("keep")
    mask = code.add(team, I64(WORD_BYTES * At.MASK))
    core = code.sext(code.call_c("sched_getcpu"), I64)
    code.need(code.icmp_unsigned("<", core, I64(8 * MASK_BYTES)), keep)
    size = code.call_c("sched_getaffinity", I64(0), I64(MASK_BYTES), mask)
    code.need(code.icmp_signed(">=", size, I32(0)), keep)
    word = code.after(mask, code.udiv(core, I64(64)))
    others = code.and_(code.word(word, 0), code.not_(code.shl(I64(1), code.urem(core, I64(64)))))
    code.put(word, 0, others)
    any_, hash_ = cgutils.alloca_once_value(code, I64(0)), cgutils.alloca_once_value(code, I64(0))
    with cgutils.for_range(code, I64(MASK_BYTES // WORD_BYTES)) as loop:
        bits = code.element(mask, loop.index)
        code.store(code.or_(code.load(any_), bits), any_)
        code.store(code.mul(code.xor(code.load(hash_), bits), I64(_MIX)), hash_)
    mixed = code.xor(code.load(hash_), code.word(team, At.SIZE))
    code.need(code.not_(code.same(code.load(any_), I64(0))), keep)
    code.need(code.not_(code.same(mixed, code.word(team, At.PLACED))), keep)
    code.put(team, At.PLACED, mixed)
    with cgutils.for_range(code, code.sub(code.word(team, At.SIZE), I64(1))) as loop:
        handle = code.word(code.member(team, code.add(loop.index, I64(1))), Member.HANDLE)
        code.call_c("pthread_setaffinity_np", handle, I64(MASK_BYTES), mask)
    code.branch(keep)
    code.position_at_end(keep)
    code.ret(I64(0))


def _await(module: ir.Module) -> None:
    """await(team, seen): wait until there are tiles to take of another generation than that seen, and return it."""
    code = _Shared(module, "await", 2)
    team, seen = code.arguments
    found = code.append_basic_block("found")
    holder = cgutils.alloca_once(code, I64)

    def leave_where_new(block: Any) -> None:
        generation = code.look(team, At.GENERATION)
        code.store(generation, holder)
        is_open = code.same(code.and_(generation, I64(1)), I64(1))
        following = code.append_basic_block("following")
        code.cbranch(code.and_(is_open, code.not_(code.same(generation, seen))), block, following)
        code.position_at_end(following)

    with cgutils.for_range(code, I64(SPINS)):
        leave_where_new(found)
        code.pause()
    mutex, condition = (code.add(team, I64(WORD_BYTES * at)) for at in (At.MUTEX, At.CONDITION))
    code.call_c("pthread_mutex_lock", mutex)
    code.count(team, At.SLEEPERS, 1)
    look, awake = code.append_basic_block("look"), code.append_basic_block("awake")
    code.branch(look)
    code.position_at_end(look)
    leave_where_new(awake)
    code.call_c("pthread_cond_wait", condition, mutex)
    code.branch(look)
    code.position_at_end(awake)
    code.count(team, At.SLEEPERS, -1)
    code.call_c("pthread_mutex_unlock", mutex)
    code.branch(found)
    code.position_at_end(found)
    code.ret(code.load(holder))


def _serve(module: ir.Module) -> None:
    """serve(member): what a member's thread does for as long as the process lives."""
    code = _Shared(module, "serve", 1, "external")
    (member,) = code.arguments
    team, me = code.word(member, Member.TEAM), code.word(member, Member.NUMBER)
    seen = cgutils.alloca_once_value(code, I64(0))
    again = code.append_basic_block("again")
    code.branch(again)
    code.position_at_end(again)
    generation = code.call_function("await", team, code.load(seen))
    code.store(generation, seen)
    code.count(team, At.ACTIVE, 1)
    leave = code.append_basic_block("leave")
    code.need(code.same(code.look(team, At.GENERATION), generation), leave)
    code.need(code.icmp_signed("<", me, code.word(team, At.PARTS)), leave)
    total = code.call_function("work", team, me)
    code.atomic_rmw("add", code.place(team, At.TOTAL), total, "seq_cst")
    code.branch(leave)
    code.position_at_end(leave)
    code.count(team, At.ACTIVE, -1)
    code.branch(again)


def _machine_code() -> Callable[[str], int]:
    """Compile the functions of a team; they are never freed, since threads run them until the process ends."""
    module = ir.Module("gathernest_team")
    for function in (_work, *((_place,) if _can_place() else ()), _wake, _run, _await, _serve):
        function(module)
    return machine_code(module)


class Team:
    """Threads that share the tiles of one kernel at a time; they live as long as the process.

    Attributes:
        address: what a kernel takes, to share its tiles with the team.
        size: how many members there are, the caller among them.
    """

    def __init__(self, most: int):
        """Make a team of one.

        Args:
            most: how many members it may ever have.

        Raises:
            OSError: the system has no POSIX threads.
        """
        if not hasattr(_libc(), "pthread_create"):
            raise OSError("this system has no POSIX threads")
        self.size, self._most, self._address_of = 1, most, _machine_code()
        words = At.MEMBERS + Member.WORDS * most
        memory = (ctypes.c_int64 * (words + LINE_BYTES // WORD_BYTES))()
        _keep_for_ever(memory)
        _keep_for_ever(self._address_of)
        self.address = -(-ctypes.addressof(memory) // LINE_BYTES) * LINE_BYTES
        self._words = (ctypes.c_int64 * words).from_address(self.address)
        self._words[At.RUN] = self._address_of("run")
        self._words[At.SIZE] = self._words[At.LIMIT] = 1
        libc = _libc()
        libc.pthread_mutex_init(ctypes.c_void_p(self.address + WORD_BYTES * At.MUTEX), None)
        libc.pthread_cond_init(ctypes.c_void_p(self.address + WORD_BYTES * At.CONDITION), None)

    def use(self, members: int) -> None:
        """Have the next kernels shared by so many members, the caller among them; nobody may be running one.

        Those that the system does not let start are done without.
        """
        while self.size < min(members, self._most) and self._start(self.size):
            self.size += 1
            self._words[At.SIZE] = self.size
        self._words[At.LIMIT] = members

    def _start(self, number: int) -> bool:
        """Start a member's thread, which takes no signals: they are Python's."""
        place = At.MEMBERS + Member.WORDS * number
        address = self.address + WORD_BYTES * place
        self._words[place + Member.TEAM], self._words[place + Member.NUMBER] = self.address, number
        serve, handle = self._address_of("serve"), ctypes.c_void_p(address + WORD_BYTES * Member.HANDLE)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            return _libc().pthread_create(handle, None, ctypes.c_void_p(serve), ctypes.c_void_p(address)) == 0
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _keep_for_ever(value: Any) -> None:
    """Keep an object when Python ends, too: threads go on until the process does."""
    KEPT.append(value)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
