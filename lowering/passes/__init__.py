"""One pass a file: `tile-loops` is `TileLoops` in `schedule/tile_loops.py`, imported when a pipeline names it."""

import importlib
from collections.abc import Callable

from xdsl.passes import ModulePass

ROOMS = {
    "canonicalize": ("normalize-gather", "erase-element-type", "bufferize-gather", "collapse-dims"),
    "nest": (
        "lower-gather-to-nest",
        "lower-gradient-to-nest",
        "fold-bounds",
        "erase-sizes",
        "drop-unit-loops",
    ),
    "schedule": (
        "specialize-inner",
        "owner-computes",
        "tile-loops",
        "interchange-loops",
        "parallelize-loops",
        "hoist-indices",
        "vectorize-inner",
        "unroll",
        "prefetch-indices",
        "stream-stores",
    ),
    "loops": ("hoist-invariants", "lower-nest-to-loops", "fold-constants"),
    "graph": ("fold-graph-constants", "check-constant-indices", "compose-gathers", "gather-to-slice"),
}
# The passes of each folder, in the order of the pipelines.
GRAPH_NAMES = ROOMS["graph"]
# The passes over the graph of a model, before its gathers are lowered one by one.
NAMES = tuple(name for room, names in ROOMS.items() if room != "graph" for name in names)


def module_of(name: str) -> str:
    """Return the module of a pass within this folder, such as `schedule.tile_loops`."""
    room = next(room for room, names in ROOMS.items() if name in names)
    return f"{room}.{name.replace('-', '_')}"


def load_pass(name: str) -> type[ModulePass]:
    """Import the pass of that kebab-case name."""
    module = importlib.import_module(f".{module_of(name)}", __name__)
    return getattr(module, "".join(word.capitalize() for word in name.split("-")))


def all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Return every pass a pipeline may name: ours, in the order of the pipelines `default` and `graph`, then xDSL's."""
    from xdsl.transforms import get_all_passes

    names = (*NAMES, *GRAPH_NAMES)
    ours: dict[str, Callable[[], type[ModulePass]]] = {name: lambda name=name: load_pass(name) for name in names}
    return ours | {name: factory for name, factory in get_all_passes().items() if name not in ours}
