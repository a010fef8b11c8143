"""SVG drawings as PNG, by matplotlib: text, lines and rectangles, which is all that the plots are made of."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ....ir.errors import InternalError

# Text and background, light and dark: those of `standalone`.
LIGHT, DARK = ("#1f2328", "#ffffff"), ("#e6edf3", "#0d1117")
# Pixels of the picture for a pixel of the drawing.
SCALE = 2
_NAME = "{http://www.w3.org/2000/svg}"


def write_png(svg: str, path: Path, *, dark: bool = False) -> None:
    """Write a drawing as PNG, with a background."""
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    root = ElementTree.fromstring(svg)
    ink, paper = DARK if dark else LIGHT
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    figure: Any = Figure(figsize=(width / 72, height / 72), facecolor=paper)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for element in root:
        _draw(axes, element, ink, float(root.attrib["font-size"]))
    figure.savefig(path, dpi=72 * SCALE, facecolor=paper)


def _draw(axes: Any, element: ElementTree.Element, ink: str, size: float) -> None:
    from matplotlib.patches import Rectangle  # pyright: ignore[reportMissingImports]

    of, tag = element.attrib, element.tag.removeprefix(_NAME)
    at = {name: float(of[name]) for name in ("x", "y", "x1", "y1", "x2", "y2", "width", "height") if name in of}
    opacity = float(of.get("fill-opacity", 1))
    if tag == "text":
        side = "right" if of.get("text-anchor") == "end" else "left"
        weight = of.get("font-weight", "normal")
        axes.text(
            at["x"], at["y"], element.text, color=ink, alpha=opacity, fontsize=size, family="DejaVu Sans Mono", ha=side,
            weight=weight, va="baseline", parse_math=False,
        )  # fmt: skip
    elif tag == "rect":
        axes.add_patch(Rectangle((at["x"], at["y"]), at["width"], at["height"], color=of["fill"], alpha=opacity, lw=0))
    elif tag == "line":
        dashes = (0, tuple(map(float, of["stroke-dasharray"].split()))) if "stroke-dasharray" in of else "-"
        stroke = float(of.get("stroke-width", 1))
        axes.plot([at["x1"], at["x2"]], [at["y1"], at["y2"]], color=ink, lw=stroke, ls=dashes, solid_capstyle="butt")
    elif tag not in ("title", "desc"):
        raise InternalError(f"a plot has a <{tag}>, which cannot be drawn as PNG")
