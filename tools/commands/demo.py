"""`gathernest demo`: look up the embeddings of real text, and check every byte against NumPy.

The text is the source of Python's own standard library, so nothing is downloaded; the table of embeddings is random.
"""

import argparse
import re
import sysconfig
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...ir.element_types import first_difference
from ...ir.errors import GathernestError
from ...kernels.host.dependencies import require
from ...kernels.host.knobs import knobs
from ...kernels.host.timing import time_interleaved
from ...lowering.registry import SCHEDULED_NEST
from ..console.stages import draw
from ..console.terminal import DONE, FAILED, Parser, add_option, answer, make_console, positive, print_table, progress

if TYPE_CHECKING:
    from rich.console import Console

    from ...kernels.kernel import Kernel

TEXT_BYTES = 4_000_000
SEQUENCE, SEQUENCES, WIDTH = 512, 256, 384
TOKEN = re.compile(r"\w+|[^\w\s]")
NOT_LIBRARY = {"site-packages", "dist-packages", "test", "tests", "__pycache__"}
MOST_COLUMNS = 96
_STORE = re.compile(r"\b(?:store|stream)_")

EXAMPLES = """examples:
  gathernest demo
  gathernest demo --rounds 3 --json
  GATHERNEST_NUM_THREADS=1 gathernest demo"""


class Text(NamedTuple):
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
    _ = knobs.num_threads  # a value that cannot be read is an error before the work, not after it
    text = read_standard_library()
    table = np.random.default_rng(0).standard_normal((len(text.words), WIDTH), dtype=np.float32)
    batch = _batch(text, options.sequences)
    start = time.perf_counter()
    with progress("compiling"):
        kernel = compile_gather("gather", table, batch)
    compiled_s = time.perf_counter() - start
    expected = np.take(table, batch, axis=0)
    result = kernel(table, batch)
    same = result.shape == expected.shape and first_difference(result, expected) is None
    facts = {
        "files": text.files,
        "text_bytes": text.size_bytes,
        "tokens": len(text.ids),
        "vocabulary": len(text.words),
        "table": list(table.shape),
        "indices": list(batch.shape),
        "bytes_moved": batch.nbytes + 2 * expected.nbytes,
        "compiled_s": round(compiled_s, 3),
        "same_bytes": same,
        "rounds": options.rounds,
        "median_ms": measure(kernel, table, batch, expected, options.rounds) if same else {},
    }
    answer(options.json, facts, lambda: _print(make_console(), facts, kernel, text, batch))
    return DONE if same else FAILED


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


def _batch(text: Text, sequences: int) -> np.ndarray:
    """Return the ids of sequences picked from all over the text, as in training: (sequences, 512) int64."""
    whole = len(text.ids) // SEQUENCE
    if sequences > whole:
        raise GathernestError(f"the text has {whole} sequences of {SEQUENCE} tokens, got --sequences {sequences}")
    picked = np.random.default_rng(1).permutation(whole)[:sequences]
    return text.ids[: whole * SEQUENCE].reshape(whole, SEQUENCE)[picked]


def measure(
    kernel: "Kernel", table: np.ndarray, batch: np.ndarray, out: np.ndarray, rounds: int
) -> dict[str, dict[str, float]]:
    """Return medians in milliseconds of interleaved rounds, by who and by whether the call allocates the result."""
    calls = {
        "gathernest allocated_ms": lambda: kernel(table, batch),
        "gathernest out_given_ms": lambda: kernel(table, batch, out),
        "numpy.take allocated_ms": lambda: np.take(table, batch, axis=0),
        "numpy.take out_given_ms": lambda: np.take(table, batch, axis=0, out=out, mode="clip"),
    }
    with progress("timing"):
        timings = time_interleaved(calls, rounds=rounds)
    found: dict[str, dict[str, float]] = {}
    for name in calls:
        who, kind = name.split()
        found.setdefault(who, {})[kind] = round(1e3 * timings.median_s(name), 3)
    return found


def _print(console: "Console", facts: dict[str, Any], kernel: "Kernel", text: Text, batch: np.ndarray) -> None:
    from ...kernels.runtime.compile import run_stages
    from ...kernels.runtime.launch import available_threads
    from ...kernels.runtime.plan import make_plan

    words = " ".join(text.words[number] for number in batch[0, :9])[:40]
    console.print("Looking up the words of Python's standard library", style="bold")
    rows = [
        ("  text", f"{text.files} source files, {text.size_bytes / 1e6:.1f} MB"),
        ("  tokens", f"{len(text.ids):,}, of {len(text.words):,} kinds, each with {WIDTH} random float32"),
        ("  batch", f"{len(batch)} sequence{'s' * (len(batch) != 1)} of {SEQUENCE} tokens; the first begins: {words}"),
    ]
    print_table(console, ("", ""), rows)
    stages = {stage.pass_name: stage for stage in run_stages(make_plan(kernel.problem, kernel.schedule))}
    operator = next(line.strip() for line in stages["operator"].text.splitlines() if "= gather." in line)
    _print_lines(console, "The operator", [operator])
    for title, name in (("Its loop nest", "lower-to-nest"), ("The nest, scheduled", SCHEDULED_NEST)):
        _print_lines(console, title, (draw(stages[name]) or "").splitlines())
    functions = [part for part in kernel.source.split("\n\n\n") if _STORE.search(part) and "def " in part]
    lines = [line for line in "".join(functions[:1]).splitlines() if not line.startswith("@")]
    _print_lines(console, "The code that copies a tile, as Numba compiles it", lines)
    console.print("\nThe result", style="bold")
    shape = f"{len(batch)}x{SEQUENCE}x{WIDTH}xf32"
    if not facts["same_bytes"]:
        console.print(f"  {shape}, and NOT what numpy.take gives; please report this", style="bold red")
        return
    moved = facts["bytes_moved"]
    rows = [
        ("  kernel", f"{facts['compiled_s']:.2f} s, from the cache or compiled"),
        ("  result", f"{shape}, byte for byte what numpy.take gives"),
        ("  moved", f"{moved / 2**20:.0f} MiB a look-up: indices and rows read, result written"),
    ]
    print_table(console, ("", ""), rows)
    console.print(f"\nMedians of {facts['rounds']} interleaved rounds, on {available_threads()} threads", style="bold")
    times = [
        (f"  {name}", *(f"{ms:.1f} ms {moved / ms / 1e6:6.1f} GB/s" for ms in measured.values()))
        for name, measured in facts["median_ms"].items()
    ]
    print_table(console, ("", ">    result allocated", ">          out= given"), times)
    remark = "numpy.take has one thread; with out= it runs in mode='clip', without a buffer."
    console.print(f"  {remark}", style="dim")


def _print_lines(console: "Console", title: str, lines: list[str]) -> None:
    console.print(f"\n{title}", style="bold")
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wrapped = textwrap.fill(line.strip(), MOST_COLUMNS, initial_indent=indent, subsequent_indent=f"{indent}    ")
        console.print(wrapped)
