"""Export small torch models of gathers to ONNX and OpenVINO, and run each here and by its own runtime.

    python tests/models/exports/write_exports.py write FOLDER [MODEL ...]
    python tests/models/exports/write_exports.py run FOLDER [WORD ...]
    python tests/models/exports/write_exports.py count FOLDER
    python tests/models/exports/write_exports.py store FOLDER NAME ...

Each of `CASES` is exported by script (`dynamo=False`), by dynamo and by `openvino.convert_model`, with static and with
dynamic sizes. `run` compares the bytes of ONNX Runtime or OpenVINO, for models with all WORDs in their name, and ends
with a count. `count` prints how many models have each operator. `store` copies models to `data/` here, without what
exporters say of their own source files, and with the inputs and that runtime's outputs.

Needs torch, onnx, onnxruntime, onnxscript and openvino.
"""

import collections
import logging
import re
import shutil
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import onnx

EXPORTERS = ("script", "dynamo", "openvino")


def write(folder: Path, names: list[str]) -> None:
    """Export models, each with its inputs as `.npz`."""
    import torch
    from torch_models import CASES

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    for name, case in CASES.items():
        if names and name not in names:
            continue
        torch.manual_seed(0)
        module = case.module().eval()
        traced, used = case.inputs(2, 5), case.inputs(3, 7)
        for kind in ("static", "dynamic"):
            for exporter in EXPORTERS:
                stem = folder / f"{name}.{exporter}.{kind}"
                try:
                    _export(exporter, module, case, traced, stem, dynamic=kind == "dynamic")
                except Exception as error:  # whatever an exporter raises
                    print(f"{stem.name}: not exported: {type(error).__name__}: {str(error)[:200]!r}", flush=True)
                    continue
                inputs = used if kind == "dynamic" else traced
                np.savez(f"{stem}.npz", **{key: value.numpy() for key, value in inputs.items()})


def _export(exporter: str, module, case, inputs, stem: Path, *, dynamic: bool) -> None:
    import torch

    if exporter == "openvino":
        import openvino as ov

        shapes = [
            ov.PartialShape(
                [-1 if dynamic and axis in case.dynamic[key] else size for axis, size in enumerate(t.shape)]
            )
            for key, t in inputs.items()
        ]
        model = ov.convert_model(module, example_input=tuple(inputs.values()), input=shapes)
        for port, key in zip(model.inputs, inputs, strict=True):
            port.set_names({key})
        ov.save_model(model, f"{stem}.xml", compress_to_fp16=False)
        return
    settings = {}
    if dynamic and exporter == "script":
        settings = {"dynamic_axes": case.dynamic}
    elif dynamic:
        dims = {axis: torch.export.Dim.DYNAMIC for axes in case.dynamic.values() for axis in axes}
        settings = {"dynamic_shapes": tuple({axis: dims[axis] for axis in case.dynamic[key]} for key in inputs)}
        if len(settings["dynamic_shapes"]) and hasattr(module, "function"):
            settings["dynamic_shapes"] = (settings["dynamic_shapes"],)
    torch.onnx.export(
        module,
        tuple(inputs.values()),
        f"{stem}.onnx",
        input_names=list(inputs),
        dynamo=exporter == "dynamo",
        **({"external_data": False, "verbose": False} if exporter == "dynamo" else {}),
        **settings,
    )


def theirs(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return what the runtime of a model's format gives."""
    if path.suffix == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return session.run(None, {entry.name: inputs[entry.name] for entry in session.get_inputs()})
    import openvino as ov

    compiled = ov.Core().compile_model(str(path), "CPU")
    results = compiled({port: inputs[port.any_name] for port in compiled.inputs})
    return [np.asarray(results[place]) for place in range(len(compiled.outputs))]


def operators(path: Path) -> collections.Counter[str]:
    """Count the operators of a model."""
    if path.suffix == ".onnx":
        return collections.Counter(node.op_type for node in onnx.load(path).graph.node)
    return collections.Counter(re.findall(r'<layer [^>]*type="(\w+)"', path.read_text()))


def run(folder: Path, words: list[str]) -> None:
    """Run every model here and by its own runtime, and count."""
    import gathernest as gn

    results: collections.Counter[str] = collections.Counter()
    for path in sorted([*folder.glob("*.onnx"), *folder.glob("*.xml")]):
        if not all(word in path.name for word in words):
            continue
        inputs = dict(np.load(path.with_suffix(".npz")))
        try:
            model = gn.load(path)
            ours = list(model.run({name: inputs[name] for name in model.inputs}).values())
            wanted = theirs(path, inputs)
            same = len(ours) == len(wanted) and all(
                (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())
                for a, b in zip(ours, wanted, strict=False)
            )
            outcome = "same bytes" if same else "other bytes"
            print(f"{path.name}: {outcome}", flush=True)
            if not same:
                print([(a.shape, a.dtype, b.shape, b.dtype) for a, b in zip(ours, wanted, strict=False)])
        except gn.GathernestError as error:
            outcome = "rejected"
            print(f"{path.name}: {error}", flush=True)
        except Exception:
            outcome = "crashed"
            print(f"{path.name}: {traceback.format_exc()}", flush=True)
        results[f"{path.name.split('.')[1]} {path.name.split('.')[2]} {outcome}"] += 1
        results[outcome] += 1
    for outcome, count in sorted(results.items()):
        print(f"{count:4} {outcome}")


def count(folder: Path, words: list[str]) -> None:
    """Print how many models have each operator."""
    for suffix in (".onnx", ".xml"):
        found: collections.Counter[str] = collections.Counter()
        for path in folder.glob(f"*{suffix}"):
            found.update(operators(path).keys())
        print(suffix, ", ".join(f"{name} {number}" for name, number in found.most_common()))


def _clear(graph: onnx.GraphProto) -> None:
    """Leave out what exporters say of their own source files, in subgraphs, too."""
    for part in (graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    graph.ClearField("value_info")
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _clear(attribute.g)


def store(folder: Path, names: list[str]) -> None:
    """Copy models to `data/`, with what goes in and what comes out."""
    data = Path(__file__).parent / "data"
    data.mkdir(exist_ok=True)
    for name in names:
        path = folder / name
        inputs = dict(np.load(path.with_suffix(".npz")))
        outputs = {f"output_{place}": array for place, array in enumerate(theirs(path, inputs))}
        np.savez_compressed(data / f"{path.stem}.npz", allow_pickle=False, **inputs, **outputs)
        if path.suffix == ".onnx":
            model = onnx.load(path)
            model.ClearField("metadata_props")
            _clear(model.graph)
            onnx.save(model, data / path.name)
        else:
            shutil.copy(path, data)
            shutil.copy(path.with_suffix(".bin"), data)


if __name__ == "__main__":
    action = {"write": write, "run": run, "count": count, "store": store}[sys.argv[1]]
    action(Path(sys.argv[2]), sys.argv[3:])
