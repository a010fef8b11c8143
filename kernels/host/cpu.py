"""Facts about this machine and the versions that generated code depends on."""

import functools
import hashlib
import itertools
import math
import os
import platform
import re
import sys
import time
from collections.abc import Collection
from pathlib import Path

# Columns of a line of /proc/stat in which a core does nothing: idle, and waiting for a disk.
IDLE = (3, 4)
PACKAGE = Path(__file__).resolve().parents[2]
# The sources that a kernel's code depends on beside its key: they are imported to compile it, or linked to it.
MAKES_CODE = (
    "ir/*.py",
    "ir/dialects/**/*.py",
    "ir/interpreters/argument_views.py",
    *(f"ir/modules/{name}.py" for name in ("context", "exec_comment", "operator_module", "plugins", "read_module")),
    "lowering/*.py",
    *(
        f"lowering/native/{name}.py"
        for name in (
            *("c_function_ir", "call_layout", "fast_call_ir", "kernel_code", "llvm_jit", "parallel_for", "word_code"),
            "threads/thread_team_ir",
        )
    ),
    "lowering/nest/*.py",
    "lowering/numba/*.py",
    *(f"lowering/passes/{room}/*.py" for room in ("canonicalize", "nest", "owners", "schedule", "loops")),
    *(
        f"lowering/schedule/{name}.py"
        for name in ("shape", "machine_model", "schedule", "steps", "thresholds", "checks")
    ),
    "kernels/runtime/compile.py",
)


def package_version(name: str) -> str:
    """Return the version of an installed distribution, or "not installed"."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


@functools.cache
def code_fingerprint(package: Path = PACKAGE) -> str:
    """Return a digest of everything that decides machine code beside the kernel's own key.

    These are the sources that make it, the versions of Python and the packages, and the CPU.

    A changed comment is a changed source. To leave comments out, by code objects without their lines, takes 11 to 13 ms
    in every process that calls a kernel, and 100 where there is no bytecode; the bytes take 1.5 (Zen 4).
    """
    digest = hashlib.sha256()
    for pattern in MAKES_CODE:
        for source in sorted(package.glob(pattern)):
            digest.update(f"{source.name} ".encode() + source.read_bytes())
    facts = [
        *_installed_versions(("gathernest", "numpy", "numba", "llvmlite", "xdsl")),
        sys.version,
        platform.machine(),
        *_cpu_names(),
        *(f"{name} {os.environ.get(name)}" for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT")),
    ]
    digest.update("\n".join(facts).encode())
    return digest.hexdigest()[:16]


def _installed_versions(names: Collection[str]) -> list[str]:
    """Return the names with the versions of their distributions, from the names of their metadata folders.

    The import of `importlib.metadata` takes a third of a first call, so it serves only distributions without a folder.
    """
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            entries = os.listdir(folder or ".")
        except OSError:
            continue
        matches = (re.fullmatch(r"(.+)-(.+)\.dist-info", entry) for entry in entries)
        found = {match[1].lower(): match[2] for match in matches if match is not None} | found
    return [f"{name} {found.get(name) or package_version(name)}" for name in names]


def _cpu_names() -> list[str]:
    """Return the facts by which LLVM names the CPU and its features; without /proc/cpuinfo the names that LLVM gives.

    The import of llvmlite takes 0.1 s, and a call that NumPy answers should not wait for it.
    """
    names = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
    names += ("CPU implementer", "CPU part", "CPU variant", "Features", "isa", "cpu")
    if found := [f"{name} {cpu_facts()[name]}" for name in names if name in cpu_facts()]:
        return found
    import llvmlite.binding as llvm

    return [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]


@functools.cache
def cpu_facts() -> dict[str, str]:
    """Return the facts of the first core in /proc/cpuinfo, by name; empty where there is no such file."""
    try:
        with open("/proc/cpuinfo") as lines:  # a page for each core: read no further than the first
            pairs = [line.partition(":") for line in itertools.takewhile(str.strip, lines)]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in pairs}


def cpu_model() -> str:
    """Return the CPU's name as the system tells it."""
    return cpu_facts().get("model name") or platform.processor() or platform.machine()


