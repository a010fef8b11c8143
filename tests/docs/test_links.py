"""Every link of README, CONTRIBUTING and the pages of docs leads to a file, and to a heading where it names one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*/*.md")])
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def prose(path: Path) -> str:
    return BLOCK.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as a forge and the site make them."""
    headings = re.findall(r"^#+ (.*)", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [path.relative_to(ROOT).as_posix() for path in PAGES])
def test_links_lead_to_files_and_headings(page: str) -> None:
    path = ROOT / page
    missing = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", prose(path)):
        file = path.parent / target if target else path
        if not file.exists() or (anchor and anchor not in anchors(file)):
            missing.append(f"{target}#{anchor}")
    assert missing == []
