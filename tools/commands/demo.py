"""`gathernest demo`: look up the embeddings of real text, and check every byte against NumPy.

The text is the source of Python's own standard library, so nothing is downloaded; the table of embeddings is random.
"""

import argparse
import json
import re
import sysconfig
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.element_types import first_difference
from ...ir.errors import GathernestError
from ...kernels.host.dependencies import require
from ...kernels.host.knobs import knobs
from ...kernels.host.timing import time_interleaved
from ...lowering.registry import SCHEDULED_NEST
from ..console.stages import draw
from ..console.terminal import DONE, FAILED, Parser, add_option, make_console, positive, progress

if TYPE_CHECKING:
    from rich.console import Console

    from ...kernels.kernel import Kernel

TEXT_BYTES = 4_000_000
SEQUENCE = 512
SEQUENCES = 256
WIDTH = 384
TOKEN = re.compile(r"\w+|[^\w\s]")
NOT_LIBRARY = {"site-packages", "dist-packages", "test", "tests", "__pycache__"}
MOST_COLUMNS = 96
_STORE = re.compile(r"\b(?:store|stream)_")
# Medians in milliseconds, by who and by whether the call allocates the result or is given one.
Times = dict[str, dict[str, float]]

EXAMPLES = """examples:
  gathernest demo
  gathernest demo --rounds 3 --json
  GATHERNEST_NUM_THREADS=1 gathernest demo"""


@dataclass(frozen=True, slots=True)
class Text:
    """The tokens of the standard library's source: its `words` as first used, and `ids`, (tokens,) int64, into them."""

    files: int
    size_bytes: int
    words: tuple[str, ...]
    ids: np.ndarray


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_option(parser, "--rounds N", "rounds of the timing (default: 7)", type=positive, default=7)
    result = f"{SEQUENCE * WIDTH * 4 / 2**20:.2f} MiB of result each"
    sequences = f"sequences of {SEQUENCE} tokens to look up at once, {result} (default: {SEQUENCES})"
    add_option(parser, "--sequences N", sequences, type=positive, default=SEQUENCES)
    add_option(parser, "--json")


def run(options: argparse.Namespace) -> int:
    """Run the demo; its status is 1 when a byte differs."""
    from ...kernels.kernel import compile as compile_gather

    require("xdsl", "numba", "llvmlite")
    if knobs.interpret:
        raise GathernestError("the demo times compiled code, and GATHERNEST_INTERPRET is set; unset it")
    text = read_standard_library()
    table, batch = make_table(text), make_batch(text, options.sequences)
    console = make_console()
    first, answered = answer_first(table, batch)
    kernel = compile_gather("gather", table, batch)
    if not options.json:
        _print_input(console, text, table, batch)
        _print_stages(console, kernel)
    expected = np.take(table, batch, axis=0)
    result = kernel(table, batch)
    equal = all(
        given.shape == expected.shape and first_difference(given, expected) is None for given in (first, result)
    )
    times = measure(kernel, table, batch, expected, options.rounds) if equal else {}
    facts = {
        "files": text.files,
        "text_bytes": text.size_bytes,
        "tokens": len(text.ids),
        "vocabulary": len(text.words),
        "table": list(table.shape),
        "indices": list(batch.shape),
        "bytes_moved": batch.nbytes + 2 * expected.nbytes,
        **answered,
        "same_bytes": equal,
        "rounds": options.rounds,
        "median_ms": times,
    }
    if options.json:
        print(json.dumps(facts))
    else:
        _print_result(console, facts, times)
    return DONE if equal else FAILED


