"""`gathernest run`: run a model, say where its gathers run and why, and compare it with its runtime alone."""

import argparse
import re
import textwrap
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...interop.models.model import Model, Plan, has_same_bytes, load
from ...ir.element_types import element_type_name, first_difference
from ...ir.errors import ModelError
from ...kernels.host.cpu import cpu_model, usable_cores
from ...kernels.host.timing import time_interleaved
from ..console.model_inputs import Arrays, describe_problem, named_files, random_inputs, read_inputs
from ..console.problem_options import ASSUMED_SIZE, parse_sizes
from ..console.terminal import (
    DONE,
    FAILED,
    Parser,
    add_option,
    answer,
    check_folder,
    make_console,
    positive,
    print_table,
    seed,
    time_text,
)

# The rounds of `--compare`, and the longest time of a trial in seconds.
ROUNDS, MAX_TRIAL_S = 9, 30.0
OURS, COLUMNS = "gathernest", 80
EXAMPLES = """examples:
  gathernest run model.onnx --input tokens=tokens.npy --output results
  gathernest run model.onnx --input inputs.npz --plan
  gathernest run model.onnx --random 0 --size batch=4 --compare
  gathernest run model.xml --list"""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_option(parser, "MODEL", "a .onnx file, or the .xml of an OpenVINO IR")
    arrays = "the array of an input, a .npy file; or a .npz file with the arrays of several inputs by name; repeat"
    add_option(parser, "--input NAME=FILE ...", arrays)
    fill = "fill the other inputs at random, indices in range"
    add_option(parser, "--random SEED", fill, type=seed)
    add_option(parser, "--size NAME=N ...")
    add_option(parser, "--output DIR", "where to write each output, as NAME.npy")
    add_option(parser, "--plan", "say of each gather where it runs and why, after as many calls as it takes to know")
    add_option(
        parser,
        "--compare",
        "time it beside the model's runtime, each alone and both in turn, and compare their bytes; the exit status is "
        "1 when they differ",
    )
    add_option(parser, "--rounds N", f"timed rounds of each way of --compare (default: {ROUNDS})", type=positive)
    listed = f"print its gathers and bags, with {ASSUMED_SIZE} for sizes that only a run knows, and run nothing"
    add_option(parser, "--list", listed)
    add_option(parser, "--allow-external-data")
    add_option(parser, "--json")
    runs = ("input", "random", "size", "output", "plan", "compare")
    parser.alone("list", runs, "prints the gathers and runs nothing")
    parser.needs(("rounds",), "compare")
    parser.needs(("size",), "random")


def run(options: argparse.Namespace) -> int:
    """Run the model with the options of the command line."""
    files = named_files(options.input)
    if options.output is not None:
        check_folder("--output", options.output, "outputs")
    model = load(options.model, allow_external_data=options.allow_external_data)
    if options.list:
        return _print_list(model, as_json=options.json)
    inputs = _inputs(model, files, options.random, options.size)
    start = time.perf_counter()
    outputs = model.run(inputs)
    milliseconds = (time.perf_counter() - start) * 1e3
    if options.plan or options.compare:
        _finish_trial(model, inputs)
    comparison = _compare(model, inputs, options.rounds or ROUNDS) if options.compare else None
    written = {} if options.output is None else _write(outputs, Path(options.output))
    facts = {
        "model": model.name,
        "runtime": model.runtime.title,
        "inputs": {
            name: {"type": str(model.inputs.get(name, "optional")), "shape": np.shape(array)}
            for name, array in inputs.items()
        },
        "outputs": {
            name: {"type": _describe(value), "shape": getattr(value, "shape", None), "file": written.get(name)}
            for name, value in outputs.items()
        },
        "milliseconds": round(milliseconds, 3),
        **({"plan": _plan_facts(model.plan)} if options.plan else {}),
        **({"compare": comparison} if comparison else {}),
    }
    answer(options.json, facts, lambda: _print_report(facts, inputs, model.plan if options.plan else None))
    return FAILED if comparison and not comparison["equal"] else DONE


def _inputs(model: Model, files: Mapping[str, Path], random: int | None, sizes: list[str]) -> Arrays:
    """Return the arrays of the inputs, from files and, with a seed, at random."""
    arrays = read_inputs(model, files)
    missing = [name for name in model.inputs if name not in arrays]
    if missing and random is None:
        wanted = ", ".join(f"{name} ({model.inputs[name]})" for name in missing)
        raise ModelError(
            f"the model needs the inputs {wanted}; give each with --input NAME=FILE.npy, or --random SEED to fill them"
        )
    if missing:
        arrays |= random_inputs(model, arrays, np.random.default_rng(random), parse_sizes(sizes))
    return {name: arrays[name] for name in (*model.inputs, *model.runtime.optional) if name in arrays}


def _finish_trial(model: Model, inputs: Arrays) -> None:
    """Call the model until it has decided where its gathers run for these inputs."""
    end = time.perf_counter() + MAX_TRIAL_S
    while model.plan.is_trial and time.perf_counter() < end:
        model.run(inputs)


