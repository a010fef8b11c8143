"""A process that compiles and times kernels for the playground: an edited stage may read and write anywhere.

It reads a line of JSON for each request, `{"explain": bool, "settings": {...}}`, and writes a line for each part of
the answer; the last is `{"done": true}`. It ends when its input does.
"""

import atexit
import dataclasses
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from .settings import Settings


def _never() -> bool:
    return False


class Worker:
    """The process, as its parent sees it; it is started when it is first needed, and again after a crash.

    One request is answered at a time; others wait.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._gives_way: Callable[[], bool] = _never
        atexit.register(self.stop)

    def start(self) -> None:
        """Start the process, unless it runs."""
        with self._lock:
            self._started()

    def stop(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def ask(
        self, settings: Settings, *, explain: bool = False, is_stale: Callable[[], bool] = _never
    ) -> Iterator[dict[str, Any]]:
        """Yield the parts of an answer; see `machine_code` and `explained`.

        Nothing is asked when `is_stale()` holds before the turn comes. An explanation, which takes long, is given up
        when another request comes and it is stale. A caller that closes the generator early ends the process.
        """
        if self._gives_way():
            self.stop()
        with self._lock:
            if is_stale():
                return
            process, is_done = self._started(), False
            assert process.stdin is not None and process.stdout is not None
            self._gives_way = is_stale if explain else _never
            try:
                request = {"explain": explain, "settings": dataclasses.asdict(settings)}
                process.stdin.write(f"{json.dumps(request)}\n")
                process.stdin.flush()
                for line in process.stdout:
                    part = json.loads(line)
                    if "done" in part:
                        is_done = True
                        return
                    yield part
                is_done, self._process = True, None
                yield {"error": _crash(process.wait())}
            except BrokenPipeError:
                is_done, self._process = True, None
                yield {"error": _crash(process.wait())}
            finally:
                self._gives_way = _never
                if not is_done:
                    self.stop()

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C ends the server, which ends this
            )
        return self._process


def _crash(status: int) -> str:
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return f"the process that ran the kernel ended {how}; an edited stage that leaves its arrays does that"


WORKER = Worker()


def serve() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything else prints must not come between the answers
    from .machine_code import explained, machine_code

    for line in sys.stdin:
        request = json.loads(line)
        settings = Settings(**request["settings"])
        for part in (explained if request["explain"] else machine_code)(settings):
            _write(answers, part)
        _write(answers, {"done": True})


def _write(answers: TextIO, part: dict[str, Any]) -> None:
    answers.write(f"{json.dumps(part)}\n")
    answers.flush()
