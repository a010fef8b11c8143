"""The passes: their names, their modules, and the pipelines that run them. Plain Python.

A new pass is a line of `PASSES`, and an entry in `schedule.STEPS` where a schedule is to have it. A pass is imported
when a pipeline names it.
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

from ..ir.errors import ScheduleError, show
from ..ir.modules.plugins import register
from .schedule.checks import Check
from .schedule.schedule import NO_SCHEDULE, Schedule

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

# The module of each pass in `passes`, in the order of the pipeline `default`; passes on modules of operators are last.
PASSES = {
    "normalize-gather": "canonicalize.canonical_form:NormalizeGather",
    "erase-element-type": "canonicalize.canonical_form:EraseElementType",
    "bufferize-gather": "canonicalize.canonical_form:BufferizeGather",
    "collapse-dims": "canonicalize.canonical_form:CollapseDims",
    "lower-to-nest": "nest.lower_to_nest:LowerToNest",
    "fold-bounds": "nest.fold_bounds:FoldBounds",
    "erase-sizes": "nest.simplify_nest:EraseSizes",
    "drop-unit-loops": "nest.simplify_nest:DropUnitLoops",
    "specialize-inner": "schedule.specialize_inner:SpecializeInner",
    "bound-inner": "schedule.specialize_inner:BoundInner",
    "group-indices": "owners.sort_indices:GroupIndices",
    "parallelize-sort": "owners.sort_indices:ParallelizeSort",
    "owner-computes": "owners.owner_computes:OwnerComputes",
    "fuse-into-owners": "owners.owner_computes:FuseIntoOwners",
    "tile-loops": "schedule.split_loops:TileLoops",
    "interchange-loops": "schedule.order_loops:InterchangeLoops",
    "parallelize-loops": "schedule.order_loops:ParallelizeLoops",
    "compact-indices": "owners.list_indices:CompactIndices",
    "vectorize-lists": "owners.list_indices:VectorizeLists",
    "hoist-indices": "schedule.hoist_indices:HoistIndices",
    "vectorize-inner": "schedule.vectorize:VectorizeInner",
    "gather-lanes": "schedule.vectorize:GatherLanes",
    "unroll": "schedule.split_loops:Unroll",
    "prefetch": "schedule.prefetch:Prefetch",
    "stream-stores": "schedule.stream_stores:StreamStores",
    "check-indices": "loops.check_indices:CheckIndices",
    "stage-result": "loops.stage_result:StageResult",
    "hoist-invariants": "loops.hoist_invariants:HoistInvariants",
    "lower-nest-to-loops": "loops.lower_nest_to_loops:LowerNestToLoops",
    "fold-constants": "loops.fold_constants:FoldConstants",
    "promote-sums": "loops.promote_sums:PromoteSums",
    "check-constant-indices": "operators.constant_gathers:CheckConstantIndices",
    "compose-gathers": "operators.constant_gathers:ComposeGathers",
    "gather-to-slice": "operators.constant_gathers:GatherToSlice",
}


def _names_in(room: str) -> tuple[str, ...]:
    """Return the passes of a folder of `passes`, in order."""
    return tuple(name for name, place in PASSES.items() if place.startswith(f"{room}."))


CANONICAL_NAMES, NEST_NAMES, LOOP_NAMES, OPERATOR_NAMES = map(_names_in, ("canonicalize", "nest", "loops", "operators"))
# The stage behind the schedule, which shows the scheduled nest with the bounds handling written out.
SCHEDULED_NEST = "hoist-invariants"
# The pass that checks indices in another way than in a nest of its own, and the pass behind it that protects a result
# which somebody has while not all indices are checked; no default pipeline has them.
CHECKING, COPYING = CHECKS = ("check-indices", "stage-result")
WRITES_EARLY = ("fused", "counted")  # checks after which out is written before the last index is known to be valid
NAMES = tuple(name for name in PASSES if name not in OPERATOR_NAMES)


def module_of(name: str) -> str:
    """Return the module of a pass within `passes`, such as `schedule.tile_loops`."""
    return PASSES[name].partition(":")[0]


def load_pass(name: str) -> "type[ModulePass]":
    """Import the pass of that name."""
    module, _, kind = PASSES[name].partition(":")
    return getattr(importlib.import_module(f".passes.{module}", __package__), kind)


def own_passes() -> "dict[str, Callable[[], type[ModulePass]]]":
    """Return our passes in order, then xDSL's."""
    from xdsl.transforms import get_all_passes

    return {name: lambda name=name: load_pass(name) for name in PASSES} | {
        name: factory for name, factory in get_all_passes().items() if name not in PASSES
    }


def all_passes() -> "dict[str, Callable[[], type[ModulePass]]]":
    """Return every pass that a pipeline may name: ours, xDSL's, and passes of other packages, which are imported.

    A factory of another package's pass raises ScheduleError where it fails; see `plugins.register`.
    """
    own = own_passes()
    return own | register("passes", [*own, *PIPELINES])


