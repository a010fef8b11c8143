"""Files of what was measured on a machine, named by a digest of what it depends on. Plain Python."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ....ir.numbers import parse_json
from ..cache_folder import cache_folder, warn_caller
from ..files import read_own

Found = TypeVar("Found")
_LEFT_OUT: set[Path] = set()  # files that a warning has been given for


class MachineFileWarning(UserWarning):
    """A file about a machine cannot be used, and is left out."""


def measured_file(kind: str, facts: Mapping[str, Any]) -> Path:
    """Return the file of a machine with these facts, in the folder of a kind within the cache folder."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / kind / f"{digest}.json"


def read_measured(path: Path, from_json: Callable[[Any], Found]) -> Found | None:
    """Return what `from_json` makes of a file; None, with a warning where there is one that cannot be used."""
    try:
        return from_json(parse_json(read_own(path)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        warn_left_out(path, f"the file {path} is left out: {reason}; delete it, or measure again")
        return None


def warn_left_out(path: Path, message: str) -> None:
    """Warn, once a file, that it is left out."""
    if path not in _LEFT_OUT:
        _LEFT_OUT.add(path)
        warn_caller(message, MachineFileWarning)
