"""The C compiler of this machine: `CC`, or `cc`."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ...ir.errors import DependencyError, GathernestError
from ...lowering.programs import find


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
