"""One pass a file: `tile-loops` is `TileLoops` in `tile_loops.py`. Passes are imported when a pipeline names them."""

import importlib
from collections.abc import Callable

from xdsl.passes import ModulePass

NAMES = (
    "normalize-gather",
    "erase-element-type",
    "bufferize-gather",
    "collapse-dims",
    "lower-gather-to-nest",
    "lower-gradient-to-nest",
    "fold-bounds",
    "erase-sizes",
    "drop-unit-loops",
    "own-positions",
    "tile-loops",
    "interchange-loops",
    "parallelize-loops",
    "hoist-invariants",
    "lower-nest-to-loops",
    "fold-constants",
)


def load_pass(name: str) -> type[ModulePass]:
    """Import the pass of that kebab-case name."""
    module = importlib.import_module(f".{name.replace('-', '_')}", __name__)
    return getattr(module, "".join(word.capitalize() for word in name.split("-")))


def all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Return every pass a pipeline may name: ours, in the order of the default pipeline, then xDSL's."""
    from xdsl.transforms import get_all_passes

    ours: dict[str, Callable[[], type[ModulePass]]] = {name: lambda name=name: load_pass(name) for name in NAMES}
    return ours | {name: factory for name, factory in get_all_passes().items() if name not in ours}
