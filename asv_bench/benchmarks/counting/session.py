"""A fixed session of gathers, in a process of its own: prints what it compiled, allocated and imported as JSON.

With the word "modules" it only imports and gathers.
Only public functions of gathernest are used, so that it runs with any commit.
"""

import collections
import gc
import json
import re
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from .. import cases
from .generic_cpu import be_generic

# Kernels of every operator and of the schedules that differ most.
KERNELS = (
    "rows-256B",
    "scalars-256KB-table",
    "last-axis",
    "few-batches-scalars",
    "nd-pairs-rows",
    "elements-middle-axis",
    "gradient-rows-256B",
)
OPERATION = re.compile(r'^\s*(?:[%\w:, ]+ = )?"?[a-z_]+\.[\w.]+', re.MULTILINE)
# A result of less than 32 MB, which NumPy allocates and tracemalloc sees, and one of more, which gathernest maps.
MIDDLE, LARGE = (100_000, 64), (250_000, 64)
# The calls between passes: of the pass manager and the code generator.
OUTSIDE = "between passes"


def count(gn: Any) -> dict[str, Any]:
    """Return the counts by name."""
    memory = {name: traced(call) for name, call in allocating(gn).items()} | {"gather large": resident(large(gn))}
    return compiling(gn) | {"memory": memory, "launch": {"two threads": launching(gn)}}


def compiling(gn: Any) -> dict[str, dict[str, int]]:
    """Return the Python calls of passes, the operations after each, and the lines of the source, over the kernels.

    The kernels are not compiled, so that their source is made as in a first call: the passes run once, and nothing is
    printed or verified between them.
    """
    found: dict[str, dict[str, int]] = {"calls": {}, "operations": {}, "source_lines": {}}
    for name in KERNELS:
        case = cases.BY_NAME[name]
        with gn.knobs.scope(interpret=True):
            kernel = cases.compiled(case, case.make(sets=1, zeros=True), gn)
        _ = kernel.source  # fills the caches of the process
        calls, source = by_pass(lambda kernel=kernel: kernel.source)
        found["source_lines"][name] = len(source.splitlines())
        _add(found["calls"], calls)
        _add(
            found["operations"],
            {stage.partition("#")[0]: len(OPERATION.findall(text)) for stage, text in kernel.stages.items()},
        )
    return found


def launching(gn: Any) -> int:
    """Return the Python functions that a call of a kernel calls when it shares its work between two threads."""
    case = cases.BY_NAME["rows-256B"]
    with gn.knobs.scope(num_threads=2):
        call = cases.bind(case, case.make(sets=1, zeros=True), gn)
        for _ in range(3):  # the second like call is stored in the call cache, and found from the third on
            call()
        return sum(by_pass(call)[0].values())


def by_pass(call: Any) -> tuple[dict[str, int], Any]:
    """Return how many Python functions each pass called, by its name, and what the call returned.

    A pass is a method `apply` of an xDSL `ModulePass`; what runs between them is under `OUTSIDE`.
    """
    from xdsl.passes import ModulePass

    calls: dict[str, int] = collections.defaultdict(int)
    inside: list[tuple[Any, str]] = []

    def see(frame: Any, event: str, _argument: Any) -> None:
        if event == "call":
            if frame.f_code.co_name == "apply" and isinstance(one := frame.f_locals.get("self"), ModulePass):
                inside.append((frame, one.name))
            # xDSL searches frozensets of traits, whose order is that of addresses, here and in generator expressions.
            in_search = frame.f_back is not None and frame.f_back.f_code.co_name == "get_trait"
            if not in_search and frame.f_code.co_name != "<genexpr>":
                calls[inside[-1][1] if inside else OUTSIDE] += 1
        elif event == "return" and inside and frame is inside[-1][0]:
            inside.pop()

    gc.disable()
    sys.setprofile(see)
    try:
        returned = call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return dict(calls), returned


def allocating(gn: Any) -> dict[str, Any]:
    """Return calls by name; each returns its result."""
    rng = np.random.default_rng(0)
    table, elements = np.zeros(MIDDLE, np.float32), np.zeros((2000, 1000), np.float32)
    rows, tuples = rng.integers(0, MIDDLE[0], MIDDLE[0]), rng.integers(0, 500, (MIDDLE[0], 1))
    narrow = rows.astype(np.int32)
    out, picks = np.zeros(MIDDLE, np.float32), rng.integers(0, 2000, elements.shape)
    return {
        "gather": lambda: gn.gather(table, rows),
        "gather int32 indices": lambda: gn.gather(table, narrow),
        "gather strided table": lambda: gn.gather(table[::2], rows // 2),
        "gather last axis": lambda: gn.gather(elements, picks[0] // 2, 1),
        "gather out": lambda: gn.gather(table, rows, out=out),
        "gather_nd": lambda: gn.gather_nd(table, tuples),
        "gather_elements": lambda: gn.gather_elements(elements, picks),
        "gather_grad": lambda: gn.gather_grad(table, rows, MIDDLE),
    }


def large(gn: Any) -> Any:
    """Return a call whose result is so large that gathernest maps its memory; its kernel is compiled."""
    table, rows = np.zeros(LARGE, np.float32), np.random.default_rng(0).integers(0, LARGE[0], LARGE[0])
    gn.compile("gather", table, rows)
    return lambda: gn.gather(table, rows)


def resident(call: Any) -> float:
    """Return the growth of the peak resident memory in a first call over the bytes of its result, in tenths.

    NaN where the system does not tell it.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")  # makes the peak the memory of now
    except OSError:
        return float("nan")
    before = _resident_kib("VmRSS")
    result = call()
    return round((_resident_kib("VmHWM") - before) * 1024 / result.nbytes, 1)


def _resident_kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def traced(call: Any) -> float:
    """Return the peak of traced memory of calls over the bytes of the result, in hundredths.

    The second call is stored in the call cache, and those from the third on are found there; they differ in what runs.
    """
    call()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    result = call()
    for _ in range(2):
        del result
        result = call()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    gc.enable()
    return round(peak / result.nbytes, 2)


def cached(folder: Path) -> dict[str, int]:
    """Return how many kernels a cache folder has, and its bytes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        "kernels": len({path.parent for path in files if path.suffix == ".py"}),
        "bytes": sum(path.stat().st_size for path in files),
    }


def modules() -> dict[str, int]:
    """Return how many modules are imported by `import gathernest`, and by it and a gather whose kernel is cached."""
    before = set(sys.modules)
    import gathernest as gn

    imported = set(sys.modules) - before
    gn.gather(np.zeros((5, 4), np.float32), np.array([0, 4, 2]))
    return {"import": len(imported), "first gather": len(set(sys.modules) - before)}


def _add(sums: dict[str, int], more: dict[str, int]) -> None:
    for name, number in more.items():
        sums[name] = sums.get(name, 0) + number


if __name__ == "__main__":
    if sys.argv[1:] == ["modules"]:
        print(json.dumps(modules()))
    else:
        be_generic()
        import gathernest

        from .instructions import regions

        for region in regions(gathernest).values():  # valgrind finds every kernel in the cache
            region()
        print(json.dumps(count(gathernest)))
