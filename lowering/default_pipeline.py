"""The pipeline of a kernel as text. Plain Python; imports no xDSL."""

import sys

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
    """Return what names the passes of a pipeline that are neither this package's nor xDSL's.

    There are none where the passes have not been imported, since nobody can have put another in then.
    """
    compiler = sys.modules.get(f"{__package__}.pipeline")
    return () if compiler is None else compiler.passes_of_others(text)
