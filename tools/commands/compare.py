"""A model's outputs compared with those of another runtime, byte for byte."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.errors import DependencyError, ModelError

Arrays = Mapping[str, np.ndarray]

RUNTIMES = {".onnx": ("onnxruntime", "ONNX Runtime"), ".xml": ("openvino", "OpenVINO")}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found.

    Attributes:
        runtime: the other runtime with its version.
        differences: a line for each output that differs.
    """

    runtime: str
    differences: tuple[str, ...]


def compare(path: Path, inputs: Arrays, outputs: Arrays) -> Comparison:
    """Run the runtime that a model's format is native to, and compare.

    Args:
        path: the model.
        inputs: its inputs.
        outputs: its outputs.

    Raises:
        DependencyError: the runtime is not installed.
        ModelError: the runtime rejects the model.
    """
    package, title = RUNTIMES[path.suffix]
    try:
        runtime: Any = importlib.import_module(package)
    except ImportError:
        raise DependencyError(f"--compare runs {title}, which is not installed: pip install {package}") from None
    run = _run_onnxruntime if package == "onnxruntime" else _run_openvino
    title = f"{title} {getattr(runtime, '__version__', '')}".strip()
    try:
        theirs = run(runtime, path, inputs, outputs)
    except Exception as error:  # each runtime has errors of its own
        reason = str(error).partition("\n")[0]
        raise ModelError(f"{title} does not run the model: {type(error).__name__}: {reason}") from None
    lines = [difference(name, array, theirs[name], title) for name, array in outputs.items()]
    return Comparison(title, tuple(line for line in lines if line is not None))


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
    theirs = np.asarray(theirs)
    if ours.shape != theirs.shape or (ours.dtype != theirs.dtype and not ours.dtype.hasobject):
        return (
            f"output {name!r} differs: {ours.dtype} of shape {ours.shape} here, {theirs.dtype} of shape "
            f"{theirs.shape} from {runtime}"
        )
    if ours.size == 0:
        return None
    if ours.dtype.hasobject:
        unequal = np.array([mine != other for mine, other in zip(ours.flat, theirs.flat, strict=True)])
    else:
        unequal = (_element_bytes(ours) != _element_bytes(theirs)).any(axis=1)
    places = np.flatnonzero(unequal)
    if not len(places):
        return None
    place = tuple(int(number) for number in np.unravel_index(int(places[0]), ours.shape))
    return (
        f"output {name!r} differs at {place}: {ours[place]!r} here, {theirs[place]!r} from {runtime}; "
        f"{len(places)} of {ours.size} elements differ"
    )


def _element_bytes(array: np.ndarray) -> np.ndarray:
    """Return the bytes of each element, one row an element."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
