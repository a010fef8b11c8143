"""Facts about this machine and the versions that generated code depends on."""

import functools
import hashlib
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
CODE_FOLDERS = ("ir", "lowering")


def package_version(name: str) -> str:
    """Return the version of an installed distribution, or "not installed"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


@functools.cache
def code_fingerprint() -> str:
    """Return a digest of everything but the kernel's own key that decides its machine code.

    That is: the sources that make it, the versions of Python, NumPy, Numba and llvmlite, and the CPU as LLVM names it.
    """
    import llvmlite.binding as llvm
    import numba

    digest = hashlib.sha256()
    for folder in CODE_FOLDERS:
        for source in sorted((PACKAGE / folder).rglob("*.py")):
            digest.update(source.read_bytes())
    facts = [
        *(f"{name} {package_version(name)}" for name in ("gathernest", "numpy", "numba", "llvmlite")),
        sys.version,
        platform.machine(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        f"{numba.config.CPU_NAME} {numba.config.CPU_FEATURES} {numba.config.OPT}",  # type: ignore[attr-defined]
    ]
    digest.update("\n".join(facts).encode())
    return digest.hexdigest()[:16]


@functools.cache
def cpu_model() -> str:
    """Return the CPU's name as the system tells it."""
    try:
        with open("/proc/cpuinfo") as facts:  # which has a page for each core: read no further than the first
            for line in facts:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_sizes() -> dict[str, int]:
    """Return the sizes in bytes of the first core's data caches, such as {"L1": 32768}; empty if unknown."""
    sizes: dict[str, int] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            text = (index / "size").read_text().strip()
            level = (index / "level").read_text().strip()
        except OSError:
            continue
        units = {"K": 1024, "M": 1024**2, "G": 1024**3}
        sizes[f"L{level}"] = int(text.rstrip("KMG")) * units.get(text[-1], 1)
    return sizes
