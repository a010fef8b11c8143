"""LLVM IR as lines: the functions alone, with the source line of each instruction. Plain text, no compiler."""

import re

from .assembly import short_names

_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(\w+)\((.*)\)$", re.MULTILINE)
_DEBUG = re.compile(r",? !dbg !(\d+)")


def read_llvm(text: str, file: str) -> list[tuple[str, int | None]]:
    """Return the lines of a module's functions, without metadata, each with its line (1-based) of `file`, or None."""
    nodes = {number: (kind, fields) for number, kind, fields in _NODE.findall(text)}
    lines: list[tuple[str, int | None]] = []
    for function in re.findall(r"^define .*?^}$", text, re.MULTILINE | re.DOTALL):
        for raw in function.splitlines():
            named = _DEBUG.search(raw)
            line = _line(named[1], nodes, file) if named else None
            lines.append((short_names(_DEBUG.sub("", raw)), line))
        lines.append(("", None))
    return lines


def _line(number: str, nodes: dict[str, tuple[str, str]], file: str) -> int | None:
    """Return the line of a location or a function, or of the call that it was inlined at, in a file."""
    while number in nodes:
        _, fields = nodes[number]
        line = re.search(r"\bline: (\d+)", fields)
        if line and line[1] != "0" and _file(number, nodes) == file:
            return int(line[1])
        inlined = re.search(r"\binlinedAt: !(\d+)", fields)
        if inlined is None:
            return None
        number = inlined[1]
    return None


def _file(number: str, nodes: dict[str, tuple[str, str]]) -> str | None:
    """Return the file of a location or a scope."""
    while number in nodes:
        kind, fields = nodes[number]
        if kind == "DIFile":
            name = re.search(r'filename: "([^"]*)"', fields)
            return name[1] if name else None
        parent = re.search(r"\bfile: !(\d+)", fields) or re.search(r"\bscope: !(\d+)", fields)
        if parent is None:
            return None
        number = parent[1]
    return None
