"""Files in the system's temporary folder that an error names: the source, the module or the traceback to report."""

import contextlib
import os
import tempfile
from pathlib import Path


def save_report(text: str, suffix: str) -> Path:
    """Write a text to a new temporary file, and return its path; raises OSError, and leaves none, where that fails."""
    handle, name = tempfile.mkstemp(prefix="gathernest-", suffix=suffix)
    try:
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return Path(name)
