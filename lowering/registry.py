"""The passes: what they are called, where they lie, and the pipelines that run them. Plain Python.

A new pass is a line here, or an entry in `schedule.STEPS` where a schedule is to have it. A pass is imported when a
pipeline names it: `tile-loops` is `TileLoops` in `passes/schedule/tile_loops.py`.
"""

import functools
import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..ir.errors import ScheduleError
from ..ir.modules.plugins import register
from .schedule.schedule import NO_SCHEDULE, STEPS, Schedule
from .schedule.tiling import Check

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

_OF_OWNERS = (
    *("group-indices", "parallelize-sort", "owner-computes", "interleave-owners", "fuse-into-owners"),
    *("compact-indices", "vectorize-lists"),
)
ROOMS = {
    "canonicalize": ("normalize-gather", "erase-element-type", "bufferize-gather", "collapse-dims"),
    "nest": ("lower-to-nest", "fold-bounds", "erase-sizes", "drop-unit-loops"),
    "owners": _OF_OWNERS,
    "schedule": tuple(name for name in STEPS if name not in _OF_OWNERS),
    "loops": (
        "check-indices",
        "stage-result",
        "hoist-invariants",
        "lower-nest-to-loops",
        "fold-constants",
        "promote-sums",
    ),
    "operators": ("check-constant-indices", "compose-gathers", "gather-to-slice"),
}
OPERATOR_NAMES = ROOMS["operators"]
# The passes in the order of the pipeline `default`, and those over modules of operators.
PASSES = (*ROOMS["canonicalize"], *ROOMS["nest"], *STEPS, *ROOMS["loops"], *OPERATOR_NAMES)
# The stage behind the schedule, which shows the scheduled nest with the bounds handling written out.
SCHEDULED_NEST = "hoist-invariants"
# The pass that checks indices in another way than a nest of its own, and the one behind it for results that somebody
# has where it writes before all are checked: no default pipeline has them.
CHECKING, COPYING = CHECKS = ("check-indices", "stage-result")
WRITES_EARLY = ("fused", "counted")  # checks after which out is written before the last index is known to be valid
NAMES = tuple(name for name in PASSES if name not in OPERATOR_NAMES)


def module_of(name: str) -> str:
    """Return the module of a pass within `passes`, such as `schedule.tile_loops`."""
    room = next(room for room, names in ROOMS.items() if name in names)
    return f"{room}.{name.replace('-', '_')}"


def load_pass(name: str) -> "type[ModulePass]":
    """Import the pass of that name."""
    module = importlib.import_module(f".passes.{module_of(name)}", __package__)
    return getattr(module, "".join(word.capitalize() for word in name.split("-")))


def own_passes() -> "dict[str, Callable[[], type[ModulePass]]]":
    """Return our passes in order, then xDSL's."""
    from xdsl.transforms import get_all_passes

    return {name: lambda name=name: load_pass(name) for name in PASSES} | {
        name: factory for name, factory in get_all_passes().items() if name not in PASSES
    }


def all_passes() -> "dict[str, Callable[[], type[ModulePass]]]":
    """Return every pass that a pipeline may name: ours, xDSL's, and those of other packages, which are imported.

    To load a pass of another package raises ScheduleError where that fails; see `plugins.register`.
    """
    own = own_passes()
    return own | register("passes", [*own, *PIPELINES])


def summary(name: str) -> str:
    """Return what a pass does, in a line; raises ScheduleError where one of another package cannot be loaded."""
    if name in PASSES:
        return (load_pass(name).__doc__ or "").partition("\n")[0]
    if name in own_passes():
        return "A pass of xDSL."
    return (inspect.getdoc(all_passes()[name]()) or "").partition("\n")[0]


def default_pipeline(schedule: Schedule, *, erase_sizes: bool = True, check: Check | None = None) -> str:
    """Return the pipeline that takes an operator to loops with a schedule.

    Without `erase_sizes` the code keeps the sizes. `check` says how indices are checked, where that is not done in a
    nest of its own.
    """
    nest = [name for name in ROOMS["nest"] if erase_sizes or name != "erase-sizes"]
    scheduled = [str(schedule)] if str(schedule) else []
    fusing = [] if check is None else [str(check)]
    loops = [name for name in ROOMS["loops"] if name not in CHECKS]
    return ",".join([*ROOMS["canonicalize"], *nest, *scheduled, *fusing, *loops, "canonicalize", "cse"])


PIPELINES = {
    "canonical": ",".join(ROOMS["canonicalize"]),
    "nest": ",".join([*ROOMS["canonicalize"], "lower-to-nest", "fold-bounds"]),
    "default": default_pipeline(NO_SCHEDULE),
    "static": default_pipeline(NO_SCHEDULE, erase_sizes=False),
    "operators": ",".join([*ROOMS["operators"], "dce"]),
}
# `operators` is for modules of several operators. Those from `default` to `static` have no schedule here:
# `default_pipeline` puts one in.

