"""What `show --upstream` prints: the command line, bytes, times, and the hot loops of both beside each other."""

import argparse
import itertools
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .terminal import flag_of, make_console

if TYPE_CHECKING:
    from ...playground.beside_upstream import BesideUpstream, HotLoop

WIDTH = 56
# The options that name a gather, with what they are where the command line has none.
NAMED = {"operator": "gather", "data": None, "indices": None, "axis": 0, "batch_dims": 0, "bounds": "error", "scale": 1}


def show_command(options: argparse.Namespace, stage: str, schedule: str) -> str:
    """Return the command line that prints a stage of the gather that options name, with that schedule."""
    words = ["gathernest", "show"]
    for name, usual in NAMED.items():
        if getattr(options, name) != usual:
            words += [flag_of(name), str(getattr(options, name))]
    words += ["--schedule", schedule] if options.passes is None else ["--passes", options.passes]
    return shlex.join([*words, "--stage", stage])


def whole_command(found: "BesideUpstream", show: str) -> str:
    """Return the pipe of programs from a gather to upstream's assembly, as a shell takes it."""
    return " \\\n  | ".join([show, "gathernest-opt -t upstream", *found.command.split(" | ")])


def columns(left: Sequence[str], right: Sequence[str], width: int = WIDTH) -> list[str]:
    """Return lines of two texts beside each other; one that is too long for its column ends in dots."""
    return [
        f"{_cropped(first, width):<{width}} | {_cropped(second, width)}".rstrip()
        for first, second in itertools.zip_longest(left, right, fillvalue="")
    ]


def print_beside(found: "BesideUpstream", show: str) -> None:
    """Print a comparison."""
    from ...playground.beside_upstream import OURS, THEIRS

    console = make_console()
    sections = {
        f"Stage {found.stage} by upstream": [whole_command(found, show), *([found.remark] if found.remark else [])],
        "Bytes of the result": [
            f"{maker:<10}  {found.differences.get(maker) or 'equal to the reference of the operator'}"
            for maker in (OURS, THEIRS)
        ],
        "Time of a call from Python, by one thread": [
            *(f"{maker:<10}  {found.times_us[maker]:.2f} µs" for maker in (OURS, THEIRS)),
            f"{OURS} is {found.ratio:.2f} times as fast: the median of the ratios within each round",
        ],
        "Hot loops (--json has the whole assembly)": _hot_loops(found.hot_loops(OURS), found.hot_loops(THEIRS)),
    }
    for number, (title, lines) in enumerate(sections.items()):
        console.print(f"\n{title}" if number else title, style="bold")
        console.print("\n".join(lines))


def _hot_loops(ours: Sequence["HotLoop"], theirs: Sequence["HotLoop"]) -> list[str]:
    """Return the loops of both, the first beside the first and so on."""
    lines = columns(["gathernest"], ["upstream"])
    for left, right in itertools.zip_longest(ours, theirs):
        lines += columns(_lines(left), _lines(right))
    return lines


def _lines(loop: "HotLoop | None") -> list[str]:
    """Return the lines of a loop behind one that counts them; nothing where there is no loop."""
    if loop is None:
        return []
    kinds = ", ".join(f"{count} {kind}" for kind, count in loop.counts.items())
    return ["", f"# {sum(loop.counts.values())} instructions: {kinds}", *loop.lines]


def _cropped(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
