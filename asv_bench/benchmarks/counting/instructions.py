"""Instructions of calls, kernels, the pipeline and an import under callgrind, after `session.py` filled the cache.

`count` is what `../counts.py` calls; as a program it is what runs in valgrind.
"""

import gc
import importlib
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import cases
from . import fresh
from .client_requests import RUNNING_ON_VALGRIND, Requests
from .generic_cpu import be_generic
from .session import KERNELS

TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)
# As in lowering/programs.py, which benchmarks of other commits may not have.
MIN_VERSION = (3, 15)
# Seconds that it has to print its version.
LIMIT_S = 10
CALLS = 200
PIPELINE = "rows-256B"


def why_not() -> str | None:
    """Return why there are no counts here, or None."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed: no instruction counts (apt-get install valgrind)"
    try:
        ended = subprocess.run(["valgrind", "--version"], capture_output=True, check=False, timeout=LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"valgrind --version fails: no instruction counts ({error})"
    found = re.match(rb"valgrind-(\d+)\.(\d+)", ended.stdout)
    if found is None:
        return "valgrind prints no version: no instruction counts (apt-get install valgrind)"
    version = int(found[1]), int(found[2])
    if version < MIN_VERSION:
        return f"valgrind {version[0]}.{version[1]} is too old: no instruction counts (3.15 or newer is understood)"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "client requests are x86-64 code for Linux: no instruction counts"
    return None


def count(place: fresh.Place) -> dict[str, float]:
    """Return instructions by name: of a call, of a kernel for each row or element that it reads, and of the others."""
    return _counted(place) | _counted(place, "import")


def _counted(place: fresh.Place, *words: str) -> dict[str, float]:
    for path in place.folder.glob("callgrind.*"):
        path.unlink()
    valgrind = ("valgrind", *("-q", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=callgrind"))
    names = place.ask("instructions", *words, before=valgrind)
    dumps = sorted(place.folder.glob("callgrind.*"), key=lambda path: int(path.suffix[1:]))
    totals = [int(found[1]) for path in dumps if (found := TOTAL.search(path.read_text()))]
    if len(totals) != len(names):
        raise fresh.CountError(f"callgrind wrote {len(totals)} counts of {len(names)}")
    nothing = totals[0]
    return {name: (total - nothing) / over for (name, over), total in zip(names[1:], totals[1:], strict=True)}


def regions(gn: Any) -> dict[tuple[str, int], Callable[[], Any]]:
    """Return what is counted, by its name and what the count is divided by."""
    data, indices, out = np.zeros((5, 4), np.float32), np.array([0, 4, 2]), np.zeros((3, 4), np.float32)
    kernel = gn.compile("gather", data, indices)
    found: dict[tuple[str, int], Callable[[], Any]] = {
        ("nothing", 1): lambda: None,
        ("call gather", CALLS): _often(lambda: gn.gather(data, indices)),
        ("call gather out", CALLS): _often(lambda: gn.gather(data, indices, out=out)),
        ("call gather list", CALLS): _often(lambda: gn.gather(data, [0, 4, 2])),
        ("call kernel", CALLS): _often(lambda: kernel(data, indices)),
        ("call kernel out", CALLS): _often(lambda: kernel(data, indices, out)),
    }
    for name in KERNELS:
        case = cases.BY_NAME[name]
        found["kernel " + name, case.rows] = cases.bind(case, case.make(sets=1, zeros=True), gn)
    case = cases.BY_NAME[PIPELINE]
    with gn.knobs.scope(interpret=True):  # compiles nothing, so that `source` runs the passes every time
        compiled = cases.compiled(case, case.make(sets=1, zeros=True), gn)
    found["pipeline", 1] = lambda: compiled.source
    return found


def _often(call: Callable[[], Any]) -> Callable[[], None]:
    def calls() -> None:
        for _ in range(CALLS):
            call()

    return calls


def main() -> None:
    requests = Requests()
    if not requests.send(RUNNING_ON_VALGRIND):
        raise SystemExit("this script runs in valgrind")
    calls: dict[tuple[str, int], Callable[[], Any]]
    if sys.argv[1:] == ["import"]:
        calls, warmups = {("nothing", 1): lambda: None, ("import", 1): lambda: importlib.import_module("gathernest")}, 0
    else:
        be_generic()
        calls, warmups = regions(importlib.import_module("gathernest")), 3
    gc.disable()
    for call in calls.values():
        for _ in range(warmups):  # the second like call is remembered, and found from the third on
            call()
        requests.count(call)
    print(json.dumps(list(calls)))


if __name__ == "__main__":
    main()