def usable_cores(*groups: Path) -> int:
    """Return the number of cores that this thread may use now: by its affinity, and its quota rounded up."""
    quota = cpu_quota(*groups)
    cores = affine_cores()
    return cores if quota is None else min(cores, max(1, math.ceil(quota)))


def affine_cores() -> int:
    """Return the number of cores that this thread may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def cpu_quota(process: Path = Path("/proc/self"), root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Return the quota of this process in cores, by its control groups, or None where they set no limit.

    Groups of version 1 and 2 and their parents are read once in a process. In a container whose own group is the root
    of the visible groups, the root's limit holds.
    """
    quotas: list[float] = []
    for line in _text(process / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mounts = [root / controllers, root / "cpu"] if controllers else [root, root / "unified"]
        place = Path(path.lstrip("/"))
        for mount in mounts:
            quotas += [quota for part in (place, *place.parents) if (quota := _quota_of(mount / part)) is not None]
    return min(quotas, default=None)


def _quota_of(group: Path) -> float | None:
    """Return the quota of one control group, of version 2 or 1, in cores; None where it sets no limit."""
    version_1 = " ".join(_text(group / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    quota, _, period = (_text(group / "cpu.max") or version_1).partition(" ")
    is_limited = quota.isdecimal() and period.isdecimal() and int(period) > 0
    return int(quota) / int(period) if is_limited else None


@functools.cache
def cache_sizes() -> dict[str, int]:
    """Return the sizes in bytes of the first core's data caches, such as {"L1": 32768}; empty if unknown."""
    sizes: dict[str, int] = {}
    units = {"K": 1024, "M": 1024**2, "G": 1024**3}
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, size, level = (_text(cache / name) for name in ("type", "size", "level"))
        if kind in ("Data", "Unified") and size and level:
            sizes[f"L{level}"] = int(size.rstrip("KMG")) * units.get(size[-1], 1)
    return sizes


def free_memory_bytes() -> int:
    """Return the bytes of memory that this process can still take, also within its cgroup; 1 GiB if unknown."""
    free = [_number(Path("/proc/meminfo"), "MemAvailable:", 1024)]
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        most, taken = _number(Path(limit)), _number(Path(used))
        free.append(None if most is None or taken is None else max(most - taken, 0))
    return min((found for found in free if found is not None), default=1024**3)


def _number(path: Path, label: str = "", unit: int = 1) -> int | None:
    """Return the number after a label in a file of the system, or None."""
    found = re.search(rf"^{label}\s*(\d+)", _text(path), re.MULTILINE)
    return None if found is None else int(found[1]) * unit


def _text(path: Path) -> str:
    """Return the text of a file of the system; nothing where it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""


class OtherLoad:
    """The number of cores that other processes use, as Linux counts it, since this object was made.

    Args:
        stat: the file with the time that each core has spent, in the form of /proc/stat.
    """

    def __init__(self, stat: Path = Path("/proc/stat")):
        self._stat = stat
        self._start = self._now()

    def cores(self) -> float:
        """Return the average number of this process's cores that other processes have used; 0 where unknown."""
        (busy_s, own_s, clock_s), (was_busy_s, was_own_s, was_clock_s) = self._now(), self._start
        if clock_s <= was_clock_s:
            return 0.0
        return max(0.0, (busy_s - was_busy_s - (own_s - was_own_s)) / (clock_s - was_clock_s))

    def _now(self) -> tuple[float, float, float]:
        """Return seconds: the busy time of the cores, the busy time of this process, and the clock."""
        own = os.times()
        return self._busy_s(), own.user + own.system, time.monotonic()

    def _busy_s(self) -> float:
        try:
            ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
            lines = [line.split() for line in self._stat.read_text().splitlines() if line.startswith("cpu")]
            ticks = sum(
                int(value)
                for name, *values in lines
                if name in ours
                for column, value in enumerate(values[:8])
                if column not in IDLE
            )
            return ticks / os.sysconf("SC_CLK_TCK")
        except (OSError, AttributeError, ValueError):
            return 0.0
