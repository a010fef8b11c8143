"""`gathernest split`: run the large gathers of an ONNX model here and the rest in ONNX Runtime, if that is faster."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.host.cpu import cpu_model, usable_cores
from ...kernels.models.tensor_spec import check_input_names
from ..console.output_paths import check_folder
from ..console.size_options import add_size_option, parse_sizes
from ..console.terminal import DONE, Parser, make_console, positive, seed
from .input_files import named_files, read_input

if TYPE_CHECKING:
    from ...kernels.splitting.split_model import Comparison, SplitModel

EXAMPLES = """examples:
  gathernest split recommender.onnx --size batch=2048
  gathernest split model.onnx --input tokens=tokens.npy --json
  gathernest split model.onnx --size batch=64 --out parts --fast-sums"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help="a .onnx file")
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE", help="the array of an input, a .npy file; repeat"
    )
    add_size_option(parser)
    parser.add_argument(
        "--random", type=seed, default=0, metavar="SEED", help="of the inputs that are filled at random (default: 0)"
    )
    parser.add_argument(
        "--fast-sums", action="store_true", help="take sums over indices here, too; their last bits may differ"
    )
    parser.add_argument("--rounds", type=positive, default=9, metavar="N", help="timed rounds (default: 9)")
    parser.add_argument("--out", metavar="DIR", help="where to write the models that ONNX Runtime runs")
    parser.add_argument(
        "--allow-external-data", action="store_true", help="read weights from other files in the model's folder"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Split the model, and time it beside the whole one."""
    from ...kernels.splitting.split_model import split

    if options.out is not None:
        check_folder("--out", options.out, "models")
    files, sizes = named_files(options.input), parse_sizes(options.size)
    model = split(options.model, fast_sums=options.fast_sums, allow_external_data=options.allow_external_data)
    inputs = _inputs(model, files, sizes, np.random.default_rng(options.random))
    found = model.compare(inputs, options.rounds)
    written = {} if options.out is None else _write(model, Path(options.out))
    facts = {
        "model": model.name,
        "lookups": [str(lookup) for lookup in model.lookups],
        "inputs": {name: {"type": str(model.inputs[name]), "shape": array.shape} for name, array in inputs.items()},
        "whole_us": found.whole_us,
        "split_us": found.split_us,
        "gain": found.gain,
        "is_worth_splitting": model.is_worth(found),
        "has_same_bytes": dict(found.has_same_bytes),
        "largest_difference": dict(found.largest_difference),
        "rounds": found.rounds,
        "cpu": cpu_model(),
        "files": written,
    }
    if options.json:
        print(json.dumps(facts))
    else:
        _print(model, found, written)
    return DONE


def _inputs(
    model: "SplitModel", files: dict[str, Path], sizes: dict[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return the arrays of the inputs, from files and at random; raises ModelError for what is not known."""
    from .random_inputs import random_arrays

    check_input_names(model.inputs, files)
    given = {name: read_input(name, model.inputs[name], path) for name, path in files.items()}
    limits = model.index_limits()
    arrays = given | random_arrays(model.inputs, given, rng, sizes, lambda bound: limits)
    return {name: arrays[name] for name in model.inputs}


def _write(model: "SplitModel", folder: Path) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    files = {key: folder / f"{Path(model.name).stem}.{key}.onnx" for key in model.parts}
    for key, path in files.items():
        path.write_bytes(model.parts[key].SerializeToString())
    return {key: str(path) for key, path in files.items()}


def _print(model: "SplitModel", found: "Comparison", written: dict[str, str]) -> None:
    from ...kernels.splitting.split_model import LEAST_GAIN

    console = make_console()
    count = len(model.lookups)
    nodes = sum(len(part.graph.node) for part in model.parts.values())
    console.print(
        f"{model.name}: {count} lookup{'s' * (count != 1)} here, {nodes} node{'s' * (nodes != 1)} in ONNX Runtime",
        style="bold",
    )
    for lookup in model.lookups:
        console.print(f"  {lookup}")
    rows: list[tuple[str, Any]] = [("whole", found.whole_us), ("split", found.split_us)]
    for name, time_us in rows:
        console.print(
            f"{name:<8}{time_us:>12,.1f} µs  median of {found.rounds} round{'s' * (found.rounds != 1)}, in turn"
        )
    how = "of rounds in the median, or of least times where that is less"
    console.print(f"gain    {found.gain:>12.2f}x  {how}; {cpu_model()}, {usable_cores()} cores")
    is_worth = model.is_worth(found)
    reason = f"below {LEAST_GAIN}x" if found.gain < LEAST_GAIN else "other bytes"
    verdict = "worth splitting" if is_worth else f"not worth splitting: {reason}, run it whole"
    console.print(verdict, style="green" if is_worth else "yellow")
    for name, difference in found.largest_difference.items():
        same = "the same bytes" if found.has_same_bytes[name] else f"elements differ by {difference:.3g} at most"
        console.print(f"output  {name}: {same}")
    for key, path in written.items():
        console.print(f"written {key}: {path}")
