"""The comments in an input that say which errors it must give."""

import re
from dataclasses import dataclass
from typing import Any

from ...ir.modules.read_module import InputError

EXPECTED = re.compile(r"//\s*expected-error(?:\s*@\s*(?P<place>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}")


@dataclass(frozen=True, slots=True)
class Expected:
    """A comment `// expected-error {{text}}` on a 1-based line, and the line that must have the error; None for any."""

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
