"""What gathernest finds through the entry point `xdsl.universe`; it imports the pass when a pipeline names it."""

from xdsl.passes import ModulePass
from xdsl.universe import Universe


def _sort_indices() -> type[ModulePass]:
    from .sort_indices import SortIndices

    return SortIndices


UNIVERSE = Universe(all_passes={"sort-indices": _sort_indices})
