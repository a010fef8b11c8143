"""Without torch, its package says what to install."""

import importlib
import importlib.util
import sys

import pytest

import gathernest as gn

IS_FOUND = importlib.util.find_spec("gathernest.torch") is not None


@pytest.mark.skipif(not IS_FOUND, reason="installed before gathernest.torch was there: pip install -e .")
def test_import_without_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "gathernest.torch", raising=False)
    with pytest.raises(gn.DependencyError) as caught:
        importlib.import_module("gathernest.torch")
    assert str(caught.value) == (
        "gathernest.torch needs PyTorch, which is not installed; run pip install 'gathernest[torch]'"
    )
