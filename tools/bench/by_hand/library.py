"""The C library of gathers written by hand: compiled for this CPU by the system's compiler, and called by ctypes.

The compiled library is stored in the cache folder, under a digest of its source, the compiler and its options.
"""

import ctypes
import hashlib
import math
import os
import tempfile
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ....ir.errors import GathernestError
from ....kernels.host.c_compiler import c_compiler, run_c_compiler
from ....kernels.host.cache_folder import cache_folder
from ....kernels.host.cpu import PACKAGE, cpu_model
from ..cases.case import Case, Inputs

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


class Job(ctypes.Structure):
    """The file's `Job`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("data", "indices", "out")),
        *((name, ctypes.c_int64) for name in ("batches", "outer", "count", "axis", "row", "columns")),
        *((name, ctypes.c_int64) for name in ("kernel", "staged", "near", "far", "stream", "threads")),
        *((name, ctypes.c_int64) for name in ("check", "fresh")),
    )


@dataclass(frozen=True, slots=True)
class Sizes:
    """A gather as the file sees it: numbers of batches, outer slices, indices and positions, and bytes of a row.

    Attributes:
        columns: elements of a row of indices where each has an index of its own, otherwise 0.
    """

    batches: int
    outer: int
    count: int
    axis: int
    row: int
    columns: int


@dataclass(frozen=True, slots=True)
class Variant:
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


class Library:
    """The compiled file."""

    def __init__(self, path: Path):
        loaded = ctypes.CDLL(str(path))
        self._gather = loaded.gather
        self._gather.restype, self._gather.argtypes = ctypes.c_int64, [ctypes.POINTER(Job)]
        self._has_kernel = loaded.has_kernel
        self._has_kernel.argtypes = [ctypes.c_int64] * 3

    def has_kernel(self, kernel: str, sizes: Sizes) -> bool:
        """Return whether the file, as compiled, has a kernel for such rows."""
        return bool(self._has_kernel(KERNELS.index(kernel), sizes.row, sizes.columns))

    def job(self, sizes: Sizes, inputs: Inputs, number: int, variant: Variant) -> Job:
        """Return the job of a case's set of indices of that number; `inputs` must live as long."""
        arrays = (array.ctypes.data for array in (inputs.data, inputs.indices[number], inputs.out))
        kernel, staged, near, far, stream, threads, check, fresh = astuple(variant)
        way = KERNELS.index(kernel), staged, near, far, stream, threads, CHECKS.index(check), fresh
        return Job(*arrays, *astuple(sizes), *way)

    def call(self, job: Job) -> Callable[[], int]:
        """Return a call that runs a job, and returns how many indices are out of range."""
        return partial(self._gather, ctypes.byref(job))

    def result(self, job: Job, like: np.ndarray) -> np.ndarray:
        """Return the result of a job that was run, as a copy of the shape and dtype of an array."""
        return np.frombuffer(ctypes.string_at(job.out, like.nbytes), like.dtype).reshape(like.shape)


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


def built(options: tuple[str, ...] = OPTIONS) -> Library:
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
                Library(made)
            except (OSError, AttributeError) as error:
                raise GathernestError(f"{compiler} makes a library that cannot be loaded ({error}); set CC") from None
            made.replace(path)
    return Library(path)
