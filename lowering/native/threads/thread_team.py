"""The thread team: threads that share the tiles of a kernel, as machine code.

Each member has a range of tiles, takes them one by one, and then steals tiles from the others; the caller is the first
member. It waits only for members that have begun a tile, and not for members that the system has yet to wake: where no
other core is free, it runs all tiles itself. Numba's threads and OpenMP's split the work statically and wait for each
thread, which costs a time slice of the system, some milliseconds, whenever a thread is late.

An idle member spins for some 100 microseconds, and then sleeps. A woken member may run on every core that the caller
may use but the caller's own: Linux tends to wake it there, where it would wait for the caller.
"""

import ctypes
import functools
import signal
from _thread import allocate_lock
from collections.abc import Callable

from ...schedule.machine_model import LINE_BYTES
from ..call_layout import IS_DARWIN, PLACING, WORD_BYTES, At, Member, Subteam
from ..llvm_jit import Store, address_in, keep_for_ever, load_object, store_nothing

# The functions of the C library that a team calls on every system.
_CALLED = (
    "sched_yield",
    *(("sem_post", "sem_wait"), ("dispatch_semaphore_signal", "dispatch_semaphore_wait"))[IS_DARWIN],
)

# Signals of a member's own instructions: if they were blocked, faulthandler could not report a crash.
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}

# The stack of each thread, whatever `ulimit -s` says: kernels and the C library need less than 128 KiB.
STACK_BYTES = 1 << 20
# Room for a pthread_attr_t: 56 bytes with glibc on x86-64, 64 on AArch64 and macOS.
ATTRIBUTES_WORDS = 16


def libc() -> ctypes.CDLL:
    """Return the C library; raises OSError where there is none of POSIX."""
    try:
        return ctypes.CDLL(None)
    except TypeError as error:  # Windows has no library of that name
        raise OSError("this system has no POSIX threads") from error


@functools.cache
def _team_code(store: Store) -> Callable[[str], int]:
    """Load the functions of a team; they are never freed, since threads run them until the process ends."""
    places = all(hasattr(libc(), name) for name in PLACING)
    words = {name: address_in(libc(), name) for name in (*_CALLED, *(PLACING if places else ()))}

    def make() -> bytes:
        from .thread_team_ir import team_object

        return team_object(list(words))

    return load_object(store(f"thread team of {', '.join(words)}", make), words)


class Team:
    """Threads that share the tiles of one parallel loop at a time; they live as long as the process.

    Attributes:
        size: the number of members, the caller included.
    """

    def __init__(self, most: int, store: Store = store_nothing):
        """Make a team of one.

        Args:
            most: the largest number of members that it may have.
            store: stores its machine code.

        Raises:
            OSError: the system has no POSIX threads.
        """
        if not hasattr(libc(), "pthread_create"):
            raise OSError("this system has no POSIX threads")
        self.size, self._most, self._limit, self._address_of = 1, most, most, _team_code(store)
        self._starting = allocate_lock()
        words = At.MEMBERS + (Member.WORDS + Subteam.WORDS) * most
        memory = (ctypes.c_int64 * (words + LINE_BYTES // WORD_BYTES))()
        keep_for_ever(memory)
        self.address = -(-ctypes.addressof(memory) // LINE_BYTES) * LINE_BYTES
        self._words = (ctypes.c_int64 * words).from_address(self.address)
        self._words[At.SIZE] = self._words[At.WANTED] = 1
        for members in range(1, most + 1):
            place, values = self._subteam(members), (self._address_of("run"), self.address, members)
            self._words[place : place + len(values)] = values

    def of(self, members: int) -> int:
        """Return the address of the subteam of `members` members at most, the caller included.

        It is the last argument of a kernel, for `share`. Where the team runs a parallel loop, another one is run by its
        caller alone. Threads that the system does not let start are left out from then on.

        No signal handler may interrupt this where the team is too small: a thread that was started and not counted
        would be started again.
        """
        # Meanwhile another thread or a signal handler may gather, with the threads that have started.
        if self.size < members and self._starting.acquire(blocking=False):
            try:
                self._start_all(min(members, self._most))
            finally:
                self._starting.release()
        return self.address + WORD_BYTES * self._subteam(min(members, self._most))

    def is_too_small(self, members: int) -> bool:
        """Return whether `of` would start threads."""
        return self.size < min(members, self._most)

    def _start_all(self, members: int) -> None:
        while self.size < members:
            if not self._start(self.size):
                self._most = self.size
                return
            self.size += 1
            self._words[At.SIZE] = self.size

    def _subteam(self, members: int) -> int:
        """Return the place of the words of a subteam, behind the words of the members."""
        return At.MEMBERS + Member.WORDS * self._limit + Subteam.WORDS * (members - 1)

    def _start(self, number: int) -> bool:
        """Start a member's thread, which takes no signals: they are Python's."""
        place = At.MEMBERS + Member.WORDS * number
        address = self.address + WORD_BYTES * place
        self._words[place + Member.TEAM], self._words[place + Member.NUMBER] = self.address, number
        if not self._make_semaphore(place + Member.SEMAPHORE):
            return False
        serve, handle = self._address_of("serve"), ctypes.c_void_p(address + WORD_BYTES * Member.HANDLE)
        attributes = (ctypes.c_int64 * ATTRIBUTES_WORDS)()
        libc().pthread_attr_init(attributes)
        libc().pthread_attr_setstacksize(attributes, ctypes.c_size_t(STACK_BYTES))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
            return libc().pthread_create(handle, attributes, ctypes.c_void_p(serve), ctypes.c_void_p(address)) == 0
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            libc().pthread_attr_destroy(attributes)

    def _make_semaphore(self, place: int) -> bool:
        """Make a semaphore at a word of the team; macOS has no unnamed ones."""
        if IS_DARWIN:
            create = libc().dispatch_semaphore_create
            create.restype = ctypes.c_void_p
            self._words[place] = create(ctypes.c_long(0)) or 0
            return self._words[place] != 0
        return libc().sem_init(ctypes.c_void_p(self.address + WORD_BYTES * place), 0, 0) == 0
