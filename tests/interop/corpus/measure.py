"""Time models of the corpus beside their runtime alone: `python -m tests.interop.corpus.measure FOLDER [NAME ...]`.

    --exporter script|dynamo|openvino   which exports to measure (default: script)
    --scales 1 16 512                   the batches, as multiples of 4
    --json FILE                         write the rows there, too

The models are written into FOLDER first, with tables of 100,000 rows. Each is called until it has decided where its
gathers run, and its bytes are compared. Then both ways take turns in one process. A turn begins with a pause, since
threads of the other session wait for more work in a loop, and with a call that is not timed, since caches hold the
other way's data. The ratios are the runtime's median time over ours, and its least time over ours: above 1, ours is
faster. Needs torch and what `write.py` needs.
"""

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

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


def measure(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the medians of both ways in microseconds, their ratio, and how many gathers run here."""
    model, theirs = gn.load(path), open_runtime(path)
    wanted = theirs(inputs)
    end = time.perf_counter() + BUDGET_S
    found = model.run(inputs)
    while model.plan.is_trial and time.perf_counter() < end:
        found = model.run(inputs)
    has_same_bytes = [ours.tobytes() for ours in found.values()] == [array.tobytes() for array in wanted]
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
    ours_us, theirs_us = map(statistics.median, times)
    here = sum(entry.is_here for entry in model.plan)
    return {
        "ours_us": ours_us,
        "runtime_us": theirs_us,
        "ratio": theirs_us / ours_us,
        "least_ratio": min(times[1]) / min(times[0]),
        "here": here,
        "is_trial": model.plan.is_trial,
        "same_bytes": has_same_bytes,
    }


def main() -> None:
    """Print a row for each model, and the geometric mean of each scale."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--exporter", choices=write.EXPORTERS, default="script")
    parser.add_argument("--scales", type=int, nargs="+", default=(1, 16, 512))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows = []
    for file, reason in write.write(options.folder, options.names, [options.exporter], ROWS):
        if reason:
            print(f"{file}: not exported: {reason}")
            continue
        name = file.partition(".")[0]
        for scale in options.scales:
            inputs = CASES[name].inputs(np.random.default_rng(0), BATCH * scale, ROWS)
            row = {"model": file, "scale": scale, **measure(options.folder / file, inputs)}
            rows.append(row)
            times = f"{row['ours_us']:>12,.1f}{row['runtime_us']:>12,.1f}"
            text = f"{times}{row['ratio']:>7.2f}{row['least_ratio']:>7.2f}{row['here']:>3} here"
            remarks = ("" if row["same_bytes"] else "  OTHER BYTES") + ("  in trial" if row["is_trial"] else "")
            print(f"{file:<30}{scale:>5}{text}{remarks}", flush=True)
    for scale in options.scales:
        for key in ("ratio", "least_ratio"):
            ratios = [row[key] for row in rows if row["scale"] == scale]
            mean = statistics.geometric_mean(ratios)
            print(f"scale {scale}, {key}: geometric mean {mean:.3f}, lowest {min(ratios):.3f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
