"""Colour text as HTML, a line at a time: MLIR, Python, LLVM IR and assembly. Imports pygments."""

import functools
import html
from collections.abc import Sequence
from typing import Any

from pygments.lexer import Lexer, RegexLexer
from pygments.lexers import GasLexer, LlvmLexer, PythonLexer
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, String, Text, _TokenType


class MlirLexer(RegexLexer):
    """MLIR text, as far as colours need it."""

    name = "MLIR"
    tokens = {  # noqa: RUF012 (pygments names it so)
        "root": [
            (r"//.*", Comment),
            (r'"(?:\\.|[^"\\\n])*"', String),
            (r"%[\w$.-]+(?:#\d+)?", Name.Variable),
            (r"@[\w$.-]+", Name.Function),
            (r"\^\w+", Name.Label),
            (r"[#!][\w$.-]+", Keyword.Type),
            (r"\b(?:tensor|memref|vector)(?=<)|\b(?:[su]?i\d+|bf16|f\d+|index)\b", Keyword.Type),
            (r"\b[a-z_]+\.[\w.]+", Keyword),
            (r"-?\b\d+(?:\.\d+(?:e[+-]?\d+)?)?(?=\b|x)", Number),
            (r"\w+", Text),
            (r"[^\w\s]", Text),
            (r"\s+", Text),
        ]
    }


# The class of the style sheet by the kind of a token; the first kind that fits is taken.
CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "c"),
    (Keyword.Type, "t"),
    (Keyword, "k"),
    (Name.Function, "f"),
    (Name.Label, "f"),
    (Name.Decorator, "f"),
    (Name.Variable, "v"),
    (Name.Builtin, "k"),
    (Name.Constant, "v"),
    (Operator.Word, "k"),
    (String, "s"),
    (Number, "m"),
    (Literal, "m"),
)
LEXERS: dict[str, type[Any]] = {"stage": MlirLexer, "source": PythonLexer, "llvm": LlvmLexer, "assembly": GasLexer}


def highlighted(lines: Sequence[str], kind: str) -> list[str]:
    """Return lines of text as HTML with a class for each kind of word.

    Args:
        lines: without their ends.
        kind: of the text: a key of `LEXERS`.
    """
    found: list[list[str]] = [[]]
    for token, text in _lexer(kind).get_tokens("\n".join(lines)):
        first, *others = text.split("\n")
        found[-1].append(_coloured(token, first))
        for other in others:
            found.append([_coloured(token, other)])
    shown = ["".join(parts) for parts in found[: len(lines)]]
    return shown if len(found) > len(lines) else plain(lines)


def plain(lines: Sequence[str]) -> list[str]:
    """Return lines of text as HTML without colours."""
    return [html.escape(line) for line in lines]


@functools.cache
def _lexer(kind: str) -> Lexer:
    return LEXERS[kind](stripnl=False, ensurenl=True)


def _coloured(token: _TokenType, text: str) -> str:
    name = next((name for wanted, name in CLASSES if token in wanted), None) if text.strip() else None
    escaped = html.escape(text)
    return escaped if name is None else f"<i class={name}>{escaped}</i>"
