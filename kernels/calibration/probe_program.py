"""The loops whose times become numbers of the machine model, as one program that Numba compiles. Plain Python.

They are written as the backend writes kernels, with the same operations, so that what is measured is what runs. All are
one program: it is compiled once, in two seconds, and then comes from the disk cache.
"""

import hashlib

from ...lowering.numba.program import Program
from ..runtime.disk_cache import Loaded, load_kernel

# The rows that are copied, in bytes, and the vectors that they are copied in.
ROWS_BYTES, VECTORS_BYTES = (64, 256), (16, 32, 64)
# How many rows of 64 bytes ahead are prefetched into the first cache.
NEAR_ROWS = (4, 8, 16, 32)
LONG_ROW_BYTES = 4096
# The stores of rows of 256 bytes from random places of memory that are written to memory.
ROW_STORES = {"rows, cached stores": False, "rows, non-temporal stores": True}
# Whether the prefetches of rows of 256 bytes that are summed have a loop of their own in front of `FISSIONED` rows.
SUMMED_ROWS = {"summed rows, interleaved": False, "summed rows, fissioned": True}
FISSIONED, SUMMED_AHEAD = 32, 64
# How elements at random places are prefetched, so many ahead and with which locality, and whether stores are
# non-temporal.
ELEMENTS = {
    "elements alone": (0, 0, False),
    "elements near": (128, 3, False),
    "elements far": (256, 2, False),
    "elements near, streamed": (128, 3, True),
}


def probe_names() -> tuple[str, ...]:
    """Return the names of the loops; the place of one is its number, which the program takes first."""
    return tuple(_loops())


def load_probes() -> Loaded:
    """Return the program, compiled: `entry(loop, data, indices, out, count, size, repeats, 0)` runs a loop.

    The arguments are addresses, how many iterations, and a size whose meaning is the loop's.
    """
    source = _source()
    key = f"probes of the calibration {hashlib.sha256(source.encode()).hexdigest()[:16]}"
    return load_kernel(key, "", lambda: Program(source, (), {}))


def _loops() -> dict[str, str]:
    """Return the body of each loop, by name."""
    rows = {f"rows {size} by {vector}": _rows(size, vector) for size in ROWS_BYTES for vector in VECTORS_BYTES}
    return {
        "latency": _LATENCY,
        "check": _CHECK,
        "scalars": _scalars(0, 0, False),
        "gathered scalars": _GATHERED_SCALARS,
        "lane loads": _lanes(8),
        "wide lane loads": _lanes(16),
        **rows,
        **{f"near {ahead}": _rows(64, 32, near=ahead) for ahead in NEAR_ROWS},
        **{name: _rows(256, 32, 8, far=32, streams=streams) for name, streams in ROW_STORES.items()},
        **{name: _summed(fissions) for name, fissions in SUMMED_ROWS.items()},
        **{name: _scalars(*how) for name, how in ELEMENTS.items()},
        "stream by 32": _streamed(32),
        "stream by 64": _streamed(64),
    }


# Each place follows from the one before and from what it holds, a multiple of two lines, so that a load waits for the
# load before. With an odd constant and a factor of 4 k + 1 every line of a table, a power of two of them, has its turn.
# `size` is the table's; `indices` is the first place, and the next one is returned.
_LATENCY = """
    place = indices
    for at in range(count):
        place = (place * 2862933555777941757 + 64 * 3037000493 + load_i64(data, place)) & (size - 64)
    return place
"""

_CHECK = """
    outside = 0
    for at in range(count):
        index = load_i64(indices, 8 * at)
        outside += zext(uge(index + (size & (index >> 63)), size))
    return outside
"""


def _scalars(ahead: int, locality: int, streams: bool) -> str:
    """Return a gather of elements of 4 bytes, 8 at a time, by indices of 8 bytes that may be negative."""
    lines = ["for at in range(0, count, 8):"]
    for lane in range(8):
        if ahead:
            lines.append(f"    prefetch_{locality}(data, 4 * load_i64(indices, 8 * at + {8 * (lane + ahead)}))")
        lines.append(f"    i{lane} = load_i64(indices, 8 * at + {8 * lane})")
        lines.append(f"    e{lane} = load_i32(data, 4 * clamp(wrap(i{lane}, size), size))")
    store = "stream" if streams else "store"
    lines.append(f"    {store}_v8xi32(out, 4 * at, join_v8xi32(e0, e1, e2, e3, e4, e5, e6, e7))")
    return "\n" + "\n".join("    " + line for line in lines) + "\n    return 0\n"


