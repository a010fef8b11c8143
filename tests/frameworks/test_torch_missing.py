"""Without torch, its package says what to install."""

import importlib
import sys

import pytest

import gathernest as gn


def test_import_without_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "gathernest.torch", raising=False)
    with pytest.raises(gn.DependencyError) as caught:
        importlib.import_module("gathernest.torch")
    assert str(caught.value) == (
        "gathernest.torch needs PyTorch, which is not installed; run pip install 'gathernest[torch]'"
    )
