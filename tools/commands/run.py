"""`gathernest run`: run a model of gathers from a file, and compare it with another runtime."""

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from ...interop.models.model import Model, load
from ...ir.element_types import element_type_name
from ...ir.errors import ModelError
from ..console.output_paths import check_folder
from ..console.size_options import add_size_option, parse_sizes
from ..console.terminal import DONE, FAILED, Parser, UsageError, make_console, seed
from ..models.gather_lines import ASSUMED_SIZE, described
from ..models.input_files import named_files, read_input

Arrays = dict[str, np.ndarray]

EXAMPLES = """examples:
  gathernest run model.onnx --input tokens=tokens.npy --output results
  gathernest run model.onnx --random 0 --size batch=4 --size length=128 --compare
  gathernest run model.onnx --list
  gathernest run model.onnx --random 0 --plan"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help="a .onnx file, or the .xml of an OpenVINO IR")
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE", help="the array of an input, a .npy file; repeat"
    )
    parser.add_argument(
        "--random", type=seed, metavar="SEED", help="fill the other inputs at random, what is used as indices in range"
    )
    add_size_option(parser)
    parser.add_argument("--output", metavar="DIR", help="where to write each output, as NAME.npy")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="run ONNX Runtime or OpenVINO on the same inputs and compare bytes; the exit status is 1 when they differ",
    )
    parser.add_argument("--plan", action="store_true", help="say of each gather where it runs, and why")
    parser.add_argument(
        "--list",
        action="store_true",
        help=f"print its gathers and bags instead of running it, with {ASSUMED_SIZE} for sizes that only a run knows",
    )
    parser.add_argument(
        "--allow-external-data", action="store_true", help="read weights from other files in the model's folder"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Run the model with the options of the command line."""
    given = named_files(options.input)
    if options.list:
        _check_printing(options)
    if options.output is not None:
        check_folder("--output", options.output, "outputs")
    model = load(options.model, allow_external_data=options.allow_external_data)
    if options.list:
        return _print_list(model, as_json=options.json)
    inputs = _inputs(model, given, options.random, options.size)
    start = time.perf_counter()
    outputs = model.run(inputs)
    milliseconds = (time.perf_counter() - start) * 1e3
    comparison = {}
    if options.compare:
        from ..models.compare import compare

        comparison = {"compare": compare(Path(options.model), inputs, outputs)}
    files = {} if options.output is None else _write(outputs, Path(options.output))
    facts = {
        "model": model.name,
        "inputs": {name: {"type": str(model.inputs[name]), "shape": array.shape} for name, array in inputs.items()},
        "outputs": {
            name: {"type": _described(array), "shape": array.shape, "file": files.get(name)}
            for name, array in outputs.items()
        },
        "milliseconds": round(milliseconds, 3),
        **({"plan": str(model.plan).splitlines()} if options.plan else {}),
        **comparison,
    }
    if options.json:
        print(json.dumps(facts))
    else:
        _print_report(facts, inputs)
    return FAILED if comparison and comparison["compare"]["differences"] else DONE


def _check_printing(options: argparse.Namespace) -> None:
    """Check that nothing is asked that needs a run, where only something of the model is printed."""
    given = {name: getattr(options, name) for name in ("input", "random", "size", "output", "compare")}
    unused = [f"--{name}" for name, value in given.items() if value or (value == 0 and value is not False)]
    if unused:
        raise UsageError(f"--list prints the model and runs nothing; leave out {', '.join(unused)}")


def _inputs(model: Model, given: dict[str, Path], random: int | None, sizes: list[str]) -> Arrays:
    """Return the arrays of the inputs, from files and, with a seed, at random."""
    model.check_names(given)
    arrays: Arrays = {name: read_input(name, model.inputs[name], path) for name, path in given.items()}
    missing = [name for name in model.inputs if name not in given]
    if sizes and random is None:
        raise UsageError("--size is for the inputs that --random fills; add --random SEED, or leave --size out")
    if missing and random is None:
        wanted = ", ".join(f"{name} ({model.inputs[name]})" for name in missing)
        raise ModelError(
            f"the model needs the inputs {wanted}; give each with --input NAME=FILE.npy, or --random SEED to fill them"
        )
    if missing:
        from ..models.random_inputs import random_inputs

        arrays |= random_inputs(model, arrays, np.random.default_rng(random), parse_sizes(sizes))
    return {name: arrays[name] for name in model.inputs}


def _write(outputs: Arrays, folder: Path) -> dict[str, str]:
    """Write every output and return where; strings are written as NumPy's own, which need no pickle."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    for name, array in outputs.items():
        word = re.sub(r"[^\w.-]", "_", name).lstrip(".") or "output"
        path, number = folder / f"{word}.npy", 0
        while str(path) in files.values():
            number += 1
            path = folder / f"{word}_{number}.npy"
        np.save(path, array.astype(str) if array.dtype.hasobject else array, allow_pickle=False)
        files[name] = str(path)
    return files


def _print_list(model: Model, *, as_json: bool) -> int:
    problems = model.gathers(ASSUMED_SIZE)
    if as_json:
        entries = [{"node": name, "gather": described(problem)} for name, problem in problems.items()]
        print(json.dumps({"model": model.name, "gathers": entries}))
        return DONE
    console = make_console()
    for name, problem in problems.items():
        console.print(f"{name}: {described(problem)}")
    if not problems:
        console.print(f"{model.name} has no gather left that runs as a kernel")
    return DONE


def _print_report(facts: dict[str, Any], inputs: Arrays) -> None:
    console = make_console()
    console.print(f"{facts['model']}: {facts['milliseconds']:.2f} ms, what had to be compiled included", style="bold")
    width = max(len(name) for name in (*inputs, *facts["outputs"]))
    for name, array in inputs.items():
        console.print(f"input   {name:<{width}}  {_described(array)}")
    for name, output in facts["outputs"].items():
        where = "" if output["file"] is None else f"  {output['file']}"
        console.print(f"output  {name:<{width}}  {output['type']}{where}")
    for line in facts.get("plan", ()):
        console.print(line, markup=False)
    if "compare" not in facts:
        return
    if facts["compare"]["equal"]:
        console.print(f"{facts['compare']['with']} gives the same bytes.", style="green")
    for difference in facts["compare"]["differences"]:
        console.print(difference, style="red")


def _described(array: np.ndarray) -> str:
    return "x".join([*map(str, array.shape), element_type_name(array.dtype)])
