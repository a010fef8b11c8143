"""Models that exporters wrote of small torch modules, against the bytes that ONNX Runtime and OpenVINO gave for them.

`write_exports.py` wrote `data/`, with torch 2.13.0+cpu, onnx 1.23.2, onnxscript 0.7.2, onnxruntime 1.32.0 and openvino
2026.4.1: names are those of the module, the exporter, and whether sizes are dynamic.
"""

from pathlib import Path

import numpy as np
import pytest

import gathernest as gn

DATA = Path(__file__).parent / "data"
MODELS = sorted([*DATA.glob("*.onnx"), *DATA.glob("*.xml")])


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_export_gives_the_bytes_of_its_runtime_at_every_stage(path, check_stages):
    stored = np.load(path.with_suffix(".npz"))
    model = gn.load(path)
    inputs = {name: stored[name] for name in model.inputs}
    check_stages(model, inputs)
    outputs = list(model.run(inputs).values())
    assert outputs
    for place, got in enumerate(outputs):
        wanted = stored[f"output_{place}"]
        assert (got.shape, got.dtype, got.tobytes()) == (wanted.shape, wanted.dtype, wanted.tobytes())


def test_there_are_exports_of_every_kind():
    words = {word for path in MODELS for word in path.stem.split(".")[1:]}
    assert words == {"script", "dynamo", "openvino", "dynamic"}
