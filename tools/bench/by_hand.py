"""The peers `c`, `c-fused` and `c-unchecked`: gathers written by hand in C, of which the fastest variant is timed.

`asv_bench/by_hand.c` is compiled for this CPU, kept in the cache folder under a digest of its source, the compiler and
its options, and called by ctypes. C allocates new results with `aligned_alloc`, and asks for huge pages as NumPy does.
The peers differ in when C checks the indices. `c` keeps the promise of gathernest that an index out of range leaves a
given result untouched, so it checks all indices before it writes there. `c-fused` checks each index as it uses it, and
`c-unchecked` checks none.
"""

import ctypes
import hashlib
import itertools
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...ir.errors import GathernestError
from ...kernels.host.cache_folder import cache_folder
from ...kernels.host.cpu import PACKAGE, cpu_model
from ...lowering.programs import c_compiler, run_c_compiler
from ...lowering.schedule.machine_model import LINE_BYTES
from .cases import Case, Inputs
from .peers import Call, Peer, Variants

SOURCE = PACKAGE / "asv_bench" / "by_hand.c"
OPTIONS = ("-O3", "-march=native", "-pthread", "-shared", "-fPIC")
# The names of the file's enumerations, in its order.
SCALAR_KERNELS: tuple[str, ...] = ("loop", "words", "8 lanes", "16 lanes")
ROW_KERNELS: tuple[str, ...] = ("memcpy", "16 B vectors", "32 B vectors", "64 B vectors")
KERNELS = SCALAR_KERNELS + ROW_KERNELS
CHECKS = UNCHECKED, SEPARATE, FUSED = "unchecked", "separate check", "fused check"
NEXT = -1
SCALAR_BYTES = (1, 2, 4, 8)
MOST_STAGED, MOST_POSITIONS = 2**18, 2**31


class Sizes(NamedTuple):
    """A gather as the file sees it: numbers of batches, outer slices, indices and positions, and bytes of a row.

    Attributes:
        columns: elements of a row of indices where each has an index of its own, otherwise 0.
    """

    batches: int
    outer: int
    picks: int
    axis: int
    row: int
    columns: int


class Variant(NamedTuple):
    """A way to run a job.

    Attributes:
        kernel: one of `KERNELS`.
        staged: whether the indices of a batch are resolved once, to 32 bits.
        near, far: distances of prefetches into L1 and L2, in indices; 0 for none; `NEXT` for the next table, as is
            the next row of a gather along the last axis.
        stream: non-temporal stores.
        check: one of `CHECKS`.
        fresh: whether each call allocates its result.
    """

    kernel: str
    staged: bool = False
    near: int = 0
    far: int = 0
    stream: bool = False
    threads: int = 1
    check: str = UNCHECKED
    fresh: bool = False

    def __str__(self) -> str:
        parts = [self.kernel, "staged indices" if self.staged else ""]
        parts += ["next table prefetched" if self.near == NEXT else ""]
        parts += [f"{ahead} ahead" if ahead > 0 else "" for ahead in (self.near, self.far)]
        parts += ["streamed" if self.stream else "", self.check if self.check != UNCHECKED else ""]
        return ", ".join([*filter(None, parts), f"{self.threads} thread{'s' if self.threads > 1 else ''}"])


