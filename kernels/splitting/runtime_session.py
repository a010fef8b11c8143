"""A model in ONNX Runtime, with its inputs bound to the memory that they are written to."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from ...ir.errors import DependencyError, ModelError

LEAST_BYTES_TOO_LARGE = 2**31


def require_runtime() -> Any:
    """Return the module `onnxruntime`; raises DependencyError where it is not installed."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError:
        raise DependencyError(
            "the rest of a split model runs in ONNX Runtime, which is not installed: pip install onnxruntime"
        ) from None


class RuntimeSession:
    """A session of ONNX Runtime on the CPU."""

    def __init__(self, model: onnx.ModelProto | str, *, threads: int | None = None, is_part: bool = False):
        """Make it.

        Args:
            model: the model, or the path of its file.
            threads: that it uses; as many as it likes when None.
            is_part: whether other work follows a run at once. Its threads then do not wait in a loop for more after it:
                they would hold the cores that lookups need, and make a recommender 1.2 to 1.4 times as slow.

        Raises:
            ModelError: ONNX Runtime rejects the model.
            DependencyError: it is not installed.
        """
        self._runtime = runtime = require_runtime()
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # errors are raised, and need not be printed, too
        if threads is not None:
            options.intra_op_num_threads = threads
        if is_part:
            options.add_session_config_entry("session.force_spinning_stop", "1")
        source = model if isinstance(model, str) else _serialized(model)
        try:
            self._session = runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime has errors of its own
            raise _rejected(error) from None
        self._inputs = {info.name for info in self._session.get_inputs()}
        self._outputs = [info.name for info in self._session.get_outputs()]
        self._bound: dict[str, tuple[np.ndarray, Any]] = {}

    def run(self, inputs: Mapping[str, np.ndarray], kept: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """Return the outputs by name, as new arrays.

        Args:
            inputs: by name, C-contiguous; those that the model does not have are left out.
            kept: inputs that are the same arrays in most calls: they are bound once.

        Raises:
            ModelError: ONNX Runtime rejects them.
        """
        binding = self._session.io_binding()
        try:
            for name in self._inputs & inputs.keys():
                binding.bind_ortvalue_input(name, self._value(name, inputs[name], name in kept))
            for name in self._outputs:
                binding.bind_output(name)
            self._session.run_with_iobinding(binding)
            return dict(zip(self._outputs, binding.copy_outputs_to_cpu(), strict=True))
        except Exception as error:  # ONNX Runtime has errors of its own
            raise _rejected(error) from None

    def _value(self, name: str, array: np.ndarray, is_kept: bool) -> Any:
        if not is_kept:
            return self._runtime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
        bound = self._bound.get(name)
        if bound is None or bound[0] is not array:
            bound = self._bound[name] = array, self._runtime.OrtValue.ortvalue_from_numpy(array)
        return bound[1]


def _serialized(model: onnx.ModelProto) -> bytes:
    if model.ByteSize() >= LEAST_BYTES_TOO_LARGE:
        raise ModelError(
            f"a model of {model.ByteSize()} bytes cannot be handed to ONNX Runtime, which takes less than 2 GiB; keep "
            "its weights in a file beside it (external data)"
        )
    return model.SerializeToString()


def _rejected(error: Exception) -> ModelError:
    reason = str(error).partition("\n")[0]
    return ModelError(f"ONNX Runtime does not run the model: {type(error).__name__}: {reason}")
