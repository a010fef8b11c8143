"""Where options say that a command writes: checked before its work, not after it."""

import os
from pathlib import Path

from .terminal import UsageError


def check_file(option: str, path: Path | str, *, makes_folder: bool = False) -> None:
    """Check that a file can be written; its folder may be missing where the command makes it; raises UsageError."""
    place = check_given(option, path, "file")
    if place.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file in it")
    _check_place(option, place, "file")
    if not makes_folder and not place.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {place.parent}; make it first")


def check_folder(option: str, path: Path | str, what: str) -> None:
    """Check that a folder is there or can be made, for `what` goes there; raises UsageError."""
    place = check_given(option, path, "folder")
    if place.exists() and not place.is_dir():
        raise UsageError(f"{option} {path} is a file, and {what} go to a folder; name another")
    _check_place(option, place, "folder")


def check_given(option: str, path: Path | str, kind: str) -> Path:
    """Return the path of an option; raises UsageError where it is empty."""
    if path == "":
        raise UsageError(f"{option} is empty; give it the name of a {kind}")
    return Path(path)


def _check_place(option: str, place: Path, kind: str) -> None:
    """Check the lowest part of a path that is there: a folder if it is above the place, and one to write to."""
    there = next((part for part in (place, *place.parents) if part.exists()), place)
    if there != place and not there.is_dir():
        raise UsageError(f"{option} {place}: {there} is a file, not a folder; name another {kind}")
    if not os.access(there, os.W_OK):
        raise UsageError(f"{option} {place} cannot be written; name another {kind}")
