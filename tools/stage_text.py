"""Stages as text to print: pictures of their loops, and many of them in one stream that parses again."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..lowering.pipeline import Stage

SEPARATOR = "// -----"
OPERATOR_LEVEL = re.compile(r"\bgather\.gather(_nd|_elements)?\b")


def draw(stage: "Stage") -> str | None:
    """Return the loops of a stage as a person would draw them; None where it has none yet."""
    from ..ir.modules.context import parse_module
    from ..ir.modules.pseudocode import print_loop_nest

    return None if OPERATOR_LEVEL.search(stage.text) else print_loop_nest(parse_module(stage.text))


def join_stages(stages: Sequence["Stage"]) -> str:
    """Return stages as one text, which `gathernest-opt --split-input-file` reads.

    Each has a comment that says what made it; passes that changed nothing have only the comment.
    """
    return join_texts(stages, [stage.text for stage in stages])


def join_pictures(stages: Sequence["Stage"]) -> str:
    """Return the pictures of those stages that have loops, as `join_stages` does their text."""
    drawn = [(stage, picture) for stage in stages if (picture := draw(stage)) is not None]
    return join_texts([stage for stage, _ in drawn], [picture for _, picture in drawn])


def join_texts(stages: Sequence["Stage"], texts: Sequence[str]) -> str:
    """Return a text for each stage, with its comment and separators between."""
    lines: list[str] = []
    before = None
    for stage, text in zip(stages, texts, strict=True):
        if before is None:
            lines.append(f"// {stage.name}: {stage.op_count} operations\n{text}")
        elif text == before:
            lines.append(f"// after {stage.name}: nothing changed ({stage.milliseconds:.2f} ms)\n")
        else:
            count = f"{stage.op_count} operations ({stage.milliseconds:.2f} ms)"
            lines.append(f"\n{SEPARATOR}\n// after {stage.name}: {count}\n{text}")
        before = text
    return "".join(lines)
