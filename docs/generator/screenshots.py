"""Take the screenshots of docs/report.md anew: `python docs/generator/screenshots.py`. Needs Chromium and Pillow.

They show times of the machine that they were taken on, so nothing compares them.
"""

import base64
import importlib.util
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image  # pyright: ignore[reportMissingImports]

import gathernest as gn
from gathernest.lowering import programs

ROOT = Path(__file__).resolve().parents[2]
DATA, INDICES, LINE = "100000x64xf32", "20000xi64", "vector.load"
# File: width and height in pixels, dark or light, the title of the drawing that is scrolled to.
SHOTS = {
    "report.png": (1400, 900, "light", ""),
    "report-dark.png": (1400, 900, "dark", "The scheduled nest"),
    "report-phone.png": (400, 900, "light", ""),
}


def main() -> None:
    """Write the report of one gather, and a picture for each entry of `SHOTS`."""
    spec = importlib.util.spec_from_file_location("browser", ROOT / "tests" / "playground" / "report" / "browser.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    chromium = programs.find("chromium").path
    temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # processes of Chromium may still write there
    with temporary as folder, module.browser(chromium, Path(folder) / "profile") as tab:
        page = Path(folder) / "report.html"
        page.write_text(gn.compile("gather", DATA, INDICES).report(), encoding="utf-8")
        for name, (width, height, theme, title) in SHOTS.items():
            tab.open(page, width=width, height=height)
            tab.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
            lines = "[...document.querySelectorAll('.pane:not([hidden]) .l')]"
            find = f"{lines}.find((line) => line.textContent.includes('{LINE}'))"
            tab.evaluate(f"location.hash = {find}.id.replace('l', '#L')")
            tab.evaluate("new Promise((done) => requestAnimationFrame(() => done(0)))")
            tab.evaluate(
                f"[...document.querySelectorAll('h3')].find((h) => h.textContent === '{title}')?.scrollIntoView()"
            )
            shot = base64.b64decode(tab.call("Page.captureScreenshot", format="png")["data"])
            image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(160, dither=Image.Dither.NONE)
            path = ROOT / "docs" / "images" / name
            image.save(path, optimize=True)
            sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB\n")


main()
