"""Stages on the terminal: text, loops and differences."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...ir.errors import InvalidGatherError
from .terminal import make_console

if TYPE_CHECKING:
    from ...lowering.pipeline import Stage

SEPARATOR = "// -----"
_OPERATOR_LEVEL = re.compile(r"\bgather\.gather(_nd|_elements)?\b")
_DIFF_STYLES = {"-": "red", "+": "green", "@": "cyan"}


def draw(stage: "Stage") -> str | None:
    """Return the loops of a stage as pseudocode; None where it has no loops yet."""
    from ...ir.modules.context import parse_module
    from ...ir.modules.pseudocode import print_loop_nest

    return None if _OPERATOR_LEVEL.search(stage.text) else print_loop_nest(parse_module(stage.text))


def join_stages(stages: Iterable["Stage"], *, pictures: bool = False) -> str:
    """Return stages as one text, which `gathernest-opt --split-input-file` reads.

    A comment before each stage names its pass; a pass that changed nothing has only the comment. With `pictures`, loops
    are drawn, and stages without loops are left out.
    """
    lines: list[str] = []
    before = None
    for stage in stages:
        text = draw(stage) if pictures else stage.text
        if text is None:
            continue
        if before is None:
            lines.append(f"// {stage.name}: {stage.op_count} operations\n{text}")
        elif text == before:
            lines.append(f"// after {stage.name}: nothing changed ({stage.milliseconds:.2f} ms)\n")
        else:
            count = f"{stage.op_count} operations ({stage.milliseconds:.2f} ms)"
            lines.append(f"\n{SEPARATOR}\n// after {stage.name}: {count}\n{text}")
        before = text
    return "".join(lines)


def diff_ends(asked: str, stages: Sequence[str]) -> tuple[str, str]:
    """Return the two stages that `PASS` or `A..B` names: the stages around a pass, or A and B.

    An end that is left out is the first stage, or the last. Whether the names are stages is not checked.

    Raises:
        InvalidGatherError: the pass is the first stage.
    """
    first, dots, second = asked.partition("..")
    if dots:
        return first or stages[0], second or stages[-1]
    if asked == stages[0]:
        raise InvalidGatherError(f"nothing is before {asked}, the first stage; name a pass, or two stages as A..B")
    return stages[stages.index(asked) - 1] if asked in stages else asked, asked


def unified_diff(before: str, after: str, names: tuple[str, str]) -> str:
    """Return the unified diff of two texts; empty where they are equal."""
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    return "".join(difflib.unified_diff(old, new, *names))


def print_diff(text: str) -> None:
    """Print a unified diff to standard output; on a terminal in colours."""
    console = make_console()
    for line in text.splitlines():
        is_head = re.match(r"(---|\+\+\+) ", line) is not None
        console.print(line, style="bold" if is_head else _DIFF_STYLES.get(line[:1], ""))
