"""Docstrings as Markdown: text, lists and code of the sections that the house style has."""

import re
import textwrap

# The sections of items, `name: text`; of MLIR; and of one paragraph.
ITEMS = ("Args", "Attributes", "Options", "Raises")
MLIR = ("Input", "Output")
WORDS = ("Preconditions", "Returns", "Types", "Differs", "Spec", "What it does not do")
HEADING = re.compile(rf"^({'|'.join((*ITEMS, *MLIR, *WORDS, 'Example'))}):(?: (.*))?$")
ITEM = re.compile(r"^([\w*., \[\]]+?): ?(.*)$")


def markdown(text: str, *, bold: bool = False) -> list[str]:
    """Return the lines of a docstring as Markdown; `bold` is for its first line."""
    first, _, rest = text.partition("\n")
    lines = [f"**{first}**" if bold else first, ""]
    for heading, body in _sections(rest):
        if heading is None:
            lines += _prose(body)
        elif heading in ITEMS:
            lines += ["", f"**{heading}**", "", *_items(body)]
        elif heading in MLIR:
            lines += ["", f"**{heading}**", "", "```mlir", *body, "```"]
        elif heading == "Example":
            lines += ["", f"**{heading}**", "", "```pycon", *body, "```"]
        else:
            first, *rest = _prose(body)
            lines += ["", f"**{heading}:** {first}", *rest]
    joined = re.sub(r"(\d)\*\*(\d)", r"\1\\*\\*\2", "\n".join(lines).strip("\n"))
    return re.sub(r"\n{3,}", "\n\n", joined).split("\n")


def _sections(text: str) -> list[tuple[str | None, list[str]]]:
    """Return the sections in order: heading (None of plain text) and lines without their indentation."""
    found: list[tuple[str | None, list[str]]] = [(None, [])]
    for line in text.split("\n"):
        heading = HEADING.match(line)
        if heading:
            found.append((heading[1], [heading[2]] if heading[2] else []))
        elif found[-1][0] is not None and line and not line.startswith(" ") and not found[-1][1][-1]:
            found.append((None, [line]))
        else:
            found[-1][1].append(line)
    return [(heading, textwrap.dedent("\n".join(body)).strip("\n").split("\n")) for heading, body in found if body]


def _items(body: list[str]) -> list[str]:
    """Return a list of Markdown from `name: text` items, whose text may go on in deeper lines."""
    lines: list[str] = []
    for line in body:
        match = ITEM.match(line)
        if match and not line.startswith(" "):
            lines.append(f"* `{match[1]}`: {match[2]}")
        else:
            lines.append(f"  {line.strip()}" if lines else line)
    return lines


def _prose(body: list[str]) -> list[str]:
    """Return text with its sketch of loops, which begins with a line of `before` and `after`, as a block."""
    lines: list[str] = []
    is_sketch = False
    for line in body:
        if re.match(r"before\s{4,}after", line):
            lines.append("```text")
            is_sketch = True
        elif is_sketch and line and not line.startswith(" "):
            lines[len(lines) - 1 :] = ["```", ""]
            is_sketch = False
        lines.append(line)
    return [*lines, "```"] if is_sketch else lines
