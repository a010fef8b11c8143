"""`Kernel.address`, `Kernel.cfunc` and `Kernel.c_header`: a kernel for callers that are not Python."""

import ctypes
import gc
import threading

import numba
import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.lowering.native import kernel_code
from gathernest.lowering.schedule.checks import FusedCheck

TILES = "tile-loops{loops=indices sizes=4},parallelize-loops{loops=indices_o}"
SHAPES = {"data": "9x4xf32", "indices": "6xi64"}


@pytest.fixture(autouse=True)
def plain_schedules(monkeypatch):
    """Serial kernels, which compile quickly."""
    monkeypatch.setenv("GATHERNEST_SCHEDULE", " ")


@pytest.fixture
def lookup():
    return gn.compile("gather", **SHAPES)


@pytest.fixture
def arrays():
    """Data, indices and an array for the result, all of its elements 7."""
    data = np.arange(36, dtype=np.float32).reshape(9, 4)
    return data, np.array([0, 8, -9, -1, 3, 3]), np.full((6, 4), 7, np.float32)


def call(kernel, data, indices, out) -> int:
    return kernel.cfunc(data.ctypes, indices.ctypes, out.ctypes)


def test_address_is_that_of_a_c_function(lookup, arrays):
    data, indices, out = arrays
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)(lookup.address)
    assert function(data.ctypes.data, indices.ctypes.data, out.ctypes.data) == 0
    assert out.tobytes() == data[indices].tobytes()


def test_a_call_that_fails_counts_the_indices_and_leaves_out_untouched(arrays):
    """Also where calls of the kernel, which make a new result, check each tile right before it is copied."""
    kernel = gn.compile("gather", **SHAPES, schedule=TILES)
    assert kernel.plan.check == FusedCheck("indices_o", False)
    data, indices, out = arrays
    indices[[4, 5]] = 9, -10
    assert call(kernel, data, indices, out) == 2
    assert np.all(out == 7)


def test_a_function_of_numba_calls_it(lookup, arrays):
    data, indices, out = arrays
    function = lookup.cfunc

    @numba.njit
    def twice(data, indices, out):
        first = function(data.ctypes, indices.ctypes, out.ctypes)
        indices[0] = 9
        return first, function(data.ctypes, indices.ctypes, out.ctypes)

    expected = data[indices]
    assert twice(data, indices, out) == (0, 1)
    assert out.tobytes() == expected.tobytes()


# The arguments of `compile`, by what they show.
PROBLEMS = {
    "nd": ("gather_nd", "3x4x5xi16", "7x2xi32", {}),
    "elements of an axis": ("gather_elements", "3x5xf64", "3x2xui8", {"axis": 1}),
    "zeros outside": ("gather", "3x5x2xbf16", "4xi8", {"axis": 1, "bounds": "zero"}),
    "batches": ("gather", "2x5xc64", "2x3xi64", {"axis": 1, "batch_dims": 1, "bounds": "wrap"}),
    "strided data": ("gather", "4x3xi8 strided<[1, 4]>", "2xi32", {"bounds": "clip"}),
    "a scaled gradient": ("gather_grad", "5x3xf32", "8xi64", {"scale": -0.5}),
    "bags": ("gather_reduce", "5x3xf32", "4x2xi64", {}),
}


@pytest.mark.draw(3)
@pytest.mark.parametrize(("operator", "data", "indices", "options"), PROBLEMS.values(), ids=PROBLEMS)
def test_it_gives_the_bytes_of_the_kernel(operator, data, indices, options):
    kernel = gn.compile(operator, data, indices, **options)
    problem, rng = kernel.problem, np.random.default_rng(0)
    source = problem.source
    memory = rng.integers(0, 99, source.size).astype(source.dtype)
    read = np.lib.stride_tricks.as_strided(memory, source.shape, source.strides)
    least = -min(problem.axis_sizes) if problem.indices.dtype.kind == "i" else 0
    picks = rng.integers(least, min(problem.axis_sizes), problem.indices.shape).astype(problem.indices.dtype)
    out = np.full(problem.result.shape, 7).astype(problem.result.dtype)
    assert call(kernel, read, picks, out) == 0
    assert out.tobytes() == kernel(read, picks).tobytes()


@pytest.mark.parametrize(
    ("data", "indices", "bounds", "outside", "value"),
    [("0x4xf32", "5xi64", "error", 5, 7), ("0x4xf32", "5xi64", "zero", 0, 0), ("9x4xf32", "0xi64", "error", 0, 7)],
    ids=["an empty axis", "an empty axis of zeros", "no indices"],
)
def test_sizes_that_leave_nothing_to_run_need_no_kernel(data, indices, bounds, outside, value):
    kernel = gn.compile("gather", data, indices, bounds=bounds)
    out = np.full((5, 4), 7, np.float32)
    assert call(kernel, out, np.zeros(5, np.int64), out) == outside
    assert np.all(out == value)


@pytest.mark.usefixtures("forget")
def test_the_code_lives_as_long_as_the_kernel_or_cfunc_and_no_longer(arrays):
    data, indices, out = arrays
    kernel = gn.compile("gather", **SHAPES, bounds="zero")
    address, function = kernel.address, kernel.cfunc
    RUNTIME.loaded.clear()
    del kernel
    gc.collect()  # frees kernels of other tests too
    assert address not in kernel_code._GONE
    assert function(data.ctypes, indices.ctypes, out.ctypes) == 0
    del function
    gc.collect()
    assert address in kernel_code._GONE


def test_threads_that_ask_at_once_get_one_address():
    kernel, found = gn.compile("gather", **SHAPES), list[int]()
    barrier = threading.Barrier(4)

    def ask() -> None:
        barrier.wait()
        found.append(kernel.address)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [kernel.address] * 4


def test_the_interpreter_has_no_address(monkeypatch):
    monkeypatch.setenv("GATHERNEST_INTERPRET", "1")
    kernel = gn.compile("gather", **SHAPES)
    with pytest.raises(gn.GathernestError, match=r"^GATHERNEST_INTERPRET=1 makes no machine code.*; unset it$"):
        kernel.address  # noqa: B018


def test_header_names_types_sizes_and_range(lookup):
    text = lookup.c_header()
    name = "gn_gather_9x4xf32_by_6xi64"
    assert f"int64_t {name}(const float *data, const int64_t *indices, float *out);" in text
    assert f"typedef int64_t (*{name}_t)(const float *data, const int64_t *indices, float *out);" in text
    assert " *   out: 6x4xf32\n *   In range: [-9, 8] of axis 0. */" in text
    assert "#ifndef GATHERNEST_GN_GATHER_9X4XF32_BY_6XI64_H" in text
    assert "int64_t rows_of(const float *data" in lookup.c_header("rows_of")
