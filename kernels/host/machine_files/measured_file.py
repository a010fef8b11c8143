"""Files of what was measured on a machine, named by a digest of what it depends on. Plain Python."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..cache_folder import cache_folder
from ..files import read_own

Found = TypeVar("Found")


def measured_file(kind: str, facts: Mapping[str, Any]) -> Path:
    """Return the file of a machine with these facts, in the folder of a kind within the cache folder."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / kind / f"{digest}.json"


def read_measured(path: Path, from_json: Callable[[Any], Found]) -> Found | None:
    """Return what `from_json` makes of a file; None where it is damaged, or another user could have written it."""
    try:
        return from_json(json.loads(read_own(path)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
