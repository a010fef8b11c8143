"""The passes: what they are called, where they lie, and the pipelines that run them. Plain Python.

A new pass is a line here, or an entry in `schedule.STEPS` where a schedule is to have it. A pass is imported when a
pipeline names it: `tile-loops` is `TileLoops` in `passes/schedule/tile_loops.py`.
"""

import functools
import hashlib
import importlib
import secrets
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from .schedule.schedule import NO_SCHEDULE, STEPS, Schedule

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

ROOMS = {
    "canonicalize": ("normalize-gather", "erase-element-type", "bufferize-gather", "collapse-dims"),
    "nest": ("lower-gather-to-nest", "lower-gradient-to-nest", "fold-bounds", "erase-sizes", "drop-unit-loops"),
    "schedule": tuple(STEPS),
    "loops": ("hoist-invariants", "lower-nest-to-loops", "fold-constants"),
    "graph": ("fold-graph-constants", "check-constant-indices", "compose-gathers", "gather-to-slice"),
}
# The passes by folder, in the order of the pipeline `default`; `graph` has those over the graph of a model.
PASSES = tuple(name for names in ROOMS.values() for name in names)
GRAPH_NAMES = ROOMS["graph"]
NAMES = tuple(name for name in PASSES if name not in GRAPH_NAMES)


def module_of(name: str) -> str:
    """Return the module of a pass within `passes`, such as `schedule.tile_loops`."""
    room = next(room for room, names in ROOMS.items() if name in names)
    return f"{room}.{name.replace('-', '_')}"


def load_pass(name: str) -> "type[ModulePass]":
    """Import the pass of that name."""
    module = importlib.import_module(f".passes.{module_of(name)}", __package__)
    return getattr(module, "".join(word.capitalize() for word in name.split("-")))


def all_passes() -> "dict[str, Callable[[], type[ModulePass]]]":
    """Return every pass that a pipeline may name: ours in order, then xDSL's."""
    from xdsl.transforms import get_all_passes

    return {name: lambda name=name: load_pass(name) for name in PASSES} | {
        name: factory for name, factory in get_all_passes().items() if name not in PASSES
    }


def summary(name: str) -> str:
    """Return what a pass of ours does, in a line."""
    return (load_pass(name).__doc__ or "").partition("\n")[0]


def default_pipeline(
    schedule: Schedule, *, erase_sizes: bool = True, gradient: bool = False, clamp: bool = False
) -> str:
    """Return the pipeline that takes an operator to loops with a schedule.

    Args:
        schedule: how the nest runs.
        erase_sizes: whether sizes become arguments; `static` keeps them in the code.
        gradient: whether it adds.
        clamp: whether the nest that copies clamps indices that were checked before.
    """
    left_out = {"lower-gather-to-nest" if gradient else "lower-gradient-to-nest", "" if erase_sizes else "erase-sizes"}
    nest = [name for name in ROOMS["nest"] if name not in left_out]
    nest = ["fold-bounds{clamp=true}" if clamp and name == "fold-bounds" else name for name in nest]
    scheduled = [str(schedule)] if str(schedule) else []
    return ",".join([*ROOMS["canonicalize"], *nest, *scheduled, *ROOMS["loops"], "canonicalize", "cse"])


PIPELINES = {
    "canonical": ",".join(ROOMS["canonicalize"]),
    "nest": ",".join([*ROOMS["canonicalize"], "lower-gather-to-nest", "fold-bounds"]),
    "default": default_pipeline(NO_SCHEDULE),
    "gradient": default_pipeline(NO_SCHEDULE, gradient=True),
    "static": default_pipeline(NO_SCHEDULE, erase_sizes=False),
    "graph": ",".join([*ROOMS["graph"], "dce"]),
}
# `default`, `gradient` and `static` have no schedule here: `default_pipeline` puts one in. `graph` is for models.


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