def answer_first(table: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Look up as a program does whose kernel may not be compiled yet, and wait for the kernel.

    Returns:
        The result, and facts: whether NumPy gave it, the seconds until it was there, and until the kernel was.
    """
    from ...kernels.gather import gather
    from ...kernels.runtime.compile_service import KERNELS
    from ...kernels.runtime.prepare import wait

    start = time.perf_counter()
    with knobs.scope(compile="background"):
        result = gather(table, batch)
        first_s = time.perf_counter() - start
        with progress("compiling"):
            wait()
    ready_s = time.perf_counter() - start
    by_numpy = KERNELS.answered > 0
    return result, {"first_by_numpy": by_numpy, "first_s": round(first_s, 3), "ready_s": round(ready_s, 3)}


def read_standard_library() -> Text:
    """Read source files of the running Python's standard library, in order of their names, and number their tokens."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(
        (path for path in folder.rglob("*.py") if not NOT_LIBRARY.intersection(path.relative_to(folder).parts)),
        key=lambda path: path.relative_to(folder).as_posix(),
    )
    tokens: list[str] = []
    files = size_bytes = 0
    with progress("reading the standard library", TEXT_BYTES) as advance:
        for path in paths:
            source = path.read_bytes()
            tokens += TOKEN.findall(source.decode(errors="replace"))
            files, size_bytes = files + 1, size_bytes + len(source)
            advance(len(source))
            if size_bytes >= TEXT_BYTES:
                break
    if len(tokens) < SEQUENCE:
        raise GathernestError(f"{folder} has no source of the standard library to read; run the demo by another Python")
    numbers = {word: number for number, word in enumerate(dict.fromkeys(tokens))}
    ids = np.fromiter((numbers[token] for token in tokens), np.int64, len(tokens))
    return Text(files, size_bytes, tuple(numbers), ids)


def make_table(text: Text) -> np.ndarray:
    """Return an embedding for each word: (vocabulary, 384) float32."""
    return np.random.default_rng(0).standard_normal((len(text.words), WIDTH), dtype=np.float32)


def make_batch(text: Text, sequences: int) -> np.ndarray:
    """Return the ids of sequences picked from all over the text, as in training: (sequences, 512) int64."""
    whole = len(text.ids) // SEQUENCE
    if sequences > whole:
        raise GathernestError(f"the text has {whole} sequences of {SEQUENCE} tokens, got --sequences {sequences}")
    picked = np.random.default_rng(1).permutation(whole)[:sequences]
    return text.ids[: whole * SEQUENCE].reshape(whole, SEQUENCE)[picked]


def measure(kernel: "Kernel", table: np.ndarray, batch: np.ndarray, out: np.ndarray, rounds: int) -> Times:
    """Time the look-up by gathernest, by gathernest on one thread and by NumPy, in turn, round by round."""
    from ...kernels.runtime.launch import available_threads

    def on_one_thread(given: np.ndarray | None) -> None:
        with knobs.scope(num_threads=1):
            kernel(table, batch, given)

    calls: dict[str, Callable[[np.ndarray | None], object]] = {
        "gathernest": lambda given: kernel(table, batch, given),
        "gathernest on one thread": on_one_thread,
        "numpy.take": lambda given: np.take(table, batch, axis=0, out=given, mode="raise" if given is None else "clip"),
    }
    if available_threads() == 1:
        del calls["gathernest"]
    given = {"allocated_ms": None, "out_given_ms": out}
    candidates = {(name, kind): partial(call, array) for name, call in calls.items() for kind, array in given.items()}
    with progress("timing"):
        timings = time_interleaved({" ".join(key): call for key, call in candidates.items()}, rounds=rounds)
    return {name: {kind: round(1e3 * timings.median_s(f"{name} {kind}"), 3) for kind in given} for name in calls}


def _print_input(console: "Console", text: Text, table: np.ndarray, batch: np.ndarray) -> None:
    words = " ".join(text.words[number] for number in batch[0, :12])
    console.print("Looking up the words of Python's standard library", style="bold")
    _print_rows(
        console,
        ("text", f"{text.files} source files, {text.size_bytes / 1e6:.1f} MB"),
        ("tokens", f"{len(text.ids):,}, of {len(text.words):,} kinds"),
        ("table", f"an embedding of {WIDTH} float32 for each kind, {table.nbytes / 2**20:.1f} MiB"),
        ("batch", f"{len(batch)} sequence{'s' * (len(batch) != 1)} of {SEQUENCE} tokens; the first begins: {words}"),
    )