# The same by gather instructions, as `gather-lanes` has it printed.
_GATHERED_SCALARS = """
    for at in range(0, count, 8):
        lanes = load_v8xi64(indices, 8 * at)
        wrapped = wrap_v8xi64(lanes, broadcast_v8xi64(size))
        inside = ult_v8xi64(wrapped, broadcast_v8xi64(size))
        store_v8xi32(out, 4 * at, gather_inside_v8xi32(data, wrapped, inside))
    return 0
"""


def _lanes(lanes: int) -> str:
    """Return a gather of elements of 4 bytes, a vector at a time, by staged indices of 4 bytes."""
    kind = f"v{lanes}xi32"
    loads = [f"load_i32(data, 4 * load_i32(indices, 4 * at + {4 * lane}))" for lane in range(lanes)]
    return f"""
    for at in range(0, count, {lanes}):
        store_{kind}(out, 4 * at, join_{kind}({", ".join(loads)}))
    return 0
"""


def _rows(row_bytes: int, vector_bytes: int, near: int = 0, far: int = 0, *, streams: bool = False) -> str:
    """Return a gather of rows by indices of 8 bytes that may be negative, prefetched `near` and `far` rows ahead."""
    prefetches = "\n".join(
        f"        prefetch_{locality}(data, {row_bytes} * load_i64(indices, 8 * at + {8 * ahead}) + {line})"
        for locality, ahead in ((2, far), (3, near))
        if ahead
        for line in range(0, row_bytes, 64)
    )
    store, kind = "stream" if streams else "store", f"v{vector_bytes // 4}xi32"
    copies = "\n".join(
        f"        {store}_{kind}(out, {row_bytes} * at + {at}, load_{kind}(data, place + {at}))"
        for at in range(0, row_bytes, vector_bytes)
    )
    return f"""
    for at in range(count):
{prefetches}
        index = load_i64(indices, 8 * at)
        place = {row_bytes} * clamp(wrap(index, size), size)
{copies}
    return 0
"""


def _summed(fissions: bool) -> str:
    """Return a sum of rows of 256 bytes, `FISSIONED` by `FISSIONED`; each of these sums is written."""
    prefetches = [
        f"prefetch_2(data, 256 * load_i64(indices, 8 * at + {8 * SUMMED_AHEAD}) + {line})" for line in range(0, 256, 64)
    ]
    adds = [
        "place = 256 * load_i64(indices, 8 * at)",
        *(f"s{at} = addi_v8xi64(s{at}, load_v8xi64(data, place + {64 * at}))" for at in range(4)),
    ]
    bodies = [prefetches, adds] if fissions else [prefetches + adds]
    lines = [f"for first in range(0, count, {FISSIONED}):"]
    lines += [f"    s{at} = broadcast_v8xi64(0)" for at in range(4)]
    for body in bodies:
        lines += [f"    for at in range(first, first + {FISSIONED}):", *(f"        {line}" for line in body)]
    lines += [f"    store_v8xi64(out, {64 * at}, s{at})" for at in range(4)]
    return "\n" + "\n".join("    " + line for line in lines) + "\n    return 0\n"


def _streamed(vector_bytes: int) -> str:
    """Return a loop that writes rows with non-temporal stores; `size` is that of what they are read from."""
    kind = f"v{vector_bytes // 4}xi32"
    return f"""
    for at in range(0, {LONG_ROW_BYTES} * count, {vector_bytes}):
        stream_{kind}(out, at, load_{kind}(data, at & (size - 1)))
    return 0
"""


def _source() -> str:
    """Return the text of the module; the last function takes the number of a loop."""
    loops = list(_loops().values())
    functions = "\n".join(
        f'@njit(nogil=True, error_model="numpy")\ndef loop_{number}(data, indices, out, count, size):{body}\n'
        for number, body in enumerate(loops)
    )
    calls = "\n".join(
        f"        {'if' if number == 0 else 'elif'} loop == {number}:\n"
        f"            found += loop_{number}(data, indices, out, count, size)"
        for number in range(len(loops))
    )
    kinds = ("v4xi32", "v8xi32", "v16xi32")
    vectors = [f"{operation}_{kind}" for operation in ("join", "load", "store", "stream") for kind in kinds]
    vectors += ["gather_inside_v8xi32"]
    vectors += [f"{operation}_v8xi64" for operation in ("addi", "broadcast", "load", "store", "ult", "wrap")]
    return f"""from numba import int64, njit

from gathernest.lowering.numba.intrinsics import clamp, load_i32, load_i64, uge, wrap, zext
from gathernest.lowering.numba.vector_intrinsics import {", ".join(vectors)}, prefetch_2, prefetch_3


{functions}

signature = int64({", ".join(["int64"] * 8)})


@njit(nogil=True, error_model="numpy")
def gather(loop, data, indices, out, count, size, repeats, team):
    found = 0
    for _ in range(repeats):
{calls}
    return found
"""
