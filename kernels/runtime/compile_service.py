"""The compile service: NumPy answers calls whose kernels are missing, and a child process compiles these meanwhile.

The child reads requests and answers each, as lines of JSON, by one socket:

    {"key": of the kernel, "plan": a pickle, in base64, "cache": the knobs of the cache}
    {"key": ...}                                    the kernel is in the cache on disk
    {"key": ..., "files": {name: base64}}           the cache cannot be written: the files that it would have kept
    {"key": ..., "error": a text}                   there is no kernel; the caller's process compiles it
    {"key": null}                                   the child ends, since it has had no request for `IDLE_S`

The child ends with its socket, however its parent ends. The system takes it for no child of the parent's, since the
process that starts it ends at once: `os.wait` does not wait for it. The parent has no thread for it but to start it:
it reads the answers when a call misses a kernel. A lock in the cache folder has processes that want the same kernel
compile it once.
"""

import atexit
import base64
import json
import os
import pickle
import select
import signal
import sys
import tempfile
import time
from _thread import RLock
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..host.cache_folder import warn_caller
from ..host.knobs import knobs
from ..host.runtime import RUNTIME, Thread
from .disk_cache import LOCK, Loaded, cache_root, entry_folder, loaded_from, read_entry
from .first_calls import FIRST_CALLS, predict_numpy_s
from .plan import Plan

# Seconds without a request after which the child ends.
IDLE_S = 30.0
# A compilation that takes more than this number of seconds hangs, and the caller's process compiles instead.
LIMIT_S = 30.0
# Seconds after which a Python that has not started the child hangs.
START_LIMIT_S = 30.0
# The child's program. What it prints is lost, and modules of the site may start threads, so it forks before.
PROGRAM = f"""
import os
if process := os.fork():
    os.write(1, b"\\n%d" % process)
    os._exit(0)
os.dup2(2, 1)
import site
site.main()
import {__name__} as service
service._serve()
"""
# Bytes that are read at once at least.
READ_BYTES = 1 << 16
# Children that may end before they have answered anything, until this process compiles all by itself.
MAX_FAILURES = 3
# Seconds that a compilation takes. A call that takes longer in NumPy compiles at once; a call that takes a tenth of
# them asks for its kernel at once; any other call asks when it is repeated.
COMPILE_S = 0.5


class ChildEnded(Exception):
    """A child process has not started, has ended, or was ended as it hung."""


