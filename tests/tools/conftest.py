import io
from collections.abc import Callable
from typing import NamedTuple

import pytest

from gathernest.tools import cli, opt

OPERATOR = """func.func @gather(%data: tensor<9x4xf32>, %indices: tensor<5xi64>) -> tensor<5x4xf32> {
  %result = gather.gather %data, %indices axis 0 batch_dims 0 bounds error
      : tensor<9x4xf32>, tensor<5xi64> -> tensor<5x4xf32>
  func.return %result : tensor<5x4xf32>
}
"""


class Ended(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def operator_text() -> str:
    return OPERATOR


@pytest.fixture
def gathernest(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run the command `gathernest` in this process."""

    def run(*words: str) -> Ended:
        capsys.readouterr()
        status = cli.main(words)
        return Ended(status, *capsys.readouterr())

    return run


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes a text or bytes the standard input of this process; it is a terminal if asked."""

    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    def replace(stdin: str | bytes, *, at_terminal: bool = False) -> None:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        stream = Terminal(raw) if at_terminal else io.BytesIO(raw)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))

    return replace


@pytest.fixture
def gathernest_opt(capsys: pytest.CaptureFixture[str], type_in: Callable[..., None]) -> Callable[..., Ended]:
    """Run the command `gathernest-opt` in this process, with a text or bytes as its standard input."""

    def run(*words: str, stdin: str | bytes = "", at_terminal: bool = False) -> Ended:
        capsys.readouterr()
        type_in(stdin, at_terminal=at_terminal)
        status = opt.main(words)
        return Ended(status, *capsys.readouterr())

    return run
