"""Numbers from texts and files. Each has a range; a number outside of it raises ValueError."""

import json
import math
import re
from typing import Any, NoReturn

from .errors import show

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
# Longer texts of numbers are rejected unread: Python takes quadratic time for them, and fails from 4300 digits.
_MAX_NUMBER_LENGTH = 64
# Python's `int` and `float` take underscores and the digits of other scripts, too.
_WHOLE = re.compile(r"\s*[-+]?[0-9]+\s*")
_REAL = re.compile(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*")


def parse_whole(text: str, least: int = 0, most: int = MAX_INT64) -> int:
    """Return the whole number in a text; raises ValueError where it holds none from `least` to `most`."""
    number = int(text) if len(text) <= _MAX_NUMBER_LENGTH and _WHOLE.fullmatch(text) else None
    if number is None or not least <= number <= most:
        upper = "below 2**63" if most == MAX_INT64 else f"up to {most}"
        raise ValueError(f"expected a whole number from {least} {upper}, got {show(text)}")
    return number


def parse_real(text: str) -> float:
    """Return the finite number in a text, in decimal notation; raises ValueError where it holds none."""
    number = float(text) if _REAL.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {show(text)}")
    return number


def parse_json(text: str | bytes, *, allow_nan: bool = False) -> Any:
    """Return the value of a JSON text.

    Args:
        text: in UTF-8.
        allow_nan: whether numbers may be NaN and Infinity, as Python writes them.

    Raises:
        ValueError: it is no JSON; a whole number has more than 64 bits, another one is not finite, an object has a name
            twice, or lists are nested too deeply.
    """
    try:
        return json.loads(
            text.decode() if isinstance(text, bytes) else text,
            parse_int=_whole,
            parse_float=float if allow_nan else _finite,
            parse_constant=float if allow_nan else _reject_constant,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise ValueError("its lists are too deep") from None


def _whole(text: str) -> int:
    return parse_whole(text, MIN_INT64)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {show(text)} is too large for a float")
    return number


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {show(twice)} stands twice in an object")
    return found
