"""Teams of threads: every tile is done once whoever comes late, and nobody waits for those that do not come."""

import ctypes
import os
import platform
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from llvmlite import ir
from numba import int64, njit

from gathernest.lowering.native.call_layout import At, Member, Subteam
from gathernest.lowering.native.llvm_jit import load_object
from gathernest.lowering.native.parallel_for import share
from gathernest.lowering.native.threads.thread_team import Team
from gathernest.lowering.native.word_code import I64, Code, object_of
from gathernest.lowering.numba.intrinsics import load_f32, load_i64, store_i64

MOST = 9


@pytest.fixture(scope="module")
def team() -> Team:
    return Team(MOST)


@njit(nogil=True)
def mark_tile(k, base, step):
    """Count one more for tile k, and return k * step."""
    store_i64(base, 8 * k, load_i64(base, 8 * k) + 1)
    return k * step


@njit(nogil=True)
def silent_tile(k, base):
    store_i64(base, 8 * k, k)


@njit(nogil=True)
def denormal_tile(k, base):
    """Return 1 where the double of a denormal is not 0."""
    return int64(load_f32(base, 0) + load_f32(base, 0) > 0)


@njit(nogil=True)
def denormals(team, tiles, base):
    return share(team, tiles, denormal_tile, (base,))


@njit(nogil=True)
def mark(team, tiles, base, step):
    return share(team, tiles, mark_tile, (base, step))


@njit(nogil=True)
def mark_silently(team, tiles, base):
    return share(team, tiles, silent_tile, (base,))


def address(array: np.ndarray) -> int:
    return array.ctypes.data


@pytest.mark.parametrize("members", [1, 2, 3, MOST, 1000])
@pytest.mark.parametrize("tiles", [0, 1, 2, 7, 1000])
def test_every_tile_is_done_once_and_results_are_summed(team, members, tiles):
    counts = np.zeros(max(tiles, 1), np.int64)
    subteam = team.of(members)
    for round_ in range(1, 30):
        assert mark(subteam, tiles, address(counts), 3) == 3 * sum(range(tiles))
        assert counts[:tiles].tolist() == [round_] * tiles


@pytest.mark.thorough
def test_no_tile_is_lost_or_done_twice_over_many_launches_and_rests(team):
    counts, rng = np.zeros(64, np.int64), np.random.default_rng(0)
    expected = np.zeros(64, np.int64)
    until = time.monotonic() + 2
    while time.monotonic() < until:
        subteam = team.of(int(rng.integers(1, MOST + 1)))
        for _ in range(200):
            tiles = int(rng.integers(0, 65))
            assert mark(subteam, tiles, address(counts), 1) == tiles * (tiles - 1) // 2
            expected[:tiles] += 1
        if rng.random() < 0.3:
            time.sleep(0.001)  # members fall asleep
    assert counts.tolist() == expected.tolist()


def test_members_without_a_tile_are_wanted_all_the_same(team):
    """They go on looking for work, as the next loop may have more."""
    mark(team.of(3), 2, address(np.zeros(2, np.int64)), 1)
    assert (word(team, At.PARTS), word(team, At.WANTED)) == (2, 3)


def test_tiles_without_a_result_count_nothing(team):
    numbers = np.full(100, -1, np.int64)
    assert mark_silently(team.of(3), 100, address(numbers)) == 0
    assert numbers.tolist() == list(range(100))


def test_a_team_has_no_more_members_than_it_may_and_starts_them_once(team):
    whole = team.of(1000)
    assert team.size == MOST
    team.of(2)
    assert (team.size, team.of(MOST)) == (MOST, whole)


def test_members_that_never_come_are_not_waited_for(monkeypatch):
    """Two members are there by their number, but no thread was started for them."""
    absent = Team(3)
    monkeypatch.setattr(absent, "_start", lambda number: True)
    subteam = absent.of(3)
    counts = np.zeros(50, np.int64)
    for _ in range(3):
        assert mark(subteam, 50, address(counts), 1) == 50 * 49 // 2
    assert counts.tolist() == [3] * 50