def _compare(model: Model, inputs: Arrays, rounds: int) -> dict[str, Any]:
    """Compare bytes with the runtime alone, and time both ways: each by itself, then in turn."""
    ways: dict[str, Callable[[], Any]] = {
        OURS: partial(model.run, inputs),
        model.runtime.title: partial(model.runtime.run, inputs),
    }
    ours, theirs = ways[OURS](), dict(zip(model.outputs, ways[model.runtime.title](), strict=True))
    lines = [_difference(name, value, theirs[name], model.runtime.title) for name, value in ours.items()]
    differences = [line for line in lines if line]
    alone = {name: 1e6 * time_interleaved({name: way}, rounds=rounds).median_s(name) for name, way in ways.items()}
    timings = time_interleaved(ways, rounds=rounds)
    in_turn = {name: 1e6 * timings.median_s(name) for name in ways}
    return {
        "with": model.runtime.title,
        "equal": not differences,
        "differences": differences,
        "rounds": rounds,
        "alone_us": alone,
        "in_turn_us": in_turn,
        "ratio": in_turn[model.runtime.title] / in_turn[OURS],
        "cpu": cpu_model(),
        "cores": usable_cores(),
    }


def _difference(name: str, ours: Any, theirs: Any, runtime: str) -> str | None:
    """Return where two outputs differ, or None where their bytes are the same."""
    if has_same_bytes(ours, theirs):
        return None
    is_array = isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray)
    if not is_array or ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"output {name!r} differs: {_describe(ours)} here, {_describe(theirs)} from {runtime}"
    if (found := first_difference(theirs, ours)) is None:
        return None
    place, count = found
    return (
        f"output {name!r} differs at {place}: {ours[place]!r} here, {theirs[place]!r} from {runtime}; "
        f"{count} of {ours.size} elements differ"
    )


def _write(outputs: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Write every output and return where; strings are written as NumPy's own, which need no pickle."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    for name, array in outputs.items():
        if not isinstance(array, np.ndarray):
            raise ModelError(f"output {name!r} is a {_describe(array)}, and a .npy file holds one array")
        word = re.sub(r"[^\w.-]", "_", name).lstrip(".") or "output"
        path, number = folder / f"{word}.npy", 0
        while str(path) in files.values():
            number += 1
            path = folder / f"{word}_{number}.npy"
        np.save(path, array.astype(str) if array.dtype.hasobject else array, allow_pickle=False)
        files[name] = str(path)
    return files


def _plan_facts(plan: Plan) -> dict[str, Any]:
    names = ("node", "kind", "operands", "reason")
    gathers = [
        {**{name: getattr(entry, name) for name in names}, "runs": "here" if entry.is_here else "runtime"}
        for entry in plan
    ]
    return {"runtime": plan.runtime, "gathers": gathers}


def _print_list(model: Model, *, as_json: bool) -> int:
    problems = model.gathers(ASSUMED_SIZE)
    entries = [{"node": name, "gather": describe_problem(problem)} for name, problem in problems.items()]
    lines = [f"{entry['node']}: {entry['gather']}" for entry in entries]
    text = "\n".join(lines) or f"{model.name} has no gather that can run here"
    answer(as_json, {"model": model.name, "gathers": entries}, lambda: print(text))
    return DONE


def _print_report(facts: dict[str, Any], inputs: Arrays, plan: Plan | None) -> None:
    console = make_console()
    console.print(f"{facts['model']}: {facts['milliseconds']:.2f} ms, what had to be compiled included", style="bold")
    rows = [("input ", f"{name} ", _describe(array)) for name, array in inputs.items()]
    rows += [("output ", f"{name} ", f"{each['type']} ", each["file"] or "") for name, each in facts["outputs"].items()]
    print_table(console, ("", "", "", ""), rows)
    for line in [] if plan is None else str(plan).splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        for part in textwrap.wrap(line, COLUMNS, subsequent_indent=indent, break_long_words=False):
            console.print(part)
    if "compare" not in facts:
        return
    found = facts["compare"]
    times = [
        (name, time_text(alone), time_text(found["in_turn_us"][name])) for name, alone in found["alone_us"].items()
    ]
    print_table(console, ("", ">alone", ">in turn"), [*times, ("ratio, in turn", "", f"{found['ratio']:.2f}x")])
    rounds = f"{found['rounds']} round{'s' * (found['rounds'] != 1)}"
    console.print(f"Medians of {rounds}; {found['cpu']}, {found['cores']} cores.")
    if found["equal"]:
        console.print(f"{found['with']} gives the same bytes.", style="green")
    for difference in found["differences"]:
        console.print(difference, style="red")


def _describe(value: Any) -> str:
    """Return the sizes and the type of a value."""
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    kind = "str" if value.dtype.kind in "OUS" else element_type_name(value.dtype)
    return "x".join([*map(str, value.shape), kind])
