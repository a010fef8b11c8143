"""The C compiler of this machine: `CC`, or `cc`."""

import os
import shutil
import subprocess
from collections.abc import Sequence

from ...ir.errors import DependencyError, GathernestError


def c_compiler(why: str) -> str:
    """Return the path of the C compiler; raises DependencyError, which begins with why it is wanted."""
    named = os.environ.get("CC") or "cc"
    found = shutil.which(named)
    if found is None:
        raise DependencyError(f"{why} needs a C compiler, and there is no {named}; install gcc or clang, or set CC")
    return found


def run_c_compiler(command: Sequence[str], what: str) -> None:
    """Run the C compiler; raises GathernestError with its first line where it fails to do `what`."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        reason = ended.stderr.strip().partition("\n")[0]
        raise GathernestError(f"{command[0]} cannot {what}: {reason}")
