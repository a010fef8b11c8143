"""Values and changes as people read them."""

import math

from .noise import Change


def number(value: float, unit: str) -> str:
    """Return a value with its unit, with digits that tell 0.1 % apart; bytes in kB, MB or GB."""
    if unit == "bytes":
        for name, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
            if abs(value) >= size:
                return f"{value / size:.5g} {name}"
    text = f"{value:,.0f}" if value == round(value) or abs(value) >= 1e5 else f"{value:.5g}"
    return f"{text} {unit}" if unit else text


def percent(share: float, *, sign: str = "+") -> str:
    """Return a share as a percentage, such as +2.0 %."""
    return f"{share:{sign}.2%}".replace("%", " %") if math.isfinite(share) else "from 0"


def p_value(change: Change) -> str:
    """Return otava's p-value of a change; "" without one, and for exact numbers, where it is 0."""
    return f"p {change.p_value:.1g}" if change.p_value else ""


def count(number: int, one: str, many: str = "") -> str:
    """Return a number of things: `1 commit`, `2 commits`."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"
