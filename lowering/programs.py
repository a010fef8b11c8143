"""The programs of other projects that gathernest and its tests run, with the versions that they understand.

`find` returns where a program is and its version, or raises the reason why none can be used. Only a program whose
version matters is asked for it, once for each file.
"""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..ir.errors import DependencyError, GathernestError

# Seconds that a program has to print its version.
LIMIT_S = 10
Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A program that may be on the PATH.

    Attributes:
        purpose: the ability that needs it; "tests" where only tests run it.
        package: the package of Debian and Ubuntu that has it.
        minimum: the oldest version that is understood; empty where every version is.
        version_prefix: a pattern of the text before the version in the output of `--version`.
        others: other names of its executable.
        is_numbered: whether its executables may end in `-` and the major version.
    """

    purpose: str
    package: str
    minimum: Version = ()
    version_prefix: str = ""
    others: tuple[str, ...] = ()
    is_numbered: bool = False


def _llvm(purpose: str, package: str, minimum: int) -> Program:
    return Program(purpose, package, (minimum,), "LLVM version ", is_numbered=True)


PROGRAMS = {
    # LLVM 20 is the first that knows a Zen 5, the newest CPU that kernels were measured on.
    "llvm-mca": _llvm("cycles of hot loops", "llvm-22", 20),
    # LLVM 19 is the first that lowers vector.from_elements.
    "mlir-opt": _llvm("the engine upstream", "mlir-22-tools", 19),
    "mlir-translate": _llvm("the engine upstream", "mlir-22-tools", 19),
    "opt": _llvm("the engine upstream, with an LLVM other than llvmlite's", "llvm-22", 19),
    "llc": _llvm("the engine upstream, with an LLVM other than llvmlite's", "llvm-22", 19),
    # git 2.30 is the first whose rev-parse knows --end-of-options.
    "git": Program("revisions of the checkout", "git", (2, 30), "git version "),
    "cc": Program("gathernest build, and C by hand", "gcc"),
    "c++": Program("tests", "g++"),
    "chromium": Program(
        "tests", "chromium", (112,), r"Chrom\w+ ", ("chromium-browser", "google-chrome")
    ),
    "fish": Program("tests", "fish"),
    "nm": Program("tests", "binutils"),
    "objdump": Program("tests", "binutils"),
    "patch": Program("tests", "patch"),
    # valgrind 3.15 is the first that reads F16C, which is a part of the target x86-64-v3.
    "valgrind": Program("instruction counts of asv_bench", "valgrind", (3, 15), "valgrind-"),
    "zsh": Program("tests", "zsh"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Installed:
    """A program that can be used: its path, and its version, which is empty where it does not matter."""

    path: str
    version: Version = ()

    @property
    def name(self) -> str:
        """The name of the executable, such as `llvm-mca-22`."""
        return os.path.basename(self.path)

    def __str__(self) -> str:
        return f"{self.path} ({text_of(self.version)})" if self.version else self.path


def find(name: str, *, major: int | None = None, executable: str | None = None) -> Installed:
    """Return a program of `PROGRAMS`, the newest that is installed.

    Args:
        name: a key of `PROGRAMS`.
        major: the major version to find; any from the minimum on when None.
        executable: a name or path to look for in place of the names in `PROGRAMS`.

    Raises:
        DependencyError: no such program is there, or its version is not understood; names the package to install.
    """
    found, reasons = _look(name, major, executable)
    if found:
        return found[0]
    program = PROGRAMS[name]
    wanted = f"{name} {major}" if major else name
    reason = "; ".join(reasons) or f"{executable or wanted} is not on the PATH"
    raise DependencyError(f"{reason}; on Debian and Ubuntu: apt-get install {program.package}")


def find_all(name: str) -> list[Installed]:
    """Return every program of a name whose version is understood, the newest first; none where none is on the PATH.

    Raises:
        DependencyError: programs of that name are there, and none is understood.
    """
    found, reasons = _look(name, None, None)
    if reasons and not found:
        find(name)
    return found


def text_of(version: Version) -> str:
    """Return a version as text, such as `22.1.8`."""
    return ".".join(map(str, version))


def _look(name: str, major: int | None, executable: str | None) -> tuple[list[Installed], list[str]]:
    """Return the programs that can be used, the newest first, and why others cannot."""
    program = PROGRAMS[name]
    found: dict[Version, Installed] = {}
    reasons: list[str] = []
    seen: set[str] = set()
    for candidate in (executable,) if executable else _names(name, program):
        file = shutil.which(candidate)
        if file is None:
            if (unusable := shutil.which(candidate, os.F_OK)) is not None:
                reasons.append(f"{unusable} is not executable")
            continue
        if not program.minimum:
            return [Installed(file)], []
        if os.path.realpath(file) in seen:
            continue
        seen.add(os.path.realpath(file))
        version = _version(file, program.version_prefix, os.stat(file).st_mtime_ns)
        if isinstance(version, str):
            reasons.append(version)
        elif version < program.minimum:
            wanted = f"{text_of(program.minimum)} or newer"
            reasons.append(f"{file} is version {text_of(version)}, which is too old: {wanted} is understood")
        elif major is not None and version[0] != major:
            reasons.append(f"{file} is version {text_of(version)}, and {major} is needed")
        else:
            found.setdefault(version, Installed(file, version))
    return sorted(found.values(), key=lambda each: each.version, reverse=True), reasons


def _names(name: str, program: Program) -> Iterator[str]:
    """Yield the names of a program's executables; those with a version in their name first."""
    if program.is_numbered:
        folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
        files = {file for folder in folders if os.path.isdir(folder) for file in os.listdir(folder)}
        yield from sorted(file for file in files if re.fullmatch(rf"{re.escape(name)}-\d+", file))
    yield name
    yield from program.others


@functools.cache
def _version(file: str, prefix: str, changed_ns: int) -> Version | str:
    """Return the version that a program prints, or why it prints none; `changed_ns` tells files of a path apart."""
    try:
        ended = subprocess.run(
            [file, "--version"], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=LIMIT_S
        )
    except OSError as error:
        return f"{file} cannot be run ({error.strerror})"
    except subprocess.TimeoutExpired:
        return f"{file} --version takes more than {LIMIT_S} s"
    if ended.returncode:
        return f"{file} --version ends with status {ended.returncode}"
    match = re.search(rf"{prefix}(\d{{1,9}}(?:\.\d{{1,9}})*)", ended.stdout.decode(errors="replace"))
    return f"{file} prints no version" if match is None else tuple(map(int, match[1].split(".")))


def c_compiler(why: str) -> str:
    """Return the path of the C compiler; raises DependencyError, whose message begins with `why`."""
    try:
        return find("cc", executable=os.environ.get("CC") or "cc").path
    except DependencyError as error:
        raise DependencyError(f"{why} needs a C compiler: {error}, or set CC") from None


def run_c_compiler(compiler: str, options: Sequence[str], output: Path, what: str) -> None:
    """Run the C compiler to write a file; raises GathernestError with its first line where it fails to do `what`."""
    try:
        ended = subprocess.run([compiler, *options, "-o", str(output)], capture_output=True, check=False)
    except OSError as error:
        raise GathernestError(f"{compiler} cannot {what}: it cannot be run ({error.strerror}); set CC") from None
    if ended.returncode or not output.exists():
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        reason = lines[0] if lines else f"it ends with status {ended.returncode} and writes no file; set CC"
        raise GathernestError(f"{compiler} cannot {what}: {reason}")
