"""Packages that add passes and operations through xDSL's entry point `xdsl.universe`. Plain Python.

They are imported when a name is looked up that neither gathernest nor xDSL has, and not before. A package that cannot
be imported is kept with its error, which only such a look-up reports.
"""

import contextlib
import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ScheduleError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "xdsl.universe"
Kind = Literal["passes", "dialects"]


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point of another package.

    Attributes:
        package: the name of the distribution, with its version.
        entry_point: as in its `pyproject.toml`, such as `own = own.universe:UNIVERSE`.
        passes, dialects: the factory of each, by its name.
        error: why it cannot be imported; None where it can.
    """

    package: str
    entry_point: str
    passes: dict[str, Callable[[], Any]]
    dialects: dict[str, Callable[[], Any]]
    error: Exception | None = None

    def __str__(self) -> str:
        return f"{self.package} (entry point {self.entry_point})"

    @property
    def failure(self) -> str:
        """The message for a package that cannot be imported, with the way out."""
        name, reason = self.package.partition(" ")[0], f"{type(self.error).__name__}: {self.error}".rstrip(": ")
        return f"the package {self} cannot be imported: {reason}; repair it, or remove it with pip uninstall {name}"


@functools.cache
def plugins() -> tuple[Plugin, ...]:
    """Import the package of every entry point but xDSL's own; in the order of their names."""
    from importlib.metadata import entry_points  # takes as long to import as all of ours that a first call needs

    found = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return tuple(_load(entry) for entry in found if not entry.value.startswith("xdsl."))


def _load(entry: "EntryPoint") -> Plugin:
    package = entry.value.partition(".")[0] if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    facts = package, f"{entry.name} = {entry.value}"
    try:
        universe = entry.load()
        return Plugin(*facts, dict(universe.all_passes), dict(universe.all_dialects))
    except Exception as error:  # the import of another package can raise anything
        return Plugin(*facts, {}, {}, error)


def why_unknown() -> str:
    """Return an addition to a message about an unknown name: the packages that could not be asked for it."""
    return "".join(f"; {plugin.failure}" for plugin in plugins() if plugin.error is not None)


def import_error() -> Exception | None:
    """Return the error of the first package that cannot be imported."""
    return next((plugin.error for plugin in plugins() if plugin.error is not None), None)


def register(kind: Kind, own: Collection[str]) -> dict[str, Callable[[], Any]]:
    """Return the factory of each pass or dialect of other packages, by its name.

    A factory raises ScheduleError where two packages have its name, its package has a name of `own`, or it fails.
    """
    names = {name for plugin in plugins() for name in getattr(plugin, kind)}
    return {name: functools.partial(_make, kind, name, own) for name in sorted(names.difference(own))}


def _make(kind: Kind, name: str, own: Collection[str]) -> Any:
    what = f"the {'pass' if kind == 'passes' else 'dialect'} {name!r}"
    plugin, *others = (plugin for plugin in plugins() if name in getattr(plugin, kind))
    if others:
        both = " and by ".join(map(str, (plugin, *others)))
        raise ScheduleError(f"{what} is registered by {both}; remove one of them")
    if taken := sorted(getattr(plugin, kind).keys() & own):
        raise ScheduleError(
            f"{what} is of {plugin}, which registers {taken[0]!r}, too, as gathernest or xDSL does; rename that one"
        )
    try:
        return getattr(plugin, kind)[name]()
    except Exception as error:
        broken = Plugin(plugin.package, plugin.entry_point, {}, {}, error)
        raise ScheduleError(f"{what} cannot be loaded: {broken.failure}") from error


def package_of(kind: Kind, name: str) -> str:
    """Return the other package that registers a pass or dialect; empty where none does."""
    return next((str(plugin) for plugin in plugins() if name in getattr(plugin, kind)), "")


def load_passes() -> list[tuple[Plugin, Any]]:
    """Return the passes of other packages that can be loaded, each with its package."""
    loaded: list[tuple[Plugin, Any]] = []
    for plugin in plugins():
        for make in plugin.passes.values():
            with contextlib.suppress(Exception):  # a look-up of its name reports the error
                loaded.append((plugin, make()))
    return loaded
