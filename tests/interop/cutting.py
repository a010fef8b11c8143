"""Models in their own runtimes, and cut at their gathers, for tests of several files."""

import dataclasses
import importlib.util
from pathlib import Path

import gathernest as gn
from gathernest.interop.models.model import has_same_bytes


def open_runtime(model):
    """Return a function that runs a model, or the file of one, in its own runtime, as its documentation says."""
    if isinstance(model, Path) and model.suffix == ".xml":
        import openvino

        request = openvino.Core().compile_model(str(model), "CPU").create_infer_request()
        return lambda inputs: [*request.infer(tuple(inputs.values()), share_inputs=True).values()]
    data = model.read_bytes() if isinstance(model, Path) else model.SerializeToString()
    if importlib.util.find_spec("onnxruntime"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        names = [info.name for info in session.get_outputs()]
        return lambda inputs: session.run(names, inputs)
    import onnx
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(onnx.load_model_from_string(data))
    return lambda inputs: evaluator.run(None, inputs)


def check_gathers(model, inputs, kinds):
    """Check which gathers a model has that can run here, and that running them here gives the bytes of the runtime."""
    loaded = gn.load(model)
    runtime = loaded.runtime
    movable = [found for found in runtime.gathers if not found.remark]
    assert [found.kind for found in movable] == kinds
    wanted = runtime.run(inputs)
    for chosen in [movable, *[[one] for one in movable]] if movable else []:
        ran = []
        counted = [_counting(found, ran) for found in chosen]
        assert all(map(has_same_bytes, runtime.cut(counted)(inputs), wanted))
        assert ran
    names = dict(zip(loaded.outputs, wanted, strict=True))
    assert all(has_same_bytes(array, names[name]) for name, array in loaded.run(inputs).items())


def _counting(found, ran):
    """Return a gather that says when it has run here to its end."""

    def compute(*operands):
        result = found.compute(*operands)
        ran.append(found.node)
        return result

    return dataclasses.replace(found, compute=compute)
