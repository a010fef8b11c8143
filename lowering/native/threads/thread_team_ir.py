"""The functions of a thread team as LLVM IR. Imported only where they are compiled."""

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from ..call_layout import IS_DARWIN, MASK_BYTES, PLACING, WORD_BYTES, At, Member, Subteam
from ..word_code import I32, I64, VOID, Code, Word, WordModule, object_of

# Spins of a member before it sleeps, and of the waiting caller before it yields its core.
SPINS = 5000
_MIX = 0x9E3779B97F4A7C15


class _Shared(Code):
    """Prints a function on words that several threads use."""

    def place(self, base: Word, word: int) -> Word:
        return self.inttoptr(self.add(base, I64(WORD_BYTES * word)), I64.as_pointer())

    def look(self, base: Word, word: int) -> Word:
        """Load a word that another thread may be changing."""
        return self.load_atomic(self.place(base, word), "seq_cst", WORD_BYTES)

    def count(self, base: Word, word: int, change: int) -> Word:
        """Add to a word that another thread may be changing, and return its old value."""
        return self.atomic_rmw("add", self.place(base, word), I64(change), "seq_cst")

    def exchange(self, base: Word, word: int, value: int) -> Word:
        """Replace a word that another thread may be changing, and return its old value."""
        return self.atomic_rmw("xchg", self.place(base, word), I64(value), "seq_cst")

    def put(self, base: Word, word: int, value: Word) -> None:
        self.store(value, self.place(base, word))

    def member(self, team: Word, number: Word) -> Word:
        return self.after(self.add(team, I64(WORD_BYTES * At.MEMBERS)), self.mul(number, I64(Member.WORDS)))

    def use_modes(self, team: Word, *, keep: bool) -> None:
        """Store the modes of this thread's floating-point unit, or set them to those stored."""
        reads, sets = _MODES.get(_architecture(), ("", ""))
        place = self.place(team, At.MODES)
        if _architecture() == "x86_64":
            self.call_llvm(reads if keep else sets, VOID, self.bitcast(place, ir.IntType(8).as_pointer()))
        elif reads and keep:
            self.store(self.call_llvm(reads, I64), place)
        elif sets:
            self.call_llvm(sets, VOID, self.load(place))

    def call_llvm(self, name: str, result: ir.Type, *arguments: Word) -> Word:
        """Call an intrinsic of LLVM."""
        type_ = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.call(self.module.globals.get(name) or ir.Function(self.module, type_, name), arguments)

    def post(self, member: Word) -> None:
        """Wake a member that waits for its semaphore."""
        if IS_DARWIN:
            self.call_c("dispatch_semaphore_signal", self.word(member, Member.SEMAPHORE), result=I64)
        else:
            self.call_c("sem_post", self.add(member, I64(WORD_BYTES * Member.SEMAPHORE)))

    def has_waited(self, member: Word) -> Word:
        """Wait for the semaphore of a member; false where a signal came before it."""
        if IS_DARWIN:
            failed = self.call_c("dispatch_semaphore_wait", self.word(member, Member.SEMAPHORE), I64(-1), result=I64)
            return self.same(failed, I64(0))
        failed = self.call_c("sem_wait", self.add(member, I64(WORD_BYTES * Member.SEMAPHORE)))
        return self.icmp_signed("==", failed, I32(0))

    def call_c(self, name: str, *arguments: Word, result: ir.Type = I32) -> Word:
        """Call a function of the C library."""
        return self.call_known(name, *arguments, result=result)

    def pause(self) -> None:
        """Tell the processor that this is a loop that waits."""
        if _architecture() in _PAUSES:
            self.call_llvm(*_PAUSES[_architecture()])


def _architecture() -> str:
    return llvm.get_process_triple().partition("-")[0]


# The name, the result and the arguments of the instruction.
_PAUSES: dict[str, tuple[Any, ...]] = {
    "x86_64": ("llvm.x86.sse2.pause", VOID),
    **dict.fromkeys(("aarch64", "arm64"), ("llvm.aarch64.hint", VOID, I32(1))),
}
# Reads and sets the modes of the floating-point unit: sums must not depend on the thread that adds.
_MODES = {
    "x86_64": ("llvm.x86.sse.stmxcsr", "llvm.x86.sse.ldmxcsr"),
    **dict.fromkeys(("aarch64", "arm64"), ("llvm.aarch64.get.fpcr", "llvm.aarch64.set.fpcr")),
}


