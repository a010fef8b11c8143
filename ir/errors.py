"""The errors that gathernest raises. Each message names the value it got, the allowed values, and a remedy."""

import functools
import os
import re
from collections.abc import Iterable

# An error shows a text of a user whole up to this number of characters; of a longer text, its beginning and its end.
MAX_SHOWN_LENGTH, _BEGINNING, _END = 200, 100, 60
# A message names the source of its error by these words. The command line puts the option there that shows the source.
SOURCE_HINT = "what print(error.source) shows"
_LONG_WORD = re.compile(rf"\S{{{MAX_SHOWN_LENGTH},}}[^\s,;:]")
# This matches a long list, array or text as Python prints it; our own words in brackets or quotes are shorter.
_LONG_LITERAL = re.compile("|".join(rf"\{a}[^\{a}\{b}]{{400,}}\{b}" for a, b in ("[]", "()", "{}", "''", '""')))


def shorten(text: str) -> str:
    """Return a text for a message; above `MAX_SHOWN_LENGTH` characters only its beginning, its end and its length."""
    if len(text) <= MAX_SHOWN_LENGTH:
        return text
    return f"{text[:_BEGINNING]} … {text[-_END:]} ({len(text)} characters)"


def show(value: object) -> str:
    """Return the shortened `repr` of a value for a message, or the number of bits of an integer too long to print."""
    try:
        return shorten(repr(value))
    except Exception:  # Python prints no integers of more than some thousand digits, and `repr` of a value may raise
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"a value of type {type(value).__name__}"


def show_words(values: Iterable[object]) -> str:
    """Return values with commas between for a message, as a pipeline has them: texts without quotation marks."""
    return ",".join(value if isinstance(value, str) else show(value) for value in values)


def _with_short_words(text: str) -> str:
    if len(text) <= MAX_SHOWN_LENGTH:
        return text
    return _LONG_LITERAL.sub(lambda found: shorten(found[0]), _LONG_WORD.sub(lambda found: shorten(found[0]), text))


class GathernestError(Exception):
    """Base class of every error that gathernest raises on purpose; long words and literals in it are shortened.

    Attributes:
        source: text that repeats the error, for a report: generated code that the backend rejects, or the module before
            a pass that fails, below the command that runs the pass on it. Empty where there is none.
    """

    source: str = ""

    def __init__(self, *arguments: object, source: str = ""):
        if source:
            self.source = source
        super().__init__(*(_with_short_words(text) if isinstance(text, str) else text for text in arguments))


class InvalidGatherError(GathernestError, ValueError):
    """The shapes, the attributes or `out` do not describe a legal gather. Raised before anything is written."""


class IndexTypeError(GathernestError, TypeError):
    """Indices are not integers."""


class BoundsError(GathernestError, IndexError):
    """An index is outside the indexed axis. Raised before anything is written."""


class OutOfMemoryError(GathernestError, MemoryError):
    """The system has no memory that a schedule needs beside the arrays. Raised before anything is written."""


class ScheduleError(GathernestError, ValueError):
    """A schedule or pipeline is not legal for this loop nest, or cannot be read."""


class CompileError(GathernestError, RuntimeError):
    """The backend rejected the generated code.

    Attributes:
        file: the name of the generated source in tracebacks, such as `<gathernest kernel ...>`.
        line: 1-based line in `file`, or None when the backend named none.
        op: name of the IR operation which that line was printed from, or None.
    """

    def __init__(self, message: str, *, file: str, line: int | None = None, op: str | None = None, source: str = ""):
        super().__init__(message, source=source)
        self.file, self.line, self.op = file, line, op

    def __reduce__(self) -> tuple[object, ...]:
        state = {"file": self.file, "line": self.line, "op": self.op, "source": self.source}
        return functools.partial(type(self), **state), self.args


class ModelError(GathernestError, ValueError):
    """A model file cannot be read or uses an unsupported feature, or the inputs of a model do not fit it."""


class DependencyError(GathernestError, ImportError):
    """A package that gathernest needs is missing or too old, or cannot be loaded."""


class InternalError(GathernestError, RuntimeError):
    """A defect of gathernest itself; where a pass fails, `source` repeats it."""


def no_compiler(error: ImportError | OSError) -> DependencyError:
    """Return the error of a compiler that the system cannot load or run."""
    remedy = "give this process more memory"
    if isinstance(error, FileNotFoundError):
        try:  # Numba imports the package coverage, and names files in debug information: both need the current folder
            os.getcwd()
            remedy = "install its package again"
        except OSError:
            remedy = "change to a current folder that exists"
    return DependencyError(f"the compiler cannot be loaded: {error}; {remedy}, or set GATHERNEST_COMPILE=never")


def out_of_range(count: int) -> str:
    """Return the sentence that a number of indices is out of range."""
    return f"{count} {'index is' if count == 1 else 'indices are'} out of range"


def did_you_mean(got: object, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest of `allowed`, or an empty string when none is close."""
    from difflib import get_close_matches

    if not isinstance(got, str) or len(got) > MAX_SHOWN_LENGTH:
        return ""
    allowed = list(allowed)
    close = get_close_matches(got, allowed, n=1, cutoff=0.8)
    close = close or [name for name in allowed if len(got) > 2 and name.startswith(got)]
    close = close or get_close_matches(got, allowed, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
