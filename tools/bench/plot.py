"""The picture that `--plot` writes: SVG as it is drawn, or PNG."""

from pathlib import Path

from ...ir.errors import DependencyError
from ...playground.drawings import standalone
from ..console.terminal import UsageError
from .plots.cases_plot import cases_plot
from .report import Report, as_json
from .table import conditions

SUFFIXES = (".png", ".svg")


def check_plot(path: str) -> Path:
    """Return the path of a picture, or raise the error that it cannot be drawn for, before anything is measured."""
    picture = Path(path)
    if picture.suffix not in SUFFIXES:
        raise UsageError(f"--plot {path!r} must end in {' or '.join(SUFFIXES)}, as in --plot ratios.svg")
    if picture.suffix == ".png":
        try:
            import matplotlib  # noqa: F401  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise DependencyError(
                "--plot draws a .png with matplotlib, which is not installed: pip install 'gathernest[report]'; "
                "a .svg needs nothing more"
            ) from None
    return picture


def plot(report: Report, path: Path) -> None:
    """Write the picture of a run: PNG or SVG, as the file's name says; a PNG is dark where that ends in `-dark.png`."""
    drawn = cases_plot(as_json(report), conditions(report))
    if path.suffix == ".svg":
        path.write_text(standalone(drawn), encoding="utf-8")
        return
    from .plots.png import write_png

    write_png(drawn, path, dark=path.stem.endswith("-dark"))
