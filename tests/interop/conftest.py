"""What tests of models share."""

import importlib.util
import sys

import pytest

RUNTIMES = [*["onnxruntime"] * (importlib.util.find_spec("onnxruntime") is not None), "onnx.reference"]


@pytest.fixture(params=RUNTIMES)
def runtime(request, monkeypatch):
    """Run models of ONNX in each of their runtimes that is installed."""
    if request.param == "onnx.reference":
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    return request.param
