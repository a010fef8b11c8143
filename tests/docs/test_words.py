"""The sources, messages and pages use the field's words; docs/glossary.md has them, and the words that are not used."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ir", "lowering", "kernels", "interop", "playground", "tools", "tests", "asv_bench", "docs", "examples")
KINDS = (".py", ".md", ".mlir", ".toml", ".json")
# The glossary names the banned words, and this file their patterns.
EXEMPT = {ROOT / "docs" / "glossary.md", Path(__file__).resolve()}
# By the word of the glossary: what is written instead. `\b` keeps ordinary words such as "perf_counter" and "np.floor";
# Floor beside Ceil, or in quotes, is an operator of models.
BANNED = {
    "prefetched": r"\bask(s|ed|ing)? (for )?(\w+ ){0,3}ahead\b|\basked for (whole|again|at position)\b",
    "non-temporal store": r"\bpast the (last )?caches?\b|\bpast (it|them) from\b|\bstored past\b",
    "remainder loop": r"\bsplit_off_rest\b|\boverlapping_rest\b|\bhas_rest\b|\b(loop of|behind) the rest\b",
    "roofline bound": r"\bmachine's limit|\bfraction of (the|a) limit|\bof_limit|\blimits_(beside|of)\b"
    r"|(?-i:\bFloor\b)(?!\"|, Ceil)|\bgather_floor\b|\bfloor_(of|us)\b|\bthe floor\b",
    "owner-computes": r"\bown[-_]positions\b|\bOwnPositions\b",
    "staged": r"\b(MOST_)?HELD_|\b_held\b|\b(held|kept) (indices|positions)\b",
    "rejected": r"refus(e|es|ed|al|als|ing)(?![a-z])",
    "candidate": r"contender",
    "capacity misses": r"\bcomes? again\b|\blines again\b",
    "reference loop": r"\byardsticks?\b",
}


def files() -> list[Path]:
    """Return every file of the repository that people read, but for the generated sources in tests/golden."""
    below = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in KINDS]
    found = [
        *below,
        *ROOT.glob("*.md"),
        *ROOT.glob("*.toml"),
        *ROOT.glob("*.py"),
        ROOT / "Makefile",
        ROOT / ".ci" / "run",
    ]
    return [path for path in found if path not in EXEMPT and "__pycache__" not in path.parts]


@pytest.mark.thorough
def test_no_file_uses_an_old_word() -> None:
    patterns = {word: re.compile(pattern, re.IGNORECASE) for word, pattern in BANNED.items()}
    found = []
    for path in files():
        text = path.read_text(encoding="utf-8", errors="replace")  # one is no text: a command rejects it
        found += [
            f"{path.relative_to(ROOT)}: write {word!r} instead of {match[0]!r}"
            for word, pattern in patterns.items()
            for match in pattern.finditer(text)
        ]
    assert not found, "\n".join(found)


def test_the_glossary_has_the_words() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    assert [word for word in BANNED if word not in glossary] == []