def test_members_that_are_not_wanted_sleep_on(team):
    """Launches on two threads wake none of the others, and wait for none."""
    counts = np.zeros(8, np.int64)
    mark(team.of(MOST), 8, address(counts), 1)
    sleep_all(team)
    two = team.of(2)
    for _ in range(50):
        mark(two, 8, address(counts), 1)
        assert word(team, At.SLEEPERS) >= team.size - 2


# By the name of the processor: the intrinsic of LLVM that sets the modes of its floating-point unit, the modes that
# flush denormals to zero, in operands and in results, and the modes that a process begins with.
FLUSHING = {
    **dict.fromkeys(("x86_64", "AMD64"), ("llvm.x86.sse.ldmxcsr", 0x9FC0, 0x1F80)),
    **dict.fromkeys(("aarch64", "arm64"), ("llvm.aarch64.set.fpcr", 1 << 24, 0)),
}


@pytest.mark.skipif(platform.machine() not in FLUSHING, reason="the register with the modes is not known")
def test_denormals_are_flushed_by_all_members_where_the_caller_flushes_them(team):
    whole = team.of(MOST)
    tiny = np.full(1, 1e-39, np.float32)
    assert denormals(whole, 3000, address(tiny)) == 3000
    name, flushing, usual = FLUSHING[platform.machine()]
    set_modes(name, flushing)
    try:
        assert [denormals(whole, 3000, address(tiny)) for _ in range(20)] == [0] * 20
    finally:
        set_modes(name, usual)
    assert [denormals(whole, 3000, address(tiny)) for _ in range(20)] == [3000] * 20


def set_modes(name: str, modes: int) -> None:
    """Set the modes of this thread's floating-point unit.

    The intrinsic takes the modes, and on x86 their address.
    """
    module, is_x86 = ir.Module("modes"), name.startswith("llvm.x86.")
    type_ = ir.IntType(8).as_pointer() if is_x86 else I64
    intrinsic = ir.Function(module, ir.FunctionType(ir.VoidType(), [type_]), name)
    code = Code(module, "set_modes", 1, "external")
    (address,) = code.arguments
    code.call(intrinsic, [code.inttoptr(address, type_) if is_x86 else code.load_at(address)])
    code.ret(I64(0))
    value = ctypes.c_uint64(modes)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(load_object(object_of(module), {})("set_modes"))(
        ctypes.addressof(value)
    )


def test_threads_that_the_system_rejects_are_done_without(monkeypatch):
    alone = Team(4)
    monkeypatch.setattr(alone, "_start", lambda number: number < 2)
    subteam = alone.of(4)
    assert alone.size == 2
    assert subteam == alone.of(2)
    counts = np.zeros(5, np.int64)
    assert mark(subteam, 5, address(counts), 1) == 10


def word(team: Team, place: int) -> int:
    return ctypes.c_int64.from_address(team.address + 8 * place).value


def sleep_all(team: Team) -> None:
    """Wait until all members but the caller sleep."""
    until = time.monotonic() + 60
    while word(team, At.SLEEPERS) < team.size - 1:
        assert time.monotonic() < until, "the members look for work for ever"
        time.sleep(0.001)


