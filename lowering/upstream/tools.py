"""The programs of upstream MLIR and LLVM that are installed, and the command lines that they are run by."""

import contextlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm

from ...ir.errors import CompileError, DependencyError
from ..programs import find, find_all

# The LLVM that llvmlite carries; tools of the same one go first.
LLVM_MAJOR: int = llvm.llvm_version_info[0]
MOST_SECONDS = 300
# From upstream's loops to the dialect `llvm`.
LOWER_TO_LLVM = (
    *("--convert-scf-to-cf", "--convert-vector-to-llvm", "--convert-cf-to-llvm", "--convert-arith-to-llvm"),
    *("--expand-strided-metadata", "--lower-affine", "--finalize-memref-to-llvm", "--convert-func-to-llvm"),
    *("--convert-arith-to-llvm", "--convert-cf-to-llvm", "--reconcile-unrealized-casts"),
)


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


def find_tools() -> Tools:
    """Return the tools of llvmlite's LLVM, or of the newest other one that is on the PATH.

    Raises:
        DependencyError: there is no `mlir-opt` with its `mlir-translate`, or only one that llvmlite cannot read from.
    """
    try:
        return _tools_of(LLVM_MAJOR)
    except DependencyError as error:
        reason = error
    for newest in find_all("mlir-opt"):
        with contextlib.suppress(DependencyError):
            tools = _tools_of(newest.version[0])
            if tools.opt is not None and tools.llc is not None:
                return tools
    raise DependencyError(
        f"mlir-opt and mlir-translate of LLVM {LLVM_MAJOR}, or of another LLVM beside its opt and llc, are needed: "
        f"{reason}"
    )


def run_tool(command: Sequence[str], text: str | bytes) -> bytes:
    """Run a program on a text and return what it prints; raises CompileError where it fails."""
    given = text.encode() if isinstance(text, str) else text
    try:
        return subprocess.run(command, input=given, capture_output=True, timeout=MOST_SECONDS, check=True).stdout
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip() or f"it ended with status {error.returncode}"
    except subprocess.TimeoutExpired:
        reason = f"it takes more than {MOST_SECONDS} s"
    except OSError as error:
        reason = f"it cannot be run ({error.strerror})"
    raise CompileError(f"{os.path.basename(command[0])} rejects the module: {reason}", file="<stdin>")


def _tools_of(major: int) -> Tools:
    """Return the programs of one version of LLVM; raises DependencyError."""
    mlir_opt, translate = (find(name, major=major).path for name in ("mlir-opt", "mlir-translate"))
    others: dict[str, str] = {}
    for name in ("opt", "llc"):
        with contextlib.suppress(DependencyError):
            others[name] = find(name, major=major).path
    return Tools(major, mlir_opt, translate, others.get("opt"), others.get("llc"))