def _work(module: ir.Module) -> None:
    """work(team, me): run the tiles of this member's range, then steal from others; return the sum of the results."""
    code = _Shared(module, "work", 2)
    team, me = code.arguments
    parts, function, arguments = (code.word(team, at) for at in (At.PARTS, At.FUNCTION, At.ARGUMENTS))
    total = code.variable(I64(0))
    with code.counted(parts) as number:
        member = code.member(team, code.urem(code.add(me, number), parts))
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
    """run(subteam, function, arguments, tiles): run all tiles; return the sum of their results.

    Where one member is enough, and while the team runs another loop, the caller runs them alone.
    """
    code = _Shared(module, "run", 4, "external")
    subteam, function, arguments, tiles = code.arguments
    team, wanted = code.word(subteam, Subteam.TEAM), code.word(subteam, Subteam.WANTED)
    parts = wanted
    for most in (tiles, code.look(team, At.SIZE)):
        parts = code.select(code.icmp_signed("<", parts, most), parts, most)
    alone, shared = code.append_basic_block("alone"), code.append_basic_block("shared")
    code.require(code.icmp_signed(">", parts, I64(1)), alone)
    code.cbranch(code.same(code.exchange(team, At.BUSY, 1), I64(0)), shared, alone)
    code.position_at_end(alone)
    total = code.variable(I64(0))
    with code.counted(tiles) as tile:
        code.store(code.add(code.load(total), code.call_address(function, arguments, tile)), total)
    code.ret(code.load(total))
    code.position_at_end(shared)
    with code.counted(parts) as number:
        member = code.member(team, number)
        code.put(member, Member.NEXT, code.udiv(code.mul(tiles, number), parts))
        code.put(member, Member.END, code.udiv(code.mul(tiles, code.add(number, I64(1))), parts))
    values = (function, arguments, parts, I64(0), wanted)
    for at, value in zip((At.FUNCTION, At.ARGUMENTS, At.PARTS, At.TOTAL, At.WANTED), values, strict=True):
        code.put(team, at, value)
    code.use_modes(team, keep=True)
    code.count(team, At.GENERATION, 1)
    with code.if_then(code.not_(code.same(code.look(team, At.SLEEPERS), I64(0)))):
        code.call_function("wake", team)
    own = code.call_function("work", team, I64(0))
    code.count(team, At.GENERATION, 1)
    _wait_for_others(code, team)
    sum_ = code.add(own, code.look(team, At.TOTAL))
    code.exchange(team, At.BUSY, 0)
    code.ret(sum_)


def _wait_for_others(code: _Shared, team: Word) -> None:
    """Continue when no member is active any more."""
    spins = code.variable(I64(0))
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
    if PLACING[0] in code.module.words:
        code.call_function("place", team)
    with code.counted(code.sub(code.word(team, At.PARTS), I64(1))) as number:
        member = code.member(team, code.add(number, I64(1)))
        with code.if_then(code.not_(code.same(code.look(member, Member.ASLEEP), I64(0)))):
            was = code.exchange(member, Member.ASLEEP, 0)
            with code.if_then(code.not_(code.same(was, I64(0)))):
                code.post(member)
    code.ret(I64(0))


