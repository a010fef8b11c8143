"""The example of docs/models.md prints what the page says, and the page's tables name what is supported."""

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text()


def test_example_prints_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (text,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == text


def test_every_supported_operator_is_on_the_page() -> None:
    from gathernest.ir.importers.onnx_nodes import SUPPORTED
    from gathernest.ir.importers.openvino import _CONVERTERS

    assert [name for name in (*SUPPORTED, *_CONVERTERS) if name not in PAGE] == []