# A pass with its options, or a pipeline, in the text of a pipeline.
_STEP = re.compile(r"([^\s,{}]+)(\s*\{[^{}]*\})?")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole pipeline of the caller's, from operator to loops; it stands where a schedule may stand.

    Attributes:
        text: passes with options and named pipelines.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ScheduleError(f"a pipeline must be text, such as {PIPELINES['canonical']!r}, got {self.text!r}")

    def expanded(self, *, is_fresh: bool = True) -> str:
        """Return the text with named pipelines written out.

        Without `is_fresh`, the caller's out must stay as it is when an index is out of range: all are checked before
        anything is copied, unless the result is staged behind that.
        """
        text = _STEP.sub(lambda step: PIPELINES.get(step[0], step[0]), self.text)
        steps = list(_STEP.finditer(text))
        copied = max((place for place, step in enumerate(steps) if step[1] == COPYING), default=-1)
        kept = [
            step[0]
            for place, step in enumerate(steps)
            if is_fresh or place < copied or step[1] != CHECKING or _options(step[2]).get("how") not in WRITES_EARLY
        ]
        return text if len(kept) == len(steps) else ",".join(kept)

    @property
    def most_axis_size(self) -> int | None:
        """The positions that an axis may have where `check-indices` is told their bits; None for any."""
        bits = self._numbers(CHECKING, "bits")
        return 1 << min(bits) if bits else None

    @property
    def row_bytes(self) -> frozenset[int]:
        """The bytes that a row must have where `specialize-inner` makes them part of the code."""
        return frozenset(self._numbers("specialize-inner", "bytes"))

    def _numbers(self, name: str, option: str) -> list[int]:
        """Return the numbers, without a sign, that the passes of a name have as an option."""
        given = (_options(step[2]) for step in _STEP.finditer(self.expanded()) if step[1] == name)
        texts = [options.get(option, "").lstrip("+-") for options in given]
        return [int(text) for text in texts if text.isdecimal()]

    @property
    def missing_pass(self) -> str:
        """The first pass that every way to loops has and this one does not; empty when it has them all."""
        given = {step[1] for step in _STEP.finditer(self.expanded())}
        _, *canonical = ROOMS["canonicalize"]  # without normalize-gather, which a normal gather does not need
        needed = (*canonical, "lower-to-nest", "fold-bounds", "lower-nest-to-loops")
        return next((name for name in needed if name not in given), "")


def _options(text: str | None) -> dict[str, str]:
    """Return the options of a pass by name, for `{name=value name=value}` or nothing."""
    words = (text or "").strip().strip("{}").split()
    return {name: value for name, _, value in (word.partition("=") for word in words)}


# xDSL's passes in the pipelines of a gather.
_OF_XDSL = ("canonicalize", "cse")


def passes_of_others(text: str) -> tuple[str, ...]:
    """Return what names the passes of a pipeline that are neither this package's nor xDSL's: name, home and sources.

    One of ours is another's when its `apply` was replaced. A pass without a file is like none of another process. Where
    the passes have not been imported, nobody can have replaced one, and only a name of another's imports them.
    """
    others = {step[1] for step in _STEP.finditer(text)}.difference(PASSES, PIPELINES, _OF_XDSL)
    if f"{__package__}.pipeline" not in sys.modules and not others:
        return ()
    kinds = map(type, importlib.import_module(".pipeline", __package__).parse_passes(text))
    return tuple(named for kind in kinds if (named := _named(kind)))


def is_own(module: str) -> bool:
    """Return whether a module of passes is of this package or of xDSL."""
    return module.startswith((f"{__package__}.passes.", "xdsl."))


def _named(kind: "type[ModulePass]") -> str:
    """Return the name, the class and the sources of a pass of another package; empty of one of ours or xDSL's."""
    homes = [kind.apply.__module__, *(base.__module__ for base in kind.__mro__)]
    others = dict.fromkeys(home for home in homes if not is_own(home) and home not in ("abc", "builtins"))
    if not others and kind.__module__ == homes[0]:
        return ""
    return f"{kind.name} of {kind.__module__}.{kind.__qualname__}, {', '.join(map(_version_and_source, others))}"


@functools.cache
def _version_and_source(module: str) -> str:
    """Return the version of the package that a module is in, and a digest of all its sources."""
    from importlib.metadata import PackageNotFoundError, version

    package, *rest = module.split(".")
    outer = [".".join([package, *rest[:depth]]) for depth in range(len(rest) + 1)]
    file = next((file for name in outer if (file := getattr(sys.modules.get(name), "__file__", None))), None)
    source = os.urandom(8).hex() if file is None else _digest(Path(file))
    try:
        return f"{module}, version {version(package)}, source {source}"
    except PackageNotFoundError:
        return f"{module}, source {source}"


def _digest(file: Path) -> str:
    """Return a digest of a file, or where it is a package's of all files of the package but compiled ones."""
    root, digest = file.parent, hashlib.sha256()
    files = sorted(root.rglob("*")) if file.name == "__init__.py" else [file]
    for source in files:
        if source.is_file() and "__pycache__" not in source.parts:
            digest.update(f"{source.relative_to(root)} ".encode() + source.read_bytes())
    return digest.hexdigest()[:16]
