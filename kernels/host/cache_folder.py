"""The cache folder, and the warning where it cannot be written."""

import os
import sys
import tempfile
import warnings
from pathlib import Path

from .knobs import knobs
from .runtime import RUNTIME

NO_HOME = Path(os.devnull) / "gathernest"  # a folder that cannot be made, where the user has none for it


class CacheWarning(UserWarning):
    """The cache on disk cannot be used; kernels are compiled again in every process."""


def cache_folder() -> Path:
    """Return the folder of all files that the cache keeps."""
    if knobs.cache_dir is not None:
        return Path(knobs.cache_dir)
    import platformdirs

    try:
        folder = platformdirs.user_cache_dir("gathernest")
    except (KeyError, RuntimeError):  # neither HOME nor an entry of the user in the passwd file
        return NO_HOME
    return NO_HOME if folder.startswith("~") else Path(folder)


def why_not_writable(folder: Path) -> str | None:
    """Return the reason why no file can be made in a folder, or in its first parent that exists; None if one can."""
    try:
        while not os.path.exists(folder) and folder != folder.parent:
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)


WARNED: set[Path] = set()  # folders that the user has been warned about


def warn_unwritable(
    folder: Path, error: OSError, consequence: str = "kernels are compiled anew in every process"
) -> None:
    """Warn, once a folder, that it cannot be written, and of the consequence."""
    if folder in WARNED:
        return
    WARNED.add(folder)
    reason = "no home folder is known: HOME is not set" if NO_HOME in folder.parents else error.strerror or error
    warn_caller(
        f"the cache folder {folder} cannot be written ({reason}); {consequence}. "
        "Set GATHERNEST_CACHE_DIR to a folder that can be written",
        CacheWarning,
    )


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line that called this package, also from a thread that works for that caller."""
    frame = RUNTIME.caller.get() or sys._getframe(1)
    package = Path(__file__).parents[2]  # as frames name it, whether there is a link on the way or not
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(package):
        frame = frame.f_back
    names = frame.f_globals
    place = frame.f_code.co_filename, frame.f_lineno, names.get("__name__"), names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, *place)
