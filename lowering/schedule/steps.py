"""The steps of a schedule: each is a pass with its options. Plain Python, so that a cached kernel runs without xDSL.

A class here declares the options of a pass once: their names, types, ranges, defaults and meanings. The pass inherits
from it (`pass_of_step`), and so do the text of schedules, their checks, the documentation and the script.
"""

import functools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from types import NoneType
from typing import Any, ClassVar, Literal, Self, TypeVar, dataclass_transform, get_args, get_origin

from ...ir.errors import ScheduleError, did_you_mean, show, show_words
from ...ir.numbers import MAX_INT64

REQUIRED = ...  # in place of the default of an option that has none
WHOLE_ROW = 0  # the number of lines by which a prefetch asks for the whole row
MAX_LINES = 64  # of a row that a prefetch may ask for
MAX_PARTS = 64  # of a sort, or of a tile that owners prefetch

# What messages call the types of options.
KINDS: dict[Any, str] = {
    int: "a whole number",
    str: "a word",
    tuple[int, ...]: "whole numbers with commas between",
    tuple[str, ...]: "words with commas between",
}


@dataclass(slots=True)
class Option:
    """An option of a pass.

    Attributes:
        name, kind: its name and type.
        doc: what it means, without its range and its default.
        default: its value where it is left out; `REQUIRED` where it may not be.
        least, most: the range of a number; None where each number is allowed, or the pass checks it.
        is_loop: whether it names loops of the nest.
        is_shown: whether the text of a step has it even where its value is the default.
    """

    name: str
    kind: Any
    doc: str = ""
    default: Any = REQUIRED
    least: int | None = None
    most: int | None = None
    is_loop: bool = False
    is_shown: bool = False

    def read(self, name: str, given: str, values: Sequence[Any]) -> Any:
        """Return the value of the option of a pass for what a pipeline gives.

        Raises:
            ScheduleError: it has another type, or is out of range.
        """
        kind, got, hint = self.kind, show_words(values), ""
        if NoneType in get_args(kind):
            if not values:
                return None
            (kind, *others) = (each for each in get_args(kind) if each is not NoneType)
            kind = self.kind if others else kind
        is_list, words = get_origin(kind) is tuple, get_args(kind)
        if get_origin(kind) is Literal:
            if len(values) == 1 and isinstance(values[0], str | int) and values[0] in words:
                return values[0]
            wanted, hint = " or ".join(map(str, words)), did_you_mean(got, map(str, words))
        elif kind not in KINDS:  # of a pass of another package, which reads it by itself
            return values
        elif (len(values) != 1 and not (is_list and values)) or not all(
            isinstance(value, words[0] if is_list else kind) and not isinstance(value, bool) for value in values
        ):
            wanted, got = KINDS[kind], f"{given}={got}" if values else given
        elif self.least is not None and kind in (int, tuple[int, ...]) and not all(map(self._is_in_range, values)):
            bounds = f"from {self.least}" if self.most is None else f"of {self.least} to {self.most}"
            wanted = f"{'whole numbers' if is_list else 'a whole number'} {bounds}"
        else:
            return tuple(values) if is_list else values[0]
        raise ScheduleError(f"pass {name}: expected {wanted} for {given}, got {show(got)}{hint}")

    def _is_in_range(self, number: int) -> bool:
        return (self.least or 0) <= number <= (MAX_INT64 if self.most is None else self.most)

    @property
    def described(self) -> str:
        """The documentation of the option, with its range and its default."""
        more = [] if self.most is None else [f"{self.least} to {self.most}"]
        if self.default is not REQUIRED:
            more.append(f"{'nothing' if self.default is None else f'`{self.default}`'} when omitted")
        return f"{self.name}: {self.doc}{' (' * bool(more)}{'; '.join(more)}{')' * bool(more)}."


def option(doc: str, **facts: Any) -> Any:
    """Declare an option of a step, by the attributes of `Option`; a number is 1 or more where `least` is left out."""
    return Option("", None, doc, **{"least": 1, **facts})


