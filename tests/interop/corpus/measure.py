"""Time models of the corpus beside their runtime alone: `python -m tests.interop.corpus.measure FOLDER [NAME ...]`.

    --exporter script|dynamo|openvino   which exports to measure (default: script)
    --scales 1 16 512                   the batches, as multiples of 4

The models are written into FOLDER first, with tables of 100,000 rows. Each is called until it has decided where its
gathers run, and its bytes are compared. Then both ways take turns in one process. A turn begins with a pause, since
threads of the other session wait for more work in a loop, and with a call that is not timed, since caches hold the
other way's data. The ratios are the runtime's median time over ours, and its least time over ours: above 1, ours is
faster. Needs torch and what `write.py` needs.
"""

import argparse
import statistics
import time
import warnings
from pathlib import Path

import numpy as np

import gathernest as gn

from ..cutting import open_runtime
from . import write
from .torch_models import CASES

BATCH, ROWS = 4, 100_000
CALLS, TURNS, BUDGET_S, PAUSE_S = 3, 9, 6.0, 0.1
# One export of each kind of model.
NAMES = (
    *("bert", "roberta", "gpt_cache", "rope", "relative_bias", "tied_norm", "last_state"),
    *("dlrm_sum", "dlrm_mean", "dlrm_even_sum", "rows_then_sum", "hash_embedding", "two_towers", "columns"),
    *("quantised_rows", "half_table", "graph_convolution", "graph_attention", "beam_step", "experts", "sorted"),
)


def measure(path: Path, inputs: dict[str, np.ndarray]) -> tuple[str, float, float]:
    """Return a line of text, the ratio of the medians, and that of the least times."""
    model, theirs = gn.load(path), open_runtime(path)
    wanted, end = theirs(inputs), time.perf_counter() + BUDGET_S
    found = model.run(inputs)
    while model.plan.is_trial and time.perf_counter() < end:
        found = model.run(inputs)
    remark = "" if [each.tobytes() for each in found.values()] == [each.tobytes() for each in wanted] else "OTHER BYTES"
    ways, times = (lambda: model.run(inputs), lambda: theirs(inputs)), ([], [])
    end = time.perf_counter() + BUDGET_S
    for turn in range(TURNS):
        for place in (0, 1) if turn % 2 else (1, 0):
            time.sleep(PAUSE_S)
            ways[place]()
            for _ in range(CALLS):
                start = time.perf_counter_ns()
                ways[place]()
                times[place].append((time.perf_counter_ns() - start) / 1e3)
        if time.perf_counter() > end:
            break
    (ours, ours_least), (whole, whole_least) = ((statistics.median(each), min(each)) for each in times)
    here, ratio, least = sum(entry.is_here for entry in model.plan), whole / ours, whole_least / ours_least
    remark += "  in trial" * model.plan.is_trial
    return f"{ours:>12,.1f}{whole:>12,.1f}{ratio:>7.2f}{least:>7.2f}{here:>3} here  {remark}", ratio, least


def main() -> None:
    """Print a row for each model, and the geometric mean of each scale."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--exporter", choices=write.EXPORTERS, default="script")
    parser.add_argument("--scales", type=int, nargs="+", default=(1, 16, 512))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    ratios = {scale: list[tuple[float, ...]]() for scale in options.scales}
    for file, reason in write.write(options.folder, options.names, [options.exporter], ROWS):
        if reason:
            print(f"{file}: not exported: {reason}")
            continue
        for scale in options.scales:
            inputs = CASES[file.partition(".")[0]].inputs(np.random.default_rng(0), BATCH * scale, ROWS)
            text, *found = measure(options.folder / file, inputs)
            ratios[scale].append(tuple(found))
            print(f"{file:<30}{scale:>5}{text}", flush=True)
    for scale, rows in ratios.items():
        for what, column in zip(("medians", "least times"), zip(*rows, strict=True), strict=True):
            mean = statistics.geometric_mean(column)
            print(f"scale {scale}, ratios of {what}: geometric mean {mean:.3f}, lowest {min(column):.3f}")


if __name__ == "__main__":
    main()
