"""Stages as text to print: pictures of their loops, and many of them in one stream that parses again."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...lowering.pipeline import Stage

SEPARATOR = "// -----"
OPERATOR_LEVEL = re.compile(r"\bgather\.gather(_nd|_elements)?\b")


def draw(stage: "Stage") -> str | None:
    """Return the loops of a stage as a person would draw them; None where it has none yet."""
    from ...ir.modules.context import parse_module
    from ...ir.modules.pseudocode import print_loop_nest

    return None if OPERATOR_LEVEL.search(stage.text) else print_loop_nest(parse_module(stage.text))


def join_stages(stages: Iterable["Stage"], *, pictures: bool = False) -> str:
    """Return stages as one text, which `gathernest-opt --split-input-file` reads.

    Each has a comment that says what made it; passes that changed nothing have only the comment. With `pictures`, the
    loops of those stages that have some are drawn instead.
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
