"""A hook of MkDocs: pages outside of docs, and a page for each source that a page links to.

In the repository the pages link to files beside docs, such as `../lowering/pipeline.py`. The site has no such files, so
each becomes a page under `source/`, and the links lead there. The README is the first page.
"""

import ast
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
# The notebook that another hook makes a page of.
TUTORIAL = Path("docs/tutorial.py")
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//", re.IGNORECASE)
LANGUAGES = {".py": "python", ".pyi": "python", ".toml": "toml", ".yml": "yaml", ".svg": "xml", ".mlir": "mlir"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs and the sources that any page leads to."""
    wanted = [Path(name) for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    for file in files.documentation_pages():
        wanted += _targets(Path("docs") / file.src_uri, file.content_string)
    done: set[Path] = set()
    while wanted:
        path = wanted.pop()
        if path in done or path == TUTORIAL or _is_inside(path):
            continue
        done.add(path)
        text = _text(path)
        wanted += _targets(path, text)
        files.append(File.generated(config, _uri(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the repository into links to pages of the site."""
    here = _HOMES.get(page.file.src_uri, Path("docs") / page.file.src_uri)
    if here.suffix not in ("", ".md"):
        return markdown
    start = posixpath.dirname(page.file.src_uri) or "."

    def moved(match: re.Match[str]) -> str:
        return f"]({posixpath.relpath(_uri(_resolved(here, match[1])), start)}"

    parts = BLOCK.split(markdown)
    blocks = [*BLOCK.findall(markdown), ""]
    return "".join(LINK.sub(moved, part) + block for part, block in zip(parts, blocks, strict=True))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Reject a page that would load something from another host."""
    if found := LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads from another host: {found[0]}")
    return output


# By the place on the site: where a page that is not in docs has its text.
_HOMES: dict[str, Path] = {}


def _targets(path: Path, text: str) -> list[Path]:
    """Return the files and folders that a page links to, as paths from the root of the repository."""
    found = [_resolved(path, target) for target in LINK.findall(BLOCK.sub("", text))]
    if missing := [target.as_posix() for target in found if not (ROOT / target).exists()]:
        raise PluginError(f"{path.as_posix()} links to {', '.join(missing)}, which the repository does not have")
    return found


def _is_inside(path: Path) -> bool:
    """Whether MkDocs itself puts a file on the site: pages and pictures of docs are, its programs and settings not."""
    return path.parts[0] == "docs" and path.suffix not in (".py", ".yml")


def _resolved(path: Path, target: str) -> Path:
    return Path(posixpath.normpath((path.parent / target).as_posix()))


def _uri(path: Path) -> str:
    """Return where the site has a file of the repository."""
    if path == TUTORIAL:
        return "tutorial.md"
    if _is_inside(path):
        return path.relative_to("docs").as_posix()
    if path.suffix == ".md":
        return path.as_posix()
    return f"source/{path.as_posix()}" + ("/index.md" if (ROOT / path).is_dir() else ".md")


def _text(path: Path) -> str:
    """Return the Markdown of a page outside of docs: a page, a folder, or a source."""
    _HOMES[_uri(path)] = path
    place = ROOT / path
    if place.is_dir():
        inside = [child for child in place.iterdir() if not child.name.startswith((".", "_"))]
        inside.sort(key=lambda child: (child.is_file(), child.name))
        lines = [f"* [`{child.name}`]({path.name}/{child.name}){_summary(child)}" for child in inside]
        return "\n".join([f"# {path.as_posix()}", "", *lines, ""])
    text = place.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    language = LANGUAGES.get(path.suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n# {path.as_posix()}\n\n````{language}\n{text}````\n"


def _summary(path: Path) -> str:
    """Return the first line of the docstring of a module or package."""
    source = path / "__init__.py" if path.is_dir() else path
    if source.suffix != ".py" or not source.exists():
        return ""
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
    return f": {text.splitlines()[0]}" if text else ""
