"""Random rows of a large table on a cluster of this machine, beside dask's own ways; and with a worker that dies.

Needs the extra `dask`.

    python examples/cluster.py --gib 4 --rows 1000000 --rounds 5

Each way is timed in turn, after all have given the same bytes. Memory is what a worker process has for itself at its
peak (`RssAnon`), beyond what it had before: pages of the mapped file are the system's.
"""

import argparse
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import gathernest as gn

COLUMNS = 256


class Table:
    """A file of rows of float32 that any worker opens by its path; dask asks it for one chunk at a time."""

    dtype, ndim = np.dtype(np.float32), 2

    def __init__(self, path: Path, rows: int):
        self.path, self.shape = path, (rows, COLUMNS)

    def __getitem__(self, place: tuple[slice, ...]) -> np.ndarray:
        return np.memmap(self.path, self.dtype, "r", shape=self.shape)[place]


def ways(table: da.Array, indices: np.ndarray) -> dict[str, Callable[[], da.Array]]:
    """Return the ways to take rows; the last two by indices of dask."""
    lazy = da.from_array(indices, chunks=1 << 17)
    return {
        "gathernest": lambda: gn.gather(table, indices),
        "da.take": lambda: da.take(table, indices, axis=0),
        "vindex": lambda: table.vindex[indices],
        "gathernest, dask indices": lambda: gn.gather(table, lazy),
        "table[dask indices]": lambda: table[lazy],
    }


def seen(rows: da.Array) -> da.Array:
    """Return a few columns of every block of a result, so that it is made and need not be kept."""
    return rows.map_blocks(
        lambda block: block[:, ::64].copy(), dtype=rows.dtype, chunks=(rows.chunks[0], (COLUMNS // 64,))
    )


@contextmanager
def peak_memory(pids: list[int]) -> Iterator[Callable[[], int]]:
    """Watch the memory that processes have for themselves; the value is the largest growth of one in bytes."""

    def own_bytes(pid: int) -> int:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024
        return 0

    before, most, is_over = {pid: own_bytes(pid) for pid in pids}, [0], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.01):
            most[0] = max(most[0], *(own_bytes(pid) - before[pid] for pid in pids))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: most[0]
    finally:
        is_over.set()
        thread.join()


def compare(client: Client, table: da.Array, indices: np.ndarray, rounds: int) -> None:
    """Print for every way the size of its graph, its time, its memory, and its time in those of gathernest."""
    wanted = table.source[:, ::64][indices]
    pids = [info["pid"] for info in client.run(lambda: {"pid": os.getpid()}).values()]
    made = {name: seen(way()) for name, way in ways(table, indices).items()}
    for name, lazy in made.items():
        assert np.asarray(lazy.compute()).tobytes() == wanted.tobytes(), name
    times: dict[str, list[float]] = {name: [] for name in made}
    memory = dict.fromkeys(made, 0)
    for _ in range(rounds):
        for name, lazy in made.items():
            with peak_memory(pids) as most:
                start = time.perf_counter()
                lazy.compute()
                times[name].append(time.perf_counter() - start)
            memory[name] = max(memory[name], most())
    for name, lazy in made.items():
        base = "gathernest, dask indices" if "dask" in name else "gathernest"
        ratio = statistics.median(own / ours for own, ours in zip(times[name], times[base], strict=True))
        tasks = len(dict(dask.optimize(lazy)[0].__dask_graph__()))
        print(
            f"  {name:26} {tasks:6} tasks  {min(times[name]):7.2f} s  {ratio:5.2f} times ours  "
            f"{memory[name] / 2**20:6.0f} MiB a worker"
        )


def tasks_done(dask_scheduler: Any) -> int:
    """Return how many tasks a scheduler has the results of."""
    return sum(task.state == "memory" for task in dask_scheduler.tasks.values())


def survive(table: da.Array, indices: np.ndarray) -> None:
    """Kill a worker in the middle of a gather, of a gradient and of sums of bags, and compare the bytes."""
    grad = da.ones((len(indices), COLUMNS), chunks=(len(indices) // 16, COLUMNS), dtype=np.float32)
    for name, lazy in {
        "gather": seen(gn.gather(table, indices)),
        "gradient": gn.gather_grad(grad, indices, table.shape).sum(axis=1),
        "sums of bags": seen(gn.gather_reduce(table, indices[: len(indices) // 4 * 4].reshape(-1, 4))),
    }.items():
        wanted = lazy.compute(scheduler="threads")
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            killed, left = (worker.pid for worker in cluster.workers.values())
            with peak_memory([left]) as most:
                future = client.compute(lazy)
                while not future.done() and client.run_on_scheduler(tasks_done) < 4:
                    time.sleep(0.01)
                state = "too late" if future.done() else "in the middle"
                os.kill(killed, signal.SIGKILL)
                got = future.result()
            memory = most() / 2**20
        bytes_are = "the same bytes" if got.tobytes() == wanted.tobytes() else "WRONG"
        print(f"  {name}: a worker was killed {state}; {bytes_are}; the other had {memory:.0f} MiB at its peak")


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=1 / 16, help="size of the table (default %(default)s)")
    parser.add_argument("--rows", type=int, default=10_000, help="how many random rows (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each way is timed (default %(default)s)")
    parser.add_argument("--chunk", type=int, default=1 << 17, help="rows of a chunk (default %(default)s: 128 MiB)")
    parser.add_argument("--on", choices=["processes", "threads"], help="workers of one kind (default: of both)")
    parser.add_argument("--kill", action="store_true", help="kill a worker in place of timing")
    options = parser.parse_args()
    count = int(options.gib * 2**30) // (4 * COLUMNS)
    indices = np.random.default_rng(0).integers(0, count, options.rows)
    with tempfile.TemporaryDirectory() as folder:
        source = Table(Path(folder) / "table.f32", count)
        with source.path.open("wb") as stream:
            for start in range(0, count, 1 << 16):
                rows = np.arange(start, min(start + (1 << 16), count), dtype=np.float32)
                np.repeat(rows, COLUMNS).reshape(-1, COLUMNS).tofile(stream)
        table = da.from_array(source, chunks=(min(options.chunk, max(count // 4, 1)), COLUMNS))
        table.source = source
        if options.kill:
            return survive(table, indices)
        for kind, workers in {"processes": (2, 1), "threads": (1, 2)}.items():
            if options.on not in (None, kind):
                continue
            with (
                LocalCluster(
                    n_workers=workers[0], threads_per_worker=workers[1], processes=kind == "processes",
                    memory_limit=None, dashboard_address=None,
                ) as cluster,
                Client(cluster) as client,
            ):  # fmt: skip
                print(f"{options.rows} rows of {options.gib:g} GiB on a LocalCluster of 2 {kind}:")
                compare(client, table, indices, options.rounds)


if __name__ == "__main__":
    main()