def _place(module: ir.Module) -> None:
    """place(team): bind the members to the cores of the calling thread but its own, where there are others."""
    code = _Shared(module, "place", 1)
    (team,) = code.arguments
    keep = code.append_basic_block("keep")
    mask = code.add(team, I64(WORD_BYTES * At.MASK))
    core = code.sext(code.call_c("sched_getcpu"), I64)
    code.require(code.icmp_unsigned("<", core, I64(8 * MASK_BYTES)), keep)
    size = code.call_c("sched_getaffinity", I64(0), I64(MASK_BYTES), mask)
    code.require(code.icmp_signed(">=", size, I32(0)), keep)
    word = code.after(mask, code.udiv(core, I64(64)))
    others = code.and_(code.word(word, 0), code.not_(code.shl(I64(1), code.urem(core, I64(64)))))
    code.put(word, 0, others)
    any_, hash_ = code.variable(I64(0)), code.variable(I64(0))
    with code.counted(I64(MASK_BYTES // WORD_BYTES)) as number:
        bits = code.element(mask, number)
        code.store(code.or_(code.load(any_), bits), any_)
        code.store(code.mul(code.xor(code.load(hash_), bits), I64(_MIX)), hash_)
    mixed = code.xor(code.load(hash_), code.word(team, At.SIZE))
    code.require(code.not_(code.same(code.load(any_), I64(0))), keep)
    code.require(code.not_(code.same(mixed, code.word(team, At.PLACED))), keep)
    code.put(team, At.PLACED, mixed)
    with code.counted(code.sub(code.word(team, At.SIZE), I64(1))) as number:
        handle = code.word(code.member(team, code.add(number, I64(1))), Member.HANDLE)
        code.call_c("pthread_setaffinity_np", handle, I64(MASK_BYTES), mask)
    code.branch(keep)
    code.position_at_end(keep)
    code.ret(I64(0))


def _await(module: ir.Module) -> None:
    """await(member, seen, spins): wait for tiles of another generation than seen; return the generation."""
    code = _Shared(module, "await", 3)
    member, seen, spins = code.arguments
    team = code.word(member, Member.TEAM)
    found = code.append_basic_block("found")
    holder = code.variable(I64(0))

    def leave_where_new(block: Any) -> None:
        generation = code.look(team, At.GENERATION)
        code.store(generation, holder)
        is_open = code.same(code.and_(generation, I64(1)), I64(1))
        following = code.append_basic_block("following")
        code.cbranch(code.and_(is_open, code.not_(code.same(generation, seen))), block, following)
        code.position_at_end(following)

    with code.counted(spins):
        leave_where_new(found)
        code.pause()
    code.count(team, At.SLEEPERS, 1)
    lie, sleep, stay, awake = map(code.append_basic_block, ("lie", "sleep", "stay", "awake"))
    code.branch(lie)
    code.position_at_end(lie)
    code.exchange(member, Member.ASLEEP, 1)
    leave_where_new(stay)
    code.branch(sleep)
    code.position_at_end(sleep)  # until the caller has cleared ASLEEP and posted, as a signal may wake earlier
    code.cbranch(code.has_waited(member), lie, sleep)
    code.position_at_end(stay)  # a caller that has cleared ASLEEP posts, so wait for that
    code.cbranch(code.same(code.exchange(member, Member.ASLEEP, 0), I64(1)), awake, sleep)
    code.position_at_end(awake)
    code.count(team, At.SLEEPERS, -1)
    code.branch(found)
    code.position_at_end(found)
    code.ret(code.load(holder))


def _serve(module: ir.Module) -> None:
    """serve(member): the endless loop of a member's thread."""
    code = _Shared(module, "serve", 1, "external")
    (member,) = code.arguments
    team, me = code.word(member, Member.TEAM), code.word(member, Member.NUMBER)
    seen, spins = (code.variable(I64(value)) for value in (0, SPINS))
    again = code.append_basic_block("again")
    code.branch(again)
    code.position_at_end(again)
    generation = code.call_function("await", member, code.load(seen), code.load(spins))
    code.store(generation, seen)
    code.count(team, At.ACTIVE, 1)
    leave = code.append_basic_block("leave")
    code.require(code.same(code.look(team, At.GENERATION), generation), leave)
    code.require(code.icmp_signed("<", me, code.word(team, At.PARTS)), leave)
    code.use_modes(team, keep=False)
    total = code.call_function("work", team, me)
    code.atomic_rmw("add", code.place(team, At.TOTAL), total, "seq_cst")
    code.branch(leave)
    code.position_at_end(leave)
    code.count(team, At.ACTIVE, -1)
    is_wanted = code.icmp_signed("<", me, code.look(team, At.WANTED))
    code.store(code.select(is_wanted, I64(SPINS), I64(0)), spins)
    code.branch(again)


def team_object(words: Sequence[str]) -> bytes:
    """Return the object code of a team; its words are the functions of the C library of these names."""
    module = WordModule("gathernest_team", words)
    for function in (_work, *((_place,) if PLACING[0] in words else ()), _wake, _run, _await, _serve):
        function(module)
    return object_of(module)
