"""A hook of MkDocs: the tutorial as a page, which has the cells of docs/tutorial.py with what they show."""

import ast
import html
import importlib.util
import re
import textwrap
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

TUTORIAL = Path(__file__).resolve().parents[1] / "tutorial.py"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    files.append(File.generated(config, "tutorial.md", content=tutorial_page()))
    return files


def tutorial_page(path: Path = TUTORIAL) -> str:
    """Run a marimo notebook, and return its cells as Markdown; an exception of a cell is raised."""
    outputs, _ = _loaded(path).app.run()
    text = path.read_text(encoding="utf-8")
    cells = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    parts = [_cell(cell, text.splitlines(), output) for cell, output in zip(cells, outputs, strict=True)]
    return "\n\n".join(parts) + "\n"


def _loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _cell(cell: ast.FunctionDef, lines: list[str], output: Any) -> str:
    """Return the text of a cell of Markdown, or else the code of a cell and what it shows."""
    body = [node for node in cell.body if not isinstance(node, ast.Return)]
    if len(body) == 1 and (text := _markdown(body[0])) is not None:
        return textwrap.dedent(text).strip()
    if "hide_code" in ast.unparse(cell.decorator_list[0]):
        return _shown(output)
    first = min(node.lineno for node in [body[0], *getattr(body[0], "decorator_list", [])])
    code = textwrap.dedent("\n".join(lines[first - 1 : body[-1].end_lineno]))
    return f"```python\n{code}\n```\n\n{_shown(output)}".rstrip()


def _markdown(node: ast.stmt) -> str | None:
    """Return the text of `mo.md(...)` where it has no values in it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "mo.md":
        argument = node.value.args[0]
        return argument.value if isinstance(argument, ast.Constant) else None
    return None


def _shown(output: Any) -> str:
    if output is None:
        return ""
    plain = re.fullmatch(r"<pre[^>]*>(.*)</pre>", output.text, re.DOTALL)
    return f"<div>{output.text}</div>" if plain is None else f"```text\n{html.unescape(plain[1]).rstrip()}\n```"