def summary(name: str) -> str:
    """Return the one-line summary of a pass; raises ScheduleError where a pass of another package cannot be loaded."""
    if name in PASSES:
        return (load_pass(name).__doc__ or "").partition("\n")[0]
    if name in own_passes():
        return "A pass of xDSL."
    return (inspect.getdoc(all_passes()[name]()) or "").partition("\n")[0]


def default_pipeline(schedule: Schedule, *, erase_sizes: bool = True, check: Check | None = None) -> str:
    """Return the pipeline that takes an operator to loops with a schedule.

    Without `erase_sizes` the code keeps the sizes. `check` is the check of indices, unless that has a nest of its own.
    """
    nest = [name for name in NEST_NAMES if erase_sizes or name != "erase-sizes"]
    scheduled = [str(schedule)] if str(schedule) else []
    fusing = [] if check is None else [str(check)]
    loops = [name for name in LOOP_NAMES if name not in CHECKS]
    return ",".join([*CANONICAL_NAMES, *nest, *scheduled, *fusing, *loops, "canonicalize", "cse"])


PIPELINES = {
    "canonical": ",".join(CANONICAL_NAMES),
    "nest": ",".join([*CANONICAL_NAMES, "lower-to-nest", "fold-bounds"]),
    "default": default_pipeline(NO_SCHEDULE),
    "static": default_pipeline(NO_SCHEDULE, erase_sizes=False),
    "operators": ",".join([*OPERATOR_NAMES, "dce"]),
}
# `operators` is for modules of several operators. `default` and `static` have no schedule here: `default_pipeline` puts
# a schedule in.

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
            raise ScheduleError(f"a pipeline must be text, such as {PIPELINES['canonical']!r}, got {show(self.text)}")

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
        """The most positions of an axis where `check-indices` has the option bits; None for any number."""
        bits = self._numbers(CHECKING, "bits")
        return 1 << min(bits) if bits else None

    @property
    def row_bytes(self) -> frozenset[int]:
        """The bytes that a row must have where `specialize-inner` makes them part of the code."""
        return frozenset(self._numbers("specialize-inner", "bytes"))

    @property
    def row_ranges(self) -> frozenset[tuple[int, int]]:
        """The (fewest, most) bytes that a row must have where `bound-inner` makes the code rely on them."""
        given = (_options(step[2]) for step in _STEP.finditer(self.expanded()) if step[1] == "bound-inner")
        pairs = ([options.get(name, "0").lstrip("+-") for name in ("least", "most")] for options in given)
        return frozenset((int(least), int(most)) for least, most in pairs if least.isdecimal() and most.isdecimal())

    def _numbers(self, name: str, option: str) -> list[int]:
        """Return the numbers, without a sign, that the passes of a name have as an option."""
        given = (_options(step[2]) for step in _STEP.finditer(self.expanded()) if step[1] == name)
        texts = [options.get(option, "").lstrip("+-") for options in given]
        return [int(text) for text in texts if text.isdecimal()]

    @property
    def missing_pass(self) -> str:
        """The first pass that is needed to reach loops and that this pipeline lacks; empty when it lacks none."""
        given = {step[1] for step in _STEP.finditer(self.expanded())}
        _, *canonical = CANONICAL_NAMES  # without normalize-gather, which a normal gather does not need
        needed = (*canonical, "lower-to-nest", "fold-bounds", "lower-nest-to-loops")
        return next((name for name in needed if name not in given), "")


def _options(text: str | None) -> dict[str, str]:
    """Return the options of a pass by name, for `{name=value name=value}` or nothing."""
    words = (text or "").strip().strip("{}").split()
    return {name: value for name, _, value in (word.partition("=") for word in words)}


# xDSL's passes in the pipelines of a gather.
_OF_XDSL = ("canonicalize", "cse")


def passes_of_others(text: str) -> tuple[str, ...]:
    """Return an identity of each foreign pass of a pipeline, neither ours nor xDSL's: name, class and sources.

    Our own pass is foreign if its `apply` was replaced. A pass without a file has another identity in each process.
    Where the passes have not been imported, none can have been replaced, and only a foreign name imports them.
    """
    others = {step[1] for step in _STEP.finditer(text)}.difference(PASSES, PIPELINES, _OF_XDSL)
    if f"{__package__}.pipeline" not in sys.modules and not others:
        return ()
    kinds = map(type, importlib.import_module(".pipeline", __package__).parse_passes(text))
    return tuple(named for kind in kinds if (named := _identity(kind)))


def is_own(module: str) -> bool:
    """Return whether a module belongs to this package or to xDSL."""
    return module.startswith((f"{__package__}.", "xdsl."))


def _identity(kind: "type[ModulePass]") -> str:
    """Return the name, the class and the sources of a foreign pass; empty for a pass of ours or xDSL's."""
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
    """Return a digest of a file, or, where it is the `__init__.py` of a package, of all its files but compiled ones."""
    root, digest = file.parent, hashlib.sha256()
    files = sorted(root.rglob("*")) if file.name == "__init__.py" else [file]
    for source in files:
        if source.is_file() and "__pycache__" not in source.parts:
            digest.update(f"{source.relative_to(root)} ".encode() + source.read_bytes())
    return digest.hexdigest()[:16]
