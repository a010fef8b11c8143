"""The programs of upstream MLIR and LLVM that are installed, and the command lines that they are run by."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm

from ...ir.errors import DependencyError

# The LLVM that llvmlite carries; tools of the same one go first.
LLVM_MAJOR: int = llvm.llvm_version_info[0]
MOST_SECONDS = 300
# From upstream's loops to the dialect `llvm`.
LOWER_TO_LLVM = (
    *("--convert-scf-to-cf", "--convert-vector-to-llvm", "--convert-cf-to-llvm", "--convert-arith-to-llvm"),
    *("--expand-strided-metadata", "--lower-affine", "--finalize-memref-to-llvm", "--convert-func-to-llvm"),
    *("--convert-arith-to-llvm", "--convert-cf-to-llvm", "--reconcile-unrealized-casts"),
)
PACKAGES = {"mlir-opt": "mlir-{0}-tools", "mlir-translate": "mlir-{0}-tools", "opt": "llvm-{0}", "llc": "llvm-{0}"}


@dataclass(frozen=True, slots=True)
class Tools:
    """Programs of one LLVM, as their paths; `opt` and `llc` are None where they are not installed.

    Attributes:
        major: the version of LLVM that they are of.
    """

    major: int
    mlir_opt: str
    mlir_translate: str
    opt: str | None
    llc: str | None


def find_tools(path: str | None = None) -> Tools:
    """Return the tools of llvmlite's LLVM, or of the newest other one that is on the PATH.

    Args:
        path: folders to look in, as PATH has them; PATH itself when omitted.

    Raises:
        DependencyError: there is no `mlir-opt` with its `mlir-translate`, or only one that llvmlite cannot read from.
    """
    for major in dict.fromkeys((LLVM_MAJOR, *sorted(_majors(path), reverse=True))):
        mlir_opt, translate = (_tool(name, major, path) for name in ("mlir-opt", "mlir-translate"))
        opt, llc = (_tool(name, major, path) for name in ("opt", "llc"))
        has_llvm = major == LLVM_MAJOR or (opt is not None and llc is not None)
        if mlir_opt is not None and translate is not None and has_llvm:
            return Tools(major, mlir_opt, translate, opt, llc)
    raise DependencyError(
        f"mlir-opt and mlir-translate of LLVM {LLVM_MAJOR}, or of another LLVM beside its opt and llc, are not on the "
        f"PATH; install them: on Debian and Ubuntu (https://apt.llvm.org), apt-get install mlir-{LLVM_MAJOR}-tools"
    )


def find_tool(name: str, path: str | None = None) -> str:
    """Return the path of a program of llvmlite's LLVM, such as `mlir-opt`; raises DependencyError."""
    if (found := _tool(name, LLVM_MAJOR, path)) is None:
        package = PACKAGES[name].format(LLVM_MAJOR)
        raise DependencyError(
            f"{name} of LLVM {LLVM_MAJOR} is not on the PATH; on Debian and Ubuntu: apt-get install {package}"
        )
    return found


def run_tool(command: Sequence[str], text: str | bytes) -> bytes:
    """Run a program on a text and return what it prints; raises subprocess.CalledProcessError where it fails."""
    given = text.encode() if isinstance(text, str) else text
    return subprocess.run(command, input=given, capture_output=True, timeout=MOST_SECONDS, check=True).stdout


def _majors(path: str | None) -> set[int]:
    """Return the versions of LLVM of which an `mlir-opt` is on the PATH."""
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    names = [name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)]
    majors = {int(match[1]) for name in names if (match := re.fullmatch(r"mlir-opt-(\d+)", name))}
    if (plain := shutil.which("mlir-opt", path=path)) is not None and (major := _major_of(plain)) is not None:
        majors.add(major)
    return majors


def _tool(name: str, major: int, path: str | None) -> str | None:
    """Return the path of a program of one version of LLVM; None where there is none."""
    for candidate in (f"{name}-{major}", name):
        found = shutil.which(candidate, path=path)
        if found is not None and _major_of(found) == major:
            return found
    return None


def _major_of(program: str) -> int | None:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=MOST_SECONDS).stdout
    match = re.search(r"LLVM version (\d+)\.", said)
    return int(match[1]) if match else None
