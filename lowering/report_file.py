"""Files in the system's temporary folder that an error names: the source, the module or the traceback to report."""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path


def save_report(text: str, suffix: str) -> Path:
    """Write a text to a temporary file that is named by its content, and return its path.

    An error that is raised repeatedly leaves one file. Where another user has a file of that name, the file gets a
    name of its own.

    Raises:
        OSError: it cannot be written; nothing is left behind, as after any other exception.
    """
    content = text.encode(errors="backslashreplace")
    handle, name = tempfile.mkstemp(prefix="gathernest-", suffix=suffix)
    path = Path(name).with_name(f"gathernest-{hashlib.sha256(content).hexdigest()[:16]}{suffix}")
    try:
        with open(handle, "wb") as file:
            file.write(content)
        try:
            os.replace(name, path)
        except PermissionError:
            return Path(name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return path
