"""Errors with their place in the input, and the comments in an input that say which errors it must give."""

import re
from dataclasses import dataclass
from typing import Any

from ...ir.errors import GathernestError

MOST_COLUMNS = 90
EXPECTED = re.compile(r"//\s*expected-error(?:\s*@\s*(?P<place>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}")


class InputError(GathernestError):
    """An input does not parse, is not valid, or is rejected by a pass.

    Attributes:
        message: what is wrong.
        line: 1-based line of the input; None when the place is not known.
    """

    def __init__(
        self, message: str, file: str, text: str = "", *, start: int | None = None, length: int = 1, where: str = ""
    ):
        self.message = message
        self.line = None if start is None else text.count("\n", 0, start) + 1
        super().__init__(_rendered(f"{where}{message}", file, text, start, length))


def _rendered(message: str, file: str, text: str, start: int | None, length: int) -> str:
    """Return `file:line:column: message` with the line of the input and a caret under the place."""
    if start is None:
        return f"{file}: {message}"
    begin = text.rfind("\n", 0, start) + 1
    line = text[begin:].partition("\n")[0].removesuffix("\r")
    column = min(start - begin, len(line))
    place = f"{file}:{text.count(chr(10), 0, begin) + 1}:{column + 1}"
    if len(line) > MOST_COLUMNS:
        cut = min(max(0, column - MOST_COLUMNS // 2), len(line) - MOST_COLUMNS)
        more = "..." if cut + MOST_COLUMNS < len(line) else ""
        line, column = f"{'...' if cut else ''}{line[cut : cut + MOST_COLUMNS]}{more}", column - cut + 3 * bool(cut)
    blank = re.sub(r"[^\t]", " ", line[:column])
    return f"{place}: {message}\n  {line}\n  {blank}{'^' * max(1, min(length, len(line) - column))}"


@dataclass(frozen=True, slots=True)
class Expected:
    """A comment `// expected-error {{text}}`.

    Attributes:
        line: the 1-based line on which the error must be; None for any place.
        text: what must be part of the error's message.
        written_on: the 1-based line of the comment.
    """

    line: int | None
    text: str
    written_on: int

    def describes(self, error: InputError) -> bool:
        """Return whether an error is this one; an error without a place only has to have the text."""
        return self.text in error.message and (self.line is None or error.line is None or self.line == error.line)


def expected_errors(text: str) -> list[Expected]:
    """Return the errors that the comments of an input expect."""
    found: list[Expected] = []
    for number, line in enumerate(text.split("\n"), start=1):
        for match in EXPECTED.finditer(line):
            offset = {None: 0, "above": -1, "below": 1}.get(match["place"])
            if offset is None and match["place"] != "unknown":
                offset = int(match["place"])
            found.append(Expected(None if offset is None else number + offset, match["text"], number))
    return found


def mismatches(text: str, error: InputError | None, file: str) -> list[str]:
    """Return the differences between the expected errors of an input and its actual one."""
    expected = expected_errors(text)
    matched: Any = next((entry for entry in expected if error is not None and entry.describes(error)), None)
    complaints = [
        f"{file}:{entry.written_on}: expected the error {entry.text!r}, which did not occur"
        + ("" if matched is None else "; one error ends a piece, so put // ----- between and use --split-input-file")
        for entry in expected
        if entry is not matched
    ]
    if error is not None and matched is None:
        complaints.append(f"an error came that is not expected: {error}")
    return complaints