def read_options(name: str, options: Mapping[str, Option], given: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the options that a pipeline gives to the pass of a name, checked.

    Raises:
        ScheduleError: the pass has no such option, a value does not fit, or an option is missing.
    """
    values: dict[str, Any] = {}
    for option_name, texts in given.items():
        known = options.get(option_name.replace("-", "_"))
        if known is None:
            raise ScheduleError(
                f"pass {name} has no option {show(option_name)}; it takes {', '.join(options) or 'none'}"
                f"{did_you_mean(option_name, options)}"
            )
        values[known.name] = known.read(name, option_name, texts)
    missing = [each.name for each in options.values() if each.default is REQUIRED and each.name not in values]
    if missing:
        raise ScheduleError(f'pass {name}: requires argument "{missing[0]}"')
    return values


STEPS: "dict[str, type[Step]]" = {}  # the steps of a schedule by name, in the order of the pipeline


@dataclass_transform(frozen_default=True, field_specifiers=(option,))
class Step:
    """A pass with its options; an immutable value. Its class declares them, and `str` gives the text of a pipeline.

    Attributes:
        name: the name of the pass.
        method: the method of a script that applies it.
        way_out: what to do where the pass rejects it, unless the reason says that.
        repeats: whether a schedule may have several.
        place: where it stands in the pipeline; a pass of another package runs last.
        options: what its class declares, by name.
    """

    name: ClassVar[str] = ""
    method: ClassVar[str] = "apply"
    way_out: ClassVar[str] = "see its preconditions in docs/passes.md, and `gathernest-opt --list-passes` for others"
    repeats: ClassVar[bool] = False
    place: ClassVar[int] = 1000
    options: ClassVar[dict[str, Option]] = {}
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        if "name" not in cls.__dict__:  # a pass, whose options its base has declared
            return
        cls.method, cls.options = cls.__dict__.get("method", cls.name.replace("-", "_")), {}
        for field, kind in cls.__annotations__.items():
            declared: Option = cls.__dict__[field]
            declared.name, declared.kind = field, kind
            cls.options[field] = declared
            delattr(cls, field)
        cls._defaults = {field: declared.default for field, declared in cls.options.items()}
        cls.place, STEPS[cls.name] = len(STEPS), cls

    def __init__(self, *values: Any, **named: Any):
        fields = self.__dict__
        fields.update(self._defaults)
        fields.update(zip(self._defaults, values, strict=False), **named)
        if len(fields) > len(self._defaults) or len(values) > len(fields) or REQUIRED in fields.values():
            raise TypeError(
                f"{self.name} takes {', '.join(self.options) or 'no options'}, got {show(values)} and {show(named)}"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a step is immutable; step.replace({name}=...) returns another one")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((self.name, *self.__dict__.values()))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return _print_step(self)

    @property
    def given(self) -> dict[str, Any]:
        """The options that the text has."""
        return {
            each: value
            for each, value in self.__dict__.items()
            if self.options[each].is_shown or value != self.options[each].default
        }

    def replace(self, **options: Any) -> Self:
        """Return the step with other options."""
        return type(self)(**{**self.__dict__, **options})


@functools.lru_cache(maxsize=4096)
def _print_step(step: Step) -> str:
    """Return the text of a step, which is remembered: schedules share their few steps."""
    return print_pass(step.name, step.given)


def print_pass(name: str, options: Mapping[str, Any]) -> str:
    """Return the text of a pass with options, each a value or a list of values."""
    texts = [each if value == () else f"{each}={_word(value)}" for each, value in options.items()]
    return f"{name}{{{' '.join(texts)}}}" if texts else name


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_word, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


class OtherStep(Step):
    """A pass of another package; its options are those that the text gives, and its package checks them."""

    values: tuple[tuple[str, tuple[Any, ...]], ...]

    def __init__(self, name: str, given: Mapping[str, Sequence[Any]]):
        self.__dict__.update(name=name, values=tuple((each, tuple(values)) for each, values in given.items()))

    @property
    def given(self) -> dict[str, Any]:
        """The options that the text has, each a list of values."""
        return dict(self.values)


PassOfStep = TypeVar("PassOfStep", bound=type[Step])


def pass_of_step(cls: PassOfStep) -> PassOfStep:
    """Make a class of xDSL's passes, which inherits from a step, one that has the options of the step.

    They are fields of a frozen dataclass, as xDSL asks for, and the section `Options` of the docstring.
    """
    cls.__annotations__ = {each.name: each.kind for each in cls.options.values()}
    for each in cls.options.values():
        if each.default is not REQUIRED:
            setattr(cls, each.name, each.default)
    wrap = {"width": 112, "initial_indent": "    ", "subsequent_indent": "        ", "break_on_hyphens": False}
    lines = [line for each in cls.options.values() for line in textwrap.wrap(each.described, **wrap)]
    if lines:
        first, mark, rest = cleandoc(cls.__doc__ or "").partition("\nInput:")
        cls.__doc__ = "\n".join([first, "Options:", *lines, mark + rest])
    return dataclass(frozen=True)(cls)


class SpecializeInner(Step):
    """Make the size of a row part of the code."""

    name = "specialize-inner"
    method = "specialize"
    way_out = "give the bytes of a row, or leave this step out"
    bytes: int = option("of a row; a multiple of the size of an element")


class BoundInner(Step):
    """Let the code count on the fewest and the most bytes of a row."""

    name = "bound-inner"
    way_out = "give bytes that rows have, or leave this step out"
    least: int = option("bytes of a row at least; a multiple of the size of an element")
    most: int = option("bytes of a row at most; 0 for any number", default=0, least=0)


class GroupIndices(Step):
    """Sort the indices by position, and then add up the slices of each."""

    name = "group-indices"
    way_out = "use it for a gradient, before its loops are tiled"
    loop: str = option("name of the loop", is_loop=True)


class ParallelizeSort(Step):
    """Share the sort of the indices among threads."""

    name = "parallelize-sort"
    way_out = "use it right after group_indices, with two parts or more"
    parts: int = option("how many", least=2, most=MAX_PARTS)


class OwnerComputes(Step):
    """Partition the axis that a gradient adds to among owners."""

    name = "owner-computes"
    way_out = "use it once, for a gradient, before the nest is parallel"
    owners: int = option("how many there are", most=2**16)
    axis: str = option(
        "the axis to partition: `axis`, or `axis_0`, `axis_1`, ... of tuples", default="axis", is_shown=True
    )


class FuseIntoOwners(Step):
    """Let each owner clear its own positions before it adds, and scale them."""

    name = "fuse-into-owners"
    way_out = "use it after owner_computes, before loops are tiled"


class TileLoops(Step):
    """Split loops `x` into `x_o` over tiles and `x_i` within one."""

    name = "tile-loops"
    method = "tile"
    way_out = "tile a loop before it is vectorized or unrolled"
    loops: tuple[str, ...] = option("names of the loops to tile", is_loop=True)
    sizes: tuple[int, ...] = option("iterations a tile, one for each loop; 2147483648 elements at most")
    tail: Literal["guard", "perfect"] = option(
        "whether the last tile may end early (`guard`), or the size must divide (`perfect`)", default="guard"
    )


class InterchangeLoops(Step):
    """Put the loops of a perfect nest in another order."""

    name = "interchange-loops"
    method = "interchange"
    way_out = "name loops that stand directly in each other, before indices are staged or vectors are made"
    order: tuple[str, ...] = option("the names of all its loops, outermost first", is_loop=True)


class ParallelizeLoops(Step):
    """Let threads share the iterations of loops."""

    name = "parallelize-loops"
    method = "parallel"
    way_out = "make loops of the copy parallel, from the outermost one inwards"
    loops: tuple[str, ...] = option("names of the loops, outermost first", is_loop=True)


class CompactIndices(Step):
    """List the indices of a tile that an owner owns, and then add their rows."""

    name = "compact-indices"
    method = "list_indices"
    way_out = "tile the indices inside owners, and list those of a tile"
    loop: str = option("name of the loop", is_loop=True)


class VectorizeLists(Step):
    """List several single elements at a time."""

    name = "vectorize-lists"
    way_out = "list the indices of single elements first"
    lanes: int = option("indices a vector, 2, 4 or 8")


class HoistIndices(Step):
    """Resolve the indices of a tile before a loop, and stage their positions in a buffer."""

    name = "hoist-indices"
    method = "stage_indices"
    way_out = "stage before a loop that copies, around a tile of the indices"
    before: str = option("name of the loop", is_loop=True)


class VectorizeInner(Step):
    """Copy or add several elements at a time in the innermost loop."""

    name = "vectorize-inner"
    method = "vectorize"
    way_out = "vectorize once, before unroll, prefetch and stream; the innermost loop must count neighbours in out"
    lanes: int = option("elements a vector, a power of two, of at most 64 bytes together")


class GatherLanes(Step):
    """Load the lanes of a vector by one gather instruction."""

    name = "gather-lanes"
    method = "gather"
    way_out = "vectorize elements with an index each first, of 4 or 8 bytes"


class Unroll(Step):
    """Run several iterations of a loop in one."""

    name = "unroll"
    way_out = "unroll a loop of step 1 with no loop in it, such as the remainder"
    loop: str = option("name of the loop", is_loop=True)
    factor: int = option("iterations in one", least=2, most=64)


class Prefetch(Step):
    """Prefetch what a loop reads or adds some iterations later."""

    name = "prefetch"
    way_out = "prefetch in a loop over indices that reads or adds, after vectors"
    repeats = True
    what: Literal["rows", "slices", "tile"] = option("`rows`, `slices`, or the next `tile`")
    loop: str = option("name of the loop that the prefetches are for", is_loop=True)
    ahead: int = option(
        "iterations ahead, or steps where the loop takes several elements at a time; of a tile, indices for each "
        "addition, 64 at most: as many as there are owners, since each of them adds as many-th a part of the tile",
        default=16,
        most=4096,
        is_shown=True,
    )
    lines: int = option(
        "of rows: lines of 64 bytes, a row or a step, or rows a step; 0 for the whole row, by the innermost loop",
        default=1,
        least=WHOLE_ROW,
        most=MAX_LINES,
    )
    locality: int = option(
        "3 keeps a line in every cache, 2 in those from the second on, 0 in none after its use",
        default=3,
        least=0,
        most=3,
        is_shown=True,
    )
    separate: str | None = option(
        "name of the loop in front of which the prefetches have a loop of their own", default=None, is_loop=True
    )


class StreamStores(Step):
    """Write vectors with non-temporal stores, which bypass the caches."""

    name = "stream-stores"
    method = "stream"
    way_out = "vectorize once, then stream once, and unroll after it"