class Child:
    """A child process that compiles, as its parent sees it: requests and answers never wait for it.

    Attributes:
        process: its id; 0 until it has started.
        requests: the socket of its requests and answers.
        asked: the plans that it has not answered, by their keys, in the order of the requests.
        problem: the reason why it has not started, or "".
        is_idle: whether it has ended, or is about to, as it had no request.
    """

    def __init__(self) -> None:
        """Have a thread start it, and do not wait for that.

        Raises:
            ChildEnded, MemoryError: there can be none.
        """
        if (problem := problem_with_service()) is not None:
            raise ChildEnded(problem)
        try:
            import _socket  # a program may forbid the sockets of the module `socket`

            self.requests, self._its_socket = _socket.socketpair()
        except TimeoutError:  # of a signal handler
            raise
        except (ImportError, OSError) as error:
            raise ChildEnded(str(error)) from error
        self.requests.setblocking(False)
        self.process, self.problem, self.is_idle = 0, "", False
        self.asked: dict[str, Plan] = {}
        self._unsent, self._unread = bytearray(), bytearray()
        self._heard_s = time.monotonic()
        self._starting = RUNTIME.begin(self._start)
        if self._starting is None:
            self._start()

    def _start(self) -> None:
        """Start it, apart from the caller, whose signal handlers may raise; close its end of the socket here."""
        try:
            self.process = _start_child(self._its_socket.fileno())
        except Exception as error:  # whatever this system or its memory lacks
            self.problem = str(error)
        finally:
            self._its_socket.close()

    def join_start(self) -> None:
        """Wait until it has started, or has not."""
        if self._starting is not None:
            self._starting.join()

    def ask(self, plan: Plan) -> None:
        """Ask for a kernel."""
        if not self.asked:
            self._heard_s = time.monotonic()
        cache = {"cache_dir": _absolute(cache_root().parent), "cache_limit_mb": knobs.cache_limit_mb}
        text = base64.b64encode(pickle.dumps(plan)).decode()
        self._unsent += json.dumps({"key": plan.key, "plan": text, "cache": cache}).encode() + b"\n"
        self.asked[plan.key] = plan  # last: a signal handler may raise before, and the next call asks again
        self._send()

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield its answers; the next call yields one again where an exception of a signal handler ended this one.

        Raises:
            ChildEnded: it has not started, has ended, or hangs; it is gone.
        """
        self._send()
        is_open, is_silent = self._receive(), True
        while (end := self._unread.find(b"\n")) >= 0:
            is_silent, line = False, self._unread[:end]
            answer = json.loads(line)
            self.is_idle = answer["key"] is None
            if answer["key"] in self.asked:
                yield answer
                self.asked.pop(answer["key"], None)
            if self._unread.startswith(line):  # a signal handler has not read on meanwhile
                del self._unread[: end + 1]
        if is_silent and not is_open:
            self._end("it has ended")
        if is_silent and self.asked and time.monotonic() - self._heard_s > LIMIT_S + 1:  # it ends itself before
            self._end("it hangs")

    def _receive(self) -> bool:
        """Read what it has sent; return whether it may send more.

        A signal handler may raise between any two steps, and what was read must not be lost: `readv` puts it where it
        stays, before zero bytes, which no answer has.
        """
        while True:
            start = self._unread.find(0)
            if start < 0 or len(self._unread) - start < READ_BYTES:
                self._unread += bytes(READ_BYTES)
                continue
            try:
                received = os.readv(self.requests.fileno(), [memoryview(self._unread)[start:]])
            except BlockingIOError:
                return True
            except OSError:  # it has ended with requests unread, or this process has closed the socket
                return False
            if not received:
                return False
            self._heard_s = time.monotonic()

    def abandon(self) -> None:
        """Close the socket, which ends it, and do not wait for it."""
        with suppress(OSError):
            self.requests.close()

    def forget(self) -> None:
        """Close both ends of the socket in a forked child, where no thread starts it."""
        self.abandon()
        with suppress(OSError):
            self._its_socket.close()

    def _send(self) -> None:
        """Send what the socket takes without waiting, and without SIGPIPE."""
        while self._unsent:
            import _socket

            try:
                count = self.requests.send(self._unsent, getattr(_socket, "MSG_NOSIGNAL", 0))  # which macOS has not
            except OSError:  # it is full, or the child has ended, which reading tells
                return
            del self._unsent[:count]

    def _end(self, reason: str) -> NoReturn:
        if reason == "it hangs" and self.process:
            with suppress(OSError):
                os.kill(self.process, signal.SIGKILL)
                select.select([self.requests], [], [], 1)  # until it is gone
        self.abandon()
        if self.process:
            _remove_folders(self.process)
        if self.process and os.getpid() == 1:  # the first process of a system gets all orphans as its children
            with suppress(OSError):
                os.waitpid(self.process, 0)
        raise ChildEnded(self.problem or reason)


def wait_for_any(children: Iterable[Child]) -> None:
    """Wait until one of some children has answered, or takes more of its requests; at most a tenth of a second."""
    import selectors

    with selectors.DefaultSelector() as selector:
        for child in children:
            with suppress(OSError, ValueError):  # another thread closes the socket
                write = selectors.EVENT_WRITE if child._unsent else 0
                selector.register(child.requests, selectors.EVENT_READ | write)
        selector.select(0.1)


@dataclass(slots=True)
class Missing:
    """A kernel that calls of this process missed.

    Attributes:
        plan: its plan.
        calls: how many calls NumPy has answered in its place.
        state: `seen` by calls, `made`, `failed` in the child, or `left` to NumPy.
        files: what the child sent of it, where the cache cannot be written.
    """

    plan: Plan
    calls: int = 0
    state: str = "seen"
    files: dict[str, bytes] | None = None


class Kernels:
    """The kernels that calls of this process missed, and the child process that compiles them.

    Attributes:
        answered: the number of calls that NumPy has answered.
        notes: the reasons why this process compiles kernels that the child should have compiled.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._begin()

    def _begin(self) -> None:
        self._missing: dict[str, Missing] = {}
        self._child: Child | None = None
        self._failures = 0
        self._is_closed = False
        self._import: Thread | None = None
        self.answered = 0
        self.notes: list[str] = []

    def can_load(self, plan: Plan, load: Callable[[Plan], Loaded]) -> bool:
        """Return whether a call may load its kernel, or compile it; False where NumPy answers it.

        It never waits: not for another thread, and not for the child.
        """
        if plan.key in RUNTIME.loaded or knobs.compile == "now":
            return True
        is_interrupted = self._is_locked_here()  # by a signal handler
        try:
            if self._is_closed or is_interrupted or not self._lock.acquire(blocking=False):
                self.answered += 1
                return False
            return self._can_load(plan, load)
        finally:  # which follows the step that takes the lock, whatever a signal handler raises
            if not is_interrupted and self._is_locked_here():
                self._lock.release()

    def _is_locked_here(self) -> bool:
        return self._lock._is_owned()  # pyright: ignore[reportAttributeAccessIssue]

    def _can_load(self, plan: Plan, load: Callable[[Plan], Loaded]) -> bool:
        missing = self._missing.setdefault(plan.key, Missing(plan))
        seconds = predict_numpy_s(plan.problem) if missing.calls == 0 else 0.0
        compiles = knobs.compile == "background"
        self._read_answers()
        is_new = missing.state == "seen" and not self._is_asked(plan)
        if is_new and (missing.calls <= 1 or compiles) and _is_stored(plan):
            missing.state = "made"
        if seconds > COMPILE_S and compiles and missing.state != "left":
            return True
        if missing.state == "seen" and compiles and (missing.calls >= 1 or seconds > COMPILE_S / 10):
            self._ask(missing)
        if missing.state == "failed" and compiles:
            return True
        if missing.state == "made" and (self._import is None or not self._import.is_alive()):
            is_quick = seconds > COMPILE_S / 10 or "llvmlite.binding" in sys.modules
            if is_quick or not self._begin_import(plan, load):
                return True
        missing.calls += 1
        self.answered += 1
        return False

    def leave(self, plan: Plan, error: Exception) -> None:
        """Leave the calls of a kernel that cannot be loaded to NumPy, and warn of the first one."""
        with self._lock:
            is_first = all(missing.state != "left" for missing in self._missing.values())
            self._missing.setdefault(plan.key, Missing(plan)).state = "left"
            self.notes.append(f"NumPy answers {plan.problem.name}: {error}")
        if is_first:
            warn_caller(f"NumPy answers the calls of this process: {error}", RuntimeWarning)

    def see(self, plan: Plan, calls: int) -> None:
        """Count calls that NumPy has answered before there was a plan."""
        with self._lock:
            self._missing.setdefault(plan.key, Missing(plan)).calls += calls
            self.answered += calls

    def _begin_import(self, plan: Plan, load: Callable[[Plan], Loaded]) -> bool:
        """Have a thread load the first kernel, whose imports take 0.1 s; return whether there can be a thread."""
        self._import = RUNTIME.begin(lambda: load(plan))
        return self._import is not None

    def take_sent(self, plan: Plan) -> Loaded | None:
        """Return the kernel of a plan from the files that the child sent; None where it sent none."""
        missing = self._missing.get(plan.key)
        if missing is None or missing.files is None:
            return None
        try:
            return loaded_from(plan.pipeline, missing.files)
        except Exception as error:  # whatever the fault is, the kernel is compiled here
            self.notes.append(f"the kernel that the compile service sent cannot be loaded: {error}")
            missing.files = None
            return None

    def wait(self, load: Callable[[Plan], object]) -> None:
        """Compile and load every kernel that calls have missed; a kernel that the child fails at is compiled here."""
        if knobs.compile == "never":
            return
        while True:
            with self._lock:
                self._read_answers()
                for missing in list(self._missing.values()):
                    if missing.plan.key not in RUNTIME.loaded and missing.state == "seen":
                        self._ask(missing)
                child = self._child
            if child is None or not child.asked:
                break
            wait_for_any([child])
        for missing in list(self._missing.values()):
            if missing.state in ("made", "failed") and missing.plan.key not in RUNTIME.loaded:
                load(missing.plan)

    def status(self) -> dict[str, Any]:
        """Return numbers of answers and kernels, and the state of the service, for people."""
        with self._lock:
            self._read_answers()
        child = self._child
        if child is not None:
            child.join_start()
        return {
            "answered_by_numpy": self.answered + len(FIRST_CALLS.problems),
            "kernels_loaded": len(RUNTIME.loaded),
            "kernels_pending": 0 if child is None else len(child.asked),
            "service": "not started" if child is None else f"process {child.process}",
        }

    def forget(self) -> None:
        """Begin anew in a forked child: the service is its parent's, and ends when both have closed its socket."""
        if self._child is not None:
            self._child.forget()
        self._begin()

    def close(self) -> None:
        """End the service with this process; calls that come later are answered by NumPy."""
        self._is_closed = True
        child, self._child = self._child, None
        if child is not None:
            child.abandon()

    def _ask(self, missing: Missing) -> None:
        """Ask the child for a kernel, unless it is asked already; where there is none to ask, it has failed."""
        if self._is_asked(missing.plan):
            return
        if self._failures < MAX_FAILURES and self._child is None:
            try:
                self._child = Child()
            except (ChildEnded, MemoryError) as error:
                self._failures = MAX_FAILURES
                self.notes.append(f"the compile service does not start: {error}")
        if self._child is None:
            missing.state = "failed"
            return
        try:
            self._child.ask(missing.plan)
        except pickle.PicklingError as error:  # the package was imported anew beside this one
            missing.state = "failed"
            self.notes.append(f"the compile service cannot be asked: {error}")

    def _is_asked(self, plan: Plan) -> bool:
        """Return whether the child has been asked for a kernel that it has not answered."""
        child = self._child
        return child is not None and plan.key in child.asked

    def _read_answers(self) -> None:
        """Read the child's answers, without waiting.

        If the child has ended, its oldest request has failed, and another child gets the other requests.
        """
        child = self._child
        if child is None:
            return
        try:
            for answer in child.answers():
                self._take_answer(answer)
        except ChildEnded as ended:
            if self._child is not child:  # a signal handler has forked this process, whose child it is not
                return
            self._child = None
            asked = [self._missing[key] for key in child.asked]
            self._failures = MAX_FAILURES if child.problem else self._failures + bool(asked)
            if asked and not child.is_idle:  # else it ended before it read the request
                failed = asked.pop(0)
                failed.state = "failed"
                what = "does not start" if child.problem else f"failed at {failed.plan.problem.name}"
                self.notes.append(f"the compile service {what}: {ended}")
            for missing in asked:
                self._ask(missing)

    def _take_answer(self, answer: dict[str, Any]) -> None:
        missing = self._missing.get(answer["key"])
        if missing is None:  # a signal handler has forked this process meanwhile
            return
        self._failures = 0
        missing.state = "failed" if "error" in answer else "made"
        if "error" in answer:
            self.notes.append(f"the compile service cannot make {missing.plan.problem.name}: {answer['error']}")
        if "files" in answer:
            missing.files = {name: base64.b64decode(text) for name, text in answer["files"].items()}


