"""Constants are commented by `#`: no string literal stands below an assignment."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ir", "lowering", "kernels", "interop", "playground", "tools", "tests", "asv_bench", "docs", "examples")


@pytest.mark.thorough
def test_no_string_literal_below_an_assignment() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{below.lineno}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Module | ast.ClassDef)
        for above, below in pairwise(node.body)
        if isinstance(above, ast.Assign | ast.AnnAssign)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    ]
    assert found == []
