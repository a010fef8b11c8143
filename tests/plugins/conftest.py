import importlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gathernest.ir.modules.plugins import plugins
from gathernest.tools import opt

UNIVERSE = """
from dataclasses import dataclass

from xdsl.dialects.builtin import i64
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, result_def
from xdsl.passes import ModulePass
from xdsl.universe import Universe


@irdl_op_definition
class TouchOp(IRDLOperation):
    name = "{dialect}.touch"
    res = result_def(i64)
    assembly_format = "attr-dict `:` type($res)"


@dataclass(frozen=True)
class Own(ModulePass):
    '''Do nothing, or fail.'''

    name = "{name}"
    size: int = 1

    def apply(self, ctx, op):
        assert self.size > 0, "no size"


UNIVERSE = Universe(
    all_passes={{"{name}": lambda: Own}}, all_dialects={{"{dialect}": lambda: Dialect("{dialect}", [TouchOp], [])}}
)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Return a function that puts a package with one pass and one operation, or with that source, among the installed.

    It returns the folder of the package.
    """
    monkeypatch.syspath_prepend(tmp_path)
    installed: list[str] = []

    def install(package: str, name: str = "own-pass", source: str = UNIVERSE, dialect: str = "own") -> Path:
        home, facts = tmp_path / package, tmp_path / f"{package}-1.5.dist-info"
        home.mkdir()
        facts.mkdir()
        (home / "__init__.py").write_text(source.format(name=name, dialect=dialect))
        (home / "sizes.py").write_text("SIZE = 1\n")
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
        (facts / "entry_points.txt").write_text(f"[xdsl.universe]\n{package} = {package}:UNIVERSE\n")
        installed.append(package)
        importlib.invalidate_caches()
        plugins.cache_clear()
        return home

    yield install
    plugins.cache_clear()
    for package in installed:
        sys.modules.pop(package, None)


@pytest.fixture
def gathernest_opt(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple]:
    """Run the command `gathernest-opt` in this process; give its status, its output and its errors."""

    def run(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        return opt.main(words), *capsys.readouterr()

    return run