def compile_in_children(
    plans: Sequence[Plan], count: int, begin: Callable[[int], object]
) -> Iterator[tuple[int, float, str]]:
    """Compile kernels into the cache, in some child processes at once.

    Args:
        plans: the plans to compile; their keys differ.
        count: the number of processes.
        begin: is called with the number of a plan when it is begun.

    Yields:
        The number of a plan whose kernel is there, the seconds that it took, and "" or why there is none.

    Raises:
        ChildEnded, MemoryError: no process can be started.
    """
    waiting, begun = iter(enumerate(plans)), dict[Child, tuple[int, float]]()

    def feed(child: Child) -> None:
        for number, plan in waiting:
            begin(number)
            begun[child] = number, time.perf_counter()
            return child.ask(plan)
        child.abandon()

    try:
        for _ in range(count):
            feed(Child())
        while begun:
            wait_for_any(begun)
            for child, (number, start) in list(begun.items()):
                then = child
                try:
                    answers = list(child.answers())
                except ChildEnded:
                    if child.problem:
                        raise
                    answers, then = [{"error": "the process that compiled it has ended"}], Child()
                for answer in answers:
                    del begun[child]
                    unwritten = f"the cache folder {cache_root().parent} cannot be written" if "files" in answer else ""
                    yield number, time.perf_counter() - start, answer.get("error", unwritten)
                    feed(then)
    finally:
        for child in begun:
            child.abandon()


