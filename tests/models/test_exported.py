"""Models that real exporters wrote; data/README.md says which."""

from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import gathernest as gn

DATA = Path(__file__).parent / "data"
RNG = np.random.default_rng(5)


def test_torch_export_gives_what_the_reference_evaluator_gives(check_stages):
    model = gn.load(DATA / "torch_lookup.onnx")
    inputs = {"tokens": RNG.integers(-20, 20, (2, 5)), "picks": RNG.integers(0, 5, (2, 3, 8))}
    check_stages(model, inputs)
    wanted = ReferenceEvaluator(onnx.load(DATA / "torch_lookup.onnx")).run(None, inputs)
    got = model.run(inputs)
    assert list(got) == ["first", "along", "columns_of", "flat"]
    for ours, theirs in zip(got.values(), wanted, strict=True):
        assert (ours.shape, ours.dtype, ours.tobytes()) == (theirs.shape, theirs.dtype, theirs.tobytes())


def test_torch_export_is_simplified():
    text = str(gn.load(DATA / "torch_lookup.onnx"))
    assert "axis 2 start 7 step -2 count 4" in text
    assert text.count("gather.gather ") == 2
    assert text.count("gather.gather_elements ") == 1


def test_openvino_model_gives_what_numpy_gives(check_stages):
    model = gn.load(DATA / "openvino_lookup.xml")
    tokens = RNG.integers(0, 3, (5, 3))
    check_stages(model, {"tokens": tokens})
    table = np.arange(24, dtype=np.float32).reshape(6, 4)
    rows = table[tokens]
    wanted = {
        "rows": rows,
        "batched": np.take_along_axis(rows, tokens[:, :, None], 1),
        "flat": rows.reshape(5, 12),
        "pairs": rows[[0], [1]],
        "each": np.take_along_axis(rows, tokens[:, :, None], 2)[..., 0],
    }
    got = model(tokens=tokens)
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        assert (got[name].shape, got[name].tobytes()) == (array.shape, array.tobytes()), name
