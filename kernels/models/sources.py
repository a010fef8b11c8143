"""What `gathernest.load` reads: files, bytes, and the models that onnx and OpenVINO have in memory."""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ...ir.errors import ModelError
from ...ir.importers.file_limits import FileLimits, naming_file
from ..host.dependencies import require

if TYPE_CHECKING:
    from ...ir.importers.graph_builder import ImportedModel

# The suffixes of models and the package that reads each.
EXTRAS = {".onnx": "onnx", ".xml": "defusedxml"}
# A path, the bytes of a `.onnx` file, an `onnx.ModelProto`, or an `openvino.Model`.
ModelSource: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | Any"


def read_model(source: ModelSource, limits: FileLimits, *, allow_external_data: bool) -> tuple["ImportedModel", str]:
    """Return a model as a module, and its name.

    Raises:
        ModelError: the source is none that is read, is damaged, or holds what is not supported.
        DependencyError: the package that reads it is missing.
    """
    if isinstance(source, str | os.PathLike):
        return _read_file(Path(source), limits, allow_external_data=allow_external_data)
    if isinstance(source, bytes | bytearray | memoryview):
        return _read_bytes(bytes(source), limits)
    if _is_a(source, "onnx", "ModelProto"):
        name = source.graph.name
        return _read_proto(source, limits), name if isinstance(name, str) and name else "model"
    if _is_a(source, "openvino", "Model"):
        return _read_openvino(source, limits)
    raise ModelError(
        f"a model is the path of a .onnx or .xml file, the bytes of a .onnx file, an onnx.ModelProto or an "
        f"openvino.Model, got {type(source).__module__}.{type(source).__qualname__}{_remedy(source)}"
    )


def _is_a(source: Any, package: str, name: str) -> bool:
    """Return whether an object is of a class of a package, which is not imported for that."""
    kind = getattr(sys.modules.get(package), name, None)
    return isinstance(kind, type) and isinstance(source, kind)


def _remedy(source: Any) -> str:
    """Return what to do with a model of another kind; empty where there is nothing to say."""
    package = type(source).__module__.partition(".")[0]
    if package == "openvino":
        return "; load what it was compiled from"
    is_module = any(kind.__module__.startswith("torch.") and kind.__name__ == "Module" for kind in type(source).__mro__)
    return "; export it first: torch.onnx.export(module, inputs, 'model.onnx')" if is_module else ""


def _read_file(file: Path, limits: FileLimits, *, allow_external_data: bool) -> tuple["ImportedModel", str]:
    if file.suffix not in EXTRAS:
        raise ModelError(f"{file} is no model that can be read; a name ends in {' or '.join(EXTRAS)}")
    with naming_file(file):  # before a package is asked for
        file.stat()
    require("xdsl", EXTRAS[file.suffix])
    if file.suffix == ".onnx":
        from ...ir.importers.onnx import import_onnx

        return import_onnx(file, allow_external_data=allow_external_data, limits=limits), file.name
    from ...ir.importers.openvino import import_openvino

    return import_openvino(file, limits=limits), file.name


def _read_bytes(data: bytes, limits: FileLimits) -> tuple["ImportedModel", str]:
    if data.lstrip()[:1] == b"<":
        raise ModelError("these bytes are XML; an OpenVINO IR is loaded by the path of its .xml, beside its .bin")
    if len(data) > limits.max_file_bytes:
        raise ModelError(f"the model has {len(data)} bytes, over the limit max_file_bytes={limits.max_file_bytes}")
    require("xdsl", "onnx")
    from ...ir.importers.onnx import parse_model

    return _read_proto(parse_model(data, "the model"), limits), "model"


def _read_proto(model: Any, limits: FileLimits) -> "ImportedModel":
    require("xdsl", "onnx")
    from ...ir.importers.onnx import import_onnx_model
    from ...ir.importers.onnx_tensors import TensorReader

    return import_onnx_model(model, TensorReader(limits, None, allow_external_data=False))


def _read_openvino(model: Any, limits: FileLimits) -> tuple["ImportedModel", str]:
    """Read a model by way of the files that OpenVINO writes of it."""
    require("xdsl", EXTRAS[".xml"])
    from ...ir.importers.openvino import import_openvino

    with tempfile.TemporaryDirectory(prefix="gathernest-") as folder:
        file = Path(folder) / "model.xml"
        try:
            sys.modules["openvino"].serialize(model, str(file), str(file.with_suffix(".bin")))
        except RuntimeError as error:
            raise ModelError(f"OpenVINO does not write the model: {str(error).strip().splitlines()[-1]}") from None
        return import_openvino(file, limits=limits), model.friendly_name
