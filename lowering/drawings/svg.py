"""SVG as a tree of elements, and as text. Colours are seen on light and on dark: text and lines have the page's colour.

Areas have a hue with little opacity, and each shape a class (`gn-parallel`), so that a page can give it other colours.
"""

import re
from typing import Any
from xml.etree import ElementTree

Element = ElementTree.Element

# The font, and the width of its letters in pixels at that size: those of wide fonts, so that text never leaves its box.
FONT, FONT_SIZE, LETTER = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace", 12, 7.3
# Hues between light and dark by class, in the order in which numbered things (threads) take them.
HUES = ("#2f81f7", "#e8803c", "#2da44e", "#b366e0", "#d4a017", "#1b9aaa", "#e5534b", "#808a94")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def drawing(kind: str, title: str, description: str) -> Element:
    """Return an empty drawing.

    Args:
        kind: what it shows, in a word: its class is `gn-drawing gn-<kind>`.
        title: its name for screen readers, and the text on hovering.
        description: what it shows, in text.
    """
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria-label": _clean(title)})
    root.set("class", f"gn-drawing gn-{kind}")
    root.set("font-family", FONT)
    root.set("font-size", str(FONT_SIZE))
    root.set("fill", "currentColor")
    add(root, "title", title)
    add(root, "desc", description)
    return root


def add(parent: Element, tag: str, text: str = "", **attributes: Any) -> Element:
    """Append an element: `add(root, "text", "a", x=3, font_weight="bold", class_="gn-tile")`; None leaves one out."""
    values = {
        name.strip("_").replace("_", "-"): _value(value) for name, value in attributes.items() if value is not None
    }
    element = ElementTree.SubElement(parent, tag, values)
    element.text = _clean(text)
    return element


def finished(root: Element, width: float, height: float) -> str:
    """Set the size of a drawing in pixels, and return its text."""
    root.set("width", _value(width))
    root.set("height", _value(height))
    root.set("viewBox", f"0 0 {_value(width)} {_value(height)}")
    return ElementTree.tostring(root, encoding="unicode")


def standalone(svg: str) -> str:
    """Return a drawing as a file of its own: with a background, dark where the reader prefers that.

    Args:
        svg: what a function that draws returned.
    """
    style = (
        "<style>svg{color:#1f2328;background:#ffffff}"
        "@media (prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>"
    )
    head, end, rest = svg.partition(">")
    return f"{head}{end}{style}{rest}\n"


def shortened(text: str, letters: int) -> str:
    """Return a text, cut where it is longer than so many letters."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def width_of(text: str) -> float:
    """Return the most pixels that a text is wide; letters of East Asia count as two."""
    return LETTER * sum(2 if ord(letter) >= 0x1100 else 1 for letter in text)


def _value(value: Any) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else _clean(str(value))


def _clean(text: str) -> str:
    """Return a text with a mark in the place of what XML cannot hold."""
    return _CONTROL.sub("\ufffd", text)