class Job(ctypes.Structure):
    """The file's `Job`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("data", "indices", "out")),
        *((name, ctypes.c_int64) for name in (*Sizes._fields, *Variant._fields)),
    )


def sizes_of(case: Case) -> Sizes | None:
    """Return a case as the file sees it, or None where it has no loop for it."""
    if not case.is_plain or case.operator == "gather_nd" or case.index_dtype != "int64":
        return None
    width, axis = np.dtype(case.dtype).itemsize, case.axis
    if case.operator == "gather":
        batches, outer = math.prod(case.data[: case.batch_dims]), math.prod(case.data[case.batch_dims : axis])
        count, row = math.prod(case.indices[case.batch_dims :]), width * math.prod(case.data[axis + 1 :])
        return Sizes(batches, outer, count, case.data[axis], row, 0)
    others = [(*shape[:axis], *shape[axis + 1 :]) for shape in (case.data, case.indices)]
    columns, batches = math.prod(case.data[axis + 1 :]), math.prod(case.data[:axis])
    if others[0] != others[1] or width not in SCALAR_BYTES or case.data[axis] * columns >= MOST_POSITIONS:
        return None
    return Sizes(batches, 1, case.indices[axis], case.data[axis], width, columns if columns > 1 else 0)


VECTOR_BYTES: dict[str, int] = dict(zip(ROW_KERNELS, (1, 16, 32, 64), strict=True))
# Distances of prefetches: elements, and for rows the bytes that a distance spans and the most rows.
ELEMENTS_AHEAD = (0, 64, 256)
NEAR_BYTES, NEAR_ROWS, FAR_BYTES, FAR_ROWS = 4096, 16, 16_384, 256
STREAMED_FROM_BYTES = 2**20


def _scalar_variants(sizes: Sizes) -> Iterator[Variant]:
    for kernel in SCALAR_KERNELS:
        has_next = sizes.batches * sizes.outer > 1 and not sizes.columns and kernel != "loop"
        yield from (Variant(kernel, near=near) for near in (*ELEMENTS_AHEAD, *((NEXT,) if has_next else ())))
        if sizes.outer > 1 and sizes.picks <= MOST_STAGED:
            yield from (Variant(kernel, staged=True, near=near) for near in ((0, NEXT) if has_next else (0,)))


def _row_variants(sizes: Sizes) -> Iterator[Variant]:
    near = min(NEAR_ROWS, max(1, NEAR_BYTES // sizes.row))
    far = min(FAR_ROWS, max(2, FAR_BYTES // sizes.row))
    for kernel in ROW_KERNELS:
        yield from (Variant(kernel, near=one, far=other) for one in (0, near) for other in (0, far))
        if sizes.batches * sizes.outer > 1:
            yield Variant(kernel, near=NEXT)


def _may_stream(variant: Variant, sizes: Sizes, alignment: int) -> bool:
    """Whether non-temporal stores of a variant are aligned; stores of scalars align themselves."""
    if sizes.row in SCALAR_BYTES:
        return variant.kernel != "loop" and not sizes.columns
    vector = VECTOR_BYTES[variant.kernel]
    return vector > 1 and sizes.row % vector == 0 and alignment % vector == 0


class ByHand(Peer):
    """C by hand with all indices checked before the first is used; a new result may also check each as it is used."""

    name = "c"
    checks: ClassVar[tuple[str, ...]] = (SEPARATE,)
    new_checks: ClassVar[tuple[str, ...]] = (SEPARATE, FUSED)

    def __init__(self, options: tuple[str, ...] = OPTIONS) -> None:
        self.library = load_library(options)
        self.version = c_compiler("C by hand")

    def rejection(self, case: Case) -> str | None:
        return f"{SOURCE.name} has no loop for it" if sizes_of(case) is None else None

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        sizes, fresh = sizes_of(case), case.into == "new"
        assert sizes is not None, "a case without a loop is rejected"
        alignment = LINE_BYTES if fresh else inputs.out.ctypes.data & -inputs.out.ctypes.data
        streams = (False, True) if case.gathered_bytes >= STREAMED_FROM_BYTES else (False,)
        found = list(_scalar_variants(sizes) if sizes.row in SCALAR_BYTES else _row_variants(sizes))
        checks = self.new_checks if fresh else self.checks
        variants = (
            variant._replace(stream=stream, threads=threads, check=check, fresh=fresh)
            for check, variant, stream, threads in itertools.product(checks, found, streams, sorted({1, self.threads}))
            if self.library.has_kernel(KERNELS.index(variant.kernel), sizes.row, sizes.columns)
            and (not stream or _may_stream(variant, sizes, alignment))
        )
        return {
            str(variant): [self._call(sizes, inputs, picks, variant) for picks in inputs.indices]
            for variant in variants
        }

    def _call(self, sizes: Sizes, inputs: Inputs, picks: np.ndarray, variant: Variant) -> Call:
        """Return the call of a variant with a set of indices, which returns its job and the indices out of range."""
        arrays = (array.ctypes.data for array in (inputs.data, picks, inputs.out))
        kernel, *how, check, fresh = variant
        job = Job(*arrays, *sizes, KERNELS.index(kernel), *how, CHECKS.index(check), fresh)
        gather, place = self.library.gather, ctypes.byref(job)
        return lambda: (job, gather(place), inputs)  # the job has addresses in the arrays of `inputs`

    def result(self, returned: Any, out: np.ndarray) -> np.ndarray:
        job, outside, _ = returned
        if outside:
            raise GathernestError(f"C by hand finds {outside} indices out of range; mend asv_bench/by_hand.c")
        return np.frombuffer(ctypes.string_at(job.out, out.nbytes), out.dtype).reshape(out.shape)


class FusedByHand(ByHand):
    """C by hand that checks each index as it uses it, and has written to a given result by then."""

    name = "c-fused"
    checks = new_checks = (FUSED,)


class UncheckedByHand(ByHand):
    """C by hand that checks no index."""

    name = "c-unchecked"
    checks = new_checks = (UNCHECKED,)


def load_library(options: tuple[str, ...] = OPTIONS) -> Any:
    """Compile the file, or find it in the cache folder, and load it.

    Raises:
        DependencyError: there is no C compiler.
        GathernestError: the compiler fails; its first line is in the message.
    """
    compiler = c_compiler("C by hand")
    facts = "\n".join([compiler, str(os.stat(compiler).st_mtime_ns), cpu_model(), *options]).encode()
    folder = cache_folder() / "by_hand"
    path = folder / f"{hashlib.sha256(SOURCE.read_bytes() + facts).hexdigest()[:16]}.so"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as making:
            made = Path(making) / path.name
            run_c_compiler(compiler, [*options, str(SOURCE)], made, f"compile {SOURCE}")
            try:
                _loaded(made)
            except (OSError, AttributeError) as error:
                raise GathernestError(f"{compiler} makes a library that cannot be loaded ({error}); set CC") from None
            made.replace(path)
    return _loaded(path)


def _loaded(path: Path) -> Any:
    """Return a compiled file; raises OSError or AttributeError where it is none."""
    library = ctypes.CDLL(str(path))
    library.gather.restype, library.gather.argtypes = ctypes.c_int64, [ctypes.POINTER(Job)]
    library.has_kernel.argtypes = [ctypes.c_int64] * 3
    return library
