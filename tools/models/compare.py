"""A model's outputs compared with those of another runtime, byte for byte."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.byte_comparison import first_difference
from ...ir.errors import DependencyError, ModelError

Arrays = Mapping[str, np.ndarray]
# By the suffix of a file: the package, its name, and what installs it.
RUNTIMES = {
    ".onnx": ("onnxruntime", "ONNX Runtime", "'gathernest[onnxruntime]'"),
    ".xml": ("openvino", "OpenVINO", "openvino"),
}


def compare(path: Path, inputs: Arrays, outputs: Arrays) -> dict[str, Any]:
    """Run the runtime that a model's format is native to; return its name, and a line for each output that differs.

    Raises:
        DependencyError: the runtime is not installed.
        ModelError: the runtime rejects the model.
    """
    package, title, source = RUNTIMES[path.suffix]
    try:
        runtime: Any = importlib.import_module(package)
    except ImportError:
        raise DependencyError(f"--compare runs {title}, which is not installed: pip install {source}") from None
    run = _run_onnxruntime if package == "onnxruntime" else _run_openvino
    title = f"{title} {getattr(runtime, '__version__', '')}".strip()
    try:
        theirs = run(runtime, path, inputs, outputs)
    except Exception as error:  # each runtime has errors of its own
        reason = str(error).partition("\n")[0]
        raise ModelError(f"{title} does not run the model: {type(error).__name__}: {reason}") from None
    found = [difference(name, array, np.asarray(theirs[name]), title) for name, array in outputs.items()]
    differences = [line for line in found if line is not None]
    return {"with": title, "equal": not differences, "differences": differences}


def _run_onnxruntime(runtime: Any, path: Path, inputs: Arrays, outputs: Arrays) -> Arrays:
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip(outputs, session.run(list(outputs), dict(inputs)), strict=True))


def _run_openvino(runtime: Any, path: Path, inputs: Arrays, outputs: Arrays) -> Arrays:
    compiled = runtime.Core().compile_model(str(path), "CPU")
    results = compiled(list(inputs.values()))
    return {name: np.asarray(results[place]) for place, name in enumerate(outputs)}


def difference(name: str, ours: np.ndarray, theirs: np.ndarray, runtime: str) -> str | None:
    """Return where two outputs differ, or None where their bytes are the same."""
    if ours.shape != theirs.shape or (ours.dtype != theirs.dtype and not ours.dtype.hasobject):
        return (
            f"output {name!r} differs: {ours.dtype} of shape {ours.shape} here, {theirs.dtype} of shape "
            f"{theirs.shape} from {runtime}"
        )
    if (found := first_difference(theirs, ours)) is None:
        return None
    place, count = found
    return (
        f"output {name!r} differs at {place}: {ours[place]!r} here, {theirs[place]!r} from {runtime}; "
        f"{count} of {ours.size} elements differ"
    )
