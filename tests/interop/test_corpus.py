"""Every model of the corpus that its own runtime runs, runs here with that runtime's bytes, whole and cut.

Models by hand and the node models of `onnx.backend.test` need onnx only. Exports of torch models need torch; they are
written once into a folder of the run, and `GATHERNEST_CORPUS` names a folder that keeps them from run to run.
"""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

import gathernest as gn
from gathernest.interop.models.model import has_same_bytes, load

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx.numpy_helper")
from .corpus import hand_made, write  # noqa: E402
from .cutting import check_gathers, open_runtime  # noqa: E402

# The largest difference of a cut model, relative to the largest element, where runtimes round to bfloat16.
MAX_DIFFERENCE = 0.05
CALLS = 10


def run_theirs(model, inputs):
    """Return the outputs of a model in its own runtime; None where it does not run."""
    try:
        return open_runtime(model)(inputs)
    except Exception:
        return None


def check(source, batches, calls=CALLS):
    """Compare a model with its runtime for inputs of several batches; return whether the runtime ran it."""
    ran = 0
    for inputs in batches:
        wanted = run_theirs(source, inputs)
        if wanted is None:
            with pytest.raises(gn.GathernestError):
                load(source).run(inputs)
            continue
        ran += 1
        model = load(source)
        for _ in range(calls):
            found = model.run(inputs)
            assert list(found) == list(dict.fromkeys(model.outputs))
            theirs = dict(zip(model.outputs, wanted, strict=True))
            assert all(has_same_bytes(array, theirs[name]) for name, array in found.items())
        check_cut(model, inputs, wanted)
    return ran == len(batches)


def check_cut(model, inputs, wanted):
    """Compare a model that is cut at all of its gathers; where its bytes differ, no call of the model may be cut."""
    try:
        found = model.runtime.cut([*model.runtime.gathers])(inputs)
    except gn.ModelError:
        return
    if all(map(has_same_bytes, found, wanted)):
        return
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if theirs.dtype.kind == "f":  # the places of equal elements depend on how they are rounded
            assert np.allclose(ours, theirs, rtol=0, atol=MAX_DIFFERENCE * np.abs(theirs).max(initial=0))


@pytest.mark.draw(13)
@pytest.mark.parametrize("batches", [(1, 5), pytest.param((4000,), marks=pytest.mark.thorough)], ids=["small", "large"])
@pytest.mark.parametrize("name", hand_made.MODELS)
def test_model_by_hand(name, batches):
    model = hand_made.make(name)
    check(model, [hand_made.inputs_of(model, batch) for batch in batches], calls=3 * len(batches))


@pytest.mark.parametrize("name", sorted({*hand_made.MODELS} - {"table_is_output", "unused"}))
def test_each_gather_of_a_model_by_hand_runs_here(name, runtime):
    """A model that has a constant as an output is not cut, and a gather that nothing reads does not run."""
    model = hand_made.make(name)
    check_gathers(model, hand_made.inputs_of(model, 5), hand_made.KINDS.get(name, ["Gather"]))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_models_of_onnx_with_a_gather():
    from onnx.backend.test import loader

    cases = [case for kind in ("node", "pytorch-converted") for case in loader.load_model_tests(kind=kind)]
    models = {case.name: (case.model, case.data_sets) for case in cases if case.model is not None}
    chosen = [name for name, (model, _) in models.items() if b"Gather" in model.SerializeToString()]
    assert len(chosen) > 10
    for name in chosen:
        model, data = models[name]
        stored = {tensor.name for tensor in model.graph.initializer}
        names = [info.name for info in model.graph.input if info.name not in stored]
        for arrays, _ in data:
            check(model, [dict(zip(names, map(array_of, arrays), strict=False))], calls=2)


def array_of(value):
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def torch_names():
    """Return the names of the torch models; none where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        return []
    from .corpus.torch_models import CASES

    return list(CASES)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """The folder of exported models."""
    kept = os.environ.get("GATHERNEST_CORPUS")
    return Path(kept) if kept else tmp_path_factory.mktemp("corpus")


@pytest.mark.thorough
@pytest.mark.parametrize("exporter", write.EXPORTERS)
@pytest.mark.parametrize("name", torch_names())
def test_export_of_torch(corpus, name, exporter):
    pytest.importorskip("openvino" if exporter == "openvino" else "onnxscript")
    from .corpus.torch_models import CASES

    ((file, reason),) = write.write(corpus, [name], [exporter])
    if reason:
        assert f"{name}.{exporter}" in NOT_EXPORTED
        return
    batches = [CASES[name].inputs(np.random.default_rng(1), batch, write.ROWS) for batch in (1, 3, 64)]
    assert check(corpus / file, batches) or f"{name}.{exporter}" in NOT_RUN


# Models that exporters of torch 2.13 and OpenVINO 2026.4 reject, and those that they write and no runtime runs.
NOT_EXPORTED = {"dlrm_max.openvino", "padded_bags.script"}
NOT_RUN = {"weighted_bags.openvino"}
