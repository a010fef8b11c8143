"""`gathernest demo`: the embeddings of real text, looked up by a compiled gather and checked against NumPy."""

import json
import re
import statistics
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..kernels.kernel import Kernel, compile
from .show import nest_picture

WIDTH = 384
MOST_TOKENS = 100_000
TOKEN = re.compile(r"[A-Za-z_]\w*|\d+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians in milliseconds of interleaved rounds, and what was moved."""

    tokens: int
    vocabulary: int
    bytes_moved: int
    gathernest_ms: float
    numpy_ms: float
    gathernest_out_ms: float
    numpy_out_ms: float


def run_demo(rounds: int, *, as_json: bool) -> int:
    """Run the demo; return 1 when the bytes differ."""
    say = _say_nothing if as_json else print
    say("Reading the source text of Python's standard library ...")
    tokens, vocabulary = tokenize(MOST_TOKENS)
    table = np.random.default_rng(0).standard_normal((len(vocabulary), WIDTH), dtype=np.float32)
    common = ", ".join(repr(word) for word in vocabulary[:8])
    say(f"  {len(tokens):,} tokens, {len(vocabulary):,} different; the most common: {common}\n")

    say("Compiling the look-up (kept in the cache for next time) ...")
    start = time.perf_counter()
    kernel = compile("gather", table, tokens)
    say(f"  {time.perf_counter() - start:.2f} s\n")
    if not as_json:
        print_stages(kernel)

    found, expected = kernel(table, tokens), np.take(table, tokens, axis=0)
    same = found.tobytes() == expected.tobytes()
    say(f"== result\n\n{found.shape} {found.dtype}; byte for byte what numpy.take gives: {'yes' if same else 'NO'}")
    measured = measure(kernel, table, tokens, found, rounds)
    if as_json:
        print(json.dumps({"same_bytes": same, **asdict(measured)}))
    else:
        print_times(measured, rounds)
    return 0 if same else 1


def _say_nothing(*_: object) -> None:
    pass


def tokenize(most: int) -> tuple[np.ndarray, list[str]]:
    """Return token ids, (at most `most`,) int64, of the standard library's source, and the words by their ids."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    words: list[str] = []
    for path in sorted(folder.glob("*.py")):
        words += TOKEN.findall(path.read_text(encoding="utf-8", errors="replace"))
        if len(words) >= most:
            break
    words = words[:most]
    vocabulary = [word for word, _ in Counter(words).most_common()]
    numbers = {word: number for number, word in enumerate(vocabulary)}
    return np.array([numbers[word] for word in words], np.int64), vocabulary


def print_stages(kernel: Kernel) -> None:
    """Print the way from the operator to the source, in short."""
    stages = kernel.stages
    operator = next(line.strip() for line in stages["operator"].splitlines() if "gather.gather" in line)
    head, _, types = operator.partition(" : ")
    print(f"== the operator\n\n{head}\n    : {types}\n")
    print(f"== its nest\n\n{nest_picture(stages['drop-unit-loops'])}")
    print(f"== the nest, scheduled\n\n{nest_picture(stages['hoist-invariants'])}")
    print(
        f"== the source that Numba compiled (in short; all of it: gathernest show ... --stage source)\n\n{_tile(kernel.source)}"
    )


def _tile(source: str) -> str:
    """Return the function that copies one tile."""
    start = source.index("def copy_tile")
    return source[start : source.index("\n\n", start)] + "\n"


def measure(kernel: Kernel, table: np.ndarray, tokens: np.ndarray, out: np.ndarray, rounds: int) -> Measured:
    """Time both, with and without an output given, round by round in turn."""
    calls: dict[str, Callable[[], object]] = {
        "gathernest_ms": lambda: kernel(table, tokens),
        "numpy_ms": lambda: np.take(table, tokens, axis=0),
        "gathernest_out_ms": lambda: kernel(table, tokens, out),
        "numpy_out_ms": lambda: np.take(table, tokens, axis=0, out=out, mode="clip"),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - start) * 1e3)
        _progress(number + 1, rounds)
    medians = {name: statistics.median(measured) for name, measured in times.items()}
    return Measured(len(tokens), len(table), 2 * out.nbytes + tokens.nbytes, **medians)


def _progress(done: int, of: int) -> None:
    """Draw a bar on a terminal, and nothing elsewhere."""
    if sys.stderr.isatty():
        print(
            f"\r  timing [{'#' * done}{'.' * (of - done)}]",
            end="" if done < of else "\r\x1b[K",
            file=sys.stderr,
            flush=True,
        )


def print_times(measured: Measured, rounds: int) -> None:
    """Print the times beside NumPy's, and the bytes moved."""
    print(f"\n== time, medians of {rounds} interleaved rounds\n")
    print("                        gathernest   numpy.take")
    for title, ours, theirs in (
        ("result allocated", measured.gathernest_ms, measured.numpy_ms),
        ("out= given", measured.gathernest_out_ms, measured.numpy_out_ms),
    ):
        print(f"  {title:<20} {ours:>8.2f} ms  {theirs:>8.2f} ms   {theirs / ours:.2f} times as fast")
    rate = measured.bytes_moved / measured.gathernest_out_ms / 1e6
    print(
        f"\n  bytes moved: {measured.bytes_moved / 1e6:,.1f} MB (rows read and written, indices read), {rate:.1f} GB/s"
    )
    print("  numpy.take runs on one thread; with out= it is given mode='clip', where it does not buffer.")