def test_members_sleep_when_there_is_nothing_to_do(team):
    whole = team.of(MOST)
    counts = np.zeros(8, np.int64)
    mark(whole, 8, address(counts), 1)
    sleep_all(team)
    mark(whole, 8, address(counts), 1)
    assert counts.tolist() == [2] * 8


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="this system does not tell of threads in /proc")
def test_members_take_no_signals_and_keep_off_the_core_of_the_caller(team):
    team.of(MOST)
    sleep_all(team)
    before = {int(entry) for entry in os.listdir("/proc/self/task")}
    other = Team(2)
    both = other.of(2)
    (thread,) = {int(entry) for entry in os.listdir("/proc/self/task")} - before
    with open(f"/proc/self/task/{thread}/status") as status:
        blocked = next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk"))
    assert blocked >> (signal.SIGINT - 1) & 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        return
    here = min(cores)
    sleep_all(other)
    os.sched_setaffinity(0, {here, max(cores)})
    try:
        for core in (here, max(cores)):
            os.sched_setaffinity(0, {core})  # moves the caller there at once
            os.sched_setaffinity(0, {here, max(cores)})
            sleep_all(other)
            counts = np.zeros(4, np.int64)
            mark(both, 4, address(counts), 1)
            assert os.sched_getaffinity(thread) < {here, max(cores)}
    finally:
        os.sched_setaffinity(0, cores)


@njit(nogil=True)
def busy_tile(k, busy):
    """Return whether the team is busy, as its word at this address says."""
    return int64(load_i64(busy, 0) != 0)


@njit(nogil=True)
def count_busy(team, tiles, busy):
    return share(team, tiles, busy_tile, (busy,))


def test_a_team_is_busy_while_it_runs_a_kernel_and_not_behind_it(team):
    busy = team.address + 8 * At.BUSY
    for _ in range(20):
        assert count_busy(team.of(2), 10, busy) == 10
        assert word(team, At.BUSY) == 0
    assert count_busy(team.of(1), 10, busy) == 0


def test_a_kernel_runs_alone_while_the_team_runs_another(team):
    """The ranges of the kernel that runs stay as they were."""
    counts, subteam = np.zeros(8, np.int64), team.of(MOST)
    mark(subteam, 8, address(counts), 1)
    before = [word(team, place) for place in (At.GENERATION, At.MEMBERS, At.MEMBERS + Member.END)]
    team._words[At.BUSY] = 1
    try:
        assert mark(subteam, 8, address(counts), 1) == 28
        assert [word(team, place) for place in (At.GENERATION, At.MEMBERS, At.MEMBERS + Member.END)] == before
        assert word(team, At.BUSY) == 1
    finally:
        team._words[At.BUSY] = 0
    assert counts.tolist() == [2] * 8


def test_threads_that_run_kernels_at_once_on_one_team_do_every_tile_once(team):
    """One of them has the team, and the others run theirs alone."""
    subteam, rounds = team.of(3), 300

    def run() -> tuple[set[int], set[int]]:
        counts = np.zeros(40, np.int64)
        sums = {mark(subteam, 40, address(counts), 1) for _ in range(rounds)}
        return sums, set(counts.tolist())

    with ThreadPoolExecutor(4) as pool:
        assert [done.result() for done in [pool.submit(run) for _ in range(4)]] == [({780}, {rounds})] * 4
    assert word(team, At.BUSY) == 0


def test_a_kernel_that_runs_while_threads_are_started_has_those_that_have(monkeypatch):
    """As in a signal handler, which may gather at any step."""
    young, sums = Team(4), []
    start = young._start

    def interrupted(number: int) -> bool:
        counts = np.zeros(9, np.int64)
        sums.append(mark(young.of(4), 9, address(counts), 1))
        return start(number)

    monkeypatch.setattr(young, "_start", interrupted)
    assert young.of(4) == young.address + 8 * young._subteam(4)
    assert (young.size, sums) == (4, [36] * 3)


def test_members_lie_in_lines_of_their_own(team):
    assert team.address % 64 == team.of(1) % 64 == team.of(2) % 64 == 0
    assert team.of(2) - team.of(1) == 8 * Subteam.WORDS
    assert 8 * Member.WORDS % 64 == 0
    assert len({at // 8 for at in (At.WANTED, At.GENERATION, At.ACTIVE, At.SLEEPERS, At.BUSY, At.MASK)}) == 6
