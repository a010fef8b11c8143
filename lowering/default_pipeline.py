"""The pipeline of a kernel as text. Plain Python; imports no xDSL."""

import functools
import hashlib
import secrets
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .schedule.schedule import Schedule

CANONICAL = ("normalize-gather", "erase-element-type", "bufferize-gather", "collapse-dims")
NEST = ("lower-gather-to-nest", "fold-bounds")
GRADIENT_NEST = ("lower-gradient-to-nest", "fold-bounds")
LOOPS = ("hoist-invariants", "lower-nest-to-loops", "fold-constants", "canonicalize", "cse")


def default_pipeline(schedule: Schedule, *, erase_sizes: bool = True, gradient: bool = False) -> str:
    """Return the pipeline that takes an operator to loops with a schedule; `static` keeps the sizes in the code."""
    nest = GRADIENT_NEST if gradient else NEST
    middle = [*(["erase-sizes"] if erase_sizes else []), "drop-unit-loops", *([str(schedule)] if str(schedule) else [])]
    return ",".join([*CANONICAL, *nest, *middle, *LOOPS])


def passes_of_others(text: str) -> tuple[str, ...]:
    """Return what names the passes of a pipeline that are neither this package's nor xDSL's: name, home and source.

    One of ours is another's when its `apply` was replaced. A pass without a file is like none of another process. There
    are none where the passes have not been imported, since nobody can have put another in then.
    """
    compiler, named = sys.modules.get(f"{__package__}.pipeline"), []
    for kind in () if compiler is None else map(type, compiler.parse_passes(text)):
        home = kind.apply.__module__
        if kind.__module__ != home or not home.startswith((f"{__package__}.passes.", "xdsl.")):
            named.append(f"{kind.name} of {kind.__module__}.{kind.__qualname__} in {home}, {_version_and_source(home)}")
    return tuple(named)


@functools.cache
def _version_and_source(module: str) -> str:
    package, file = module.partition(".")[0], getattr(sys.modules.get(module), "__file__", None)
    source = secrets.token_hex(8) if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
    try:
        return f"version {version(package)}, source {source}"
    except PackageNotFoundError:
        return f"source {source}"
