"""The tables of docs/models.md name what is supported."""

from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text()


def test_every_supported_operator_is_on_the_page() -> None:
    from gathernest.ir.importers.onnx_operators import SUPPORTED
    from gathernest.ir.importers.openvino import _CONVERTERS

    assert [name for name in (*SUPPORTED, *_CONVERTERS) if name not in PAGE] == []