KERNELS = Kernels()
RUNTIME.fork_locks.append(KERNELS._lock)
RUNTIME.in_child.append(KERNELS.forget)
atexit.register(KERNELS.close)


def _is_stored(plan: Plan) -> bool:
    """Return whether the cache on disk has an entry for the kernel of a plan."""
    return os.path.isdir(entry_folder(plan.key, plan.pipeline))


def problem_with_service() -> str | None:
    """Return the reason why this process can start no child that runs Python, or None."""
    program = sys.executable or ""
    is_python = "python" in os.path.basename(program).lower() and os.access(program, os.X_OK)
    if os.name == "posix" and not getattr(sys, "frozen", False) and is_python:
        return None
    return f"{program or 'this program'} is no Python that runs modules"


def _start_child(its_socket: int) -> int:
    """Return the id of a new child with that socket; raises an error of any kind where there can be none.

    A write to a pipe whose reader has ended would end this process where SIGPIPE has its default action.
    """
    import subprocess

    folders = [os.path.abspath(folder) for folder in sys.path if isinstance(folder, str) and folder]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "GATHERNEST_COMPILE": "now"}
    environment["PYTHONTRACEMALLOC"] = "0"  # traced, it would compile for more than `LIMIT_S`
    with suppress(OSError):  # there is no folder for temporary files
        environment["TMPDIR"] = tempfile.gettempdir()
    started = subprocess.run(
        [sys.executable, "-S", "-P", "-c", PROGRAM],
        stdin=its_socket,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=os.sep,
        env=environment,
        process_group=0,  # no Ctrl-C of a terminal
        timeout=START_LIMIT_S,
    )
    process = started.stdout.rpartition(b"\n")[2]  # a script around Python may have printed more
    if started.returncode != 0 or not process.isdigit():
        raise OSError(f"{sys.executable} has ended with status {started.returncode}")
    return int(process)


