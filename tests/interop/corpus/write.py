"""Write the corpus of models into a folder: `python -m tests.interop.corpus.write FOLDER [NAME ...]`.

Each torch model of `torch_models.py` is exported by script (`dynamo=False`), by dynamo, and by
`openvino.convert_model`, as `NAME.EXPORTER.onnx` or `.xml`. What an exporter rejects is printed, and is no model of the
corpus. Needs torch, onnx, onnxscript and openvino; a model takes about two seconds.
"""

import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

EXPORTERS = {"script": ".onnx", "dynamo": ".onnx", "openvino": ".xml"}
# The batch that models are traced with, and the rows of their tables.
TRACED_BATCH, ROWS = 3, 400


def write(
    folder: Path, names: Sequence[str] = (), exporters: Sequence[str] = tuple(EXPORTERS), rows: int = ROWS
) -> Iterator[tuple[str, str]]:
    """Export models that the folder does not have yet; yield the name of each and what its exporter rejects.

    Args:
        folder: where the files go.
        names: of the torch models; all when empty.
        exporters: some of `EXPORTERS`.
        rows: of the tables.
    """
    import torch

    from .torch_models import CASES

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or CASES:
        case = CASES[name]
        torch.manual_seed(0)
        module = case.module(rows).eval()
        inputs = case.inputs(np.random.default_rng(0), TRACED_BATCH, rows)
        tensors = {key: torch.from_numpy(array) for key, array in inputs.items()}
        for exporter in exporters:
            path, reason = folder / f"{name}.{exporter}{EXPORTERS[exporter]}", ""
            try:
                if not path.exists():
                    _export(exporter, module, tensors, case.dynamic, path)
            except Exception as error:  # exporters raise errors of every kind
                reason = f"{type(error).__name__}: {str(error).strip()[:200]!r}"
            yield path.name, reason


def _export(exporter: str, module: Any, tensors: dict[str, Any], dynamic: Any, path: Path) -> None:
    import torch

    if exporter == "openvino":
        import openvino as ov

        shapes = [
            ov.PartialShape([-1 if axis in dynamic.get(name, {}) else size for axis, size in enumerate(tensor.shape)])
            for name, tensor in tensors.items()
        ]
        with torch.no_grad():
            model = ov.convert_model(module, example_input=tuple(tensors.values()), input=shapes)
        for port, name in zip(model.inputs, tensors, strict=True):
            port.get_tensor().set_names({name})
        ov.save_model(model, str(path), compress_to_fp16=False)
        return
    arguments = {"input_names": list(tensors), "dynamo": exporter == "dynamo"}
    if exporter == "script":
        arguments |= {"dynamic_axes": dynamic, "opset_version": 17}
    else:
        dims = {name: dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for name, axes in dynamic.items()}
        arguments |= {"dynamic_shapes": tuple(dims.get(name, {}) for name in tensors), "external_data": False}
        arguments |= {"verbose": False}
    with torch.no_grad():
        torch.onnx.export(module, tuple(tensors.values()), str(path), **arguments)


if __name__ == "__main__":
    for name, reason in write(Path(sys.argv[1]), sys.argv[2:]):
        print(f"{name}: {f'not exported: {reason}' if reason else 'written'}", flush=True)