def _print_stages(console: "Console", kernel: "Kernel") -> None:
    from ...kernels.runtime.compile import run_stages
    from ...kernels.runtime.plan import make_plan

    stages = {stage.pass_name: stage for stage in run_stages(make_plan(kernel.problem, kernel.schedule))}
    operator = next(line.strip() for line in stages["operator"].text.splitlines() if "= gather." in line)
    _print_part(console, "The operator", [operator])
    for title, name in (("Its loop nest", "lower-to-nest"), ("The nest, scheduled", SCHEDULED_NEST)):
        _print_part(console, title, (draw(stages[name]) or "").splitlines())
    _print_part(console, "The code that copies a tile, as Numba compiles it", _copying_function(kernel.source))


def _copying_function(source: str) -> list[str]:
    """Return the lines of the function that stores, without its decorator."""
    functions = [part for part in source.split("\n\n\n") if _STORE.search(part) and "def " in part]
    lines = functions[0].splitlines() if functions else []
    return [line for line in lines if not line.startswith("@")]


def _print_part(console: "Console", title: str, lines: Sequence[str]) -> None:
    console.print(f"\n{title}", style="bold")
    for line in lines:
        _print_filled(console, line.strip(), " " * (len(line) - len(line.lstrip()) + 2), 4)


def _print_rows(console: "Console", *rows: tuple[str, str]) -> None:
    for name, value in rows:
        _print_filled(console, f"{name:<9}{value}", "  ", 9)


def _print_filled(console: "Console", text: str, indent: str, more: int) -> None:
    columns = min(console.width, MOST_COLUMNS) if console.is_terminal else MOST_COLUMNS
    console.print(textwrap.fill(text, columns, initial_indent=indent, subsequent_indent=indent + " " * more))


def _print_result(console: "Console", facts: dict[str, Any], times: Times) -> None:
    from ...kernels.runtime.launch import available_threads

    console.print("\nThe result", style="bold")
    shape = f"{facts['indices'][0]}x{facts['indices'][1]}x{WIDTH}xf32"
    if not facts["same_bytes"]:
        console.print(f"  {shape}, and NOT what numpy.take gives; please report this", style="bold red")
        return
    first_ms, ready = f"{1e3 * facts['first_s']:.0f} ms", f"{facts['ready_s']:.2f} s"
    by_kernel = f"by the kernel, in {first_ms} with all that Python imported for it"
    by_numpy = f"by NumPy, in {first_ms}: a call does not wait for the compiler"
    kernel = f"compiled by another process meanwhile, {ready} after the call; it has answered since"
    moved = facts["bytes_moved"]
    _print_rows(
        console,
        ("first", by_numpy if facts["first_by_numpy"] else by_kernel),
        ("kernel", kernel if facts["first_by_numpy"] else "in the cache, or compiled at once"),
        ("result", f"{shape}, byte for byte what numpy.take gives"),
        ("moved", f"{moved / 2**20:.0f} MiB a look-up: indices and rows read, result written"),
    )
    console.print(f"\nMedians of {facts['rounds']} interleaved rounds", style="bold")
    console.print(f"  {'':<26}{'result allocated':>24}{'out= given':>24}")
    for name, measured in times.items():
        cells = [f"{ms:.1f} ms {moved / ms / 1e6:6.1f} GB/s" for ms in measured.values()]
        label = f"{name}, {available_threads()} threads" if name == "gathernest" else name
        console.print(f"  {label:<26}{cells[0]:>24}{cells[1]:>24}")
    remark = "numpy.take has one thread; with out= it runs in mode='clip', without a buffer."
    console.print(f"  {remark}", style="dim")