def _serve() -> None:
    """Answer requests until the child ends. A request that comes while it works waits in a thread's queue."""
    import faulthandler
    from queue import Empty, SimpleQueue
    from threading import Event, Thread

    requests: SimpleQueue[bytes] = SimpleQueue()
    has_parent_ended = Event()

    def read() -> None:
        for line in sys.stdin.buffer:
            requests.put(line)
        has_parent_ended.set()
        requests.put(b"")

    def send(answer: dict[str, Any]) -> None:
        unwritten = memoryview(json.dumps(answer).encode() + b"\n")
        while unwritten:
            unwritten = unwritten[answers.write(unwritten) :]

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(5)
    Thread(target=read, daemon=True).start()
    with suppress(OSError), open(os.dup(0), "wb", 0) as answers, open(os.devnull, "w") as nothing:
        with suppress(Empty):
            while not has_parent_ended.is_set() and (line := requests.get(timeout=IDLE_S)):
                faulthandler.dump_traceback_later(LIMIT_S, False, nothing, True)
                answer = _answer(json.loads(line))
                faulthandler.cancel_dump_traceback_later()
                send(answer)
        send({"key": None})
    os._exit(0)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Compile the kernel of a request into the cache, or for the answer."""
    plan, answer = pickle.loads(base64.b64decode(request["plan"])), {"key": request["key"]}
    try:
        with knobs.scope(**request["cache"]):
            if _make(plan):
                return answer
        with tempfile.TemporaryDirectory(prefix=_prefix(os.getpid())) as folder, knobs.scope(cache_dir=folder):
            if not _make(plan):
                raise OSError("no folder can be written")
            files = read_entry(entry_folder(plan.key, plan.pipeline))
        return {**answer, "files": {name: base64.b64encode(content).decode() for name, content in files.items()}}
    except Exception as error:
        return {**answer, "error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}


def _prefix(process: int) -> str:
    """Return the prefix of the names of a child's temporary folders."""
    return f"gathernest-{process}-"


def _remove_folders(process: int) -> None:
    """Remove the temporary folders of a child that was killed."""
    import shutil

    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{_prefix(process)}*"):
            shutil.rmtree(folder, ignore_errors=True)


def _absolute(folder: Path) -> str:
    """Return the absolute path of a folder, or a path that cannot be written where the current folder is gone."""
    try:
        return str(folder.absolute())
    except OSError:
        return f"{os.devnull}{os.sep}{folder}"


def _make(plan: Plan) -> bool:
    """Compile a kernel unless the cache has it; return whether it has it now."""
    import warnings

    from .compile import build_program
    from .disk_cache import load_kernel

    folder = entry_folder(plan.key, plan.pipeline)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(OSError):
            folder.parent.mkdir(0o755, parents=True, exist_ok=True)
        if not os.access(folder.parent, os.W_OK):
            return False
        with _only_one(folder):
            load_kernel(plan.key, plan.pipeline, lambda: build_program(plan))
    return folder.is_dir()


@contextmanager
def _only_one(folder: Path) -> Any:
    """Let one process at a time make an entry: each entry has a byte to lock in a file that all entries share."""
    import fcntl

    with open(folder.parent / LOCK, "ab") as file:
        with suppress(OSError):  # some file systems have no locks: then two processes may compile it
            fcntl.lockf(file, fcntl.LOCK_EX, 1, int(folder.name[:7], 16))
        yield


def compiling_processes() -> list[int]:
    """Return the processes that now compile a kernel of these versions into the cache; known on Linux only."""
    import fcntl
    import struct

    layout, found, place = "hhqqi4x", list[int](), 0
    with suppress(OSError), open(cache_root() / LOCK, "rb") as file:
        while sys.platform == "linux":
            asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, place, 0, 0)
            kind, _, start, count, process = struct.unpack(layout, fcntl.fcntl(file, fcntl.F_GETLK, asked))
            if kind == fcntl.F_UNLCK:
                break
            found.append(process)
            place = start + count
    return found
