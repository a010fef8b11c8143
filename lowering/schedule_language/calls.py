"""Steps of a schedule as calls in Python and as passes with options: two spellings of one thing. Plain Python."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..schedule.schedule import STEPS, Prefetch

if TYPE_CHECKING:
    from xdsl.utils.arg_spec import ArgSpec


@dataclass(frozen=True, slots=True)
class Call:
    """The method that a pass of a schedule is called by.

    Attributes:
        method: its name.
        arguments: makes the text of its arguments from the value of the schedule's field.
        remedy: the way out where the pass rejects a step without one.
    """

    method: str
    arguments: Callable[[Any], str]
    remedy: str


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(map(json.dumps, names))


def _owners(value: tuple[str, int]) -> str:
    return f'{value[1]}, axis="{value[0]}"'


def _pair(value: tuple[str, int]) -> str:
    return f'"{value[0]}", {value[1]}'


def _prefetch(rows: tuple[Prefetch, ...]) -> str:
    (one,) = rows
    lines = f", lines={one.lines}" if one.what == "rows" else ""
    separate = "" if one.separate is None else f', separate="{one.separate}"'
    what = "" if one.what == "rows" else f', what="{one.what}"'
    return f'"{one.loop}", ahead={one.ahead}{lines}, locality={one.locality}{what}{separate}'


CALLS = {
    "specialize-inner": Call("specialize", str, "give the bytes of a row, or leave this step out"),
    "group-indices": Call("group_indices", json.dumps, "use it for a gradient, before its loops are tiled"),
    "parallelize-sort": Call("parallelize_sort", str, "use it right after group_indices, with two parts or more"),
    "owner-computes": Call("owner_computes", _owners, "use it once, for a gradient, before the nest is parallel"),
    "interleave-owners": Call("interleave_owners", str, "use it right after owner_computes, with powers of two"),
    "fuse-into-owners": Call("fuse_into_owners", lambda _: "", "use it after owner_computes, before loops are tiled"),
    "tile-loops": Call("tile", lambda rows: _pair(rows[0]), "tile a loop before it is vectorized or unrolled"),
    "interchange-loops": Call(
        "interchange",
        _quoted,
        "name loops that stand directly in each other, before indices are staged or vectors are made",
    ),
    "parallelize-loops": Call("parallel", _quoted, "make loops of the copy parallel, from the outermost one inwards"),
    "compact-indices": Call("list_indices", json.dumps, "tile the indices inside owners, and list those of a tile"),
    "vectorize-lists": Call("vectorize_lists", str, "list the indices of single elements first"),
    "hoist-indices": Call("stage_indices", json.dumps, "stage before a loop that copies, around a tile of the indices"),
    "vectorize-inner": Call(
        "vectorize",
        "lanes={}".format,
        "vectorize once, before unroll, prefetch and stream; the innermost loop must count neighbours in out",
    ),
    "gather-lanes": Call("gather", lambda _: "", "vectorize elements with an index each first, of 4 or 8 bytes"),
    "unroll": Call("unroll", _pair, "unroll a loop of step 1 with no loop in it, such as the remainder"),
    "prefetch": Call("prefetch", _prefetch, "prefetch in a loop over indices that reads or adds, after vectors"),
    "stream-stores": Call("stream", lambda _: "", "vectorize once, then stream once, and unroll after it"),
}
# The steps that have a method of their own; every other pass is a step by `apply`.


def text_of(spec: "ArgSpec") -> str:
    """Return a pass with its options as the text of a pipeline."""
    return str(spec).replace('"', "")


def call_of(spec: "ArgSpec", innermost: str | None = None) -> str:
    """Return a pass with its options as a call, such as `tile("indices", 64)`.

    Args:
        innermost: the loop that `vectorize` is for, which the pass does not name; left out where it is not known.
    """
    step = STEPS.get(spec.name)
    given = {name: values for name, values in spec.parameters.items() if (name, values) != ("tail", ("guard",))}
    if (
        step is None
        or spec.name not in CALLS
        or not step.has_options(spec, ("tail",))
        or ("tail" in given and spec.name != "tile-loops")
    ):
        return f"apply({json.dumps(text_of(spec))})"
    value = step.check(step.read(spec), spec.name)
    tail = f', tail="{given["tail"][0]}"' if "tail" in given else ""
    loop = f"{json.dumps(str(innermost))}, " if innermost is not None and spec.name == "vectorize-inner" else ""
    return f"{CALLS[spec.name].method}({loop}{CALLS[spec.name].arguments(value)}{tail})"


def in_words_of_the_language(reason: str) -> str:
    """Return a pass's reason with the names of methods for those of passes."""
    for name, call in CALLS.items():
        reason = reason.replace(name, call.method)
    return reason
